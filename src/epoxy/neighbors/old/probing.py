"""The nearest nodes of each node among those in the cells nearest to it.

Centres are learned from a sample and every node belongs to the cell of the nearest. A node asks the
cells of its `probes` nearest centres, by itself and not with its cell, because rows of one cell want
different others. Nodes that ask go in the order of their cells, cells in an order that puts near ones
together; so a block of them wants few cells, many of its rows want each, and the products are of
matrices.

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

from ..workers import Work
from . import list_kernels
from .centres import learned_centres, nearest_centre, nearest_centres
from .kernels import multiply
from .knn_lists import Lists
from .points import Points
from .space import pair_distances

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
        partition: Partition,
        room: int,
        *,
        only: slice = slice(None),
        sorted_file: Path | None = None,
        is_sorted: bool = False,  # points are in the order of their cells already
    ) -> None:
        cell, nodes = partition.cell[only], np.arange(points.n_nodes, dtype=np.int32)[only]
        self.order = nodes[np.argsort(cell, kind="stable")]  # position → node
        self._sorted = is_sorted or sorted_file is not None
        self.points = points if sorted_file is None else points.rewritten(self.order, sorted_file)
        n_cells = len(partition.centre)
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
    lists = Lists.empty(len(asking.nodes), width)
    _offer(members, asking, lists)
    neighbour = np.empty((len(asking.nodes), width), dtype=np.int32)
    distance = np.empty((len(asking.nodes), width))
    for part in _parts(len(asking.nodes)):
        some = asking.only(np.arange(part.start, part.stop))
        neighbour[part], distance[part] = _measured(members, some, lists.drain(part), width)
    members.points.release()
    return neighbour, distance


def _parts(count: int) -> list[slice]:
    return [slice(at, min(at + MEASURED, count)) for at in range(0, count, MEASURED)]


def _offer(members: Members, asking: Asking, lists: Lists) -> None:
    """Score the members of every asked cell, and offer them to the lists of who asks."""
    left = asking.points.operands(asking.nodes)[0]
    buffer = np.empty(TILE * TILE, dtype=np.float32)
    everybody = np.arange(len(left))
    cells = (
        ((cell, everybody) for cell in range(len(members.size)))
        if asking.top is None
        else asking.wanted()
    )
    for cell, rows in cells:
        if not members.size[cell]:
            continue
        right, start = members.right(cell), int(members.start[cell])
        for down in range(0, len(rows), TILE):
            mine = rows[down : down + TILE]
            some = left[mine]
            for across in range(0, len(right), TILE):
                tile = multiply(some, right[across : across + TILE], buffer)
                lists.push_some(tile, mine, start + across)


def with_newcomers(members: Members, everybody: Members, asking: Asking, old: Arrays) -> Arrays:
    """Lists of nodes that asked before, with members that came since and are near enough.

    `old` are their lists; a newcomer at the distance of the last one loses to it: its node is higher.
    """
    width = old[0].shape[1]
    lists = Lists.empty(len(asking.nodes), width, len(members.order))
    last = members.points.metric.score_of(old[1][:, -1]) - _slack(members, asking)
    lists.floor[:] = np.nextafter(last.astype(np.float32), np.float32(-np.inf))
    _offer(members, asking, lists)
    neighbour, distance = old[0].copy(), old[1].copy()
    for part in _parts(len(asking.nodes)):
        names, floors = lists.drain(part)
        most = int((names >= 0).sum(axis=1).max(initial=0))
        if most:
            some = asking.only(np.arange(part.start, part.stop))
            nodes, far = _distances_of(members, some, names[:, :most])
            both = np.hstack([neighbour[part], nodes]), np.hstack([distance[part], far])
            neighbour[part], distance[part] = _proven(everybody, some, both, floors, width)
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
    return _proven(members, asking, _distances_of(members, asking, names), floors, width)


def _proven(
    members: Members, asking: Asking, found: Arrays, floors: np.ndarray, width: int
) -> Arrays:
    """The nearest of what was found; where others might be as near, they are looked for again."""
    nodes, distance = found
    list_kernels.rank_rows(nodes, distance)
    metric, slack = members.points.metric, _slack(members, asking)
    beyond = metric.distance_of(floors.astype(np.float64) + slack)
    for row in np.flatnonzero(~(distance[:, width - 1] < beyond)).tolist():
        nodes[row, :width], distance[row, :width] = _looked_again(members, asking, row, width)
    return nodes[:, :width], distance[:, :width]


def _distances_of(members: Members, asking: Asking, names: np.ndarray) -> Arrays:
    """The nodes at some positions and how far each is from who asks; −1 and inf for no position."""
    distance = np.full(names.shape, np.inf)
    at, place = np.nonzero(names >= 0)
    distance[at, place] = _distances(members, asking, at, names[at, place])
    return np.where(names >= 0, members.order[names], np.int32(-1)), distance


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
    return pair_distances(members.points.metric, pairs, norms)


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
