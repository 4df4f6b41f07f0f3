"""Vectors prepared once for every search that follows.

Real data repeats itself (the same comment, the same tweet), so rows with identical vectors are one
*node*: a search meets each distinct vector once, and "all rows equal" costs nothing special. Nodes
are numbered by first appearance, so appending rows never renumbers them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import VectorError
from ...inputs import as_float32
from ...room import followed
from . import kernels
from .metrics import Metric, metric_named


@dataclass(frozen=True, eq=False)
class Space:
    """Row-aligned vectors under one metric, ready to be searched.

    Parameters
    ----------
    vectors
        Finite numbers, rows × dimension; kept as float32.
    metric
        `"cosine"` (1 − cosine similarity) or `"euclidean"`.

    Examples
    --------
    >>> space = Space([[1, 0], [0, 1], [1, 0]])
    >>> len(space), space.n_nodes, space.node.tolist()
    (3, 2, [0, 1, 0])
    """

    vectors: np.ndarray  # (n_rows, dimension) float32, C order
    metric: Metric
    node: np.ndarray  # (n_rows,) int32, the node of each row
    first: np.ndarray  # (n_nodes,) int32, the lowest row of each node, increasing
    squared_norm: np.ndarray  # (n_nodes,) float64
    hashed: np.ndarray = field(repr=False)  # (n_rows,) uint64, of the rows' bytes

    def __init__(self, vectors: Any, metric: str = "cosine") -> None:
        raw = _fixed(as_float32(vectors))
        self._make(raw, metric_named(metric), row_hashes(raw), np.empty(0))

    def _make(self, raw: np.ndarray, metric: Metric, hashed: np.ndarray, norms: np.ndarray) -> None:
        """Group the rows, and measure nodes beyond those whose squared norms are known."""
        node, first = group_equal_rows(raw, hashed)
        squared = np.concatenate([norms, _squared_norms(raw, first[len(norms) :])])
        try:
            metric.check(squared)
        except VectorError:
            metric.check(squared[node])  # say it again with the user's row numbers
            raise
        known = raw, metric, node, first, squared, hashed
        vars(self).update(zip(type(self).__annotations__, known, strict=True))

    @cached_property
    def operands(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Metric.operands`; made when first multiplied, because they take as much as vectors."""
        whole = self.n_nodes == len(self)
        vectors = self.vectors if whole else self.vectors[self.first]
        return self.metric.operands(vectors, self.squared_norm, grows=True)

    @property
    def left(self) -> np.ndarray:
        """(n_nodes, d') float32; left[i]·right[j] is a score."""
        return self.operands[0]

    @property
    def right(self) -> np.ndarray:
        """(n_nodes, d') float32; the same array as left where that is equal."""
        return self.operands[1]

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
        digest = self._digest.copy()
        digest.update(f"{self.metric.name} {self.vectors.shape}".encode())
        return str(digest.hexdigest())

    @cached_property
    def _digest(self) -> Any:
        """Of the values alone, to which those of rows that come later are added."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self.vectors.view(np.uint8).data)
        return digest

    def slack(self, other: Space) -> float:
        """How far a float32 score between the two spaces may be from the true one."""
        largest = max(
            (float(each.squared_norm.max()) for each in (self, other) if each.n_nodes), default=0.0
        )
        return self.metric.slack(self.dimension, largest)

    def distances(self, rows: np.ndarray, other: Space, other_rows: np.ndarray) -> np.ndarray:
        """The defined (float64) distances of pairs of rows."""
        return self.node_distances(self.node[rows], other, other.node[other_rows])

    def node_distances(self, nodes: np.ndarray, other: Space, others: np.ndarray) -> np.ndarray:
        """The defined (float64) distances of pairs of nodes."""
        pairs = self.vectors, other.vectors, self.first[nodes], other.first[others]
        norms = self.squared_norm[nodes], other.squared_norm[others]
        return pair_distances(self.metric, pairs, norms)

    def check_same_dimension(self, other: Space) -> None:
        """Refuse to compare what cannot be compared."""
        if self.dimension != other.dimension:
            raise VectorError(
                f"vectors of dimension {self.dimension} cannot be compared with vectors of "
                f"dimension {other.dimension}; embed both splits with the same encoder"
            )
        if self.metric != other.metric:
            raise VectorError(
                f"one space measures {self.metric.name} distance and the other "
                f"{other.metric.name}; build both with the same metric"
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
        raw = _fixed(followed(self.vectors, more) if whole is None else whole)
        grown = object.__new__(Space)
        hashed = np.concatenate([self.hashed, row_hashes(more)])
        grown._make(raw, self.metric, hashed, self.squared_norm)
        if "operands" in vars(self):
            grown._add_operands(self.operands)
        if "_digest" in vars(self):
            vars(grown)["_digest"] = self._digest.copy()
            grown._digest.update(more.view(np.uint8).data)
        return grown

    def _add_operands(self, old: tuple[np.ndarray, np.ndarray]) -> None:
        """Operands of the first nodes are known: make those of the others."""
        fresh = slice(len(old[0]), None)
        new = self.metric.operands(self.vectors[self.first[fresh]], self.squared_norm[fresh])
        left = followed(old[0], new[0])
        right = left if old[1] is old[0] else followed(old[1], new[1])
        vars(self)["operands"] = (left, right)


def pair_distances(
    metric: Metric,
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    norms: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """The defined (float64) distances of `pairs` (x, z, rows, others): x[rows[p]] and z[others[p]].

    `norms` are the squared norms of both sides.
    """
    if metric.name == "euclidean":
        squares: np.ndarray = kernels.pair_squares(*pairs)
        np.sqrt(squares, out=squares)
        return squares
    cosine: np.ndarray = kernels.pair_dots(*pairs)
    cosine /= np.sqrt(norms[0] * norms[1])
    np.subtract(1.0, cosine, out=cosine)
    np.maximum(0.0, cosine, out=cosine)
    return cosine


def _fixed(vectors: np.ndarray) -> np.ndarray:
    """A read-only view: read-only or not is a type of its own to the compiler."""
    view = vectors.view()
    view.flags.writeable = False
    return view


def _squared_norms(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """|x|² of some rows in float64."""
    squared: np.ndarray = kernels.pair_dots(vectors, vectors, rows, rows)
    return squared


def group_equal_rows(
    raw: np.ndarray, hashed: np.ndarray, kept: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's node, and each node's lowest row; equal means equal bytes.

    `hashed` are the rows' hashes. With `kept`, ascending, other rows are left out: their node is −1.
    """
    rows = np.arange(len(raw)) if kept is None else kept
    mine = hashed if kept is None else hashed[kept]
    order = np.argsort(mine, kind="stable")  # stable: equal hashes stay in row order
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = mine[order[1:]] != mine[order[:-1]]
    group = np.cumsum(fresh) - 1
    lowest = order[fresh]
    repeated = np.flatnonzero(~fresh)
    if _same_bytes(raw, rows[order[repeated]], rows[lowest[group[repeated]]]):
        number, first = _number_by_first_row(order, group, lowest)
    else:  # two different rows share a hash: compare the bytes themselves
        number, first = _group_by_bytes(raw if kept is None else raw[kept])
    if kept is None:
        return number, first
    node = np.full(len(raw), -1, dtype=np.int32)
    node[kept] = number
    return node, kept[first].astype(np.int32)


