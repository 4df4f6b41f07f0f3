"""The direct search over 8-bit codes (see `quantised` for why its answers are the same).

A thread takes a block of queries through all candidates. Each source keeps, per query, the few
candidates within the margin of its best; at the end of the block they are measured in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..progress import Progress
from . import quantised
from .asks import NONE, Ask, Found, blocks, settle, union
from .space import Space
from .workers import Work, n_threads

__all__ = ["coded_answers", "is_codable", "is_worth_coding"]

QUERIES = 1024
CANDIDATES = 1020  # a multiple of the six rows multiplied at once
ROOM = 64  # candidates listed per query and source before the list is given up
LOWEST, HIGHEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max
WORTH = 3e8  # multiplications from which encoding and measuring again pay
CROWD = 12  # measuring a survivor again costs as much as codes save on this many dimensions


def is_codable(space: Space) -> bool:
    """Whether 8-bit codes can stand for these vectors on this processor."""
    return space.metric.name == "cosine" and space.dimension >= 64 and quantised.available()


def is_worth_coding(train: Space, onto: Space, asks: Sequence[Ask]) -> bool:
    """Whether codes can be used here and will be faster."""
    queries = max(len(ask.queries) for ask in asks)
    candidates = max(len(ask.support.nodes) for ask in asks)
    if queries * candidates * train.dimension < WORTH or not is_codable(train):
        return False
    if train.codes.crowd * CROWD > train.dimension:
        return False
    return max(train.codes.typical_miss, onto.codes.typical_miss) < quantised.LARGEST_MISS


def coded_answers(train: Space, onto: Space, asks: list[Ask], progress: Progress) -> list[Found]:
    """Answer all the questions exactly, with one pass of integer multiplication."""
    sweep = _CodedSweep(train, onto, asks)
    Work(blocks(len(sweep.queries), QUERIES)).run(
        sweep.worker, threads=n_threads(), progress=progress
    )
    return [
        Found(
            sweep.row[number, sweep.where[ask.queries]],
            sweep.distance[number, sweep.where[ask.queries]],
        )
        for number, ask in enumerate(asks)
    ]


class _CodedSweep:
    """What the threads share: packed candidates, and the answers, each written by one thread."""

    def __init__(self, train: Space, onto: Space, asks: list[Ask]) -> None:
        self.train, self.onto, self.asks = train, onto, asks
        candidates = union([ask.support.nodes for ask in asks], train.n_nodes)
        self.queries = union([ask.queries for ask in asks], onto.n_nodes)
        self.places = [np.searchsorted(candidates, ask.support.nodes) for ask in asks]
        self.slack = train.codes.candidate_slack(candidates, onto.codes)
        self.packed = quantised.packed_rows(train.codes.words, candidates)
        self.where = np.zeros(onto.n_nodes, dtype=np.int64)
        self.where[self.queries] = np.arange(len(self.queries))
        self.float_slack = train.slack(onto)
        self.step = train.codes.scale * onto.codes.scale
        self.floor = np.full((len(asks), len(self.queries)), HIGHEST, dtype=np.int32)
        for number, ask in enumerate(asks):
            self.floor[number, self.where[ask.queries]] = self._first_floor(ask)
        self.row = np.full(self.floor.shape, NONE, dtype=np.int32)
        self.distance = np.full(self.floor.shape, np.inf)

    def _first_floor(self, ask: Ask) -> np.ndarray:
        """The score below which a candidate is surely farther than the node that asks cares for."""
        if ask.within is None:
            return np.full(len(ask.queries), LOWEST, dtype=np.int32)
        score = self.train.metric.score_of(ask.within) - self.float_slack
        with np.errstate(over="ignore"):
            steps = np.floor(score / self.step) - self.onto.codes.query_ease(ask.queries) // 2 - 3
        floor: np.ndarray = np.maximum(steps, LOWEST).astype(np.int32)
        return floor

    def worker(self) -> Callable[[slice], None]:
        """One thread's way to do a block of queries."""
        from . import int8_kernels as int8

        sixes = CANDIDATES // int8.ROWS
        tile = np.empty(CANDIDATES * QUERIES, dtype=np.int32)

        def sweep(block: slice) -> None:
            nodes = self.queries[block]
            codes = self.onto.codes
            columns = quantised.packed_columns(codes.words, nodes, codes.total)
            lists = _Lists(codes.query_ease(nodes), len(columns[1]), self.floor[:, block])
            for start in range(0, len(self.packed), sixes):
                part = self.packed[start : start + sixes]
                shape = int8.ROWS * len(part), len(columns[1])
                scores = tile[: shape[0] * shape[1]].reshape(shape)
                int8.multiply(part, *columns, scores)
                self._offer(scores, start * int8.ROWS, nodes, lists)
            for number in range(len(self.asks)):
                self._decide(number, block, lists)

        return sweep

    def _offer(self, scores: np.ndarray, start: int, nodes: np.ndarray, lists: _Lists) -> None:
        from . import int8_kernels as int8

        step = self.step, self.float_slack
        for number, places in enumerate(self.places):
            first, last = np.searchsorted(places, [start, start + len(scores)])
            if first < last:
                names = np.arange(first, last, dtype=np.int32)
                mine = places[first:last]
                support = self.asks[number].support.nodes
                exact = self.onto.left, nodes, self.train.right, support, step
                slack, state = self.slack[mine], lists.of(number)
                int8.lift(scores, mine - start, names, slack, state, exact)
                int8.gather(scores, mine - start, names, slack, state, exact)

    def _decide(self, number: int, block: slice, lists: _Lists) -> None:
        """Measure what is listed; the nearest wins, of equals the lowest row."""
        nodes, support = self.queries[block], self.asks[number].support
        first, names = lists.harvest(number)
        size = np.diff(first)[: len(nodes)]
        listed = np.flatnonzero(size)
        if len(listed):
            exact = self.onto.node_distances(
                np.repeat(nodes, size), self.train, support.nodes[names]
            )
            starts = first[listed]
            least = np.minimum.reduceat(exact, starts)
            ties = exact == np.repeat(least, size[listed])
            rows = np.where(ties, support.rows[names], np.iinfo(np.int32).max)
            self.row[number, block][listed] = np.minimum.reduceat(rows, starts)
            self.distance[number, block][listed] = least
        given_up = np.flatnonzero(lists.count[number, : len(nodes)] < 0)
        if len(given_up):
            settled = settle(self.train, support, self.onto, nodes[given_up])
            self.row[number, block][given_up], self.distance[number, block][given_up] = settled


class _Lists:
    """Candidates near the best of each query of a block, per ask."""

    def __init__(self, ease: np.ndarray, width: int, floor: np.ndarray) -> None:
        asks, count = floor.shape
        self.ease = np.zeros(width, dtype=np.int32)
        self.ease[:count] = ease
        self.floor = np.full((asks, width), HIGHEST, dtype=np.int32)  # nobody asks: nothing passes
        self.floor[:, :count] = floor
        self.count = np.zeros((asks, width), dtype=np.int32)
        self.keys = np.empty((asks, width, ROOM), dtype=np.uint64)

    def of(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """One ask's lists, as the kernel takes them."""
        return self.floor[number], self.ease, self.count[number], self.keys[number]

    def harvest(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The names listed for each query, one after the other, and where each query's start."""
        from . import int8_kernels as int8

        count = self.count[number]
        first = np.empty(len(count) + 1, dtype=np.int64)
        names = np.empty(int(np.maximum(count, 0).sum()), dtype=np.int32)
        int8.harvest(self.floor[number], count, self.keys[number], first, names)
        return first, names[: first[-1]]
