"""Who is heard, and how far each source lends: both by what the other sources and the rows around say.

The *support* of a vote is how much more probable the others find its class there than on average, without
the source itself:

    support(x, k) = (C'(x, k) + 2 · around'(x, k)) / (n'(x) + 2) − T̄'(k)

A source lends, nearest first, to at most twice as many rows as it votes on itself, as far as what it lends
is supported four fifths as well as what it says itself, and never to a row with an equal vector: there it
looked, and was silent. A source whose own votes are not supported at all is not heard, where the others are
better supported without it: in the mean over classes of those that mostly name each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..loans import Loans
from ..numerics import log_odds
from ..votes import ABSTAIN
from ..workspace import TRAIN
from .around import Thought, Vectors
from .constants import ASKED, BETTER, BUDGET, CHANCE, FAINT, FLOOR, SUPPORTED, VOICES
from .tally import counted, taught

FEWEST = 3
"""Rows below which nothing is lent by rule."""


@dataclass(frozen=True, eq=False)
class Supports:
    """What the others say of the votes of each source, while some are heard."""

    votes: np.ndarray  # (n_sources, n_rows), own
    heard: np.ndarray  # (n_sources,) bool
    prior: np.ndarray
    vectors: Vectors
    counts: np.ndarray  # (n_rows, n_classes) of heard sources
    thought: Thought

    @classmethod
    def of(
        cls, votes: np.ndarray, heard: np.ndarray, prior: np.ndarray, vectors: Vectors
    ) -> Supports:
        """Of train votes; (n_sources, n_rows)."""
        counts = counted(votes[heard], len(prior))
        node = vectors.lists[TRAIN].at
        teach = Thought.of(node, vectors.n_nodes, taught(counts, prior), counts.sum(axis=1) > 0)
        return cls(votes, heard, prior, vectors, counts, teach)

    def of_source(
        self, source: int, rows: np.ndarray, said: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of classes `said` on some rows, the source not asked; and the average T̄' of the classes."""
        own, lists = self.votes[source], self.vectors.lists[TRAIN]
        mine = np.flatnonzero(own != ABSTAIN)
        counts, thought = self.counts, self.thought
        if self.heard[source]:
            counts = counts.copy()
            counts[mine, own[mine]] -= 1
            without, node = counts[mine], lists.at[mine]
            was = taught(self.counts[mine], self.prior)
            now = taught(without, self.prior)
            thought = thought.without(node, was, now, without.sum(axis=1) > 0)
        node = lists.at[rows]
        share = lists.mean(thought, np.maximum(node, 0))[np.arange(len(rows)), said]
        around = thought.base[said] + np.where(node >= 0, share, 0.0)
        at_rows = counts[rows]
        here = at_rows[np.arange(len(rows)), said]
        found = (here + VOICES * around) / (at_rows.sum(axis=1) + VOICES)
        return found - thought.base[said], thought.base

    def by_votes(self, source: int) -> float:
        """Of all that a source says itself, as log-odds."""
        own = self.votes[source]
        mine = np.flatnonzero(own != ABSTAIN)
        if not len(mine):
            return 0.0
        found, base = self.of_source(source, mine, own[mine])
        total = 0.0
        for label in np.unique(own[mine]).tolist():
            some = own[mine] == label
            start = np.clip(base[label], FAINT, 1 - FAINT)
            share = np.clip(found[some].mean() + base[label], FAINT, 1 - FAINT)
            total += float(some.mean() * (log_odds(share) - log_odds(start)))
        return total

    def all(self) -> np.ndarray:
        """Of every source; (n_sources,)."""
        return np.array([self.by_votes(source) for source in range(len(self.votes))])

    def radius(self, source: int, loans: Loans) -> float:
        """How far a source lends by rule; NaN for one that lends nothing."""
        own = self.votes[source]
        mine = np.flatnonzero(own != ABSTAIN)
        silent = np.flatnonzero(
            (own == ABSTAIN) & np.isfinite(loans.distance) & (loans.distance > 0)
        )
        most = round(BUDGET * len(mine))
        if len(silent) < FEWEST or most < FEWEST:
            return float("nan")
        far = loans.distance[silent]
        if len(far) > most:
            near = far <= np.partition(far, most - 1)[most - 1]
            silent, far = silent[near], far[near]
        order = np.argsort(far, kind="stable")[:most]
        rows = np.concatenate([mine, silent[order]])
        said = np.concatenate([own[mine], loans.vote[silent[order]]])
        found = self.of_source(source, rows, said)[0]
        own_support = found[: len(mine)].mean()
        if not own_support > 0:
            return float("nan")
        mean = np.cumsum(found[len(mine) :]) / np.arange(1, len(order) + 1)
        good = np.flatnonzero(mean >= max(SUPPORTED * own_support, FLOOR))
        good = good[good >= FEWEST - 1]
        return float(far[order[good[-1]]]) if len(good) else float("nan")


def judged(votes: np.ndarray, prior: np.ndarray, vectors: Vectors) -> tuple[Supports, np.ndarray]:
    """Who is heard, and the support of each source; nobody who alone names a class is silenced.

    `votes` (n_sources, n_rows) are those of train rows.
    """
    number = (votes != ABSTAIN).sum(axis=1)
    named = np.stack([(votes == label).sum(axis=1) for label in range(len(prior))]).argmax(axis=0)
    now = Supports.of(votes, np.ones(len(votes), dtype=bool), prior, vectors)
    found, asked = now.all(), 0
    refused = np.zeros(len(votes), dtype=bool)
    while asked < ASKED:
        maybe = now.heard & (found < 0) & (number >= CHANCE) & ~refused
        maybe &= [_others_name(votes, now.heard, at) for at in range(len(votes))]
        if not maybe.any():
            break
        worst = int(np.where(maybe, found * number, np.inf).argmin())
        others = now.heard.copy()
        others[worst] = False
        trial = Supports.of(votes, others, prior, vectors)
        then, asked = trial.all(), asked + 1
        gain = (then - found)[others]
        by_class = [gain[named[others] == label].mean() for label in np.unique(named[others])]
        if np.mean(by_class) > BETTER:
            now, found = trial, then
        else:
            refused[worst] = True
    return now, found


def _others_name(votes: np.ndarray, heard: np.ndarray, source: int) -> bool:
    """Whether other heard sources name every class that a source names."""
    rest = heard.copy()
    rest[source] = False
    mine = np.unique(votes[source][votes[source] != ABSTAIN])
    return all(bool((votes[rest] == label).any()) for label in mine.tolist())
