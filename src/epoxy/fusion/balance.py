"""The class balance the posterior starts from, where no true label is known, and how sure it is.

Sources that name every class (*voters*): with Pr(right) = a on average, their vote shares s are off the
balance by no more than their errors, |π − s| ≤ 1 − a in total variation, and errors that are as frequent
either way are a guess. Of all balances that this allows the one nearest to equal shares is the guess,
and third moments correct it as far as they can (`skewness`): in units of skewness the guess is taken to
be off by ½, and the two are weighed by their precision.

Sources that name one class each say little about how often: three weak witnesses, their log-odds
averaged.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import NotIdentifiable
from ..label_models.balance import Triples, sum_of_triples
from ..label_models.moments import Moments, moments
from ..label_models.readings import VOTER, read
from ..label_models.solvers import SOLVERS
from ..label_models.triplet import Triplet, solve_units
from ..votes import Votes
from .skewness import Cubes, share_of, skew_of, skewness, sums_of_triples

FEWEST_VOTERS, MOST_VOTES = 3, 0.5
"""Voters speak for the balance if there are so many, and they cast so large a share of the votes."""
GUESS = 0.5
"""By how much skewness the guess of voters is off, before third moments are asked."""
LEAST = 0.2
"""Of an equal share: no witness of one-sided sources is believed to say less."""


@dataclass(frozen=True, eq=False)
class Balance:
    """Class shares, and the least and the most each may be as far as the votes tell."""

    shares: np.ndarray  # (n_classes,)
    low: np.ndarray  # (n_classes,)
    high: np.ndarray  # (n_classes,)
    trust: float = 0.0  # how far third moments tell the shares; asked for in a fit, and not kept
    agreed: np.ndarray | None = None  # shares by how sources agree, where they can tell; not kept

    @classmethod
    def given(cls, shares: np.ndarray) -> Balance:
        """Shares that somebody knows."""
        return cls(shares, shares, shares, agreed=shares)


def guessed(votes: Votes, summary: Moments | None = None) -> Balance:
    """The balance of rows of which no true label is known; `summary` where moments are at hand."""
    summary = moments(votes) if summary is None else summary
    shares = shares_voted(votes) if votes.n_sources else np.zeros(votes.n_classes)
    return from_sums(
        summary, shares, partial(sum_of_triples, votes), partial(sums_of_triples, votes)
    )


def from_sums(summary: Moments, shares: np.ndarray, triples: Triples, cubes: Cubes) -> Balance:
    """The same from sums over all rows: moments, `shares_voted` and sums of triples of both kinds."""
    n_classes = len(shares)
    if not shares.any():
        equal = np.full(n_classes, 1 / n_classes)
        return Balance(equal, np.zeros(n_classes), np.ones(n_classes))
    cast = shares / shares.sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        errors = _errors_of_voters(summary)
        if errors is not None:
            return _of_voters(_within_errors(cast, errors), *skewness(summary, cubes))
        return _of_witnesses(summary, cast, triples)


def shares_voted(votes: Votes) -> np.ndarray:
    """The sum of each voted row's shares of votes, which adds up to the number of such rows."""
    counts = np.stack(
        [(votes.matrix == label).sum(axis=1) for label in range(votes.n_classes)], axis=1
    )
    cast = counts.sum(axis=1)
    spoken = cast > 0
    return np.asarray((counts[spoken] / cast[spoken, None]).sum(axis=0))


def _errors_of_voters(summary: Moments) -> float | None:
    """How often voters err, by how they agree; None where sources are no voters, or none can tell."""
    n_classes = len(summary.classes)
    readings = read(summary, np.full(n_classes, 1 / n_classes))
    voters = readings.named == VOTER
    count = readings.votes[voters]
    if len(count) < FEWEST_VOTERS or count.sum() < MOST_VOTES * readings.votes.sum():
        return None
    with suppress(NotIdentifiable):
        theta = np.nan_to_num(solve_units(readings, SOLVERS["median"])[0])[voters].clip(0, 1)
        return float((1 - 1 / n_classes) * (count @ (1 - theta)) / count.sum())
    return None


def _within_errors(cast: np.ndarray, errors: float) -> np.ndarray:
    """The balance nearest to equal shares that errors allow."""
    skew = cast - 1 / len(cast)
    apart = float(np.abs(skew).sum()) / 2
    kept = max(0.0, 1 - errors / apart) if apart > 0 else 0.0
    return np.asarray(1 / len(cast) + kept * skew)


def _of_voters(guess: np.ndarray, skew: np.ndarray, error: np.ndarray) -> Balance:
    """The guess and third moments, weighed by their precision; two deviations are the least and the most."""
    trust = GUESS**2 / (GUESS**2 + error**2)
    told = share_of(skew)  # classes are asked about one by one, so shares are brought to sum to 1
    both = trust * skew_of(told / told.sum()) + (1 - trust) * skew_of(guess)
    deviation = GUESS * np.sqrt(1 - trust)
    middle, low, high = (share_of(both + off * deviation) for off in (0, 2, -2))
    total = middle.sum()
    shares, low, high = middle / total, low / total, np.minimum(high / total, 1.0)
    return Balance(shares, low, high, trust=float(shares @ trust), agreed=shares)


def _of_witnesses(summary: Moments, cast: np.ndarray, triples: Triples) -> Balance:
    """The majority vote, what the triplet model learns from how sources agree, and equal shares.

    Each alone is far off somewhere; together they are less so. The least and the most are theirs.
    """
    witnesses, learned = [np.full(len(cast), 1 / len(cast)), cast], None
    with suppress(NotIdentifiable):
        triplet = Triplet(class_balance="learn").fit_moments(summary, triples)
        learned = np.asarray(triplet.class_balance_)
        witnesses.append(learned)
    pooled = np.exp(np.log(np.maximum(witnesses, LEAST / len(cast))).mean(axis=0))
    low, high = np.min(witnesses, axis=0), np.max(witnesses, axis=0)
    return Balance(pooled / pooled.sum(), low, high, agreed=learned)
