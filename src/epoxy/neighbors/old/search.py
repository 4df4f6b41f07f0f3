"""Direct search: one pass of matrix multiplication that serves every source at once.

The candidates are the union of all supports and lie along the rows of a tile; each source then
takes the column-wise maximum over *its* rows of the tile, so the multiplication is done once,
whatever the number of sources, and the rest costs 0.2 ns per supporting row and asking row. Where
candidates ask too, of their own space or of one that asks back, a tile of two blocks of them is used
twice, turned around the second time. Next
to the best score the second best is kept: where the two are farther apart than rounding can explain,
the winner is proven and is measured in float64; the few others are searched again and decided there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...progress import Progress, silent
from ..workers import Work, n_threads
from . import kernels
from .kernels import multiply, turned
from .space import Space

NONE = -1
TILE = 1024
SMALL = 5e7  # multiplications and additions that one thread does before two have started
SETTLE_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Query:
    """One source's question: which of its supporting nodes is nearest to each asking node.

    With `within`, an answer farther than that is of no use to the node that asks, and need not be
    given: what is already known spares the search most of its work.
    """

    candidates: np.ndarray  # (n_candidates,) nodes of train, ascending
    rows: np.ndarray  # (n_candidates,) int32, the lowest supporting row of each
    asking: np.ndarray  # (n_asking,) nodes of the asking space, ascending
    within: np.ndarray | None = None  # (n_asking,) float64

    @classmethod
    def of(cls, train: Space, mask: np.ndarray, asking: np.ndarray) -> Query:
        """From a mask over the rows of `train`."""
        rows = np.flatnonzero(mask).astype(np.int32)
        if train.n_nodes == len(train):
            return cls(rows, rows, asking)
        nodes, at = np.unique(train.node[rows], return_index=True)
        return cls(nodes, rows[at], asking)

    def only(self, which: np.ndarray) -> Query:
        """The same question from some of the asking nodes, answered however far it is."""
        return Query(self.candidates, self.rows, self.asking[which])


@dataclass(frozen=True, eq=False)
class Found:
    """Who is nearest: for each asking node, or for each row and source."""

    row: np.ndarray  # int32, the nearest supporting train row; −1 where nobody supports
    distance: np.ndarray  # float64, the same shape; inf where nobody supports

    def freeze(self) -> Found:
        """Make the arrays read-only, before they are shared."""
        self.row.flags.writeable = False
        self.distance.flags.writeable = False
        return self

    @classmethod
    def nothing(cls, count: int) -> Found:
        """No answer for anybody."""
        return cls(np.full(count, NONE, dtype=np.int32), np.full(count, np.inf))


@dataclass(frozen=True, eq=False)
class Top2:
    """The two best scores so far of every query and asking node, and who has the best."""

    best: np.ndarray  # (n_queries, n_asking) float32
    second: np.ndarray  # (n_queries, n_asking) float32
    winner: np.ndarray  # (n_queries, n_asking) int32, position among the query's candidates

    @classmethod
    def none(cls, shape: tuple[int, int]) -> Top2:
        """Nothing was offered yet."""
        low = np.full(shape, -np.inf, dtype=np.float32)
        return cls(low, low.copy(), np.zeros(shape, dtype=np.int32))

    def of(self, number: int, block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One query's scores for a block of asking nodes, as the kernels take them."""
        return self.best[number, block], self.second[number, block], self.winner[number, block]

    def at(self, columns: np.ndarray) -> Top2:
        """Some of the asking nodes."""
        return Top2(self.best[:, columns], self.second[:, columns], self.winner[:, columns])

    def merge(self, other: Top2) -> None:
        """Take what another thread found among other candidates."""
        higher = other.best > self.best
        loser = np.where(higher, self.best, other.best)
        np.maximum(self.second, np.maximum(other.second, loser), out=self.second)
        np.maximum(self.best, other.best, out=self.best)
        self.winner[higher] = other.winner[higher]


def search(
    train: Space, onto: Space, queries: Sequence[Query], progress: Progress = silent
) -> list[Found]:
    """Answer all the queries exactly, ties to the lowest train row."""
    return _swept([(train, onto, queries)], progress)[0]


def search_both(
    one: Space, two: Space, from_one: Sequence[Query], from_two: Sequence[Query]
) -> tuple[list[Found], list[Found]]:
    """Answer what nodes of two ask of candidates in one, and the other way round.

    A product of two nodes that are candidates both, each on its side, is used for both questions.
    """
    there, here = _swept([(one, two, from_one), (two, one, from_two)], silent)
    return there, here


