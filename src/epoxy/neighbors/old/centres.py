"""Centres of cells, learned from a sample, and the cells nearest to each point."""

from __future__ import annotations

import numpy as np

from ..workers import Work
from .knn_lists import Lists

PASSES = 6
BLOCK = 4096


def learned_centres(points: np.ndarray, count: int) -> np.ndarray:
    """k-means from the first `count` points; a centre that nobody is nearest to stays."""
    centre = points[:count].copy()
    for _ in range(PASSES):
        mine = nearest_centre(points, centre)
        order = np.argsort(mine, kind="stable")
        present, first = np.unique(mine[order], return_index=True)
        size = np.diff([*first, len(order)])
        centre[present] = np.add.reduceat(points[order], first) / size[:, None]
    return centre


def nearest_centre(points: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """The number of each point's nearest centre, by |x − c|² = |x|² − 2(x·c − |c|²/2)."""
    cell = np.empty(len(points), dtype=np.int16 if len(centre) < 2**15 else np.int32)
    half, turned = halves(centre), np.ascontiguousarray(centre.T)

    def assign(block: slice) -> None:
        cell[block] = (points[block] @ turned - half).argmax(axis=1)

    Work([slice(at, at + BLOCK) for at in range(0, len(points), BLOCK)]).run(lambda: assign)
    return cell


def nearest_centres(points: np.ndarray, centre: np.ndarray, count: int) -> np.ndarray:
    """The numbers of each point's `count` nearest centres, nearest first; (n_points, count) int32."""
    scores = points @ centre.T
    scores -= halves(centre)
    lists = Lists.empty(len(points), count)
    lists.push(scores, slice(None), 0, lists.keep)
    return lists.drain(slice(None))[0][:, :count]


def halves(centre: np.ndarray) -> np.ndarray:
    """|c|²/2 of each centre, which a score against it is short of."""
    return np.asarray(np.square(centre, dtype=np.float64).sum(axis=1) / 2, dtype=np.float32)
