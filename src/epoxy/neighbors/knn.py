"""Who is nearest: products of blocks of rows in float32 propose, and pairs are measured.

A product gives a score, larger is nearer, rounded to a grid a little coarser than float32's error, so that
equal distances tie whatever block they fall into; of a tie the first row is taken. What is found is then
measured pair by pair from Σ (x − z)², always summed in one order: a distance is a property of two rows,
exactly 0 between equal ones, whatever the blocks were and however many threads there are. Who is listed is
the nearest row, or one whose distance differs by rounding (1e-6 of the lengths of the vectors).

    cosine      distance = |x − z|²/2, rows at length one     score = x·z
    euclidean   distance = |x − z|                            score = x·z − |x|²/2 − |z|²/2

Under euclidean distance rows are first moved to their median, so that it does not matter how far from the
origin they lie, and the grid is as fine as the length of the row that asks, so that neither does one row
that lies far from all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from .. import mapped
from ..compiling import U, compiled, reordered
from ..progress import Progress, silent
from .workers import spread

BLOCK = 1024
CHUNK = 64  # entries of a tile that are looked over at a time
GRID = 2.0**22  # steps of a score between 0 and 1
DOUBT = 8  # steps by which rounding may put the nearest behind
SIGN = 1 << 31
TINY = 1e-12
SLACK = 1e-5  # how far a score may be off, of the length of the query
NOBODY = -1
ALIKE = 1e-28  # |x − z|² of rows that point the same way, but for the rounding of their lengths
Nearest = tuple[np.ndarray, np.ndarray]
"""Rows (int32, −1 for nobody) and how far they are (float32, inf for nobody), nearest first."""


@dataclass(frozen=True, eq=False)
class Points(mapped.ByFile):
    """Rows to multiply, and the same as they were given, to be measured."""

    unit: np.ndarray  # (n, dimension) float32: under cosine distance of length one
    raw: np.ndarray  # (n, dimension) float32
    shrink: (
        np.ndarray
    )  # (n,) float64, raw row times this has length one; 1 under euclidean distance

    @classmethod
    def of(cls, rows: np.ndarray | Points) -> Points:
        """Rows that are as they are to be multiplied."""
        return rows if isinstance(rows, Points) else cls(rows, rows, np.ones(len(rows)))

    def __len__(self) -> int:
        return len(self.unit)

    def __getitem__(self, some: Any) -> Points:
        unit = self.unit[some]
        raw = unit if self.raw is self.unit else self.raw[some]
        return Points(unit, raw, self.shrink[some])

    def followed_by(self, more: Points) -> Points:
        """These rows and then those."""
        unit = np.concatenate([self.unit, more.unit])
        raw = unit if self.raw is self.unit else np.concatenate([self.raw, more.raw])
        return Points(unit, raw, np.concatenate([self.shrink, more.shrink]))


def nearest_rows(
    queries: np.ndarray | Points,
    train: np.ndarray | Points,
    k: int,
    *,
    same: bool = False,
    metric: str = "cosine",
    within: np.ndarray | None = None,
    progress: Progress = silent,
) -> Nearest:
    """Find the k nearest rows of `train` for each query: rows and distances, (n_queries, k).

    Nearest first, of equals the first row. Fewer than k are found where `train` has no more rows.

    Parameters
    ----------
    queries, train
        float32 rows, of length one under cosine distance, or `Points`; each product is used twice where
        they are one object.
    same
        Query i is row i of `train`, and is not its own neighbour.
    within
        How far away a row is still of use to each query; of those beyond some may be missing (−1, inf).

    Examples
    --------
    >>> rows = np.eye(3, dtype="float32")
    >>> nearest_rows(rows, rows, 1, same=True)[0].tolist()
    [[1], [0], [0]]
    """
    queries, train = both(queries, train)
    ready = operands(queries, train, metric)
    left, right, fine, _ = ready
    keys = mapped.empty((len(queries), max(0, min(k, len(train) - same))), np.uint64)
    keys[:] = 0
    if not keys.size:
        return np.zeros(keys.shape, np.int32), np.zeros(keys.shape, np.float32)
    floor = np.full(len(queries), -np.inf, np.float32)
    if within is not None:
        floor = ready.score_of(within, metric)
    down, twice = blocks(len(queries)), queries is train
    pairs = [(i, j) for i in down for j in blocks(len(train)) if not twice or i.start <= j.start]
    locks = [Lock() for _ in down]

    def offer(pair: tuple[slice, slice]) -> None:
        rows, columns = pair
        tile = left[rows] @ right[columns].T
        if same and rows == columns:
            np.fill_diagonal(tile, -np.inf)
        with locks[rows.start // BLOCK]:
            _offer(tile, columns.start, keys[rows], floor[rows], fine[rows])
        if twice and rows != columns:
            with locks[columns.start // BLOCK]:
                _offer_across(tile, rows.start, keys[columns], floor[columns], fine[columns])

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
    queries: np.ndarray | Points,
    train: np.ndarray | Points,
    candidates: Sequence[np.ndarray],
    *,
    metric: str = "cosine",
    progress: Progress = silent,
) -> Nearest:
    """For several sets of candidates, the nearest of each to each query; (n_sets, n_queries).

    `candidates` are numbers of rows of `train`; of equals the first in its set is taken. What is
    returned are places in the sets.
    """
    queries, train = both(queries, train)
    union = candidates[0] if len(candidates) == 1 else np.unique(np.concatenate([*candidates, []]))
    union = union.astype(np.int64)
    chosen = train[union]
    left, right, fine, _ = operands(queries, chosen, metric)
    order = np.argsort(union)
    places = [order[np.searchsorted(union, each, sorter=order)] for each in candidates]
    shape = len(candidates), len(queries)
    best, second = np.full(shape, -np.inf, np.float32), np.full(shape, -np.inf, np.float32)
    winner = np.full(shape, NOBODY, np.int32)
    distance = np.full(shape, np.inf, np.float32)

    def search(asking: slice) -> None:
        for part in blocks(len(union)):
            tile = right[part] @ left[asking].T
            for at, mine in enumerate(places):
                names = np.flatnonzero((mine >= part.start) & (mine < part.stop))
                kept = best[at, asking], second[at, asking], winner[at, asking]
                _best_two(tile, mine[names] - part.start, names, *kept)
        for at, mine in enumerate(places):
            if not len(mine):
                continue
            found = mine[winner[at, asking]][:, None]
            distance[at, asking] = distances(queries[asking], chosen, found, metric)[:, 0]
            lead = (best[at, asking] - second[at, asking]) * fine[asking]
            doubtful = asking.start + np.flatnonzero(lead <= DOUBT)
            for some in np.array_split(doubtful, 1 + len(mine) // BLOCK):
                settle(at, mine, some)

    def settle(at: int, mine: np.ndarray, some: np.ndarray) -> None:
        """Measure all that rounding may have put behind the best; the nearest, of equals the first."""
        least = best[at, some] - DOUBT / fine[some]
        who, place = np.nonzero(left[some] @ right[mine].T >= least[:, None])
        far = distances(queries[some[who]], chosen, mine[place][:, None], metric)[:, 0]
        order = np.lexsort((place, far, who))
        first = order[np.searchsorted(who[order], np.arange(len(some)))]
        winner[at, some], distance[at, some] = place[first], far[first]

    spread(search, blocks(len(queries)), progress)
    return winner, distance


def reaches(radius: Any, distance: Any) -> np.ndarray:
    """Whether a radius reaches so far: the bound is included, in float32, and NaN reaches nobody."""
    return np.asarray(np.asarray(distance, np.float32) <= np.asarray(radius, np.float32))


def distances(
    queries: Points, train: Points, found: np.ndarray, metric: str = "cosine"
) -> np.ndarray:
    """How far each query is from the rows found for it, inf from nobody; (n_queries, any) float32."""
    squares = np.empty(found.shape)
    sides = _fixed(queries.raw), queries.shrink, _fixed(train.raw), train.shrink
    _measure(*sides, found, squares)
    if metric == "cosine":
        squares[squares < ALIKE] = 0
    return np.asarray(np.sqrt(squares) if metric == "euclidean" else squares / 2, np.float32)


def measure(queries: Points, train: Points, keys: np.ndarray, rows: slice, metric: str) -> None:
    """Turn heaps of scores into lists of (distance, row), in order; nobody comes last."""
    found = (np.uint64(0xFFFFFFFF) - (keys[rows] & np.uint64(0xFFFFFFFF))).astype(np.int64)
    found[keys[rows] == 0] = NOBODY
    far = distances(queries[rows], train, found, metric)
    keys[rows] = np.sort(packed(found, far), axis=1)


def both(queries: np.ndarray | Points, train: np.ndarray | Points) -> tuple[Points, Points]:
    """Rows on both sides as points; one object stays one."""
    one = Points.of(queries)
    return one, one if queries is train else Points.of(train)


def _fixed(rows: np.ndarray) -> np.ndarray:
    """Read-only and in C order: to the compiler anything else is another type."""
    view = np.ascontiguousarray(rows).view()
    view.flags.writeable = False
    return view


def blocks(count: int, size: int = BLOCK) -> list[slice]:
    """Slices of so many, one after the other."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


