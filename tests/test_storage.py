from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import epoxy
from attacks import models
from epoxy.errors import ParameterError, StoreError
from epoxy.heads import LinearHead
from epoxy.storage import (
    Array,
    State,
    beside,
    check_values,
    read_arrays,
    read_whole,
    write_arrays,
    write_whole,
)


@pytest.mark.parametrize(
    ("spec", "value", "at"),
    [
        ({"a": int}, {"a": True}, "$.a"),
        ({"a": float}, {"a": float("nan")}, "$.a"),
        ({"a": float}, {"a": float("inf")}, "$.a"),
        ({"a": [str]}, {"a": ["x", 3]}, "$.a[1]"),
        ({"a": (str, None)}, {"a": 3}, "$.a"),
        ({"a": {"b": int}}, {"a": {}}, "`b`"),
        ({"a": int}, {"a": 1, "fit": 2}, "`fit`"),
        ({"a": dict}, {"a": []}, "$.a"),
    ],
)
def test_values_that_differ_are_named(spec, value, at):
    with pytest.raises(StoreError, match=f"m: .*{re.escape(at)}.*; fit and save the model again"):
        check_values(value, spec, "m")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2)), r"is float64 of shape \(2, 2\), expected numbers, 2 × 3"),
        (np.zeros((2, 3), dtype=int), "is int64 of shape"),
        (np.zeros((2, 3), np.half), "is float16"),
        (np.zeros((2, 3), np.longdouble), "is float128|is longdouble|is float96"),
        (np.zeros((2, 3)).astype(">f8"), "is >f8"),
        (np.full((2, 3), np.nan), "holds nan to nan, expected 0 to 1"),
        (np.full((2, 3), -1.0), r"holds -1.0 to -1.0, expected 0 to 1"),
        (np.full((2, 3), 0.5), "holds shares that do not sum to 1"),
    ],
)
def test_arrays_that_differ_are_named(array, message):
    spec = {"table": Array("f", "rows 1+rows", low=0, high=1, shares=1)}

    with pytest.raises(StoreError, match=f"m/arrays.npz: array 'table' {message}.*; fit and save"):
        State({}, {"table": array}, where="m/arrays.npz").read_arrays(spec, rows=2)


@pytest.fixture
def folder(tmp_path):
    votes = models.rows().votes
    return epoxy.storage.save(epoxy.Triplet().fit(votes), tmp_path / "model")


def forged(folder, *, params=None, **arrays):
    about, kept = models.read(folder)
    about["values"].get("params", {}).update(params or {})
    models.write(folder, about, kept | arrays)


def test_a_table_of_another_shape_is_not_read_out_of_bounds(folder):
    forged(folder, log_likelihood_=np.zeros((4, 1, 2)))

    with pytest.raises(StoreError, match=r"model.npz: array 'log_likelihood_' .* 4 × 3 × 2"):
        epoxy.load(folder)


def test_a_head_of_fewer_classes_than_its_weights_is_refused(tmp_path):
    LinearHead().fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path)
    forged(tmp_path, present=np.array([0]))

    with pytest.raises(StoreError, match="do not fit 1 classes"):
        epoxy.load(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices")
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_is_not_a_regular_file_is_refused_at_once(kind, folder):
    models.odd_files(folder, kind)

    with pytest.raises(StoreError, match=r"model\.npz is not a regular file; put the file itself"):
        epoxy.load(folder)


def test_a_file_longer_than_it_should_be_is_not_read(tmp_path):
    (tmp_path / "a").write_bytes(bytes(10))

    with pytest.raises(StoreError, match="has 10 bytes, expected 9 at most"):
        read_whole(tmp_path / "a", 9)


def test_a_path_that_is_none_is_refused_in_words():
    with pytest.raises(StoreError, match="no model can be read from 3"):
        epoxy.load(3)


def test_a_cache_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match=r"cannot be written .*; make room"):
        write_arrays(tmp_path / "file" / "a.npz", {"a": np.zeros(3)})


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_of_a_cache_is_whole_or_missing(seed, tmp_path):
    kept, path = {"a": np.arange(300.0).reshape(30, 10), "b": np.array(["x"])}, tmp_path / "a.npz"
    write_arrays(path, kept)
    models.flip(path, np.random.default_rng(seed))

    found = read_arrays(path)

    assert found is None or all(np.array_equal(found[name], kept[name]) for name in kept)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", [b"new", lambda path: path.write_bytes(b"new")])
