"""`epoxy bench` as a person runs it: what it prints, writes, refuses, and how it ends."""

from __future__ import annotations

import sys

import pytest

from epoxy.bench import BenchColumn, loop
from epoxy.cli import main
from test_bench import constant, write_folder


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "toy")


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = main(["bench", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_folder_that_is_not_there_ends_with_2_and_writes_nothing(tmp_path, capsys):
    code, out, err = run(capsys, "--data", tmp_path / "typo", "--out", tmp_path / "out")

    assert code == 2
    assert out == ""
    assert "typo does not exist; expected the folder of a data set" in err
    assert err.endswith("nothing could be scored, for the reasons above; nothing was written\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_cannot_be_scored_does_not_stop_the_others(folder, tmp_path, capsys):
    blind = write_folder(tmp_path / "blind", test=0)

    code, out, err = run(
        capsys, "--data", blind, folder, "--methods", "WS-LM, MV-LM", "--out", tmp_path / "out"
    )

    assert code == 0
    assert "'blind' has no test rows with true labels" in err
    assert [line.split()[0] for line in out.splitlines() if "-LM" in line][:2] == ["WS-LM", "MV-LM"]
    assert "blind" in (tmp_path / "out" / "benchmarks.md").read_text()


def test_a_place_for_json_that_is_not_there_is_refused_before_the_work(folder, tmp_path, capsys):
    where = tmp_path / "nowhere" / "bench.json"

    code, _, err = run(capsys, "--data", folder, "--out", tmp_path / "out", "--json", where)

    assert code == 2
    assert "bench.json is in no folder; make it first" in err
    assert not (tmp_path / "out").exists()


def test_pages_are_made_again_from_a_result(folder, tmp_path, capsys):
    run(capsys, "--data", folder, "--methods", "MV-LM", "--out", tmp_path / "out")

    code, _, _ = run(capsys, "--render", tmp_path / "out" / "bench.json", "--out", tmp_path / "new")

    pages = [tmp_path / name / "benchmarks.md" for name in ("out", "new")]
    assert code == 0
    assert pages[0].read_text() == pages[1].read_text()


def test_ctrl_c_says_how_to_go_on(folder, tmp_path, capsys, monkeypatch):
    def interrupted(context):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        loop, "COLUMNS", (BenchColumn("one", constant), BenchColumn("two", interrupted))
    )
    code, _, err = run(capsys, "--data", folder, "--out", tmp_path / "out")

    assert code == 130
    assert "cells; the same command again goes on from there" in err
    assert len(list((tmp_path / "out" / "cells").rglob("one-*.json"))) == 1


def test_ws_lm_with_the_papers_balance_prints_the_published_figure(shared_data, tmp_path, capsys):
    code, out, _ = run(
        capsys,
        *("--data", shared_data / "spam", "--class-balance", "0.4,0.6", "--methods", "WS-LM"),
        *("--out", tmp_path / "out"),
    )

    assert code == 0
    assert ["WS-LM", "83.6"] in [line.split() for line in out.splitlines()]


def test_what_is_not_installed_is_skipped_with_the_cure(folder, tmp_path, capsys, monkeypatch):
    for name in ("snorkel", "snorkel.labeling", "snorkel.labeling.model"):
        monkeypatch.setitem(sys.modules, name, None)

    code, out, err = run(
        capsys, "--data", folder, "--methods", "MV-LM,DP-LM", "--out", tmp_path / "out"
    )

    assert code == 0
    assert "MV-LM" in out
    assert "toy · DP-LM: the Snorkel label model needs snorkel; run: pip install" in err
