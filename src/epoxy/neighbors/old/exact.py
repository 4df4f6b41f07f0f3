"""Exact search without a graph: the nearest supporting row of every source, and all rows in a ball.

The first works on nodes (distinct vectors) and expands to rows at the end. The matrix multiplication
proposes in float32; whatever its error bound cannot exclude is measured in float64, so the answers
follow the definition in `metrics` bit for bit, ties included: the lowest train row wins.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import AlignmentError, RadiusError
from ...progress import Progress, silent
from .search import NONE, Found, Query, search, search_both
from .space import Space

BUDGET = 64 << 20


def nearest(
    train: Space,
    support: Any,
    onto: Space | None = None,
    *,
    wanted: Any = None,
    progress: Progress = silent,
) -> Found:
    """Find each row's nearest supporting train row, for every source.

    Parameters
    ----------
    train
        The space the supporting rows live in.
    support
        (n_train, n_sources) bool: the rows each source votes on.
    onto
        The space of the rows that ask; None means `train` itself, where a supporting row finds
        itself (or an equal row before it) at distance 0.
    wanted
        (n_onto, n_sources) bool: the pairs that need an answer; the others are left at −1 and inf.

    Examples
    --------
    >>> space = Space([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> found = nearest(space, [[True], [False], [True]])
    >>> found.row.ravel().tolist(), found.distance.ravel().round(3).tolist()
    ([0, 0, 2], [0.0, 0.005, 0.0])
    """
    asking = train if onto is None else onto
    train.check_same_dimension(asking)
    question = _Question.of(train, support, asking, wanted)
    return question.answered(search(train, asking, question.queries, progress))


def nearest_both(
    one: Space, support_one: Any, two: Space, support_two: Any, *, wanted: tuple[Any, Any]
) -> tuple[Found, Found]:
    """Each row's nearest supporting row of the other space, for the rows of one and of two.

    `support_one` and `support_two` are as `nearest` takes them, `wanted` those of one and of two. It
    gives what two searches would, and multiplies two supporting rows once.

    Examples
    --------
    >>> one, two = Space([[1.0, 0.0], [0.0, 1.0]]), Space([[1.0, 0.1]])
    >>> every = [[True], [True]], [[True]]
    >>> here, there = nearest_both(one, every[0], two, every[1], wanted=every)
    >>> here.row.ravel().tolist(), there.row.ravel().tolist()
    ([0, 0], [0])
    """
    one.check_same_dimension(two)
    there = _Question.of(one, support_one, two, wanted[1])
    here = _Question.of(two, support_two, one, wanted[0])
    found_there, found_here = search_both(one, two, there.queries, here.queries)
    return here.answered(found_here), there.answered(found_there)


@dataclass(frozen=True, eq=False)
class _Question:
    """What the rows of a space ask, as a question of its nodes for every source."""

    asking: Space
    asked: np.ndarray | None  # (n_asking, n_sources) bool
    queries: list[Query]

    @classmethod
    def of(cls, train: Space, support: Any, asking: Space, wanted: Any) -> _Question:
        mask = _checked_mask(support, len(train), "support", "train row")
        asked = (
            None if wanted is None else _checked_mask(wanted, len(asking), "wanted", "asking row")
        )
        if asked is not None and asked.shape[1] != mask.shape[1]:
            raise AlignmentError(
                f"wanted has {asked.shape[1]} columns and support {mask.shape[1]}; "
                "give both one column per source"
            )
        queries = [
            Query.of(train, column, _asking_nodes(asking, asked, number))
            for number, column in enumerate(mask.T)
        ]
        return cls(asking, asked, queries)

    def answered(self, answers: list[Found]) -> Found:
        """What was found for nodes, for every row that asks."""
        shape = len(self.asking), len(self.queries)
        row, distance = np.full(shape, NONE, dtype=np.int32), np.full(shape, np.inf)
        for number, found in enumerate(answers):
            answer = Found.nothing(self.asking.n_nodes)
            answer.row[self.queries[number].asking] = found.row
            answer.distance[self.queries[number].asking] = found.distance
            row[:, number] = answer.row[self.asking.node]
            distance[:, number] = answer.distance[self.asking.node]
        if self.asked is not None:  # equal rows share a search, but not the wish for an answer
            row[~self.asked], distance[~self.asked] = NONE, np.inf
        return Found(row, distance)


def _asking_nodes(asking: Space, asked: np.ndarray | None, source: int) -> np.ndarray:
    if asked is None:
        return np.arange(asking.n_nodes)
    nodes = np.zeros(asking.n_nodes, dtype=bool)
    nodes[asking.node[asked[:, source]]] = True
    return np.flatnonzero(nodes)


def within(
    train: Space,
    support_rows: Any,
    onto: Space | None = None,
    rows: Any = None,
    *,
    radius: float,
    budget: int = BUDGET,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Every pair (asking row, supporting row) no farther apart than `radius`, in chunks.

    Yields flat arrays (asking rows, train rows, float64 distances), sorted by asking row and then
    by train row. All pairs of one asking row come in the same chunk. `support_rows` is a mask or
    row numbers of `train`; `rows` the same of `onto` (None: all); `budget` bounds a block of
    scores, in bytes.
    """
    asking = train if onto is None else onto
    train.check_same_dimension(asking)
    backing = _row_numbers(support_rows, len(train))
    asked = _row_numbers(slice(None) if rows is None else rows, len(asking))
    return _balls(train, backing, asking, asked, checked_radius(radius), budget)


def checked_radius(radius: float) -> float:
    """A radius as a number of at least 0."""
    if not radius >= 0:
        raise RadiusError(f"a radius is a distance of at least 0, got {radius!r}; give 0 or more")
    return float(radius)


@functools.cache
def warm() -> None:
    """Run the direct search once on a handful of rows.

    The first call in a process reads compiled code from disk, or compiles it where there is none
    yet (some seconds, once per machine). What graphs need is loaded when one is built.
    """
    space = Space(np.random.default_rng(0).normal(size=(8, 4)))
    nearest(space, (np.arange(len(space)) < 3)[:, None])


def _balls(
    train: Space, backing: np.ndarray, asking: Space, asked: np.ndarray, radius: float, budget: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    if not len(backing):
        return
    candidates = train.right[train.node[backing]]
    # a float32 array compares as float32: round the bound down so that nothing is lost
    bound = train.metric.score_of(np.float64(radius)) - train.slack(asking)
    bound = np.nextafter(np.float32(bound), np.float32(-np.inf))
    block = max(1, budget // (16 * len(backing)))
    for start in range(0, len(asked), block):
        part = asked[start : start + block]
        which, candidate = np.nonzero(asking.left[asking.node[part]] @ candidates.T >= bound)
        exact = asking.distances(part[which], train, backing[candidate])
        near = exact <= radius
        if near.any():
            yield part[which[near]], backing[candidate[near]], exact[near]


def _row_numbers(rows: Any, count: int) -> np.ndarray:
    """A mask, a slice or row numbers as ascending row numbers without repeats."""
    if isinstance(rows, slice):
        return np.arange(count)[rows]
    given = np.asarray(rows)
    if given.dtype == bool and given.shape != (count,):
        raise AlignmentError(
            f"a mask of rows has shape {given.shape} for {count} rows; give one entry per row"
        )
    if given.dtype == bool:
        return np.flatnonzero(given)
    numbers = np.unique(given).astype(np.int64)
    if len(numbers) and (numbers[0] < 0 or numbers[-1] >= count):
        raise AlignmentError(
            f"row numbers run from {numbers[0]} to {numbers[-1]} for {count} rows; "
            f"give numbers from 0 to {count - 1}"
        )
    return numbers


def _checked_mask(mask: Any, count: int, name: str, per: str) -> np.ndarray:
    given = np.asarray(mask)
    if given.dtype != bool or given.ndim != 2 or len(given) != count:
        raise AlignmentError(
            f"{name} is True or False per {per} and source, got shape {given.shape} and dtype "
            f"{given.dtype} for {count} rows; give a boolean array with one row per {per}"
        )
    return given
