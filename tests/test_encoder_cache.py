from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.encoders import Cached, Function, Lsa, cache_folder
from epoxy.encoders import vector_cache as cache
from epoxy.errors import StoreError


def vector(row):
    return [len(row), row.count("a"), hash_free(row)]


def hash_free(row):
    return sum(map(ord, row)) % 97


class Counted:
    """A function of rows that records which rows it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, rows):
        self.asked.extend(rows)
        return [vector(row) for row in rows]


@pytest.fixture
def counted():
    return Counted()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(cache, "BATCH_ROWS", 4)


def cached(function, folder, identity="v1"):
    return Cached(Function(function, identity=identity), folder)


def rows_named(*numbers):
    return [f"row a{number}" for number in numbers]


ROWS = rows_named(*range(10))
EXPECTED = np.array([vector(row) for row in ROWS], dtype=np.float32)


def files(folder, suffix):
    return sorted(folder.rglob(f"*{suffix}"))


def the_file(folder):
    (found,) = files(folder, ".sqlite")
    return found


# laws


def test_a_row_is_embedded_once_across_calls_and_encoders(counted, tmp_path):
    first = cached(counted, tmp_path).encode(ROWS)
    again = cached(counted, tmp_path).encode(ROWS)

    assert counted.asked == ROWS
    np.testing.assert_array_equal(first, EXPECTED)
    np.testing.assert_array_equal(again, EXPECTED)
    assert again.dtype == np.float32


def test_another_identity_shares_nothing(counted, tmp_path):
    cached(counted, tmp_path, "v1").encode(ROWS)
    cached(counted, tmp_path, "v2").encode(ROWS)

    assert counted.asked == ROWS + ROWS


@settings(max_examples=25, deadline=None)
@given(calls=st.lists(st.lists(st.sampled_from(ROWS), max_size=14), max_size=6))
def test_any_calls_give_what_the_encoder_gives_and_ask_for_each_row_once(calls, tmp_path_factory):
    counted = Counted()
    encoder = cached(counted, tmp_path_factory.mktemp("cache"))

    for rows in calls:
        vectors = encoder.encode(rows)
        assert vectors.tolist() == [vector(row) for row in rows]

    assert len(counted.asked) == len({row for rows in calls for row in rows})


def test_without_an_identity_nothing_is_stored(counted, tmp_path):
    encoder = Cached(Function(counted), tmp_path)

    encoder.encode(ROWS)
    encoder.encode(ROWS)

    assert counted.asked == ROWS + ROWS
    assert not any(tmp_path.iterdir())


def test_one_identity_with_vectors_of_two_lengths_is_an_error(tmp_path):
    cached(lambda rows: np.ones((len(rows), 2)), tmp_path).encode(["a"])

    with pytest.raises(StoreError, match="length 2 and of length 3 under one identity; give it"):
        cached(lambda rows: np.ones((len(rows), 3)), tmp_path).encode(["a", "b"])


# where it is


def test_the_cache_is_where_the_argument_the_variable_or_the_platform_says(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EPOXY_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    assert cache_folder() == tmp_path / "home" / ".cache" / "epoxy"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == tmp_path / "home" / ".cache" / "epoxy"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "epoxy"
    monkeypatch.setenv("EPOXY_CACHE", str(tmp_path / "chosen"))
    assert cache_folder() == tmp_path / "chosen"
    assert cache_folder(tmp_path / "argument") == tmp_path / "argument"
    assert cache_folder("~/here") == tmp_path / "home" / "here"
    assert (cache_folder(None), cache_folder(False)) == (None, None)


def test_a_folder_that_cannot_be_written_says_so(counted, tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreError, match=r"could not be stored in .*; make room or choose another"):
        cached(counted, tmp_path / "file").encode(ROWS)


# damage


def damage_by_truncation(path):
    path.write_bytes(path.read_bytes()[:-3])


def damage_by_emptying(path):
    path.write_bytes(b"")


def damage_by_removal(path):
    path.unlink()


def damage_by_foreign_content(path):
    with path.open("wb") as file:
        np.save(file, np.zeros((4, 3), dtype=np.float32))


@pytest.mark.parametrize(
    "damage",
    [
        damage_by_truncation,
        damage_by_emptying,
        damage_by_removal,
        damage_by_foreign_content,
    ],
)
def test_a_damaged_file_is_rebuilt_and_not_trusted(counted, tmp_path, damage):
    cached(counted, tmp_path).encode(ROWS[:8])
    damage(the_file(tmp_path))

    vectors = cached(counted, tmp_path).encode(ROWS[:8])

    np.testing.assert_array_equal(vectors, EXPECTED[:8])
    asked = len(counted.asked)
    np.testing.assert_array_equal(cached(counted, tmp_path).encode(ROWS[:8]), EXPECTED[:8])
    assert len(counted.asked) == asked


def test_a_file_that_another_process_holds_is_neither_used_nor_removed(
    counted, tmp_path, monkeypatch
):
    monkeypatch.setattr(cache, "_PATIENCE", 0.05)
    cached(counted, tmp_path).encode(ROWS[:4])
    path = the_file(tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"could not be stored in .* \(database is locked\)"):
            cached(counted, tmp_path).encode(ROWS[:5])
        db.rollback()

    np.testing.assert_array_equal(cached(counted, tmp_path).encode(ROWS[:4]), EXPECTED[:4])
    assert path.exists()


def test_a_failure_halfway_keeps_the_shards_before_it(counted, tmp_path):
    def fails_on_row_5(rows):
        if ROWS[5] in rows:
            raise RuntimeError("the network died")
        return counted(rows)

    with pytest.raises(RuntimeError, match="the network died"):
        cached(fails_on_row_5, tmp_path).encode(ROWS)
    cached(counted, tmp_path).encode(ROWS)

    assert counted.asked == ROWS


# killed, and crowded: real processes

PROGRAM = """
    import os, signal, sqlite3, sys
    from pathlib import Path
    from epoxy.encoders import Cached, Function
    from epoxy.encoders import vector_cache as cache

    cache.BATCH_ROWS = 4
    folder, log, start, stop, die_at = sys.argv[1:3] + [int(each) for each in sys.argv[3:]]

    committed = 0
    connect = sqlite3.connect

    def dies(statement):
        global committed
        committed += statement == "COMMIT"
        if committed == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(*args, **options):
        db = connect(*args, **options)
        db.set_trace_callback(dies)
        return db

    sqlite3.connect = watched

    def embed(rows):
        with open(log, "a") as file:
            file.write("".join(row + "\\n" for row in rows))
        return [[len(row), row.count("a"), sum(map(ord, row)) % 97] for row in rows]

    rows = [f"row a{number}" for number in range(start, stop)]
    vectors = Cached(Function(embed, identity="v1"), folder).encode(rows)
    assert vectors.tolist() == [
        [len(row), row.count("a"), sum(map(ord, row)) % 97] for row in rows
    ]
