"""The neighbour graph: each distinct row's nearest train rows, found once, read by every later edit.

It belongs to the data, not to the sources: which rows a source votes on does not enter. A node's list holds
its k nearest nodes by (distance, node), itself included. Up to `LARGE` nodes lists hold all of the nearest;
of more most of them, found in cells, and the share is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import mapped
from ..errors import ParameterError, VectorError
from ..numerics import wilson
from ..progress import Progress, silent
from ..storage import read_arrays, write_arrays
from . import ivf
from .knn import Nearest, merge_nearest, nearest_rows
from .space import Space

K = 128
LARGE = ivf.LARGE
"""Distinct train rows up to which all of the nearest are listed, and beyond the lists is searched too."""
FORMAT = 4
SAMPLE = 500  # nodes whose true neighbours tell how many are listed


@dataclass(frozen=True)
class Recall:
    """The share of true neighbours that are listed, as a sample of distinct vectors has it."""

    value: float
    low: float  # 95 % interval: sampled vectors are independent, neighbours of one are not
    high: float
    k: int
    sampled: int

    def __str__(self) -> str:
        return f"recall {self.value:.3f} of {self.k}, measured on {self.sampled:,} rows"


@dataclass(frozen=True)
class Settings:
    """How approximate lists are made: of how many neighbours, and the share of them to find."""

    k: int = 64
    recall: float = 0.95

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise ParameterError(f"k is a whole number of at least 1, got {self.k!r}; give one")
        if not 0 < self.recall <= 1:
            raise ParameterError(
                f"recall is a share above 0 and up to 1, got {self.recall!r}; give one such as 0.95"
            )


@dataclass(frozen=True, eq=False)
class Graph:
    """Each asking node's nearest train nodes.

    Examples
    --------
    >>> graph = Graph.build(Space([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), k=2)
    >>> graph.neighbour.tolist()
    [[0, 1], [1, 0], [2, 1]]
    """

    train: Space
    onto: Space  # the asking rows: train itself, or another split
    neighbour: np.ndarray  # (n_onto_nodes, width) int32, nodes of train, nearest first
    distance: np.ndarray  # (n_onto_nodes, width) float32
    k: int = K  # as asked for: there may be fewer nodes
    settings: Settings | None = None  # of approximate lists; None: all of the nearest are listed
    recall: Recall | None = None  # of approximate lists

    @classmethod
    def build(
        cls,
        train: Space,
        k: int | None = None,
        *,
        onto: Space | None = None,
        approximate: Settings | None = None,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> Graph:
        """Find the k nearest train nodes of every node of `train`, or of `onto`.

        Parameters
        ----------
        k
            Neighbours per distinct vector, itself included; None for 128.
        approximate
            How to find most of them, for more rows than can all be compared; its k counts.
        cache
            A folder. A graph built before is read from it, under a name made from the content of the
            vectors; a file that is not as it was written is made again.
        """
        asking = train if onto is None else onto
        train.check_same_dimension(asking)
        wanted = (K if k is None else k) if approximate is None else approximate.k
        if not train.n_nodes:
            raise VectorError("a neighbour graph needs at least one train row, got 0; add rows")
        if wanted < 1:
            raise ParameterError(f"k must be at least 1, got {wanted}; 64 to 128 serve most data")
        width = min(wanted, train.n_nodes)
        place = None
        if cache is not None:
            who = train.fingerprint + ("" if onto is None else f"-{asking.fingerprint}")
            how = "" if approximate is None else f"-{approximate.recall:g}"
            place = Path(cache) / f"graph{FORMAT}-{who}-{width}{how}.npz"
            names = ("neighbour", "distance", "recall")
            found = read_arrays(place, names, mapped.empty)
            if found is not None and found["neighbour"].shape == (asking.n_nodes, width):
                lists = found["neighbour"], found["distance"]
                return cls(train, asking, *lists, wanted, approximate, _told(found["recall"]))
        lists, recall = _found(train, asking, width, approximate, progress)
        if place is not None:
            numbers = np.array([] if recall is None else list(vars(recall).values()), dtype=float)
            write_arrays(place, {"neighbour": lists[0], "distance": lists[1], "recall": numbers})
        return cls(train, asking, *lists, wanted, approximate, recall)

    @property
    def width(self) -> int:
        """Neighbours listed per node."""
        return int(self.neighbour.shape[1])

    @property
    def is_searched_beyond(self) -> bool:
        """Whether rows are looked for that no list names; among many that would take seconds an edit."""
        return self.settings is None and self.width < self.train.n_nodes <= LARGE

    def queries(self, onto: Space, *, cache: Path | None = None) -> Graph:
        """Another split's rows of the graph: their nearest train rows."""
        return Graph.build(self.train, self.k, onto=onto, approximate=self.settings, cache=cache)

    def append(self, vectors: Any, whole: np.ndarray | None = None) -> Graph:
        """The graph of the train rows followed by new ones.

        New rows get lists, and where they are nearer than who is listed they are put there.
        """
        grown = self.train.append(vectors, whole)
        old = self.asking(grown)
        points = grown.points[self.train.n_nodes :]
        near, far = nearest_rows(points, grown.points, old.width, metric=grown.metric)
        neighbour, distance = np.vstack([old.neighbour, near]), np.vstack([old.distance, far])
        return replace(old, onto=grown, neighbour=neighbour, distance=distance)

    def asking(self, grown: Space) -> Graph:
        """The same rows, asking train after rows were added to it."""
        n_old, width = self.train.n_nodes, min(self.k, grown.n_nodes)
        neighbour, distance = self.neighbour, self.distance
        if grown.n_nodes > n_old:
            new = grown.points[n_old:]
            near, far = nearest_rows(self.onto.points, new, width, metric=grown.metric)
            both = (neighbour, distance), (near + np.int32(n_old), far)
            neighbour, distance = merge_nearest(*both, width)
        return replace(self, train=grown, neighbour=neighbour, distance=distance)

    def listed(
        self, width: int | None = None, nodes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nearest nodes of some asking nodes (None: of all), and how far they are."""
        some = slice(None) if nodes is None else nodes
        return self.neighbour[some, :width], self.distance[some, :width]


def typical_distance(space: Space, graph: Graph | None = None) -> float:
    """The median distance from a row to its nearest other row (from at most 2,000 rows).

    It is read off the graph where there is one.
    """
    if space.n_nodes < 2:
        return 0.0
    rows = np.unique(np.linspace(0, len(space) - 1, min(2000, len(space))).astype(int))
    alone = np.bincount(space.node)[space.node[rows]] == 1  # a row with an equal twin is at 0
    nodes = np.unique(space.node[rows[alone]])
    distance = np.zeros(space.n_nodes, np.float32)
    if graph is not None and graph.width > 1:
        far = graph.listed(2, nodes)[1]
    else:
        far = nearest_rows(space.points[nodes], space.points, 2, metric=space.metric)[1]
    distance[nodes] = far[:, 1]  # the nearest but itself
    return float(np.median(distance[space.node[rows]]))


def _found(
    train: Space, onto: Space, width: int, approximate: Settings | None, progress: Progress
) -> tuple[Nearest, Recall | None]:
    points, metric = (onto.points, train.points), train.metric
    if approximate is None or ivf.are_few(*points):
        return nearest_rows(*points, width, metric=metric, progress=progress), None
    asked = (3 * approximate.recall + 1) / 4  # what the sample says is right within a hundredth
    lists = ivf.nearest_points(*points, width, metric=metric, recall=asked, progress=progress)
    rng = np.random.default_rng(2)
    sample = np.sort(rng.permutation(onto.n_nodes)[:SAMPLE])
    true = nearest_rows(mapped.take(onto.points, sample), train.points, width, metric=metric)[0]
    hits = sum(np.isin(*each).sum() for each in zip(true, lists[0][sample], strict=True))
    share = float(hits) / max(1, true.size)
    low, high = map(float, wilson(share, len(sample)))
    return lists, Recall(share, low, high, width, len(sample))


def _told(numbers: np.ndarray) -> Recall | None:
    if not len(numbers):
        return None
    value, low, high, k, sampled = numbers.tolist()
    return Recall(value, low, high, int(k), int(sampled))
