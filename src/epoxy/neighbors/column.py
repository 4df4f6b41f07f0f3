"""One source's reach over a graph: who is nearest among the rows it votes on, up to a radius.

The support is walked, not searched, in two directions. *Forward*: a node's list is read until the
first neighbour that supports the source, and that one is exactly the nearest; a list that ends
beyond the radius without a hit proves that nobody is within it. *Backward*: a supporting node whose
own list ends beyond the radius reaches everybody within the radius through that list, because
distances are symmetric. Only what both leave open, a short list here against a short list there, is
searched directly.

A `Column` is a value. An edit makes a new one from it and looks again only where it must: rows whose
neighbour still votes are compared with the rows that were added, nothing else, and a larger radius
looks again only at rows that had no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import AlignmentError
from . import kernels
from .exact import checked_radius
from .graph import Graph
from .search import NONE, Found, Query
from .search_cells import search_cells
from .space import Space
from .workers import Work

SCAN_BLOCK = 1 << 14
FEW = 16  # walking a source's list costs about this many times as much as a target's


@dataclass(frozen=True, eq=False)
class Support:
    """The train rows a source votes on, and the lowest of them at each node."""

    mask: np.ndarray  # (n_train,) bool
    row: np.ndarray  # (n_train_nodes,) int32, the lowest supporting row of each node, or −1

    @classmethod
    def of(cls, train: Space, support: Any) -> Support:
        """From True or False per train row, or as it is."""
        if isinstance(support, Support):
            return support
        mask = _checked_support(train, support)
        lowest = np.full(train.n_nodes, NONE, dtype=np.int32)
        rows = np.flatnonzero(mask)[::-1]  # the last assignment stays: the lowest row
        lowest[train.node[rows]] = rows
        return cls(mask, lowest)


@dataclass(frozen=True, eq=False)
class Column:
    """The nearest supporting train row of each asking row, for one source.

    Every answer with `distance` up to `radius` is the one `nearest` gives, bit for bit. Beyond the
    radius a row may have its nearest too, or none (−1, inf): compare distances only with radii up
    to `radius`, and call `reaching` for more.

    Examples
    --------
    >>> from epoxy.neighbors import Space
    >>> graph = Graph.build(Space([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]))
    >>> column = Column.of(graph, [True, False, False], radius=0.5)
    >>> (column.distance <= 0.5).tolist()
    [True, True, False]
    >>> column.voting([True, False, True]).row.tolist()
    [0, 0, 2]
    """

    graph: Graph
    support: Support
    radius: float  # answers are certain up to here
    found: Found  # per node of the asking rows
    n_searched: int = 0  # asking rows that the last step searched directly

    @classmethod
    def of(cls, graph: Graph, support: Any, *, radius: float) -> Column:
        """Read one source's answers off the graph."""
        supporting = Support.of(graph.train, support)
        n = graph.onto.n_nodes
        update = _Update(graph, supporting, checked_radius(radius), Found.nothing(n))
        update.propagate(supporting.row >= 0, np.ones(n, dtype=bool))
        return update.column()

    def voting(self, support: Any) -> Column:
        """The same source after an edit: it votes on these rows now."""
        supporting = Support.of(self.graph.train, support)
        before, now = self.support.row, supporting.row
        changed = now != before
        gone, added = changed & (before >= 0), changed & (now >= 0)
        update = _Update(self.graph, supporting, self.radius, self._copied())
        # answers beyond the radius would have to be compared with the additions too; nobody needs them
        lost = update.drop_stale(gone, self.radius if added.any() else np.inf)
        update.propagate(added, ~lost)
        update.propagate(now >= 0, lost)
        return update.column()

    def reaching(self, radius: float) -> Column:
        """The same answers, certain up to a larger radius; a smaller one changes nothing."""
        reach = checked_radius(radius)
        if reach <= self.radius:
            return self
        update = _Update(self.graph, self.support, reach, self._copied())
        update.propagate(self.support.row >= 0, self.found.row < 0)
        return update.column()

    def grown(self, graph: Graph, support: Any) -> Column:
        """The same source after rows were added to train: old rows vote as before, new ones as told.

        `graph` is this one's with the rows added.
        """
        supporting = Support.of(graph.train, support)
        if graph.lists is not None:  # who answered before may be listed no more
            return Column.of(graph, supporting, radius=self.radius)
        now, n_asked = supporting.row, len(self.found.row)
        before = np.full(len(now), NONE, dtype=np.int32)
        before[: len(self.support.row)] = self.support.row
        added = (now != before) & (now >= 0)
        found = Found.nothing(graph.onto.n_nodes)
        found.row[:n_asked], found.distance[:n_asked] = self.found.row, self.found.distance
        update = _Update(graph, supporting, self.radius, found)
        update.drop_stale(np.zeros(len(now), dtype=bool), self.radius if added.any() else np.inf)
        fresh = np.arange(graph.onto.n_nodes) >= n_asked
        update.propagate(added, ~fresh)
        update.propagate(now >= 0, fresh)
        return update.column()

    def _copied(self) -> Found:
        return Found(self.found.row.copy(), self.found.distance.copy())

    @cached_property
    def row(self) -> np.ndarray:
        """The nearest supporting train row of each asking row, −1 for none; (n_onto,) int32."""
        return self._by_row(self.found.row)

    @cached_property
    def distance(self) -> np.ndarray:
        """How far it is, inf for none; (n_onto,) float64."""
        return self._by_row(self.found.distance)

    def _by_row(self, answer: np.ndarray) -> np.ndarray:
        """What nodes were answered, for each row; read-only."""
        onto = self.graph.onto
        if onto.n_nodes == len(onto):  # every row is a node, numbered the same
            return answer
        by_row: np.ndarray = answer[onto.node]
        by_row.flags.writeable = False
        return by_row