def _swept(
    asked: list[tuple[Space, Space, Sequence[Query]]], progress: Progress
) -> list[list[Found]]:
    """The answers to the questions of one direction, or of both between two spaces."""
    answers = [[Found.nothing(len(query.asking)) for query in each[2]] for each in asked]
    flows, owners = [], []
    for (train, onto, queries), mine in zip(asked, answers):
        live = [at for at, each in enumerate(queries) if len(each.candidates) and len(each.asking)]
        if live:
            flows.append(_Flow(train, onto, [queries[at] for at in live]))
            owners.append((mine, live))
    if flows:
        sweep = _Sweep(flows)
        threads = 1 if sweep.multiplications < SMALL else n_threads()
        Work(sweep.tasks).run(sweep.worker, threads=threads, progress=progress)
        for number, (flow, (mine, live)) in enumerate(zip(flows, owners)):
            spaces = flow.train, flow.onto
            best = sweep.found(number)
            found = decide(best, flow.asking, spaces, flow.queries, threads, settle)
            for at, answer in zip(live, found, strict=True):
                mine[at] = answer
    return answers


class _Flow:
    """The candidates of one space on their way to the asking nodes of another, or of the same."""

    def __init__(self, train: Space, onto: Space, queries: list[Query]) -> None:
        self.train, self.onto, self.queries = train, onto, queries
        self.candidates = _union([query.candidates for query in queries], train.n_nodes)
        self.asking = _union([query.asking for query in queries], onto.n_nodes)
        self.places = [np.searchsorted(self.candidates, query.candidates) for query in queries]
        self.right = _take(train.right, self.candidates)
        self.left = self.right if train.left is train.right else _take(train.left, self.candidates)
        count = len(self.candidates)
        self.parts = [slice(a, min(a + TILE, count)) for a in range(0, count, TILE)]

    def ask_first(self, nodes: np.ndarray) -> None:
        """Let these nodes be the first that ask, in their order."""
        others = np.setdiff1d(self.asking, nodes, assume_unique=True)
        self.asking = np.concatenate([nodes, others])

    @property
    def multiplications(self) -> float:
        """How much work it is, if no product is used twice."""
        return float(len(self.asking) * len(self.candidates) * self.train.left.shape[1])

    def offer(self, tile: np.ndarray, part: slice, mine: Top2, block: slice) -> None:
        """Let every source take the best of its own rows of the tile."""
        for number, places in enumerate(self.places):
            first, last = np.searchsorted(places, [part.start, part.stop])
            if first < last:
                names = np.arange(first, last, dtype=np.int32)
                chosen = places[first:last] - part.start
                kernels.best_two(tile, chosen, names, *mine.of(number, block))


class _Sweep:
    """All candidates against all asking nodes; threads keep their own best, merged at the end.

    Where most candidates of one flow ask in the flow that comes back (in a search of a space in itself
    that is the same flow), they are the first to ask there, and a tile of two blocks of candidates
    serves both its sides.
    """

    def __init__(self, flows: list[_Flow]) -> None:
        self.flows = flows
        there, back = flows[0], flows[-1]
        turns = there is not back or there.onto is there.train
        self.mirrors = turns and _mostly(there.candidates, back) and _mostly(back.candidates, there)
        if self.mirrors:
            there.ask_first(back.candidates)
            if back is not there:
                back.ask_first(there.candidates)
        self._found: list[list[Top2]] = []

    @property
    def tasks(self) -> list[tuple[int, int | slice]]:
        """Strips of the matrix of candidates by number, the longest first, then blocks of other nodes."""
        made: list[tuple[int, int | slice]] = []
        if self.mirrors:
            made += [(0, number) for number in range(len(self.flows[0].parts))]
        for number, flow in enumerate(self.flows):
            other = self.flows[len(self.flows) - 1 - number]
            shift = len(other.candidates) if self.mirrors else 0
            for each in blocks(len(flow.asking) - shift, TILE):
                made.append((number, slice(each.start + shift, each.stop + shift)))
        return made

    @property
    def multiplications(self) -> float:
        """How much work it is."""
        return sum(each.multiplications for each in self.flows)

    def found(self, number: int) -> Top2:
        """The best of one flow over all threads."""
        first, *others = [each[number] for each in self._found]
        for other in others:
            first.merge(other)
        return first

    def worker(self) -> Callable[[tuple[int, int | slice]], None]:
        """One thread's way to do a task."""
        mine = [Top2.none((len(each.places), len(each.asking))) for each in self.flows]
        self._found.append(mine)
        buffers = np.empty((2, TILE * TILE), dtype=np.float32)

        def sweep(task: tuple[int, int | slice]) -> None:
            number, what = task
            if isinstance(what, slice):
                flow = self.flows[number]
                asking = _take(flow.onto.left, flow.asking[what])
                for part in flow.parts:
                    tile = multiply(flow.right[part], asking, buffers[0])
                    flow.offer(tile, part, mine[number], what)
            else:
                self._strip(what, mine, buffers)

        return sweep

    def _strip(self, number: int, mine: list[Top2], buffers: np.ndarray) -> None:
        """A block of candidates against those of the flow that comes back, both ways."""
        there, back = self.flows[0], self.flows[-1]
        rows = there.parts[number]
        for columns in back.parts[number if back is there else 0 :]:
            tile = multiply(there.right[rows], back.left[columns], buffers[0])
            there.offer(tile, rows, mine[0], columns)
            if back is not there or columns is not rows:
                back.offer(turned(tile, buffers[1]), columns, mine[-1], rows)


