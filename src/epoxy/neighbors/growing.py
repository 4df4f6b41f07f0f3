"""How a graph grows: new nodes get lists of their own, and old ones learn who came near them since.

A new node must be compared with every other, and that is all it costs: each product serves the new
node's list, the old node's, and how near their cells come. Lists of old nodes stay as they are; who
came later and is nearer than the last in such a list stands beside it (`Later`). So everybody nearer
than that last one is known, as before, and a graph and the one it has grown from share their memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..compiling import compiled
from ..progress import Progress, silent
from ..room import followed
from . import build
from .build import Made, slices
from .cells import Grouping, Peaks
from .kernels import multiply, turned
from .knn_lists import Candidates, Lists, proven
from .space import Space
from .workers import Work


class Later(NamedTuple):
    """For each asking node the nodes that came after its list was made, nearer than the last in it."""

    start: np.ndarray  # (n_onto_nodes + 1,) int64: those of node q are start[q] to start[q + 1]
    node: np.ndarray  # int32, of each the nearest first, equals by node
    distance: np.ndarray  # float64

    @classmethod
    def nobody(cls, count: int) -> Later:
        """Of lists that know everybody."""
        return cls(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0))

    def and_then(self, count: int, asking: np.ndarray, node: np.ndarray, far: np.ndarray) -> Later:
        """With pairs of asking nodes and newer nodes; `count` nodes ask now."""
        before = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        who = np.concatenate([before, asking])
        nodes, distance = np.concatenate([self.node, node]), np.concatenate([self.distance, far])
        order = np.lexsort((nodes, distance, who))
        start = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=count))])
        return Later(start.astype(np.int64), nodes[order].astype(np.int32), distance[order])


def grow(
    grown: Space,
    onto: Space,
    old: Made,
    later: Later,
    grouping: Grouping | None,
    n_old: int,
    progress: Progress = silent,
) -> tuple[Made, Later]:
    """The lists of a graph whose train had `n_old` nodes and has grown.

    Where train itself asks, new nodes ask too. A cell's peak is a bound, and is raised where it stands:
    it bounds what the smaller graph knows as well.
    """
    work = _Growth(grown, onto, old, grouping, n_old)
    Work(slices(len(old.neighbour))).run(work.worker, progress=progress)
    pairs = [np.concatenate(each) for each in zip(*work.pairs)] if work.pairs else [np.empty(0)] * 3
    made = work.made() if onto is grown else old
    asking = pairs[0].astype(np.int64)
    return made, later.and_then(onto.n_nodes, asking, pairs[1], pairs[2])


class _Growth:
    """New nodes against all that have lists."""

    def __init__(
        self, grown: Space, onto: Space, old: Made, grouping: Grouping | None, n_old: int
    ) -> None:
        self.grown, self.onto, self.old = grown, onto, old
        self.grouping, self.n_old = grouping, n_old
        self.horizon = old.distance[:, -1]
        # a newcomer at exactly the distance of the last neighbour is not nearer
        last = grown.metric.score_of(self.horizon) - grown.slack(onto)
        self.floor = np.nextafter(last.astype(np.float32), np.float32(-np.inf))
        self.parts = slices(grown.n_nodes - n_old)  # of the new nodes
        self.asks = onto is grown  # whether they ask, too
        count = grown.n_nodes - n_old if self.asks else 0
        self.lists = Lists.empty(count, old.neighbour.shape[1])
        self.pairs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.peaks: list[list[Peaks]] = []
        self._lock = threading.Lock()

    def worker(self) -> Callable[[slice], None]:
        buffers = np.empty((2, build.TILE * build.TILE), dtype=np.float32)
        mine = self._fresh_peaks()
        self.peaks.append(mine)

        def offer(block: slice) -> None:
            grouping, left = self.grouping, self.onto.left[block]
            peaks = None if grouping is None else Peaks.none(grouping, len(left))
            for number, part in enumerate(self.parts):
                nodes = slice(self.n_old + part.start, self.n_old + part.stop)
                tile = multiply(self.grown.right[nodes], left, buffers[0])
                self._pair(tile, nodes, block)
                if peaks is not None and grouping is not None:
                    peaks.offer(tile, grouping.cell[nodes])
                if self.asks:
                    with self._lock:
                        self.lists.push(tile, part, block.start, self.lists.keep)
                    if mine and grouping is not None:
                        mine[number].offer(turned(tile, buffers[1]), grouping.cell[block])
            if peaks is not None and self.old.peak is not None:
                before = self.old.peak[block]
                np.maximum(before, peaks.of(len(before)), out=before)

        return offer

    def _fresh_peaks(self) -> list[Peaks]:
        if self.grouping is None or not self.asks:
            return []
        return [Peaks.none(self.grouping, part.stop - part.start) for part in self.parts]

    def _pair(self, tile: np.ndarray, nodes: slice, block: slice) -> None:
        """Newcomers that are nearer than the last of a list."""
        which, column = np.nonzero(tile > self.floor[block])
        if not len(which):
            return
        asking, node = block.start + column, nodes.start + which
        far = self.onto.node_distances(asking, self.grown, node)
        near = far < self.horizon[asking]
        self.pairs.append((asking[near], node[near], far[near]))

    def made(self) -> Made:
        """The lists of old nodes as they were, and then those of the new ones."""
        self._meet_each_other()
        new = np.arange(self.n_old, self.grown.n_nodes)
        near = Candidates.measured(self.grown, self.grown, new, *self.lists.drain(slice(None)))
        neighbour, distance = proven(self.grown, self.grown, new, near, self.old.neighbour.shape[1])
        peak = None
        if self.old.peak is not None and self.grouping is not None:
            tables = (np.hstack([part.table for part in each]) for each in self.peaks)
            peak = followed(self.old.peak, np.maximum.reduce(list(tables)).T)
        return Made(
            followed(self.old.neighbour, neighbour), followed(self.old.distance, distance), peak
        )

    def _meet_each_other(self) -> None:
        buffer = np.empty(build.TILE * build.TILE, dtype=np.float32)
        for number, columns in enumerate(self.parts):
            nodes = slice(self.n_old + columns.start, self.n_old + columns.stop)
            for part in self.parts:
                mine = slice(self.n_old + part.start, self.n_old + part.stop)
                tile = multiply(self.grown.right[mine], self.grown.left[nodes], buffer)
                self.lists.push(tile, part, nodes.start, self.lists.keep)
                if self.peaks[0] and self.grouping is not None:
                    self.peaks[0][number].offer(tile, self.grouping.cell[mine])


@compiled
def merge_later(neighbour: Any, distance: Any, nodes: Any, later: Any, near: Any, far: Any) -> None:
    """Write the first of each node's list and of who came later, in the order of (distance, node)."""
    start, later_node, later_distance = later
    for at in range(len(nodes)):
        query = nodes[at]
        held, late = 0, start[query]
        for place in range(near.shape[1]):
            comes = late < start[query + 1]
            if comes:
                gap = later_distance[late] - distance[query, held]
                comes = gap < 0 or (gap == 0 and later_node[late] < neighbour[query, held])
            if comes:
                near[at, place], far[at, place] = later_node[late], later_distance[late]
                late += 1
            else:
                near[at, place], far[at, place] = neighbour[query, held], distance[query, held]
                held += 1