def _same_bytes(raw: np.ndarray, rows: np.ndarray, others: np.ndarray) -> bool:
    """Whether each row is equal to its other, looked at in blocks."""
    block = max(1, 2**22 // raw.shape[1])
    for start in range(0, len(rows), block):
        one, other = raw[rows[start : start + block]], raw[others[start : start + block]]
        if not np.array_equal(one.view(np.uint8), other.view(np.uint8)):
            return False
    return True


def _group_by_bytes(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    whole = raw.view(np.dtype((np.void, raw.shape[1] * raw.itemsize))).ravel()
    _, lowest, group = np.unique(whole, return_index=True, return_inverse=True)
    return _number_by_first_row(np.arange(len(raw)), group, lowest)


def _number_by_first_row(
    rows: np.ndarray, group: np.ndarray, lowest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    by_first = np.argsort(lowest, kind="stable")
    number = np.empty(len(lowest), dtype=np.int32)
    number[by_first] = np.arange(len(lowest), dtype=np.int32)
    node = np.empty(len(rows), dtype=np.int32)
    node[rows] = number[group]
    return node, lowest[by_first].astype(np.int32)


def row_hashes(raw: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each row's bytes; equality is checked afterwards."""
    factors = np.random.default_rng(20).integers(1, 2**63, raw.shape[1], dtype=np.uint64) | 1
    hashed = np.empty(len(raw), dtype=np.uint64)
    block = max(1, 2**20 // raw.shape[1])
    for start in range(0, len(raw), block):
        words = raw[start : start + block].view(np.uint32).astype(np.uint64)
        words *= factors
        words ^= words >> np.uint64(29)
        hashed[start : start + block] = words.sum(axis=1, dtype=np.uint64)
    return hashed
