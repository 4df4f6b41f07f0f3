"""One pass of matrix multiplication that serves every source at once.

The candidates are the union of all supports and lie along the rows of a tile; each source then
takes the column-wise maximum over *its* rows of the tile, so the multiplication is done once,
whatever the number of sources, and the rest costs 0.2 ns per supporting row and asking row. Next to
the best score the second best is kept: where the two are farther apart than rounding can explain,
the winner is proven; the few other pairs are searched again and decided in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..progress import Progress, silent
from . import kernels
from .space import Space
from .workers import Work, n_threads

__all__ = ["NONE", "Ask", "Found", "Support", "search"]

NONE = -1
TILE = 1024
SETTLE_BYTES = 16 << 20
SMALL = 5e7  # multiplications and additions that one thread does before two have started


@dataclass(frozen=True, eq=False)
class Support:
    """One source's supporting rows as nodes: each node speaks through its lowest supporting row."""

    nodes: np.ndarray  # (n_candidates,) int32, ascending
    rows: np.ndarray  # (n_candidates,) int32, the row each node speaks through

    @classmethod
    def of(cls, space: Space, mask: np.ndarray) -> Support:
        """From a mask over the rows of `space`."""
        rows = np.flatnonzero(mask).astype(np.int32)
        nodes, at = np.unique(space.node[rows], return_index=True)
        return cls(nodes, rows[at])


@dataclass(frozen=True, eq=False)
class Ask:
    """One source's question: who of the support is nearest to each of these nodes."""

    support: Support
    queries: np.ndarray  # (n_queries,) nodes of the asking space, ascending


@dataclass(frozen=True, eq=False)
class Found:
    """The answers to an `Ask`, aligned with its queries."""

    row: np.ndarray  # (n_queries,) int32, −1 where the support is empty
    distance: np.ndarray  # (n_queries,) float64, inf where the support is empty


def search(
    train: Space, onto: Space, asks: Sequence[Ask], progress: Progress = silent
) -> list[Found]:
    """Answer all the questions exactly, ties to the lowest train row."""
    live = [ask for ask in asks if len(ask.support.nodes) and len(ask.queries)]
    answers = dict(zip(map(id, live), _answers(train, onto, live, progress), strict=True))
    return [answers.get(id(ask)) or _nothing(len(ask.queries)) for ask in asks]


def _nothing(count: int) -> Found:
    return Found(np.full(count, NONE, dtype=np.int32), np.full(count, np.inf))


def _answers(train: Space, onto: Space, asks: list[Ask], progress: Progress) -> list[Found]:
    if not asks:
        return []
    sweep = _Sweep.over(train, onto, asks)
    blocks = _blocks(len(sweep.queries))
    work = len(sweep.queries) * len(sweep.candidates) * float(train.left.shape[1])
    threads = 1 if work < SMALL else n_threads()
    Work(blocks).run(sweep.worker, threads=threads, progress=progress)
    return [sweep.decide(number, ask, threads) for number, ask in enumerate(asks)]


