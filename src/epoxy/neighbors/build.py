"""How the lists of a graph are made: the full order, by symmetry, for queries.

All three give the same thing, each node's `width` nearest nodes by (distance, node), so which one ran
cannot be seen in the result. With a grouping they also keep how near each cell comes (see `cells`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..progress import Progress, silent
from ..room import roomy
from . import list_kernels, store
from .cells import Grouping, Peaks
from .kernels import multiply, turned
from .knn_lists import Candidates, Lists, proven
from .space import Space
from .workers import Work

TILE = 1024
ORDER_TILE = 128
Arrays = tuple[np.ndarray, np.ndarray]


class Made(NamedTuple):
    """What is found about each asking node."""

    neighbour: np.ndarray  # (n_onto_nodes, width) int32
    distance: np.ndarray  # (n_onto_nodes, width) float64
    peak: np.ndarray | None = None  # (n_onto_nodes, n_cells) uint8, with a grouping


@dataclass(frozen=True)
class Checkpoint:
    """Where unfinished work is kept, and how often, in seconds; a small build never writes one."""

    path: Path
    every: float


def slices(count: int, size: int | None = None) -> list[slice]:
    """Slices of so many, one after the other."""
    size = size or TILE
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _allocate(rows: int, width: int) -> Arrays:
    return roomy(rows, width, np.int32), roomy(rows, width, np.float64)


def full_order(train: Space, onto: Space, progress: Progress = silent) -> Made:
    """Every node of train in order of distance, for each node of onto.

    All pairs are measured in float64 anyway, so no float32 score is needed; between the nodes of
    one space each pair is measured once.
    """
    neighbour, distance = _allocate(onto.n_nodes, train.n_nodes)
    down, across = slices(onto.n_nodes, ORDER_TILE), slices(train.n_nodes, ORDER_TILE)
    pairs = [(i, j) for i in down for j in across if onto is not train or i.start <= j.start]

    def measure(pair: tuple[slice, slice]) -> None:
        rows, columns = (np.arange(each.start, each.stop) for each in pair)
        nodes = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
        tile = onto.node_distances(nodes[0], train, nodes[1]).reshape(len(rows), len(columns))
        distance[pair] = tile
        if onto is train:
            distance[pair[1], pair[0]] = tile.T

    def order(rows: slice) -> None:
        nodes = np.argsort(distance[rows], axis=1).astype(np.int32)
        distance[rows] = np.take_along_axis(distance[rows], nodes, axis=1)
        list_kernels.rank_rows(nodes, distance[rows])  # equals by node
        neighbour[rows] = nodes

    Work(pairs).run(lambda: measure, progress=progress)
    Work(slices(onto.n_nodes, ORDER_TILE)).run(lambda: order)
    return Made(neighbour, distance)


def rectangle(
    train: Space,
    onto: Space,
    width: int,
    grouping: Grouping | None = None,
    progress: Progress = silent,
) -> Made:
    """The nearest train nodes of each node of onto."""
    asking = np.arange(onto.n_nodes)
    neighbour, distance = _allocate(len(asking), width)
    peak = None if grouping is None else _no_peaks(len(asking), grouping)

    def worker() -> Callable[[slice], None]:
        buffers = np.empty((2, TILE * TILE), dtype=np.float32)

        def search(block: slice) -> None:
            queries = asking[block]
            lists = Lists.empty(len(queries), width)
            peaks = None if grouping is None else Peaks.none(grouping, len(queries))
            for columns in slices(train.n_nodes):
                tile = multiply(onto.left[queries], train.right[columns], buffers[0])
                lists.push(tile, slice(None), columns.start, lists.keep)
                if peaks is not None and grouping is not None:
                    peaks.offer(turned(tile, buffers[1]), grouping.cell[columns])
            near = Candidates.measured(train, onto, queries, *lists.drain(slice(None)))
            neighbour[block], distance[block] = proven(train, onto, queries, near, width)
            if peak is not None and peaks is not None:
                peak[block] = peaks.of(len(queries))

        return search

    Work(slices(len(asking), TILE // 4)).run(worker, progress=progress)
    return Made(neighbour, distance, peak)


def _no_peaks(count: int, grouping: Grouping) -> np.ndarray:
    return roomy(count, len(grouping.centre), np.uint8)


def symmetric(
    space: Space,
    width: int,
    checkpoint: Checkpoint | None,
    grouping: Grouping | None = None,
    progress: Progress = silent,
) -> Made:
    """Each node's nearest others, every tile used for its rows and for its columns."""
    half = _HalfMatrix(space, width, grouping)
    done = half.resume(checkpoint)
    work = Work(half.tasks, done=done)
    every = float("inf") if checkpoint is None else checkpoint.every
    try:
        while not work.finished:
            work.run(half.worker, seconds=every, progress=progress)
            half.keep(checkpoint, work.done)
    except KeyboardInterrupt:
        half.keep(checkpoint, work.done)
        raise
    return half.finish()


