"""The first hour with a project: wrong files and settings get a sentence, and output is safe to look at."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import epoxy
from epoxy.cli import main
from epoxy.errors import EpoxyError
from epoxy.progress import bar
from epoxy.project.create import new_project
from epoxy.project.tables import read_rows
from epoxy.terminal import harmless
from test_cli import LFS, fails, write_rows


@pytest.fixture
def rows(tmp_path) -> Path:
    return write_rows(tmp_path / "rows.csv")


@pytest.fixture
def project(tmp_path, rows) -> Path:
    new_project(tmp_path / "spam", rows, options={"kind": "epoxy"}, lfs=LFS)
    return tmp_path / "spam"


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


# making a project


@pytest.mark.parametrize(
    ("classes", "options", "message"),
    [
        (["ham"], {}, "--classes names 'ham' alone; name at least two"),
        (["ham", "ham"], {}, "epoxy.toml names 2 classes .* all different"),
        (["ham", ""], {}, "none empty"),
        (["ham", "eggs"], {}, "rows.csv has the label 'spam' on "),
        (None, {"positive": "spma"}, "epoxy.toml: no class named 'spma'; did you mean 'spam'"),
        (None, {"encoder": "lse"}, "epoxy.toml: no encoder named 'lse'"),
        (None, {"kind": "fuson"}, "epoxy.toml: no model named 'fuson'; did you mean 'fusion'"),
        (None, {"encoder": "nowhere.npy"}, "there is no file nowhere.npy"),
        (None, {"dev": "nowhere.csv"}, "there is no file nowhere.csv"),
        (None, {"label": "gold"}, "no column of .*rows.csv named 'gold'"),
    ],
)
def test_a_new_project_is_checked_when_it_is_made(classes, options, message, rows, tmp_path):
    with pytest.raises(EpoxyError, match=message):
        new_project(tmp_path / "p", rows, classes=classes, options=options)

    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("", r"no row of the dev file .*dev.csv has a label; label some of its rows"),
        ("ham", r"dev.csv has a label, and rows of .*rows.csv do; swap the two files"),
    ],
)
def test_a_dev_file_without_labels_is_refused_when_the_project_is_made(labels, message, tmp_path):
    (tmp_path / "rows.csv").write_text(f"text,label\nlovely song,{labels}\nfree money,\n")
    (tmp_path / "dev.csv").write_text("text,label\nwin money,\nsong,\n")

    with pytest.raises(EpoxyError, match=message):
        new_project(
            tmp_path / "p",
            tmp_path / "rows.csv",
            classes=["ham", "spam"],
            options={"dev": str(tmp_path / "dev.csv")},
        )


@pytest.mark.parametrize(
    ("header", "ids", "where"),
    [("id,", ("a,", "b,", "c,"), "the row with id 'c'"), ("", ("", "", ""), "row 2")],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_misspelt_class_is_told_with_its_row_and_the_nearest(
    header, ids, where, apart, tmp_path, capsys
):
    labels = ("", "ham", "spma")
    lines = [f"{name}text {at},{each}" for at, (name, each) in enumerate(zip(ids, labels))]
    wrong = tmp_path / "labelled.csv"
    wrong.write_text("\n".join([f"{header}text,label", *lines, ""]))
    rows = tmp_path / "rows.csv"
    rows.write_text(f"{header}text,label\n{ids[0]}nothing,\n")
    files = ["--rows", str(rows), "--dev", str(wrong)] if apart else ["--rows", str(wrong)]

    said = fails(capsys, "new", str(tmp_path / "p"), *files, "--classes", "ham,spam")

    assert f"labelled.csv has the label 'spma' on {where}; did you mean 'spam'? expected" in said
    assert "expected one of ['ham', 'spam'] or nothing; correct it there" in said


def test_vectors_are_found_where_the_person_is(rows, tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.random.default_rng(0).normal(size=(120, 3)))

    new_project("p", "rows.csv", options={"encoder": "v.npy"}, lfs=LFS)

    assert 'encoder = "../v.npy"' in Path("p/epoxy.toml").read_text()
    assert epoxy.Session.open("p").split().vectors.shape[1] == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,text\n1,café\n".encode("latin-1"), "column 'text' of .* is not UTF-8 text"),
        (
            "a.csv",
            "id,café\n1,x\n".encode("latin-1"),
            "the header of .* is not UTF-8 text; convert",
        ),
        ("a.csv", b"id,text,text\n1,x,y\n", r"more than one column named \['text'\]; rename"),
        (
            "a.csv",
            b"id;text;label\n1;x;ham\n",
            "has a single column, 'id;text;label', as files have whose cells are separated by ';' and",
        ),
        ("a.tsv", b"id,text\n1,x\n", r"separated by ',' and not by '\\t'; write it with"),
        (
            "a.jsonl",
            b'{"id": 1, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
            "line 1 of .* is nested more than 64 levels deep",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(name, content, message, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)

    said = fails(
        capsys,
        *("new", str(tmp_path / "p"), "--rows", str(tmp_path / name), "--classes", "ham,spam"),
    )

    assert re.search(message, said)


def test_text_with_brackets_in_it_is_not_nested(tmp_path):
    line = json.dumps({"id": 1, "text": "[{" * 500 + '\\"'})
    (tmp_path / "a.jsonl").write_text(line + "\n")

    made = new_project(tmp_path / "p", tmp_path / "a.jsonl", classes=["ham", "spam"])

    assert made.column == "text"


@pytest.mark.parametrize(
    ("header", "classes"),
    [
        ("id,text", "ham,spam"),
        ("id,the words", "0,1"),
        ("id,class", "a b,a-b,été,def"),
        ("id,te'xt", 'it\'s,"so"'),
    ],
)
def test_the_lines_of_the_template_define_functions_once_uncommented(
    header, classes, tmp_path, capsys
):
    (tmp_path / "rows.csv").write_text(f"{header}\n1,a word\n2,another one\n3,none of it at all\n")
    arguments = ["new", str(tmp_path / "p"), "--rows", str(tmp_path / "rows.csv")]
    assert main([*arguments, "--classes", classes]) == 0
    path = tmp_path / "p" / "lfs.py"
    text = path.read_text()

    path.write_text(re.sub(r"^# (?!What)", "", text, flags=re.MULTILINE))
    (tmp_path / "p" / "epoxy.toml").write_text(
        (tmp_path / "p" / "epoxy.toml").read_text().replace('"fusion"', '"epoxy"')
    )
    session = epoxy.Session.open(tmp_path / "p")

    assert len(session.sources) == len(classes.split(",")) + 1
    assert session.notes == ()
    assert session.split().votes.column(session.sources[0]).tolist() == [0, 0, -1]


# what reaches a terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\rb\x9b31mc\x7f", "a\\x0db\\x9b31mc\\x7f"),
        ("two\nlines\tand a tab", "two\nlines and a tab"),
        ("abc\u202edef\u2066", "abc\\x202edef\\x2066"),
        ("é ü 漢字 🙂 →", "é ü 漢字 🙂 →"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(text, shown):
    assert harmless(text) == shown


def test_no_command_passes_escape_sequences_on(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    lines = write_rows(tmp_path / "rows.csv").read_text().splitlines()[1:]
    nasty = "\x1b[31m\x9b2J\x07"
    with path.open("w") as file:
        for line in lines:
            name, text, label = line.split(",")
            row = {"id": nasty + name, "text": text + nasty, "label": label or None}
            file.write(json.dumps(row) + "\n")
    folder = tmp_path / "p"
    lfs = LFS.replace('name="money"', 'name="mon\\x1b[2Jey"')
    new_project(folder, path, options={"kind": "epoxy"}, lfs=lfs)
    with (folder / "lfs.py").open("a") as file:
        file.write(
            '\n\n@epoxy.labeling_function\ndef bad(row):\n    raise ValueError("\\x1b[5m" + row.text)\n'
        )

    for command in (
        ["label", "--allow-errors"],
        ["report", "--json", "-"],
        ["explain", f"{nasty}r50"],
    ):
        assert main([command[0], str(folder), *command[1:]]) == 0
    main(["explain", str(folder), f"{nasty}nobody"])
    said = capsys.readouterr()

    assert not set(said.out + said.err) & {chr(at) for at in [*range(9), *range(11, 32), 127, 0x9B]}
    assert "\\x1b[31m" in said.out
    assert "\\x1b[31m" in said.err


def test_a_terminal_that_knows_few_characters_gets_numbers_instead_of_a_traceback(project):
    done = subprocess.run(
        [sys.executable, "-m", "epoxy", "label", str(project / "café →")],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert done.returncode == 2
    assert b"caf\\xe9 \\u2192 is not a project folder" in done.stderr


# what is handed over


def test_columns_of_the_rows_can_be_exported_too(project, tmp_path, capsys):
    target = tmp_path / "out.parquet"

    assert main(["export", str(project), "--to", str(target), "--columns", "text"]) == 0

    table = pq.read_table(target)
    assert table.column_names[-2:] == ["truth", "text"]
    given = {row["id"]: row["text"] for row in read_csv(tmp_path / "rows.csv")}
    assert dict(zip(table["id"].to_pylist(), table["text"].to_pylist())) == given
    assert "no column of the rows named 'txt'; did you mean 'text'" in fails(
        capsys, "export", str(project), "--to", str(target), "--columns", "txt"
    )
    assert "the labels have a column 'label' of their own" in fails(
        capsys, "export", str(project), "--to", str(target), "--columns", "label"
    )
    assert "no format named 'excel'" in fails(
        capsys, "export", str(project), "--to", str(target), "--format", "excel"
    )


def test_cells_that_a_spreadsheet_would_run_are_quoted_in_csv_unless_raw(project, tmp_path):
    rows = tmp_path / "rows.csv"
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "harmless", "a=b"]
    rows.write_text(
        rows.read_text() + "".join(f"=x{at},{text},\n" for at, text in enumerate(texts))
    )
    safe, raw, lines = (tmp_path / name for name in ("safe.csv", "raw.csv", "out.jsonl"))

    for target, more in ((safe, []), (raw, ["--raw"]), (lines, [])):
        main(["export", str(project), "--to", str(target), "--columns", "text", *more])

    found = {path: read_csv(path)[-6:] for path in (safe, raw)}
    expected = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "harmless", "a=b"]
    assert [row["text"] for row in found[safe]] == expected
    assert [row["id"] for row in found[safe]] == [f"'=x{at}" for at in range(6)]
    assert [row["text"] for row in found[raw]] == texts
    assert json.loads(lines.read_text().splitlines()[-6])["text"] == "=1+1"


def test_odd_class_names_keep_their_probability_columns(tmp_path, rows):
    classes = ["ham", "spam", "label", "=x, y", "p_ham"]
    new_project(tmp_path / "p", rows, classes=classes, lfs=LFS)

    path = epoxy.Session.open(tmp_path / "p").export(tmp_path / "out.parquet")

    names = pq.read_table(path).column_names
    assert names[3:8] == [f"p_{name}" for name in classes]
    assert len(set(names)) == len(names)


# how it feels


def test_help_loads_nothing_heavy():
    code = """
