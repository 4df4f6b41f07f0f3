"""From a rank-one matrix to its factors: |θᵢ| = √|MᵢⱼMᵢₖ/Mⱼₖ|, over the triplets {i, j, k}.

Every solver takes readings and returns θ ≥ 0 of each unit, NaN where no triplet answers.
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


def by_median(readings: Readings) -> np.ndarray:
    """The median over all triplets: one near-zero denominator would dominate a mean.

    Of more than 128 partners those that vote most are heard: their triplets are the least noisy, and
    a thousand units would have half a million triplets each. They are not chosen by how often they
    meet the unit: the same rows would then choose them and be measured, and whoever met it by chance
    would be chosen.
    """
    order = np.argsort(-readings.votes, kind="stable")
    found: np.ndarray = kernels.median_of_triplets(
        readings.moment, readings.observed, order, MOST_PARTNERS
    )
    return found


def by_mean(readings: Readings) -> np.ndarray:
    """The mean over all triplets: Σ √|Mᵢⱼ|·√|Mᵢₖ|/√|Mⱼₖ| is one matrix product."""
    root = np.where(readings.observed, np.sqrt(np.abs(readings.moment)), 0.0)
    usable = (root > 0).astype(float)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    seen = readings.observed.astype(float)
    total = ((root @ inverse) * root).sum(axis=1)
    count = ((seen @ usable) * seen).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count > 0, total / count, np.nan)


def by_overlap(readings: Readings) -> np.ndarray:
    """Algorithm 2: for each unit the one triplet whose smallest pairwise overlap is largest."""
    theta = np.full(len(readings.source), np.nan)
    for unit in range(len(theta)):
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


def pooled(readings: Readings) -> np.ndarray:
    """√(ΣMᵢⱼMᵢₖ / ΣMⱼₖ) over all triplets, weighted by precision: the noise averages out first.

    The answer for units whose single triplets rest on too few rows each.
    """
    weight = np.where(readings.observed, 1 / readings.spread**2, 0.0)
    values, seen = weight * readings.moment, readings.observed.astype(float)
    above = ((values @ seen) * values).sum(axis=1)
    below = ((weight @ readings.moment) * weight).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((above > 0) & (below > 0), np.sqrt(above / below), np.nan)


Solver = Callable[[Readings], np.ndarray]
"""From readings to θ ≥ 0 of each unit, NaN where no triplet answers."""

SOLVERS: dict[str, Solver] = {"median": by_median, "mean": by_mean, "overlap": by_overlap}
