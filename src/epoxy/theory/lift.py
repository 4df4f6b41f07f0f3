"""How much the risk falls when a source is extended: the bound of Theorem 1 and its proof's own line.

Risk is the expected ½|Y − f(X)| = 1 − Pr(true class), so lift is the gain in probability given to
the truth. The label model is the paper's Algorithm 2: sources independent given Y, an abstention
says nothing, a wrong vote is equally likely for every wrong class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import AlignmentError, ParameterError
from ..numerics import softmax
from ..shares import checked_shares
from ..votes import Votes

_CERTAIN = 1e-6  # accuracies of exactly 0 or 1 would let one vote overrule all others for ever


def posterior(votes: Votes, accuracies: Any, balance: Any = None) -> np.ndarray:
    """Pr(Y = k | votes) of each row by Algorithm 2, given accuracies; (n_rows, n_classes).

    Pr(λ_i = v | Y = k) ∝ a_i for v = k and (1 − a_i)/(K − 1) otherwise. `balance` is the class
    prior, even when None.
    """
    prior = class_prior(balance, votes.n_classes)
    right, wrong = _log_likelihoods(accuracies, votes.n_classes)
    if len(right) != votes.n_sources:
        raise AlignmentError(
            f"one accuracy per source: got {len(right)} accuracies for {votes.n_sources} sources"
        )
    score = np.tile(np.log(prior), (votes.n_rows, 1))
    for column, gain in zip(votes.matrix.T, right - wrong, strict=True):
        rows = np.flatnonzero(column >= 0)
        score[rows, column[rows]] += gain
    return softmax(score)


def class_prior(balance: Any, n_classes: int) -> np.ndarray:
    """A class prior as an array: even, from Pr(Y = 1), or one probability per class."""
    if balance is None:
        return np.full(n_classes, 1 / n_classes)
    given = np.atleast_1d(np.asarray(balance, dtype=np.float64))
    prior = np.array([1 - given[0], given[0]]) if given.size == 1 and n_classes == 2 else given
    return checked_shares(prior, n_classes, "the posterior")


def _log_likelihoods(accuracies: Any, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    known = np.clip(np.asarray(accuracies, dtype=np.float64), _CERTAIN, 1 - _CERTAIN)
    if np.isnan(known).any():
        raise ParameterError("accuracies must be numbers, got NaN; leave out sources without one")
    return np.log(known), np.log((1 - known) / (n_classes - 1))


@dataclass(frozen=True)
class Others:
    """What the other sources already achieve without the one that is extended.

    `performance` is C = E[p(X) | p(X) ≥ ½, Y = 1] and `mostly_right` is Pr(p(X) ≥ ½ | Y = 1), which
    the theorem replaces by its least value ½.
    """

    performance: float
    mostly_right: float = 0.5


def others_without(probabilities: np.ndarray) -> Others:
    """C and Pr(p ≥ ½ | Y = 1) from what the other sources say of each row.

    `probabilities` is p(X) = Pr(Y = 1 | λ_{−i}) of each row, (n_rows,). Assumes it is calibrated:
    rows are weighted by p for Y = 1 and by 1 − p for Y = −1, and the two classes are alike.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    truth = np.concatenate([p, 1 - p])  # probability given to the true class, and its weight
    sure = truth >= 0.5
    mass = float((truth[sure]).sum())
    performance = float((truth[sure] ** 2).sum() / mass) if mass else 0.5
    return Others(performance, mass / float(truth.sum()))


def agreement_floor(extended: Any, new: Any) -> np.ndarray:
    """The least ã ā + (1 − ã)(1 − ā) that lower bounds on ã and ā allow.

    The expression falls and then *rises* again as both accuracies sink below ½, so putting lower
    bounds into it, as printed, can overstate: with both at −5 it is 61. Its least value over the
    box [bound, 1]² lies on a corner. Equal to the printed one where both bounds are at least ½.
    """
    whole = np.clip(np.asarray(extended, dtype=np.float64), 0, 1)
    fresh = np.clip(np.asarray(new, dtype=np.float64), 0, 1)
    both = fresh * whole + (1 - fresh) * (1 - whole)
    return np.minimum(np.minimum(both, whole), fresh)


def lift_bound(extended: Any, new: Any, *, reached: Any, others: Others) -> np.ndarray:
    """R(f_WS) − R(f_E) ≥ Pr(B_r) ((h + C (1 − h)) (ã ā + (1 − ã)(1 − ā)) − C), Theorem 1.

    Parameters
    ----------
    extended, new
        Lower bounds on ā and ã (or measured values).
    reached
        Pr(X ∈ B_r): `coverage_gain(...)` for the theorem as printed, or measured.
    others
        C, and h = Pr(p(X) ≥ ½ | Y = 1). The theorem prints h = ½, which gives ½ (C + 1).

    Assumes two even classes and one source extended. Where the bracket is negative the theorem
    promises nothing: a lower bound times a lower bound of a negative factor is no bound.
    """
    half, performance = others.mostly_right, others.performance
    factor = half + performance * (1 - half)
    return np.asarray(reached * (factor * agreement_floor(extended, new) - performance))


def single_lift(probability: Any, extended: Any, new: Any) -> np.ndarray:
    """Exact expected lift on newly covered rows when one source is extended, two classes.

    For p = p(X) from the other sources, u₊ = āp/(āp + (1 − ā)(1 − p)), u₋ likewise with 1 − ā:
    p (ã u₊ + (1 − ã) u₋ − p) + (1 − p) (p − ã u₋ − (1 − ã) u₊). This is the line of Theorem 1's
    proof before the denominators are bounded. Multiply by Pr(B_r) for the lift of all rows.
    """
    p = np.asarray(probability, dtype=np.float64)
    up = extended * p / np.maximum(extended * p + (1 - extended) * (1 - p), 1e-300)
    down = (1 - extended) * p / np.maximum((1 - extended) * p + extended * (1 - p), 1e-300)
    right = new * up + (1 - new) * down - p
    wrong = p - new * down - (1 - new) * up
    return np.asarray(p * right + (1 - p) * wrong)
