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
HALF = 20.0
"""Labels that weigh as much, in how many rows are called positive, as what is known without."""
HEARD = 4
"""So many labels are heard there for each that was drawn at random, itself among them."""
EVEN, BALANCE = 0.5, 0.75
"""Powers of the classes' mean probability to divide by: for macro F1, and for balanced accuracy."""
HALF_EVEN = 10.0
"""Random labels with which macro F1 evens out the classes half as much as with many."""


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


def macro_rule(mean: np.ndarray, n_random: int) -> Rule:
    """Divide by the square root of the classes' mean probability, by less while few labels are random.

    Without labels that mean is drawn to equal shares, and says little of how rare a class is.
    """
    power = EVEN * n_random / (n_random + HALF_EVEN)
    return Rule(divisors=mean**power) if n_random else Rule()


def balanced_rule(mean: np.ndarray) -> Rule:
    """Divide by nearly the classes' mean probability.

    That itself were the best where probabilities are calibrated, and calls too many rows rare where
    they are not sure enough.
    """
    return Rule(divisors=mean**BALANCE)


def n_heard(noise: np.ndarray, drawn: np.ndarray) -> float:
    """How many labels say how many rows are positive; `noise` is how often each is wrong, 0 if trusted.

    Labels that were chosen have a say beside those `drawn` at random, which show whether what they taught
    holds; alone they move no share. A label wrong at rate ρ tells (1 − 2ρ)² as much about a share as a
    trusted one. But mistakes about a rare class look like more of it, and nobody knows how evenly people
    err: so all of these together weigh less than what is known without labels, however many they are.
    """

    def together(some: np.ndarray) -> float:
        doubted = float(((1 - 2 * np.minimum(some, 0.5)) ** 2)[some > 0].sum())
        return int((some == 0).sum()) + HALF * doubted / (HALF + doubted)

    return min(together(noise), HEARD * together(noise[drawn]))


def f1_rule(
    own: np.ndarray,
    before: np.ndarray,
    positive: int,
    agreed: float | None,
    shown: np.ndarray,
    right: np.ndarray,
    many: float,
) -> Rule:
    """Call so many train rows positive as the model without labels, source agreement and labels say.

    The class balance a posterior starts from is drawn to equal shares, so the model without labels calls
    too many rows of a rare class. Where how sources agree (`agreed`) says fewer, it says too few, and midway,
    in log-odds, is the share called without labels. Labels teach the model how many rows are positive, so
    in proportion to their number (`many`, see `n_heard`) the share becomes that beyond the threshold which
    is best by the probabilities of train rows, and by held-out ones of trusted labels drawn at random
    (`shown`, and whether each is `right`). `own` are probabilities of the class on train rows, and `before`
    of all classes by the model without labels.
    """
    n_rows = len(own)
    if not n_rows:
        return Rule()
    share = float((before.argmax(axis=1) == positive).mean())
    if agreed is not None and agreed < share:
        share = _between(share, agreed, 0.5, n_rows)
    if many:
        beyond = float((own >= f1_threshold(own, shown, right)).mean())
        share = _between(share, beyond, float(many / (many + HALF)), n_rows)
    falling = np.append(np.sort(own)[::-1], 0.0)
    called = round(share * n_rows)
    if called:  # equally probable rows together, by whichever end is fewer times away
        above, through = ((own > falling[called - 1]).sum(), (own >= falling[called - 1]).sum())
        called = int(above if above * through > called * called else through)
    if not called:
        return Rule()
    return Rule(positive, float(falling[called - 1 : called + 1].mean()))  # halfway to the next row


def _between(first: float, second: float, weight: float, n_rows: int) -> float:
    """The mean of two shares in log-odds, neither below half a row nor above all but half a row."""
    inside = np.clip([first, second], 0.5 / n_rows, 1 - 0.5 / n_rows)
    odds = np.log(inside / (1 - inside))
    return float(1 / (1 + np.exp(-((1 - weight) * odds[0] + weight * odds[1]))))


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
