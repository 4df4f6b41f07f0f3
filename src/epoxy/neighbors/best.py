"""The best two scores of each question while tiles go by, and how they are decided.

Where the two are farther apart than rounding can explain, the winner is proven and is measured in
float64; the few others are searched again and decided there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .asks import Ask, Found, Support, blocks, settle
from .space import Space
from .workers import Work

__all__ = ["Best", "decided"]

Settle = Callable[[Space, Support, Space, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Best:
    """The two best scores so far of every ask and query, and who has the best."""

    best: np.ndarray  # (n_asks, n_queries) float32
    second: np.ndarray  # (n_asks, n_queries) float32
    winner: np.ndarray  # (n_asks, n_queries) int32, position in the ask's support
    slack: float  # how far a score may be off

    @classmethod
    def none(cls, shape: tuple[int, int], slack: float) -> Best:
        """Nothing was offered yet."""
        low = np.full(shape, -np.inf, dtype=np.float32)
        return cls(low, low.copy(), np.zeros(shape, dtype=np.int32), slack)

    def of(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One ask's scores, as the kernel takes them."""
        return self.best[number], self.second[number], self.winner[number]

    def at(self, columns: np.ndarray) -> Best:
        """Some of the queries."""
        best, second, winner = (each[:, columns] for each in (self.best, self.second, self.winner))
        return Best(best, second, winner, self.slack)

    def merge(self, other: Best) -> None:
        """Take what another thread found among other candidates."""
        higher = other.best > self.best
        loser = np.where(higher, self.best, other.best)
        np.maximum(self.second, np.maximum(other.second, loser), out=self.second)
        np.maximum(self.best, other.best, out=self.best)
        self.winner[higher] = other.winner[higher]


def decided(
    found: Best,
    queries: np.ndarray,
    spaces: tuple[Space, Space],
    asks: list[Ask],
    threads: int,
    settle: Settle = settle,
) -> list[Found]:
    """Measure all proven winners in float64 at once, and settle the rest.

    `queries` are the nodes that the columns of `found` stand for; `spaces` are train and onto.
    """
    train, onto = spaces
    where = np.empty(onto.n_nodes, dtype=np.int64)
    where[queries] = np.arange(len(queries))
    winners = [found.winner[number, where[ask.queries]] for number, ask in enumerate(asks)]
    asking = np.concatenate([ask.queries for ask in asks])
    nodes = np.concatenate(
        [ask.support.nodes[winner] for ask, winner in zip(asks, winners, strict=True)]
    )
    distance = np.empty(len(asking))

    def measure(part: slice) -> None:
        distance[part] = onto.node_distances(asking[part], train, nodes[part])

    Work(blocks(len(asking), 4096)).run(lambda: measure, threads=threads)
    margin = np.float32(2 * found.slack)
    answers, start = [], 0
    for number, (ask, winner) in enumerate(zip(asks, winners, strict=True)):
        at = where[ask.queries]
        answer = Found(ask.support.rows[winner], distance[start : start + len(winner)])
        start += len(winner)
        doubtful = found.best[number, at] - found.second[number, at] <= margin
        if doubtful.any():
            settled = settle(train, ask.support, onto, ask.queries[doubtful])
            answer.row[doubtful], answer.distance[doubtful] = settled
        answers.append(answer)
    return answers
