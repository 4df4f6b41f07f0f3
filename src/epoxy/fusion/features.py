"""What depends on the vectors alone: features of every row, and one ridge regression, factorised.

Editing a labeling function changes votes, never vectors. So all that is learned from the vectors is
made once and kept. Two views of a row make its features:

- *bent*: the standardised vector in the axes of the train rows, each axis stretched by the fourth root
  of its variance. The unlabelled rows thereby say which directions matter: with 100 hand labels a
  linear head gains about 1.5 points over the plain vector.
- *local*, for vectors of few dimensions: random Fourier features of a Gaussian kernel, so that a linear
  readout may bend too. Few numbers are mostly measurements, whose size says something: here vectors keep
  their length. Embeddings have dimensions enough: there it adds nothing that was measured.

Vectors are standardised in float64, multiplied and kept in float32, always in whole blocks: rows with
equal vectors have equal features, whichever split and block they stand in.

Of many train rows the first make the view, a number that stays while rows are appended until they are a
sixteenth more. So a session need not view its old rows anew for a few new ones, and a model fitted from
nothing views them as the session does. Gram matrices are of all rows: they add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from ..errors import VectorError
from ..neighbors.workers import Work, single_threaded_blas
from ..numerics import unit_rows
from ..room import followed, roomy

AXES = 384
WAVES, FEW_DIMENSIONS = 512, 128
BEND = 0.25
BANDWIDTH = 2.0  # of the Gaussian kernel, in units of 1 / mean squared distance
RIDGE = 5.0
FEWEST_AXES = 8
WHITE = 0.8
IN_ORDER = -0.85
ALL_UP_TO, DIGITS = 32_768, 5
"""Train rows up to which all make the view; of more, the number of the first has so many binary digits."""
MADE = 512
"""Rows viewed at a time: fewer are filled up with zeros, so that a product never depends on how many."""
LANDMARKS, NEAREST, ROWS_EACH = 256, 8, 6
"""Landmarks at most, those that a row hears, and train rows that there are for each at least."""
SAMPLE = 3000
"""Rows, evenly apart, that stand for all of them."""
BLOCK = 2048
"""Rows read at a time: their features stay in the cache while they are used twice."""
ALONE = 32_768
"""Rows up to which one thread reads them: two took 2.6 ms for 22,070 rows where one took 2.0."""


def in_blocks(
    n_rows: int, do: Callable[[slice], None], size: int = BLOCK, *, threads: int | None = None
) -> None:
    """Do something to every so many rows, in several threads."""
    Work([slice(at, at + size) for at in range(0, n_rows, size)]).run(lambda: do, threads=threads)


def for_one_pass(n_rows: int) -> int | None:
    """Threads that read features once: of few rows one, since starting others takes as long."""
    return 1 if n_rows <= ALONE else None


def n_viewed(n_train: int) -> int:
    """How many of the train rows, from the first on, make the view: all, or at least 15 of 16."""
    unit = 1 << max(0, n_train.bit_length() - DIGITS)
    return n_train if n_train <= ALL_UP_TO else n_train // unit * unit


@dataclass(frozen=True, eq=False)
class View:
    """How a vector becomes features, learned from the train vectors; labels and votes play no part."""

    centre: np.ndarray  # (dimension,)
    scale: np.ndarray  # (dimension,) what to multiply by; 0 for a constant coordinate
    axes: np.ndarray  # (dimension, n_axes), stretched
    frequencies: np.ndarray  # (dimension, n_waves)
    phase: np.ndarray  # (n_waves,)
    middle: np.ndarray  # (n_features,) mean features of the rows it was learned from
    apart: bool  # rows of zeros have no direction and are like the average row
    landmarks: np.ndarray = field(  # (n_landmarks, n_features) float32; see `regions`
        default_factory=lambda: np.zeros((0, 0), dtype=np.float32)
    )

    @classmethod
    def over(
        cls, vectors: np.ndarray, seed: int = 0, *, apart: bool = True
    ) -> tuple[Self, Features]:
        """Learn the view from the train vectors, and view them."""
        first = vectors[: n_viewed(len(vectors))]
        count = max(1, len(first))
        centre = first.mean(axis=0, dtype=np.float64)
        covariance = products(first, centre) / count
        bare = cls.before(centre, covariance, seed, apart=apart)
        matrix = roomy(len(vectors), len(bare.middle), np.float32)
        bare._fill(matrix, vectors)
        viewed = matrix[: len(first)]
        view = bare.around(added_up(len(viewed), lambda part: viewed[part]) / count)
        features = Features(view._centred(matrix, vectors))
        return view.with_landmarks(first[spaced(len(first), SAMPLE)], len(first)), features

    @classmethod
    def before(cls, centre: np.ndarray, covariance: np.ndarray, seed: int, *, apart: bool) -> Self:
        """The view that follows from mean and covariance of the train vectors, before it is centred."""
        scale = _scales(covariance, centre)
        axes = _axes(scale, covariance)
        frequencies, phase = _waves(scale, covariance, seed)
        nothing = np.zeros(axes.shape[1] + len(phase), dtype=np.float32)
        return cls(centre, scale, axes, frequencies, phase, nothing, apart)

    def total(self, vectors: np.ndarray) -> np.ndarray:
        """The sum of the features of rows before they are centred; (n_features,) float64."""
        matrix = self._matrix(vectors)
        return added_up(len(matrix), lambda part: matrix[part])

    def around(self, mean: np.ndarray) -> Self:
        """The same, centred on the mean features of the train rows."""
        return replace(self, middle=mean.astype(np.float32))

    def with_landmarks(self, sample: np.ndarray, n_rows: int) -> Self:
        """The same with landmarks among a sample of the vectors of the `n_rows` rows it was learned from.

        Distinct vectors are put in order, and landmarks stand evenly apart in it, so that the order of
        the rows plays no part. Where rows are too few for more than eight there are none.
        """
        distinct = np.unique(sample, axis=0)
        count = min(LANDMARKS, n_rows // ROWS_EACH, len(distinct))
        some = self.of(distinct[spaced(len(distinct), count)]).astype(np.float64)
        some = some[some.any(axis=1)]
        if len(some) <= NEAREST:
            some = some[:0]
        return replace(self, landmarks=unit_rows(some).astype(np.float32))

    def of(self, vectors: np.ndarray) -> np.ndarray:
        """Features of rows, (n_rows, n_features) float32."""
        if vectors.shape[1] != len(self.centre):
            raise VectorError(
                f"the model was fitted on vectors of dimension {len(self.centre)}, "
                f"got {vectors.shape[1]}; embed all splits with the same encoder"
            )
        return self._centred(self._matrix(vectors), vectors)

    def _centred(self, matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        def centre(part: slice) -> None:
            matrix[part] -= self.middle
            if self.apart:
                matrix[part][~(vectors[part] != 0).any(axis=1)] = 0.0

        in_blocks(len(matrix), centre)
        return matrix

    def _matrix(self, vectors: np.ndarray) -> np.ndarray:
        found = np.empty((len(vectors), len(self.middle)), dtype=np.float32)
        self._fill(found, vectors)
        return found

    def _fill(self, found: np.ndarray, vectors: np.ndarray) -> None:
        """Features before they are centred."""
        at, n_waves = self.axes.shape[1], len(self.phase)
        axes, waves = self.axes.astype(np.float32), self.frequencies.astype(np.float32)

        def view(part: slice) -> None:
            out = found[part]
            standard = np.zeros((MADE, len(self.centre)))
            standard[: len(out)] = (vectors[part] - self.centre) * self.scale
            out[:, :at] = unit_rows((standard.astype(np.float32) @ axes)[: len(out)])
            if n_waves:
                local = (standard.astype(np.float32) @ waves)[: len(out)]
                out[:, at:] = np.sqrt(2 / n_waves) * np.cos(local + self.phase)

        in_blocks(len(vectors), view, MADE)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of the train rows, and what every regression on them shares."""

    matrix: np.ndarray  # (n_train, n_features) float32, centred

    def followed_by(self, more: np.ndarray) -> Features:
        """The same with features of further rows behind; what is known of these rows is kept."""
        found = Features(followed(self.matrix, more))
        if "whole" in self.__dict__:
            known = len(self.matrix) // BLOCK * BLOCK
            found.__dict__["whole"] = _whole(found.matrix, None, self.whole, known)
        if "lengths" in self.__dict__:
            found.__dict__["lengths"] = np.concatenate([self.lengths, Features(more).lengths])
        return found

    def up_to(self, n_rows: int) -> Features:
        """Those of the first rows."""
        found = Features(self.matrix[:n_rows])
        if "lengths" in self.__dict__:
            found.__dict__["lengths"] = self.lengths[:n_rows]
        return found

    @cached_property
    def whole(self) -> np.ndarray:
        """ΦᵀΦ over the blocks that are full, every other one; (2, n_features, n_features) float64."""
        return _whole(self.matrix, None)

    @cached_property
    def gram(self) -> np.ndarray:
        """ΦᵀΦ; (n_features, n_features) float64."""
        return _with_rest(self.whole, self.matrix, None)

    @cached_property
    def inverse(self) -> np.ndarray:
        """(ΦᵀΦ + ridge)⁻¹: any target then costs one product; (n_features, n_features) float64."""
        return inverse_of(self.gram)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the rows, never zero; (n_train,) float64."""
        found = np.empty(len(self.matrix))

        def measure(part: slice) -> None:
            block = self.matrix[part].astype(np.float64)
            found[part] = np.sqrt(np.einsum("ij,ij->i", block, block))

        in_blocks(len(found), measure)
        return np.maximum(found, 1e-12)


def spaced(count: int, most: int) -> np.ndarray:
    """At most so many numbers below `count`, evenly apart."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def inverse_of(gram: np.ndarray) -> np.ndarray:
    """(ΦᵀΦ + ridge)⁻¹, to the same bits whatever the number of threads: they name stages of shards."""
    from scipy.linalg import cholesky
    from scipy.linalg.lapack import dpotri

    shifted = gram + RIDGE * np.eye(len(gram))
    with single_threaded_blas():
        half, _ = dpotri(cholesky(shifted, lower=True, overwrite_a=True), lower=1)
    return np.asarray(np.tril(half) + np.tril(half, -1).T)


