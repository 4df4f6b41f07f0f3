"""One pass of matrix multiplication that serves every source at once.

The candidates are the union of all supports and lie along the rows of a tile; each source then
takes the column-wise maximum over *its* rows of the tile, so the multiplication is done once,
whatever the number of sources, and the rest costs 0.2 ns per supporting row and asking row. Where
candidates ask too, a tile of two blocks of them is used twice, turned around the second time. Next
to the best score the second best is kept: where the two are farther apart than rounding can explain,
the winner is proven; the few other pairs are searched again and decided in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..progress import Progress, silent
from . import kernels
from .asks import Ask, Found, blocks, take, union
from .best import Best, decided
from .celled import celled_answer, is_worth_celling
from .cells import Cells
from .coded import coded_answers, is_worth_coding
from .space import Space
from .workers import Work, n_threads

__all__ = ["search"]

TILE = 1024
SMALL = 5e7  # multiplications and additions that one thread does before two have started


def search(
    train: Space,
    onto: Space,
    asks: Sequence[Ask],
    progress: Progress = silent,
    cells: Cells | None = None,
) -> list[Found]:
    """Answer all the questions exactly, ties to the lowest train row."""
    live = [ask for ask in asks if len(ask.support.nodes) and len(ask.queries)]
    if cells is not None and len(live) == 1 and is_worth_celling(train, live[0]):
        found = [celled_answer(train, onto, live[0], cells)]
    else:
        found = _answers(train, onto, live, progress)
    answers = dict(zip(map(id, live), found, strict=True))
    return [answers.get(id(ask)) or Found.nothing(len(ask.queries)) for ask in asks]


def _answers(train: Space, onto: Space, asks: list[Ask], progress: Progress) -> list[Found]:
    if not asks:
        return []
    if is_worth_coding(train, onto, asks):
        return coded_answers(train, onto, asks, progress)
    sweep = _Sweep(train, onto, asks)
    threads = 1 if sweep.multiplications < SMALL else n_threads()
    Work(sweep.tasks).run(sweep.worker, threads=threads, progress=progress)
    return decided(sweep.found, sweep.queries, (train, onto), asks, threads)


class _Sweep:
    """All candidates against all queries; threads keep their own best and are merged at the end."""

    def __init__(self, train: Space, onto: Space, asks: list[Ask]) -> None:
        self.train, self.onto = train, onto
        self.candidates = union([ask.support.nodes for ask in asks], train.n_nodes)
        queries = union([ask.queries for ask in asks], onto.n_nodes)
        self.places = [np.searchsorted(self.candidates, ask.support.nodes) for ask in asks]
        self.right = take(train.right, self.candidates)
        self.left = self.right if train.left is train.right else take(train.left, self.candidates)
        asking = np.isin(self.candidates, queries, assume_unique=True) if onto is train else False
        self.mirrors = bool(np.mean(asking) > 0.5)
        if self.mirrors:  # candidates first, in their order, so that a tile serves both its sides
            queries = np.concatenate(
                [self.candidates, np.setdiff1d(queries, self.candidates, assume_unique=True)]
            )
        self.queries = queries
        count = len(self.candidates)
        self.parts = [slice(a, min(a + TILE, count)) for a in range(0, count, TILE)]
        self.tasks = self._tasks()
        self._found: list[Best] = []

    def _tasks(self) -> list[int | slice]:
        """Strips of the half matrix by number, the longest first, then blocks of other queries."""
        shift = len(self.candidates) if self.mirrors else 0
        rest = blocks(len(self.queries) - shift, TILE)
        moved = [slice(each.start + shift, each.stop + shift) for each in rest]
        return [*(range(len(self.parts)) if self.mirrors else ()), *moved]

    @property
    def multiplications(self) -> float:
        """How much work it is."""
        return float(len(self.queries) * len(self.candidates) * self.train.left.shape[1])

    @property
    def found(self) -> Best:
        """The best over all threads."""
        for other in self._found[1:]:
            self._found[0].merge(other)
        del self._found[1:]
        return self._found[0]

    def worker(self) -> Callable[[int | slice], None]:
        """One thread's way to do a task."""
        shape = len(self.places), len(self.queries)
        mine = Best.none(shape, self.train.slack(self.onto))
        self._found.append(mine)
        buffers = np.empty((2, TILE * TILE), dtype=np.float32)

        def sweep(task: int | slice) -> None:
            if isinstance(task, slice):
                asking = take(self.onto.left, self.queries[task])
                for part in self.parts:
                    self._offer(_multiply(self.right[part], asking, buffers[0]), part, mine, task)
                return
            rows = self.parts[task]
            for columns in self.parts[task:]:
                tile = _multiply(self.right[rows], self.left[columns], buffers[0])
                self._offer(tile, rows, mine, columns)
                if columns is not rows:
                    turned = buffers[1][: tile.size].reshape(tile.shape[::-1])
                    kernels.active().turn(tile, turned)
                    self._offer(turned, columns, mine, rows)

        return sweep

    def _offer(self, tile: np.ndarray, part: slice, mine: Best, block: slice) -> None:
        """Let every source take the best of its own rows of the tile."""
        best_two = kernels.active().best_two
        for number, places in enumerate(self.places):
            first, last = np.searchsorted(places, [part.start, part.stop])
            if first < last:
                best_two(
                    tile,
                    places[first:last] - part.start,
                    np.arange(first, last, dtype=np.int32),
                    mine.best[number, block],
                    mine.second[number, block],
                    mine.winner[number, block],
                )


def _multiply(rows: np.ndarray, columns: np.ndarray, buffer: np.ndarray) -> np.ndarray:
    tile = buffer[: len(rows) * len(columns)].reshape(len(rows), len(columns))
    np.matmul(rows, columns.T, out=tile)
    return tile
