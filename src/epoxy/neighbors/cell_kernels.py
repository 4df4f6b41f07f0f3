"""The inner loops of `cells` and `search_cells`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiling import U, compiled, reordered

SPAN = 2048  # queries at a time: with more their own vectors leave the cache
SIDE = 4  # vectors on each side of a block of inner products
TOP = 255


@compiled
def raise_peaks(tile: Any, cell: Any, low: Any, per_step: Any, table: Any) -> None:
    """Raise each column's code of each cell to that of the best tile row of the cell.

    `cell` (n_rows,) says whose each tile row is; a score s has the code 1 + (s − low)·per_step,
    rounded down, between 0 and 255; `table` (n_cells, at least n_columns) uint8. Rows of one cell
    that follow each other are compared first, and coded once.
    """
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
    """Offer each query the candidates of the cells that may hold one as near as it needs.

    `asked` is (left, queries, least): the queries are rows of `left`, and a score below `least` is
    of no use. `offered` is (right, nodes, names, live, first): candidate `names[p]` is the row
    `nodes[names[p]]` of `right`, those of cell `live[c]` start at `first[c]`. `peak` (rows of left,
    n_cells) holds codes as `raise_peaks` writes them, `limits` is (low, per_step, margin, guard):
    what is `margin` below the best is of no use either, and codes may be off by `guard` steps. Each
    of the `rounds` takes so many cells more, the nearest first, 0 all. Writes the best two scores
    and who has the best to `answers`. `SPAN` queries go through all the rounds together, so that a
    cell is fetched for many of them.
    """
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
    x, z = np.empty(SIDE, np.int64), np.empty(len(names) + SIDE, np.int64)
    scores = np.empty((SIDE, SIDE), np.float32)
    for j in range(len(z)):  # the last one stands in for those that are missing
        z[U(j)] = nodes[U(names[U(min(j, len(names) - 1))])]
    for a in range(0, len(asking), SIDE):
        for i in range(SIDE):
            x[U(i)] = queries[U(asking[U(min(a + i, len(asking) - 1))])]
        for b in range(0, len(names), SIDE):
            _dot_block(left, right, x, z[b : b + SIDE], scores)
            for i in range(min(SIDE, len(asking) - a)):
                q = U(asking[U(a + i)])
                for j in range(min(SIDE, len(names) - b)):
                    score = scores[U(i), U(j)]
                    if score > second[q]:
                        if score > best[q]:
                            second[q], best[q] = best[q], score
                            winner[q] = names[b + j]
                        else:
                            second[q] = score


@reordered
def _dot_block(left: Any, right: Any, x: Any, z: Any, scores: Any) -> None:
    """The inner products of four rows of `left` with four of `right`, summed in any order.

    Sixteen sums stay in registers while eight rows stream by; pair by pair takes three times as long.
    """
    x0, x1, x2, x3 = left[x[0]], left[x[1]], left[x[2]], left[x[3]]
    z0, z1, z2, z3 = right[z[0]], right[z[1]], right[z[2]], right[z[3]]
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = np.float32(0.0)
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = np.float32(0.0)
    for d in range(left.shape[1]):
        at = U(d)
        a, b, c, e = z0[at], z1[at], z2[at], z3[at]
        s00, s01, s02, s03 = s00 + x0[at] * a, s01 + x0[at] * b, s02 + x0[at] * c, s03 + x0[at] * e
        s10, s11, s12, s13 = s10 + x1[at] * a, s11 + x1[at] * b, s12 + x1[at] * c, s13 + x1[at] * e
        s20, s21, s22, s23 = s20 + x2[at] * a, s21 + x2[at] * b, s22 + x2[at] * c, s23 + x2[at] * e
        s30, s31, s32, s33 = s30 + x3[at] * a, s31 + x3[at] * b, s32 + x3[at] * c, s33 + x3[at] * e
    scores[0, 0], scores[0, 1], scores[0, 2], scores[0, 3] = s00, s01, s02, s03
    scores[1, 0], scores[1, 1], scores[1, 2], scores[1, 3] = s10, s11, s12, s13
    scores[2, 0], scores[2, 1], scores[2, 2], scores[2, 3] = s20, s21, s22, s23
    scores[3, 0], scores[3, 1], scores[3, 2], scores[3, 3] = s30, s31, s32, s33
