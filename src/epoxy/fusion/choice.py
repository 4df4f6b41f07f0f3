"""Was it random? What tells labelled rows that a person or a tool chose from rows drawn blindly."""

from __future__ import annotations

import numpy as np

FEWEST = 10
SURE = 1e-6
"""Level of each test: no false alarm in some hundred random draws of real data."""
MOVED, DEVIATIONS = 0.03, 5.0


def looks_chosen(
    margins: tuple[np.ndarray, np.ndarray],
    votes: tuple[np.ndarray, np.ndarray],
    features: tuple[np.ndarray, np.ndarray] | None,
    gram: np.ndarray | None,
) -> str:
    """Why labelled rows look chosen, in words; empty where they look drawn at random.

    Each pair holds the labelled rows first and the train rows second: how sure the model without labels
    is, the votes (n_sources, n_rows), the features. `gram` is ΦᵀΦ of the train rows.
    """
    from scipy import stats

    count = len(margins[0])
    if count < FEWEST:
        return ""
    if stats.ks_2samp(*margins).pvalue < SURE:
        return "the model without labels is more or less sure of them than of other rows"
    cast = [(each >= 0).sum(axis=0) for each in votes]
    if stats.ks_2samp(*cast).pvalue < SURE:
        return "they have more or fewer votes than other rows"
    quarrels = [_conflicts(each) for each in votes]
    table = np.array([[each.sum(), (~each).sum()] for each in quarrels])
    if (table.sum(axis=0) > 0).all():
        found = stats.chi2_contingency(table, correction=False)
        if found[1] < SURE:
            return "votes conflict on them more or less often than on other rows"
    if features is None or gram is None:
        return ""
    return _elsewhere(*features, gram)


def _conflicts(votes: np.ndarray) -> np.ndarray:
    """Rows on which two sources name different classes."""
    cast = votes >= 0
    highest = np.where(cast, votes, -1).max(axis=0, initial=-1)
    beyond = np.iinfo(votes.dtype).max
    lowest = np.where(cast, votes, beyond).min(axis=0, initial=beyond)
    return np.asarray(cast.any(axis=0) & (highest != lowest))


def _elsewhere(rows: np.ndarray, train: np.ndarray, gram: np.ndarray) -> str:
    """The labelled rows' mean lies farther from the centre than means of random rows do."""
    count, n_train = len(rows), len(train)
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
