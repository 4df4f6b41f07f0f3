"""Class balance from the votes alone, in closed form.

Voters: Pr(λ = c | λ ≠ 0) = θ·Pr(Y = c) + (1 − θ)/K, one least-squares line through all voters.
Detectors: second moments cannot tell a rare class from weak detectors; third ones can. With
xᵢ = ±(uᵢ − E[uᵢ]) the sums over distinct pairs and triples obey E[e₂] = Σθᵢθⱼ and
E[e₃] = γ·Σθᵢθⱼθₖ, where γ = (1 − 2p)/√(p(1 − p)) is the skewness of 1{Y = c}, hence p.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import NotIdentifiable
from ..votes import Votes
from .kernels import sum_by_vote
from .moments import Moments, moments
from .readings import VOTER, Readings, ignores_balance, read

_ROUNDS = 4  # detectors of different classes are compared through the balance itself: a fixed point


def learn_balance(votes: Votes, solver: Callable[[Readings], np.ndarray]) -> np.ndarray:
    """Estimate Pr(Y) from the votes; raises where neither voters nor detectors can tell."""
    summary, n_classes = moments(votes), votes.n_classes
    balance = np.full(n_classes, 1 / n_classes)
    for _ in range(_ROUNDS):
        readings = read(summary, balance)
        theta = np.nan_to_num(solver(readings)).clip(0, 1)
        found = _from_voters(summary, readings, theta)
        if found is None:
            found = _from_detectors(summary, readings, theta, votes)
        found = np.clip(found, 0.5 / (summary.n_rows + 1), None)
        found /= found.sum()
        if ignores_balance(summary) or np.abs(found - balance).max() < 1e-6:
            break
        balance = found
    return np.asarray(found)


def _from_voters(summary: Moments, readings: Readings, theta: np.ndarray) -> np.ndarray | None:
    voter = readings.named == VOTER
    if voter.sum() < 3 or (theta[voter] > 0.1).sum() < 1:
        return None
    counts = summary.counts[readings.source[voter]]
    weight = counts.sum(axis=1)
    share = counts / weight[:, None]
    t = theta[voter]
    by_chance = (1 - t)[:, None] / share.shape[1]
    return np.asarray(((weight * t) @ (share - by_chance)) / (weight @ t**2))


def _sum_of_triples(
    votes: Votes, source: np.ndarray, named: np.ndarray, about: tuple[np.ndarray, np.ndarray]
) -> float:
    """Σ over rows of the products of every three centred detectors.

    They are given by source and class, with how often each fires, and its sign.
    """
    share, sign = about
    columns = np.ascontiguousarray(votes.matrix.T)
    sums = []
    for power in (1, 2, 3):
        silent, fires = (((x - share) * sign) ** power for x in (0.0, 1.0))
        tables = np.zeros((votes.n_sources, 1 + votes.n_classes))
        tables[source, 1 + named] = fires - silent
        sums.append(sum_by_vote(columns, tables, float(silent.sum())))
    return float(every_three(*sums).sum())


def _from_detectors(
    summary: Moments, readings: Readings, theta: np.ndarray, votes: Votes
) -> np.ndarray:
    n_classes, n_rows = len(summary.classes), max(1, summary.n_rows)
    found = np.full(n_classes, np.nan)
    for named in range(n_classes):
        unit = readings.named == named
        sign = np.ones(len(theta))
        if n_classes == 2:  # "not spam" is as good a witness of spam, with the sign turned
            unit = readings.named != VOTER
            sign = np.where(readings.named == named, 1.0, -1.0)
        if unit.sum() >= 3 and theta[unit].any():
            source, kind = readings.source[unit], readings.named[unit]
            share = summary.counts[source, kind] / n_rows
            observed = _sum_of_triples(votes, source, kind, (share, sign[unit])) / n_rows
            found[named] = _share_from_skewness(observed, theta[unit])
    if np.isnan(found).all():
        raise NotIdentifiable(
            "the class balance cannot be learned from these votes: no class has three sources that "
            "name it; give class_balance, or a dev split to count it on"
        )
    rest = np.isnan(found)
    if rest.any():
        left = max(1 - np.nansum(found), 0.05)
        cast = summary.counts.sum(axis=0)[rest] + 1
        found[rest] = left * cast / cast.sum()
    return found


def _share_from_skewness(observed: float, theta: np.ndarray) -> float:
    unit = every_three(theta.sum(), (theta**2).sum(), (theta**3).sum())
    if unit <= 0:
        return float("nan")
    skewness = observed / unit
    return float(0.5 * (1 - skewness / np.sqrt(4 + skewness**2)))


def every_three(first: Any, second: Any, third: Any) -> Any:
    """Σ over i<j<k of xᵢxⱼxₖ from the power sums (Newton's identity)."""
    return (first**3 - 3 * first * second + 2 * third) / 6
