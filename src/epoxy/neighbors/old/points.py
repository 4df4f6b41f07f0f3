"""Distinct vectors that are read block by block, from memory or from a file larger than it.

`Space` keeps what every exact search multiplies, which doubles the memory of the vectors. What reads
vectors in blocks needs only who is equal to whom and how long each is; the rest is made from a block
when it is used, and pages of a mapped file are given back after.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...errors import StoreError, VectorError
from ...inputs import as_table, check_finite
from ...storage import write_whole
from . import kernels
from .metrics import Metric, metric_named
from .space import Space, group_equal_rows, row_hashes

BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Points:
    """Row-aligned vectors under one metric, of which a block at a time is in memory."""

    vectors: np.ndarray  # (n_rows, dimension) float32 or float16, C order, perhaps a mapped file
    metric: Metric
    node: np.ndarray  # (n_rows,) int32, the node of each row, −1 for none
    first: np.ndarray  # (n_nodes,) int32, the lowest row of each node
    squared_norm: np.ndarray  # (n_nodes,) float64
    fingerprint: Callable[[], str]  # of the values, their shape and the metric

    @classmethod
    def of(cls, space: Space) -> Self:
        """Those of a space."""
        parts = space.vectors, space.metric, space.node, space.first, space.squared_norm
        return cls(*parts, lambda: _fingerprint(space.metric, space.vectors, space.hashed))

    @classmethod
    def over(cls, vectors: Any, metric: str = "cosine", only: np.ndarray | None = None) -> Self:
        """Look through vectors once: who is equal, who has no direction, and how long each is.

        float16 stays as it is, and means the float32 numbers it is equal to. `only` is a mask of rows:
        others are near nobody, and what follows is what follows from these rows alone.
        """
        raw, measure = as_table(vectors), metric_named(metric)
        if raw.dtype not in (np.float32, np.float16) or not raw.flags.c_contiguous:
            raise VectorError(
                f"vectors read block by block are float32 or float16 in C order, got {raw.dtype}; "
                "save them with numpy.save(path, vectors.astype('float32'))"
            )
        hashed, has = _looked_through(raw, measure)
        if only is not None:
            has &= only
        kept = None if has.all() else np.flatnonzero(has).astype(np.int32)
        node, first = group_equal_rows(raw, hashed, kept)
        made = cls(
            *(raw, measure, node, first, np.empty(len(first))),
            lambda: _fingerprint(measure, raw, hashed, only),
        )
        for part in made.blocks():
            block = made.raw(part)
            rows = np.arange(len(block), dtype=np.int32)
            made.squared_norm[part] = kernels.pair_dots(block, block, rows, rows)
            made.release()
        return made

    @property
    def n_nodes(self) -> int:
        """Distinct vectors."""
        return len(self.first)

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def slack(self) -> float:
        """How far a float32 score of two of them may be from the true one."""
        largest = float(self.squared_norm.max()) if self.n_nodes else 0.0
        return self.metric.slack(self.dimension, largest)

    def blocks(self) -> Iterator[slice]:
        """All the nodes, so many at a time as fill a block of memory."""
        size = max(1, BLOCK_BYTES // (4 * self.dimension))
        for start in range(0, self.n_nodes, size):
            yield slice(start, min(start + size, self.n_nodes))

    def raw(self, nodes: Any) -> np.ndarray:
        """The vectors of some nodes as float32; (count, dimension), read-only."""
        found = np.array(self.vectors[self.first[nodes]], dtype=np.float32, order="C", copy=None)
        found.flags.writeable = False  # read-only or not is a type of its own to the compiler
        return found

    def operands(self, nodes: Any) -> tuple[np.ndarray, np.ndarray]:
        """What to multiply to get the scores of some nodes; see `Metric.operands`."""
        return self.metric.operands(self.raw(nodes), self.squared_norm[nodes])

    def rewritten(self, order: np.ndarray, path: Path) -> Points:
        """The distinct vectors in another order, in a file of their own: near ones are read together.

        A file that is there is that: whoever changes the order removes it.
        """
        shape, kind = (len(order), self.dimension), self.vectors.dtype

        def blocks() -> Iterator[tuple[slice, np.ndarray]]:
            for part in self.blocks():
                rows = self.first[order[part]]
                ascending = np.argsort(rows)
                block = np.empty((len(rows), self.dimension), dtype=kind)
                block[ascending] = self.vectors[rows[ascending]]
                self.release()
                yield part, block

        if not path.exists():
            write_array(path, kind, shape, blocks())
        held = np.asarray(np.load(path, mmap_mode="r"))
        every = np.arange(len(order), dtype=np.int32)
        return Points(held, self.metric, every, every, self.squared_norm[order], self.fingerprint)

    def release(self) -> None:
        """Give back the pages of a mapped file that were read."""
        release(self.vectors)


def write_array(
    path: Path, kind: Any, shape: tuple[int, int], blocks: Iterator[tuple[slice, np.ndarray]]
) -> None:
    """Write an array block by block, all or nothing, and wait until it is on the disk.

    Who has a former one mapped goes on reading that.
    """

    def fill(place: Path) -> None:
        file = np.lib.format.open_memmap(place, mode="w+", dtype=kind, shape=shape)
        for part, block in blocks:
            file[part] = block
            file.flush()
            release(file)

    try:
        write_whole(path, fill)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make room, or make its folder writable"
        ) from error


def release(array: np.ndarray) -> None:
    """Take the pages of a mapped file out of this process's memory; they stay in the file."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is not None and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


def _fingerprint(
    metric: Metric, raw: np.ndarray, hashed: np.ndarray, only: np.ndarray | None = None
) -> str:
    """From the rows' hashes: the vectors themselves need not be read again."""
    digest = hashlib.blake2b(f"{metric.name} {raw.shape} {raw.dtype}".encode(), digest_size=16)
    digest.update(hashed.view(np.uint8).data)
    if only is not None:
        digest.update(np.packbits(only).data)
    return digest.hexdigest()


def _looked_through(raw: np.ndarray, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """A hash of each row, and whether it has a direction; refuses what is not finite."""
    hashed, has = np.empty(len(raw), dtype=np.uint64), np.ones(len(raw), dtype=bool)
    size = max(1, BLOCK_BYTES // (4 * raw.shape[1]))
    for start in range(0, len(raw), size):
        part = slice(start, start + size)
        block = np.array(raw[part], dtype=np.float32, copy=None)
        try:
            check_finite(block)
        except VectorError:
            check_finite(np.asarray(raw))  # say it again with the row's own number
            raise
        hashed[part] = row_hashes(block)
        if metric.name == "cosine":
            has[part] = (block != 0).any(axis=1)
        release(raw)
    return hashed, has
