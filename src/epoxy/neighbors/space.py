"""Vectors prepared once for every search that follows; rows with equal vectors are one point.

Real data repeats itself (the same comment, the same tweet). Each distinct vector is a *node*, numbered by
its first row, so that rows which come later renumber nobody, and a search meets it once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import UnknownName, VectorError
from ..inputs import as_float32
from .knn import Points, distances

METRICS = ("cosine", "euclidean")
LONGEST = 1e18  # of a vector whose square float32 holds


def metric_named(name: str) -> str:
    """The name of a metric, if there is one of that name."""
    if name not in METRICS:
        raise UnknownName.of("metric", name, METRICS)
    return name


@dataclass(frozen=True, eq=False)
class Space:
    """Row-aligned vectors under one metric, ready to be searched.

    Parameters
    ----------
    vectors
        Finite numbers, rows × dimension; kept as float32.
    metric
        `"cosine"` (1 − cosine similarity; a vector of zeros has no direction and is refused) or
        `"euclidean"`.

    Examples
    --------
    >>> space = Space([[1, 0], [0, 1], [1, 0]])
    >>> len(space), space.n_nodes, space.node.tolist()
    (3, 2, [0, 1, 0])
    """

    vectors: np.ndarray  # (n_rows, dimension) float32, C order
    metric: str
    node: np.ndarray  # (n_rows,) int32, the node of each row
    first: np.ndarray  # (n_nodes,) int32, the lowest row of each node, increasing
    points: Points  # (n_nodes), what is compared
    hashed: np.ndarray = field(repr=False)  # (n_rows,) uint64, of the rows' bytes

    def __init__(self, vectors: Any, metric: str = "cosine") -> None:
        raw = as_float32(vectors)
        hashed = row_hashes(raw)
        node, first = equal_rows(raw, hashed)
        points = _points(raw, first, metric_named(metric))
        known = raw, metric, node, first, points, hashed
        vars(self).update(zip(type(self).__annotations__, known, strict=True))

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        return int(self.vectors.shape[1])

    @property
    def n_nodes(self) -> int:
        """Distinct vectors."""
        return len(self.first)

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows grouped by node, ascending: rows `order[start[v]:start[v + 1]]` belong to node v."""
        order = np.argsort(self.node, kind="stable").astype(np.int32)
        counts = np.bincount(self.node, minlength=self.n_nodes)
        return order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that determines distances: the values, their shape, the metric."""
        digest = hashlib.blake2b(self.vectors.view(np.uint8).data, digest_size=16)
        digest.update(f"{self.metric} {self.vectors.shape}".encode())
        return digest.hexdigest()

    def distances(self, rows: Any, other: Space) -> np.ndarray:
        """How far some rows are from every row of another space; (n_chosen, n_other)."""
        asking = self.points[self.node[rows]]
        everybody = np.tile(np.arange(other.n_nodes), (len(asking), 1))
        found: np.ndarray = distances(asking, other.points, everybody, self.metric)
        return found[:, other.node]

    def check_same_dimension(self, other: Space) -> None:
        """Refuse to compare what cannot be compared."""
        if self.dimension != other.dimension:
            raise VectorError(
                f"vectors of dimension {self.dimension} cannot be compared with vectors of "
                f"dimension {other.dimension}; embed both splits with the same encoder"
            )
        if self.metric != other.metric:
            raise VectorError(
                f"one space measures {self.metric} distance and the other {other.metric}; "
                "build both with the same metric"
            )

    def append(self, vectors: Any, whole: np.ndarray | None = None) -> Space:
        """The same rows followed by new ones; old rows and nodes keep their numbers.

        `whole` is all of them in one array, where there is one already.
        """
        more = as_float32(vectors)
        if more.shape[1] != self.dimension:
            raise VectorError(
                f"appended vectors have dimension {more.shape[1]}, the space has {self.dimension}; "
                "embed the new rows with the same encoder"
            )
        raw = np.concatenate([self.vectors, more]) if whole is None else as_float32(whole)
        hashed = np.concatenate([self.hashed, row_hashes(more)])
        node, first = equal_rows(raw, hashed)
        fresh = _points(raw, first[self.n_nodes :], self.metric)
        points = self.points.followed_by(fresh)
        grown = object.__new__(Space)
        known = raw, self.metric, node, first, points, hashed
        vars(grown).update(zip(type(self).__annotations__, known, strict=True))
        return grown


def _points(raw: np.ndarray, first: np.ndarray, metric: str) -> Points:
    """The distinct vectors as they are compared."""
    chosen = raw if len(first) == len(raw) else raw[first]
    length = np.sqrt(np.einsum("ij,ij->i", chosen, chosen, dtype=np.float64))
    if metric == "euclidean":
        if length.max(initial=0) > LONGEST:
            longest = int(np.argmax(length))
            raise VectorError(
                f"row {first[longest]} has a vector of length {length[longest]:.3g}, too long for "
                "float32 arithmetic under euclidean distance; divide all vectors by a constant"
            )
        return Points.of(chosen)
    if not length.all():
        zero = np.flatnonzero(~raw.any(axis=1))
        raise VectorError(
            f"{len(zero)} rows have a vector of zeros, which has no direction under cosine "
            f"distance, first rows {zero[:5].tolist()}; "
            "embed those rows again, drop them from every split, or use metric='euclidean'"
        )
    unit = np.empty_like(chosen)
    np.divide(chosen, length[:, None], out=unit, casting="same_kind")
    return Points(unit, chosen, 1 / length)


def equal_rows(raw: np.ndarray, hashed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row's node, and each node's lowest row; equal means equal bytes, `hashed` are their hashes."""
    _, lowest, group = np.unique(hashed, return_index=True, return_inverse=True)
    node, first = _by_first_row(lowest, group)
    again = np.flatnonzero(first[node] != np.arange(len(raw)))
    for part in range(0, len(again), 1 << 12):
        some = again[part : part + (1 << 12)]
        if raw[some].tobytes() != raw[first[node[some]]].tobytes():  # two rows share a hash
            whole = raw.view(np.dtype((np.void, raw.shape[1] * raw.itemsize))).ravel()
            return _by_first_row(*np.unique(whole, return_index=True, return_inverse=True)[1:])
    return node, first


def _by_first_row(lowest: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(lowest)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[group.ravel()], lowest[order].astype(np.int32)


def row_hashes(raw: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each row's bytes; equality is checked afterwards."""
    factors = np.random.default_rng(20).integers(1, 2**63, raw.shape[1], dtype=np.uint64) | 1
    hashed = np.empty(len(raw), np.uint64)
    block = max(1, 2**20 // max(1, raw.shape[1]))
    for start in range(0, len(raw), block):
        words = raw[start : start + block].view(np.uint32).astype(np.uint64)
        words *= factors
        words ^= words >> np.uint64(29)
        hashed[start : start + block] = words.sum(axis=1, dtype=np.uint64)
    return hashed
