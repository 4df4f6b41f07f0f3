"""The inner loops of `knn_lists`: lists of candidates that grow while tiles of scores go by.

Lists are a tuple (keys, count, floor, floor_bits): `keys` (n, capacity) uint64 hold a score in the
upper half, its bits made to sort as numbers, and a node in the lower, so that a push is one store;
`count` (n,) int64 says how many are filled; everything ever dropped or refused scored at most
`floor` (n,) float32, of which `floor_bits` is the same memory as uint32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiling import U, compiled, select_largest

CHUNK = 64
SIGN = np.uint32(0x80000000)


@compiled
def _order(bits: Any) -> Any:
    """Bits of a float32 as an unsigned number of the same order."""
    return U(bits ^ (np.uint32(0xFFFFFFFF) if bits & SIGN else SIGN))


@compiled
def _bits(order: Any) -> Any:
    """The inverse of `_order`."""
    return np.uint32(order ^ (SIGN if order & SIGN else np.uint32(0xFFFFFFFF)))


@compiled
def _push(lists: Any, row: Any, key: Any, keep: Any) -> None:
    """Append to a row's list; when it is full keep the best and raise the floor to the worst kept."""
    keys, count, _, floor_bits = lists
    at = U(count[row])
    keys[row, at] = key
    at += U(1)
    if at >= U(2) * keep or at >= U(keys.shape[1]):
        mine = keys[row]
        select_largest(mine, at, keep)
        least = mine[0]
        for kept in range(1, keep):
            least = mine[U(kept)] if mine[U(kept)] < least else least
        floor_bits[row] = _bits(np.uint32(least >> U(32)))
        at = keep
    count[row] = at


@compiled
def push(tile: Any, bits: Any, start: int, lists: Any, keep: int, mine: Any) -> None:
    """Offer every tile entry to its row's list; `start` is the name of the tile's first column.

    Tile row r is about list `mine[r]`. A full list keeps its best `keep` and raises the floor to the
    worst of them. A counted pre-filter over `CHUNK` entries keeps the branches off the common path
    (0.07 ns per entry).
    """
    floor, most = lists[2], U(keep)
    width = tile.shape[1]
    position = np.empty(CHUNK + 1, np.uint32)
    for r in range(len(tile)):
        row, to = U(r), U(mine[r])
        for c in range(0, width, CHUNK):
            column, least = U(c), floor[to]
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
                if tile[row, spot] > floor[to]:  # the floor may have risen within the chunk
                    key = (_order(bits[row, spot]) << U(32)) | (U(start) + spot)
                    _push(lists, to, key, most)


@compiled
def drain(lists: Any, keep: int, names: Any, floors: Any) -> None:
    """Write each list's best `keep` names, best first, −1 after the last, into `names`.

    `floors` receives what every name left out scored at most.
    """
    keys, count, floor, _ = lists
    bits = np.empty(1, np.uint32)
    score = bits.view(np.float32)
    names[:] = -1
    for row in range(len(keys)):
        held = min(count[row], keep + 1)
        floors[row] = floor[row]
        select_largest(keys[row], count[row], held)
        best_last = np.sort(keys[row, :held])
        if held > keep:  # the best that is left out
            bits[0] = _bits(np.uint32(best_last[0] >> U(32)))
            floors[row] = score[0]
        for at in range(min(held, keep)):
            names[row, at] = np.int32(best_last[held - 1 - at] & U(0xFFFFFFFF))


@compiled
def rank_rows(names: Any, distances: Any) -> None:
    """Sort each row by distance, equals by name, in place; by insertion: they come nearly sorted."""
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
