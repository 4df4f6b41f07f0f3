"""A table of blocks: the same whether in memory or on the disk, however it is cut and whoever works."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epoxy
from epoxy.blocks import Blocks


@dataclass(frozen=True)
class Sums:
    total: np.ndarray
    squares: dict[str, float]


def scaled(x, y, *, by):
    return by * x, y.astype(np.int8)


def sums(x, *, start):
    return Sums(x.sum(axis=0), {"squares": float((x**2).sum())}), len(x), np.array([start])


def numbered(x, *, start):
    return np.arange(start, start + len(x))


def no_rows(x):
    return x[:0]


def tables(x, y, sizes, folder, run=map):
    """A table in memory and one on the disk."""
    kept = Blocks.in_folder(folder, sizes, run)
    kept.put("x", x)
    kept.put("y", y)
    return [Blocks.of({"x": x, "y": y}, sizes, run), kept]


@settings(deadline=None, max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 40), max_size=6).map(sorted),
    columns=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_however_rows_are_cut_memory_and_disk_say_the_same(tmp_path_factory, cuts, columns, seed):
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(40, columns)).astype(np.float32), random.integers(-1, 3, 40)
    sizes = np.diff([0, *cuts, 40])

    for table in tables(x, y, sizes, tmp_path_factory.mktemp("blocks")):
        table.each(scaled, "x", "y", into=("twice", "votes"), by=2)
        table.each(numbered, "x", into="number", start=True)
        total, count, starts = table.sum(sums, "x", start=True)

        np.testing.assert_array_equal(table.joined("twice"), 2 * x)
        assert table.joined("votes").dtype == np.int8
        np.testing.assert_array_equal(table.joined("number"), np.arange(40))
        np.testing.assert_array_equal(table.rows("x", np.array([0, 17, 39])), x[[0, 17, 39]])
        np.testing.assert_allclose(total.total, x.sum(axis=0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total.squares["squares"], (x**2).sum(), rtol=1e-5)
        assert count == table.n_rows == 40
        assert starts == sum(table.starts)
        assert table.list(len, "y") == list(table.sizes)
        assert "twice" in table
        assert table.has("twice")
        assert not table.has("thrice")
        table.drop("twice")
        assert "twice" not in table


def test_a_pool_of_threads_is_another_map(tmp_path):
    x = np.arange(30.0)

    with ThreadPoolExecutor(3) as pool:
        for table in tables(x, x, (7, 0, 13, 10), tmp_path, pool.map):
            table.each(np.square, "x", into="squares")

            assert table.sum(np.sum, "squares") == (x**2).sum()
            np.testing.assert_array_equal(table.joined("squares"), x**2)


def test_what_is_kept_is_there_for_the_next_run_and_numpy_reads_it(tmp_path):
    x = np.arange(12.0).reshape(6, 2)
    Blocks.in_folder(tmp_path, (4, 2)).put("x", x)

    again = Blocks.in_folder(tmp_path, (4, 2))

    np.testing.assert_array_equal(again.joined("x"), x)
    np.testing.assert_array_equal(np.load(tmp_path / "00001.x.npy"), x[4:])
    assert not Blocks.in_folder(tmp_path, (3, 3)).has("x")


def flipped(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda path, at=at: flipped(path, at) for at in (0, 7, 20, 60, 130, 140, -1)),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(path.read_bytes() + b"0000"),
        lambda path: path.unlink(),
        lambda path: np.save(path, np.zeros((4, 2))),
    ],
)
def test_a_damaged_file_is_refused_and_made_again(tmp_path, damage):
    table = Blocks.in_folder(tmp_path, (4, 2))
    table.put("x", np.arange(12.0).reshape(6, 2))

    damage(tmp_path / "00000.x.npy")

    assert not table.has("x")
    with pytest.raises(epoxy.EpoxyError, match=r"00000\.x\.npy"):
        table.joined("x")


def long(table, *, least):
    return table.filter(pc.greater_equal(table["n"], least)), np.asarray(table["n"]) + 1


def test_a_table_goes_where_an_array_does(tmp_path):
    rows = pa.table({"text": ["a", "b", None, "d"], "n": [1, 2, 3, 4]})
    held = Blocks.of({"rows": rows}, (3, 1))
    kept = Blocks.in_folder(tmp_path, (3, 1))
    kept.put("rows", rows)

    for table in (held, kept):
        table.each(long, "rows", into=("same", "more"), least=0)

        assert table.joined("same").equals(rows)
        assert table.joined("more").tolist() == [2, 3, 4, 5]
        assert table.rows("rows", np.array([0, 3]))["text"].to_pylist() == ["a", "d"]
        assert table.has("same")
        with pytest.raises(epoxy.errors.AlignmentError, match="'few'"):
            table.each(long, "rows", into=("few", "more"), least=2)
    flipped(tmp_path / "00000.rows.npy", -20)
    assert not kept.has("rows")


@pytest.mark.parametrize(
    ("action", "error", "named"),
    [
        (lambda table: table.put("z", np.arange(3)), epoxy.errors.AlignmentError, "'z'"),
        (lambda table: table.each(no_rows, "x", into="z"), epoxy.errors.AlignmentError, "'z'"),
        (lambda table: table.joined("X"), epoxy.errors.UnknownName, "'x'"),
    ],
)
def test_errors(action, error, named):
    with pytest.raises(error, match=named):
        action(Blocks.of({"x": np.arange(4)}, (2, 2)))
