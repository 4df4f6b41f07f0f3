"""The neighbour graph: each row's nearest train rows, found once, used by every later edit.

It belongs to the data, not to the sources: which rows a source votes on does not enter. A node's
list holds its k nearest nodes by (distance, node), in float64 as `metrics` defines it, itself
included; so every node nearer than the last one listed is in the list, and the distance of the last
is the *horizon* beyond which the list knows nothing. A list of all nodes has no horizon (inf).

Rows that are appended get lists, and those of older nodes stay: who came later and lies within their
horizon stands beside them (see `growing`), and `listed` has both together.

An approximate graph has lists that miss some neighbours, and says how many. Its lists are all there is:
they have no horizon either, nothing is searched beyond them, and a row with no supporter of a source
among its neighbours borrows nothing from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ParameterError, VectorError
from ..progress import Progress, silent
from . import kernels, store
from .approximate import (
    NeighbourLists,
    Recall,
    Settings,
    asked_by,
    build,
    folder_in,
    grown_lists,
)
from .build import Checkpoint, Made, full_order, rectangle, symmetric
from .cells import Cells, Grouping, worth_grouping
from .growing import Later, grow, merge_later
from .points import Points
from .search_cells import load_cell_loops
from .space import Space

FULL_ORDER = 4096  # nodes up to which the whole order is kept: 200 MB, and nothing ever falls back
WIDTH = 256
BUDGET = 2 << 30
BYTES = 28  # per neighbour: the result, and lists twice as long while it is made
FEWEST = 16  # neighbours below which a graph settles too little to be worth its time
FORMAT = 3


@dataclass(frozen=True, eq=False)
class Graph:
    """Each asking row's nearest train rows.

    Examples
    --------
    >>> graph = Graph.build(Space([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), k=2)
    >>> graph.neighbour.tolist()
    [[0, 1], [1, 0], [2, 1]]
    """

    train: Space
    onto: Space  # the asking rows: train itself, or another split
    neighbour: np.ndarray  # (n_onto_nodes, width) int32, nodes of train when it came, nearest first
    distance: np.ndarray  # (n_onto_nodes, width) float64
    k: int | None = None  # as asked for; None was decided by the number of nodes
    cells: Cells | None = None  # of a large space: what spares most of a direct search
    lists: NeighbourLists | None = None  # of the train rows, where they are approximate
    later: Later | None = None  # who came after a list was made
    root: tuple[str, int] | None = None  # the file of the graph it has grown from, and its rows

    @classmethod
    def build(
        cls,
        train: Space,
        k: int | None = None,
        *,
        onto: Space | None = None,
        cache: Path | None = None,
        budget: int = BUDGET,
        checkpoint_seconds: float = 20.0,
        progress: Progress = silent,
    ) -> Graph:
        """Find the k nearest train rows of every row of `train`, or of `onto`.

        Parameters
        ----------
        k
            Neighbours per distinct vector, itself included. None keeps the whole order up to 4,096
            distinct vectors and 256 neighbours above, fewer if the budget says so.
        budget
            Bytes of memory the lists may take while they are made; 28 per neighbour.
        cache
            A folder. A graph built before is read from it, under a name made from the content of
            the vectors; an interrupted build goes on from its last checkpoint there.
        """
        settings = _Settings(k, cache, budget, checkpoint_seconds, progress)
        return _built(train, onto, None, settings)

    @classmethod
    def approximate(
        cls,
        train: Space,
        settings: Settings | None = None,
        *,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> Graph:
        """Find most of the nearest rows, and measure how many: for more rows than exact lists suit."""
        points, chosen = Points.of(train), settings or Settings()
        folder = None if cache is None else folder_in(Path(cache), points, chosen)
        lists = build(points, chosen, folder=folder, progress=progress)
        return cls._listed(train, lists)

    @classmethod
    def _listed(cls, train: Space, lists: NeighbourLists) -> Graph:
        graph = cls(train, train, lists.neighbour, lists.distance, lists=lists)
        _load_loops(graph)
        return graph

    @property
    def recall(self) -> Recall | None:
        """The share of true neighbours that are listed; None where all are."""
        return None if self.lists is None else self.lists.recall

    def queries(
        self, onto: Space, *, cache: Path | None = None, progress: Progress = silent
    ) -> Graph:
        """Another split's rows of the graph: their nearest train rows."""
        if self.lists is not None:
            self.train.check_same_dimension(onto)
            found = asked_by(self.lists, Points.of(onto), progress=progress)
            return Graph(self.train, onto, *found, lists=self.lists)
        grouping = None if self.cells is None else self.cells.grouping
        return _built(self.train, onto, grouping, _Settings(self.k, cache, progress=progress))

    def append(
        self,
        vectors: Any,
        *,
        whole: np.ndarray | None = None,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> Graph:
        """The graph of the train rows followed by new ones, equal to one built from scratch.

        Approximate lists are those that the same centres give; from scratch others are learned.
        """
        if self.onto is not self.train:
            raise ParameterError(
                "rows are appended to the graph of the train split; "
                "append there and ask it for the queries again"
            )
        grown = self.train.append(vectors, whole)
        if self.lists is not None:
            more = grown_lists(self.lists, Points.of(grown), progress=progress)
            return Graph._listed(grown, more)
        if self.is_full:  # its lists would have to grow too; a graph this small is quickly made
            return Graph.build(grown, self.k, cache=cache, progress=progress)
        grouping = None if self.cells is None else self.cells.grouping.append(grown)
        graph = self._grown(grown, grown, grouping, progress)
        if cache is not None and graph.root is not None:
            _write_growth(Path(cache) / _file_name(grown, grown, self.width), graph.root)
        return graph

    def asking(self, grown: Graph, *, cache: Path | None = None) -> Graph:
        """The same split's rows, asking train after rows were added to it; `grown` is train's graph."""
        if grown.lists is not None or grown.width != self.width or self.is_full:
            return grown.queries(self.onto, cache=cache)
        grouping = None if grown.cells is None else grown.cells.grouping
        return self._grown(grown.train, self.onto, grouping, silent)

    def _grown(
        self, grown: Space, onto: Space, grouping: Grouping | None, progress: Progress
    ) -> Graph:
        made = Made(self.neighbour, self.distance, None if self.cells is None else self.cells.peak)
        later, n_old = self._later, self.train.n_nodes
        if grown.n_nodes > n_old:
            made, later = grow(grown, onto, made, later, grouping, n_old, progress)
        return replace(_graph(grown, onto, made, grouping, self.k), later=later, root=self.root)

    @property
    def _later(self) -> Later:
        return Later.nobody(len(self.neighbour)) if self.later is None else self.later

    def listed(
        self, width: int | None = None, nodes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nearest nodes of some asking nodes (None: of all), and how far they are.

        As if all rows had been there from the start; `width` of each, as many as are listed at most.
        """
        width = self.width if width is None else min(width, self.width)
        if self.later is None or not len(self.later.node):
            some = slice(None) if nodes is None else nodes
            return self.neighbour[some, :width], self.distance[some, :width]
        asked = np.arange(len(self.neighbour)) if nodes is None else nodes
        found = np.empty((len(asked), width), np.int32), np.empty((len(asked), width))
        merge_later(self.neighbour, self.distance, asked, tuple(self.later), *found)
        return found

    @property
    def width(self) -> int:
        """Neighbours listed per node."""
        return int(self.neighbour.shape[1])

    @property
    def is_full(self) -> bool:
        """Every list holds all nodes of train."""
        return self.width == self.train.n_nodes

    @cached_property
    def horizon(self) -> np.ndarray:
        """Per node: every train node nearer than this is listed; (n_onto_nodes,) float64."""
        if self.is_full or self.lists is not None:
            return np.full(len(self.distance), np.inf)
        return self.distance[:, -1].copy()

    @cached_property
    def scannable(self) -> tuple[Any, ...]:
        """What `kernels.scan` reads: the lists, coarse steps to stop early, and who came later."""
        steps = [step for step in (8, 16, 32, 64, 128, 256, 512) if step < self.width]
        rungs = np.column_stack([self.distance[:, steps], self.horizon])
        ends = np.array([*steps, self.width])
        return self.neighbour, self.distance, rungs, ends, tuple(self._later)


def _checked_width(train: Space, asking: Space, k: int | None, budget: int) -> int:
    if not train.n_nodes:
        raise VectorError("a neighbour graph needs at least one train row, got 0; add rows")
    if k is not None and k < 1:
        raise ParameterError(f"k must be at least 1, got {k}; 64 to 256 serve most data")
    chosen = (train.n_nodes if train.n_nodes <= FULL_ORDER else WIDTH) if k is None else k
    width = min(chosen, train.n_nodes)
    fits = budget // (BYTES * max(1, asking.n_nodes))
    if k is None and fits >= FEWEST:
        return min(width, fits)
    if width > fits:
        least = min(width, k or FEWEST)
        needed = BYTES * asking.n_nodes * least
        raise ParameterError(
            f"k = {least} for {asking.n_nodes} distinct vectors needs "
            f"{needed / 2**30:.1f} GB, the budget is {budget / 2**30:.1f} GB; "
            f"give a budget of more bytes{f', or k = {fits}' if fits else ''}"
        )
    return width


@dataclass(frozen=True)
class _Settings:
    """How a graph is to be built, as `Graph.build` was told."""

    k: int | None
    cache: Path | None
    budget: int = BUDGET
    checkpoint_seconds: float = 20.0
    progress: Progress = silent


def _built(
    train: Space, onto: Space | None, grouping: Grouping | None, settings: _Settings
) -> Graph:
    """Read a graph from the cache, or make it and keep it there."""
    asking = train if onto is None else onto
    train.check_same_dimension(asking)
    k, cache = settings.k, settings.cache
    width = _checked_width(train, asking, k, settings.budget)
    if cache is None:
        return _made(train, onto, width, grouping, None, settings)
    place = Path(cache) / _file_name(train, asking, width)
    found = _read(place, train, asking, width, k)
    if found is None and asking is train:
        found = _regrown(place, train, width, k, settings.progress)
    if found is None:
        partial = place.with_suffix(".partial.npz")
        checkpoint = Checkpoint(partial, settings.checkpoint_seconds)
        found = _made(train, onto, width, grouping, checkpoint, settings)
        _write(place, found)
        store.remove(partial)
    return found if found.root is not None else replace(found, root=(place.name, len(train)))


def _made(
    train: Space,
    onto: Space | None,
    width: int,
    grouping: Grouping | None,
    checkpoint: Checkpoint | None,
    settings: _Settings,
) -> Graph:
    asking, progress = train if onto is None else onto, settings.progress
    if width == train.n_nodes:
        return _graph(train, asking, full_order(train, asking, progress), None, settings.k)
    if grouping is None and worth_grouping(train):
        grouping = Grouping.of(train)
    if onto is not None:
        made = rectangle(train, onto, width, grouping=grouping, progress=progress)
    else:
        made = symmetric(train, width, checkpoint, grouping, progress)
    return _graph(train, asking, made, grouping, settings.k)


def _graph(
    train: Space, asking: Space, made: Made, grouping: Grouping | None, k: int | None
) -> Graph:
    cells = None if grouping is None or made.peak is None else Cells(grouping, made.peak)
    graph = Graph(train, asking, made.neighbour, made.distance, k, cells)
    _load_loops(graph)
    return graph


def _load_loops(graph: Graph) -> None:
    """Load the loops that walk a graph now, by asking nobody: the first edit must not wait for it."""
    nodes, row, distance = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
    mask = np.zeros(0, dtype=bool)
    support = row, np.zeros(0, dtype=np.uint8)
    kernels.scan(graph.scannable, row, support, 0.0, row, distance)
    kernels.propagate(graph.scannable, nodes, row, 0.0, mask, (row, distance))
    kernels.drop_stale(mask, row, 0.0, row, distance)
    if graph.cells is not None:
        load_cell_loops(graph.train, graph.onto, graph.cells)


def _file_name(train: Space, asking: Space, width: int) -> str:
    other = "" if asking is train else f"-{asking.fingerprint}"
    return f"graph{FORMAT}-{train.fingerprint}{other}-{width}.npz"


def _write(place: Path, graph: Graph) -> None:
    cells = {} if graph.cells is None else graph.cells.arrays()
    store.save(place, {"neighbour": graph.neighbour, "distance": graph.distance, **cells})


def _write_growth(place: Path, root: tuple[str, int]) -> None:
    """Of a graph that has grown only from which; what came to it is found again in a moment."""
    name = np.frombuffer(root[0].encode(), dtype=np.uint8)
    store.save(place, {"root": name, "n_rows": np.array(root[1])})


def _regrown(
    place: Path, train: Space, width: int, k: int | None, progress: Progress
) -> Graph | None:
    """The graph that has grown from the one kept under another name, if there is one."""
    told = store.load(place, ("root", "n_rows"))
    if told is None:
        return None
    n_rows = int(told["n_rows"])
    old = place.with_name(told["root"].tobytes().decode("utf-8", "replace"))
    if old.parent != place.parent or not 0 < n_rows < len(train):
        return None
    before = Space(train.vectors[:n_rows], train.metric.name)
    found = _read(old, before, before, width, k)
    if found is None or old.name != _file_name(before, before, width):
        return None
    grouping = None if found.cells is None else found.cells.grouping.append(train)
    return replace(found, root=(old.name, n_rows))._grown(train, train, grouping, progress)


def _read(place: Path, train: Space, asking: Space, width: int, k: int | None) -> Graph | None:
    """The graph kept there, or None where it is missing, damaged, or has no cells and should."""
    grouped = worth_grouping(train) and width < train.n_nodes
    names = ("cell", "centre", "scale", "peak") if grouped else ()
    found = store.load(place, ("neighbour", "distance", *names), room=True)
    shape = asking.n_nodes, width
    if found is None or found["neighbour"].shape != shape or found["distance"].shape != shape:
        return None
    made = Made(found["neighbour"], found["distance"], found.get("peak"))
    if not grouped:
        return _graph(train, asking, made, None, k)
    grouping = Grouping(found["cell"], found["centre"], found["scale"])
    if (len(grouping.cell), len(found["peak"])) != (train.n_nodes, asking.n_nodes):
        return None
    return _graph(train, asking, made, grouping, k)