def added_up(n_rows: int, rows: Callable[[slice], np.ndarray]) -> np.ndarray:
    """The sum of some rows of each block, in float64 and in an order that does not depend on threads."""
    parts: dict[int, np.ndarray] = {}

    def add(part: slice) -> None:
        parts[part.start] = rows(part).sum(axis=0, dtype=np.float64)

    in_blocks(n_rows, add, threads=for_one_pass(n_rows))
    return np.asarray(sum(parts[at] for at in sorted(parts)))


def products(rows: np.ndarray, centre: np.ndarray | None) -> np.ndarray:
    """Σ (x − centre)(x − centre)ᵀ in float64, in an order that does not depend on threads."""
    return _with_rest(_whole(rows, centre), rows, centre)


def _whole(
    rows: np.ndarray, centre: np.ndarray | None, known: np.ndarray | None = None, start: int = 0
) -> np.ndarray:
    """The same over blocks that are full, every other one apart: more rows only add to it.

    `known` is that of the rows before `start`.
    """
    shape = (2, rows.shape[1], rows.shape[1])
    totals = np.zeros(shape) if known is None else known.copy()
    blocks = range(start // BLOCK, len(rows) // BLOCK)

    def add(half: int) -> None:
        for block in blocks:
            if block % 2 == half:
                totals[half] += _product(rows[block * BLOCK : (block + 1) * BLOCK], centre)

    Work(range(2)).run(lambda: add)
    return totals


def _with_rest(whole: np.ndarray, rows: np.ndarray, centre: np.ndarray | None) -> np.ndarray:
    rest = rows[len(rows) // BLOCK * BLOCK :]
    with single_threaded_blas():
        return np.asarray(whole[0] + whole[1] + _product(rest, centre))


def _product(part: np.ndarray, centre: np.ndarray | None) -> np.ndarray:
    part = part if centre is None else part - centre
    return np.asarray(part.T @ part, dtype=np.float64)


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
    return waves, draw.uniform(0, 2 * np.pi, n_waves)


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
