"""What depends on the vectors alone: features of every row, and one ridge regression, factorised.

Editing a labeling function changes votes, never vectors. So all that is learned from the vectors is
made once and kept. Two views of a row make its features:

- *bent*: the standardised vector in the axes of the train rows, each axis stretched by the fourth root
  of its variance. The unlabelled rows thereby say which directions matter: with 100 hand labels a
  linear head gains about 1.5 points over the plain vector.
- *local*: random Fourier features of a Gaussian kernel, so that a linear readout may bend too.

Features are computed in float64 and kept in float32, block by block: rows with equal vectors have
equal features, whichever split and block they stand in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ..errors import VectorError
from ..neighbors.workers import Work
from ..numerics import unit_rows

__all__ = ["BLOCK", "Features", "View"]

AXES = 384
WAVES = 1024
BEND = 0.25
BANDWIDTH = 2.0  # of the Gaussian kernel, in units of 1 / mean squared distance
RIDGE = 3.0
FEWEST_AXES = 8
WHITE = 0.8
IN_ORDER = -0.85
BLOCK = 2048
"""Rows read at a time: their features stay in the cache while they are used twice."""


@dataclass(frozen=True, eq=False)
class View:
    """How a vector becomes features, learned from the train vectors; labels and votes play no part."""

    centre: np.ndarray  # (dimension,)
    scale: np.ndarray  # (dimension,) what to multiply by; 0 for a constant coordinate
    axes: np.ndarray  # (dimension, n_axes), stretched
    waves: np.ndarray  # (dimension, n_waves)
    phase: np.ndarray  # (n_waves,)
    middle: np.ndarray  # (n_features,) mean features of the train rows
    apart: bool  # rows of zeros have no direction and are like the average row

    @classmethod
    def over(
        cls, vectors: np.ndarray, seed: int = 0, *, apart: bool = True
    ) -> tuple[Self, Features]:
        """Learn the view from the train vectors, and view them."""
        centre = vectors.mean(axis=0, dtype=np.float64)
        covariance = _covariance(vectors, centre)
        scale = _scales(covariance, centre)
        axes, spread = _axes(vectors, centre, scale, covariance)
        draw = np.random.default_rng(seed)
        # drawn in the vectors' own coordinates: principal axes are unique only up to signs and ties
        waves = draw.normal(size=(len(centre), WAVES)) * np.sqrt(2 * BANDWIDTH / max(spread, 1e-12))
        phase = draw.uniform(0, 2 * np.pi, WAVES)
        middle = np.zeros(axes.shape[1] + WAVES, dtype=np.float32)
        bare = cls(centre, scale, axes, waves, phase, middle, apart)
        matrix = bare._matrix(vectors)
        middle = matrix.mean(axis=0, dtype=np.float64).astype(np.float32)
        view = cls(centre, scale, axes, waves, phase, middle, apart)
        return view, Features(view._centred(matrix, vectors))

    def of(self, vectors: np.ndarray) -> np.ndarray:
        """Features of rows, (n_rows, n_features) float32."""
        if vectors.shape[1] != len(self.centre):
            raise VectorError(
                f"the model was fitted on vectors of dimension {len(self.centre)}, "
                f"got {vectors.shape[1]}; embed all splits with the same encoder"
            )
        return self._centred(self._matrix(vectors), vectors)

    def _centred(self, matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        matrix -= self.middle
        if self.apart:
            matrix[~(vectors != 0).any(axis=1)] = 0.0
        return matrix

    def _matrix(self, vectors: np.ndarray) -> np.ndarray:
        found = np.empty((len(vectors), self.axes.shape[1] + WAVES), dtype=np.float32)
        at = self.axes.shape[1]

        def view(part: slice) -> None:
            standard = (vectors[part] - self.centre) * self.scale
            found[part, :at] = unit_rows(standard @ self.axes)
            local = unit_rows(standard) @ self.waves
            local += self.phase
            np.cos(local, out=local)
            local *= np.sqrt(2 / WAVES)
            found[part, at:] = local

        Work([slice(row, row + BLOCK) for row in range(0, len(vectors), BLOCK)]).run(lambda: view)
        return found


@dataclass(frozen=True, eq=False)
class Features:
    """Features of the train rows, and what every regression on them shares."""

    matrix: np.ndarray  # (n_train, n_features) float32, centred

    @cached_property
    def gram(self) -> np.ndarray:
        """ΦᵀΦ; (n_features, n_features) float64."""
        size, blocks = self.matrix.shape[1], range(0, len(self.matrix), BLOCK)
        halves = [blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]]
        totals = np.zeros((2, size, size))

        def add(half: int) -> None:  # in a fixed order, so that the bits do not depend on threads
            for start in halves[half]:
                part = self.matrix[start : start + BLOCK]
                totals[half] += part.T @ part

        Work(range(2)).run(lambda: add)
        return np.asarray(totals[0] + totals[1])

    @cached_property
    def inverse(self) -> np.ndarray:
        """(ΦᵀΦ + ridge)⁻¹: any target then costs one product; (n_features, n_features) float64."""
        from scipy.linalg import cholesky
        from scipy.linalg.lapack import dpotri

        shifted = self.gram + RIDGE * np.eye(len(self.gram))
        half, _ = dpotri(cholesky(shifted, lower=True, overwrite_a=True), lower=1)
        return np.asarray(np.tril(half) + np.tril(half, -1).T)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the rows, never zero; (n_train,) float64."""
        found = np.empty(len(self.matrix))
        for start in range(0, len(self.matrix), BLOCK):
            part = self.matrix[start : start + BLOCK].astype(np.float64)
            found[start : start + BLOCK] = np.sqrt(np.einsum("ij,ij->i", part, part))
        return np.maximum(found, 1e-12)


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


def _covariance(vectors: np.ndarray, centre: np.ndarray) -> np.ndarray:
    total = np.zeros((len(centre), len(centre)))
    for start in range(0, len(vectors), BLOCK):
        part = vectors[start : start + BLOCK] - centre
        total += part.T @ part
    return total / max(1, len(vectors))


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


def _axes(
    vectors: np.ndarray, centre: np.ndarray, scale: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, float]:
    """The leading axes, each times the fourth root of its variance, and the mean squared distance."""
    from scipy.linalg import eigh

    dimension = len(centre)
    first = max(0, dimension - AXES)
    scaled = covariance * scale[:, None] * scale
    variance, axes = eigh(scaled, subset_by_index=[first, dimension - 1])
    largest = max(float(variance.max(initial=0.0)), 1e-30)
    mean = np.zeros(dimension)
    for start in range(0, len(vectors), BLOCK):
        mean += unit_rows((vectors[start : start + BLOCK] - centre) * scale).sum(axis=0)
    mean /= max(1, len(vectors))
    return axes * (np.maximum(variance, 0.0) / largest) ** BEND, 2 - 2 * float(mean @ mean)
