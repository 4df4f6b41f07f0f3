"""The inner loops of `cells` and `celled` in numpy: the fallback for `numba_cells`, and its oracle."""

from __future__ import annotations

import numpy as np

__all__ = ["longest_sum", "meet_cells", "raise_peaks"]

TOP = 255
Three = tuple[np.ndarray, np.ndarray, np.ndarray]


def longest_sum(dimension: int) -> int:
    """How many products `meet_cells` may add one after the other; a library may add all."""
    return dimension


def raise_peaks(
    tile: np.ndarray,
    cell: np.ndarray,
    low: np.float32,
    per_step: np.float32,
    table: np.ndarray,
) -> None:
    """Raise each column's code of each cell to that of the best tile row of the cell.

    `cell` (n_rows,) says whose each tile row is; a score s has the code 1 + (s − low)·per_step,
    rounded down, between 0 and 255; `table` (n_cells, at least n_columns) uint8.
    """
    order = np.argsort(cell, kind="stable")
    present, first = np.unique(cell[order], return_index=True)
    best = np.maximum.reduceat(tile[order], first, axis=0)
    with np.errstate(over="ignore"):  # another split may lie anywhere; what overflows is clipped
        steps = (best - low) * per_step + np.float32(1.0)
    codes = np.clip(steps, np.float32(0.0), np.float32(TOP)).astype(np.uint8)
    mine = present, slice(0, tile.shape[1])
    table[mine] = np.maximum(table[mine], codes)


def meet_cells(
    asked: Three,
    offered: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    peak: np.ndarray,
    limits: tuple[float, float, float, float],
    rounds: tuple[int, ...],
    answers: Three,
) -> None:
    """Offer each query the candidates of the cells that may hold one as near as it needs.

    `asked` is (left, queries, least): the queries are rows of `left`, and a score below `least` is
    of no use. `offered` is (right, nodes, names, live, first): candidate `names[p]` is the row
    `nodes[names[p]]` of `right`, those of cell `live[c]` start at `first[c]`. `peak` (rows of left,
    n_cells) holds codes as `raise_peaks` writes them, `limits` is (low, per_step, margin, guard):
    what is `margin` below the best is of no use either, and codes may be off by `guard` steps. Each
    of the `rounds` takes so many cells more, the nearest first, 0 all. Writes the best two scores
    and who has the best to `answers`.
    """
    left, queries, least = asked
    right, nodes, names, live, first = offered
    low, per_step, margin, guard = limits
    codes = peak[np.ix_(queries, live)].astype(np.int16)
    seen = np.full(len(queries), TOP + 1, dtype=np.int16)
    for most in rounds:
        enough = np.maximum(least, answers[0].astype(np.float64) - margin)
        steps = np.floor((enough - low) * per_step - guard) + 1
        cut = _cut(codes, np.clip(steps, 0, TOP).astype(np.int16), seen, most)
        if (cut == seen).all():
            return
        wanted = (codes >= cut[:, None]) & (codes < seen[:, None])
        seen = cut
        for c in np.flatnonzero(wanted.any(axis=0)).tolist():
            asking = np.flatnonzero(wanted[:, c])
            mine = names[first[c] : first[c + 1]]
            _offer(left[queries[asking]], right[nodes[mine]], mine, asking, answers)


def _cut(codes: np.ndarray, needed: np.ndarray, seen: np.ndarray, most: int) -> np.ndarray:
    """Where each query's next cells end: at its `most`-th highest code below `seen`, 0 for all."""
    cut: np.ndarray = np.minimum(needed, seen)
    if 0 < most <= codes.shape[1]:
        below = np.where(codes < seen[:, None], codes, np.int16(-1))
        last = np.partition(below, codes.shape[1] - most, axis=1)[:, codes.shape[1] - most]
        cut = np.minimum(np.maximum(last, needed), seen)
    return cut


def _offer(
    left: np.ndarray, right: np.ndarray, names: np.ndarray, asking: np.ndarray, answers: Three
) -> None:
    best, second, winner = answers
    scores = left @ right.T
    at = scores.argmax(axis=1)
    rows = np.arange(len(scores))
    top = scores[rows, at]
    scores[rows, at] = -np.inf
    next_best = scores.max(axis=1)
    old, higher = best[asking], top > best[asking]
    second[asking] = np.maximum(np.maximum(second[asking], next_best), np.where(higher, old, top))
    winner[asking[higher]] = names[at[higher]]
    best[asking] = np.maximum(old, top)
