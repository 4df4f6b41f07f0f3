"""The inner loops of `cells` and `celled` in numba; `numpy_cells` says what each one does."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiling import U, compiled
from .vectors16 import LANES, SIDE, dot_block

__all__ = ["longest_sum", "meet_cells", "raise_peaks"]

SPAN = 2048  # queries at a time: with more their own vectors leave the cache
TOP = 255


def longest_sum(dimension: int) -> int:
    """Sixteen running sums, four additions to join them, and what is left over."""
    return dimension // LANES + 4 + dimension % LANES


@compiled
def raise_peaks(tile: Any, cell: Any, low: Any, per_step: Any, table: Any) -> None:
    """Rows of one cell that follow each other are compared first, and coded once."""
    width = tile.shape[1]
    best = np.empty(width, np.float32)
    at = 0
    while at < len(tile):
        mine = cell[at]
        for c in range(width):
            best[U(c)] = tile[U(at), U(c)]
        at += 1
        while at < len(tile) and cell[at] == mine:
            for c in range(width):
                score = tile[U(at), U(c)]
                best[U(c)] = score if score > best[U(c)] else best[U(c)]
            at += 1
        for c in range(width):
            steps = (best[U(c)] - low) * per_step + np.float32(1.0)
            steps = steps if steps > np.float32(0.0) else np.float32(0.0)
            steps = steps if steps < np.float32(TOP) else np.float32(TOP)
            code = np.uint8(np.int32(steps))
            held = table[U(mine), U(c)]
            table[U(mine), U(c)] = code if code > held else held


@compiled
def meet_cells(asked: Any, offered: Any, peak: Any, limits: Any, rounds: Any, answers: Any) -> None:
    """So many queries at a time through all the rounds that a cell is fetched for many of them."""
    left, queries, least = asked
    right, nodes, names, live, first = offered
    low, per_step, margin, guard = limits
    best, second, winner = answers
    codes = np.empty((SPAN, len(live)), np.uint8)
    seen, cut = np.empty(SPAN, np.int16), np.empty(SPAN, np.int16)
    asking = np.empty(SPAN * len(live), np.int32)
    start = np.empty(len(live) + 1, np.int64)
    for begin in range(0, len(queries), SPAN):
        size = min(SPAN, len(queries) - begin)
        mine = slice(begin, begin + size)
        for r in range(size):
            row = U(queries[begin + r])
            for c in range(len(live)):
                codes[U(r), U(c)] = peak[row, U(live[U(c)])]
        seen[:] = TOP + 1
        for most in rounds:
            anybody = False
            for r in range(size):
                enough = max(least[begin + r], np.float64(best[begin + r]) - margin)
                steps = np.floor((enough - low) * per_step - guard) + 1
                needed = np.int16(min(max(steps, 0.0), np.float64(TOP)))
                cut[r] = _cut(codes[r], needed, seen[r], most)
                anybody |= cut[r] < seen[r]
            if not anybody:
                break
            _list_pairs(codes[:size], cut, seen, start, asking)
            seen[:size] = cut[:size]
            for c in range(len(live)):
                if start[c] < start[c + 1]:
                    _offer(
                        (left, queries[mine], asking[start[c] : start[c + 1]]),
                        (right, nodes, names[first[c] : first[c + 1]]),
                        (best[mine], second[mine], winner[mine]),
                    )


@compiled
def _cut(codes: Any, needed: Any, below: Any, most: Any) -> Any:
    """Where the next cells end: at the `most`-th highest code below, 0 for all; at least at `needed`."""
    if below <= needed:
        return below
    if most == 0:
        return needed
    best = np.empty(most, np.int16)
    best[:] = needed
    for c in range(len(codes)):
        code = np.int16(codes[U(c)])
        if code > best[most - 1] and code < below:
            at = most - 1
            while at > 0 and best[at - 1] < code:
                best[at] = best[at - 1]
                at -= 1
            best[at] = code
    return best[most - 1]


@compiled
def _list_pairs(codes: Any, cut: Any, seen: Any, start: Any, asking: Any) -> None:
    """Who asks for each cell, one cell after the other; cell c starts at start[c]."""
    count = np.zeros(codes.shape[1], np.int32)
    for r in range(len(codes)):
        low, high = cut[r], seen[r]
        if low < high:
            for c in range(codes.shape[1]):
                code = np.int16(codes[U(r), U(c)])
                count[U(c)] += np.int32(1) if (code >= low) & (code < high) else np.int32(0)
    start[0] = 0
    for c in range(len(count)):
        start[c + 1] = start[c] + count[c]
    place = start[:-1].copy()
    for r in range(len(codes)):
        low, high = cut[r], seen[r]
        if low < high:
            for c in range(codes.shape[1]):
                code = np.int16(codes[U(r), U(c)])
                if (code >= low) & (code < high):
                    asking[place[U(c)]] = r
                    place[U(c)] += 1


@compiled
def _offer(asked: Any, offered: Any, answers: Any) -> None:
    """All the queries that ask against all the candidates of a cell, four by four."""
    left, queries, asking = asked
    right, nodes, names = offered
    best, second, winner = answers
    whole = left.shape[1] - left.shape[1] % LANES
    x, z = np.empty(SIDE, np.int64), np.empty(len(names) + SIDE, np.int64)
    scores = np.zeros(SIDE * SIDE, np.float32)
    for j in range(len(z)):  # the last one stands in for those that are missing
        row = nodes[U(names[U(min(j, len(names) - 1))])]
        z[U(j)] = right.ctypes.data + row * right.strides[0]
    for a in range(0, len(asking), SIDE):
        for i in range(SIDE):
            row = queries[U(asking[U(min(a + i, len(asking) - 1))])]
            x[U(i)] = left.ctypes.data + row * left.strides[0]
        for b in range(0, len(names), SIDE):
            if whole:
                dot_block(x.ctypes.data, z.ctypes.data + 8 * b, scores.ctypes.data, whole // LANES)
            for i in range(min(SIDE, len(asking) - a)):
                q = U(asking[U(a + i)])
                for j in range(min(SIDE, len(names) - b)):
                    score = scores[U(SIDE * i + j)]
                    for d in range(whole, left.shape[1]):
                        score += left[queries[q], d] * right[nodes[names[b + j]], d]
                    if score > second[q]:
                        if score > best[q]:
                            second[q], best[q] = best[q], score
                            winner[q] = names[b + j]
                        else:
                            second[q] = score
