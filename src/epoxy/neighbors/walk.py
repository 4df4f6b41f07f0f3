"""Who lends a source's votes to each row: the nearest train row it votes on.

With a graph the lists are walked, and one direct search finds somebody for all rows whose lists name
nobody. Without one everybody is searched directly. Both measure pairs the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..compiling import compiled
from ..errors import AlignmentError, RadiusError
from ..progress import Progress, silent
from .graph import Graph
from .knn import (
    BUDGET,
    GRID,
    NOBODY,
    SLACK,
    Nearest,
    distances,
    nearest_of_each,
    operands,
    reaches,
)
from .space import Space


def lenders(graph: Graph, supports: Sequence[np.ndarray]) -> list[Nearest]:
    """Each row's nearest train row on which a source votes, for several sources.

    Equally near rows: the first. Rows for which nobody is found have −1 and inf. `supports` are the rows
    that each source votes on, (n_train,) bool.

    Examples
    --------
    >>> graph = Graph.build(Space([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]))
    >>> [(row, far)] = lenders(graph, [np.array([True, False, False])])
    >>> row.tolist(), far.round(3).tolist()
    ([0, 0, 0], [0.0, 0.005, 1.0])
    """
    train, onto = graph.train, graph.onto
    lowest = [_lowest(train, each) for each in supports]
    found, left = [], []
    for mine in lowest:
        row, far = _nobody(onto)
        unsettled = _walk(graph.neighbour, graph.distance, mine, row, far)
        found.append((row, far))
        left.append(np.flatnonzero(unsettled & graph.is_searched_beyond))
    _search(train, onto, lowest, left, found)
    return [(row[onto.node], far[onto.node]) for row, far in found]


def nearest_lenders(
    train: Space, onto: Space, supports: Sequence[np.ndarray], progress: Progress = silent
) -> list[Nearest]:
    """The same by a direct search, however far away somebody is.

    Examples
    --------
    >>> train = Space([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> nearest_lenders(train, train, [np.array([True, False, False])])[0][0].tolist()
    [0, 0, 0]
    """
    train.check_same_dimension(onto)
    lowest = [_lowest(train, each) for each in supports]
    found = [_nobody(onto) for _ in supports]
    _search(train, onto, lowest, [np.arange(onto.n_nodes)] * len(lowest), found, progress)
    return [(row[onto.node], far[onto.node]) for row, far in found]


def within(
    train: Space, support: np.ndarray, onto: Space, rows: np.ndarray, radius: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Every pair (asking row, supporting row) no farther apart than `radius`, in chunks.

    `support` are numbers of train rows, `rows` of asking rows; all pairs of one asking row come in the
    same chunk, by asking row and then by train row, with their distances.
    """
    if not radius >= 0:
        raise RadiusError(f"a radius is a distance of at least 0, got {radius!r}; give 0 or more")
    train.check_same_dimension(onto)
    if not len(support):
        return
    left, right, fine = operands(onto.points, train.points, train.metric)
    score = 1 - radius if train.metric == "cosine" else -(float(radius) ** 2) / 2
    least, lending = score - SLACK * GRID / fine, train.node[support]
    for part in np.array_split(rows, 1 + 16 * len(rows) * len(support) // BUDGET):
        asking = onto.node[part]
        which, who = np.nonzero(left[asking] @ right[lending].T >= least[asking, None])
        pairs = onto.points[asking[which]], train.points, lending[who][:, None]
        far = distances(*pairs, train.metric)[:, 0]
        near = reaches(radius, far)
        yield part[which[near]], support[who[near]], far[near]


@functools.cache
def warm() -> None:
    """Find and walk neighbours of a handful of rows.

    The first call in a process reads compiled code from disk, or compiles it where there is none yet (some
    seconds, once per machine).
    """
    space = Space(np.random.default_rng(0).normal(size=(8, 4)))
    lenders(Graph.build(space, 2), [np.arange(len(space)) < 1])


def _lowest(train: Space, support: np.ndarray) -> np.ndarray:
    """The lowest supporting row of each node of train, −1 for none."""
    if support.dtype != bool or support.shape != (len(train),):
        raise AlignmentError(
            f"a source's support is True or False per train row, got shape {support.shape} and dtype "
            f"{support.dtype} for {len(train)} rows; give votes != ABSTAIN of one column"
        )
    lowest = np.full(train.n_nodes, NOBODY, np.int32)
    rows = np.flatnonzero(support)[::-1].astype(np.int32)
    lowest[train.node[rows]] = rows  # the last assignment stays: the lowest row
    return lowest


def _nobody(onto: Space) -> Nearest:
    """No answer yet for any node."""
    return np.full(onto.n_nodes, NOBODY, np.int32), np.full(onto.n_nodes, np.inf, np.float32)


def _search(
    train: Space,
    onto: Space,
    lowest: Sequence[np.ndarray],
    asked: Sequence[np.ndarray],
    found: Sequence[Nearest],
    progress: Progress = silent,
) -> None:
    """Find the nearest of each source's nodes directly, and write its lowest row where it was asked for."""
    some = [at for at, each in enumerate(asked) if len(each) and (lowest[at] >= 0).any()]
    if not some:
        return
    nodes = np.unique(np.concatenate([asked[at] for at in some]))
    candidates = [
        np.argsort(lowest[at])[(lowest[at] < 0).sum() :] for at in some
    ]  # lowest row first
    places, far = nearest_of_each(
        onto.points[nodes], train.points, candidates, metric=train.metric, progress=progress
    )
    for number, at in enumerate(some):
        inside = np.searchsorted(nodes, asked[at])
        found[at][0][asked[at]] = lowest[at][candidates[number][places[number, inside]]]
        found[at][1][asked[at]] = far[number, inside]


@compiled
def _walk(near: Any, far: Any, lowest: Any, lender: Any, distance: Any) -> Any:
    """Write the first listed node that votes, of equals the lowest row.

    Returns a mask of those without any, and of those whose list ends so near behind it that it may leave
    out one as near.
    """
    count, width = near.shape
    unsettled = np.ones(count, np.bool_)
    for node in range(count):
        for place in range(width):
            row = lowest[near[node, place]]
            if row >= 0:
                for other in range(place + 1, width):
                    if far[node, other] > far[node, place]:
                        break
                    if 0 <= lowest[near[node, other]] < row:
                        row = lowest[near[node, other]]
                lender[node], distance[node] = row, far[node, place]
                unsettled[node] = far[node, place] >= far[node, width - 1] * np.float32(1 - 1e-5)
                break
    return unsettled
