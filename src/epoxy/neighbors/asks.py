"""What a direct search is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .space import Space
from .workers import n_threads

__all__ = ["NONE", "Ask", "Found", "Support", "blocks", "settle", "take", "union"]

NONE = -1
SETTLE_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Support:
    """One source's supporting rows as nodes: each node speaks through its lowest supporting row."""

    nodes: np.ndarray  # (n_candidates,) int32, ascending
    rows: np.ndarray  # (n_candidates,) int32, the row each node speaks through

    @classmethod
    def of(cls, space: Space, mask: np.ndarray) -> Support:
        """From a mask over the rows of `space`."""
        rows = np.flatnonzero(mask).astype(np.int32)
        if space.n_nodes == len(space):
            return cls(rows, rows)
        nodes, at = np.unique(space.node[rows], return_index=True)
        return cls(nodes, rows[at])


@dataclass(frozen=True, eq=False)
class Ask:
    """One source's question: who of the support is nearest to each of these nodes.

    With `within`, an answer farther than that is of no use to the node that asks, and need not be
    given: what is already known spares the search most of its work.
    """

    support: Support
    queries: np.ndarray  # (n_queries,) nodes of the asking space, ascending
    within: np.ndarray | None = None  # (n_queries,) float64


@dataclass(frozen=True, eq=False)
class Found:
    """The answers to an `Ask`, aligned with its queries."""

    row: np.ndarray  # (n_queries,) int32, −1 where the support is empty
    distance: np.ndarray  # (n_queries,) float64, inf where the support is empty

    def freeze(self) -> Found:
        """Make the arrays read-only, before they are shared."""
        self.row.flags.writeable = False
        self.distance.flags.writeable = False
        return self

    @classmethod
    def nothing(cls, count: int) -> Found:
        """No answer for anybody."""
        return cls(np.full(count, NONE, dtype=np.int32), np.full(count, np.inf))


def blocks(count: int, size: int) -> list[slice]:
    """Equal slices of at most `size`, as many for each thread."""
    share = n_threads()
    pieces = max(1, share * -(-count // (share * size)))
    ends = [round(count * each / pieces) for each in range(pieces + 1)]
    return [slice(a, b) for a, b in pairwise(ends) if b > a]


def take(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows, without a copy if they are all or adjacent."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return np.asarray(matrix[rows[0] : rows[-1] + 1])
    taken: np.ndarray = matrix[rows]
    return taken


def union(parts: list[np.ndarray], count: int) -> np.ndarray:
    """The numbers below `count` that occur in any part, ascending."""
    if len(parts) == 1:
        return parts[0]
    present = np.zeros(count, dtype=bool)
    for part in parts:
        present[part] = True
    return np.flatnonzero(present)


def settle(
    train: Space, support: Support, onto: Space, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Measure everything within rounding of the best in float64; the nearest, lowest row wins."""
    row = np.full(len(queries), NONE, dtype=np.int32)
    distance = np.full(len(queries), np.inf)
    candidates = take(train.right, support.nodes)
    margin = np.float32(2 * train.slack(onto))
    block = max(1, SETTLE_BYTES // (4 * len(candidates)))
    for start in range(0, len(queries), block):
        part = queries[start : start + block]
        score = onto.left[part] @ candidates.T
        which, candidate = np.nonzero(score >= score.max(axis=1, keepdims=True) - margin)
        exact = onto.node_distances(part[which], train, support.nodes[candidate])
        order = np.lexsort((support.rows[candidate], exact, which))
        winner = order[np.searchsorted(which[order], np.arange(len(part)))]
        row[start : start + block] = support.rows[candidate[winner]]
        distance[start : start + block] = exact[winner]
    return row, distance
