"""Vectors of the rows of a shard, wherever they come from: a file of numbers, a column, or an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import column_of
from ..errors import AlignmentError, StoreError, VectorError
from ..inputs import as_float32
from ..project.tables import ids_for, vectors_for, vectors_in
from .joining import Joined, joined, partners
from .parts import read_shard, table_of
from .run import Run
from .runner import Summary
from .scanning import hashes_of
from .shard import Kept, Shard

STRETCH = 4096
"""Vectors read at a time where not all are wanted."""


@dataclass(frozen=True)
class VectorFile:
    """A .npy file with one vector per row of the rows file, read a stretch at a time."""

    file: str
    n_rows: int
    dimension: int
    dtype: str
    offset: int
    key: str  # what another content would change

    @classmethod
    def of(cls, file: Path, n_rows: int, ids: Path | None = None) -> VectorFile:
        """Read the header; refuses what is no table of numbers with so many rows, or is cut short.

        `ids` is where the rows are named, if not by the rows file.
        """
        try:
            with file.open("rb") as opened:
                version = np.lib.format.read_magic(opened)
                header = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, fortran, dtype = header(opened)
                offset = opened.tell()
            status = file.stat()
        except (OSError, ValueError, EOFError) as error:
            raise StoreError(
                f"{file} cannot be read as vectors ({error}); save one array of rows × dimension there"
            ) from error
        if len(shape) != 2 or fortran or dtype.kind not in "fiu":
            raise VectorError(
                f"{file} holds an array of shape {shape} and type {dtype}; save rows × dimension, "
                "numbers, one row after the other"
            )
        if shape[0] != n_rows:
            raise AlignmentError(
                vectors_for(file, shape[0], n_rows)
                if ids is None
                else ids_for(file, shape[0], ids, n_rows)
            )
        if status.st_size < offset + dtype.itemsize * shape[0] * shape[1]:
            raise StoreError(
                f"{file} ends after {status.st_size} bytes, and {shape[0]} vectors of {shape[1]} "
                f"numbers take {offset + dtype.itemsize * shape[0] * shape[1]}; write it again"
            )
        key = f"{status.st_size} {status.st_mtime_ns}"
        return cls(str(file), shape[0], shape[1], dtype.str, offset, key)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Vectors of a stretch of rows, as they are."""
        count = self.dimension * (stop - start)
        size = np.dtype(self.dtype).itemsize
        with open(self.file, "rb") as opened:
            opened.seek(self.offset + start * self.dimension * size)
            found = np.fromfile(opened, self.dtype, count)
        return found.reshape(stop - start, self.dimension)

    def some(self, rows: np.ndarray) -> np.ndarray:
        """Vectors of some rows, ascending, a stretch at a time."""
        found = np.empty((len(rows), self.dimension), dtype=self.dtype)
        for start in range(int(rows[0]) if len(rows) else 0, self.n_rows, STRETCH):
            low, high = np.searchsorted(rows, [start, start + STRETCH])
            if low < high:
                first, last = int(rows[low]), int(rows[high - 1])
                found[low:high] = self.rows(first, last + 1)[rows[low:high] - first]
        return found


@dataclass(frozen=True)
class VectorColumn:
    """A column of vectors in the rows' own files."""

    column: str
    dimension: int


@dataclass(frozen=True)
class JoinedVectors:
    """Vectors joined by id: a column in other files, or a file whose rows are named there."""

    other: Joined
    column: str
    dimension: int
    file: VectorFile | None = None

    def of(self, ids: Sequence[Any]) -> np.ndarray:
        """Vectors of a few rows that the driver holds, by their ids."""
        import pyarrow as pa

        names = pa.array([str(each) for each in ids], pa.string())
        return self.joined(hashes_of(names), lambda row: names[row].as_py())

    def joined(self, hashes: np.ndarray, name_of: Callable[[int], Any]) -> np.ndarray:
        """Vectors of rows by the hashes of their ids."""
        found = np.empty((len(hashes), self.dimension), dtype=np.float32)
        if self.file is not None:
            for mine, shard, rows in partners(hashes, self.other, name_of):
                found[mine] = self.file.some(shard.start + rows)
            return found
        for mine, table in joined(hashes, self.other, [self.column], name_of):
            at = 0
            for chunk in table.column(self.column).chunks:
                found[mine[at : at + len(chunk)]] = vectors_in(chunk, self.column)
                at += len(chunk)
        return found


