"""Was it random? What tells labelled rows that a person or a tool chose from rows drawn blindly."""

from __future__ import annotations

from typing import NamedTuple

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


class Crowd(NamedTuple):
    """Train rows, as labelled rows are compared with them."""

    margins: np.ndarray  # (n_train,) how sure the model without labels is of them
    votes: np.ndarray  # (n_sources, n_train)


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
    from scipy.stats import chi2_contingency, ks_2samp

    if ks_2samp(margins, crowd.margins, method="asymp").pvalue < SURE:
        return "the model without labels is more or less sure of them than of other rows"
    cast = [(each >= 0).sum(axis=0) for each in (votes, crowd.votes)]
    if ks_2samp(*cast, method="asymp").pvalue < SURE:
        return "they have more or fewer votes than other rows"
    quarrels = [_conflicts(votes), _conflicts(crowd.votes)]
    table = np.array([[each.sum(), (~each).sum()] for each in quarrels])
    if table.sum(axis=0).all() and chi2_contingency(table, correction=False).pvalue < SURE:
        return "votes conflict on them more or less often than on other rows"
    if features is None or gram is None:
        return ""
    return _elsewhere(features, len(crowd.margins), gram)


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
