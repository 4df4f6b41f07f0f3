"""One source's reach over a graph: who is nearest among the rows it votes on, up to a radius.

The support is walked, not searched: a node's list is read until the first neighbour that supports
the source, and that one is exactly the nearest. A list that ends beyond the radius without a hit
proves that nobody is within it. Only what is left, a list that ends too soon, is searched directly.

A `Column` is a value. An edit makes a new one from it and looks again only where it must: an answer
whose neighbour still votes is compared with the rows that were added, nothing else, and a larger
radius looks again only at rows that had no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import AlignmentError, RadiusError
from . import kernels
from .graph import Graph
from .search import NONE, Ask, Found, Support, search
from .workers import Work, n_threads

__all__ = ["Column"]

SCAN_BLOCK = 1 << 14


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
        mask = _checked_support(graph, support)
        reach = _checked_radius(radius)
        speaker = _speakers(graph, mask)
        asked = np.arange(graph.onto.n_nodes, dtype=np.int32)
        found, unsettled = _scan(graph, asked, speaker, reach)
        sought = asked[unsettled]
        _put(found, sought, _direct(graph, speaker, speaker >= 0, sought))
        return cls(graph, mask, reach, speaker, found, _n_rows(graph, sought))

    def voting(self, support: Any) -> Column:
        """The same source after an edit: it votes on these rows now."""
        mask = _checked_support(self.graph, support)
        speaker = _speakers(self.graph, mask)
        changed = speaker != self.speaker
        gone, added = changed & (self.speaker >= 0), changed & (speaker >= 0)
        nearest = self.graph.train.node[self.found.row]  # row −1 gives nonsense, not used below
        keeps = (self.found.row >= 0) & ~gone[nearest]
        # without additions nobody comes nearer: only who lost the nearest looks again
        lost = added.any() | ((self.found.row >= 0) & ~keeps)
        asked = np.flatnonzero(np.broadcast_to(lost, keeps.shape)).astype(np.int32)
        found = Found(self.found.row.copy(), self.found.distance.copy())
        scanned, unsettled = _scan(self.graph, asked, speaker, self.radius)
        kept, sought = asked[unsettled & keeps[asked]], asked[unsettled & ~keeps[asked]]
        rival = _direct(self.graph, speaker, added, kept)
        _put(found, asked, scanned)
        _put(found, kept, _nearer(_take(self.found, kept), rival))
        _put(found, sought, _direct(self.graph, speaker, speaker >= 0, sought))
        n_searched = _n_rows(self.graph, sought) + (_n_rows(self.graph, kept) if added.any() else 0)
        return Column(self.graph, mask, self.radius, speaker, found, n_searched)

    def reaching(self, radius: float) -> Column:
        """The same answers, certain up to a larger radius; a smaller one changes nothing."""
        reach = _checked_radius(radius)
        if reach <= self.radius:
            return self
        asked = np.flatnonzero(self.found.row < 0).astype(np.int32)
        found = Found(self.found.row.copy(), self.found.distance.copy())
        scanned, unsettled = _scan(self.graph, asked, self.speaker, reach)
        _put(found, asked, scanned)
        sought = asked[unsettled]
        _put(found, sought, _direct(self.graph, self.speaker, self.speaker >= 0, sought))
        n_searched = _n_rows(self.graph, sought)
        return Column(self.graph, self.support, reach, self.speaker, found, n_searched)

    @cached_property
    def row(self) -> np.ndarray:
        """The nearest supporting train row of each asking row, −1 for none; (n_onto,) int32."""
        return np.asarray(self.found.row[self.graph.onto.node])

    @cached_property
    def distance(self) -> np.ndarray:
        """How far it is, inf for none; (n_onto,) float64."""
        return np.asarray(self.found.distance[self.graph.onto.node])


def _speakers(graph: Graph, mask: np.ndarray) -> np.ndarray:
    speaker = np.full(graph.train.n_nodes, NONE, dtype=np.int32)
    rows = np.flatnonzero(mask)[::-1]  # the last assignment stays: the lowest row
    speaker[graph.train.node[rows]] = rows
    return speaker


def _scan(
    graph: Graph, asked: np.ndarray, speaker: np.ndarray, radius: float
) -> tuple[Found, np.ndarray]:
    row, distance = np.empty(len(asked), dtype=np.int32), np.empty(len(asked))
    unsettled = np.empty(len(asked), dtype=bool)
    kernel, lists = kernels.active().scan, graph.scannable

    def walk(part: slice) -> None:
        answers = row[part], distance[part]
        unsettled[part] = kernel(lists, asked[part], speaker, radius, *answers)

    blocks = [slice(at, at + SCAN_BLOCK) for at in range(0, len(asked), SCAN_BLOCK)]
    if len(blocks) <= 2:  # a barrier between threads would cost more than it saves
        for block in blocks:
            walk(block)
    else:
        Work(blocks).run(lambda: walk, threads=n_threads())
    return Found(row, distance), unsettled


def _direct(graph: Graph, speaker: np.ndarray, among: np.ndarray, queries: np.ndarray) -> Found:
    """Search some nodes directly against the supporting nodes marked in `among`."""
    nodes = np.flatnonzero(among)
    support = Support(nodes, speaker[nodes])
    return search(graph.train, graph.onto, [Ask(support, queries)])[0]


def _put(found: Found, nodes: np.ndarray, answers: Found) -> None:
    found.row[nodes], found.distance[nodes] = answers.row, answers.distance


def _take(found: Found, nodes: np.ndarray) -> Found:
    return Found(found.row[nodes], found.distance[nodes])


def _nearer(a: Found, b: Found) -> Found:
    first = (a.distance < b.distance) | ((a.distance == b.distance) & (a.row <= b.row))
    return Found(np.where(first, a.row, b.row), np.where(first, a.distance, b.distance))


def _n_rows(graph: Graph, nodes: np.ndarray) -> int:
    _, start = graph.onto.members
    return int((start[nodes + 1] - start[nodes]).sum())


def _checked_support(graph: Graph, support: Any) -> np.ndarray:
    given = np.array(support)
    if given.dtype != bool or given.shape != (len(graph.train),):
        raise AlignmentError(
            f"a source's support is True or False per train row, got shape {given.shape} and dtype "
            f"{given.dtype} for {len(graph.train)} rows; give votes != ABSTAIN of one column"
        )
    return given


def _checked_radius(radius: float) -> float:
    if not radius >= 0:
        raise RadiusError(f"a radius is a distance of at least 0, got {radius!r}; give 0 or more")
    return float(radius)
