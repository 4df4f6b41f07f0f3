"""One source's reach over a graph: who is nearest among the rows it votes on, up to a radius.

The support is walked, not searched, in two directions. *Forward*: a node's list is read until the
first neighbour that supports the source, and that one is exactly the nearest; a list that ends
beyond the radius without a hit proves that nobody is within it. *Backward*: a supporting node whose
own list ends beyond the radius (it is far-sighted) reaches everybody within the radius through that
list, because distances are symmetric. Only what both leave open, a short list here against a short
list there, is searched directly.

A `Column` is a value. An edit makes a new one from it and looks again only where it must: rows whose
neighbour still votes hear the rows that were added, nothing else, and a larger radius looks again
only at rows that had no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import AlignmentError, RadiusError
from . import kernels
from .asks import NONE, Ask, Found, Support
from .graph import Graph
from .search import search
from .space import Space
from .workers import Work

__all__ = ["Column", "Speakers"]

SCAN_BLOCK = 1 << 14
FEW = 16  # walking a giver's list costs about this many times as much as a listener's


@dataclass(frozen=True, eq=False)
class Speakers:
    """The rows a source votes on, and through which of them each node speaks; the same for all splits."""

    mask: np.ndarray  # (n_train,) bool
    row: np.ndarray  # (n_train_nodes,) int32, the lowest supporting row of each node, or −1

    @classmethod
    def of(cls, train: Space, support: Any) -> Speakers:
        """From True or False per train row."""
        mask = _checked_support(train, support)
        speaker = np.full(train.n_nodes, NONE, dtype=np.int32)
        rows = np.flatnonzero(mask)[::-1]  # the last assignment stays: the lowest row
        speaker[train.node[rows]] = rows
        return cls(mask, speaker)


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
    support: np.ndarray  # (n_train,) bool
    radius: float  # answers are certain up to here
    speaker: np.ndarray  # (n_train_nodes,) int32, the lowest supporting row of each node, or −1
    found: Found  # per node of the asking rows
    n_searched: int = 0  # asking rows that the last step searched directly

    @classmethod
    def of(cls, graph: Graph, support: Any, *, radius: float) -> Column:
        """Read one source's answers off the graph."""
        mask, speaker = _heard(graph, support)
        reach = _checked_radius(radius)
        n = graph.onto.n_nodes
        nothing = Found.nothing(n)
        ear = _Ear(graph, speaker, reach, nothing)
        ear.hear(speaker >= 0, np.ones(n, dtype=bool))
        return cls(graph, mask, reach, speaker, nothing.freeze(), ear.n_searched)

    def voting(self, support: Any) -> Column:
        """The same source after an edit: it votes on these rows now."""
        mask, speaker = _heard(self.graph, support)
        changed = speaker != self.speaker
        gone, added = changed & (self.speaker >= 0), changed & (speaker >= 0)
        found = Found(self.found.row.copy(), self.found.distance.copy())
        # answers beyond the radius would have to hear the additions too; nobody needs them
        limit = self.radius if added.any() else np.inf
        node = self.graph.train.node
        lost = kernels.active().forget(gone, node, limit, found.row, found.distance)
        ear = _Ear(self.graph, speaker, self.radius, found)
        ear.hear(added, ~lost)
        ear.hear(speaker >= 0, lost)
        return Column(self.graph, mask, self.radius, speaker, found.freeze(), ear.n_searched)

    def reaching(self, radius: float) -> Column:
        """The same answers, certain up to a larger radius; a smaller one changes nothing."""
        reach = _checked_radius(radius)
        if reach <= self.radius:
            return self
        found = Found(self.found.row.copy(), self.found.distance.copy())
        ear = _Ear(self.graph, self.speaker, reach, found)
        ear.hear(self.speaker >= 0, found.row < 0)
        settled = found.freeze()
        return Column(self.graph, self.support, reach, self.speaker, settled, ear.n_searched)

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


def _heard(graph: Graph, support: Any) -> tuple[np.ndarray, np.ndarray]:
    found = support if isinstance(support, Speakers) else Speakers.of(graph.train, support)
    return found.mask, found.row


class _Ear:
    """Answers in the making: listeners hear givers until everything within the radius is certain."""

    def __init__(self, graph: Graph, speaker: np.ndarray, radius: float, found: Found) -> None:
        self.graph = graph
        self.speaker = speaker  # the whole support
        self.radius = radius
        self.found = found  # right for everybody but the givers still to be heard
        self.n_searched = 0

    def hear(self, givers: np.ndarray, listeners: np.ndarray) -> None:
        """Bring the listeners' answers (a mask) up to date with the givers (a mask)."""
        if not givers.any() or not listeners.any():
            return
        symmetric = self.graph.onto is self.graph.train
        few = FEW * np.count_nonzero(givers) < np.count_nonzero(listeners)
        if symmetric and few:
            givers, listeners = self._lend(givers, listeners)
        nodes = self._scan(np.flatnonzero(listeners).astype(np.int32))
        if symmetric and not few and len(nodes):
            givers, listeners = self._lend(givers, _mask(nodes, len(listeners)))
            nodes = np.flatnonzero(listeners)
        self._search(givers, nodes)

    def _lend(self, givers: np.ndarray, listeners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Walk the givers' lists; returns the near-sighted givers and who may still need them.

        A giver's list holds everybody nearer than its horizon. So a listener that has an answer
        nearer than every short-sighted giver's horizon has heard all it needs.
        """
        answers = self.found.row, self.found.distance
        heard = self.graph.scannable, np.flatnonzero(givers), self.speaker, self.radius
        kernels.active().lend(*heard, listeners, answers)
        near_sighted = givers & (self.graph.horizon <= self.radius)
        nearest = self.graph.horizon[near_sighted].min(initial=np.inf)
        return near_sighted, listeners & (np.minimum(answers[1], self.radius) >= nearest)

    def _scan(self, asked: np.ndarray) -> np.ndarray:
        """Walk the listeners' lists; returns the nodes whose list ends too soon."""
        unsettled = np.empty(len(asked), dtype=bool)
        kernel, lists = kernels.active().scan, self.graph.scannable
        answers = self.found.row, self.found.distance

        def walk(part: slice) -> None:
            unsettled[part] = kernel(lists, asked[part], self.speaker, self.radius, *answers)

        blocks = [slice(at, at + SCAN_BLOCK) for at in range(0, len(asked), SCAN_BLOCK)]
        if len(blocks) <= 2:  # threads cost more than they save on a few blocks
            for block in blocks:
                walk(block)
        else:
            Work(blocks).run(lambda: walk)
        return asked[unsettled]

    def _search(self, givers: np.ndarray, nodes: np.ndarray) -> None:
        """Search directly, and keep what is certain: the nearer answer, up to the radius."""
        if not len(nodes) or not givers.any():
            return
        candidates = np.flatnonzero(givers)
        support = Support(candidates, self.speaker[candidates])
        row, distance = self.found.row[nodes], self.found.distance[nodes]
        ask = Ask(support, nodes, np.minimum(distance, self.radius))
        rival = search(self.graph.train, self.graph.onto, [ask], cells=self.graph.cells)[0]
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


def _checked_radius(radius: float) -> float:
    if not radius >= 0:
        raise RadiusError(f"a radius is a distance of at least 0, got {radius!r}; give 0 or more")
    return float(radius)
