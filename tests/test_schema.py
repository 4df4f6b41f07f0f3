from __future__ import annotations

import json
import os

import numpy as np
import pytest

import epoxy
from attacks import models
from epoxy.errors import ParameterError, StoreError
from epoxy.files import read_whole
from epoxy.neighbors import store
from epoxy.schema import Array, check_arrays, check_values


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        ({"a": int}, {"a": True}, "a is True, expected a whole number"),
        ({"a": float}, {"a": float("nan")}, "a is nan, expected a number"),
        ({"a": [str]}, {"a": ["x", 3]}, r"a\[1\] is 3, expected a text"),
        ({"a": (str, None)}, {"a": 3}, "a is 3, expected a text or null"),
        ({"a": {"b": int}}, {"a": {}}, r"a\.b is None, expected a value"),
        ({"a": int}, {"a": 1, "fit": 2}, "fit is 2, expected no such name"),
        ({"a": dict}, {"a": []}, r"a is \[\], expected a table"),
    ],
)
def test_values_that_differ_are_named(spec, value, message):
    with pytest.raises(StoreError, match=f"m/model.json: {message}; fit and save the model again"):
        check_values(value, spec, "m/model.json")


def test_values_that_fit_pass():
    spec = {"a": float, "b?": [int], "c": (str, None), "d": object}

    assert check_values({"a": 1, "c": None, "d": [[]]}, spec, "m")["a"] == 1


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2)), r"is float64 of shape \(2, 2\), expected numbers, 2 × 3"),
        (np.zeros((2, 3), dtype=int), "is int64 of shape"),
        (np.full((2, 3), np.nan), "holds nan to nan, expected numbers from 0 to 1"),
        (np.full((2, 3), -1.0), r"holds -1.0 to -1.0, expected numbers from 0 to 1"),
        (np.full((2, 3), 0.5), "holds shares that do not sum to 1"),
    ],
)
def test_arrays_that_differ_are_named(array, message):
    spec = {"table": Array("f", "rows 1+rows", low=0, high=1, shares=1)}

    with pytest.raises(StoreError, match=f"m/arrays.npz: array 'table' {message}.*; fit and save"):
        check_arrays({"table": array}, spec, "m/arrays.npz", rows=2)


def test_arrays_share_their_sizes():
    spec = {"a": Array("f", "n"), "b": Array("f", "2*n n"), "c": Array("f", "n", optional=True)}

    check_arrays({"a": np.ones(3), "b": np.ones((6, 3))}, spec, "m")
    with pytest.raises(StoreError, match="array 'b' is float64 of shape"):
        check_arrays({"a": np.ones(3), "b": np.ones((3, 3))}, spec, "m")
    with pytest.raises(StoreError, match="m lacks the array 'b'"):
        check_arrays({"a": np.ones(3)}, spec, "m")


@pytest.fixture
def folder(tmp_path):
    votes = models.rows().votes
    return epoxy.persistence.save(epoxy.Triplet().fit(votes), tmp_path / "model")


def forged(folder, name, array):
    about = json.loads((folder / "model.json").read_text())
    with np.load(folder / "arrays.npz") as stored:
        arrays = {each: stored[f"a{at}"] for at, each in enumerate(about["arrays"])}
    models.write(folder, about, arrays | {name: array})


def test_a_table_of_another_shape_is_not_read_out_of_bounds(folder):
    forged(folder, "log_likelihood_", np.zeros((4, 1, 2)))

    with pytest.raises(StoreError, match=r"model/arrays.npz: array 'log_likelihood_' .* 4 × 3 × 2"):
        epoxy.load(folder)


def test_an_array_never_shadows_a_method(folder):
    forged(folder, "predict_proba", np.zeros(3))

    with pytest.raises(StoreError, match="array 'predict_proba' is none of this kind's"):
        epoxy.load(folder)


def test_an_edited_model_json_is_noticed(folder):
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"source_0"', '"source_9"'))

    with pytest.raises(StoreError, match=r"damaged or was edited \(its checksum differs\)"):
        epoxy.load(folder)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices")
@pytest.mark.parametrize("kind", ["pipe", "endless"])
@pytest.mark.parametrize("file", ["arrays.npz", "model.json"])
def test_what_is_not_a_regular_file_is_refused_at_once(kind, file, folder):
    models.odd_files(folder, kind + (" json" if file == "model.json" else ""))

    with pytest.raises(StoreError, match=f"{file} is not a regular file; put the file itself"):
        epoxy.load(folder)


def test_a_file_longer_than_it_should_be_is_not_read(tmp_path):
    (tmp_path / "a").write_bytes(bytes(10))

    with pytest.raises(StoreError, match="has 10 bytes, expected 9 at most"):
        read_whole(tmp_path / "a", 9)


def test_a_file_outside_of_a_model_is_refused(folder):
    about = json.loads((folder / "model.json").read_text())
    about["files"]["../x"] = {}
    (folder / "model.json").write_bytes(epoxy.persistence.seal(about))

    with pytest.raises(StoreError, match=r"names a file '\.\./x' outside of itself"):
        epoxy.load(folder)


def test_a_path_that_is_none_is_refused_in_words():
    with pytest.raises(StoreError, match="no model can be read from 3"):
        epoxy.load(3)


def test_a_cache_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match=r"cannot be written .*; make room"):
        store.save(tmp_path / "file" / "a.npz", {"a": np.zeros(3)})


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: s.switch("source_0", "no"), "a source is switched on or off, got 'no'"),
        (lambda s: s.remove([]), r"a source is named by text, got \[\]; give its name"),
    ],
)
def test_edits_of_nothing_are_refused_in_words(edit, message):
    session = epoxy.Session(models.rows(), model=epoxy.Epoxy(radius=0.2), graph=False)

    with pytest.raises(ParameterError, match=message):
        edit(session)


def test_a_vote_for_a_class_nobody_could_name_is_refused_at_once():
    with pytest.raises(epoxy.errors.VoteError, match="below 32767, got 1000000000000; name the"):
        epoxy.Votes([[10**12]])


def test_noise_that_is_no_number_is_refused():
    with pytest.raises(ParameterError, match="noise is a share of labels"):
        epoxy.Fusion(noise="x").fit(models.rows())


def test_names_that_are_no_list_are_refused():
    with pytest.raises(ParameterError, match="class names are a list of texts, got 3"):
        epoxy.Votes([[0]], classes=3)
