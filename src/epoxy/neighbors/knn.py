"""Who is nearest: products of blocks of rows in float32 propose, and pairs are measured.

A product gives a score, larger is nearer, rounded to a grid a little coarser than float32's error, so that
equal distances tie whatever block they fall into; of a tie the first row is taken. What is found is then
measured pair by pair from Σ (x − z)², always summed in one order: a distance is a property of two rows,
exactly 0 between equal ones, whatever the blocks were and however many threads there are.

    cosine      distance = |x − z|²/2, rows at length one     score = x·z
    euclidean   distance = |x − z|                            score = x·z − |x|²/2 − |z|²/2
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from ..compiling import U, compiled, reordered
from ..progress import Progress, silent
from .workers import spread

BLOCK = 1024
CHUNK = 64  # entries of a tile that are looked over at a time
GRID = 2.0**22  # steps of a score between 0 and 1
NOBODY = -1
Nearest = tuple[np.ndarray, np.ndarray]
"""Rows (int32, −1 for nobody) and how far they are (float32, inf for nobody), nearest first."""


def nearest_rows(
    queries: np.ndarray,
    train: np.ndarray,
    k: int,
    *,
    same: bool = False,
    metric: str = "cosine",
    progress: Progress = silent,
) -> Nearest:
    """Find the k nearest rows of `train` for each query: rows and distances, (n_queries, k).

    Nearest first, of equals the first row. Fewer than k are found where `train` has no more rows.

    Parameters
    ----------
    queries, train
        float32 rows, of length one under cosine distance; each product is used twice where they are
        one array.
    same
        Query i is row i of `train`, and is not its own neighbour.

    Examples
    --------
    >>> rows = np.eye(3, dtype="float32")
    >>> nearest_rows(rows, rows, 1, same=True)[0].tolist()
    [[1], [0], [0]]
    """
    left, right = operands(queries, train, metric)
    keys = np.zeros((len(queries), max(0, min(k, len(train) - same))), np.uint64)
    if not keys.size:
        return np.zeros(keys.shape, np.int32), np.zeros(keys.shape, np.float32)
    floor = np.full(len(queries), np.finfo(np.float32).min)
    down, twice = blocks(len(queries)), queries is train
    pairs = [(i, j) for i in down for j in blocks(len(train)) if not twice or i.start <= j.start]
    locks = [Lock() for _ in down]

    def offer(pair: tuple[slice, slice]) -> None:
        rows, columns = pair
        tile = left[rows] @ right[columns].T
        if same and rows == columns:
            np.fill_diagonal(tile, -np.inf)
        with locks[rows.start // BLOCK]:
            _offer(tile, columns.start, keys[rows], floor[rows])
        if twice and rows != columns:
            with locks[columns.start // BLOCK]:
                _offer_across(tile, rows.start, keys[columns], floor[columns])

    spread(offer, pairs, progress)
    spread(
        lambda rows: measure(queries, train, keys, rows, metric), blocks(len(queries), BLOCK // 4)
    )
    return unpacked(keys)


def merge_nearest(one: Nearest, other: Nearest, k: int) -> Nearest:
    """The k nearest of what was found in two places for the same queries.

    Rows are numbered alike in both; whoever searched a block of train adds its first row's number.

    Examples
    --------
    >>> one = np.array([[4, 7]], "int32"), np.array([[0.1, 0.5]], "float32")
    >>> other = np.array([[2, -1]], "int32"), np.array([[0.5, np.inf]], "float32")
    >>> merge_nearest(one, other, 3)[0].tolist()
    [[4, 2, 7]]
    """
    keys = np.hstack([packed(*one), packed(*other)])
    keys.sort(axis=1)
    return unpacked(np.ascontiguousarray(keys[:, :k]))


def nearest_of_each(
    queries: np.ndarray,
    train: np.ndarray,
    candidates: Sequence[np.ndarray],
    *,
    metric: str = "cosine",
    progress: Progress = silent,
) -> Nearest:
    """For several sets of candidates, the nearest of each to each query; (n_sets, n_queries).

    `candidates` are numbers of rows of `train`; of equals the first in its set is taken. What is
    returned are places in the sets.
    """
    union = candidates[0] if len(candidates) == 1 else np.unique(np.concatenate([*candidates, []]))
    union = union.astype(np.int64)
    chosen = train[union]
    left, right = operands(queries, chosen, metric)
    order = np.argsort(union)
    places = [order[np.searchsorted(union, each, sorter=order)] for each in candidates]
    best = np.full((len(candidates), len(queries)), np.finfo(np.float32).min, np.float32)
    winner = np.full(best.shape, NOBODY, np.int32)
    distance = np.full(best.shape, np.inf, np.float32)

    def search(asking: slice) -> None:
        for part in blocks(len(union)):
            tile = right[part] @ left[asking].T
            for at, mine in enumerate(places):
                inside = np.flatnonzero((mine >= part.start) & (mine < part.stop))
                _best(tile, mine[inside] - part.start, inside, best[at, asking], winner[at, asking])
        for at, mine in enumerate(places):
            if len(mine):
                found = mine[winner[at, asking]][:, None]
                distance[at, asking] = distances(queries[asking], chosen, found, metric)[:, 0]

    spread(search, blocks(len(queries)), progress)
    return winner, distance


def distances(
    queries: np.ndarray, train: np.ndarray, found: np.ndarray, metric: str = "cosine"
) -> np.ndarray:
    """How far each query is from the rows found for it; (n_queries, any) float32."""
    squares = np.empty(found.shape, np.float32)
    _measure(queries, train, found, squares)
    return np.sqrt(squares) if metric == "euclidean" else squares / np.float32(2)


def measure(
    queries: np.ndarray, train: np.ndarray, keys: np.ndarray, rows: slice, metric: str
) -> None:
    """Turn heaps of scores into lists of (distance, row), in order; nobody comes last."""
    found = (np.uint64(0xFFFFFFFF) - (keys[rows] & np.uint64(0xFFFFFFFF))).astype(np.int64)
    nobody = keys[rows] == 0
    found[nobody] = 0
    far = distances(queries[rows], train, found, metric)
    found[nobody], far[nobody] = NOBODY, np.inf
    keys[rows] = np.sort(packed(found, far), axis=1)


def blocks(count: int, size: int = BLOCK) -> list[slice]:
    """Slices of so many, one after the other."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def operands(queries: np.ndarray, train: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Two matrices whose products are scores of at most one."""
    if metric == "cosine":
        return queries, train
    squares = [np.einsum("ij,ij->i", each, each)[:, None] for each in (queries, train)]
    scale = np.sqrt(max(each.max(initial=np.finfo(np.float32).tiny) for each in squares))
    halves = [-(each / scale) / (2 * scale) for each in squares]
    ones = [np.ones_like(each) for each in halves]
    left = np.hstack([queries / scale, ones[0], halves[0]])
    return left, np.hstack([train / scale, halves[1], ones[1]])


