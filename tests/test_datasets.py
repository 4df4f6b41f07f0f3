from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.datasets import SyntheticSource, load, read_folder, read_wrench, synthetic
from epoxy.errors import ParameterError, StoreError, UnknownName
from epoxy.functions.declare import keywords
from epoxy.functions.define import labeling_function

# WRENCH

LABELS = {"0": "ham", "1": "spam"}
COMMENTS = {
    "0": {"label": 1, "weak_labels": [1, -1, 1], "data": {"text": "check out my channel"}},
    "1": {"label": 0, "weak_labels": [-1, 0, -1], "data": {"text": "moved to tears"}},
    "2": {"label": -1, "weak_labels": [-1, -1, -1], "data": {"text": "hm", "likes": 3}},
}


@pytest.fixture
def wrench(tmp_path):
    """A folder as the WRENCH benchmark ships it; its parts can be overwritten."""
    folder = tmp_path / "youtube"
    folder.mkdir()
    for name in ("train", "valid", "test"):
        (folder / f"{name}.json").write_text(json.dumps(COMMENTS))
    (folder / "label.json").write_text(json.dumps(LABELS))
    return folder


def test_a_wrench_folder_becomes_splits(wrench):
    data = read_wrench(wrench)

    assert repr(data) == "Dataset('youtube', train 3, dev 3, test 3, 2 classes)"
    assert data.sources == ("lf0", "lf1", "lf2")
    assert data.classes == ("ham", "spam")
    assert data.dev.votes.matrix.tolist() == [[1, -1, 1], [-1, 0, -1], [-1, -1, -1]]
    assert data.dev.y.tolist() == [1, 0, -1]
    assert data.rows("test").to_pylist() == [
        {"id": "0", "text": "check out my channel", "likes": None},
        {"id": "1", "text": "moved to tears", "likes": None},
        {"id": "2", "text": "hm", "likes": 3},
    ]


def test_a_wrench_folder_may_have_only_train(wrench):
    (wrench / "valid.json").unlink()
    (wrench / "test.json").unlink()
    data = read_wrench(wrench)

    with pytest.raises(UnknownName, match=r"no split of 'youtube' named 'dev'; known: train"):
        data.dev  # noqa: B018


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("label.json", None, "label.json is missing"),
        ("label.json", '{"1": "a", "2": "b"}', r"\['1', '2'\], expected 0 to 1"),
        ("label.json", '["a", "b"]', "label.json"),
        ("train.json", None, "train.json is missing"),
        ("train.json", '{"0": {"label": 1, "weak', "train.json cannot be read"),
        ("valid.json", "{}", "valid.json holds no rows"),
        ("test.json", {"0": {"label": 1, "weak_labels": [1, 0], "data": {}}}, "'test': 2"),
        (
            "test.json",
            COMMENTS | {"7": {"label": 1, "weak_labels": [1], "data": {}}},
            r"row '7' of .*test.json has 1",
        ),
        (
            "test.json",
            {"0": {"label": [0, 1], "weak_labels": [[1, 0]], "data": {"text": []}}},
            r"test.json .*label.*only classification",
        ),
        ("test.json", {"0": {"label": 2, "weak_labels": [1, 1, 1], "data": {}}}, "id '0'"),
        (
            "test.json",
            {"0": {"label": 1, "weak_labels": [1, 5, 1], "data": {}}},
            "votes 5 on row 0",
        ),
    ],
)
def test_a_damaged_wrench_folder_is_explained(wrench, file, text, message):
    if text is None:
        (wrench / file).unlink()
    else:
        (wrench / file).write_text(text if isinstance(text, str) else json.dumps(text))

    with pytest.raises(StoreError, match=message):
        read_wrench(wrench)


@pytest.mark.parametrize("read", [read_wrench, read_folder])
def test_a_folder_that_is_not_there_is_named(tmp_path, read):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match=r"nowhere does not exist; expected the folder"):
        read(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"file is a file; expected the folder"):
        read(tmp_path / "file")


# folders of Parquet rows


