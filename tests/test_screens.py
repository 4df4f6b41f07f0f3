"""What a person sees: screens that fit, say what is wrong first, and nothing that a terminal would obey."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

import epoxy
from epoxy.cli import main
from epoxy.cli.inspection import rows_of_function
from epoxy.cli.row_view import half_blocks
from epoxy.project.create import new_project
from test_cli import LFS, fails, write_plain_project, write_rows

NASTY = "\x1b[31m\x9b2J\x07‮"
SCREENS = [
    ["report", "p"],
    ["report", "p", "money"],
    ["report", "p", "--all", "--detail"],
    ["explain", "p", "20"],
    ["explain", "p", "20", "--all"],
    ["label", "p"],
    ["theory", "p"],
    ["encoders", "p"],
    ["tune", "p"],
    ["tune", "p", "--model", "epoxy"],
    ["next", "p"],
    ["suggest", "p"],
    ["set", "p", "money", "--radius", "0.3"],
    ["annotate", "p", "--times", "1"],
]


@pytest.fixture
def project(voted, tmp_path, monkeypatch) -> Path:
    made: Path = voted(write_plain_project, tmp_path)
    monkeypatch.chdir(made.parent)
    return made


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    """Rows of long texts, ids and functions that hold what a terminal would obey."""
    home = tmp_path_factory.mktemp("hostile")
    lines = write_rows(home / "rows.csv").read_text().splitlines()[1:]
    with (home / "rows.jsonl").open("w") as file:
        for line in lines:
            name, text, label = line.split(",")
            more = f" {'and so on' * 30} 漢字 {NASTY}"
            file.write(
                json.dumps({"id": NASTY + name, "text": text + more, "label": label or None})
            )
            file.write("\n")
    code = LFS.replace('name="song"', f'name="song{"_very" * 20}\\x1b[2J"')
    new_project(home / "p", home / "rows.jsonl", lfs=code)
    return home


@pytest.mark.parametrize("columns", [100, 60])
@pytest.mark.parametrize("command", SCREENS, ids=" ".join)
def test_no_screen_is_wider_than_the_terminal_or_obeyed_by_it(
    command, columns, hostile, monkeypatch, capsys
):
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdin", io.StringIO("1"))

    assert main(command) == 0

    said = capsys.readouterr().out
    copied = ("epoxy ", "back: ", "label rows", "take them", "label them")  # are not broken
    wide = [line for line in said.splitlines() if cell_len(line) > columns]
    assert [line for line in wide if not line.strip().startswith(copied)] == []
    assert not set(said) & {chr(at) for at in [*range(10), *range(11, 32), 127, 0x9B, 0x202E]}


def test_explain_shows_the_row_and_those_behind_it_and_nothing_that_weighs_nothing(project, capsys):
    assert main(["explain", "spam", "r41", "--json", "why.json"]) == 0

    said = capsys.readouterr().out
    why = json.loads(Path("why.json").read_text())
    assert "check out my channel" in said
    assert not re.search(r"[+-]0\.00\b", said)
    behind = {str(row) for voice in why["voices"] for row in voice["rows"]}
    assert behind
    assert any(each in said for each in behind), "a row behind it by its id"
    total = why["start"] + sum(voice["weight"] for voice in why["voices"])
    assert why["log_odds"] == pytest.approx(total, abs=1e-5)


def test_theory_fits_a_screen(project, capsys):
    assert main(["theory", "spam"]) == 0

    assert len(capsys.readouterr().out.splitlines()) <= 60


def test_report_has_the_confusion_of_hand_labels_and_held_out_ones(project, capsys):
    assert main(["report", "spam", "--json", "r.json"]) == 0

    said, found = capsys.readouterr().out, json.loads(Path("r.json").read_text())
    matrix = next(each["rows"] for each in found["tables"] if each["title"] == "Confusion")
    assert "hand label ╲ model" in said
    assert sum(row["ham"] + row["spam"] for row in matrix) == found["summary"]["scores"]["rows"]
    right = sum(row[row["label"]] for row in matrix)
    assert right / 20 == pytest.approx(found["summary"]["scores"]["accuracy"])


def test_hand_labels_that_look_wrong_are_ranked_by_their_probability(project, capsys):
    rows = Path("rows.csv")
    rows.write_text(
        rows.read_text().replace("r3,money for free yes,spam", "r3,money for free yes,ham")
    )
    rows.write_text(re.sub(r"(r3,[^,]*),\w+", r"\1,ham", rows.read_text()))

    assert main(["report", "spam", "--json", "r.json"]) == 0

    said, found = capsys.readouterr().out, json.loads(Path("r.json").read_text())
    doubts = next(each["rows"] for each in found["tables"] if each["title"] == "Suspect labels")
    assert [(each["row"], each["label"], each["says"]) for each in doubts] == [
        ("r3", "ham", "spam")
    ]
    assert doubts[0]["probability"] < 0.05
    assert re.search(r"r3 +ham +\d\.\d% +spam", said)
    assert "epoxy annotate spam --purpose check" in said


def test_a_functions_wrong_and_missed_rows_and_conflicts_come_by_one_command(project, capsys):
    code = (project / "lfs.py").read_text()
    (project / "lfs.py").write_text(code.replace('"money", name="money"', '"song", name="money"'))

    assert main(["report", "spam", "money", "--json", "f.json"]) == 0

    said, found = capsys.readouterr().out, json.loads(Path("f.json").read_text())
    session = epoxy.Session.open(project)
    votes = {name: session.split(name).votes.column("money") for name in ("train", "dev")}
    y = session.split("dev").y
    wrong = (votes["dev"] >= 0) & (votes["dev"] != y)
    assert [each["row"] for each in found["wrong"]] == session.split("dev").ids[wrong].tolist()
    assert all(each["truth"] == "spam" and each["vote"] is None for each in found["missed"])
    assert len(found["missed"]) == int(((votes["dev"] < 0) & (y == 1)).sum())
    assert {each["row"] for each in found["conflicts"]} >= {each["row"] for each in found["wrong"]}
    assert "lovely song" in said, "a row is shown by its text"
    assert "no source named 'mony'; did you mean 'money'" in fails(capsys, "report", "spam", "mony")
    assert rows_of_function(session, "money")["wrong"] == found["wrong"]


def test_right_is_of_labels_that_are_believed_and_drawn_at_random(project):
    session = epoxy.Session.open(project)
    before = {each["source"]: each["accuracy_original"] for each in session.report().rows}
    money = np.flatnonzero(session.split().votes.column("money") >= 0)[:4]

    session.label(session.split().id_of(int(money[0])), "ham", by="a model", chosen="random")
    session.label(session.split().id_of(int(money[1])), "ham", chosen="teach")
    kept = {each["source"]: each["accuracy_original"] for each in session.report().rows}
    assert kept == before, "answers are no truth, and rows chosen to teach are hard"

    session.label(session.split().id_of(int(money[2])), "ham", chosen="random")
    after = {each["source"]: each["accuracy_original"] for each in session.report().rows}
    assert after["money"]["n"] == before["money"]["n"] + 1
    assert "how they were chosen is not known" in session.report().summary["right is of"]


def test_a_function_that_names_nothing_on_dev_is_told_by_what_it_names_elsewhere(project):
    with (project / "lfs.py").open("a") as file:
        file.write('\nlate = epoxy.regex("spam", "free.* oh$", name="late")\n')
    session = epoxy.Session.open(project)
    session = epoxy.Session.open(project)

    told = {each["source"]: each["polarity"] for each in session.report("dev").rows}

    assert told["late"] == ["spam"]


def test_label_says_how_many_functions_vote_on_how_many_rows(project, capsys):
    assert main(["label", "spam"]) == 0

    said = capsys.readouterr().out
    assert re.search(r"6 functions vote on \d+ of 100 unlabelled rows, the worst first", said)
    assert re.search(r"^ money +spam +\d+% +\d+ of \d+", said, re.MULTILINE)


def test_hand_labels_and_vectors_alone_label_rows(project, capsys):
    (project / "lfs.py").write_text("import epoxy\n")

    for command in ("label", "report", "next", "suggest", "tune", "encoders"):
        assert main([command, "spam"]) == 0
    assert main(["explain", "spam", "r41"]) == 0

    said = capsys.readouterr().out
    assert "labels rest on hand labels and vectors alone" in said
    assert epoxy.Session.open(project).scores["accuracy"] > 0.8


def test_watch_waits_for_the_first_function(tmp_path, capsys, monkeypatch):
    rows = write_rows(tmp_path / "rows.csv")
    assert main(["new", str(tmp_path / "p"), "--rows", str(rows)]) == 0
    lfs = tmp_path / "p" / "lfs.py"

    def save(seconds: float) -> None:
        lfs.write_text(LFS)

    monkeypatch.setattr("epoxy.cli.live.time.sleep", save)

    assert main(["watch", str(tmp_path / "p"), "--times", "1"]) == 0

    said = capsys.readouterr().out
    assert "no function yet; write one in lfs.py and save it" in said
    assert "6 functions, " in said.splitlines()[-1]


def test_encoders_are_compared_on_hand_labels_and_the_better_one_is_taken(project, capsys):
    y = np.tile([0.0, 1.0], 60)  # as the rows are labelled
    np.save(project / "v.npy", np.c_[1 - y, y] + np.random.default_rng(0).normal(0, 0.1, (120, 2)))
    np.save("noise.npy", np.random.default_rng(1).normal(size=(120, 4)))

    assert main(["encoders", "spam", "--try", "v.npy", "noise.npy", "--json", "e.json"]) == 0

    said, found = capsys.readouterr().out, json.loads(Path("e.json").read_text())["encoders"]
    told = {each["encoder"]: each for each in found}
    assert set(told) >= {"lsa", "static", "v.npy", "noise.npy"}
    assert [each["right"] for each in found] == sorted((e["right"] for e in found), reverse=True)
    assert told["static"]["right"] == epoxy.Session.open(project).scores["accuracy"]
    assert told["v.npy"]["unequal"] <= told["noise.npy"]["unequal"]
    assert told["noise.npy"]["low"] <= told["noise.npy"]["more"] <= told["noise.npy"]["high"]
    assert "static (this project's)" in said

    assert main(["encoders", "spam", "--take", "v.npy"]) == 0

    assert 'encoder = "v.npy"' in (project / "epoxy.toml").read_text()
    assert epoxy.Session.open(project).split().vectors.shape[1] == 2


def test_an_encoder_that_is_not_there_is_refused_before_any_row_is_embedded(
    project, capsys, monkeypatch
):
    monkeypatch.setattr("epoxy.project.project.read_vectors", None)
    before = (project / "epoxy.toml").read_text()
    for option in ("--try", "--take"):
        for name in ("nowhere.npy", "lss"):
            assert name in fails(capsys, "encoders", "spam", option, name)
    assert (project / "epoxy.toml").read_text() == before


def test_label_and_report_say_that_vectors_do_not_fit(project, capsys):
    np.save(project / "v.npy", np.random.default_rng(0).normal(size=(120, 4)))
    assert main(["encoders", "spam", "--take", "v.npy"]) == 0
    for command in ("label", "report"):
        capsys.readouterr()
        assert main([command, "spam"]) == 0
        assert "epoxy encoders spam" in capsys.readouterr().out


def test_a_class_with_a_blank_is_the_class_without(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("id,text,label\n1,aa,a\n2,bb,a \n3,cc, b\n4,dd,\n")

    made = new_project(tmp_path / "p", tmp_path / "rows.csv")

    assert made.classes == ("a", "b")


@pytest.mark.parametrize(("size", "code"), [(12, 0), (48, 2)])
def test_a_cell_of_many_megabytes_is_read_or_refused_in_words(size, code, tmp_path, capsys):
    big = "x" * (size << 20)
    (tmp_path / "rows.csv").write_text(f"id,text,label\n1,{big},a\n2,bb,b\n3,cc,\n")

    assert main(["new", str(tmp_path / "p"), "--rows", str(tmp_path / "rows.csv")]) == code

    said = capsys.readouterr().err
    assert ("a row of more than 16 MB" in said) == (code == 2)
    assert "straddling" not in said


def test_a_picture_is_shown_in_half_blocks():
    assert half_blocks(np.array([[0, 9, 9], [0, 0, 9], [9, 0, 0]])) == [" ▀█", "▀  "]


def test_help_says_that_labels_teach(capsys):
    assert main(["--help"]) == 0

    said = " ".join(capsys.readouterr().out.split())
    assert "Nothing is trained" not in said
    assert "labels given by hand teach the model" in said


def test_no_color_is_plain(project, monkeypatch, capsys):
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    assert main(["report", "spam"]) == 0
    assert "\x1b[" in capsys.readouterr().out

    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["report", "spam"]) == 0
    assert "\x1b[" not in capsys.readouterr().out
