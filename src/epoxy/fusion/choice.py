"""Was it random? What tells labelled rows that a person or a tool chose from rows drawn blindly.

Of the train rows only counts are needed, and counts of shards add: how many are less sure than each
labelled row, how many have so many votes, on how many votes conflict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..numerics import softmax

FEWEST = 10
SURE = 1e-6
"""Level of each test: no false alarm in some hundred random draws of real data."""
MOVED, DEVIATIONS = 0.03, 5.0


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
    if _independence(np.array(both)) < SURE:
        return "votes conflict on them more or less often than on other rows"
    if features is None or gram is None:
        return ""
    return _elsewhere(features, crowd.n_rows, gram)


def _independence(table: np.ndarray) -> float:
    """The p-value of Pearson's test of a table of two rows and two columns."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(table.sum(), 1)
    if not expected.all():
        return 1.0
    distance = float(((table - expected) ** 2 / expected).sum())
    return math.erfc(math.sqrt(distance / 2))


def _ks(mine: np.ndarray, below: np.ndarray, up_to: np.ndarray, n_rows: int) -> float:
    """The p-value of the two-sample Kolmogorov-Smirnov test, from counts of the other sample alone.

    The distance of two step functions is largest at a value of either sample; between two values of
    mine the other only rises, so it is enough to look at mine, and right before them. m and n rows tell
    as much as mn / (m + n) rows and a known distribution, and twice the tail of one side is that of
    both where it is small.
    """
    from scipy.special import smirnov

    if not n_rows:
        return 1.0
    values, first = np.unique(mine, return_index=True)
    share = np.searchsorted(np.sort(mine), values, "right") / len(mine)
    before = np.concatenate([[0.0], share[:-1]])
    rise, fall = share - up_to[first] / n_rows, below[first] / n_rows - before
    gap = max(float(rise.max()), float(fall.max()), 0.0)
    return min(
        1.0, 2 * float(smirnov(max(1, round(len(mine) * n_rows / (len(mine) + n_rows))), gap))
    )


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
