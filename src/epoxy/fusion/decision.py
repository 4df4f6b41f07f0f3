"""The rule a decision ends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engines.base import most_probable
from ..scoring import ONE_BY_ONE, SUMS

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
HALF = 20.0
"""Labels that weigh as much, in how many rows are called positive, as what is known without."""
EVEN, BALANCE = 0.5, 0.75
"""Powers of the classes' mean probability to divide by: for macro F1, and for balanced accuracy."""
HALF_EVEN = 10.0
"""Labels with which macro F1 evens out the classes half as much as with many."""


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


def macro_rule(mean: np.ndarray, many: float) -> Rule:
    """Divide by the square root of the classes' mean probability, by less while labels are few.

    Without labels that mean is drawn to equal shares, and says little of how rare a class is.
    """
    return Rule(divisors=mean ** (EVEN * many / (many + HALF_EVEN))) if many else Rule()


def balanced_rule(mean: np.ndarray) -> Rule:
    """Divide by nearly the classes' mean probability.

    That itself were the best where probabilities are calibrated, and calls too many rows rare where
    they are not sure enough.
    """
    return Rule(divisors=mean**BALANCE)


def n_heard(noise: np.ndarray) -> float:
    """How many labels say how many rows are positive; `noise` is how often each is wrong, 0 if trusted.

    A label wrong at rate ρ tells (1 − 2ρ)² as much about a share as a trusted one. But mistakes about a
    rare class look like more of it, and nobody knows how evenly people err: so all of these together weigh
    less than what is known without labels, however many they are.
    """
    doubted = float(((1 - 2 * np.minimum(noise, 0.5)) ** 2)[noise > 0].sum())
    return int((noise == 0).sum()) + HALF * doubted / (HALF + doubted)


def f1_rule(
    own: np.ndarray, before: np.ndarray, positive: int, agreed: float | None, many: float
) -> Rule:
    """Call so many train rows positive as the model without labels, source agreement and labels say.

    The class balance a posterior starts from is drawn to equal shares, so the model without labels calls
    too many rows of a rare class. Where how sources agree (`agreed`) says fewer, it says too few, and midway,
    in log-odds, is the share called without labels. Labels teach the model how many rows are positive, so
    in proportion to their number (`many`, see `n_heard`) the share becomes that beyond the threshold which
    is best by its probabilities. `own` are those of the class on train rows, and `before` of all classes by
    the model without labels.
    """
    n_rows = len(own)
    if not n_rows:
        return Rule()
    share = float((before.argmax(axis=1) == positive).mean())
    if agreed is not None and agreed < share:
        share = _between(share, agreed, 0.5, n_rows)
    if many:
        beyond = float((own >= f1_threshold(own)).mean())
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


def f1_threshold(proba: np.ndarray) -> float:
    """The threshold with the best F1, as probabilities of the class promise it.

    Of the n rows that are called positive as many are so as their probabilities add up to.
    """
    falling = np.sort(proba)[::-1]
    found = 2 * np.cumsum(falling) / (np.arange(1, len(falling) + 1) + falling.sum())
    return float(falling[found.argmax()])
