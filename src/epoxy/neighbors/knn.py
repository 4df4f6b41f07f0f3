"""Who is nearest: products of blocks of rows in float32 propose, and pairs are measured.

A product gives a score, larger is nearer, rounded to a grid a little coarser than float32's error, so that
equal distances tie whatever block they fall into; of a tie the first row is taken. What is found is then
measured pair by pair in float64, always summed in one order: a distance is a property of two rows, exactly
0 between equal ones, whatever the blocks were and however many threads there are. Who is listed is the
nearest row, or one whose distance differs by rounding (1e-6 of the lengths of the vectors).

    cosine      distance = 1 − x·z/(|x||z|)    score = x·z, of rows at length one
    euclidean   distance = |x − z|             score = x·z − |x|²/2 − |z|²/2

Under euclidean distance rows are first moved to their median, so that it does not matter how far from the
origin they lie, and the grid is as fine as the length of the row that asks, so that neither does one row
that lies far from all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import mapped
from ..compiling import U, compiled, reordered
from ..mapped import blocks
from ..progress import Progress, silent
from .workers import spread

BLOCK = 1024
CHUNK = 64  # entries of a tile that are looked over at a time
BUDGET = 64 << 20  # bytes of scores that are looked at at a time
GRID = 2.0**22  # steps of a score between 0 and 1
DOUBT = 8  # steps by which rounding may put the nearest behind
SIGN = 1 << 31
TINY = 1e-12
SLACK = 1e-5  # how far a score may be off, of the length of the query
NOBODY = -1
ALIKE = 1e-14  # apart by rounding alone
Nearest = tuple[np.ndarray, np.ndarray]
"""Rows (int32, −1 for nobody) and how far they are (float32, inf for nobody), nearest first."""


def nearest_rows(
    queries: np.ndarray,
    train: np.ndarray,
    k: int,
    *,
    metric: str = "cosine",
    progress: Progress = silent,
) -> Nearest:
    """Find the k nearest rows of `train` for each query: rows and distances, (n_queries, k).

    Nearest first, of equals the first row. Fewer than k are found where `train` has no more rows. Both are
    float32.

    Examples
    --------
    >>> rows = np.eye(3, dtype="float32")
    >>> nearest_rows(rows[:1], rows, 2)[0].tolist()
    [[0, 1]]
    """
    keys = mapped.empty((len(queries), max(0, min(k, len(train)))), np.uint64)
    keys[:] = 0
    if not keys.size:
        return np.zeros(keys.shape, np.int32), np.zeros(keys.shape, np.float32)
    left, right, fine = operands(queries, train, metric)

    def search(rows: slice) -> None:
        floor = np.full(rows.stop - rows.start, -np.inf, np.float32)
        who = np.arange(len(floor))
        for part in blocks(len(train), BLOCK):
            names = np.arange(part.start, part.stop, dtype=np.int32)
            offer(left[rows] @ right[part].T, names, who, keys[rows], floor, fine[rows])
        measure(queries, train, keys, rows, metric)

    spread(search, blocks(len(queries), BLOCK), progress)
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
    union = np.unique(np.concatenate([*candidates, []])).astype(np.int64)
    chosen = train[union]
    left, right, fine = operands(queries, chosen, metric)
    places = [np.searchsorted(union, each) for each in candidates]
    winner = np.full((len(candidates), len(queries)), NOBODY, np.int32)
    distance = np.full(winner.shape, np.inf, np.float32)

    def search(part: slice) -> None:
        scores = left[part] @ right.T
        for at, mine in enumerate(places):
            if len(mine):
                here = scores[:, mine]
                least = here.max(axis=1) - DOUBT / fine[part]
                who, place = np.nonzero(here >= least[:, None])  # rounding may put the best behind
                pairs = queries[part][who], chosen, mine[place][:, None]
                far = distances(*pairs, metric)[:, 0]
                first = np.lexsort((place, far, who))[np.searchsorted(who, np.arange(len(here)))]
                winner[at, part], distance[at, part] = place[first], far[first]

    at_once = max(1, min(BLOCK, BUDGET // (4 * max(1, len(union)))))
    spread(search, blocks(len(queries), at_once), progress)
    return winner, distance


def reaches(radius: Any, distance: Any) -> np.ndarray:
    """Whether a radius reaches so far: the bound is included, in float32, and NaN reaches nobody."""
    return np.asarray(np.asarray(distance, np.float32) <= np.asarray(radius, np.float32))


def distances(
    queries: np.ndarray, train: np.ndarray, found: np.ndarray, metric: str = "cosine"
) -> np.ndarray:
    """How far each query is from the rows found for it, inf from nobody; (n_queries, any) float32."""
    far = np.full(found.shape, np.inf, np.float32)
    for part in blocks(len(train), mapped.rows_at_once(len(train))):  # found rows lie anywhere
        some = _fixed(train[part]), part.start
        _measure(_fixed(queries), *some, found, metric == "cosine", far)
    return far


def measure(
    queries: np.ndarray, train: np.ndarray, keys: np.ndarray, rows: slice, metric: str
) -> None:
    """Turn heaps of scores into lists of (distance, row), in order; nobody comes last."""
    found = (np.uint64(0xFFFFFFFF) - (keys[rows] & np.uint64(0xFFFFFFFF))).astype(np.int64)
    found[keys[rows] == 0] = NOBODY
    far = distances(queries[rows], train, found, metric)
    keys[rows] = np.sort(packed(found, far), axis=1)


def _fixed(rows: np.ndarray) -> np.ndarray:
    """Read-only and in C order: to the compiler anything else is another type."""
    view = np.ascontiguousarray(rows).view()
    view.flags.writeable = False
    return view


class Operands(NamedTuple):
    """Two matrices whose products are scores."""

    left: np.ndarray  # of the queries
    right: np.ndarray  # of train
    fine: np.ndarray  # (n_queries,) float32, steps of the grid for one of the score


def operands(queries: np.ndarray, train: np.ndarray, metric: str) -> Operands:
    """What to multiply, and how to read the products."""
    if metric == "cosine":
        right = directed(train, metric)
        left = right if queries is train else directed(queries, metric)
        return Operands(left, right, np.full(len(queries), GRID, np.float32))
    some = train[:: max(1, len(train) // 1000)]
    middle = np.median(some, axis=0) if len(some) else np.zeros(train.shape[1], np.float32)
    left, right = (_lifted(each, middle) for each in (queries, train))
    length = 2 * left[:, -1] + (2 * float(np.median(right[:, -1])) if len(train) else 0) + TINY
    for part in blocks(len(right)):  # x·z − |x|²/2 − |z|²/2 is a product of longer rows
        right[part, -2:] = -right[part, :-3:-1]
    return Operands(left, right, (GRID / length).astype(np.float32))


def directed(rows: np.ndarray, metric: str) -> np.ndarray:
    """Rows at length one where only their direction counts."""
    if metric != "cosine":
        return rows
    found = mapped.empty(rows.shape, np.float32)
    for part in blocks(len(rows)):
        wide = rows[part].astype(np.float64)
        length = np.sqrt(np.einsum("ij,ij->i", wide, wide)).astype(np.float32)
        np.divide(rows[part], length[:, None], out=found[part])
    return found


def _lifted(rows: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Rows moved to the middle, with 1 and half of their square behind."""
    found = mapped.empty((len(rows), rows.shape[1] + 2), np.float32)
    for part in blocks(len(rows)):
        moved = rows[part] - middle
        found[part, :-2], found[part, -2] = moved, 1
        found[part, -1] = np.einsum("ij,ij->i", moved, moved) / 2
    return found


