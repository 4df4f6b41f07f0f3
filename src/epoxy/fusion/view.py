"""Features of rows: what depends on vectors alone, and is made once.

A feature row is the standardised vector in the principal axes of the train rows, each axis stretched by the
fourth root of its variance, at length one and centred: unlabelled rows thereby say which directions matter.
Vectors of few dimensions, as columns of tables are, keep their length, and random Fourier features of a
Gaussian kernel stand beside them, so that a line may bend.

Vectors and features are read in blocks: anything that gives a block for a slice will do, on disk too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import mapped
from ..errors import VectorError
from ..mapped import BLOCK, blocks
from ..neighbors.workers import spread
from ..numerics import unit_rows
from .constants import AXES, BANDWIDTH, BEND, FEW_DIMENSIONS, RIDGE, WAVES

FEWEST_AXES, WHITE, IN_ORDER = 8, 0.8, -0.85


def spaced(count: int, most: int = 3000) -> np.ndarray:
    """At most so many numbers below `count`, evenly apart."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def gram(rows: Any, centre: np.ndarray | float = 0.0) -> np.ndarray:
    """Σ (x − centre)(x − centre)ᵀ, products in float32 and their sum in float64."""
    total = np.zeros((rows.shape[1],) * 2)
    for part in blocks(len(rows)):
        block = (rows[part] - centre).astype(np.float32)
        total += block.T @ block
    return total


@dataclass(frozen=True, eq=False)
class View:
    """How a vector becomes features, learned from the train vectors; labels and votes play no part."""

    centre: np.ndarray  # (dimension,)
    scale: np.ndarray  # (dimension,) what to multiply by; 0 for a constant coordinate
    axes: np.ndarray  # (dimension, n_axes) float32, stretched
    frequencies: np.ndarray  # (dimension, n_waves) float32
    phase: np.ndarray  # (n_waves,)
    middle: np.ndarray  # (n_features,) float32, mean features of the train rows
    apart: bool  # rows of zeros have no direction: their features are zero

    @classmethod
    def over(cls, vectors: Any, seed: int = 0, *, apart: bool = True) -> tuple[View, np.ndarray]:
        """Learn it from the train vectors; and their features."""
        count, dimension = max(1, len(vectors)), vectors.shape[1]
        parts = blocks(len(vectors))
        centre = sum(
            (vectors[part].sum(axis=0, dtype=np.float64) for part in parts), np.zeros(dimension)
        )
        centre = centre / count
        covariance = gram(vectors, centre) / count
        scale = _scales(covariance, centre)
        frequencies, phase = _waves(scale, covariance, seed)
        axes = _axes(scale, covariance)
        nothing = np.zeros(axes.shape[1] + len(phase), dtype=np.float32)
        bare = cls(centre, scale, axes.astype(np.float32), frequencies, phase, nothing, False)
        found = bare.of(vectors)
        total = sum((found[part].sum(axis=0, dtype=np.float64) for part in parts), nothing)
        made = replace(bare, middle=(total / count).astype(np.float32), apart=apart)
        for part in parts:
            found[part] -= made.middle
            if apart:
                found[part][~(vectors[part] != 0).any(axis=1)] = 0.0
        return made, found

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return len(self.middle)

    def of(self, vectors: Any) -> np.ndarray:
        """Features of rows, (n_rows, n_features) float32."""
        if vectors.shape[1] != len(self.centre):
            raise VectorError(
                f"the model was fitted on vectors of dimension {len(self.centre)}, "
                f"got {vectors.shape[1]}; embed all splits with the same encoder"
            )
        found = mapped.empty((len(vectors), self.n_features), np.float32)

        def view(part: slice) -> None:
            block = vectors[part]
            made = self._raw(block) - self.middle
            if self.apart:
                made[~(block != 0).any(axis=1)] = 0.0
            found[part] = made

        spread(view, blocks(len(vectors)))
        return found

    def _raw(self, vectors: np.ndarray) -> np.ndarray:
        """Features before they are centred."""
        standard = ((vectors - self.centre) * self.scale).astype(np.float32)
        bent = standard @ self.axes
        n_waves = len(self.phase)
        if not n_waves:
            return unit_rows(bent)
        local = np.sqrt(2 / n_waves) * np.cos(standard @ self.frequencies + self.phase)
        return np.hstack([unit_rows(bent), local]).astype(np.float32)


