"""Folds of the dev rows that are as hard as the rows to come.

Held-out dev rows measure how loud each expert may be. If dev rows lie nearer to each other than unlabelled
rows lie to them (dev taken from one corner of the data, or twins on both sides), experts that
remember dev rows look better than they are. So dev rows are first grouped, just enough that a held-out
row is as far from the rest of dev as a typical train row is; groups are never split.
"""

from __future__ import annotations

import numpy as np

__all__ = ["assign", "match_groups"]

FOLDS = 5
LARGEST = 3000
SLACK = 0.02


def assign(
    groups: np.ndarray, y: np.ndarray, order: np.ndarray, n_folds: int = FOLDS
) -> np.ndarray:
    """A fold per row: groups stay whole, classes are spread, and row order plays no part.

    Parameters
    ----------
    groups
        A group number per row.
    y
        The class of each row.
    order
        A number per row drawn from its content, the only source of chance.
    """
    names, inverse = np.unique(groups, return_inverse=True)
    size = np.bincount(inverse)
    key = np.full(len(names), np.inf)
    np.minimum.at(key, inverse, order)
    leader = np.zeros(len(names), dtype=np.intp)
    by_order = np.argsort(-order, kind="stable")
    leader[inverse[by_order]] = y[by_order]  # class of the group's first row
    fold = np.empty(len(names), dtype=np.intp)
    load = np.zeros(n_folds)
    for label in np.unique(leader):
        members = np.flatnonzero(leader == label)
        for group in members[np.lexsort((key[members], -size[members]))]:
            fold[group] = int(load.argmin())
            load[fold[group]] += size[group]
    return np.asarray(fold[inverse])


def match_groups(dev: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Group dev rows until held-out rows are as far from dev as train rows are.

    `dev` and `train` are vectors or features. Where dev rows are as far apart as train rows are from them,
    each row is its own group: twins within dev then have as many twins among the rows to come.
    """
    alone = np.arange(len(dev))
    if len(dev) < 2 * FOLDS:
        return alone
    dev = _unit(dev)
    some = dev[_spaced(len(dev), LARGEST)]
    near = some @ some.T
    np.fill_diagonal(near, -np.inf)
    typical = float(np.median((_unit(train[_spaced(len(train), LARGEST)]) @ some.T).max(axis=1)))
    if _hardness(near, np.arange(len(some))) <= typical + SLACK:
        return alone
    groups = _cut(near, typical + SLACK)
    if len(some) == len(dev):
        return groups
    return np.concatenate(
        [groups[(part @ some.T).argmax(axis=1)] for part in np.array_split(dev, 16)]
    )


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.asarray(vectors / np.maximum(length, np.float32(1e-12)))


def _spaced(count: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def _hardness(near: np.ndarray, groups: np.ndarray) -> float:
    """How similar the most similar row of another group is, for the median row."""
    return float(np.median(np.where(groups[:, None] == groups, -np.inf, near).max(axis=1)))


def _cut(near: np.ndarray, enough: float) -> np.ndarray:
    """Average linkage, cut into the largest number of groups that is hard enough."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    apart = np.clip(1 - near, 0.0, 2.0)
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform((apart + apart.T) / 2, checks=False), "average")
    low, high = 2 * FOLDS, len(near)
    while low < high:
        count = (low + high + 1) // 2
        if _hardness(near, fcluster(tree, count, "maxclust")) <= enough:
            low = count
        else:
            high = count - 1
    return np.asarray(fcluster(tree, low, "maxclust"))