def packed(rows: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Numbers in the order of (distance, row); floats that are not negative rank as their bits do."""
    bits = distance.view(np.uint32).astype(np.uint64) << np.uint64(32)
    return np.asarray(bits | rows.astype(np.uint32))


def unpacked(keys: np.ndarray) -> Nearest:
    """Rows and distances from the numbers that `packed` made."""
    distance = (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)
    return keys.astype(np.uint32).view(np.int32), distance


@compiled
def _offer(tile: Any, start: int, keys: Any, floor: Any) -> None:
    """Let each row of a tile keep its best; its columns are rows `start`, `start` + 1, … of train."""
    for row in range(tile.shape[0]):
        low = floor[row]
        for begin in range(0, tile.shape[1], CHUNK):
            end = min(begin + CHUNK, tile.shape[1])
            if (
                end - begin == CHUNK
            ):  # a constant number of turns is what a compiler makes vectors of
                above = np.int32(0)
                for at in range(CHUNK):
                    above += np.int32(1) if tile[U(row), U(begin) + U(at)] >= low else np.int32(0)
                if above == 0:
                    continue
            for column in range(begin, end):
                if tile[row, column] >= low:
                    low = keep(keys[row], tile[row, column], start + column)
        floor[row] = low


@compiled
def _offer_across(tile: Any, start: int, keys: Any, floor: Any) -> None:
    """The same for the columns of a tile, read row by row."""
    for row in range(tile.shape[0]):
        for begin in range(0, tile.shape[1], CHUNK):
            end = min(begin + CHUNK, tile.shape[1])
            if end - begin == CHUNK:
                above = np.int32(0)
                for at in range(CHUNK):
                    here = U(begin) + U(at)
                    above += np.int32(1) if tile[U(row), here] >= floor[here] else np.int32(0)
                if above == 0:
                    continue
            for column in range(begin, end):
                if tile[row, column] >= floor[column]:
                    floor[column] = keep(keys[column], tile[row, column], start + row)


@compiled
def keep(heap: Any, score: float, name: int) -> Any:
    """Offer one row to a heap, the worst on top; returns the score below which nothing is kept."""
    step = np.int64(np.floor(np.float32(score) * np.float32(GRID) + np.float32(0.5)))
    key = (np.uint64(step + (1 << 31)) << np.uint64(32)) | np.uint64(0xFFFFFFFF - name)
    if key > heap[0]:
        at, k = 0, len(heap)
        while 2 * at + 1 < k:
            child = 2 * at + 1
            if child + 1 < k and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= key:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = key
    worst = np.int64(heap[0] >> np.uint64(32)) - (1 << 31)
    return np.float32((worst - 0.5) / GRID)


@compiled
def _best(tile: Any, mine: Any, names: Any, best: Any, winner: Any) -> None:
    """Keep, per column of a tile, the best of some of its rows and the name it goes by."""
    for at in range(len(mine)):
        name = np.int32(names[at])
        for column in range(len(best)):
            score = np.floor(tile[mine[at], column] * np.float32(GRID) + np.float32(0.5))
            better = score > best[column]
            winner[column] = name if better else winner[column]
            best[column] = score if better else best[column]


@reordered
def _measure(x: Any, z: Any, found: Any, squares: Any) -> None:
    """Σ (x[i] − z[found[i, p]])² for every pair."""
    for i in range(found.shape[0]):
        for p in range(found.shape[1]):
            other, total = found[i, p], np.float64(0)
            for at in range(x.shape[1]):
                gap = np.float64(x[i, at]) - np.float64(z[other, at])
                total += gap * gap
            squares[i, p] = total