"""


def run(folder, log, start=0, stop=20, die_at=-1):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder), str(log)]
    return subprocess.Popen([*command, str(start), str(stop), str(die_at)])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this platform")
@pytest.mark.parametrize("die_at", [1, 3, 5], ids=["first", "third", "last"])
def test_a_killed_run_resumes_where_it_was(tmp_path, counted, die_at):
    folder, log = tmp_path / "cache", tmp_path / "log"

    killed = run(folder, log, die_at=die_at).wait(timeout=60)
    vectors = cached(counted, folder).encode(rows_named(*range(20)))

    # it dies with a batch computed and inserted, but not committed
    asked_before = log.read_text().splitlines()
    assert killed == -signal.SIGKILL
    assert len(asked_before) == 4 * die_at
    assert counted.asked == rows_named(*range(4 * (die_at - 1), 20))
    assert vectors.tolist() == [vector(row) for row in rows_named(*range(20))]


def test_processes_that_write_at_once_do_not_disturb_each_other(tmp_path, counted):
    folder = tmp_path / "cache"

    crowd = [run(folder, tmp_path / f"log{each}", start=10 * each, stop=60) for each in range(3)]
    codes = [process.wait(timeout=60) for process in crowd]
    vectors = cached(counted, folder).encode(rows_named(*range(60)))

    assert codes == [0, 0, 0]
    assert counted.asked == []
    assert vectors.tolist() == [vector(row) for row in rows_named(*range(60))]


def test_an_encoder_fitted_on_other_rows_shares_nothing(tmp_path):
    cached_lsa = Cached(Lsa(dim=2), tmp_path)

    one = cached_lsa.fit(ROWS).encode(["row a1 a2"])
    other = cached_lsa.fit(["something else", "entirely"]).encode(["row a1 a2"])

    assert one[0, -1] == 0
    np.testing.assert_array_equal(other[0], [0, 0, 1])
