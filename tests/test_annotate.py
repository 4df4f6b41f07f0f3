"""Labelling by keyboard at the terminal."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

import epoxy
from epoxy.cli import main
from epoxy.cli.rows_to_label import class_keys
from epoxy.cli.rows_to_label import label_rows as annotate
from epoxy.errors import ParameterError
from epoxy.project.create import new_project
from test_cli import LFS, write_plain_project, write_rows
from test_terminal import Watched
from test_verbs import in_groups


@pytest.fixture
def project(voted, tmp_path):
    return voted(write_plain_project, tmp_path)


def keys(text: str):
    pressed = iter(text)
    return lambda: next(pressed, "")


def test_a_digit_labels_the_row_that_next_suggests_with_how_it_was_chosen(project):
    session = epoxy.Session.open(project)
    before = session.hand_labelled().n_rows
    first = session.next(1)[0]

    assert annotate(session, keys("2"), "mix") == 1

    assert session.hand_labelled().n_rows == before + 1
    at = session.names.index(first.split)
    assert session.outcome.decided[at][first.row] == session.classes.index("spam")
    assert session.state.records.of((at, first.row))[0].chosen == first.chosen


@pytest.mark.parametrize("ids", ["numbers", "none"])
def test_the_row_that_is_shown_is_labelled_where_ids_are_numbers(ids, tmp_path, capsys):
    rows = write_rows(tmp_path / "rows.csv")
    lines = rows.read_text().replace("\nr", "\n").splitlines()
    rows.write_text("\n".join(lines if ids == "numbers" else [x.split(",", 1)[1] for x in lines]))
    new_project(tmp_path / "spam", rows, lfs=LFS)
    session = epoxy.Session.open(tmp_path / "spam")
    first = session.next(1, "teach")[0]
    assert first.id != str(first.row)

    assert annotate(session, keys("w2"), "teach") == 1

    labelled = [place for place, said in session.state.records.rows.items() if said[-1].chosen]
    assert labelled == [(0, first.row)]
    assert re.search(rf"^row {first.id}: (ham|spam)$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("purpose", ["mix", "teach", "score", "cover", "conflict", "check"])
def test_next_prints_the_rows_that_a_session_suggests_with_reasons(
    project, capsys, purpose, tmp_path
):
    session = epoxy.Session.open(project)
    wanted = session.next(4, purpose, seed=3)

    target = str(tmp_path / "next.json")
    options = ["-n", "4", "--purpose", purpose, "--seed", "3", "--json", target]
    assert main(["next", str(project), *options]) == 0

    said = " ".join(capsys.readouterr().out.split())
    told = json.loads((tmp_path / "next.json").read_text())["rows"]
    assert [(each["id"], each["reason"], each["chosen"]) for each in told] == [
        (each.id, each.reason, each.chosen) for each in wanted
    ]
    for each in told:
        assert f"{each['id']} {each['purpose']}: {each['reason']}" in said
        assert each["text"] in said
    assert wanted or f"no row is left to ask for {purpose!r}; try another --purpose" in said
    assert session.folder.log.records() == []  # as they are on disk, whoever wrote them


def test_skipped_rows_do_not_come_again_and_undo_takes_the_last_label_back(project, capsys):
    session = epoxy.Session.open(project)
    before = session.hand_labelled().n_rows

    done = annotate(session, keys("sss1u"), "teach")

    asked = [line for line in capsys.readouterr().out.splitlines() if line.startswith("row ")]
    rows = [line.split(":")[0] for line in asked]
    assert done == 0
    assert session.hand_labelled().n_rows == before
    assert len(set(rows[:4])) == 4
    assert rows[3] == rows[5]  # what was taken back is asked again


def test_a_skipped_row_that_was_drawn_at_random_is_followed_by_another_in_its_turn(project):
    session = epoxy.Session.open(project)

    annotate(session, keys("11s" + 7 * "1"), "mix")  # the third is drawn at random

    words = [each.chosen for (each,) in session.state.records.rows.values()]
    assert words == [
        "teach",
        "teach",
        "random",
        "teach",
        "teach",
        "random",
        "teach",
        "teach",
        "random",
    ]


def test_a_label_that_looks_wrong_and_is_confirmed_is_not_asked_about_again(capsys):
    texts = [f"row {each}" for each in range(200)]
    session = epoxy.Session(in_groups(), in_groups(), epoxy.Fusion(), rows=(texts, texts))
    for row in (3, 4, 110):  # all of class x
        session.label(row, "y", chosen="random")

    assert annotate(session, keys("yyuyy"), "check") == 3

    out = capsys.readouterr().out
    asked = [line.split(":")[0] for line in out.splitlines() if line.startswith("row ")]
    assert set(asked) == {"row 3", "row 4", "row 110"}
    assert len(set(asked[:3])) == 3
    assert asked[3:] == asked[1:3]  # the second was taken back, so it is asked about again
    assert "no row is left to ask for 'check'" in out


def test_why_explains_the_row_and_an_unknown_key_labels_nothing(project, capsys):
    session = epoxy.Session.open(project)
    version = session.version

    annotate(session, keys("w9uq"), "mix")

    out = capsys.readouterr().out
    assert "log-odds of" in out
    assert "no key '9' here" in out
    assert "there is no edit to undo" in out
    assert session.version == version


def test_classes_of_one_character_are_their_own_keys_and_too_many_are_refused():
    assert class_keys(("0", "1", "7")) == {"0": "0", "1": "1", "7": "7"}
    assert class_keys(("ham", "spam")) == {"1": "ham", "2": "spam"}
    assert class_keys(("s", "q")) == {"1": "s", "2": "q"}  # these keys do something else
    with pytest.raises(ParameterError, match=r"40 classes are more than there are keys \(31\)"):
        class_keys(tuple(f"class {each}" for each in range(40)))


def test_keys_may_be_piped_in_and_the_end_of_the_pipe_ends_it(project, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("2\n1\n"))

    assert main(["annotate", str(project)]) == 0

    assert "2 labels given, all kept" in capsys.readouterr().out


def test_labels_at_a_terminal_survive_a_kill(project):
    before = epoxy.Session.open(project).hand_labelled().n_rows
    terminal = Watched("annotate", str(project))
    terminal.until("[q] end", 120)
    for count in range(1, 9):
        terminal.drawn = ""
        os.write(terminal.file, b"2" if count % 2 else b"1")
        terminal.until(f"{before + count} labelled")
    os.kill(terminal.pid, signal.SIGKILL)
    os.waitpid(terminal.pid, 0)
    os.close(terminal.file)

    assert epoxy.Session.open(project).hand_labelled().n_rows == before + 8


class Tmux:
    """A command in tmux, which draws the screen a person sees; its server is this test's own."""

    def __init__(self, socket, *command: str) -> None:
        self._socket = str(socket)
        line = f"exec {shlex.join(command)}"
        self("new-session", "-d", "-x", "110", "-y", "45", line)
        self.pid = int(self("display-message", "-p", "#{pane_pid}"))

    def __call__(self, *arguments: str) -> str:
        command = ["tmux", "-f", os.devnull, "-S", self._socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def until(self, words: str, seconds: float = 60.0) -> str:
        """The screen when these words stand on it."""
        end = time.monotonic() + seconds
        while words not in (screen := self("capture-pane", "-p")):
            assert time.monotonic() < end, f"no {words!r} in {seconds} s, but {screen}"
            time.sleep(0.01)
        return screen


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_thirty_labels_in_tmux_are_all_there_after_a_kill(project, tmp_path):
    before = epoxy.Session.open(project).state.records.rows
    labelled = epoxy.Session.open(project).hand_labelled().n_rows
    tmux = Tmux(tmp_path / "tmux", sys.executable, "-m", "epoxy", "annotate", str(project))
    try:
        given = {}
        for count in range(30):
            screen = tmux.until(f"{labelled + count} labelled", 120 if count == 0 else 60)
            (row,) = (line for line in screen.splitlines() if line.startswith("row "))
            key, name = (("1", "ham"), ("2", "spam"))[count % 2]
            given[row.split(":")[0].removeprefix("row ")] = name
            tmux("send-keys", key)
        tmux.until(f"{labelled + 30} labelled")
        os.kill(tmux.pid, signal.SIGKILL)
    finally:
        tmux("kill-server")

    session = epoxy.Session.open(project)
    names, classes = session.state.names, session.classes
    since = {
        names.name(place)[1]: classes[records[-1].label]
        for place, records in session.state.records.rows.items()
        if place not in before
    }
    assert len(given) == 30
    assert since == given