class _Update:
    """Answers in the making: propagated from supporting nodes until all within the radius is certain."""

    def __init__(self, graph: Graph, support: Support, radius: float, found: Found) -> None:
        self.graph = graph
        self.support = support  # all of it
        self.radius = radius
        self.found = found  # right for everybody but the sources still to be propagated
        self.n_searched = 0

    def column(self) -> Column:
        """The finished answers."""
        found = self.found.freeze()
        return Column(self.graph, self.support, self.radius, found, self.n_searched)

    def drop_stale(self, gone: np.ndarray, limit: float) -> np.ndarray:
        """Take back answers through nodes that are gone, a mask of these, and all beyond `limit`."""
        node = self.graph.train.node
        lost: np.ndarray = kernels.drop_stale(
            gone, node, limit, self.found.row, self.found.distance
        )
        return lost

    def propagate(self, sources: np.ndarray, targets: np.ndarray) -> None:
        """Bring the answers of the targets (a mask) up to date with supporting nodes (a mask)."""
        if not sources.any() or not targets.any():
            return
        if self.graph.lists is not None:  # who is not listed is not looked for
            self._forward(np.flatnonzero(targets).astype(np.int32))
            return
        symmetric = self.graph.onto is self.graph.train
        few = FEW * np.count_nonzero(sources) < np.count_nonzero(targets)
        if symmetric and few:
            sources, targets = self._backward(sources, targets)
        nodes = self._forward(np.flatnonzero(targets).astype(np.int32))
        if symmetric and not few and len(nodes):
            sources, targets = self._backward(sources, _mask(nodes, len(targets)))
            nodes = np.flatnonzero(targets)
        self._search(sources, nodes)

    def _backward(self, sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Walk the sources' lists; returns those whose list is too short and who may need them.

        A list holds everybody nearer than its horizon. So a target that has an answer nearer than
        every short list's horizon needs nothing more.
        """
        answers = self.found.row, self.found.distance
        walked = self.graph.scannable, np.flatnonzero(sources), self.support.row, self.radius
        kernels.propagate(*walked, targets, answers)
        short = sources & (self.graph.horizon <= self.radius)
        nearest = self.graph.horizon[short].min(initial=np.inf)
        return short, targets & (np.minimum(answers[1], self.radius) >= nearest)

    def _forward(self, asked: np.ndarray) -> np.ndarray:
        """Walk the targets' lists; returns the nodes whose list ends too soon."""
        unsettled = np.empty(len(asked), dtype=bool)
        lists, support, answers = self.graph.scannable, self.support.row, self.found

        def walk(part: slice) -> None:
            unsettled[part] = kernels.scan(
                lists, asked[part], support, self.radius, answers.row, answers.distance
            )

        blocks = [slice(at, at + SCAN_BLOCK) for at in range(0, len(asked), SCAN_BLOCK)]
        if len(blocks) <= 2:  # threads cost more than they save on a few blocks
            for block in blocks:
                walk(block)
        else:
            Work(blocks).run(lambda: walk)
        return asked[unsettled]

    def _search(self, sources: np.ndarray, nodes: np.ndarray) -> None:
        """Search directly, and keep what is certain: the nearer answer, up to the radius."""
        if not len(nodes) or not sources.any():
            return
        candidates = np.flatnonzero(sources)
        row, distance = self.found.row[nodes], self.found.distance[nodes]
        within = np.minimum(distance, self.radius)
        query = Query(candidates, self.support.row[candidates], nodes, within)
        rival = search_cells(self.graph.train, self.graph.onto, query, self.graph.cells)
        nearer = (rival.distance < distance) | ((rival.distance == distance) & (rival.row < row))
        taken = nearer & (rival.distance <= self.radius)
        self.found.row[nodes[taken]] = rival.row[taken]
        self.found.distance[nodes[taken]] = rival.distance[taken]
        _, start = self.graph.onto.members
        self.n_searched += int((start[nodes + 1] - start[nodes]).sum())


def _mask(nodes: np.ndarray, count: int) -> np.ndarray:
    mask = np.zeros(count, dtype=bool)
    mask[nodes] = True
    return mask


def _checked_support(train: Space, support: Any) -> np.ndarray:
    given = np.array(support)
    if given.dtype != bool or given.shape != (len(train),):
        raise AlignmentError(
            f"a source's support is True or False per train row, got shape {given.shape} and dtype "
            f"{given.dtype} for {len(train)} rows; give votes != ABSTAIN of one column"
        )
    return given