class Encoding:
    """A fitted encoder; two are the same where it says so."""

    def __init__(self, encoder: Any, column: Any, identity: str) -> None:
        self.encoder, self.column, self.identity = encoder, column, identity

    def of(self, table: Any) -> np.ndarray:
        """Vectors of the rows of a pyarrow table."""
        rows = self.encoder.prepare(column_of(table, self.column))
        return np.asarray(self.encoder.encode(rows))

    def __repr__(self) -> str:
        return f"Encoding({self.identity!r}, {self.column!r})"


Given = VectorFile | VectorColumn | JoinedVectors | Encoding


@dataclass(frozen=True)
class ShardVectors:
    """Where the vectors of any shard are read: from the file itself, or from copies shard by shard."""

    given: VectorFile | None
    kept: Kept | None
    dimension: int
    train: Kept  # which rows are train rows
    id: str | None  # the column that names rows

    def every(self, shard: Shard) -> np.ndarray:
        """Vectors of all rows of a shard, float32."""
        if self.given is not None:
            return _finite(shard, self.given.rows(shard.start, shard.stop), self.id)
        assert self.kept is not None
        return self.kept.load(shard, "vectors")

    def of(self, shard: Shard) -> np.ndarray:
        """Vectors of the train rows of a shard, float32."""
        train = self.train.load(shard, "train")
        found = self.every(shard)
        return found if train.all() else found[train]


def _finite(shard: Shard, found: Any, column: str | None) -> np.ndarray:
    """Vectors of a shard's rows as float32; one that is of no use is named by its row's id or number."""

    def name(row: int) -> Any:
        return shard.start + row if column is None else _id(shard, column, row)

    return as_float32(found, name=name)


def _id(shard: Shard, column: str, row: int) -> Any:
    return table_of(shard, [column]).column(0)[row].as_py()


def take_up(run: Run, given: Given, rows: Kept, column: str | None) -> ShardVectors:
    """Bring vectors into a form that is read quickly and more than once."""
    if isinstance(given, VectorFile):
        return ShardVectors(given, None, given.dimension, rows, column)
    stage = run.stage("vectors", copy_shard, given, rows, column)
    dimensions = {int(each["dimension"]) for each in stage}
    if len(dimensions) > 1:
        raise VectorError(
            f"vectors have different dimensions: {sorted(dimensions)}; write them again"
        )
    return ShardVectors(None, stage.kept, dimensions.pop(), rows, column)


def copy_shard(shard: Shard, kept: Kept, given: Given, rows: Kept, column: str | None) -> Summary:
    """Vectors of all rows of a shard as one array in a file."""
    if isinstance(given, VectorColumn):
        batches = read_shard(shard, [given.column], 4096)
        found = np.concatenate([vectors_in(each.column(0), given.column) for each in batches])
    elif isinstance(given, JoinedVectors):
        found = _join(shard, given, rows)
    else:
        assert isinstance(given, Encoding)
        names = [given.column] if isinstance(given.column, str) else given.column
        found = given.of(table_of(shard, names))
    made = _finite(shard, found, column)
    kept.save(shard, vectors=made)
    return {"dimension": np.array(made.shape[1])}


def _join(shard: Shard, given: JoinedVectors, rows: Kept) -> np.ndarray:
    return given.joined(rows.load(shard, "ids"), lambda row: _id(shard, given.other.id, row))


def pick_vectors(run: Run, vectors: ShardVectors, places: np.ndarray, name: str) -> np.ndarray:
    """Vectors of a few rows, by their places among all rows; (n_places, dimension) float32."""
    if not len(places):
        return np.empty((0, vectors.dimension), dtype=np.float32)
    return run.stage(name, pick_shard, vectors, places).gathered("vectors")[0]


def pick_shard(shard: Shard, kept: Kept, vectors: ShardVectors, places: np.ndarray) -> Summary:
    """Those of a shard's rows that are among some places, ascending."""
    mine = places[(places >= shard.start) & (places < shard.stop)] - shard.start
    if not len(mine):
        return {"vectors": np.empty((0, vectors.dimension), dtype=np.float32)}
    return {"vectors": vectors.every(shard)[mine]}
