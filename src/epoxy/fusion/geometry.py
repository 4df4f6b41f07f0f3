"""What depends on the vectors alone, computed once and reused by every refit.

Editing a labeling function changes votes, never vectors. So everything the experts need of the
vectors is one value, `Geometry`: the features of the train rows, the factorised matrix of the ridge
regressions, and who is nearest. A model keeps its geometry and takes it up again when it is fitted
on the same vectors.

Two views of a row make its features:

- *bent*: the standardised vector in the axes of the train rows, each axis stretched by the fourth root
  of its variance. The unlabelled rows thereby say which directions matter: with 100 hand labels a
  linear head gains about 1.5 points over the plain vector.
- *local*: random Fourier features of a Gaussian kernel, so that a linear readout may bend too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from .. import neighbors
from ..errors import VectorError
from ..votes import Split
from .folds import match_groups
from .rows import NO_ROW, Lent, Rows

__all__ = ["Geometry", "Smoother", "unit"]

AXES = 384
WAVES = 1024
BEND = 0.25
BANDWIDTH = 2.0  # of the Gaussian kernel, in units of 1 / mean squared distance
RIDGE = 3.0
REMEMBERED = 4
FEWEST_AXES = 8
WHITE = 0.8
IN_ORDER = -0.85


@dataclass(frozen=True, eq=False)
class Smoother:
    """Ridge regression over the train rows, factorised once: any target costs one product."""

    features: np.ndarray  # (n_train, n_features) float32, centred
    factor: np.ndarray  # (n_features, n_features) float64, lower Cholesky factor

    @classmethod
    def over(cls, features: np.ndarray, ridge: float = RIDGE) -> Self:
        """Factorise the Gram matrix of centred features."""
        from scipy.linalg import cholesky

        gram = (features.T @ features).astype(np.float64)
        gram[np.diag_indices_from(gram)] += ridge
        return cls(features, cholesky(gram, lower=True, overwrite_a=True, check_finite=False))

    def solve(self, target: np.ndarray) -> np.ndarray:
        """Weights that read `target` (n_train, k), with zero mean, off the features."""
        return self.apply_inverse(self.features.T @ target.astype(np.float32))

    def apply_inverse(self, right: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of the regularised Gram matrix."""
        from scipy.linalg import cho_solve

        found = cho_solve((self.factor, True), right.astype(np.float64), check_finite=False)
        return np.asarray(found)


