"""The inner loops in numba: compiled once, kept on disk, run without the interpreter lock.

Traps met and avoided: a signed index costs a wrap-around test that stops vectorisation, so indices
are unsigned; a builtin `max` and int64 counters do not vectorise, conditional expressions on
float32 and int32 do; a counted pre-filter over `CHUNK` entries keeps the branches off the common
path (0.07 ns per entry); score and node travel as one 64-bit key, so that a push is one store.
`numpy_kernels` has the same functions under the same names, which say what each one does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiling import U, compiled
from .metrics import LANES
from .numba_cells import longest_sum, meet_cells, raise_peaks
from .vectors16 import LANES as SIDE
from .vectors16 import turn_block

__all__ = [
    "best_two",
    "drain",
    "forget",
    "lend",
    "longest_sum",
    "meet_cells",
    "pair_dots",
    "pair_squares",
    "push_columns",
    "push_rows",
    "raise_peaks",
    "rank_rows",
    "scan",
    "turn",
]

CHUNK = 64
SIGN = np.uint32(0x80000000)


@compiled
def _fold(sums: Any) -> float:
    width = LANES // 2
    while width > 0:
        for lane in range(width):
            sums[U(lane)] += sums[U(lane + width)]
        width //= 2
    return sums[0]  # type: ignore[no-any-return]


@compiled
def pair_dots(x: Any, z: Any, rows: Any, others: Any) -> Any:
    """Σ x z; four pairs at a time keep four streams from memory under way (1.7 times as fast)."""
    count, dimension = len(rows), x.shape[1]
    whole = dimension - dimension % LANES
    out, sums = np.empty(count), np.empty((4, LANES))
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    for p0 in range(0, count, 4):
        p1, p2, p3 = min(p0 + 1, count - 1), min(p0 + 2, count - 1), min(p0 + 3, count - 1)
        x0, x1, x2, x3 = x[rows[p0]], x[rows[p1]], x[rows[p2]], x[rows[p3]]
        z0, z1, z2, z3 = z[others[p0]], z[others[p1]], z[others[p2]], z[others[p3]]
        sums[:] = 0.0
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                at, to = U(start) + U(lane), U(lane)
                s0[to] += np.float64(x0[at]) * np.float64(z0[at])
                s1[to] += np.float64(x1[at]) * np.float64(z1[at])
                s2[to] += np.float64(x2[at]) * np.float64(z2[at])
                s3[to] += np.float64(x3[at]) * np.float64(z3[at])
        for lane in range(dimension - whole):
            at, to = U(whole) + U(lane), U(lane)
            s0[to] += np.float64(x0[at]) * np.float64(z0[at])
            s1[to] += np.float64(x1[at]) * np.float64(z1[at])
            s2[to] += np.float64(x2[at]) * np.float64(z2[at])
            s3[to] += np.float64(x3[at]) * np.float64(z3[at])
        out[p0], out[p1], out[p2], out[p3] = _fold(s0), _fold(s1), _fold(s2), _fold(s3)
    return out


@compiled
def pair_squares(x: Any, z: Any, rows: Any, others: Any) -> Any:
    """Σ (x − z)² per pair."""
    dimension = x.shape[1]
    whole = dimension - dimension % LANES
    out, sums = np.empty(len(rows)), np.empty(LANES)
    for p in range(len(rows)):
        mine, theirs = x[rows[p]], z[others[p]]
        sums[:] = 0.0
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                at = U(start) + U(lane)
                gap = np.float64(mine[at]) - np.float64(theirs[at])
                sums[U(lane)] += gap * gap
        for lane in range(dimension - whole):
            gap = np.float64(mine[U(whole) + U(lane)]) - np.float64(theirs[U(whole) + U(lane)])
            sums[U(lane)] += gap * gap
        out[p] = _fold(sums)
    return out


@compiled
def best_two(tile: Any, chosen: Any, names: Any, best: Any, second: Any, winner: Any) -> None:
    """The best and the second best score per tile column."""
    for at in range(len(chosen)):
        scores = tile[chosen[at]]
        name = names[at]
        for q in range(len(best)):
            score, top, next_best = scores[q], best[q], second[q]
            higher = score > top
            second[q] = top if higher else (score if score > next_best else next_best)
            winner[q] = name if higher else winner[q]
            best[q] = score if higher else top


@compiled
def turn(tile: Any, turned: Any) -> None:
    """The transpose, sixteen by sixteen in registers."""
    height, width = tile.shape
    skip, step = tile.strides[0], turned.strides[0]
    tall, wide = height - height % SIDE, width - width % SIDE
    for top in range(0, tall, SIDE):
        for start in range(0, wide, SIDE):
            source = tile.ctypes.data + top * skip + start * 4
            turn_block(source, skip, turned.ctypes.data + start * step + top * 4, step)
    for row in range(height):
        for column in range(wide if row < tall else 0, width):
            turned[U(column), U(row)] = tile[U(row), U(column)]


@compiled
def _order(bits: Any) -> Any:
    """Bits of a float32 as an unsigned number of the same order."""
    return U(bits ^ (np.uint32(0xFFFFFFFF) if bits & SIGN else SIGN))


@compiled
def _bits(order: Any) -> Any:
    """The inverse of `_order`."""
    return np.uint32(order ^ (SIGN if order & SIGN else np.uint32(0xFFFFFFFF)))


@compiled
def _select(keys: Any, count: Any, keep: Any) -> None:
    """Bring the `keep` largest keys to the front (Hoare's quickselect)."""
    low, high, last = np.int64(0), np.int64(count) - 1, np.int64(keep) - 1
    while low < high:
        pivot = keys[U((low + high) >> 1)]
        i, j = low, high
        while i <= j:
            while keys[U(i)] > pivot:
                i += 1
            while keys[U(j)] < pivot:
                j -= 1
            if i <= j:
                held = keys[U(i)]
                keys[U(i)] = keys[U(j)]
                keys[U(j)] = held
                i += 1
                j -= 1
        if last <= j:
            high = j
        elif last >= i:
            low = i
        else:
            return


@compiled
def _push(lists: Any, row: Any, key: Any, keep: Any) -> None:
    """Append to a row's list; when it is full keep the best and raise the floor to the worst kept."""
    keys, count, _, floor_bits = lists
    at = U(count[row])
    keys[row, at] = key
    at += U(1)
    if at >= U(2) * keep or at >= U(keys.shape[1]):
        mine = keys[row]
        _select(mine, at, keep)
        least = mine[0]
        for kept in range(1, keep):
            least = mine[U(kept)] if mine[U(kept)] < least else least
        floor_bits[row] = _bits(np.uint32(least >> U(32)))
        at = keep
    count[row] = at


@compiled
def push_rows(tile: Any, bits: Any, start: int, lists: Any, keep: int) -> None:
    """Tile entries above their row's floor go to its list."""
    floor, most = lists[2], U(keep)
    width = tile.shape[1]
    position = np.empty(CHUNK + 1, np.uint32)
    for r in range(len(tile)):
        row = U(r)
        for c in range(0, width, CHUNK):
            column, least = U(c), floor[row]
            above = np.int32(0)
            size = min(CHUNK, width - c)
            if size == CHUNK:  # a constant trip count vectorises, a variable one does not
                for at in range(CHUNK):
                    above += np.int32(1) if tile[row, column + U(at)] > least else np.int32(0)
                if above == 0:
                    continue
            found = U(0)
            for at in range(size):
                position[found] = at
                found += U(1) if tile[row, column + U(at)] > least else U(0)
            for hit in range(found):
                spot = column + U(position[U(hit)])
                if tile[row, spot] > floor[row]:  # the floor may have risen within the chunk
                    key = (_order(bits[row, spot]) << U(32)) | (U(start) + spot)
                    _push(lists, row, key, most)


@compiled
def push_columns(tile: Any, bits: Any, start: int, lists: Any, keep: int) -> None:
    """Tile entries above their column's floor go to its list."""
    floor, most = lists[2], U(keep)
    width = tile.shape[1]
    position = np.empty(CHUNK + 1, np.uint32)
    for r in range(len(tile)):
        row = U(r)
        for c in range(0, width, CHUNK):
            column = U(c)
            above = np.int32(0)
            size = min(CHUNK, width - c)
            if size == CHUNK:
                for at in range(CHUNK):
                    least = floor[column + U(at)]
                    above += np.int32(1) if tile[row, column + U(at)] > least else np.int32(0)
                if above == 0:
                    continue
            found = U(0)
            for at in range(size):
                position[found] = at
                higher = tile[row, column + U(at)] > floor[column + U(at)]
                found += U(1) if higher else U(0)
            for hit in range(found):
                spot = column + U(position[U(hit)])
                _push(lists, spot, (_order(bits[row, spot]) << U(32)) | (U(start) + row), most)


@compiled
def drain(lists: Any, keep: int, names: Any, floors: Any) -> None:
    """The best names of each list."""
    keys, count, floor, _ = lists
    bits = np.empty(1, np.uint32)
    score = bits.view(np.float32)
    names[:] = -1
    for row in range(len(keys)):
        held = min(count[row], keep + 1)
        floors[row] = floor[row]
        _select(keys[row], count[row], held)
        best_last = np.sort(keys[row, :held])
        if held > keep:  # the best that is left out
            bits[0] = _bits(np.uint32(best_last[0] >> U(32)))
            floors[row] = score[0]
        for at in range(min(held, keep)):
            names[row, at] = np.int32(best_last[held - 1 - at] & U(0xFFFFFFFF))


@compiled
def rank_rows(names: Any, distances: Any) -> None:
    """Insertion sort: the rows come nearly sorted."""
    for row in range(len(names)):
        for at in range(1, names.shape[1]):
            name, distance = names[row, at], distances[row, at]
            place = at
            while place > 0 and (
                distances[row, place - 1] > distance
                or (distances[row, place - 1] == distance and names[row, place - 1] > name)
            ):
                names[row, place] = names[row, place - 1]
                distances[row, place] = distances[row, place - 1]
                place -= 1
            names[row, place] = name
            distances[row, place] = distance


@compiled
def scan(graph: Any, asked: Any, speaker: Any, radius: float, row: Any, distance: Any) -> Any:
    """The first neighbour that speaks, rung by rung."""
    neighbour, distances, rungs, steps = graph
    unsettled = np.zeros(len(asked), np.bool_)
    for at in range(len(asked)):
        query = U(asked[at])
        hit, p = -1, 0
        for rung in range(len(steps)):
            while p < steps[rung]:
                if speaker[U(neighbour[query, U(p)])] >= 0:
                    hit = p
                    break
                p += 1
            if hit >= 0 or rungs[query, U(rung)] > radius:
                break
        near, lowest = np.inf, -1
        if hit >= 0:
            near = distances[query, U(hit)]
            lowest = speaker[U(neighbour[query, U(hit)])]
            p = hit + 1
            while p < neighbour.shape[1] and distances[query, U(p)] == near:
                other = speaker[U(neighbour[query, U(p)])]
                if other >= 0 and other < lowest:
                    lowest = other
                p += 1
            if near >= rungs[query, U(len(steps) - 1)]:
                unsettled[at] = near <= radius
                near, lowest = np.inf, -1
        else:
            unsettled[at] = rungs[query, U(rung)] <= radius
        if not unsettled[at]:
            row[query], distance[query] = lowest, near
    return unsettled


@compiled
def forget(gone: Any, node: Any, limit: float, row: Any, distance: Any) -> Any:
    """Take back answers through nodes that are gone, and all beyond the limit."""
    lost = np.zeros(len(row), np.bool_)
    for at in range(len(row)):
        if row[at] >= 0:
            lost[at] = gone[U(node[U(row[at])])]
        if lost[at] or distance[at] > limit:
            row[at], distance[at] = -1, np.inf
    return lost


@compiled
def lend(
    graph: Any, givers: Any, speaker: Any, radius: float, listeners: Any, answers: Any
) -> None:
    """Givers offer themselves to the open listeners in their lists."""
    neighbour, distances, _, _ = graph
    row, distance = answers
    for at in range(len(givers)):
        giver = U(givers[at])
        voice = speaker[giver]
        for p in range(neighbour.shape[1]):
            far = distances[giver, U(p)]
            if far > radius:
                break
            listener = U(neighbour[giver, U(p)])
            if not listeners[listener]:
                continue
            if far < distance[listener] or (far == distance[listener] and voice < row[listener]):
                distance[listener] = far
                row[listener] = voice
