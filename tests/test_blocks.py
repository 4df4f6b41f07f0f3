"""Labels within a limit of memory are those without, wherever rows come from and however many fit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import epoxy
from block_projects import agree, drawn, write_project
from epoxy import mapped
from epoxy.blocks import label
from epoxy.blocks.budget import bytes_of
from epoxy.errors import (
    AlignmentError,
    EpoxyError,
    FrameError,
    LabelError,
    ParameterError,
    StoreError,
    UnknownName,
    VectorError,
)
from epoxy.project.settings import Project
from epoxy.project.voting import Travelling, end

CLASSES = ["ham", "spam"]
KINDS = ["epoxy", "fusion"]


def project(home: Path, n_rows: int = 60, n_dev: int = 12, seed: int = 1, **options) -> Path:
    n_classes = len(options.get("classes", CLASSES))
    votes, vectors, y = drawn(n_rows, seed, n_classes=n_classes)
    truth = np.where(np.arange(n_rows) % max(1, n_rows // max(1, n_dev)) == 3, y, -1)
    kind = options.pop("kind", KINDS[0])
    about = {"classes": CLASSES, "vectors": vectors, "model": f'kind = "{kind}"', **options}
    return write_project(home, votes, y=truth, **about)


def in_memory(home: Path):
    session = epoxy.Session.open(home)
    return pq.read_table(session.export(home / "in-memory.parquet"))


def in_blocks(home: Path, most: int, **options):
    return pq.read_table(label(home, rows_at_once=most, **options).path)


def changed(home: Path, *pairs: tuple[str, str]) -> Path:
    """The same project with other settings."""
    text = (home / "epoxy.toml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (home / "epoxy.toml").write_text(text)
    return home


def decide(home: Path) -> Path:
    """Radii, a source switched off, labels of train rows, trusted and not."""
    session = epoxy.Session.open(home)
    session.set_radius("s0", 0.2)
    session.set_radius("s1", None)
    session.switch("s2", False)
    for at in (0, 7, 17, 30, 41):
        session.label(f"r{at}", CLASSES[at % 2], chosen="random" if at % 2 else None)
    for at in (20, 32, 51):  # against what the model says
        worst = CLASSES[int(session.probabilities[session.find(f"r{at}")[1]].argmin())]
        session.label(f"r{at}", worst, chosen="surprising")
    session.label("r9", "ham", by="ann")
    return home


# the law: any cut gives the same answer


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 99), most=st.integers(3, 30), kind=st.sampled_from(KINDS))
def test_however_rows_are_cut_the_labels_are_the_same(tmp_path_factory, seed, most, kind):
    home = decide(project(tmp_path_factory.mktemp("any"), seed=seed, kind=kind))

    agree(in_memory(home), in_blocks(home, most))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vectors", [True, False])
def test_blocks_label_as_memory_does(tmp_path, kind, vectors):
    options = {} if vectors else {"vectors": None}
    home = decide(project(tmp_path / "project", parts=3, kind=kind, **options))

    memory, blocks = in_memory(home), in_blocks(home, 23)

    agree(memory, blocks)
    rows = blocks.to_pylist()
    assert [row["id"] for row in rows] == [f"r{at}" for at in range(60)]
    believed = [row for row in rows if row["truth"] is not None]
    assert all(row["label"] == row["truth"] for row in believed)
    # where somebody who is believed says otherwise, the model's own label is another
    assert any(row["probability"] < 0.5 for row in believed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_votes_on_every_train_row_lends_to_no_other_row(tmp_path, kind):
    votes, vectors, y = drawn(60, 1)
    truth = np.where(np.arange(60) % 5 == 3, y, -1)
    votes[:, 0] = np.where(truth < 0, y, -1)
    home = tmp_path / "project"
    write_project(home, votes, vectors, truth, CLASSES, model=f'kind = "{kind}"')

    agree(in_memory(home), in_blocks(home, 23))


def test_blocks_label_with_the_radii_that_tuning_chose(tmp_path):
    home = project(tmp_path / "project", 200, 50, kind="epoxy")
    before = in_memory(home)
    epoxy.Session.open(home).tune(caution=0)

    memory, blocks = in_memory(home), in_blocks(home, 90)

    agree(memory, blocks)
    assert memory != before


@pytest.mark.parametrize("kind", KINDS)
def test_several_classes_and_a_radius_by_rule_are_as_in_memory(tmp_path, kind):
    classes = ["a", "b", "c"]
    home = project(tmp_path / "p", 90, 20, classes=classes, kind=kind)
    changed(home, (f'kind = "{kind}"', f'kind = "{kind}"\nradius = "auto"'))

    agree(in_memory(home), in_blocks(home, 31))


# where rows, votes and vectors come from


def of_words(home: Path, kind: str = KINDS[0]) -> Path:
    """A project of texts, embedded by their words, with three functions."""
    home.mkdir()
    words = ["free money", "lovely song", "money now", "a song of spring", "hello there"]
    texts = [f"{words[at % 5]} {at % 11}" for at in range(70)]
    truth = pa.array([CLASSES[at % 5 in (0, 2)] if at % 9 == 4 else None for at in range(70)])
    pq.write_table(pa.table({"text": texts, "label": truth}), home / "rows.parquet")
    (home / "epoxy.toml").write_text(
        '[rows]\nfile = "rows.parquet"\nlabel = "label"\n[classes]\nnames = ["ham", "spam"]\n'
        f'[vectors]\nencoder = "lsa"\ncolumn = "text"\n[model]\nkind = "{kind}"\nradius = 0.3\n'
    )
    (home / "lfs.py").write_text(
        "import epoxy\n"
        "a = epoxy.keywords('spam', 'money', column='text', name='a')\n"
        "b = epoxy.keywords('ham', 'song', column='text', name='b')\n"
        "c = epoxy.keywords('spam', 'free', column='text', name='c')\n"
        "d = epoxy.keywords('ham', 'hello', column='text', name='d')\n"
    )
    return home


def with_ids(home: Path, ids: pa.Array) -> Path:
    rows = pq.read_table(home / "rows.parquet")
    pq.write_table(rows.append_column("name", ids), home / "rows.parquet")
    return changed(home, ("[rows]\n", '[rows]\nid = "name"\n'))


@pytest.mark.parametrize("kind", KINDS)
def test_functions_vote_in_batches_and_words_are_embedded(tmp_path, kind):
    home = of_words(tmp_path / "project", kind)

    agree(in_memory(home), in_blocks(home, 30))


def of_examples(home: Path, *, dev: bool = False, more: str = "") -> Path:
    """A project with functions of example rows beside others."""
    votes, vectors, y = drawn(80, 2)
    truth = np.where(np.arange(80) % 6 == 3, y, -1)
    write_project(home, votes, vectors, truth, CLASSES, model=f'kind = "{KINDS[0]}"')
    rows = pq.read_table(home / "rows.parquet")
    rows = rows.append_column("text", [[f"{'free' if each else 'song'} {each}" for each in y]])
    text = (home / "epoxy.toml").read_text().replace('[votes]\nfile = "votes.parquet"\n', "")
    if dev:
        pq.write_table(rows.slice(70), home / "dev.parquet")
        rows = rows.slice(0, 70).drop_columns(["label"])
        np.save(home / "dev.npy", vectors[70:])
        np.save(home / "vectors.npy", vectors[:70])
        text = text.replace("[classes]", 'dev = "dev.parquet"\n[classes]')
        text = text.replace('"vectors.npy"\n', '"vectors.npy"\ndev = "dev.npy"\n')
    pq.write_table(rows, home / "rows.parquet")
    (home / "epoxy.toml").write_text(text)
    (home / "lfs.py").write_text(
        "import epoxy\n"
        "a = epoxy.keywords('spam', 'free', column='text', name='a')\n"
        "near = epoxy.like('ham', rows=['r0', 'r41'], radius=0.05, name='near')\n"
        "b = epoxy.keywords('ham', 'song', column='text', name='b')\n"
        "far = epoxy.like('spam', rows=['r9', 'r50', 'r75'], radius=0.2, name='far')\n" + more
    )
    return home


@pytest.mark.parametrize("dev", [True, False])
def test_functions_of_example_rows_vote_as_in_memory(tmp_path, dev):
    home = of_examples(tmp_path / "project", dev=dev)

    memory, blocks = in_memory(home), label(home, rows_at_once=13)

    agree(memory, pq.read_table(blocks.path))
    assert not blocks.failed


def test_examples_are_named_by_position_where_rows_have_no_id(tmp_path):
    home = changed(of_examples(tmp_path / "project"), ('id = "id"\n', ""))
    functions = (home / "lfs.py").read_text().replace("'r", "'")
    (home / "lfs.py").write_text(functions)

    found = label(home, rows_at_once=13)

    agree(in_memory(home), pq.read_table(found.path))
    assert not found.failed


def test_examples_that_are_no_rows_cost_their_function(tmp_path):
    lost = "lost = epoxy.like('ham', rows=['r7', 'x'], radius=0.1, name='lost')\n"
    home = of_examples(tmp_path / "project", more=lost)

    found = label(home, rows_at_once=13)

    assert found.failed == ("lost",)
    assert any("'x'" in each for each in found.notes)
    agree(in_memory(home), pq.read_table(found.path))


@pytest.mark.parametrize(("named", "first"), [(False, "row 0"), (True, "'r0'")])
def test_what_failed_and_what_is_switched_off_is_told_as_in_memory(tmp_path, capsys, named, first):
    from epoxy.cli import main

    home = of_words(tmp_path / "project")
    if named:
        with_ids(home, pa.array([f"r{at}" for at in range(70)]))
    with (home / "lfs.py").open("a") as file:
        file.write("@epoxy.labeling_function\ndef boom(row):\n    return 1 / 0\n")
    epoxy.Session.open(home).switch("c", False)
    capsys.readouterr()

    said, facts = [], []
    for more in ([], ["--memory", "2GB"]):
        place = tmp_path / "told.json"
        assert main(["label", str(home), *more, "--json", str(place)]) == 2
        out, err = capsys.readouterr()
        assert "boom" in err
        assert f"first on {first}" in out or f"first on the row with id {first}" in out
        said.append([out.split(" in ", 1)[0], *out.splitlines()[1:]])
        facts.append(json.loads(place.read_text()))

    assert said[0] == said[1]
    for one in facts:
        del one["seconds"]
    scores = [one.pop("scores") for one in facts]
    assert facts[0] == facts[1]
    assert scores[0] == pytest.approx(scores[1])


def test_what_the_rows_file_and_a_dev_file_share_is_told_as_in_memory(tmp_path):
    home = with_ids(of_words(tmp_path / "project"), pa.array([f"r{at}" for at in range(70)]))
    rows = pq.read_table(home / "rows.parquet")
    known = rows.filter(rows.column("label").is_valid())
    others = pa.array([f"d{at}" if at else "r0" for at in range(len(known))])
    known = known.set_column(known.schema.get_field_index("name"), "name", others)
    said = pa.array(["", "nobody else says it", *known.column("text").to_pylist()[2:]])
    known = known.set_column(known.schema.get_field_index("text"), "text", said)
    pq.write_table(known, home / "dev.parquet")
    pq.write_table(rows.drop_columns("label"), home / "rows.parquet")
    changed(home, ("[rows]\n", '[rows]\ndev = "dev.parquet"\n'))

    notes = epoxy.Session.open(home).notes

    assert len(notes) == 2
    assert label(home, rows_at_once=30).notes == notes
    agree(in_memory(home), in_blocks(home, 30))


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_ids_are_written_as_in_memory_whatever_their_type(tmp_path, kind):
    names = pa.array([str(at) for at in range(70)]).cast(kind)
    home = with_ids(of_words(tmp_path / "project"), names)

    agree(in_memory(home), in_blocks(home, 30))


def written_as(home: Path, ending: str, *names: str) -> Path:
    """The project with tables in another format than Parquet."""
    for name in names:
        table = pq.read_table(home / f"{name}.parquet")
        if ending == "csv":
            csv.write_csv(table, home / f"{name}.csv")
        else:
            lines = "".join(json.dumps(each) + "\n" for each in table.to_pylist())
            (home / f"{name}.{ending}").write_text(lines)
        (home / f"{name}.parquet").unlink()
        changed(home, (f"{name}.parquet", f"{name}.{ending}"))
    return home


@pytest.mark.parametrize("digits", ["{}", "{:04d}"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_rows_in_csv_and_lines_of_json_are_read_past_memory(tmp_path, ending, digits):
    names = pa.array([digits.format(at) for at in range(70)])
    home = written_as(with_ids(of_words(tmp_path / "project"), names), ending, "rows")

    memory, blocks = in_memory(home), in_blocks(home, 30)

    agree(memory, blocks)
    assert [str(each) for each in blocks.column("id").to_pylist()] == names.to_pylist()


def test_text_after_many_numbers_is_told_with_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr("epoxy.project.tables.INFERRED", 2_000)
    home = written_as(of_words(tmp_path / "project"), "csv", "rows")
    numbers = "".join(f"spam {at},,{at}\n" for at in range(1_000))
    (home / "rows.csv").write_text(f"text,label,n\n{numbers}ham,,four\n")

    with pytest.raises(StoreError, match=r"rows\.csv cannot be read.*'four'"):
        label(home, rows_at_once=20)


def fixed(vectors: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def vectors_in_a_column(home: Path, vectors: np.ndarray) -> Path:
    rows = pq.read_table(home / "rows.parquet").append_column("vector", fixed(vectors))
    pq.write_table(rows, home / "rows.parquet", row_group_size=11)
    return changed(home, ('encoder = "vectors.npy"', 'encoder = "column:vector"'))


def vectors_apart(home: Path, vectors: np.ndarray) -> Path:
    order = np.random.default_rng(3).permutation(len(vectors))
    ids = [f"r{at}" for at in order]
    pq.write_table(pa.table({"id": ids, "v": fixed(vectors[order])}), home / "apart.parquet")
    return changed(home, ('encoder = "vectors.npy"', 'encoder = "apart.parquet"'))


def vectors_named(home: Path, vectors: np.ndarray, order: np.ndarray | None = None) -> Path:
    """Write the vectors of a project in another order, and their ids beside them."""
    order = np.random.default_rng(3).permutation(len(vectors)) if order is None else order
    np.save(home / "vectors.npy", vectors[order])
    pq.write_table(pa.table({"id": [f"r{at}" for at in order]}), home / "names.parquet")
    return changed(home, ("[vectors]", '[vectors]\nids = "names.parquet"'))


@pytest.mark.parametrize("move", [vectors_in_a_column, vectors_apart, vectors_named])
def test_vectors_come_from_a_column_another_file_or_beside_their_ids(tmp_path, move):
    home = project(tmp_path / "project")
    plain = in_blocks(home, 25)

    move(home, np.load(home / "vectors.npy"))

    agree(plain, in_blocks(home, 25))
    agree(plain, in_memory(home))


# what is wrong with what is read, said as in memory


def other_label(home: Path) -> None:
    rows = pq.read_table(home / "rows.parquet")
    labels = rows.column("label").to_pylist()
    labels[40] = "spma"
    pq.write_table(rows.set_column(1, "label", [labels]), home / "rows.parquet")


def other_ids(file: str, *given: tuple[int, str | None]):
    def change(home: Path) -> None:
        rows = pq.read_table(home / file)
        ids = rows.column("id").to_pylist()
        for at, name in given:
            ids[at] = name
        pq.write_table(rows.set_column(0, "id", pa.array(ids, pa.string())), home / file)

    return change


def other_vectors(change, move=None):
    def write(home: Path) -> None:
        if move is not None:
            move(home, np.load(home / "vectors.npy"))
        np.save(home / "vectors.npy", change(np.load(home / "vectors.npy")))

    return write


def infinite(vectors: np.ndarray) -> np.ndarray:
    vectors[[47, 48]] = np.nan
    return vectors


def lost_vector(home: Path) -> None:
    vectors_named(home, np.load(home / "vectors.npy"), np.arange(59))


def twice_a_vector(home: Path) -> None:
    vectors_named(home, np.load(home / "vectors.npy"), np.array([*range(60), 3]))


def infinite_in_a_column(home: Path) -> None:
    vectors_in_a_column(home, infinite(np.load(home / "vectors.npy")))


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (other_label, LabelError, "'spma' on the row with id 'r40'"),
        (other_ids("rows.parquet", (50, "r2")), AlignmentError, "rows.parquet.*'r2'"),
        (
            other_ids("rows.parquet", (50, None), (27, None), (9, " ")),
            AlignmentError,
            r"rows.parquet.* \[9, 27, 50\]",
        ),
        (other_ids("votes.parquet", (4, "x")), AlignmentError, "votes.parquet has no row for 1"),
        (other_ids("votes.parquet", (4, None)), AlignmentError, r"votes.parquet.* \[4\]"),
        (lost_vector, AlignmentError, r"names.parquet has no row for 1 .*\['r59'\]"),
        (twice_a_vector, AlignmentError, r"names.parquet names 1 rows twice.*\['r3'\]"),
        (other_vectors(lambda x: x[1:], vectors_named), AlignmentError, "59 vectors and .* 60 ids"),
        (other_vectors(lambda x: x[1:]), AlignmentError, "59 vectors for 60 rows"),
        (other_vectors(infinite), VectorError, "2 rows, first row 'r47'"),
        (infinite_in_a_column, VectorError, "2 rows, first row 'r47'"),
        (lambda home: (home / "vectors.npy").write_bytes(b"no"), StoreError, "vectors.npy"),
        (other_vectors(lambda x: x[:, 0]), EpoxyError, "60"),
        (lambda home: (home / "votes.parquet").unlink(), StoreError, "votes.parquet"),
        (lambda home: (home / "rows.parquet").write_bytes(b"PAR1"), StoreError, "rows.parquet"),
        (lambda home: changed(home, ("rows.parquet", "rows.xls")), UnknownName, "xls"),
        (lambda home: changed(home, ('id = "id"', 'id = "ids"')), UnknownName, "'ids'"),
    ],
)
def test_bad_input_is_refused_as_in_memory(tmp_path, change, error, named):
    home = project(tmp_path / "project")
    change(home)

    for label_it in (in_memory, lambda home: in_blocks(home, 20)):
        with pytest.raises(error, match=named):
            label_it(home)
    assert not (home / "labels" / "labels.parquet").exists()


def parts_that_differ(home: Path) -> None:
    rows = pq.read_table(home / "rows.parquet")
    (home / "rows").mkdir()
    pq.write_table(rows.slice(0, 30), home / "rows" / "0.parquet")
    other = rows.slice(30).set_column(0, "id", pa.array(range(30)))
    pq.write_table(other, home / "rows" / "1.parquet")
    changed(home, ("rows.parquet", "rows"))


def no_rows(home: Path) -> None:
    rows = pq.read_table(home / "rows.parquet")
    pq.write_table(rows.slice(0, 0), home / "rows.parquet")


@pytest.mark.parametrize(
    ("change", "options", "error", "named"),
    [
        (parts_that_differ, {}, AlignmentError, "'id' of type string.*'id' of type int64"),
        (no_rows, {}, FrameError, "rows.parquet has no rows"),
        (None, {"memory": "100MB"}, ParameterError, r"are too little.*give \d+MB"),
        (None, {"memory": "much"}, ParameterError, "'much'"),
        (None, {"vectors": "x.npy"}, ParameterError, "--new"),
        (None, {"to": "x.xls"}, ParameterError, "x.xls"),
    ],
)
def test_errors(tmp_path, change, options, error, named):
    home = project(tmp_path / "project")
    if change is not None:
        change(home)

    with pytest.raises(error, match=named):
        label(home, **{"rows_at_once": 20, **options})
    assert not (home / "labels" / "labels.parquet").exists()


@pytest.mark.parametrize(
    "model", [epoxy.Epoxy(epoxy.DawidSkene()), epoxy.Epoxy(weighting="k-nearest")]
)
def test_what_reads_all_rows_at_once_does_so_past_memory(tmp_path, model):
    home = project(tmp_path / "project")

    agree(pq.read_table(label(home, model=model).path), in_blocks(home, 20, model=model))


def test_rows_in_sequences_are_labelled_past_memory(tmp_path):
    home = project(tmp_path / "project")
    rows = pq.read_table(home / "rows.parquet")
    films = pa.array([f"film {at // 12}" for at in range(60)])
    pq.write_table(rows.append_column("film", films), home / "rows.parquet")
    changed(home, ('label = "label"', 'label = "label"\nsequence = "film"'))

    agree(in_memory(home), in_blocks(home, 20))


def test_sizes_are_read_as_people_write_them():
    assert bytes_of("4GB") == 4 * 10**9
    assert bytes_of("1.5 GiB") == 3 * 2**29
    assert bytes_of(1000) == 1000
    for wrong in ("", "many", "-1GB", "0", 0, True):
        with pytest.raises(ParameterError, match="memory"):
            bytes_of(wrong)


# new rows


def new_rows(home: Path, ids: list[str], name: str = "new") -> dict[str, Path]:
    """Rows to come, with votes and vectors."""
    votes, vectors, _ = drawn(len(ids), 7)
    columns = {f"s{at}": votes[:, at] for at in range(votes.shape[1])}
    pq.write_table(pa.table({"id": ids, **columns}), home / f"{name}.parquet")
    np.save(home / f"{name}.npy", vectors)
    return {"new": home / f"{name}.parquet", "vectors": home / f"{name}.npy"}


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_get_what_the_fitted_model_says_of_them(tmp_path, kind):
    home = decide(project(tmp_path / "project", kind=kind))
    given = new_rows(tmp_path, [f"n{at}" for at in range(15)])
    votes, vectors, _ = drawn(15, 7)

    found = label(home, rows_at_once=20, **given)

    session = epoxy.Session.open(home)
    model, on = session.model(), [at for at in range(5) if at != 2]
    votes = epoxy.Votes(votes[:, on], [f"s{at}" for at in on], CLASSES)
    new = epoxy.Split(votes, vectors)
    table = pq.read_table(found.path)
    proba = np.stack([table.column(f"p_{name}").to_numpy() for name in CLASSES], axis=1)
    np.testing.assert_allclose(proba, model.predict_proba(new), atol=1e-5)
    assert table.column("label").to_pylist() == model.predict(new).tolist()
    lent = model.extend(new).cast.sum(axis=1) - votes.cast.sum(axis=1)
    assert table.column("lent_votes").to_pylist() == lent.tolist()
    assert found.path == home / "labels" / "new.parquet"
    assert found.rows == 15


def test_functions_of_example_rows_vote_on_new_rows(tmp_path):
    home = of_examples(tmp_path / "project")
    _, vectors, _ = drawn(80, 2)
    pq.write_table(pa.table({"id": ["n0", "n1"], "text": ["-", "-"]}), tmp_path / "new.parquet")
    np.save(tmp_path / "new.npy", np.stack([vectors[41], -vectors[41]]))

    found = label(home, new=tmp_path / "new.parquet", vectors=tmp_path / "new.npy")

    assert pq.read_table(found.path).column("votes").to_pylist() == [1, 0]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_project_that_is_not_parquet_labels_new_rows_as_one_that_is(tmp_path, ending):
    home, other = (project(tmp_path / name) for name in ("parquet", "other"))
    given = new_rows(tmp_path, ["a", "b", "c"])
    expected = pq.read_table(label(home, **given).path)

    written_as(other, ending, "rows", "votes")

    assert pq.read_table(label(other, **given).path).equals(expected)


def test_functions_of_a_project_in_csv_vote_on_new_rows(tmp_path, capsys):
    from epoxy.cli import main

    home, other = (of_words(tmp_path / name) for name in ("parquet", "other"))
    written_as(other, "csv", "rows")
    (tmp_path / "new.csv").write_text("text\nfree money 3\na song 4\n")

    for each in (home, other):
        assert main(["label", str(each), "--new", str(tmp_path / "new.csv")]) == 0

    assert capsys.readouterr().out.count("labelled 2 rows") == 2
    found = [pq.read_table(each / "labels" / "new.parquet") for each in (home, other)]
    assert found[0].equals(found[1])
    assert found[1].column("label").to_pylist() == ["spam", "ham"]


def test_hand_labels_of_rows_that_moved_teach_what_new_rows_are(tmp_path):
    home = of_words(tmp_path / "project")
    epoxy.Session.open(home).label("5", "spam")
    rows = pq.read_table(home / "rows.parquet")
    pq.write_table(rows.slice(5), home / "rows.parquet")
    (tmp_path / "new.csv").write_text("text\nfree money 3\n")

    found = label(home, new=tmp_path / "new.csv", rows_at_once=20)

    assert pq.read_table(found.path).column("id").to_pylist() == [0]
    assert not any("not in the files any more" in each for each in found.notes)


def test_labels_of_new_rows_are_written_beside_those_of_the_old_ones(tmp_path):
    home = project(tmp_path / "project")
    given = new_rows(tmp_path, ["a", "b"], "labels")

    with pytest.raises(ParameterError, match="--to"):
        label(home, **given)
    found = label(home, **given, to=tmp_path / "tomorrow.csv")
    assert found.path.read_text().startswith('"id","label"')


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (lambda rows: rows.set_column(0, "id", pa.array(list("aba"))), AlignmentError, r"\['a'\]"),
        (
            lambda rows: rows.set_column(0, "id", pa.array(["a", None, "b"])),
            AlignmentError,
            r"\[1\]",
        ),
        (lambda rows: rows.drop_columns(["id"]), UnknownName, "'id'"),
        (lambda rows: rows.drop_columns(["s1"]), UnknownName, "'s1'"),
        (lambda rows: rows.slice(1), AlignmentError, "3 vectors for 2 rows"),
    ],
)
def test_what_is_wrong_with_new_rows_is_told_of_their_file(tmp_path, change, error, named):
    home = project(tmp_path / "project")
    given = new_rows(tmp_path, ["a", "b", "c"])
    pq.write_table(change(pq.read_table(given["new"])), given["new"])

    with pytest.raises(error, match=named):
        label(home, **given)


def test_new_rows_without_vectors_are_told_where_to_give_them(tmp_path):
    home = project(tmp_path / "project")
    given = new_rows(tmp_path, ["a"])

    with pytest.raises(VectorError, match="--vectors FILE"):
        label(home, new=given["new"])
    np.save(given["vectors"], np.ones((1, 9)))
    with pytest.raises(VectorError, match=r"9.* 6|6.* 9"):
        label(home, **given)
    with pytest.raises(StoreError, match="nowhere"):
        label(home, new=tmp_path / "nowhere.parquet")


# what is kept


class Counted:
    """A map that counts what it is given, and may stop."""

    def __init__(self, most: int = 1 << 62) -> None:
        self.most, self.done = most, list[str]()

    def __call__(self, function, parts):
        for part in parts:
            if len(self.done) == self.most:
                raise KeyboardInterrupt
            self.done.append(type(function).__name__)
            yield function(part)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unchanged_project_is_not_asked_again(tmp_path, kind):
    home = of_words(tmp_path / "project", kind)
    first, again = Counted(), Counted()
    expected = in_blocks(home, 20, run=first)

    assert in_blocks(home, 20, run=again).equals(expected)

    assert first.done
    assert not again.done


def test_what_was_kept_in_memory_is_kept_past_it(tmp_path):
    home, run = of_words(tmp_path / "project"), Counted()
    expected = pq.read_table(label(home).path)

    assert in_blocks(home, 20, run=run).equals(expected)

    assert not run.done


def test_a_function_that_changed_votes_and_the_others_are_read(tmp_path):
    home = of_words(tmp_path / "project")
    label(home, rows_at_once=20)
    text = (home / "lfs.py").read_text()
    (home / "lfs.py").write_text(text.replace("'free'", "'free', 'now'"))
    epoxy.Session.open(home).label("5", "spam")
    shutil.rmtree(home / ".epoxy" / "votes")
    label(home, rows_at_once=20)
    (home / "lfs.py").write_text(text)
    run = Counted()

    agree(in_blocks(home, 20, run=run), in_memory(home))

    assert len(run.done) == 5  # of one function: train rows in four parts, and the dev rows


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path):
    home, whole = of_words(tmp_path / "project"), Counted()
    expected = in_blocks(home, 12, run=whole)
    for most in range(0, len(whole.done), 7):
        shutil.rmtree(home / ".epoxy")
        (home / "labels" / "labels.parquet").unlink()
        second = Counted()

        with pytest.raises(KeyboardInterrupt):
            label(home, rows_at_once=12, run=Counted(most))
        assert not (home / "labels" / "labels.parquet").exists()
        assert in_blocks(home, 12, run=second).equals(expected)
        assert len(second.done) <= len(whole.done)
    assert len(second.done) < len(whole.done)


def test_ids_that_changed_are_read_again(tmp_path):
    home = project(tmp_path / "project")
    label(home, rows_at_once=20)
    rows = pq.read_table(home / "rows.parquet")
    ids = ["x0", *rows.column("id").to_pylist()[1:]]
    pq.write_table(rows.set_column(0, "id", pa.array(ids)), home / "rows.parquet")

    with pytest.raises(AlignmentError, match="'x0'"):
        label(home, rows_at_once=20)


def damages(rng: np.random.Generator):
    """Ways to spoil a file."""

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)

    def zero(path: Path) -> None:
        content = bytearray(path.read_bytes())
        at = int(rng.integers(len(content)))
        content[at : at + 64] = bytes(len(content[at : at + 64]))
        path.write_bytes(content)

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[: -int(rng.integers(1, 40))])

    return flip, zero, cut, lambda path: path.write_bytes(b""), Path.unlink


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_were_damaged_are_made_again(tmp_path, kind):
    home = of_words(tmp_path / "project", kind)
    expected = in_blocks(home, 20)
    rng = np.random.default_rng(0)

    for at in range(40):
        kept = sorted((home / ".epoxy").rglob("*.npz"))
        damages(rng)[at % 5](kept[int(rng.integers(len(kept)))])

        assert in_blocks(home, 20).equals(expected)


def test_a_full_disk_is_said_and_nothing_passes_for_finished(tmp_path, monkeypatch):
    home = of_words(tmp_path / "project")
    expected = in_blocks(home, 20)
    real = os.posix_fallocate
    for room in (0, 1, 4):
        shutil.rmtree(home / ".epoxy")
        (home / "labels" / "labels.parquet").unlink(missing_ok=True)
        made = 0

        def full(handle, start, size, room=room):
            nonlocal made
            made += 1
            if made > room:
                raise OSError(28, "No space left on device")
            real(handle, start, size)

        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", full)
            with pytest.raises(StoreError, match=r"No space left on device.*make room"):
                label(home, rows_at_once=20)
        assert not (home / "labels" / "labels.parquet").exists()
        assert in_blocks(home, 20).equals(expected)


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
@pytest.mark.parametrize("more", ["", ", rows_at_once=12"])
def test_the_run_after_a_killed_one_goes_on_and_says_so(tmp_path, more):
    home = of_words(tmp_path / "project")
    code = f"""