class Operands(NamedTuple):
    """Two matrices whose products are scores."""

    left: np.ndarray  # of the queries
    right: np.ndarray  # of train
    fine: np.ndarray  # (n_queries,) float32, steps of the grid for one of the score
    scale: float  # what distances were multiplied by

    def score_of(self, distance: Any, metric: str) -> np.ndarray:
        """A score that no row at this distance of each query is below, whatever its rounding."""
        far = np.asarray(distance, float) * self.scale
        score = 1 - far if metric == "cosine" else -np.square(far) / 2
        return np.asarray(score - SLACK * GRID / self.fine, np.float32)


def operands(queries: Points, train: Points, metric: str) -> Operands:
    """What to multiply, and how to read the products."""
    if metric == "cosine":
        return Operands(queries.unit, train.unit, np.full(len(queries), GRID, np.float32), 1.0)
    middle, scale = _middle(train.unit)
    left, right = (_lifted(each.unit, middle, scale) for each in (queries, train))
    length = 2 * left[:, -1] + (2 * float(np.median(right[:, -1])) if len(train) else 0) + TINY
    for part in blocks(
        len(right)
    ):  # x·z − |x|²/2 − |z|²/2 is a product of rows with two more numbers
        right[part, -2:] = -right[part, :-3:-1]
    return Operands(left, right, (GRID / length).astype(np.float32), float(scale))


