"""The inner loops in numpy: the fallback where numba cannot be imported, and the oracle for it.

Lists of candidates are a tuple (keys, count, floor, floor_bits): `keys` (n, capacity) uint64 hold a
score in the upper half, its bits made to sort as numbers, and a node in the lower; `count` (n,)
int64 says how many are filled; everything ever dropped or refused scored at most `floor` (n,)
float32, of which `floor_bits` is the same memory as uint32.
"""

from __future__ import annotations

import numpy as np

from .metrics import LANES
from .numpy_cells import longest_sum, meet_cells, raise_peaks

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

Lists = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
PAIRS_AT_ONCE = 1 << 14
ROWS_AT_ONCE = 1 << 12
SIGN = np.uint32(0x80000000)
ALL = np.uint32(0xFFFFFFFF)
HALF = np.uint64(32)


def _fold(sums: np.ndarray) -> np.ndarray:
    """Add the LANES running sums in halves, the order every kernel keeps."""
    width = LANES
    while width > 1:
        width //= 2
        sums = sums[:, :width] + sums[:, width:]
    return sums[:, 0]


def _dots(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Σ x z per row in float64; products of float32 are exact there, so only the order matters."""
    sums = np.zeros((len(x), LANES))
    for start in range(0, x.shape[1], LANES):
        part = x[:, start : start + LANES].astype(np.float64) * z[:, start : start + LANES]
        sums[:, : part.shape[1]] += part
    return _fold(sums)


def _squares(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Σ (x − z)² per row in float64."""
    sums = np.zeros((len(x), LANES))
    for start in range(0, x.shape[1], LANES):
        part = x[:, start : start + LANES].astype(np.float64) - z[:, start : start + LANES]
        sums[:, : part.shape[1]] += part * part
    return _fold(sums)


def pair_dots(x: np.ndarray, z: np.ndarray, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Σ x z over the coordinates of the pairs (x[rows[p]], z[others[p]])."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        out[part] = _dots(x[rows[part]], z[others[part]])
    return out


def pair_squares(x: np.ndarray, z: np.ndarray, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Σ (x − z)² over the coordinates of the pairs (x[rows[p]], z[others[p]])."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        out[part] = _squares(x[rows[part]], z[others[part]])
    return out


def best_two(
    tile: np.ndarray,
    chosen: np.ndarray,
    names: np.ndarray,
    best: np.ndarray,
    second: np.ndarray,
    winner: np.ndarray,
) -> None:
    """Keep, per column, the best score over the chosen tile rows, who has it, and the next best."""
    scores = tile[chosen]
    if not len(scores):
        return
    columns = np.arange(tile.shape[1])
    at = scores.argmax(axis=0)
    top = scores[at, columns]
    scores[at, columns] = -np.inf
    higher = top > best
    np.maximum(second, np.where(higher, best, top), out=second)
    np.maximum(second, scores.max(axis=0), out=second)
    winner[higher] = names[at[higher]]
    np.maximum(best, top, out=best)


def turn(tile: np.ndarray, turned: np.ndarray) -> None:
    """Write the transpose of a tile."""
    turned[:] = tile.T


def _order(bits: np.ndarray) -> np.ndarray:
    """Bits of float32 numbers as unsigned numbers of the same order."""
    return np.where(bits & SIGN, ~bits, bits | SIGN).astype(np.uint64)


def _scores(keys: np.ndarray) -> np.ndarray:
    order = (keys >> HALF).astype(np.uint32)
    return np.where(order & SIGN, order ^ SIGN, order ^ ALL).astype(np.uint32).view(np.float32)


def push_rows(tile: np.ndarray, bits: np.ndarray, start: int, lists: Lists, keep: int) -> None:
    """Offer every tile entry to its row's list; `start` is the name of the tile's first column.

    A full list keeps its best `keep` and raises the floor to the worst of them.
    """
    keys, count, floor, _ = lists
    for row in np.flatnonzero((tile > floor[:, None]).any(axis=1)).tolist():
        columns = np.flatnonzero(tile[row] > floor[row])
        fresh = (_order(bits[row, columns]) << HALF) | (columns + start).astype(np.uint64)
        held = np.concatenate([keys[row, : count[row]], fresh])
        if len(held) > min(2 * keep, keys.shape[1]) - 1:
            held = np.sort(held)[-keep:]
            floor[row] = max(floor[row], _scores(held[:1])[0])
        keys[row, : len(held)] = held
        count[row] = len(held)


def push_columns(tile: np.ndarray, bits: np.ndarray, start: int, lists: Lists, keep: int) -> None:
    """Offer every tile entry to its column's list; `start` is the name of the tile's first row."""
    push_rows(tile.T, bits.T, start, lists, keep)


def drain(lists: Lists, keep: int, names: np.ndarray, floors: np.ndarray) -> None:
    """Write each list's best `keep` names, best first, −1 after the last, into `names`.

    `floors` receives what every name left out scored at most.
    """
    keys, count, floor, _ = lists
    names[:] = -1
    floors[:] = floor
    for row, held in enumerate(count.tolist()):
        mine = np.sort(keys[row, :held])[::-1]
        if held > keep:
            floors[row] = _scores(mine[keep : keep + 1])[0]
        names[row, : min(held, keep)] = (mine[:keep] & np.uint64(ALL)).astype(np.int32)


def rank_rows(names: np.ndarray, distances: np.ndarray) -> None:
    """Sort each row by distance, equals by name, in place; fast where nearly sorted already."""
    order = np.lexsort((names, distances), axis=1)
    names[:] = np.take_along_axis(names, order, axis=1)
    distances[:] = np.take_along_axis(distances, order, axis=1)


def scan(
    graph: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    asked: np.ndarray,
    speaker: np.ndarray,
    radius: float,
    row: np.ndarray,
    distance: np.ndarray,
) -> np.ndarray:
    """Walk each asked node's neighbours to the first that speaks for the source.

    `graph` is (neighbour, distances, rungs, steps): from position `steps[l]` on, and beyond the
    list, everything is at least `rungs[:, l]` away. `speaker[v]` is the row through which node v
    speaks, or −1. Writes what is certain to the asked nodes' places in `row` and `distance` (−1 and
    inf for nobody) and returns a mask of those asked that the list cannot settle within `radius`.
    """
    unsettled = np.zeros(len(asked), dtype=bool)
    for start in range(0, len(asked), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        lowest, near, unsettled[part] = _scan_block(graph, asked[part], speaker, radius)
        settled = ~unsettled[part]
        row[asked[part][settled]], distance[asked[part][settled]] = lowest[settled], near[settled]
    return unsettled


def forget(
    gone: np.ndarray, node: np.ndarray, limit: float, row: np.ndarray, distance: np.ndarray
) -> np.ndarray:
    """Take back answers through nodes that are gone, and all beyond the limit; a mask of the former."""
    lost: np.ndarray = gone[node[row]] & (row >= 0)
    stale = lost | (distance > limit)
    row[stale], distance[stale] = -1, np.inf
    return lost


def _scan_block(
    graph: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    asked: np.ndarray,
    speaker: np.ndarray,
    radius: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    neighbour, distances, rungs, _ = graph
    far = distances[asked]
    voice = speaker[neighbour[asked]]
    far = np.where(voice >= 0, far, np.inf)
    near = far.min(axis=1, initial=np.inf)
    lowest = np.where(far == near[:, None], voice, np.iinfo(np.int32).max).min(axis=1)
    horizon = rungs[asked, -1]
    known = np.isfinite(near) & (near < horizon)
    unsettled = ~known & (np.minimum(near, horizon) <= radius)
    return np.where(known, lowest, -1), np.where(known, near, np.inf), unsettled


def lend(
    graph: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    givers: np.ndarray,
    speaker: np.ndarray,
    radius: float,
    listeners: np.ndarray,
    answers: tuple[np.ndarray, np.ndarray],
) -> None:
    """Let each giver offer itself to the nodes in its own list, up to `radius`.

    Distances are symmetric, so a giver whose list ends beyond the radius reaches everybody it must.
    `listeners` marks the nodes whose (row, distance) in `answers` may change; the nearer offer is
    taken, of equals the lower row.
    """
    neighbour, distances, _, _ = graph
    row, distance = answers
    for start in range(0, len(givers), ROWS_AT_ONCE):
        part = givers[start : start + ROWS_AT_ONCE]
        at, place = np.nonzero((distances[part] <= radius) & listeners[neighbour[part]])
        listener, far = neighbour[part[at], place], distances[part[at], place]
        voice = speaker[part[at]]
        order = np.lexsort((voice, far, listener))
        best = order[np.unique(listener[order], return_index=True)[1]]
        who, far, voice = listener[best], far[best], voice[best]
        taken = (far < distance[who]) | ((far == distance[who]) & (voice < row[who]))
        row[who[taken]], distance[who[taken]] = voice[taken], far[taken]
