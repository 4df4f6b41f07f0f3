"""From a rank-one matrix to its factors: |θᵢ| = √|MᵢⱼMᵢₖ/Mⱼₖ|, over the triplets {i, j, k}.

Every solver takes readings and the units asked for, and returns θ ≥ 0, NaN where no triplet answers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import kernels
from .readings import Readings


def candidates_of_first(moment: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The triplet estimates of unit 0: values (n_pairs,), NaN where there is none, and the partners."""
    first, second = np.triu_indices(len(moment) - 1, 1)
    first, second = first + 1, second + 1
    below = np.where(allowed[first, second], moment[first, second], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.sqrt(np.abs(moment[0, first] * moment[0, second] / below))
    return np.where(below != 0, value, np.nan), np.stack([first, second], axis=1)


MOST_PARTNERS = 128
"""Units a unit is compared with at most for a median: those that vote most."""


def by_median(readings: Readings, wanted: np.ndarray) -> np.ndarray:
    """The median over all triplets: one near-zero denominator would dominate a mean.

    Of more than 128 partners those that vote most are heard: their triplets are the least noisy, and
    a thousand units would have half a million triplets each. They are not chosen by how often they
    meet the unit: the same rows would then choose them and be measured, and whoever met it by chance
    would be chosen.
    """
    order = np.argsort(-readings.votes, kind="stable")
    found: np.ndarray = kernels.median_of_triplets(
        readings.moment, readings.observed, wanted, order, MOST_PARTNERS
    )
    return found


def by_mean(readings: Readings, wanted: np.ndarray) -> np.ndarray:
    """The mean over all triplets: Σ √|Mᵢⱼ|·√|Mᵢₖ|/√|Mⱼₖ| is one matrix product."""
    root = np.where(readings.observed, np.sqrt(np.abs(readings.moment)), 0.0)
    usable = (root > 0).astype(float)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    seen = readings.observed.astype(float)
    total = ((root @ inverse) * root).sum(axis=1)
    count = ((seen @ usable) * seen).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((count > 0) & wanted, total / count, np.nan)


def by_overlap(readings: Readings, wanted: np.ndarray) -> np.ndarray:
    """Algorithm 2: for each unit the one triplet whose smallest pairwise overlap is largest."""
    theta = np.full(len(readings.source), np.nan)
    for unit in np.flatnonzero(wanted):
        at = np.r_[unit, np.flatnonzero(readings.observed[unit])]
        moment, allowed = readings.moment[np.ix_(at, at)], readings.observed[np.ix_(at, at)]
        value, partners = candidates_of_first(moment, allowed)
        if not len(value):
            continue
        overlap = readings.overlap[np.ix_(at, at)]
        j, k = partners.T
        least = np.minimum(np.minimum(overlap[0, j], overlap[0, k]), overlap[j, k])
        least[np.isnan(value)] = -1
        best = int(least.argmax())
        theta[unit] = value[best]
    return theta


def pooled(readings: Readings, wanted: np.ndarray) -> np.ndarray:
    """√(ΣMᵢⱼMᵢₖ / ΣMⱼₖ) over all triplets, weighted by precision: the noise averages out first.

    The answer for units whose single triplets rest on too few rows each.
    """
    weight = np.where(readings.observed[wanted], 1 / readings.spread[wanted] ** 2, 0.0)
    above = _sum_of_pairs(weight * readings.moment[wanted], readings.observed)
    below = _quadratic(weight, readings.moment)
    found = np.full(len(readings.source), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        found[wanted] = np.where((above > 0) & (below > 0), np.sqrt(above / below), np.nan)
    return found


def _sum_of_pairs(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Σⱼₖ values[i, j]·values[i, k] over the pairs that are seen: where few are not, all but these."""
    first, second = np.nonzero(~(seen | np.eye(len(seen), dtype=bool)))
    if len(first) > 4 * len(seen):
        return np.asarray(((values @ seen.astype(float)) * values).sum(axis=1))
    unseen = (values**2).sum(axis=1) + (values[:, first] * values[:, second]).sum(axis=1)
    return np.asarray(values.sum(axis=1) ** 2 - unseen)


def _quadratic(weight: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Σⱼₖ weight[i, j]·moment[j, k]·weight[i, k]: twice the half above the diagonal, which is zero."""
    from scipy.linalg.blas import dtrmm

    half = dtrmm(1.0, moment.T, weight.T, lower=1).T  # what is turned round is read without a copy
    return np.asarray(2 * (half * weight).sum(axis=1))


Solver = Callable[[Readings, np.ndarray], np.ndarray]
"""From readings and a mask of units to their θ ≥ 0, NaN where no triplet answers."""

SOLVERS: dict[str, Solver] = {"median": by_median, "mean": by_mean, "overlap": by_overlap}
