"""The rule a decision ends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engines.base import most_probable
from ..scoring import ONE_BY_ONE, SUMS, ratios

OF_POSITIVE = ("f1", "jaccard")
"""Scores of one class: the threshold is moved; Jaccard's index rises with F1."""
EVENED = ("f1_macro", "f1_weighted", "jaccard_macro", "jaccard_weighted", "matthews_corrcoef")
"""Scores that mind rare classes a little."""
BALANCED = ("balanced_accuracy", "recall_macro")
"""Scores in which every class counts the same, however rare."""
DEGENERATE = ("precision", "recall")
"""Best where one row is called positive, or all of them: no rule can serve these."""
PLAIN = tuple(
    name
    for name in (*SUMS, *ONE_BY_ONE)
    if name not in (*OF_POSITIVE, *EVENED, *BALANCED, *DEGENERATE)
)
"""Scores that the most probable class serves, and scores of probabilities, which no rule moves."""
SCORINGS = (*PLAIN, *OF_POSITIVE, *EVENED, *BALANCED)
ENOUGH = 100
"""So many positive labelled rows say as much about a threshold as the probabilities themselves."""
ENOUGH_RANDOM = 100
"""Random labels from which held-out rows take part in the F1 threshold."""
HALF = 10.0
"""Random positives that weigh as much as the square-root rule."""
ENOUGH_MACRO = 50
"""Random labels from which macro F1 evens out the classes."""
EVEN, BALANCE = 0.25, 0.75
"""Powers of the classes' mean probability to divide by: for macro F1, and for balanced accuracy."""


@dataclass(frozen=True, eq=False)
class Rule:
    """From probabilities to class indices; without anything set, the most probable class."""

    positive: int | None = None
    threshold: float | None = None  # rows at least this probable are called `positive`
    divisors: np.ndarray | None = None  # (n_classes,) rare classes need less

    def __call__(self, proba: np.ndarray) -> np.ndarray:
        """Class indices; (n_rows,)."""
        if self.divisors is not None:
            return np.asarray((proba / self.divisors).argmax(axis=1))
        if self.positive is None or self.threshold is None:
            return most_probable(proba)
        others = proba.copy()
        others[:, self.positive] = -np.inf
        called = proba[:, self.positive] >= self.threshold
        return np.where(called, self.positive, others.argmax(axis=1))


def macro_rule(proba: np.ndarray, n_random: int) -> Rule:
    """Divide by the fourth root of the classes' mean probability, once enough labels are random."""
    return Rule(divisors=proba.mean(axis=0) ** EVEN) if n_random >= ENOUGH_MACRO else Rule()


def balanced_rule(proba: np.ndarray) -> Rule:
    """Divide by nearly the classes' mean probability.

    That itself were the best where probabilities are calibrated, and calls too many rows rare where
    they are not sure enough.
    """
    return Rule(divisors=proba.mean(axis=0) ** BALANCE)


def f1_rule(
    proba: np.ndarray, before: np.ndarray, positive: int, shown: np.ndarray, right: np.ndarray
) -> Rule:
    """Call as many train rows positive as the geometric mean of two models at one half does.

    Labels correct the class balance, and then few rows of a rare class reach one half: `before`, the
    model without labels, calls too many and `proba`, with them, too few. From a hundred random labels
    on their held-out probabilities (`shown`, and whether each is `right`) take part.
    """
    own = proba[:, positive]
    least = 1 / max(1, len(own))
    share = float(np.sqrt(_called(before, positive) * _called(proba, positive)))
    if len(right) >= ENOUGH_RANDOM and right.any():
        cut = f1_threshold(own, shown, right)
        trust = right.sum() / (right.sum() + HALF)
        share = max(share, least) ** (1 - trust) * max(float((own >= cut).mean()), least) ** trust
    called = round(share * len(own))
    if not called:
        return Rule()
    falling = np.append(np.sort(own)[::-1], 0.0)
    return Rule(positive, float(falling[called - 1 : called + 1].mean()))  # halfway to the next row


def _called(proba: np.ndarray, positive: int) -> float:
    return float((proba.argmax(axis=1) == positive).mean())


def f1_threshold(promised: np.ndarray, shown: np.ndarray, right: np.ndarray) -> float:
    """The threshold with the best F1, as the probabilities promise it and as labelled rows show it.

    Calling rows positive from t on has expected true positives Σ p over them, which needs no true label
    and is steady. Labelled rows show what probabilities that are off would hide. The two curves are
    averaged, and labelled rows weigh as much as promises once a hundred of them are positive.

    Parameters
    ----------
    promised
        Probabilities of the positive class on rows without a label.
    shown
        Those of labelled rows, by models that did not learn from them.
    right
        Whether each labelled row is positive.
    """
    values = np.unique(np.r_[promised, shown])
    places = (np.r_[0.0, values[:-1]] + values) / 2
    share = right.sum() / (right.sum() + ENOUGH)
    curve = (1 - share) * _f1_from(places, promised, promised)
    curve += share * _f1_from(places, shown, right.astype(float))
    return float(places[curve.argmax()])


def _f1_from(places: np.ndarray, proba: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """F1 of calling rows positive from each place on, for true labels or for probable ones."""
    order = np.argsort(proba)
    below = np.searchsorted(proba[order], places)
    before = np.r_[0.0, np.cumsum(positive[order])]
    found = before[-1] - before[below]
    return ratios(found, len(proba) - below, before[-1])[2]
