"""Probabilities of one class on all train rows, as the F1 rule asks for them, over shards."""

from __future__ import annotations

import numpy as np

from ..fusion.decision import ENOUGH
from ..scoring import ratios
from .ranks import in_order, keep_sorted, ranked
from .run import Run
from .shard import Kept, Shard


def rank_rows(kept: Kept, shard: Shard, proba: np.ndarray) -> None:
    """Keep a shard's probabilities of the class in order."""
    keep_sorted(kept, shard, proba)


class Ranked:
    """What `decision.RankedRows` says of probabilities in memory, of those of all shards."""

    def __init__(
        self, run: Run, kept: Kept, n_rows: int, called: np.ndarray, positive: int
    ) -> None:
        self.run, self.kept, self.n_rows = run, kept, n_rows
        self.called = float(called / n_rows)

    def falling(self, rank: int) -> float:
        """The probability of that rank, the highest first; 0 behind the last."""
        if rank >= self.n_rows:
            return 0.0
        at = self.n_rows - 1 - rank
        return ranked(self.run, self.kept, [at], f"falling-{rank}")[at]

    def from_on(self, cut: float) -> float:
        """The share of rows at least so probable."""
        below = sum(
            int(np.searchsorted(self.kept.mapped(shard, "ascending"), cut))
            for shard in self.run.shards
        )
        return (self.n_rows - below) / self.n_rows

    def threshold(self, shown: np.ndarray, right: np.ndarray) -> float:
        """The threshold with the best F1, by `decision.f1_threshold`, all rows read in order twice."""
        total = 0.0
        for part in in_order(self.run, self.kept, self.n_rows, "in-order"):
            total = float(np.cumsum(np.concatenate([[total], part]))[-1])
        share = right.sum() / (right.sum() + ENOUGH)
        order = np.argsort(shown)
        ranks, mine = shown[order], np.concatenate([[0.0], np.cumsum(right[order].astype(float))])
        best, where = -np.inf, 0.0
        done, carried, last = 0, 0.0, 0.0
        low = -np.inf
        for part in in_order(self.run, self.kept, self.n_rows, "in-order"):
            ends = part[-1] if len(part) and done + len(part) < self.n_rows else np.inf
            extra = ranks[(ranks > low) & (ranks <= ends)]
            low = ends
            values = np.unique(np.concatenate([part, extra]))
            if not len(values):
                continue
            places = (np.concatenate([[last], values[:-1]]) + values) / 2
            sums = np.cumsum(np.concatenate([[carried], part]))
            below = np.searchsorted(part, places)
            found = total - sums[below]
            curve = (1 - share) * ratios(found, self.n_rows - (done + below), total)[2]
            under = np.searchsorted(ranks, places)
            hit = mine[-1] - mine[under]
            curve += share * ratios(hit, len(ranks) - under, mine[-1])[2]
            at = int(curve.argmax())
            if curve[at] > best:
                best, where = float(curve[at]), float(places[at])
            done, carried, last = done + len(part), float(sums[-1]), float(values[-1])
        return where
