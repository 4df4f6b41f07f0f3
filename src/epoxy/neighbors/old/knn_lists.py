"""Each node's nearest others, kept while tiles of scores go by, and made exact at the end.

A list takes every score above its *floor*; when it is full, the best are kept and the floor rises
to the worst of them. So at any time everything not listed scored at most the floor, and at the end
that is a proof: if the k-th listed neighbour, measured in float64, is nearer than any score up to
the floor can be, the k nearest are in the list. Rows without a proof are searched again.

When nodes go by in random order, the nodes seen so far are a sample, and the floor may rise to where
about k of *all* nodes will be above it, long before k of them have been seen. This saves two pushes
in three; where the estimate was too bold the proof fails, and the row is searched again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import list_kernels
from .space import Space

SPARE = 16  # kept beyond k, so that neighbours within rounding of the k-th are still in the list
BOLDNESS = 2.5  # standard deviations above the expected rank at which a sample sets the floor
ROW_BYTES = 128 << 20


@dataclass(frozen=True, eq=False)
class Lists:
    """Growing lists of candidates, best first only after `drain`."""

    keys: np.ndarray  # (n, capacity) uint64, see list_kernels
    count: np.ndarray  # (n,) int64
    floor: np.ndarray  # (n,) float32
    keep: int

    @classmethod
    def empty(cls, n: int, width: int, at_most: int | None = None) -> Lists:
        """Lists for n nodes that will give `width` neighbours each, of `at_most` that are offered."""
        keep = width + SPARE
        room = (
            2 * keep if at_most is None else min(2 * keep, at_most + 1)
        )  # never full with one over
        return cls(
            np.empty((n, room), dtype=np.uint64),
            np.zeros(n, dtype=np.int64),
            np.full(n, -np.inf, dtype=np.float32),
            keep,
        )

    def part(self, block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The lists of a block of nodes, as the kernels take them."""
        floor = self.floor[block]
        return self.keys[block], self.count[block], floor, floor.view(np.uint32)

    def push(self, tile: np.ndarray, block: slice, start: int, keep: int) -> None:
        """Offer a tile to the lists of its rows; its first column is node `start`."""
        self._push(tile, self.part(block), start, keep, np.arange(len(tile)))

    def push_some(self, tile: np.ndarray, mine: np.ndarray, start: int) -> None:
        """The same for lists that do not follow each other: tile row r is about list `mine[r]`."""
        self._push(tile, self.part(slice(None)), start, self.keep, mine)

    def _push(self, tile: np.ndarray, part: Any, start: int, keep: int, mine: np.ndarray) -> None:
        list_kernels.push(tile, tile.view(np.uint32), start, part, keep, mine)

    def keep_after(self, share: float) -> int:
        """How many of a random `share` of all nodes to keep so that `keep` of all will be found."""
        expected = self.keep * share
        bold = expected + BOLDNESS * math.sqrt(expected) + BOLDNESS**2 / 2
        return min(self.keep, math.ceil(bold))

    def drain(self, block: slice) -> tuple[np.ndarray, np.ndarray]:
        """The names in each list, best first, −1 where it is shorter; and the floors."""
        lists = self.part(block)
        names = np.empty((len(lists[0]), self.keep), dtype=np.int32)
        floors = np.empty(len(names), dtype=np.float32)
        list_kernels.drain(lists, self.keep, names, floors)
        return names, floors


@dataclass(frozen=True, eq=False)
class Candidates:
    """Nodes of train that may be nearest to each query, and what is known about all others."""

    nodes: np.ndarray  # (n_queries, any) int32, −1 for none
    distance: np.ndarray  # the same shape, float64, inf for none
    floors: np.ndarray  # (n_queries,) float32: every other node scored at most this

    @classmethod
    def measured(
        cls, train: Space, onto: Space, queries: np.ndarray, nodes: np.ndarray, floors: np.ndarray
    ) -> Candidates:
        """Measure the candidates in float64."""
        if nodes.min(initial=0) >= 0:
            asking = np.repeat(queries, nodes.shape[1])
            distance = onto.node_distances(asking, train, nodes.ravel()).reshape(nodes.shape)
            return cls(nodes, distance, floors)
        distance = np.full(nodes.shape, np.inf)
        at, place = np.nonzero(nodes >= 0)
        distance[at, place] = onto.node_distances(queries[at], train, nodes[at, place])
        return cls(nodes, distance, floors)


def proven(
    train: Space, onto: Space, queries: np.ndarray, candidates: Candidates, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `width` nearest of each query, nearest first, equals by node.

    Where the candidates cannot prove that they hold them all, the row is searched again.
    """
    nodes, distance = candidates.nodes, candidates.distance
    list_kernels.rank_rows(nodes, distance)
    floors = candidates.floors.astype(np.float64)
    beyond = train.metric.distance_of(floors + train.slack(onto))
    doubtful = np.flatnonzero(~(distance[:, width - 1] < beyond))
    nodes, distance = nodes[:, :width], distance[:, :width]
    if len(doubtful):
        found = exact_rows(train, onto, queries[doubtful], width)
        nodes[doubtful], distance[doubtful] = found
    return nodes, distance


def exact_rows(
    train: Space, onto: Space, queries: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `width` nearest nodes of each query without any list: slow, and always right."""
    neighbour = np.empty((len(queries), width), dtype=np.int32)
    distance = np.empty((len(queries), width))
    margin = np.float32(2 * train.slack(onto))
    block = max(1, ROW_BYTES // (32 * train.n_nodes))
    for start in range(0, len(queries), block):
        part = queries[start : start + block]
        score = onto.left[part] @ train.right.T
        worst = np.partition(score, train.n_nodes - width, axis=1)[:, train.n_nodes - width]
        which, node = np.nonzero(score >= worst[:, None] - margin)
        exact = onto.node_distances(part[which], train, node)
        order = np.lexsort((node, exact, which))
        first = np.searchsorted(which[order], np.arange(len(part)))
        chosen = order[first[:, None] + np.arange(width)]
        neighbour[start : start + block] = node[chosen]
        distance[start : start + block] = exact[chosen]
    return neighbour, distance
