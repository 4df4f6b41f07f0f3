"""The nearest nodes of each node among those in the cells nearest to it.

Centres are learned from a sample and every node belongs to the cell of the nearest. A node asks the
cells of its `probes` nearest centres, by itself and not with its cell: rows of one cell want different
others, and for the same recall that takes a third less multiplication. Nodes that ask go in the order of
their cells, cells in an order that puts near ones together; so a block of them wants few cells, many of
its rows want each, and the products are of matrices.

Which members are nearest is decided as everywhere: float32 scores propose, and what their rounding
bound cannot exclude is measured in float64. So the lists are a function of the cells that were asked,
and of nothing else: no block size, thread or budget changes a bit of them, and where every cell is
asked they are the exact ones.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from . import list_kernels
from .centres import learned_centres, nearest_centre, nearest_centres
from .kernels import multiply
from .knn_lists import Lists
from .points import Points
from .space import pair_distances
from .workers import Work

TILE = 1024
SAMPLE = 32  # nodes per cell from which centres are learned
TOGETHER = 16  # cells whose centres are near follow each other, so many on average
ASKED = 1024  # nodes whose cells are looked for at a time: always as many, whoever asks
MEASURED = 256  # nodes whose candidates are measured at a time: they share most of them
MOST_CELLS = 1 << 15
Arrays = tuple[np.ndarray, np.ndarray]


def cells_for(n_nodes: int) -> int:
    """How many cells balance finding the nearest with searching them: twice the square root."""
    return int(min(MOST_CELLS, max(1, round(2 * n_nodes**0.5))))


@dataclass(frozen=True, eq=False)
class Partition:
    """The nodes of train in cells, and the cells each of them asks."""

    centre: np.ndarray  # (n_cells, dimension) float32, near ones next to each other
    top: (
        np.ndarray
    )  # (n_nodes, probes) uint16, the cells nearest to each node; the first is its own

    @classmethod
    def over(cls, points: Points, centre: np.ndarray, probes: int) -> Self:
        """Put every node to the nearest of the centres, and let it ask so many."""
        return cls(centre, asked_cells(points, np.arange(points.n_nodes), centre, probes))

    @property
    def cell(self) -> np.ndarray:
        """The cell of each node; (n_nodes,) uint16."""
        return self.top[:, 0]

    @property
    def probes(self) -> int:
        """Cells each node asks."""
        return int(self.top.shape[1])


def learn(points: Points, count: int, seed: int) -> np.ndarray:
    """Centres of so many cells, those that are near each other in a row."""
    rng = np.random.default_rng(seed)
    sample = rng.permutation(points.n_nodes)[: SAMPLE * count]
    centre = learned_centres(points.operands(sample)[0][:, : points.dimension], count)
    points.release()
    groups = learned_centres(centre, max(1, len(centre) // TOGETHER))
    return np.asarray(centre[np.argsort(nearest_centre(centre, groups), kind="stable")])


def asked_cells(points: Points, nodes: np.ndarray, centre: np.ndarray, probes: int) -> np.ndarray:
    """The cells nearest to some nodes, nearest first; (n, probes) uint16."""
    top = np.empty((len(nodes), probes), dtype=np.uint16)

    def look(block: slice) -> None:
        left = points.operands(nodes[block])[0][:, : points.dimension]
        top[block] = nearest_centres(left, centre, probes)
        points.release()

    Work([slice(at, at + ASKED) for at in range(0, len(nodes), ASKED)]).run(lambda: look)
    return top


class Members:
    """Nodes in the order of their cells, and what to multiply of the cells used last.

    A position is a place in that order. `room` bytes of prepared cells are kept, the last used ones.
    """

    def __init__(
        self,
        points: Points,
        cell: np.ndarray,
        n_cells: int,
        room: int,
        sorted_file: Path | None = None,
    ) -> None:
        self.order = np.argsort(cell, kind="stable").astype(np.int32)  # position → node
        self._sorted = sorted_file is not None
        self.points = points if sorted_file is None else points.rewritten(self.order, sorted_file)
        self.size = np.bincount(cell, minlength=n_cells)
        self.start = np.concatenate([[0], np.cumsum(self.size)])
        self._room, self._held = room, 0
        self._kept: OrderedDict[int, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def places(self, positions: np.ndarray) -> np.ndarray:
        """The nodes of `points` at some positions: the same numbers where those are in this order."""
        return positions if self._sorted else self.order[positions]

    def right(self, cell: int) -> np.ndarray:
        """What to multiply with to get the scores of a cell's nodes."""
        with self._lock:
            if cell in self._kept:
                self._kept.move_to_end(cell)
                return self._kept[cell]
        made = self.points.operands(self.places(np.arange(*self.start[cell : cell + 2])))[1]
        with self._lock:
            if cell not in self._kept:
                self._kept[cell], self._held = made, self._held + made.nbytes
            while self._held > self._room and len(self._kept) > 1:
                self._held -= self._kept.popitem(last=False)[1].nbytes
        return made


