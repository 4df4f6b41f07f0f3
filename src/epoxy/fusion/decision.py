"""The class balance the posterior starts from, and the threshold a decision ends with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from ..errors import NotIdentifiable, ParameterError, UnknownName
from ..votes import Votes

__all__ = [
    "METRICS",
    "at_threshold",
    "checked_balance",
    "counted",
    "f1_threshold",
    "positive_index",
    "voted",
]

METRICS = ("accuracy", "f1")
ADDED = 4.0
ENOUGH = 100
"""So many positive dev rows say as much about a threshold as the probabilities themselves."""


def counted(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Class shares of true labels, with a few rows in equal shares added: no class is impossible."""
    counts = np.bincount(y, minlength=n_classes) + ADDED / n_classes
    return np.asarray(counts / counts.sum())


def voted(votes: Votes) -> np.ndarray:
    """Class shares where no true label is known: a mean of three weak witnesses.

    The majority vote over rows with votes, what the triplet model learns from how sources agree (if
    the votes can tell), and equal shares. Each alone is far off somewhere; their mean less so.
    """
    from ..label_models import Triplet

    n_classes = votes.n_classes
    equal = np.full(n_classes, 1 / n_classes)
    counts = np.stack([(votes.matrix == k).sum(axis=1) for k in range(n_classes)], axis=1)
    counts = counts[votes.covered]
    if not len(counts):
        return equal
    witnesses = [equal, (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)]
    with warnings.catch_warnings(), suppress(NotIdentifiable):
        warnings.simplefilter("ignore")
        witnesses.append(np.asarray(Triplet(class_balance="learn").fit(votes).class_balance_))
    return np.asarray(np.mean(witnesses, axis=0))


def checked_balance(
    given: Mapping[str, float] | Sequence[float], classes: Sequence[str]
) -> np.ndarray:
    """Shares given by class name or in order, checked and normalised."""
    if isinstance(given, Mapping):
        for name in given:
            if name not in classes:
                raise UnknownName.of("class", name, classes)
        given = [given.get(name, 0.0) for name in classes]
    found = np.asarray(given, dtype=float)
    if found.shape != (len(classes),) or not np.isfinite(found).all() or (found <= 0).any():
        raise ParameterError(
            f"class_balance must give a share above 0 to each of {list(classes)[:10]}, "
            f"got {np.asarray(given).tolist()}; give shares that sum to 1"
        )
    return np.asarray(found / found.sum())


def positive_index(positive: str | None, classes: Sequence[str]) -> int:
    """The class whose F1 counts."""
    if positive is None:
        return len(classes) - 1
    if positive not in classes:
        raise UnknownName.of("class", positive, classes)
    return list(classes).index(positive)


def f1_threshold(
    promised: np.ndarray, shown: np.ndarray | None = None, right: np.ndarray | None = None
) -> float:
    """The threshold with the best F1, as the probabilities promise it and as dev rows show it.

    Calling rows positive from t on has expected true positives Σ p over them, which needs no true label
    and is steady. Dev rows show what probabilities that are off would hide. The two curves are averaged,
    and dev rows weigh as much as promises once a hundred of them are positive.

    Parameters
    ----------
    promised
        Probabilities of the positive class on rows without a label.
    shown
        Those of dev rows, by models that did not learn from them.
    right
        Whether each dev row is positive.
    """
    known = np.empty(0) if shown is None or right is None else shown
    values = np.unique(np.r_[promised, known])
    if not len(values):
        return 0.5
    places = (np.r_[0.0, values[:-1]] + values) / 2
    curve = _f1_from(places, promised, promised)
    if shown is not None and right is not None and right.any():
        share = right.sum() / (right.sum() + ENOUGH)
        curve = (1 - share) * curve + share * _f1_from(places, shown, right.astype(float))
    return float(places[curve.argmax()])


def _f1_from(places: np.ndarray, proba: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """F1 of calling rows positive from each place on, for true labels or for probable ones."""
    order = np.argsort(proba)
    below = np.searchsorted(proba[order], places)
    before = np.r_[0.0, np.cumsum(positive[order])]
    found = before[-1] - before[below]
    return np.asarray(2 * found / np.maximum(len(proba) - below + before[-1], 1e-12))


def at_threshold(proba: np.ndarray, positive: int, threshold: float) -> np.ndarray:
    """The positive class where it is probable enough, else the most probable other class."""
    others = proba.copy()
    others[:, positive] = -np.inf
    return np.where(proba[:, positive] >= threshold, positive, others.argmax(axis=1))
