"""From a rank-one matrix to its factors: |θᵢ| = √|MᵢⱼMᵢₖ/Mⱼₖ|, over the triplets {i, j, k}.

Every solver takes readings and returns θ ≥ 0 per unit, NaN where no triplet answers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .readings import Readings

__all__ = ["SOLVERS", "Solver", "candidates", "pooled"]

_CHUNK = 1 << 21  # candidates held at once


def candidates(moment: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All triplet estimates: values (n_units, n_pairs), and the two partners (n_pairs, 2).

    Where a triplet is not allowed or its denominator is zero the value is NaN.
    """
    first, second = np.triu_indices(len(moment), 1)
    below = np.where(allowed[first, second], moment[first, second], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.sqrt(np.abs(moment[:, first] * moment[:, second] / below))
    usable = allowed[:, first] & allowed[:, second] & (below != 0)
    return np.where(usable, value, np.nan), np.stack([first, second], axis=1)


def _by_unit(readings: Readings, reduce: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Reduce each unit's candidates, a chunk of units at a time so that memory stays bounded."""
    n_units = len(readings.source)
    allowed = readings.observed
    if n_units * n_units * n_units // 2 <= _CHUNK:
        return reduce(candidates(readings.moment, allowed)[0])
    theta = np.full(n_units, np.nan)
    for unit in range(n_units):
        partners = np.flatnonzero(allowed[unit])
        at = np.r_[unit, partners]
        value, _ = candidates_of_first(readings.moment[np.ix_(at, at)], allowed[np.ix_(at, at)])
        theta[unit] = reduce(value[None, :])[0]
    return theta


def candidates_of_first(moment: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The triplet estimates of unit 0 alone; values (n_pairs,) and partners."""
    first, second = np.triu_indices(len(moment) - 1, 1)
    first, second = first + 1, second + 1
    below = np.where(allowed[first, second], moment[first, second], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.sqrt(np.abs(moment[0, first] * moment[0, second] / below))
    return np.where(below != 0, value, np.nan), np.stack([first, second], axis=1)


def _median_of_rows(value: np.ndarray) -> np.ndarray:
    """Median of the numbers in each row, NaN for none; nanmedian without its Python loop."""
    if not value.shape[1]:
        return np.full(len(value), np.nan)
    ordered = np.sort(value, axis=1)  # NaN sorts last
    count = (~np.isnan(ordered)).sum(axis=1)
    rows = np.arange(len(value))
    middle = np.maximum(count - 1, 0)
    low, high = ordered[rows, middle // 2], ordered[rows, np.minimum(count, middle + 1) // 2]
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, (low + high) / 2, np.nan)


def _mean_of_rows(value: np.ndarray) -> np.ndarray:
    seen = ~np.isnan(value)
    count = seen.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, np.where(seen, value, 0.0).sum(axis=1) / count, np.nan)


def by_median(readings: Readings) -> np.ndarray:
    """The median over all triplets: one near-zero denominator would dominate a mean."""
    return _by_unit(readings, _median_of_rows)


def by_mean(readings: Readings) -> np.ndarray:
    """The mean over all triplets."""
    return _by_unit(readings, _mean_of_rows)


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
    seen = readings.observed.astype(float)
    weight = np.where(readings.observed, 1 / readings.spread**2, 0.0)
    weighted = weight * readings.moment
    above = ((weighted @ seen) * weighted).sum(axis=1)
    below = ((weight @ (seen * readings.moment)) * weight).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((above > 0) & (below > 0), np.sqrt(above / below), np.nan)


Solver = Callable[[Readings], np.ndarray]
"""From readings to θ ≥ 0 per unit, NaN where no triplet answers."""

SOLVERS: dict[str, Solver] = {
    "median": by_median,
    "mean": by_mean,
    "overlap": by_overlap,
}