@dataclass(frozen=True, eq=False)
class Asking:
    """Some nodes that ask, and which cells: those of `top`, or all of them."""

    points: Points
    nodes: np.ndarray  # (n,)
    top: np.ndarray | None  # (n, probes); None: every cell

    def only(self, which: np.ndarray, *, everywhere: bool = False) -> Asking:
        """Some of them, as they ask or asking everywhere."""
        top = None if everywhere or self.top is None else self.top[which]
        return Asking(self.points, self.nodes[which], top)

    def wanted(self) -> Iterator[tuple[int, np.ndarray]]:
        """The cells that are asked, and who asks each; the most wanted first, which is their own."""
        assert self.top is not None
        flat = self.top.ravel()
        order = np.argsort(flat, kind="stable")
        cells, first, count = np.unique(flat[order], return_index=True, return_counts=True)
        rows = order // self.top.shape[1]
        for at in np.argsort(-count, kind="stable"):
            yield int(cells[at]), rows[first[at] : first[at] + count[at]]


def nearest_in_cells(members: Members, asking: Asking, width: int) -> Arrays:
    """The `width` nearest members of the asked cells, nearest first, equals by node; and how far.

    A node whose cells hold fewer than that asks all cells.
    """
    if asking.top is not None:
        few = members.size[asking.top].sum(axis=1) < width
        if few.any():
            return _mixed(members, asking, width, few)
    left = asking.points.operands(asking.nodes)[0]
    lists = Lists.empty(len(left), width)
    buffer = np.empty(TILE * TILE, dtype=np.float32)
    everybody = np.arange(len(left))
    cells = (
        ((cell, everybody) for cell in range(len(members.size)))
        if asking.top is None
        else asking.wanted()
    )
    for cell, rows in cells:
        right, start = members.right(cell), int(members.start[cell])
        for down in range(0, len(rows), TILE):
            mine = rows[down : down + TILE]
            some = left[mine]
            for across in range(0, len(right), TILE):
                tile = multiply(some, right[across : across + TILE], buffer)
                lists.push_some(tile, mine, start + across)
    neighbour = np.empty((len(left), width), dtype=np.int32)
    distance = np.empty((len(left), width))
    for at in range(0, len(left), MEASURED):
        part = slice(at, min(at + MEASURED, len(left)))
        some = asking.only(np.arange(part.start, part.stop))
        neighbour[part], distance[part] = _measured(members, some, lists.drain(part), width)
    members.points.release()
    return neighbour, distance


def _mixed(members: Members, asking: Asking, width: int, few: np.ndarray) -> Arrays:
    """Those whose cells hold enough, and the others everywhere."""
    neighbour = np.empty((len(few), width), dtype=np.int32)
    distance = np.empty((len(few), width))
    for which, everywhere in ((~few, False), (few, True)):
        if which.any():
            part = asking.only(which, everywhere=everywhere)
            neighbour[which], distance[which] = nearest_in_cells(members, part, width)
    return neighbour, distance


def _measured(members: Members, asking: Asking, drained: Arrays, width: int) -> Arrays:
    """Measure what was listed; where it is not proven to hold the nearest, look again."""
    names, floors = drained
    distance = np.full(names.shape, np.inf)
    at, place = np.nonzero(names >= 0)
    positions = names[at, place]
    distance[at, place] = _distances(members, asking, at, positions)
    nodes = np.where(names >= 0, members.order[names], np.int32(-1))
    list_kernels.rank_rows(nodes, distance)
    metric, slack = members.points.metric, _slack(members, asking)
    beyond = metric.distance_of(floors.astype(np.float64) + slack)
    for row in np.flatnonzero(~(distance[:, width - 1] < beyond)).tolist():
        nodes[row, :width], distance[row, :width] = _looked_again(members, asking, row, width)
    return nodes[:, :width], distance[:, :width]


def _slack(members: Members, asking: Asking) -> float:
    return max(members.points.slack, asking.points.slack)


def _distances(
    members: Members, asking: Asking, rows: np.ndarray, positions: np.ndarray
) -> np.ndarray:
    """The defined distances of asking rows and members; each member is fetched once."""
    distinct, place = np.unique(positions, return_inverse=True)
    nodes = members.places(distinct)
    theirs, mine = members.points.raw(nodes), asking.points.raw(asking.nodes)
    norms = (
        asking.points.squared_norm[asking.nodes[rows]],
        members.points.squared_norm[nodes][place],
    )
    pairs = mine, theirs, rows.astype(np.int32), place.astype(np.int32)
    return pair_distances(members.points.metric, *pairs, *norms)


def _looked_again(members: Members, asking: Asking, row: int, width: int) -> Arrays:
    """Measure every member of the asked cells that rounding cannot exclude."""
    alone = asking.only(np.array([row]))
    left = alone.points.operands(alone.nodes)[0]
    cells = range(len(members.size)) if alone.top is None else alone.top[0].tolist()
    positions = np.concatenate(
        [np.arange(members.start[cell], members.start[cell + 1]) for cell in cells]
    )
    score = np.concatenate([(left @ members.right(cell).T)[0] for cell in cells])
    worst = np.partition(score, len(score) - width)[len(score) - width]
    near = positions[score >= worst - np.float32(2 * _slack(members, asking))]
    far = _distances(members, alone, np.zeros(len(near), dtype=np.int64), near)
    nodes = members.order[near]
    best = np.lexsort((nodes, far))[:width]
    return nodes[best], far[best]
