"""Groups of labelled rows that are left out together, so that rows held out are as hard as those to come.

Held-out rows say how far the model may be trusted. If labelled rows lie nearer to each other than
unlabelled rows lie to them (dev taken from one corner of the data, or twins on both sides), what
remembers labelled rows looks better than it is. So labelled rows are grouped, just enough that a row
held out with its group is as far from the rest as a typical train row is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiling import compiled

FEWEST = 10
SAMPLE = 3000
SLACK = 0.02


def match_groups(likeness: np.ndarray, twins: np.ndarray, typical: float) -> np.ndarray:
    """A group number per labelled row, from their likeness to each other.

    `twins` numbers the distinct vectors (rows with equal vectors have equal numbers), and `typical` is
    how like its likest labelled row a typical train row is. Where labelled rows are no more alike than
    that, each is its own group: twins among them then have as many twins among the rows to come. Else
    twins stay together, and distinct vectors are grouped.
    """
    count = len(likeness)
    alone = np.arange(count)
    if count < FEWEST:
        return alone
    some = spaced(count, SAMPLE)
    near = likeness[np.ix_(some, some)] if len(some) < count else likeness
    if _hardness(near, np.arange(len(near)), np.ones(len(near), int)) <= typical + SLACK:
        return alone
    _, first, number, times = np.unique(
        twins, return_index=True, return_inverse=True, return_counts=True
    )
    by_place = np.argsort(first)  # distinct vectors in the order in which they first occur
    first, times, number = first[by_place], times[by_place], np.argsort(by_place)[number]
    chosen = spaced(len(first), SAMPLE)
    some = first[chosen]
    groups = _cut(likeness[np.ix_(some, some)], times[chosen], typical + SLACK)
    if len(some) < len(first):
        groups = groups[likeness[np.ix_(first, some)].argmax(axis=1)]
    return np.asarray(groups[number])


def spaced(count: int, most: int) -> np.ndarray:
    """At most so many numbers below `count`, evenly apart."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def _hardness(near: np.ndarray, groups: np.ndarray, times: np.ndarray) -> float:
    """How similar the most similar row of another group is, for the median row."""
    likest = np.empty(len(near))
    _likest_of_others(near, groups, likest)
    return float(np.median(np.repeat(likest, times)))


@compiled
def _likest_of_others(near: Any, groups: Any, likest: Any) -> None:
    for row in range(near.shape[0]):
        best, own = -np.inf, groups[row]
        for other in range(near.shape[1]):
            like = near[row, other] if groups[other] != own else -np.inf
            best = max(best, like)
        likest[row] = best


def _cut(near: np.ndarray, times: np.ndarray, enough: float) -> np.ndarray:
    """Average linkage, cut into the largest number of groups that is hard enough."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(near) < 2:
        return np.zeros(len(near), dtype=np.intp)
    above = np.triu_indices(len(near), 1)
    tree = linkage(np.clip(1 - near[above], 0.0, 2.0), "average")
    low, high = min(FEWEST, len(near)), len(near)
    while low < high:
        count = (low + high + 1) // 2
        if _hardness(near, fcluster(tree, count, "maxclust"), times) <= enough:
            low = count
        else:
            high = count - 1
    return np.asarray(fcluster(tree, low, "maxclust"))