def write(folder, name, texts, labels, votes, vectors=None):
    ids = [f"{name}-{row}" for row in range(len(texts))]
    pq.write_table(
        pa.table({"id": ids, "text": texts, "label": labels}), folder / f"{name}.parquet"
    )
    np.save(folder / f"votes-{name}.npy", np.array(votes, dtype=np.int8))
    if vectors is not None:
        np.save(folder / f"vectors-{name}.npy", np.array(vectors, dtype=np.float16))


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "spam"
    where.mkdir()
    meta = {"name": "spam", "classes": ["ham", "spam"], "sources": ["a", "b"], "metric": "f1"}
    (where / "meta.json").write_text(json.dumps(meta | {"positive": "spam"}))
    write(where, "train", ["x", "y"], ["spam", "ham"], [[1, -1], [-1, 0]], [[0, 1], [1, 0]])
    write(where, "dev", ["z"], ["ham"], [[0, 0]], [[1, 1]])
    return where


def test_a_folder_becomes_splits(folder):
    data = read_folder(folder)

    assert (data.name, data.sources, data.scoring, data.positive) == (
        "spam",
        ("a", "b"),
        "f1",
        "spam",
    )
    assert list(data.splits) == ["train", "dev"]
    assert data.train.y is None
    assert data.truth["train"].tolist() == [1, 0]
    assert data.dev.y.tolist() == [0]
    assert data.dev.ids.tolist() == ["dev-0"]
    assert data.train.vectors.dtype == np.float32
    assert data.rows("train")["text"].to_pylist() == ["x", "y"]


def cut(name, by):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-by])


def gone(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def saved(name, array):
    return lambda folder: np.save(folder / name, array, allow_pickle=True)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("votes-train.npy", 2), "votes-train.npy cannot be read"),
        (cut("dev.parquet", 9), "dev.parquet cannot be read as Parquet"),
        (saved("votes-train.npy", np.zeros((1, 2), np.int8)), "has 1 rows and train.parquet has 2"),
        (saved("vectors-dev.npy", np.zeros((5, 2))), "has 5 rows and dev.parquet has 1"),
        (gone("votes-dev.npy"), "votes-dev.npy is missing"),
        (gone("train.parquet", "dev.parquet"), "none of train, dev and test.parquet"),
        (lambda folder: (folder / "meta.json").write_text('{"sources": ["a"]}'), "classes"),
        (saved("votes-dev.npy", np.array([[None, {}]])), "votes-dev.npy cannot be read"),
        (lambda folder: write(folder, "dev", ["z"], ["eggs"], [[0, 0]]), "dev split .*'eggs'"),
        (saved("vectors-dev.npy", np.full((1, 2), np.inf)), "dev split .*finite"),
    ],
)
def test_a_damaged_folder_is_explained(folder, damage, message):
    damage(folder)

    with pytest.raises(StoreError, match=message):
        read_folder(folder)


def test_every_real_data_set_is_read(shared_data):
    for folder in sorted(each for each in shared_data.iterdir() if (each / "meta.json").is_file()):
        data = read_folder(folder)
        meta = json.loads((folder / "meta.json").read_text())

        assert {name: split.n_rows for name, split in data.splits.items()} == meta["rows"]
        assert data.train.y is None
        assert data.positive is None or data.positive in data.classes


# digits


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_digits_are_all_there_once(digits):
    ids = [each for name in digits.splits for each in digits.rows(name)["id"].to_pylist()]

    assert repr(digits) == "Dataset('digits', train 1200, dev 97, test 500, 10 classes)"
    assert len(set(ids)) == 1797
    assert digits.train.y is None
    assert digits.test.y.tolist() == digits.truth["test"].tolist()
    assert set(digits.truth["dev"].tolist()) == set(range(10))


def test_digits_rows_and_vectors_are_of_the_same_image(digits):
    pixels = np.array(digits.rows("dev")["pixels"].to_pylist())

    assert np.array_equal(digits.dev.vectors * 16, pixels)


def test_digits_are_voted_on_once_for_all_splits(digits):
    @labeling_function
    def two_holes(row):
        return "8" if row.holes == 2 else None

    train, dev, test = digits.prepare([two_holes])

    assert (train.n_rows, dev.n_rows, test.n_rows) == (1200, 97, 500)
    assert train.votes.sources == ("two_holes",)
    assert train.classes == digits.classes
    cast = test.votes.matrix[:, 0] >= 0
    assert (test.y[cast] == 8).mean() > 0.5


