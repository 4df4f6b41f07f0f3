"""How often a suggested function is right, with an interval, from rows on which it was not found.

Two witnesses are heard on the half for judging. Hand labels, of rows that were not chosen for what they
look like, are right but few. The model's probabilities are many and may be off where this function votes,
the more so as functions are found where the model likes them. So the model's word counts as `worth` hand
labels, after a `shift` of its log-odds, and how much it is worth and how far it is shifted is itself read
off hand labels: those on rows of other candidates that were in question, against the model's word there.
No label is heard twice: those on the function's own rows speak for it directly, and for nothing else.
Nothing is fixed that few labels cannot tell: the answer is a mean over all shifts and worths by how well
each explains those labels, and without labels the spread of both stays as wide as experience has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..numerics import log_odds
from ..votes import ABSTAIN
from .mine import Evidence

CONFIDENCE = 0.9
SHIFTS = np.linspace(-2.5, 1.5, 17)
WORTHS = np.exp(np.linspace(np.log(1.5), np.log(96), 9))
SHIFT, SPREAD = 0.0, 1.0
"""How far the model's word is thought to be off, give or take."""
WORTH, WORTHS_SPREAD = 4.0, 0.7
"""Hand labels that its word is thought to be worth, give or take (in logarithms)."""
HEARD = 0.5
"""What one hand label counts: labels of rows that are alike tell less than their number."""
UNKNOWN = 2.0
"""Rows' worth of even odds where there is no model."""
_POINTS = 200


@dataclass(frozen=True)
class Precision:
    """How often a function is right where it votes."""

    value: float
    low: float
    high: float
    confidence: float
    basis: str
    """`hand labels`, `hand labels and model`, or `model`: what it was estimated from."""
    hand: int  # hand-labelled rows of the judging half that it votes on
    right: int  # of these, those it is right about
    rows: int  # rows of the judging half that it votes on

    def __str__(self) -> str:
        return f"{self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


class Judge:
    """Judges functions on the half of the rows that none was found on."""

    def __init__(
        self, evidence: Evidence, candidates: Sequence[tuple[int, np.ndarray]] = ()
    ) -> None:
        self.evidence = evidence
        self.heard = ~evidence.find & evidence.fair & (evidence.hand != ABSTAIN)
        self.modelled = ~evidence.find & np.isfinite(evidence.held[:, 0])
        self.candidates = [
            (label, rows[self.heard[rows]], self._model(label, _mask(rows, len(self.heard))))
            for label, rows in candidates
        ]

    def precision(self, label: int, voted: np.ndarray) -> Precision:
        """Of a function that votes `label` on some rows; (n_rows,) bool."""
        right, hand = self._hand(label, voted)
        good, bad = HEARD * right, HEARD * (hand - right)
        rows = int((voted & ~self.evidence.find).sum())
        said = self._model(label, voted)
        if said is None:
            basis = "hand labels"
            shape = np.array([UNKNOWN / 2 + good]), np.array([UNKNOWN / 2 + bad])
            weight = np.ones(1)
        else:
            basis = "hand labels and model" if hand else "model"
            prior = _shifted(said)
            first = (WORTHS * prior[:, None] + good).ravel()
            second = (WORTHS * (1 - prior[:, None]) + bad).ravel()
            chances = self._learned(voted) + _log_chance(said, good, good + bad)
            weight = np.exp(chances - chances.max()).ravel()
            shape, weight = (first, second), weight / weight.sum()
        value, low, high = _quantiles(*shape, weight)
        if hand and right in (0, hand):  # no label speaks against never, or always: that end is in
            low, high = (low, 1.0) if right else (0.0, high)
        return Precision(value, low, high, CONFIDENCE, basis, hand, right, rows)

    def _hand(self, label: int, voted: np.ndarray) -> tuple[int, int]:
        heard = voted & self.heard
        return int((self.evidence.hand[heard] == label).sum()), int(heard.sum())

    def _model(self, label: int, voted: np.ndarray) -> float | None:
        """What the model says, on the mean; one row more that says neither keeps it off 0 and 1."""
        said = self.evidence.held[voted & self.modelled, label]
        return None if not len(said) else float((said.sum() + 0.5) / (len(said) + 1))

    def _learned(self, apart: np.ndarray) -> np.ndarray:
        """How likely each shift and worth is, from hand labels of candidates' rows but for some.

        A labelled row that many candidates vote on counts once in all; (n_shifts, n_worths).
        """
        chances = (
            -0.5 * ((SHIFTS[:, None] - SHIFT) / SPREAD) ** 2
            - 0.5 * (np.log(WORTHS / WORTH)[None, :] / WORTHS_SPREAD) ** 2
        )
        heard = [(label, rows[~apart[rows]], said) for label, rows, said in self.candidates]
        heard = [each for each in heard if len(each[1]) and each[2] is not None]
        times = np.zeros(len(apart))
        for _, rows, _ in heard:
            times[rows] += 1
        for label, rows, said in heard:
            assert said is not None
            weight = HEARD / times[rows]
            right = float(weight[self.evidence.hand[rows] == label].sum())
            chances = chances + _log_chance(said, right, float(weight.sum()))
        return np.asarray(chances)


def _mask(rows: np.ndarray, n_rows: int) -> np.ndarray:
    found = np.zeros(n_rows, dtype=bool)
    found[rows] = True
    return found


def _shifted(said: float) -> np.ndarray:
    """A share under every shift; (n_shifts,)."""
    return np.asarray(1 / (1 + np.exp(-(log_odds(said) + SHIFTS))))


def _log_chance(said: float, right: float, total: float) -> np.ndarray:
    """The beta-binomial likelihood of labels under every shift and worth; (n_shifts, n_worths)."""
    from scipy.special import betaln

    mean = _shifted(said)[:, None]
    first, second = WORTHS * mean, WORTHS * (1 - mean)
    return np.asarray(betaln(first + right, second + total - right) - betaln(first, second))


def _quantiles(
    first: np.ndarray, second: np.ndarray, weight: np.ndarray
) -> tuple[float, float, float]:
    """The mean of a mixture of beta distributions, and the interval between its outer quantiles."""
    from scipy.special import betainc

    heavy = weight > 1e-5 * weight.max()  # the others take time and change nothing
    first, second, weight = first[heavy], second[heavy], weight[heavy] / weight[heavy].sum()
    value = float(weight @ (first / (first + second)))
    points = np.linspace(0.0, 1.0, _POINTS + 1)
    below = weight @ betainc(first[:, None], second[:, None], points[None, :])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.interp([tail, 1 - tail], below, points)
    return value, float(low), float(high)