@dataclass(eq=False)
class _Memory:
    """What is known about one split's rows: features, and nearest supports column by column."""

    vectors: np.ndarray
    features: np.ndarray
    space: neighbors.Space | None
    kept: np.ndarray  # (n_rows,) bool: the rows that have a direction
    columns: dict[bytes, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    groups: tuple[bytes, np.ndarray] = (b"", np.empty(0))  # of which rows, and the groups

    @classmethod
    def of(cls, vectors: np.ndarray, features: np.ndarray) -> Self:
        """Rows of zeros have no direction: they are near nobody, and like the average row."""
        kept = (vectors != 0).any(axis=1)
        features[~kept] = 0.0
        space = neighbors.Space(vectors[kept]) if kept.any() else None
        return cls(vectors, features, space, kept)


@dataclass(eq=False)
class Geometry:
    """Features, ridge factor and neighbours of one set of train vectors."""

    centre: np.ndarray  # (dimension,)
    scale: np.ndarray  # (dimension,) what to multiply by; 0 for a constant coordinate
    axes: np.ndarray  # (dimension, n_axes), stretched
    waves: np.ndarray  # (dimension, n_waves)
    phase: np.ndarray  # (n_waves,)
    middle: np.ndarray  # (n_features,) mean features of the train rows
    seed: int
    _memories: list[_Memory] = field(default_factory=list, repr=False)

    @classmethod
    def over(cls, vectors: np.ndarray, seed: int = 0) -> Self:
        """Learn the views from the train vectors; labels and votes play no part."""
        centre = vectors.mean(axis=0)
        scale = _scales(vectors - centre, centre)
        standard = (vectors - centre) * scale
        axes = _stretched_axes(standard)
        spread = 2 - 2 * float((unit(standard).mean(axis=0).astype(np.float64) ** 2).sum())
        draw = np.random.default_rng(seed)
        # drawn in the vectors' own coordinates: principal axes are unique only up to signs and ties
        waves = draw.normal(size=(len(centre), WAVES)) * np.sqrt(2 * BANDWIDTH / max(spread, 1e-12))
        phase = draw.uniform(0, 2 * np.pi, WAVES)
        middle = np.zeros(axes.shape[1] + WAVES, dtype=np.float32)
        made = cls(centre, scale, axes, _single(waves), _single(phase), middle, seed)
        features = made._features(vectors)
        made.middle = features.mean(axis=0)
        features -= made.middle
        made._memories.append(_Memory.of(vectors, features))
        return made

    @property
    def vectors(self) -> np.ndarray:
        """The train vectors it was learned from."""
        return self._memories[0].vectors

    @cached_property
    def smoother(self) -> Smoother:
        """The ridge regression over the train rows."""
        return Smoother.over(self._memories[0].features)

    def is_of(self, vectors: np.ndarray | None, seed: int) -> bool:
        """Whether a refit on these vectors may use it."""
        return vectors is not None and seed == self.seed and _same(self.vectors, vectors)

    def rows(self, split: Split, train: Split) -> Rows:
        """A split as the experts see it; lent votes are searched when first asked for."""
        if split.vectors is None:
            return Rows(split.votes.matrix, None, lambda: Lent.nobody(split.votes.matrix.shape))
        memory = self._remember(split.vectors)
        return Rows(split.votes.matrix, memory.features, lambda: self._lent(memory, split, train))

    def groups(self, dev: Split) -> np.ndarray | None:
        """Groups of labelled dev rows that folds must not separate; see `folds.match_groups`."""
        if dev.vectors is None:
            return None
        memory, which = self._remember(dev.vectors), dev.labelled.tobytes()
        if memory.groups[0] != which:
            found = match_groups(memory.features[dev.labelled], self._memories[0].features)
            memory.groups = (which, found)
        return memory.groups[1]

    def _remember(self, vectors: np.ndarray) -> _Memory:
        for memory in self._memories:
            if _same(memory.vectors, vectors):
                return memory
        if vectors.shape[1] != len(self.centre):
            raise VectorError(
                f"the model was fitted on vectors of dimension {len(self.centre)}, "
                f"got {vectors.shape[1]}; embed all splits with the same encoder"
            )
        memory = _Memory.of(vectors, self._features(vectors) - self.middle)
        self._memories[1:] = [*self._memories[1:], memory][-REMEMBERED:]
        return memory

    def _features(self, vectors: np.ndarray) -> np.ndarray:
        standard = (vectors - self.centre) * self.scale
        local = unit(standard) @ self.waves
        local += self.phase
        np.cos(local, out=local)
        local *= np.float32(np.sqrt(2 / WAVES))
        return np.hstack([unit(standard @ self.axes), local])

    def _lent(self, memory: _Memory, split: Split, train: Split) -> Lent:
        """Nearest supports, searched only for the columns that changed since the last time."""
        home = self._memories[0]
        keys = [
            hashlib.blake2b(lends.tobytes() + asks.tobytes(), digest_size=16).digest()
            for lends, asks in zip(train.votes.matrix.T, split.votes.matrix.T, strict=True)
        ]
        new = [at for at, key in enumerate(keys) if key not in memory.columns]
        if new:
            row, distance = _nearest(
                home, memory, train.votes.cast[:, new], split.votes.cast[:, new]
            )
            for at, column in enumerate(new):
                memory.columns[keys[column]] = row[:, at], distance[:, at]
        memory.columns = {key: memory.columns[key] for key in keys}
        row = np.stack([memory.columns[key][0] for key in keys], axis=1)
        distance = np.stack([memory.columns[key][1] for key in keys], axis=1)
        said = np.take_along_axis(train.votes.matrix, np.maximum(row, 0).astype(np.intp), axis=0)
        return Lent(np.where(row >= 0, said, NO_ROW).astype(np.int16), distance, row)


def _scales(centred: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """What to multiply each coordinate by, so that no unit of measurement counts for more than another.

    Vectors that come in principal axes already (from PCA or LSA) keep their proportions: there the
    variance of a coordinate is what the data say about its importance, and dividing by it is whitening,
    which costs more than anything else one can do to an embedding.
    """
    deviation = np.sqrt((centred.astype(np.float64) ** 2).mean(axis=0))
    # a constant coordinate deviates by rounding errors alone
    rounding = np.maximum(1e-6 * np.abs(centre), 1e-9 * deviation.max(initial=0.0))
    moves = deviation > np.maximum(rounding, 1e-30)
    inverse = np.where(moves, 1 / np.where(moves, deviation, 1), 0.0)
    if _in_principal_axes(centred[:, moves] * inverse[moves], deviation[moves]):
        inverse[moves] = 1 / np.sqrt((deviation[moves] ** 2).mean())
    return _single(inverse)


def _in_principal_axes(standard: np.ndarray, deviation: np.ndarray) -> bool:
    """Coordinates that are uncorrelated, and sorted by their variance, came out of a decomposition."""
    dimension = len(deviation)
    if dimension < FEWEST_AXES:
        return False
    rank = np.argsort(np.argsort(deviation))
    if np.corrcoef(np.arange(dimension), rank)[0, 1] > IN_ORDER:
        return False
    correlation = standard.T @ standard / len(standard)
    # participation ratio of the eigenvalues: 1 if nothing is correlated, 1 / dimension if all is
    return dimension / float((correlation.astype(np.float64) ** 2).sum()) > WHITE


def _stretched_axes(standard: np.ndarray) -> np.ndarray:
    """The leading principal axes, each times the fourth root of its variance."""
    from scipy.linalg import eigh

    dimension = standard.shape[1]
    first = max(0, dimension - AXES)
    covariance = (standard.T @ standard).astype(np.float64) / max(1, len(standard))
    variance, axes = eigh(covariance, subset_by_index=[first, dimension - 1])
    largest = max(float(variance.max(initial=0.0)), 1e-30)
    return _single(axes * (np.maximum(variance, 0.0) / largest) ** BEND)


def _nearest(
    home: _Memory, memory: _Memory, support: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    row = np.full(own.shape, NO_ROW, dtype=np.int32)
    distance = np.full(own.shape, np.inf, dtype=np.float32)
    if home.space is None or memory.space is None:
        return row, distance
    support = support[home.kept] & ~support.all(axis=0)  # a source that always votes lends nothing
    onto = None if memory is home else memory.space
    found = neighbors.nearest(home.space, support, onto, wanted=~own[memory.kept])
    places = np.flatnonzero(home.kept).astype(np.int32)
    row[memory.kept] = np.where(found.row >= 0, places[np.maximum(found.row, 0)], NO_ROW)
    distance[memory.kept] = found.distance
    return row, distance


def unit(vectors: np.ndarray) -> np.ndarray:
    """Each row at length one; rows of zeros stay."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.asarray(vectors / np.maximum(length, np.float32(1e-12)))


def _single(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def _same(left: np.ndarray, right: Any) -> bool:
    return left is right or (left.shape == right.shape and np.array_equal(left, right))