def packed(rows: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Numbers in the order of (distance, row); floats that are not negative rank as their bits do."""
    bits = distance.view(np.uint32).astype(np.uint64) << np.uint64(32)
    return np.asarray(bits | rows.astype(np.uint32))


def unpacked(keys: np.ndarray) -> Nearest:
    """Rows and distances from the numbers that `packed` made."""
    rows, distance = mapped.empty(keys.shape, np.int32), mapped.empty(keys.shape, np.float32)
    for part in blocks(len(keys), 16 * BLOCK):
        rows[part] = keys[part].astype(np.uint32).view(np.int32)
        distance[part] = (keys[part] >> np.uint64(32)).astype(np.uint32).view(np.float32)
    return rows, distance


@compiled
def offer(tile: Any, names: Any, rows: Any, keys: Any, floor: Any, fine: Any) -> None:
    """Let queries keep the best of a tile: its rows are the queries `rows`, its columns the rows `names`."""
    for at in range(tile.shape[0]):
        row = rows[at]
        low = floor[row]
        for begin in range(0, tile.shape[1], CHUNK):
            end = min(begin + CHUNK, tile.shape[1])
            if (
                end - begin == CHUNK
            ):  # a constant number of turns is what a compiler makes vectors of
                above = np.int32(0)
                for step in range(CHUNK):
                    above += np.int32(1) if tile[U(at), U(begin) + U(step)] >= low else np.int32(0)
                if above == 0:
                    continue
            for column in range(begin, end):
                if tile[at, column] >= low:
                    low = max(low, _keep(keys[row], tile[at, column], names[column], fine[row]))
        floor[row] = low


@compiled
def _keep(heap: Any, score: float, name: int, fine: float) -> Any:
    """Offer one row to a heap, the worst on top; returns the score below which nothing is kept."""
    steps = np.floor(np.float64(score) * np.float64(fine) + 0.5)
    step = np.int64(max(steps, np.float64(1 - SIGN)))
    key = (np.uint64(step + SIGN) << np.uint64(32)) | np.uint64(0xFFFFFFFF - name)
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
    worst = np.int64(heap[0] >> np.uint64(32)) - SIGN
    low = (np.float64(worst) - 0.5) / np.float64(fine)
    return np.float32(low if worst > 1 - SIGN else -np.inf)


@reordered
def _measure(x: Any, z: Any, start: int, found: Any, cosine: bool, far: Any) -> None:
    """The distance of every pair of i and a j = found[i, p] − start that z has."""
    for i in range(found.shape[0]):
        for p in range(found.shape[1]):
            j = found[i, p] - start
            if j < 0 or j >= len(z):
                continue
            both, mine, theirs, gaps = np.float64(0), np.float64(0), np.float64(0), np.float64(0)
            for at in range(x.shape[1]):
                here, there = np.float64(x[i, at]), np.float64(z[j, at])
                both += here * there
                mine += here * here
                theirs += there * there
                gaps += (here - there) * (here - there)
            if cosine:
                apart = 1 - both / np.sqrt(mine * theirs)
                far[i, p] = apart if apart > ALIKE else 0
            else:
                far[i, p] = np.sqrt(gaps)