def _blocks(count: int, size: int = TILE) -> list[slice]:
    """Equal slices, as many for each thread."""
    share = n_threads()
    pieces = max(1, share * -(-count // (share * size)))
    ends = [round(count * each / pieces) for each in range(pieces + 1)]
    return [slice(a, b) for a, b in pairwise(ends) if b > a]


def _take(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows, without a copy if they are all or adjacent."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return np.asarray(matrix[rows[0] : rows[-1] + 1])
    taken: np.ndarray = matrix[rows]
    return taken


@dataclass(frozen=True, eq=False)
class _Sweep:
    """What the threads share: the union of the questions, and the best two scores so far."""

    train: Space
    onto: Space
    candidates: np.ndarray  # (n_candidates,) nodes of train, ascending
    queries: np.ndarray  # (n_queries,) nodes of onto, ascending
    places: list[np.ndarray]  # per ask: positions of its support among the candidates
    right: np.ndarray  # (n_candidates, d')
    best: np.ndarray  # (n_asks, n_queries) float32
    second: np.ndarray  # (n_asks, n_queries) float32
    winner: np.ndarray  # (n_asks, n_queries) int32, position in the ask's support

    @classmethod
    def over(cls, train: Space, onto: Space, asks: list[Ask]) -> _Sweep:
        candidates = _union([ask.support.nodes for ask in asks], train.n_nodes)
        queries = _union([ask.queries for ask in asks], onto.n_nodes)
        shape = (len(asks), len(queries))
        return cls(
            train,
            onto,
            candidates,
            queries,
            [np.searchsorted(candidates, ask.support.nodes) for ask in asks],
            _take(train.right, candidates),
            np.full(shape, -np.inf, dtype=np.float32),
            np.full(shape, -np.inf, dtype=np.float32),
            np.zeros(shape, dtype=np.int32),
        )

    def worker(self) -> Callable[[slice], None]:
        """One thread's way to sweep a block of queries over all candidates."""
        buffer = np.empty(TILE * TILE, dtype=np.float32)
        best_two = kernels.active().best_two

        def sweep(block: slice) -> None:
            asking = _take(self.onto.left, self.queries[block])
            for start in range(0, len(self.candidates), TILE):
                part = self.right[start : start + TILE]
                tile = buffer[: len(part) * len(asking)].reshape(len(part), len(asking))
                np.matmul(part, asking.T, out=tile)
                for number, places in enumerate(self.places):
                    first, last = np.searchsorted(places, [start, start + len(part)])
                    if first == last:
                        continue
                    best_two(
                        tile,
                        places[first:last] - start,
                        np.arange(first, last, dtype=np.int32),
                        self.best[number, block],
                        self.second[number, block],
                        self.winner[number, block],
                    )

        return sweep

    def decide(self, number: int, ask: Ask, threads: int) -> Found:
        """Measure the proven winners in float64 and settle the rest."""
        at = np.searchsorted(self.queries, ask.queries)
        margin = 2 * self.train.slack(self.onto)
        doubtful = self.best[number, at] - self.second[number, at] <= np.float32(margin)
        winner = self.winner[number, at]
        row, distance = ask.support.rows[winner], np.empty(len(winner))
        nodes = ask.support.nodes[winner]

        def measure(part: slice) -> None:
            pairs = ask.queries[part], self.train, nodes[part]
            distance[part] = self.onto.node_distances(*pairs)

        Work(_blocks(len(winner), 4096)).run(lambda: measure, threads=threads)
        if doubtful.any():
            queries = ask.queries[doubtful]
            row[doubtful], distance[doubtful] = _settle(self.train, ask.support, self.onto, queries)
        return Found(row, distance)


def _union(parts: list[np.ndarray], count: int) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    present = np.zeros(count, dtype=bool)
    for part in parts:
        present[part] = True
    return np.flatnonzero(present)


def _settle(
    train: Space, support: Support, onto: Space, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Measure everything within rounding of the best in float64; the nearest, lowest row wins."""
    row = np.full(len(queries), NONE, dtype=np.int32)
    distance = np.full(len(queries), np.inf)
    candidates = _take(train.right, support.nodes)
    margin = np.float32(2 * train.slack(onto))
    block = max(1, SETTLE_BYTES // (4 * len(candidates)))
    for start in range(0, len(queries), block):
        part = queries[start : start + block]
        score = onto.left[part] @ candidates.T
        which, candidate = np.nonzero(score >= score.max(axis=1, keepdims=True) - margin)
        exact = onto.node_distances(part[which], train, support.nodes[candidate])
        order = np.lexsort((support.rows[candidate], exact, which))
        winner = order[np.searchsorted(which[order], np.arange(len(part)))]
        row[start : start + block] = support.rows[candidate[winner]]
        distance[start : start + block] = exact[winner]
    return row, distance
