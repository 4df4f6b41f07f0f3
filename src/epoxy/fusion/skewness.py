"""What third moments of the votes say about the class balance, however sources err.

Sources that agree say who is good; not how often a class is there, since errors that lean one way skew
the votes as a rare class does. Third moments tell the two apart. For class k let a vote be a number,
+1 for k, −1/(K − 1) for another class, 0 for none, standardised over the rows. Given whether a row is of
class k its mean is linear in that, whatever the errors are, so for sources independent given the class

    E[xᵢ xⱼ] = bᵢ bⱼ        E[xᵢ xⱼ xₖ] = γ bᵢ bⱼ bₖ        γ = (1 − 2p) / √(p (1 − p))

with p the share of class k. The loadings b are the one factor of the correlations; γ is the sum over
all triples, each weighted by its loadings, which is a sum over rows of a polynomial and has a standard
error like any mean. Sums of shards add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..label_models.balance import every_three
from ..label_models.kernels import sum_by_vote
from ..label_models.moments import Moments
from ..label_models.readings import gathered
from ..votes import Votes

_ROUNDS, _WORK, _STEP = 500, 100_000, 1e-10  # few sources may take many rounds, and these are cheap
_NEARLY = 1e-4  # shares are read as at least this far from 0 and from 1


@dataclass(frozen=True, eq=False)
class Signed:
    """How votes become numbers, for each class asked about."""

    named: tuple[int, ...]  # the classes
    centre: np.ndarray  # (n_asked, n_sources) means
    weight: np.ndarray  # (n_asked, n_sources) loading over standard deviation


Cubes = Callable[[Signed], np.ndarray]
"""`sums_of_triples` over all rows."""


def sums_of_triples(votes: Votes, of: Signed) -> np.ndarray:
    """Σ over rows of the products of every three weighted votes, and of that squared; (n_asked, 2)."""
    columns = np.ascontiguousarray(votes.matrix.T)
    found = np.empty((len(of.named), 2))
    for at, named in enumerate(of.named):
        number = _as_numbers(np.arange(-1, votes.n_classes), named, votes.n_classes)
        x = (number - of.centre[at][:, None]) * of.weight[at][:, None]  # (n_sources, 1 + n_classes)
        three = every_three(*(sum_by_vote(columns, x**power, 0.0) for power in (1, 2, 3)))
        found[at] = three.sum(), (three**2).sum()
    return found


def skewness(summary: Moments, cubes: Cubes) -> tuple[np.ndarray, np.ndarray]:
    """γ of every class and its standard error, infinite where votes cannot tell; (n_classes,) each."""
    n_classes, n_rows = len(summary.classes), max(1, summary.n_rows)
    asked = (1,) if n_classes == 2 else tuple(range(n_classes))
    parts = [_loadings(summary, named) for named in asked]
    loading = np.stack([each[1] for each in parts])
    signed = Signed(asked, np.stack([each[0] for each in parts]), np.stack([p[2] for p in parts]))
    total = cubes(signed) / n_rows
    square = loading**2
    whole = every_three(square.sum(axis=1), (square**2).sum(axis=1), (square**3).sum(axis=1))
    tells = whole > 1e-9
    safe = np.where(tells, whole, 1.0)
    found = np.where(tells, total[:, 0] / safe, 0.0)
    spread = np.sqrt(np.maximum(total[:, 1] - total[:, 0] ** 2, 0.0) / n_rows) / safe
    error = np.where(tells, spread, np.inf)
    if n_classes == 2:  # what is rare of one class is frequent of the other
        return np.array([-found[0], found[0]]), np.repeat(error, 2)
    return found, error


def share_of(skew: np.ndarray) -> np.ndarray:
    """The share of a class whose indicator has this skewness."""
    return np.asarray(0.5 * (1 - skew / np.sqrt(4 + skew**2)))


def skew_of(share: np.ndarray) -> np.ndarray:
    """The skewness of the indicator of a class with this share."""
    inside = np.clip(share, _NEARLY, 1 - _NEARLY)
    return np.asarray((1 - 2 * inside) / np.sqrt(inside * (1 - inside)))


def _as_numbers(votes: np.ndarray, named: int, n_classes: int) -> np.ndarray:
    return np.where(votes == named, 1.0, np.where(votes < 0, 0.0, -1 / (n_classes - 1)))


def _loadings(summary: Moments, named: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, loadings on the class, and loadings over standard deviations; (n_sources,) each."""
    n_sources, n_rows = len(summary.sources), max(1, summary.n_rows)
    value = _as_numbers(summary.named, named, len(summary.classes))
    fires = value * np.diagonal(summary.joint)
    mean = np.bincount(summary.source, fires, minlength=n_sources) / n_rows
    both = gathered(summary.joint, summary.source, value, n_sources)
    covariance = both / n_rows - np.outer(mean, mean)
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    inverse = np.where(deviation > 1e-9, 1 / np.where(deviation > 1e-9, deviation, 1.0), 0.0)
    loading = _one_factor(covariance * inverse[:, None] * inverse)
    return mean, loading, loading * inverse


def _one_factor(correlation: np.ndarray) -> np.ndarray:
    """b with b bᵀ nearest to the correlations off the diagonal; alternating least squares, damped."""
    between = correlation.copy()
    np.fill_diagonal(between, 0.0)
    count = len(between)
    start = np.abs(between).sum() / max(1, count * (count - 1))
    loading = np.full(count, np.sqrt(np.clip(start, 1e-6, 1.0)))
    for _ in range(max(_ROUNDS, _WORK // max(1, count * count))):
        square = loading * loading
        fitted = between @ loading / np.maximum(square.sum() - square, 1e-9)
        moved = 0.5 * loading + 0.5 * np.clip(fitted, -1.0, 1.0)
        done = np.abs(moved - loading).max(initial=0.0) < _STEP
        loading = moved
        if done:
            break
    return np.asarray(loading)