def test_a_file_is_replaced_as_a_whole(content, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"old")

    write_whole(tmp_path / "a.txt", content)

    assert (tmp_path / "a.txt").read_bytes() == b"new"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_cannot_be_filled_leaves_the_old_one_and_nothing_else(tmp_path):
    def fill(path):
        path.write_bytes(b"half")
        raise RuntimeError("no more")

    write_whole(tmp_path / "a.txt", b"old")
    with pytest.raises(RuntimeError, match="no more"):
        write_whole(tmp_path / "a.txt", fill)

    assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


def test_a_write_sweeps_what_processes_left_that_were_killed_a_day_ago(tmp_path):
    path = tmp_path / "a[1].txt"  # a name that means something else to glob
    old, new = beside(path), beside(tmp_path / "b.txt")
    for left in (old, new):
        left.write_bytes(b"half")
    yesterday = time.time() - 2 * 24 * 3600
    os.utime(old, (yesterday, yesterday))

    write_whole(path, b"whole")

    assert [old.exists(), new.exists()] == [False, True]


# each call that changes the disk, and each sync, is the last one in turn; exits with the model's name
KILLED = """
    import os, sys
    import epoxy
    from pathlib import Path

    votes = [[0, 1], [1, 1]]
    old, new = (epoxy.MajorityVote(class_balance=[a, 1 - a]).fit(votes) for a in (0.25, 0.75))
    home = Path(sys.argv[1])

    def mortal(module, name, counter, die_at):
        call = getattr(module, name)
        def dies(*given, **more):
            counter.append(name)
            if len(counter) == die_at:
                os._exit(9)
            return call(*given, **more)
        setattr(module, name, dies)

    for die_at in range(1, 40):
        folder = home / str(die_at) / "model"
        epoxy.storage.save(old, folder)
        child = os.fork()
        if child == 0:
            counter = []
            for module, name in [(os, "replace"), (os, "fsync"), (os, "unlink"), (os, "open")]:
                mortal(module, name, counter, die_at)
            epoxy.storage.save(new, folder)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = epoxy.load(folder).class_balance_[0]
        epoxy.storage.save(new, folder)
        left = sorted(path.name for path in folder.parent.iterdir())
        print(code, found, epoxy.load(folder).class_balance_[0], *left)
        if code == 0:
            break
"""


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_model_whose_save_is_killed_at_any_step_is_the_old_or_the_new(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(KILLED), str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    lines = [line.split() for line in said.stdout.splitlines()]
    killed, (last,) = lines[:-1], lines[-1:]
    assert len(killed) >= 4
    assert {code for code, *_ in killed} == {"9"}
    assert last[0] == "0"
    assert [float(found) for _, found, *_ in lines] == sorted(float(f) for _, f, *_ in lines)
    assert {found for _, found, *_ in lines} == {"0.25", "0.75"}
    assert all(rest == ["0.75", "model"] for _, _, *rest in lines)  # the next save sweeps


def test_noise_that_is_no_number_is_refused():
    with pytest.raises(ParameterError, match="noise is a share of labels"):
        epoxy.Fusion(noise="x").fit(models.rows())


def test_an_array_never_shadows_a_method(folder):
    forged(folder, predict_proba=np.zeros(3))

    with pytest.raises(StoreError, match="array 'predict_proba' is none of this kind's"):
        epoxy.load(folder)
