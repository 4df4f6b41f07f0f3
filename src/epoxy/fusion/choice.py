"""Was it random? What tells labelled rows that a person or a tool chose from rows drawn blindly.

Of the train rows only counts are needed, and counts of shards add: how many are less sure than each
labelled row, how many have so many votes, on how many votes conflict.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numerics import softmax

FEWEST = 10
SURE = 1e-6
"""Level of each test: no false alarm in some hundred random draws of real data."""
MOVED, DEVIATIONS = 0.03, 5.0
SMALL = 10_000
"""Rows up to which the two-sample test is exact."""


def margin(logits: np.ndarray) -> np.ndarray:
    """How far the most probable class is ahead."""
    top = np.sort(softmax(logits), axis=1)[:, -2:]
    return np.asarray(top[:, 1] - top[:, 0])


@dataclass(frozen=True, eq=False)
class Crowd:
    """Train rows, as some labelled rows are compared with them."""

    n_rows: int
    below: np.ndarray  # (m,) rows of which the model is less sure than of each labelled row
    up_to: np.ndarray  # (m,) the same, and those as sure
    cast: np.ndarray  # (n_sources + 1,) rows with so many votes
    quarrels: int  # rows on which votes conflict

    @classmethod
    def of(cls, mine: np.ndarray, margins: np.ndarray, votes: np.ndarray) -> Crowd:
        """Train rows by how sure the model without labels is of them, and by their votes."""
        ascending = np.sort(margins)
        below, up_to = (np.searchsorted(ascending, mine, side) for side in ("left", "right"))
        cast = np.bincount((votes >= 0).sum(axis=0), minlength=len(votes) + 1)
        quarrels = int(np.count_nonzero(_conflicts(votes)))
        return cls(len(margins), below, up_to, cast, quarrels)


def looks_chosen(
    margins: np.ndarray,
    votes: np.ndarray,
    crowd: Crowd,
    features: np.ndarray | None,
    gram: np.ndarray | None,
) -> str:
    """Why labelled rows look chosen, in words; empty where they look drawn at random.

    Of the labelled rows: how sure the model without labels is, the votes (n_sources, n_rows), the
    features. `gram` is ΦᵀΦ of the train rows.
    """
    from scipy import stats

    if len(margins) < FEWEST:
        return ""
    if _ks(margins, crowd.below, crowd.up_to, crowd.n_rows) < SURE:
        return "the model without labels is more or less sure of them than of other rows"
    cast = (votes >= 0).sum(axis=0)
    up_to = np.cumsum(crowd.cast)
    if _ks(cast, (up_to - crowd.cast)[cast], up_to[cast], crowd.n_rows) < SURE:
        return "they have more or fewer votes than other rows"
    own = int(np.count_nonzero(_conflicts(votes)))
    both = [(own, len(margins) - own), (crowd.quarrels, crowd.n_rows - crowd.quarrels)]
    table = np.array(both)
    if (table.sum(axis=0) > 0).all():
        found = stats.chi2_contingency(table, correction=False)
        if found[1] < SURE:
            return "votes conflict on them more or less often than on other rows"
    if features is None or gram is None:
        return ""
    return _elsewhere(features, crowd.n_rows, gram)


def _ks(mine: np.ndarray, below: np.ndarray, up_to: np.ndarray, n_rows: int) -> float:
    """The p-value of the two-sample Kolmogorov-Smirnov test, from counts of the other sample alone.

    The distance of two step functions is largest at a value of either sample; between two values of
    mine the other only rises, so it is enough to look at mine, and right before them.
    """
    from scipy import stats

    if not n_rows:
        return 1.0
    values, first, number = np.unique(mine, return_index=True, return_inverse=True)
    less, most = below[first], up_to[first]
    if max(len(mine), n_rows) <= SMALL:  # samples of the same ranks
        ends = np.concatenate([[0], most])
        other = [
            np.repeat(2 * at + side, count)
            for at, (start, low, high) in enumerate(zip(ends, less, most))
            for side, count in ((0, low - start), (1, high - low))
        ]
        rest = np.full(n_rows - most[-1], 2 * len(values))
        return float(stats.ks_2samp(2 * number.ravel() + 1, np.concatenate([*other, rest])).pvalue)
    share = np.searchsorted(np.sort(mine), values, "right") / len(mine)
    before = np.concatenate([[0.0], share[:-1]])
    gap = max(float((share - most / n_rows).max()), float((less / n_rows - before).max()))
    return float(stats.kstwo.sf(gap, round(len(mine) * n_rows / (len(mine) + n_rows))))


def _conflicts(votes: np.ndarray) -> np.ndarray:
    """Rows on which two sources name different classes."""
    highest = votes.max(axis=0, initial=-1)
    beyond = np.iinfo(votes.dtype).max
    lowest = np.where(votes >= 0, votes, beyond).min(axis=0, initial=beyond)
    return np.asarray((highest >= 0) & (highest != lowest))


def _elsewhere(rows: np.ndarray, n_train: int, gram: np.ndarray) -> str:
    """The labelled rows' mean lies farther from the centre than means of random rows do."""
    count = len(rows)
    mean = rows.mean(axis=0, dtype=np.float64)
    spread = float(rows.var(axis=0, dtype=np.float64).sum())
    whole = float(np.trace(gram)) / n_train
    # squared length of the mean of n random rows: mean whole / n, variance 2 tr(C²) / n²
    deviation = np.sqrt(2 * float(((gram / n_train) ** 2).sum())) / count
    length = float(mean @ mean)
    moved = (length - spread / count) / max(whole, 1e-30)
    if moved > MOVED and length > whole / count + DEVIATIONS * deviation:
        return "they lie in one region of the data"
    return ""