import os, sys
from epoxy.blocks import label
def progress(what):
    return lambda done, total: os.kill(os.getpid(), 9) if what == "finding neighbours" else None
label(sys.argv[1], progress=progress{more})
"""

    ended = subprocess.run([sys.executable, "-c", code, str(home)]).returncode
    after, later = label(home), label(home)

    assert ended == -signal.SIGKILL
    (said,) = set(after.notes) - set(later.notes)
    assert all(each in said for each in ("killed", "votes", "vectors"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_run_that_is_killed_at_any_moment_is_taken_up(tmp_path):
    home = of_words(tmp_path / "project")
    expected = in_blocks(home, 12)
    rng = np.random.default_rng(0)
    code = "import sys; from epoxy.blocks import label; label(sys.argv[1], rows_at_once=12)"
    for _ in range(10):
        shutil.rmtree(home / ".epoxy", ignore_errors=True)
        (home / "labels" / "labels.parquet").unlink(missing_ok=True)
        running = subprocess.Popen([sys.executable, "-c", code, str(home)])
        time.sleep(rng.uniform(0.5, 4))
        running.send_signal(signal.SIGKILL)
        running.wait()
        place = home / "labels" / "labels.parquet"
        assert not place.exists() or pq.read_table(place).equals(expected)

        assert in_blocks(home, 12).equals(expected)
        assert not list((home / ".epoxy" / "scratch").iterdir())


def test_functions_that_travelled_leave_no_files_behind(tmp_path, monkeypatch):
    home = of_words(tmp_path / "project")
    folder = epoxy.Session.open(home).folder
    travelling = Travelling.of(folder, folder.loaded)
    (home / "lfs.py").write_text("")  # as on a machine that has other files there
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there"))

    runner = travelling.runner()

    assert runner.load().names == folder.loaded.names
    assert list((tmp_path / "there").glob("epoxy-functions-*"))
    end()
    assert not list((tmp_path / "there").glob("epoxy-functions-*"))


# arrays in files


def test_a_long_array_lies_in_a_file_that_goes_with_it(tmp_path):
    with mapped.within(10**9, 10, tmp_path):
        short, long = mapped.empty((10, 3), float), mapped.empty((11, 3), float)
        long[:] = np.arange(33.0).reshape(11, 3)
        assert [mapped.is_file(each) for each in (short, long, long[4:], long.copy())] == [
            False,
            True,
            True,
            False,
        ]
        assert mapped.take(long, np.arange(11)[::-1]).tolist() == long[::-1].tolist()
        assert len(list(tmp_path.iterdir())) == 1
        del long
    assert not list(tmp_path.iterdir())
    assert not mapped.is_file(mapped.empty((11, 3), float))


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere the system does not say what is held"
)
def test_memory_is_kept(tmp_path):
    before, _ = mapped.taken()
    most = before + 300 * 10**6
    with mapped.within(int(most), 10, tmp_path):
        array = mapped.empty((200_000, 1000), np.float32)
        for part in mapped.blocks(len(array), 1000):
            array[part] = part.start
            assert mapped.taken()[0] < most
        assert float(array[::1000, 0].sum()) == sum(range(0, len(array), 1000))


# the command


def test_a_project_of_the_command_line_is_labelled_within_memory(tmp_path, capsys):
    from epoxy.cli import main

    home = project(tmp_path / "project")

    assert main(["label", str(home), "--memory", "2GB"]) == 0
    assert "labelled 60 rows with" in capsys.readouterr().out
    assert main(["label", str(home), "--memory", "1MB"]) == 2
    assert "are too little" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('id = "id"\n', ""), r"joined by id, and \[rows\] names no id"),
        (('"vectors.npy"', '"lsa"'), "says whose the vectors of a .npy file are, and encoder is"),
        (("ids =", 'dev = "dev.npy"\nids ='), "finds the vectors of the dev file's rows too"),
    ],
)
def test_ids_of_vectors_need_what_they_join(tmp_path, change, named):
    home = project(tmp_path / "project")
    vectors_named(home, np.load(home / "vectors.npy"))
    changed(home, ('[votes]\nfile = "votes.parquet"\n', ""), change)

    with pytest.raises(StoreError, match=named):
        Project.read(home)