def _lifted(rows: np.ndarray, middle: np.ndarray, scale: np.float32) -> np.ndarray:
    """Rows moved to the middle, with 1 and half of their square behind."""
    found = mapped.empty((len(rows), rows.shape[1] + 2), np.float32)
    for part in blocks(len(rows)):
        moved = (rows[part] - middle) * scale
        found[part, :-2], found[part, -2] = moved, 1
        found[part, -1] = np.einsum("ij,ij->i", moved, moved) / 2
    return found


def _middle(train: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """The median of the rows, rounded, and a power of two that brings their spread to about one."""
    some = train[:: max(1, len(train) // 1000)].astype(np.float64)
    if not some.size:
        return np.zeros(train.shape[1], np.float32), np.float32(1)
    middle = np.median(some, axis=0)
    spread = float(np.median(np.sqrt(np.square(some - middle).mean(axis=1)))) or 1.0
    power = 2.0 ** np.floor(np.log2(spread))
    return (np.round(middle / power * 64) * power / 64).astype(np.float32), np.float32(1 / power)


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
def _offer(tile: Any, start: int, keys: Any, floor: Any, fine: Any) -> None:
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
                    worst = keep(keys[row], tile[row, column], start + column, fine[row])
                    low = max(low, worst)
        floor[row] = low


@compiled
def _offer_across(tile: Any, start: int, keys: Any, floor: Any, fine: Any) -> None:
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
                    score = tile[row, column]
                    worst = keep(keys[column], score, start + row, fine[column])
                    floor[column] = max(floor[column], worst)


@compiled
def keep(heap: Any, score: float, name: int, fine: float) -> Any:
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


@compiled
def _best_two(tile: Any, mine: Any, names: Any, best: Any, second: Any, winner: Any) -> None:
    """Keep, per column of a tile, the two best scores of some of its rows, and who has the best."""
    for at in range(len(mine)):
        scores, name = tile[mine[at]], np.int32(names[at])
        for column in range(len(best)):
            score, top, next_best = scores[column], best[column], second[column]
            higher = score > top
            second[column] = top if higher else (score if score > next_best else next_best)
            winner[column] = name if higher else winner[column]
            best[column] = score if higher else top


@reordered
def _measure(x: Any, one: Any, z: Any, other: Any, found: Any, squares: Any) -> None:
    """Σ (x[i] · one[i] − z[j] · other[j])² for every pair of i and a j = found[i, p]."""
    for i in range(found.shape[0]):
        for p in range(found.shape[1]):
            j, total = found[i, p], np.float64(0)
            if j < 0:
                squares[i, p] = np.inf
                continue
            for at in range(x.shape[1]):
                gap = np.float64(x[i, at]) * one[i] - np.float64(z[j, at]) * other[j]
                total += gap * gap
            squares[i, p] = total
