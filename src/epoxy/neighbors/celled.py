"""The direct search that passes over cells too far away to matter (see `cells`).

Each round takes, for every node that still asks, the nearest cells it has not seen, and so learns a
better bound: a few cells at first, because the first bound is a guess, then all that the bound
leaves. Ordinary float32 scores, the best two kept, decided as always. The queries are taken in order
and in blocks, because fetching their vectors from memory costs as much as the arithmetic. Rejected:
8-bit codes first (few pairs are left, and scoring again what the codes cannot exclude eats the gain).
"""

from __future__ import annotations

import numpy as np

from . import kernels
from .asks import Ask, Found, Support, blocks, settle
from .best import Best, decided
from .cells import GUARD, TOP, Cells
from .space import Space
from .workers import Work, n_threads

__all__ = ["celled_answer", "is_worth_celling"]

WORTH = 1e8  # multiplications from which choosing cells pays
ROUNDS = (2, 4, 14, 0)  # cells looked at in each round; in the last all that are left
BLOCK = 4096
SETTLE = 64  # doubtful queries decided at a time
CROWDED = 16  # times as long as a score takes to measure a pair in float64


def is_worth_celling(train: Space, ask: Ask) -> bool:
    """Whether the search is large enough for cells to pay."""
    return len(ask.queries) * len(ask.support.nodes) * train.dimension >= WORTH


def celled_answer(train: Space, onto: Space, ask: Ask, cells: Cells) -> Found:
    """Answer one question exactly; what lies beyond its `within` may be left unanswered."""
    return _CelledSweep(train, onto, ask, cells).answer()


class _CelledSweep:
    """One question, its candidates in order of their cells, and the best two scores so far."""

    def __init__(self, train: Space, onto: Space, ask: Ask, cells: Cells) -> None:
        self.train, self.onto, self.ask, self.peak = train, onto, ask, cells.peak
        self.nodes = ask.support.nodes.astype(np.int32)
        cell = cells.grouping.cell[self.nodes]
        self.by_cell = np.argsort(cell, kind="stable").astype(np.int32)
        self.live, first = np.unique(cell[self.by_cell], return_index=True)
        self.first = np.append(first, len(cell))
        low, per_step = cells.grouping.scale.tolist()
        # whoever is within rounding of the best must be seen too, or a tie could be missed
        self.limits = low, per_step, 4 * train.slack(onto), GUARD
        summed = kernels.active().longest_sum(train.right.shape[1])
        self.found = Best.none((1, len(ask.queries)), train.slack(onto, summed))
        self.least = np.full(len(ask.queries), -np.inf)
        if ask.within is not None:  # a float32 score below this is surely farther
            with np.errstate(over="ignore"):  # whatever squares to infinity excludes nobody
                self.least = train.metric.score_of(ask.within) - 2 * train.slack(onto)

    def answer(self) -> Found:
        """Search, measure what may matter, and decide."""
        queries, best = self.ask.queries, self.found.best[0]
        Work(blocks(len(queries), BLOCK)).run(lambda: self._meet)
        answer = Found.nothing(len(queries))
        near = np.flatnonzero((best >= self.least) & np.isfinite(best))
        if len(near):
            part, spaces = Ask(self.ask.support, queries[near]), (self.train, self.onto)
            found, threads = self.found.at(near), n_threads()
            [sure] = decided(found, queries[near], spaces, [part], threads, self._settle)
            answer.row[near], answer.distance[near] = sure.row, sure.distance
        return answer

    def _meet(self, block: slice) -> None:
        asked = self.onto.left, self.ask.queries[block].astype(np.int32), self.least[block]
        offered = self.train.right, self.nodes, self.by_cell, self.live, self.first
        answers = tuple(each[block] for each in self.found.of(0))
        kernels.active().meet_cells(asked, offered, self.peak, self.limits, ROUNDS, answers)

    def _settle(
        self, train: Space, support: Support, onto: Space, queries: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Measure everything in the cells that may hold the best; the nearest, lowest row wins.

        Where those cells hold much of the support, scoring all of it first is cheaper.
        """
        row, distance = np.empty(len(queries), dtype=np.int32), np.empty(len(queries))
        low, per_step, margin, guard = self.limits
        best = self.found.best[0][np.searchsorted(self.ask.queries, queries)].astype(np.float64)
        needed = np.clip(np.floor((best - margin - low) * per_step - guard) + 1, 0, TOP)
        size, crowded = np.diff(self.first), np.zeros(len(queries), dtype=bool)
        for start in range(0, len(queries), SETTLE):
            part = slice(start, start + SETTLE)
            near = self.peak[np.ix_(queries[part], self.live)] >= needed[part, None]
            crowded[part] = CROWDED * (near @ size) > len(self.nodes)
            quiet = start + np.flatnonzero(~crowded[part])
            if len(quiet):
                found = self._measure(onto, queries[quiet], near[quiet - start])
                row[quiet], distance[quiet] = found
        if crowded.any():
            row[crowded], distance[crowded] = settle(train, support, onto, queries[crowded])
        return row, distance

    def _measure(
        self, onto: Space, queries: np.ndarray, near: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nearest in the cells that are `near` (n_queries, n_live) each query."""
        support = self.ask.support
        which, c = np.nonzero(near)
        size = self.first[c + 1] - self.first[c]
        which = np.repeat(which, size)
        skipped = np.cumsum(size) - size
        place = np.arange(len(which)) - np.repeat(skipped - self.first[c], size)
        candidate = self.by_cell[place]
        exact = onto.node_distances(queries[which], self.train, support.nodes[candidate])
        order = np.lexsort((support.rows[candidate], exact, which))
        winner = order[np.searchsorted(which[order], np.arange(len(queries)))]
        return support.rows[candidate[winner]], exact[winner]