import atexit, sys
from epoxy.cli import main
atexit.register(lambda: print("\\n", *sys.modules))
main(["--help"])
"""

    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    loaded = set(out.splitlines()[-1].split())
    assert loaded.isdisjoint({"sklearn", "scipy", "pandas", "pyarrow", "numba", "torch"})
    assert loaded.isdisjoint({"epoxy.session", "epoxy.votes", "epoxy.fusion"})


def test_opening_says_what_takes_long(project):
    told: list[str] = []

    def progress(what):
        told.append(what)
        return bar(what)

    epoxy.Session.open(project, progress=progress)

    assert told == [
        "voting, each function 60 s at most",
        "embedding",
        "finding neighbours",
        "fitting",
    ]


def test_functions_that_failed_are_named_where_nothing_can_be_labelled(project, capsys):
    bad = "\n\n@epoxy.labeling_function\ndef bad(row):\n    return ['no', 'class']\n"
    (project / "lfs.py").write_text(LFS[: LFS.index("free =")] + bad)

    assert main(["label", str(project)]) == 2

    said = capsys.readouterr()
    assert "bad" in said.out
    assert "needs at least 3 sources" in said.err


# names that are written in digits


@pytest.fixture
def of_digits(tmp_path) -> Path:
    """A project whose rows and classes are named by digits that a number would not keep."""
    words = ("a song of tears", "free money on my channel")
    lines = [f"{at:04},{words[at % 2]},{f'{at % 2 + 1:02}' if at < 6 else ''}" for at in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,text,label", *lines]) + "\n")
    code = LFS.replace('"ham"', '"01"').replace('"spam"', '"02"')
    new_project(tmp_path / "p", tmp_path / "rows.csv", options={"encoder": "none"}, lfs=code)
    return tmp_path / "p"


def test_ids_and_classes_keep_the_zeros_they_begin_with(of_digits, tmp_path):
    session = epoxy.Session.open(of_digits)

    session.label("0017", "02")

    assert session.classes == ("01", "02")
    assert session.split("dev").ids.tolist() == [f"{at:04}" for at in range(6)]
    written = read_csv(session.export(tmp_path / "labels.csv"))
    assert [each["id"] for each in written] == [f"{at:04}" for at in range(40)]
    assert "0017" in epoxy.Session.open(of_digits).hand_labelled().ids.tolist()


def test_new_rows_keep_the_zeros_their_ids_begin_with(of_digits, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("id,text\n0101,a song\n0102,free money\n")

    arguments = ["--new", str(tmp_path / "new.csv"), "--to", str(tmp_path / "new-labels.csv")]

    assert main(["label", str(of_digits), *arguments]) == 0
    written = read_csv(tmp_path / "new-labels.csv")
    assert [each["id"] for each in written] == ["0101", "0102"]


def test_columns_that_name_nothing_are_numbers_where_they_can_be(tmp_path):
    (tmp_path / "rows.csv").write_text("id,hour,score\n001,07,1.5\n002,08,2\n")

    table = read_rows(tmp_path / "rows.csv", naming=("id", "label", None))

    assert table["id"].to_pylist() == ["001", "002"]
    assert table["hour"].to_pylist() == [7, 8]


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["0007", "", "12"], ["0007", "", "12"]),
        (["7", "12"], [7, 12]),
        (["0", "10"], [0, 10]),
        (["-01", "2"], ["-01", "2"]),
        (["123456789012345678", "1"], [123456789012345678, 1]),
        (["12345678901234567890", "12345678901234567891"],) * 2,
        (["0.5", "1.25"], [0.5, 1.25]),
    ],
)
def test_names_in_digits_are_read_as_they_are_written(cells, read, tmp_path):
    lines = [f"{cell},x" for cell in cells]
    (tmp_path / "rows.csv").write_text("\n".join(["id,text", *lines]) + "\n")

    assert read_rows(tmp_path / "rows.csv", naming=("id",))["id"].to_pylist() == read


def test_a_new_project_says_rows_classes_labels_and_columns(rows, tmp_path, capsys):
    target = tmp_path / "new.json"

    assert main(["new", str(tmp_path / "p"), "--rows", str(rows), "--json", str(target)]) == 0

    said = capsys.readouterr().out
    told = json.loads(target.read_text())
    assert "120 rows of" in said
    assert "20 of them labelled" in said
    assert re.search(r"ham +10\n +spam +10\n", said)
    assert "columns: id (names rows), text (is embedded), label (true labels)" in said
    assert 'if they were drawn at random, write chosen = "random"' in said
    assert (told["rows"], told["labelled"], told["columns"]) == (120, 20, ["id", "text", "label"])


def test_rows_said_to_be_labelled_at_random_are_scored_as_such(rows, tmp_path, capsys):
    made = ["new", str(tmp_path / "p"), "--rows", str(rows), "--chosen"]
    assert main([*made, "random"]) == 0
    assert "not known" not in capsys.readouterr().out
    (tmp_path / "p" / "lfs.py").write_text(LFS)

    assert epoxy.Session.open(tmp_path / "p").scores.basis == "random"
    assert "no column or word for --chosen named 'rndom'; did you mean 'random'" in fails(
        capsys, "new", str(tmp_path / "q"), "--rows", str(rows), "--chosen", "rndom"
    )