def test_an_unknown_data_set_is_named():
    with pytest.raises(UnknownName, match=r"no data set named 'digit'; did you mean 'digits'"):
        load("digit")


def test_votes_and_vectors_can_both_be_made_anew(wrench):
    lfs = [keywords("spam", "channel"), keywords("ham", "tears")]

    train, dev, _ = read_wrench(wrench).prepare(lfs, encoder="lsa", column="text")

    assert train.votes.matrix.tolist() == [[1, -1], [-1, 0], [-1, -1]]
    assert dev.vectors.shape == train.vectors.shape
    assert dev.y.tolist() == [1, 0, -1]


# synthetic


@given(
    st.floats(0.5, 1.0), st.floats(0.05, 0.6), st.floats(0, 1), st.integers(2, 4), st.integers(0, 9)
)
@settings(deadline=None, max_examples=25)
def test_synthetic_sources_are_as_accurate_and_frequent_as_asked(acc, cov, smooth, n_classes, seed):
    n_rows = 4000
    source = SyntheticSource(acc, cov)
    balance = [1 / n_classes] * n_classes

    data = synthetic(n_rows, sources=[source], balance=balance, smoothness=smooth, seed=seed)

    votes = data.train.votes.matrix[:, 0]
    cast = votes >= 0
    right = (votes == data.truth["train"])[cast]
    # five standard errors of a share of n_rows, and of the votes cast: fails once in a million
    assert abs(cast.mean() - cov) < 5 * np.sqrt(cov * (1 - cov) / n_rows) + 1e-9
    assert abs(right.mean() - acc) < 5 * np.sqrt(acc * (1 - acc) / cast.sum()) + 1e-9


def test_a_one_sided_source_names_one_class_and_is_as_accurate_as_asked():
    source = SyntheticSource(accuracy=0.9, coverage=0.2, label=1)

    data = synthetic(20_000, sources=[source], balance=[0.7, 0.3], seed=3)

    votes = data.train.votes.matrix[:, 0]
    cast = votes >= 0
    assert set(votes[cast].tolist()) == {1}
    assert abs(cast.mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 20_000)
    assert abs((data.truth["train"][cast] == 1).mean() - 0.9) < 5 * np.sqrt(0.09 / cast.sum())


def test_smoothness_puts_rows_of_one_class_near_each_other():
    def gap(smoothness):
        data = synthetic(400, smoothness=smoothness)
        x, y = data.train.vectors, data.truth["train"]
        near = x @ x.T / np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(x, axis=1))
        same = y[:, None] == y[None, :]
        return near[same].mean() - near[~same].mean()

    assert gap(0.0) < 0.05 < gap(0.4) < gap(0.8)


def test_the_same_seed_draws_the_same_data():
    one, again, other = synthetic(50, seed=1), synthetic(50, seed=1), synthetic(50, seed=2)

    assert np.array_equal(one.train.vectors, again.train.vectors)
    assert np.array_equal(one.train.votes.matrix, again.train.votes.matrix)
    assert not np.array_equal(one.train.vectors, other.train.vectors)
    assert {name: split.n_rows for name, split in one.splits.items()} == {
        "train": 50,
        "dev": 20,
        "test": 25,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_rows": 0}, r"n_rows and dimension are at least 1, got 0 and 16"),
        ({"balance": [1.0]}, r"balance gives a positive probability for each of 2 or more classes"),
        ({"balance": [0.5, -0.5]}, r"balance gives a positive probability"),
        ({"smoothness": 2}, r"smoothness lies between 0 and 1, got 2"),
        (
            {"sources": [SyntheticSource(accuracy=2)]},
            r"accuracy and coverage lie between 0 and 1, got SyntheticSource",
        ),
        (
            {"sources": [SyntheticSource(label=2)]},
            r"names a class that is not there; there are 2, from 0",
        ),
        (
            {"sources": [SyntheticSource(0.9, 0.9, 1)]},
            r"is impossible: it would vote on more rows of a class",
        ),
    ],
)
def test_impossible_synthetic_data_is_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        synthetic(**arguments)
