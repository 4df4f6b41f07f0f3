"""Vectors prepared once for every search that follows; rows with equal vectors are one point.

Real data repeats itself (the same comment, the same tweet). Each distinct vector is a *node*, numbered by
its first row, so that rows which come later renumber nobody, and a search meets it once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import mapped
from ..errors import UnknownName, VectorError
from ..inputs import as_float32
from ..mapped import blocks
from .knn import distances

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
    points: np.ndarray  # (n_nodes, dimension) float32, what is compared

    def __init__(self, vectors: Any, metric: str = "cosine") -> None:
        raw = as_float32(vectors)
        node, first = equal_rows(raw)
        points = _points(raw, first, metric_named(metric))
        known = raw, metric, node, first, points
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
        digest = hashlib.blake2b(digest_size=16)
        for part in blocks(len(self)):
            digest.update(self.vectors[part].view(np.uint8).data)
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
        raw = np.concatenate([self.vectors, more]) if whole is None else whole
        return Space(raw, self.metric)


def _points(raw: np.ndarray, first: np.ndarray, metric: str) -> np.ndarray:
    """The distinct vectors, if they can be compared."""
    chosen = raw if len(first) == len(raw) else mapped.take(raw, first)
    length = np.empty(len(chosen))
    for part in blocks(len(chosen)):
        length[part] = np.einsum("ij,ij->i", chosen[part], chosen[part], dtype=np.float64)
    length = np.sqrt(length)
    if metric == "euclidean" and length.max(initial=0) > LONGEST:
        longest = int(np.argmax(length))
        raise VectorError(
            f"row {first[longest]} has a vector of length {length[longest]:.3g}, too long for "
            "float32 arithmetic under euclidean distance; divide all vectors by a constant"
        )
    if metric == "cosine" and not length.all():
        zero = np.flatnonzero(~raw.any(axis=1))
        raise VectorError(
            f"{len(zero)} rows have a vector of zeros, which has no direction under cosine "
            f"distance, first rows {zero[:5].tolist()}; "
            "embed those rows again, drop them from every split, or use metric='euclidean'"
        )
    return chosen


def equal_rows(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row's node, and each node's lowest row; equal means equal bytes, of which hashes are kept."""
    seen: dict[bytes, int] = {}
    every = (row for part in blocks(len(raw)) for row in raw[part])
    keys = (hashlib.blake2b(row, digest_size=16).digest() for row in every)
    node = np.fromiter((seen.setdefault(key, len(seen)) for key in keys), np.int32, len(raw))
    return node, np.unique(node, return_index=True)[1].astype(np.int32)