class _HalfMatrix:
    """The state of a symmetric build: which tiles are done, and the lists they filled.

    Nodes are taken in a random order fixed by their number alone, which makes every block a sample
    (see `knn_lists`), and a sorted data set as fast as any other. Within a block they go cell by cell.
    """

    def __init__(self, space: Space, width: int, grouping: Grouping | None) -> None:
        self.space = space
        self.width = width
        self.grouping = grouping
        self.order = np.random.default_rng(space.n_nodes).permutation(space.n_nodes)
        self.peaks: list[Peaks] = []
        if grouping is not None:
            for block in slices(space.n_nodes):
                mine = self.order[block]
                self.order[block] = mine[np.argsort(grouping.cell[mine], kind="stable")]
                self.peaks.append(Peaks.none(grouping, len(mine)))
            self.cell = grouping.cell[self.order]
        self.left = space.left[self.order]
        self.right = self.left if space.right is space.left else space.right[self.order]
        self.blocks = slices(space.n_nodes)
        self.tasks = list(combinations_with_replacement(range(len(self.blocks)), 2))
        self.lists = Lists.empty(space.n_nodes, width)
        self.seen = np.zeros(len(self.blocks), dtype=np.int64)
        self.whole = 0  # tiles offered to all their rows and columns
        self._locks = [threading.Lock() for _ in self.blocks]
        self._counting = threading.Lock()

    def worker(self) -> Callable[[tuple[int, int]], None]:
        buffers = np.empty((2, TILE * TILE), dtype=np.float32)

        def offer(task: tuple[int, int]) -> None:
            i, j = task
            rows, columns = self.blocks[i], self.blocks[j]
            tile = multiply(self.left[rows], self.right[columns], buffers[0])
            across = tile if i == j else turned(tile, buffers[1])
            with self._locks[i]:
                self.lists.push(tile, rows, columns.start, self._keep(i, len(tile.T)))
                if self.peaks:
                    self.peaks[i].offer(across, self.cell[columns])
            if i != j:
                with self._locks[j]:
                    self.lists.push(across, columns, rows.start, self._keep(j, len(tile)))
                    if self.peaks:
                        self.peaks[j].offer(tile, self.cell[rows])
            with self._counting:
                self.whole += 1

        return offer

    def _keep(self, block: int, more: int) -> int:
        self.seen[block] += more
        return self.lists.keep_after(int(self.seen[block]) / self.space.n_nodes)

    def finish(self) -> Made:
        """Make the lists exact.

        Nodes whose lists share their lowest name share many (the names are in random order: it is
        a min-hash), and next to each other they find the vectors they need in the cache.
        """
        del self.left, self.right
        n = self.space.n_nodes
        names = np.empty((n, self.lists.keep), dtype=np.int32)
        floors = np.empty(n, dtype=np.float32)
        neighbour, distance = _allocate(n, self.width)
        peak = None if self.grouping is None else _no_peaks(n, self.grouping)

        def drain(block: slice) -> None:
            names[block], floors[block] = self.lists.drain(block)
            if peak is not None:
                mine = self.order[block]
                peak[mine] = self.peaks[block.start // TILE].of(len(mine))

        def settle(block: slice) -> None:
            part = by_lowest[block]
            nodes = np.where(names[part] >= 0, self.order[names[part]], -1).astype(np.int32)
            mine = self.order[part]
            near = Candidates.measured(self.space, self.space, mine, nodes, floors[part])
            found = proven(self.space, self.space, mine, near, self.width)
            neighbour[mine], distance[mine] = found

        Work(slices(n)).run(lambda: drain)
        del self.lists, self.peaks  # half of the memory, before the result takes its own
        by_lowest = np.argsort(names.min(axis=1), kind="stable")
        Work(slices(n, TILE // 4)).run(lambda: settle)
        return Made(neighbour, distance, peak)

    def keep(self, checkpoint: Checkpoint | None, done: int) -> None:
        """Write down what is done, unless everything is, or a tile was left half done.

        Ctrl-C in the only thread stops in the middle of a tile, and a second Ctrl-C does not wait
        for the others; then the last checkpoint stays.
        """
        if checkpoint is None or done >= len(self.tasks) or done != self.whole:
            return
        filled = np.arange(self.lists.keys.shape[1]) < self.lists.count[:, None]
        state = {
            "keys": self.lists.keys[filled],
            "count": self.lists.count,
            "floor": self.lists.floor,
            "seen": self.seen,
            "done": np.array([done, TILE, self.width]),
            "order": self.order,
            "peaks": self._tables(),
            "grouping": self._grouped(),
        }
        store.save(checkpoint.path, state)

    def _tables(self) -> np.ndarray:
        """The peaks of all blocks side by side."""
        empty = np.zeros((0, 0), dtype=np.uint8)
        return np.hstack([each.table for each in self.peaks]) if self.peaks else empty

    def _grouped(self) -> np.ndarray:
        """What the peaks are peaks of; another machine's rounding may group otherwise."""
        of = self.grouping
        return np.zeros(0) if of is None else np.concatenate([of.scale, of.cell], dtype=np.float64)

    def resume(self, checkpoint: Checkpoint | None) -> int:
        """Take up what an earlier process left; returns how many tasks it had done."""
        names = ("keys", "count", "floor", "seen", "done", "order", "peaks", "grouping")
        state = None if checkpoint is None else store.load(checkpoint.path, names)
        if state is None or state["done"][1:].tolist() != [TILE, self.width]:
            return 0
        if (state["order"] != self.order).any() or state["peaks"].shape != self._tables().shape:
            return 0
        if not np.array_equal(state["grouping"], self._grouped()):
            return 0
        for block, peaks in zip(self.blocks, self.peaks, strict=False):
            peaks.table[:] = state["peaks"][:, block]
        filled = np.arange(self.lists.keys.shape[1]) < state["count"][:, None]
        self.lists.keys[filled] = state["keys"]
        self.lists.count[:] = state["count"]
        self.lists.floor[:] = state["floor"]
        self.seen[:] = state["seen"]
        self.whole = int(state["done"][0])
        return self.whole