def inverse_of(products: np.ndarray) -> np.ndarray:
    """(ΦᵀΦ + ridge)⁻¹: any target then costs one product."""
    from scipy.linalg import cho_factor, cho_solve

    shifted = products + RIDGE * np.eye(len(products))
    return np.asarray(cho_solve(cho_factor(shifted, lower=True), np.eye(len(products))))


def read(features: Any, weights: np.ndarray) -> np.ndarray:
    """features @ weights in float32, block by block; of two classes one column is read, not two."""
    first = int(weights.shape[1] == 2 and np.allclose(weights[:, 0], -weights[:, 1], atol=1e-6))
    columns = np.ascontiguousarray(weights[:, first:], np.float32)
    found = np.empty((len(features), columns.shape[1]), np.float32)

    def multiply(part: slice) -> None:
        np.matmul(features[part], columns, out=found[part])

    each_block(len(features), multiply)
    return np.hstack([-found, found]) if first else found


def each_block(n_rows: int, do: Callable[[slice], None]) -> None:
    """Do something to each block of rows; of few rows in this thread, since starting others takes as long."""
    parts = blocks(n_rows)
    if n_rows > 8 * BLOCK:
        spread(do, parts)
    else:
        for part in parts:
            do(part)


def _scales(covariance: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """What to multiply each coordinate by, so that no unit of measurement counts for more than another.

    Vectors that come in principal axes already (from PCA or LSA) keep their proportions: there the
    variance of a coordinate is what the data say about its importance, and dividing by it is whitening,
    which costs more than anything else one can do to an embedding.
    """
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    # a constant coordinate deviates by rounding errors alone
    rounding = np.maximum(1e-6 * np.abs(centre), 1e-9 * deviation.max(initial=0.0))
    moves = deviation > np.maximum(rounding, 1e-30)
    inverse = np.where(moves, 1 / np.where(moves, deviation, 1), 0.0)
    correlation = (covariance * inverse[:, None] * inverse)[np.ix_(moves, moves)]
    if _in_principal_axes(correlation, deviation[moves]):
        inverse[moves] = 1 / np.sqrt((deviation[moves] ** 2).mean())
    return inverse


def _waves(scale: np.ndarray, covariance: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random waves for vectors of few dimensions: frequencies (dimension, n_waves) and phases.

    They are drawn in the vectors' own coordinates: principal axes are unique only up to signs and ties.
    """
    draw, dimension = np.random.default_rng(seed), len(scale)
    n_waves = WAVES if dimension < FEW_DIMENSIONS else 0
    spread = 2 * float(scale**2 @ np.diagonal(covariance))  # mean squared distance
    size = np.sqrt(2 * BANDWIDTH / max(spread, 1e-12))
    waves = draw.normal(size=(dimension, n_waves)) * size
    return waves.astype(np.float32), draw.uniform(0, 2 * np.pi, n_waves)


def _in_principal_axes(correlation: np.ndarray, deviation: np.ndarray) -> bool:
    """Coordinates that are uncorrelated, and sorted by their variance, came out of a decomposition."""
    dimension = len(deviation)
    if dimension < FEWEST_AXES:
        return False
    rank = np.argsort(np.argsort(deviation))
    if np.corrcoef(np.arange(dimension), rank)[0, 1] > IN_ORDER:
        return False
    # participation ratio of the eigenvalues: 1 if nothing is correlated, 1 / dimension if all is
    return dimension / float((correlation**2).sum()) > WHITE


def _axes(scale: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The leading axes, each times the fourth root of its variance."""
    from scipy.linalg import eigh

    dimension = len(scale)
    first = max(0, dimension - AXES)
    scaled = covariance * scale[:, None] * scale
    variance, axes = eigh(scaled, subset_by_index=[first, dimension - 1])
    largest = max(float(variance.max(initial=0.0)), 1e-30)
    return np.asarray(axes * (np.maximum(variance, 0.0) / largest) ** BEND)
