"""The direct search that passes over cells too far away to matter (see `cells`).

Each round takes, for every node that still asks, the nearest cells it has not seen, and so learns a
better bound: a few cells at first, because the first bound is a guess, then all that the bound
leaves. Ordinary float32 scores, the best two kept, decided as always. The nodes are taken in order
and in blocks, because fetching their vectors from memory costs as much as the arithmetic.
"""

from __future__ import annotations

import numpy as np

from .cell_kernels import meet_cells
from .cells import GUARD, TOP, Cells
from .search import Found, Query, Top2, blocks, decide, search, settle
from .space import Space
from .workers import Work, n_threads

WORTH = 1e8  # multiplications from which choosing cells pays
ROUNDS = (2, 4, 14, 0)  # cells looked at in each round; in the last all that are left
BLOCK = 4096
SETTLE = 64  # doubtful nodes decided at a time
CROWDED = 16  # times as long as a score takes to measure a pair in float64


def search_cells(train: Space, onto: Space, query: Query, cells: Cells | None) -> Found:
    """Answer one query exactly; what lies beyond its `within` may be left unanswered.

    Without cells, or where the search is too small for them to pay, everybody is searched.
    """
    work = len(query.asking) * len(query.candidates) * train.dimension
    if cells is None or work < WORTH or not work:
        return search(train, onto, [query])[0]
    return _CellSweep(train, onto, query, cells).answer()


def load_cell_loops(train: Space, onto: Space, cells: Cells) -> None:
    """Load what `search_cells` runs, by asking for nobody."""
    nobody = np.zeros(0, dtype=np.int32)
    _CellSweep(train, onto, Query(nobody, nobody, nobody), cells).meet(slice(0, 0))


class _CellSweep:
    """One query, its candidates in order of their cells, and the best two scores so far."""

    def __init__(self, train: Space, onto: Space, query: Query, cells: Cells) -> None:
        self.train, self.onto, self.query, self.peak = train, onto, query, cells.peak
        self.nodes = query.candidates.astype(np.int32)
        cell = cells.grouping.cell[self.nodes]
        self.by_cell = np.argsort(cell, kind="stable").astype(np.int32)
        self.live, first = np.unique(cell[self.by_cell], return_index=True)
        self.first = np.append(first, len(cell))
        low, per_step = cells.grouping.scale.tolist()
        # whoever is within rounding of the best must be seen too, or a tie could be missed
        self.limits = low, per_step, 4 * train.slack(onto), GUARD
        self.found = Top2.none((1, len(query.asking)))
        self.least = np.full(len(query.asking), -np.inf)
        if query.within is not None:  # a float32 score below this is surely farther
            with np.errstate(over="ignore"):  # whatever squares to infinity excludes nobody
                self.least = train.metric.score_of(query.within) - 2 * train.slack(onto)

    def answer(self) -> Found:
        """Search, measure what may matter, and decide."""
        asking, best = self.query.asking, self.found.best[0]
        Work(blocks(len(asking), BLOCK)).run(lambda: self.meet)
        answer = Found.nothing(len(asking))
        near = np.flatnonzero((best >= self.least) & np.isfinite(best))
        if len(near):
            part, spaces = [self.query.only(near)], (self.train, self.onto)
            found, threads = self.found.at(near), n_threads()
            [sure] = decide(found, asking[near], spaces, part, threads, self._settle)
            answer.row[near], answer.distance[near] = sure.row, sure.distance
        return answer

    def meet(self, block: slice) -> None:
        """Take a block of asking nodes through the cells that may matter to them."""
        asked = self.onto.left, self.query.asking[block].astype(np.int32), self.least[block]
        offered = self.train.right, self.nodes, self.by_cell, self.live, self.first
        meet_cells(asked, offered, self.peak, self.limits, ROUNDS, self.found.of(0, block))

    def _settle(self, train: Space, onto: Space, query: Query) -> Found:
        """Measure everything in the cells that may hold the best; the nearest, lowest row wins.

        Where those cells hold much of the support, scoring all of it first is cheaper.
        """
        asking, answer = query.asking, Found.nothing(len(query.asking))
        low, per_step, margin, guard = self.limits
        best = self.found.best[0][np.searchsorted(self.query.asking, asking)].astype(np.float64)
        needed = np.clip(np.floor((best - margin - low) * per_step - guard) + 1, 0, TOP)
        size, crowded = np.diff(self.first), np.zeros(len(asking), dtype=bool)
        for start in range(0, len(asking), SETTLE):
            part = slice(start, start + SETTLE)
            near = self.peak[np.ix_(asking[part], self.live)] >= needed[part, None]
            crowded[part] = CROWDED * (near @ size) > len(self.nodes)
            quiet = start + np.flatnonzero(~crowded[part])
            if len(quiet):
                measured = self._measure(asking[quiet], near[quiet - start])
                answer.row[quiet], answer.distance[quiet] = measured
        if crowded.any():
            found = settle(train, onto, query.only(crowded))
            answer.row[crowded], answer.distance[crowded] = found.row, found.distance
        return answer

    def _measure(self, asking: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest in the cells that are `near` (n_asking, n_live) each node."""
        query = self.query
        which, c = np.nonzero(near)
        size = self.first[c + 1] - self.first[c]
        which = np.repeat(which, size)
        skipped = np.cumsum(size) - size
        place = np.arange(len(which)) - np.repeat(skipped - self.first[c], size)
        candidate = self.by_cell[place]
        exact = self.onto.node_distances(asking[which], self.train, query.candidates[candidate])
        order = np.lexsort((query.rows[candidate], exact, which))
        winner = order[np.searchsorted(which[order], np.arange(len(asking)))]
        return query.rows[candidate[winner]], exact[winner]
