"""Labels in shards are those in memory, however rows are cut, and a run that was killed goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import epoxy
from epoxy.errors import (
    AlignmentError,
    EpoxyError,
    LabelError,
    ParameterError,
    StoreError,
    VectorError,
)
from epoxy.fusion import features
from epoxy.fusion.choice import _independence, _ks
from epoxy.fusion.decision import RankedRows
from epoxy.label_models.moments import moments
from epoxy.project.settings import Project
from epoxy.shards import Run, Serial, label
from epoxy.shards.budget import bytes_of
from epoxy.shards.parts import parts_of, table_of
from epoxy.shards.ranking import Ranked
from epoxy.shards.ranks import in_order, keep_sorted, ranked
from epoxy.shards.shard import Kept, Shard
from shard_projects import agree, drawn, write_project

CLASSES = ["ham", "spam"]


def project(home: Path, n_rows: int = 60, n_dev: int = 12, seed: int = 1, **options) -> Path:
    n_classes = len(options.get("classes", CLASSES))
    votes, vectors, y = drawn(n_rows, seed, n_classes=n_classes)
    truth = np.where(np.arange(n_rows) % max(1, n_rows // max(1, n_dev)) == 3, y, -1)
    given = {"classes": CLASSES, "vectors": vectors, **options}
    return write_project(home, votes, y=truth, **given)


def in_memory(home: Path):
    session = epoxy.Session.open(home, graph=False)
    return pq.read_table(session.export(home / "in-memory.parquet"))


def in_shards(home: Path, most: int, **options):
    return pq.read_table(label(home, rows_per_shard=most, **options).path)


def decide(home: Path) -> None:
    """Radii, a source switched off, labels of train rows, trusted and not."""
    session = epoxy.Session.open(home, graph=False)
    session.set_radius("s0", 0.2)
    session.set_radius("s1", None)
    session.switch("s2", False)
    for at in (0, 7, 17, 30, 41):
        session.label(f"r{at}", CLASSES[at % 2], chosen="random" if at % 2 else None)
    for at in (20, 32, 51):  # against what the model says
        worst = CLASSES[int(session.probabilities[session.find(f"r{at}")[1]].argmin())]
        session.label(f"r{at}", worst, chosen="surprising")
    session.label("r9", "ham", by="ann")


# the law: any sharding gives the same answer


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 99), most=st.integers(5, 30), kind=st.sampled_from(["fusion", "epoxy"]))
def test_any_sharding_gives_the_same_answer(tmp_path_factory, seed, most, kind):
    home = project(tmp_path_factory.mktemp("any"), 30, 6, seed, model=f'kind = "{kind}"')
    whole = in_shards(home, 30)

    agree(whole, in_shards(home, most), within=1e-6 if kind == "fusion" else 0.0)


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
@pytest.mark.parametrize("vectors", [True, False])
def test_shards_label_as_memory_does(tmp_path, kind, vectors):
    options = {} if vectors else {"vectors": None}
    home = project(tmp_path / "project", parts=3, model=f'kind = "{kind}"', **options)
    decide(home)

    memory, shards = in_memory(home), in_shards(home, 23)

    agree(memory, shards, within=1e-6 if kind == "fusion" else 0.0)
    rows = shards.to_pylist()
    believed = [row for row in rows if row["truth"] is not None]
    assert all(row["label"] == row["truth"] for row in believed)
    # where somebody who is believed says otherwise, the model's own label is another
    assert any(row["probability"] < 0.5 for row in believed)


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_a_source_that_votes_on_every_train_row_lends_to_no_other_row(tmp_path, kind):
    votes, vectors, y = drawn(60, 1)
    truth = np.where(np.arange(60) % 5 == 3, y, -1)
    votes[:, 0] = np.where(truth < 0, y, -1)
    home = tmp_path / "project"
    write_project(home, votes, vectors, truth, CLASSES, model=f'kind = "{kind}"')

    agree(in_memory(home), in_shards(home, 23), within=1e-6 if kind == "fusion" else 0.0)


def test_a_misspelt_class_is_told_with_the_id_of_its_row(tmp_path):
    home = project(tmp_path / "p")
    rows = pq.read_table(home / "rows.parquet")
    labels = rows.column("label").to_pylist()
    labels[40] = "spma"
    pq.write_table(rows.set_column(1, "label", [labels]), home / "rows.parquet")

    told = r"has the label 'spma' on the row with id 'r40'; did you mean 'spam'\?"
    for work in (in_memory, lambda each: in_shards(each, 16)):
        with pytest.raises(LabelError, match=told):
            work(home)


def test_shards_label_with_the_radii_that_tuning_chose(tmp_path):
    home = project(tmp_path / "project", 200, 50, model='kind = "epoxy"')
    before = in_memory(home)
    epoxy.Session.open(home, graph=False).tune(caution=0)

    memory, shards = in_memory(home), in_shards(home, 90)

    agree(memory, shards, within=0.0)
    assert memory != before


def test_of_many_rows_the_same_make_the_view_as_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "ALL_UP_TO", 32)
    home = project(tmp_path / "project", 127)
    n_train = epoxy.Session.open(home, graph=False).split().n_rows

    memory, shards = in_memory(home), in_shards(home, 50)

    assert features.n_viewed(n_train) < n_train
    agree(memory, shards, within=1e-6)


@pytest.mark.parametrize("scoring", ["f1", pytest.param("f1_macro", marks=pytest.mark.slow)])
def test_the_rule_of_decision_is_that_of_memory(tmp_path, scoring):
    options = {"model": f'scoring = "{scoring}"', "more": 'positive = "spam"'}
    home = project(tmp_path / "project", 400, 130, **options)

    agree(in_memory(home), in_shards(home, 90), within=1e-6)


@pytest.mark.parametrize("vectors", [True, False])
def test_a_lean_in_shards_is_that_of_memory(tmp_path, vectors):
    rng = np.random.default_rng(3)
    _, given, y = drawn(300, 3)
    said = np.where(
        rng.random((300, 5)) < np.where(y, 0.1, 0.4)[:, None], 1 - y[:, None], y[:, None]
    )
    votes = np.where(rng.random((300, 5)) < 0.6, said, -1).astype(np.int8)
    truth = np.where(np.arange(300) % 20 == 3, y, -1)
    home = write_project(tmp_path / "project", votes, given if vectors else None, truth, CLASSES)

    assert epoxy.Session.open(home, graph=False).model().fitted_.lean is not None
    agree(in_memory(home), in_shards(home, 70), within=1e-6)


@pytest.mark.slow
def test_several_classes_are_labelled_as_in_memory(tmp_path):
    home = project(tmp_path / "project", 80, 16, classes=["a", "b", "c"])

    agree(in_memory(home), in_shards(home, 30), within=1e-6)


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param("agnews", "fusion", marks=pytest.mark.slow), ("spouse", "epoxy")],
)
def test_real_data_is_labelled_as_in_memory(tmp_path, shared_data, name, kind):
    sizes = (("train", 900), ("dev", 60))
    votes, vectors = (
        np.concatenate(
            [np.load(shared_data / name / f"{what}-{part}.npy")[:n] for part, n in sizes]
        )
        for what in ("votes", "vectors")
    )
    truth = pq.read_table(shared_data / name / "dev.parquet").column("label").to_pylist()[:60]
    classes = sorted(set(truth))
    y = np.array([-1] * 900 + [classes.index(each) for each in truth])
    votes = np.where(votes < len(classes), votes, -1)
    home = write_project(
        tmp_path / "project",
        votes.astype(np.int8),
        vectors.astype(np.float32),
        y,
        classes,
        model=f'kind = "{kind}"',
    )
    session = epoxy.Session.open(home, graph=False)
    session.set_radius("s0", 0.3)
    session.label("r5", classes[0])

    agree(in_memory(home), in_shards(home, 250), within=1e-6 if kind == "fusion" else 0.0)


# where rows, votes and vectors come from


def of_words(home: Path) -> Path:
    """A project of texts, embedded by their words, with three functions."""
    home.mkdir()
    words = ["free money", "lovely song", "money now", "a song of spring", "hello there"]
    texts = [f"{words[at % 5]} {at % 11}" for at in range(70)]
    truth = pa.array([CLASSES[at % 5 in (0, 2)] if at % 9 == 4 else None for at in range(70)])
    pq.write_table(pa.table({"text": texts, "label": truth}), home / "rows.parquet")
    (home / "epoxy.toml").write_text(
        '[rows]\nfile = "rows.parquet"\nlabel = "label"\n[classes]\nnames = ["ham", "spam"]\n'
        '[vectors]\nencoder = "lsa"\ncolumn = "text"\n'
    )
    (home / "lfs.py").write_text(
        "import epoxy\n"
        "a = epoxy.keywords('spam', 'money', column='text', name='a')\n"
        "b = epoxy.keywords('ham', 'song', column='text', name='b')\n"
        "c = epoxy.keywords('spam', 'free', column='text', name='c')\n"
    )
    return home


def test_functions_vote_in_batches_and_words_are_embedded(tmp_path):
    home = of_words(tmp_path / "project")

    agree(in_memory(home), in_shards(home, 30), within=1e-6)


def of_examples(home: Path, *, dev: bool = False, kind: str = "fusion", more: str = "") -> Path:
    """A project with functions of example rows beside others; one example has no direction."""
    votes, vectors, y = drawn(80, 2)
    vectors[50] = 0
    truth = np.where(np.arange(80) % 6 == 3, y, -1)
    write_project(home, votes, vectors, truth, CLASSES, model=f'kind = "{kind}"')
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

    memory, shards = in_memory(home), label(home, rows_per_shard=13)

    agree(memory, pq.read_table(shards.path), within=1e-6)
    assert not shards.failed
    names = epoxy.Session.open(home, graph=False).sources
    assert names == ("a", "near", "b", "far")


def test_examples_are_named_by_position_where_rows_have_no_id(tmp_path):
    home = of_examples(tmp_path / "project")
    for name, old, new in (("epoxy.toml", 'id = "id"\n', ""), ("lfs.py", "'r", "'")):
        (home / name).write_text((home / name).read_text().replace(old, new))

    found = label(home, rows_per_shard=13)

    agree(in_memory(home), pq.read_table(found.path), within=1e-6)
    assert not found.failed


def test_functions_of_example_rows_vote_on_new_rows(tmp_path):
    home = of_examples(tmp_path / "project")
    _, vectors, _ = drawn(80, 2)
    pq.write_table(pa.table({"id": ["n0", "n1"], "text": ["-", "-"]}), tmp_path / "new.parquet")
    np.save(tmp_path / "new.npy", np.stack([vectors[41], -vectors[41]]))

    found = label(home, new=tmp_path / "new.parquet", vectors=tmp_path / "new.npy")

    assert pq.read_table(found.path).column("votes").to_pylist() == [1, 0]


def test_examples_that_are_no_rows_cost_their_function(tmp_path):
    home = of_examples(
        tmp_path / "project",
        more="lost = epoxy.like('ham', rows=['r7', 'x'], radius=0.1, name='lost')\n",
    )

    found = label(home, rows_per_shard=13)

    assert found.failed == ("lost",)
    assert any("is like row 'x', and no row has that id" in each for each in found.notes)
    agree(in_memory(home), pq.read_table(found.path), within=1e-6)


@pytest.mark.parametrize(
    ("named", "first"), [(False, "row 0"), (True, "the row with id 'r0'")], ids=["no ids", "ids"]
)
def test_what_failed_and_what_is_switched_off_is_told_as_in_memory(tmp_path, capsys, named, first):
    from epoxy.cli import main

    home = of_words(tmp_path / "project")
    if named:
        rows = pq.read_table(home / "rows.parquet")
        ids = pa.array([f"r{at}" for at in range(len(rows))])
        pq.write_table(rows.append_column("id", ids), home / "rows.parquet")
        told = (home / "epoxy.toml").read_text()
        (home / "epoxy.toml").write_text(told.replace("[rows]\n", '[rows]\nid = "id"\n'))
    with (home / "lfs.py").open("a") as file:
        file.write("@epoxy.labeling_function\ndef boom(row):\n    return 1 / 0\n")
    epoxy.Session.open(home, graph=False).switch("c", False)
    capsys.readouterr()

    said, facts = [], []
    for more in ([], ["--memory", "2GB"]):
        place = tmp_path / "told.json"
        assert main(["label", str(home), *more, "--json", str(place)]) == 2
        out, err = capsys.readouterr()
        assert "! switched off, and so without a say: c" in out
        assert "after extension (a lent vote counts" in out
        assert "without 1 labeling functions that failed and have no vote: boom" in err
        assert "labeling function 'boom' raised on " in out
        assert f", first on {first}: ZeroDivisionError" in out
        told = re.split(r"\n\n\d+ functions vote on ", out)[0].splitlines()
        said.append([out.split(" in ", 1)[0], *told[1:]])
        facts.append(json.loads(place.read_text()))

    assert said[0] == said[1]
    assert said[0][0] == "labelled 70 rows with Fusion"
    for one in facts:
        del one["seconds"]
    scores = [one.pop("scores") for one in facts]
    assert facts[0] == facts[1]
    assert scores[0] == pytest.approx(scores[1])


def test_what_the_rows_file_and_a_dev_file_share_is_told_as_in_memory(tmp_path):
    home = of_words(tmp_path / "project")
    rows = pq.read_table(home / "rows.parquet")
    rows = rows.append_column("id", pa.array([f"r{at}" for at in range(len(rows))]))
    known = rows.filter(rows.column("label").is_valid())
    other = pa.array([f"d{at}" if at else "r0" for at in range(len(known))])
    known = known.set_column(known.schema.get_field_index("id"), "id", other)
    said = pa.array(["", "nobody else says it", *known.column("text").to_pylist()[2:]])
    known = known.set_column(known.schema.get_field_index("text"), "text", said)
    pq.write_table(known, home / "dev.parquet")
    pq.write_table(rows.drop_columns("label"), home / "rows.parquet")
    config = (home / "epoxy.toml").read_text()
    config = config.replace("[rows]\n", '[rows]\nid = "id"\ndev = "dev.parquet"\n')
    (home / "epoxy.toml").write_text(config)

    notes = epoxy.Session.open(home, graph=False).notes

    assert [each.split(" (")[0] for each in notes] == [
        "1 ids are in the rows file and in the dev file",
        f"{len(known) - 2} dev rows say what a row of the rows file says",
    ]
    assert label(home, rows_per_shard=30).notes == notes


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_ids_are_written_as_in_memory_whatever_their_type(tmp_path, kind):
    home = of_words(tmp_path / "project")
    rows = pq.read_table(home / "rows.parquet")
    names = pa.array([f"{at}" for at in range(len(rows))]).cast(kind)
    pq.write_table(rows.append_column("name", names), home / "rows.parquet")
    config = (home / "epoxy.toml").read_text()
    (home / "epoxy.toml").write_text(config.replace("[rows]\n", '[rows]\nid = "name"\n'))

    agree(in_memory(home), in_shards(home, 30), within=1e-6)


def with_encoder(home: Path, encoder: str) -> None:
    text = (home / "epoxy.toml").read_text()
    (home / "epoxy.toml").write_text(text.replace('"vectors.npy"', f'"{encoder}"'))


def fixed(vectors: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def test_vectors_are_joined_by_id_or_read_from_a_column(tmp_path):
    home = project(tmp_path / "project")
    plain = in_shards(home, 25)
    vectors = np.load(home / "vectors.npy")
    order = np.random.default_rng(3).permutation(len(vectors))
    ids = [f"r{at}" for at in order]
    pq.write_table(pa.table({"id": ids, "v": fixed(vectors[order])}), home / "apart.parquet")
    with_encoder(home, "apart.parquet")

    agree(plain, in_shards(home, 25), within=0.0)
    agree(in_memory(home), in_shards(home, 25), within=1e-6)
    rows = pq.read_table(home / "rows.parquet").append_column("v", fixed(vectors))
    pq.write_table(rows, home / "rows.parquet", row_group_size=11)
    text = (home / "epoxy.toml").read_text().replace('"apart.parquet"', '"column:v"')
    (home / "epoxy.toml").write_text(text)
    agree(plain, in_shards(home, 25), within=0.0)
    agree(in_memory(home), in_shards(home, 25), within=1e-6)


def name_vectors(home: Path, *, order: np.ndarray | None = None) -> np.ndarray:
    """Write the vectors of a project in another order, and their ids beside them."""
    vectors = np.load(home / "vectors.npy")
    order = np.random.default_rng(3).permutation(len(vectors)) if order is None else order
    np.save(home / "vectors.npy", vectors[order])
    pq.write_table(pa.table({"id": [f"r{at}" for at in order]}), home / "names.parquet")
    text = (home / "epoxy.toml").read_text()
    (home / "epoxy.toml").write_text(
        text.replace("[vectors]", '[vectors]\nids = "names.parquet"', 1)
    )
    return order


def test_vectors_in_a_file_of_numbers_are_joined_by_the_ids_beside_them(tmp_path, monkeypatch):
    monkeypatch.setattr("epoxy.shards.vectors.STRETCH", 7)
    home = project(tmp_path / "project", model='kind = "epoxy"')
    plain = in_shards(home, 25)

    name_vectors(home)

    agree(plain, in_shards(home, 25), within=0.0)
    agree(plain, in_memory(home), within=0.0)


def test_ids_of_vectors_that_do_not_match_are_told_as_in_memory(tmp_path):
    def told(home: Path, match: str) -> None:
        for label_it in (in_memory, lambda home: in_shards(home, 25)):
            with pytest.raises(AlignmentError, match=match):
                label_it(home)

    home = project(tmp_path / "lost")
    name_vectors(home, order=np.arange(59))
    told(home, r"names.parquet has no row for 1 ids of the rows: \['r59'\]; write one")
    home = project(tmp_path / "twice")
    name_vectors(home, order=np.array([*range(60), 3]))
    told(home, r"names.parquet names 1 rows twice in its column 'id': \['r3'\]")
    home = project(tmp_path / "fewer")
    name_vectors(home)
    np.save(home / "vectors.npy", np.load(home / "vectors.npy")[1:])
    told(home, "vectors.npy has 59 vectors and .*names.parquet has 60 ids; write one id for every")
    home = project(tmp_path / "by place")
    np.save(home / "vectors.npy", np.load(home / "vectors.npy")[1:])
    told(home, "vectors.npy has 59 vectors for 60 rows; write one for every row, in the order")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (('id = "id"\n', ""), r"joined by id, and \[rows\] names no id"),
        (('"vectors.npy"', '"lsa"'), "says whose the vectors of a .npy file are, and encoder is"),
        (("ids =", 'dev = "dev.npy"\nids ='), "finds the vectors of the dev file's rows too"),
    ],
)
def test_ids_of_vectors_need_what_they_join(tmp_path, change, match):
    home = project(tmp_path / "project")
    name_vectors(home)
    text = (home / "epoxy.toml").read_text().replace('[votes]\nfile = "votes.parquet"\n', "")
    (home / "epoxy.toml").write_text(text.replace(*change))

    with pytest.raises(StoreError, match=match):
        Project.read(home)


def test_a_damaged_part_is_told_with_what_to_do(tmp_path):
    home = project(tmp_path / "project", parts=2)
    whole = (home / "rows" / "1.parquet").read_bytes()
    (home / "rows" / "1.parquet").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(
        StoreError, match=r"1.parquet cannot be read as .parquet: .*; write it again"
    ):
        in_shards(home, 25)


def test_any_stretch_of_rows_is_read_from_parts(tmp_path):
    (tmp_path / "rows").mkdir()
    for at, size in enumerate((5, 1, 9)):
        table = pa.table({"at": np.arange(size) + 10 * at})
        pq.write_table(table, tmp_path / "rows" / f"{at}.parquet", row_group_size=4)
    parts = parts_of(tmp_path / "rows")
    whole = [row for each in parts.cut(99) for row in table_of(each).column("at").to_pylist()]

    for most in range(1, 16):
        found = [row for each in parts.cut(most) for row in table_of(each).column("at").to_pylist()]
        assert found == whole
        assert all(len(each) <= most for each in parts.cut(most))


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_lists_that_hold_every_row_lend_as_the_exact_search_does(tmp_path, kind):
    home = project(tmp_path / "project", model=f'kind = "{kind}"')
    exact = in_shards(home, 25)
    text = (home / "epoxy.toml").read_text()
    (home / "epoxy.toml").write_text(
        text.replace('"vectors.npy"\n', '"vectors.npy"\nneighbours = "approximate"\n')
    )
    found = label(home, rows_per_shard=25)

    agree(exact, pq.read_table(found.path), within=0.0)
    assert found.recall is not None
    assert found.recall.value == 1.0


def approximate(home: Path, recall: float = 0.5) -> Path:
    """The same project with neighbours that are approximate, and far from all of them."""
    text = (home / "epoxy.toml").read_text()
    asked = f'"vectors.npy"\nneighbours = "approximate"\nrecall = {recall}\n'
    (home / "epoxy.toml").write_text(text.replace('"vectors.npy"\n', asked))
    return home


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_approximate_neighbours_label_nearly_all_rows_as_memory_does(tmp_path, kind, zeros):
    votes, vectors, y = drawn(900, 3, dimension=12)
    votes[np.random.default_rng(3).random(votes.shape) < 0.9] = -1  # few lend, so lists miss many
    if zeros and kind == "fusion":  # the paper's model refuses them
        vectors[[5, 300]] = 0
    truth = np.where(np.arange(900) % 15 == 3, y, -1)
    home = approximate(
        write_project(tmp_path / "p", votes, vectors, truth, CLASSES, model=f'kind = "{kind}"')
    )
    session = epoxy.Session.open(home, graph=False)
    session.label("r11", "spam")

    found = label(home, rows_per_shard=200)

    memory = pq.read_table(session.export(tmp_path / "memory.parquet"))
    labels = [each["label"].to_numpy() for each in (pq.read_table(found.path), memory)]
    assert (labels[0] == labels[1]).mean() > 0.98  # the lists of the two are made differently
    assert found.recall.value < 0.9
    lent = np.isfinite(session.state.workspace.sources[0].loans[0].distance)
    assert 0.2 < lent.mean() < 0.9


# new rows


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_new_rows_get_what_the_fitted_model_says_of_them(tmp_path, kind):
    home = project(tmp_path / "project", model=f'kind = "{kind}"')
    votes, vectors, _ = drawn(15, 7)
    columns = {f"s{at}": votes[:, at] for at in range(votes.shape[1])}
    pq.write_table(
        pa.table({"id": [f"n{at}" for at in range(15)], **columns}), tmp_path / "new.parquet"
    )
    np.save(tmp_path / "new.npy", vectors)
    label(home, rows_per_shard=20)

    found = label(
        home, rows_per_shard=20, new=tmp_path / "new.parquet", vectors=tmp_path / "new.npy"
    )

    model = epoxy.Session.open(home, graph=False).model()
    names = [f"s{at}" for at in range(votes.shape[1])]
    new = epoxy.Split(epoxy.Votes(votes, names, CLASSES), vectors)
    table = pq.read_table(found.path)
    proba = np.stack([table.column(f"p_{name}").to_numpy() for name in CLASSES], axis=1)
    np.testing.assert_allclose(proba, model.predict_proba(new), atol=1e-6)
    assert table.column("label").to_pylist() == model.predict(new).tolist()
    assert found.path.name == "new.parquet"
    assert found.rows == 15


def test_new_rows_without_vectors_are_told_where_to_give_them(tmp_path):
    home = project(tmp_path / "project")
    votes, _, _ = drawn(5, 7)
    columns = {f"s{at}": votes[:, at] for at in range(votes.shape[1])}
    pq.write_table(pa.table({"id": list("abcde"), **columns}), tmp_path / "new.parquet")

    with pytest.raises(
        VectorError, match=r"new\.parquet has none; write one, or .* --vectors FILE"
    ):
        label(home, new=tmp_path / "new.parquet")


def new_rows(home: Path, ids: list[str], name: str = "new") -> dict[str, Path]:
    """Rows to come, with votes and vectors."""
    votes, vectors, _ = drawn(len(ids), 7)
    columns = {f"s{at}": votes[:, at] for at in range(votes.shape[1])}
    pq.write_table(pa.table({"id": ids, **columns}), home / f"{name}.parquet")
    np.save(home / f"{name}.npy", vectors)
    return {"new": home / f"{name}.parquet", "vectors": home / f"{name}.npy"}


def test_new_rows_are_looked_at_before_the_old_ones(tmp_path):
    home = project(tmp_path / "project")
    twice = new_rows(tmp_path, ["a", "b", "a"])

    with pytest.raises(AlignmentError, match=r"new.parquet names 1 rows twice .*: \['a'\]; give"):
        label(home, **twice)
    unnamed = pq.read_table(twice["new"]).drop_columns(["id"])
    pq.write_table(unnamed, twice["new"])
    with pytest.raises(EpoxyError, match=r"no column of .*new.parquet named 'id'; known: s0"):
        label(home, **twice)
    with pytest.raises(EpoxyError, match=r"there is no file .*; check --new"):
        label(home, new=tmp_path / "nowhere.parquet")
    assert not (home / ".epoxy" / "shards").exists()


def test_labels_of_new_rows_are_written_beside_those_of_the_old_ones(tmp_path):
    home = project(tmp_path / "project")
    given = new_rows(tmp_path, ["a", "b"], "labels")

    with pytest.raises(ParameterError, match=r"written over those of the project's rows, .* --to"):
        label(home, **given)
    found = label(home, **given, to=tmp_path / "tomorrow.csv")
    assert found.path.read_text().startswith('"id","label"')


def test_where_labels_cannot_be_written_is_told_before_any_work(tmp_path):
    home = project(tmp_path / "project")

    with pytest.raises(ParameterError, match=r"written as Parquet, and x.csv is none; name a file"):
        label(home, to="x.csv")
    with pytest.raises(ParameterError, match="are those of new rows; name their file too: --new"):
        label(home, vectors="x.npy")
    assert not (home / ".epoxy" / "shards").exists()


def written_as(home: Path, ending: str, *names: str) -> None:
    """The project with tables in another format than Parquet."""
    for name in names:
        table = pq.read_table(home / f"{name}.parquet")
        if ending == "csv":
            csv.write_csv(table, home / f"{name}.csv")
        else:
            lines = "".join(json.dumps(each) + "\n" for each in table.to_pylist())
            (home / f"{name}.{ending}").write_text(lines)
        (home / f"{name}.parquet").unlink()
        text = (home / "epoxy.toml").read_text()
        (home / "epoxy.toml").write_text(text.replace(f"{name}.parquet", f"{name}.{ending}"))


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

    assert capsys.readouterr().out.count("labelled 2 rows with Fusion") == 2
    found = [pq.read_table(each / "labels" / "new.parquet") for each in (home, other)]
    assert found[0].equals(found[1])
    assert found[1].column("label").to_pylist() == ["spam", "ham"]


def test_vectors_in_lines_of_json_are_read_for_new_rows(tmp_path):
    home = project(tmp_path / "project")
    given = new_rows(tmp_path, ["a", "b", "c"])
    expected = pq.read_table(label(home, **given).path)
    vectors_in_a_column(home, np.load(home / "vectors.npy"))

    written_as(home, "jsonl", "rows")

    assert pq.read_table(label(home, **given).path).equals(expected)


def test_a_copy_is_made_again_only_when_its_file_changed_or_it_is_damaged(tmp_path):
    home = project(tmp_path / "project")
    given = new_rows(tmp_path, ["a", "b", "c"])
    written_as(home, "csv", "rows")

    def copy() -> tuple[Path, int]:
        label(home, **given)
        (file,) = (home / ".epoxy" / "rows").iterdir()
        return file, file.stat().st_mtime_ns

    first = copy()
    assert copy() == first
    first[0].write_bytes(b"PAR1")
    again = copy()
    assert again[0] == first[0]
    assert pq.read_table(again[0]).num_rows == 60
    rows = (home / "rows.csv").read_text()
    (home / "rows.csv").write_text(rows.replace("r59", "r60"))
    with pytest.raises(
        AlignmentError, match=r"votes.parquet has no row for 1 ids of the rows: .*r60"
    ):
        copy()
    assert len(list((home / ".epoxy" / "rows").iterdir())) == 1


def test_what_is_wrong_with_rows_that_were_copied_is_told_of_their_own_file(tmp_path):
    home = project(tmp_path / "project")
    given = new_rows(tmp_path, ["a", "b", "c"])
    written_as(home, "csv", "rows")
    rows = (home / "rows.csv").read_text()

    (home / "rows.csv").write_text(rows.replace("r59", "r58"))
    with pytest.raises(AlignmentError, match=r"rows\.csv names 1 rows twice"):
        label(home, **given)
    (home / "rows.csv").unlink()
    with pytest.raises(StoreError, match=r"no file .*rows\.csv; check the path under \[rows\]"):
        label(home, **given)


# a run that was interrupted goes on


class Stops(Serial):
    """Breaks off after so many shards."""

    def __init__(self, after: int) -> None:
        self.left, self.done = after, 0

    def each(self, do, shards, *constants):
        for shard in shards:
            if self.done == self.left:
                raise KeyboardInterrupt
            self.done += 1
            yield do(shard, *constants)


def test_what_is_finished_is_not_done_again(tmp_path):
    home = project(tmp_path / "project")
    whole = Stops(10**9)
    expected = in_shards(home, 20, runner=whole)
    shutil.rmtree(home / ".epoxy" / "shards")
    (home / "labels" / "labels.parquet").unlink()
    first, second = Stops(whole.done // 2), Stops(10**9)

    with pytest.raises(KeyboardInterrupt):
        label(home, rows_per_shard=20, runner=first)
    assert not (home / "labels" / "labels.parquet").exists()
    agree(expected, in_shards(home, 20, runner=second), within=0.0)
    assert first.done + second.done == whole.done
    again = Stops(10**9)
    label(home, rows_per_shard=20, runner=again)
    assert again.done == 0


def test_a_file_that_was_written_again_is_another_whatever_its_size(tmp_path):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"at": [1, 2]}), file)
    size, key = file.stat().st_size, parts_of(file).key

    pq.write_table(pa.table({"at": [1, 3]}), file)
    os.utime(file, ns=(0, 1))

    assert file.stat().st_size == size
    assert parts_of(file).key != key


@pytest.mark.slow
def test_a_damaged_summary_is_made_again(tmp_path):
    home = project(tmp_path / "project")
    expected = in_shards(home, 20)
    for file in (home / ".epoxy" / "shards").glob("pupil-*/*.summary.npz"):
        file.write_bytes(file.read_bytes()[:-30])

    agree(expected, in_shards(home, 20), within=0.0)


def test_another_label_starts_at_what_it_changes(tmp_path):
    home = project(tmp_path / "project")
    label(home, rows_per_shard=20)
    epoxy.Session.open(home, graph=False).label("r5", "spam")
    again = Stops(10**9)
    found = label(home, rows_per_shard=20, runner=again)

    agree(in_memory(home), pq.read_table(found.path), within=1e-6)
    kept = {each.name.rsplit("-", 1)[0] for each in (home / ".epoxy" / "shards").iterdir()}
    assert {"features", "nearest-0", "pupil"} <= kept
    assert again.done < len(kept)  # of three shards each


@pytest.mark.skipif(os.name != "posix", reason="locks are the system's")
def test_a_second_run_at_once_is_told_to_wait(tmp_path):
    home, met = project(tmp_path / "project"), []

    class Meets(Serial):
        def each(self, do, shards, *constants):
            with pytest.raises(
                StoreError,
                match=rf"another run labels .*project in shards now \(process {os.getpid()}",
            ):
                label(home, rows_per_shard=30)
            met.append(do)
            yield from super().each(do, shards, *constants)

    found = in_shards(home, 20, runner=Meets())

    assert len(met) > 5
    agree(found, in_shards(home, 20), within=0.0)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_killed_driver_resumes(tmp_path):
    home = project(tmp_path / "project")
    code = (
        "import os, signal, sys\n"
        "from epoxy.shards import Serial, label\n"
        "class Dies(Serial):\n"
        "    def each(self, do, shards, *constants):\n"
        "        for shard in shards:\n"
        "            if 'proba' in str(constants[1].folder):\n"
        "                os.kill(os.getpid(), signal.SIGKILL)\n"
        "            yield do(shard, *constants)\n"
        "label(sys.argv[1], rows_per_shard=20, runner=Dies())\n"
    )
    died = subprocess.run([sys.executable, "-c", code, str(home)], check=False)

    assert died.returncode == -signal.SIGKILL
    assert not (home / "labels").exists()
    rest = Stops(10**9)
    agree(in_memory(home), in_shards(home, 20, runner=rest), within=1e-6)
    assert rest.done == 2 * 3  # proba and labels of three shards


# order statistics and counts are exact


def sharded(tmp_path: Path, numbers: list[np.ndarray]) -> tuple[Run, Kept]:
    shards = tuple(Shard(at, (), 0) for at in range(len(numbers)))
    kept = Kept(tmp_path / "numbers")
    kept.folder.mkdir()
    for shard, each in zip(shards, numbers):
        keep_sorted(kept, shard, each)
    return Run(tmp_path, Serial(), shards, "key"), kept


def test_the_number_of_a_rank_is_that_of_all_numbers_sorted(tmp_path):
    rng = np.random.default_rng(0)
    numbers = [rng.random(50) ** 9, np.empty(0), np.repeat([0.0, 0.5, 1e-300], 9), rng.random(3)]
    run, kept = sharded(tmp_path, numbers)
    whole = np.sort(np.concatenate(numbers))

    assert ranked(run, kept, range(len(whole)), "rank") == dict(enumerate(whole.tolist()))
    assert np.concatenate(list(in_order(run, kept, len(whole), "order"))).tolist() == whole.tolist()


def test_ranked_shards_say_what_ranked_rows_say(tmp_path, monkeypatch):
    monkeypatch.setattr("epoxy.shards.ranks.AT_ONCE", 16)
    rng = np.random.default_rng(1)
    own = np.round(rng.random(90), 2)
    proba = np.stack([1 - own, own], axis=1)
    run, kept = sharded(tmp_path, [own[:40], own[40:41], own[41:]])
    rows = RankedRows(proba, proba, 1)
    called = np.array((own > 0.5).sum())
    shards = Ranked(run, kept, 90, called, 1)
    right = rng.random(120) < 0.4
    shown = np.clip(0.4 * right + 0.7 * rng.random(120), 0, 1)

    assert shards.called == rows.called
    assert shards.threshold(shown, right) == rows.threshold(shown, right)
    for at in (0, 1, 44, 89, 90):
        assert shards.falling(at) == rows.falling(at)
    for cut in (0.0, 0.25, 0.5, 0.999):
        assert shards.from_on(cut) == pytest.approx(rows.from_on(cut), abs=1e-15)


@pytest.mark.parametrize("n_rows", [400, 12_000])
@pytest.mark.parametrize("shrunk", [0.4, 0.5, 0.6])
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_two_sample_test_from_counts_tells_what_that_of_the_samples_does(
    n_rows, shrunk, mirrored
):
    rng = np.random.default_rng(2)
    mine = np.round(rng.random(40) * shrunk, 2)
    mine = 1 - mine if mirrored else mine
    other = np.round(rng.random(n_rows), 2)
    counts = [np.searchsorted(np.sort(other), mine, side) for side in ("left", "right")]

    found, wanted = _ks(mine, *counts, n_rows), stats.ks_2samp(mine, other).pvalue
    assert 1e-15 < wanted < 1e-3
    assert np.log10(found) == pytest.approx(np.log10(wanted), abs=0.3)


def test_rows_drawn_alike_look_alike():
    rng = np.random.default_rng(3)
    mine, other = rng.random(40), np.sort(rng.random(400))
    counts = [np.searchsorted(other, mine, side) for side in ("left", "right")]

    assert 0.05 < _ks(mine, *counts, 400) <= 1
    assert _ks(mine, np.zeros(40), np.zeros(40), 0) == 1


def test_the_test_of_two_shares_is_pearsons():
    for table in ([[3, 7], [300, 100]], [[0, 10], [4, 90]], [[9, 1], [20, 4000]]):
        wanted = stats.chi2_contingency(np.array(table), correction=False)[1]

        assert _independence(np.array(table)) == pytest.approx(wanted, rel=1e-9)
    assert _independence(np.array([[0, 12], [0, 90]])) == 1.0
    assert _independence(np.array([[3, 12], [0, 0]])) == 1.0


def test_moments_of_some_sources_are_those_of_their_votes():
    votes = epoxy.Votes(drawn(50, 3)[0], classes=CLASSES)
    some = np.array([3, 0, 2])
    found, wanted = (
        moments(votes).only(some),
        moments(epoxy.Votes(votes.matrix[:, some], classes=CLASSES)),
    )

    assert found.joint.tolist() == wanted.joint.tolist()
    assert found.counts.tolist() == wanted.counts.tolist()


# what is refused, and how


def test_sizes_are_read_as_people_write_them():
    assert bytes_of("4GB") == 4 * 10**9
    assert bytes_of("1.5 GiB") == 3 * 2**29
    assert bytes_of(1000) == 1000
    for wrong in ("", "many", "-1GB", "0", 0, True):
        with pytest.raises(ParameterError, match="memory is a size such as 4GB"):
            bytes_of(wrong)


def test_a_budget_too_small_says_what_is_needed(tmp_path):
    home = project(tmp_path / "project")
    with pytest.raises(
        ParameterError, match=r"100 MB are too little for .*give --memory \d+MB or more"
    ):
        label(home, memory="100MB")


def test_parts_of_different_schemas_are_refused(tmp_path):
    home = project(tmp_path / "project", parts=2)
    rows = pq.read_table(home / "rows" / "1.parquet")
    pq.write_table(
        rows.set_column(0, "id", pa.array(range(len(rows)))), home / "rows" / "1.parquet"
    )

    with pytest.raises(
        AlignmentError, match=r"different schemas: .*'id' of type string.*'id' of type int64"
    ):
        label(home)
    with pytest.raises(AlignmentError, match="different schemas"):
        in_memory(home)


def test_rows_that_are_not_parquet_are_refused(tmp_path):
    home = project(tmp_path / "project")
    text = (home / "epoxy.toml").read_text().replace("rows.parquet", "rows.csv")
    (home / "epoxy.toml").write_text(text)
    (home / "rows.csv").write_text("id,label\nr0,\n")

    given = new_rows(tmp_path, ["a"])
    for options in ({}, {"memory": "4GB", **given}, {"runner": Serial(), **given}):
        with pytest.raises(
            StoreError,
            match=r"rows\.csv is not Parquet, which is what is read a part at a time; convert it once, "
            "for example with pyarrow or DuckDB, or label in memory, without --memory and --cluster",
        ):
            label(home, **options)


def test_ids_that_repeat_are_refused(tmp_path):
    home = project(tmp_path / "project")
    rows = pq.read_table(home / "rows.parquet")
    ids = rows.column("id").to_pylist()
    ids[50] = "r2"
    pq.write_table(rows.set_column(0, "id", pa.array(ids)), home / "rows.parquet")

    with pytest.raises(AlignmentError, match=r"names 1 rows twice in its column 'id': \['r2'\]"):
        label(home, rows_per_shard=20)


def without_ids(file: Path, ids: dict[int, str | None]) -> None:
    rows = pq.read_table(file)
    given = rows.column("id").to_pylist()
    for at, name in ids.items():
        given[at] = name
    pq.write_table(rows.set_column(0, "id", pa.array(given)), file)


def test_rows_without_an_id_are_refused_as_in_memory(tmp_path):
    home = project(tmp_path / "project")
    without_ids(home / "rows.parquet", {50: None, 27: None, 9: " "})  # 27 is a dev row

    for label_it in (in_memory, lambda home: in_shards(home, 20)):
        with pytest.raises(
            AlignmentError,
            match=r"rows.parquet has no id in its column 'id' for 3 rows, numbers \[9, 27, 50\]; "
            "give every row an id of its own, or take id out of \\[rows\\] to name rows by position",
        ):
            label_it(home)


@pytest.mark.parametrize("kind", ["in their order", "by id", "in a column"])
def test_a_vector_that_is_not_finite_is_named_by_its_row_as_in_memory(tmp_path, kind):
    home = project(tmp_path / "project")  # rows 3, 8, 13, … are dev rows
    order = np.random.default_rng(0).permutation(60) if kind == "by id" else np.arange(60)
    vectors = np.load(home / "vectors.npy")
    vectors[[47, 48]] = np.nan
    np.save(home / "vectors.npy", vectors)
    if kind == "by id":
        name_vectors(home, order=order)
    if kind == "in a column":
        vectors_in_a_column(home, vectors)

    match = "vectors must be finite, got NaN or infinity in 2 rows, first row 'r47'; embed those"
    for label_it in (in_memory, lambda home: in_shards(home, 20)):
        with pytest.raises(VectorError, match=match):
            label_it(home)


def vectors_in_a_column(home: Path, vectors: np.ndarray) -> None:
    rows = pq.read_table(home / "rows.parquet")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    pq.write_table(rows.append_column("vector", column), home / "rows.parquet")
    text = (home / "epoxy.toml").read_text()
    (home / "epoxy.toml").write_text(
        text.replace('encoder = "vectors.npy"', 'encoder = "column:vector"')
    )


def test_without_ids_such_a_vector_is_named_by_the_number_of_its_row_in_the_file(tmp_path):
    home = project(tmp_path / "project")
    vectors = np.load(home / "vectors.npy")
    vectors[47] = np.inf
    np.save(home / "vectors.npy", vectors)
    rows = pq.read_table(home / "rows.parquet")
    votes = pq.read_table(home / "votes.parquet").sort_by("id").drop_columns("id")
    lfs = [
        f'{name} = epoxy.from_column("{name}", {{0: "ham", 1: "spam", -1: None}})'
        for name in votes.column_names
    ]
    for name in votes.column_names:
        rows = rows.append_column(name, votes.column(name))
    pq.write_table(rows, home / "rows.parquet")
    (home / "lfs.py").write_text("import epoxy\n" + "\n".join(lfs))
    text = (home / "epoxy.toml").read_text().replace('id = "id"\n', "")
    (home / "epoxy.toml").write_text(text.replace('[votes]\nfile = "votes.parquet"\n', ""))

    for label_it in (in_memory, lambda home: in_shards(home, 20)):
        with pytest.raises(VectorError, match="in 1 rows, first row 47; embed those"):
            label_it(home)


def test_vectors_and_new_rows_without_an_id_are_refused(tmp_path):
    home = project(tmp_path / "project")
    name_vectors(home, order=np.arange(60))
    names = home / "names.parquet"
    whole = names.read_bytes()

    without_ids(names, {41: None})

    match = r"names.parquet has no id in its column 'id' for 1 rows, numbers \[41\]; give every row"
    for label_it in (in_memory, lambda home: in_shards(home, 25)):
        with pytest.raises(AlignmentError, match=match):
            label_it(home)
    names.write_bytes(whole)
    new = tmp_path / "new.parquet"
    shutil.copy(home / "rows.parquet", new)
    without_ids(new, {5: None})
    with pytest.raises(AlignmentError, match=r"new.parquet has no id in .* numbers \[5\]"):
        label(home, new=new)


@pytest.mark.parametrize("most", [20, 100])
def test_ids_without_votes_or_vectors_are_refused(tmp_path, most):
    home = project(tmp_path / "project")
    votes = pq.read_table(home / "votes.parquet")
    ids = [{"r7": "other"}.get(each, each) for each in votes.column("id").to_pylist()]
    pq.write_table(votes.set_column(0, "id", pa.array(ids)), home / "votes.parquet")

    with pytest.raises(AlignmentError, match=r"has no row for 1 ids of the rows: \['r7'\]"):
        label(home, rows_per_shard=most)
    ids[4] = ids[5]
    pq.write_table(votes.set_column(0, "id", pa.array(ids)), home / "votes.parquet")
    with pytest.raises(AlignmentError, match=r"votes.parquet names 1 rows twice"):
        label(home, rows_per_shard=most)


def test_vectors_that_do_not_fit_are_refused(tmp_path):
    home = project(tmp_path / "project")
    vectors = np.load(home / "vectors.npy")
    np.save(home / "vectors.npy", vectors[:-1])
    with pytest.raises(AlignmentError, match="has 59 vectors for 60 rows"):
        label(home)
    np.save(home / "vectors.npy", vectors)
    whole = (home / "vectors.npy").read_bytes()
    (home / "vectors.npy").write_bytes(whole[:-100])
    with pytest.raises(StoreError, match=r"ends after .* write it again"):
        label(home)
    (home / "vectors.npy").write_bytes(b"nothing")
    with pytest.raises(StoreError, match="cannot be read as vectors"):
        label(home)
    np.save(home / "vectors.npy", vectors[:, 0])
    with pytest.raises(VectorError, match=r"holds an array of shape \(60,\)"):
        label(home)


def test_what_needs_all_rows_at_once_is_refused(tmp_path):
    home = project(tmp_path / "project")
    with pytest.raises(ParameterError, match="DawidSkene learns from the rows themselves"):
        label(home, model=epoxy.Epoxy(epoxy.DawidSkene()))
    with pytest.raises(ParameterError, match="looks at several lenders"):
        label(home, model=epoxy.Epoxy(weighting="k-nearest"))
    text = (
        (home / "epoxy.toml")
        .read_text()
        .replace('label = "label"', 'label = "label"\nsequence = "id"')
    )
    (home / "epoxy.toml").write_text(text)
    with pytest.raises(ParameterError, match="a shard could cut one in two"):
        label(home)


def test_a_full_disk_is_said_and_nothing_passes_for_finished(tmp_path, monkeypatch):
    home = project(tmp_path / "project")
    written = 0

    def full(array, path):
        nonlocal written
        written += 1
        if written > 25:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        with path.open("wb") as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    with monkeypatch.context() as patch:
        patch.setattr("epoxy.shards.shard._save", full)
        with pytest.raises(StoreError, match=r"No space left on device.*make room and run again"):
            label(home, rows_per_shard=20)
    assert not (home / "labels").exists()
    assert not list((home / ".epoxy" / "shards").rglob(".*.tmp"))
    agree(in_memory(home), in_shards(home, 20), within=1e-6)


def test_a_project_of_the_command_line_is_labelled_within_memory(tmp_path, capsys):
    from epoxy.cli import main

    home = project(tmp_path / "project")

    assert main(["label", str(home), "--memory", "2GB"]) == 0
    assert "labelled 60 rows with Fusion" in capsys.readouterr().out
    assert main(["label", str(home), "--memory", "1MB"]) == 2
    assert "are too little" in capsys.readouterr().err


def test_a_project_without_an_id_may_not_join(tmp_path):
    home = project(tmp_path / "project")
    text = (home / "epoxy.toml").read_text().replace('id = "id"\n', "")
    (home / "epoxy.toml").write_text(text)

    with pytest.raises(EpoxyError, match=r"joined by id, and \[rows\] names no id"):
        Project.read(home)