def _mostly(candidates: np.ndarray, back: _Flow) -> bool:
    """Whether more than half of the candidates ask in the flow that comes back."""
    return bool(np.isin(candidates, back.asking, assume_unique=True).mean() > 0.5)


Settle = Callable[[Space, Space, Query], Found]


def decide(
    found: Top2,
    asking: np.ndarray,
    spaces: tuple[Space, Space],
    queries: list[Query],
    threads: int,
    settle: Settle,
) -> list[Found]:
    """Measure all proven winners in float64 at once, and `settle` the rest.

    `asking` are the nodes that the columns of `found` stand for; `spaces` are train and onto.
    """
    train, onto = spaces
    where = np.empty(onto.n_nodes, dtype=np.int64)
    where[asking] = np.arange(len(asking))
    winners = [found.winner[number, where[query.asking]] for number, query in enumerate(queries)]
    mine = np.concatenate([query.asking for query in queries])
    nodes = np.concatenate(
        [query.candidates[winner] for query, winner in zip(queries, winners, strict=True)]
    )
    distance = np.empty(len(mine))

    def measure(part: slice) -> None:
        distance[part] = onto.node_distances(mine[part], train, nodes[part])

    Work(blocks(len(mine), 4096)).run(lambda: measure, threads=threads)
    margin = np.float32(2 * train.slack(onto))
    answers, start = [], 0
    for number, (query, winner) in enumerate(zip(queries, winners, strict=True)):
        at = where[query.asking]
        answer = Found(query.rows[winner], distance[start : start + len(winner)])
        start += len(winner)
        doubtful = found.best[number, at] - found.second[number, at] <= margin
        if doubtful.any():
            settled = settle(train, onto, query.only(doubtful))
            answer.row[doubtful], answer.distance[doubtful] = settled.row, settled.distance
        answers.append(answer)
    return answers


def settle(train: Space, onto: Space, query: Query) -> Found:
    """Measure everything within rounding of the best in float64; the nearest, lowest row wins."""
    answer = Found.nothing(len(query.asking))
    candidates = _take(train.right, query.candidates)
    margin = np.float32(2 * train.slack(onto))
    block = max(1, SETTLE_BYTES // (4 * len(candidates)))
    for start in range(0, len(query.asking), block):
        part = query.asking[start : start + block]
        score = onto.left[part] @ candidates.T
        which, candidate = np.nonzero(score >= score.max(axis=1, keepdims=True) - margin)
        exact = onto.node_distances(part[which], train, query.candidates[candidate])
        order = np.lexsort((query.rows[candidate], exact, which))
        winner = order[np.searchsorted(which[order], np.arange(len(part)))]
        answer.row[start : start + block] = query.rows[candidate[winner]]
        answer.distance[start : start + block] = exact[winner]
    return answer


def blocks(count: int, size: int) -> list[slice]:
    """Equal slices of at most `size`, as many for each thread."""
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


def _union(parts: list[np.ndarray], count: int) -> np.ndarray:
    """The numbers below `count` that occur in any part, ascending."""
    if len(parts) == 1:
        return parts[0]
    present = np.zeros(count, dtype=bool)
    for part in parts:
        present[part] = True
    return np.flatnonzero(present)
