"""What near means, and how far float32 arithmetic may be from it.

The distance of a pair is *defined* as computed in float64 from the raw float32 vectors, summed in
one fixed order (`LANES` running sums, folded in halves), so it is a property of the pair: no block
size, thread or kernel changes a bit of it. Matrix multiplication in float32 only proposes: it gives
a score, larger is nearer, whose error is at most `slack`; whatever the bound cannot exclude is
measured again in float64.

    cosine      distance = 1 − x·z / sqrt(|x|²|z|²)   score = (x/|x|)·(z/|z|)
    euclidean   distance = |x − z|                    score = x·z − |x|²/2 − |z|²/2 = −distance²/2

The square root is taken of the product of the squared norms because sqrt(a·a) = a exactly: equal
vectors are at distance 0, not at 1e-16. The bounds hold for every order of summation, fused or not
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1): an inner product of length d
is off by at most d·u·|x|·|z| with u = 2⁻²⁴, and rounding the operands adds a few u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...errors import UnknownName, VectorError
from ...room import roomy

LANES = 32
UNIT_ROUNDOFF = 2.0**-24
SMALLEST_NORMAL = 2.0**-126
SAFETY = 1.05  # covers second-order terms, and float64's own rounding many times over


@dataclass(frozen=True)
class Cosine:
    """1 − cosine similarity; a vector of zeros has no direction and is refused."""

    name: str = "cosine"

    def check(self, squared_norm: np.ndarray) -> None:
        """Refuse vectors of zeros."""
        zero = np.flatnonzero(squared_norm == 0)
        if len(zero):
            raise VectorError(
                f"{len(zero)} rows have a vector of zeros, which has no direction under cosine "
                f"distance, first rows {zero[:5].tolist()}; "
                "embed those rows again, drop them from every split, or use metric='euclidean'"
            )

    def operands(
        self, vectors: np.ndarray, squared_norm: np.ndarray, *, grows: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Float32 (n, d') matrices L and R whose products L[i]·R[j] are scores: unit vectors, twice."""
        norm = np.sqrt(squared_norm)
        unit = _table(*vectors.shape, grows=grows)
        np.divide(vectors, norm[:, None], out=unit, casting="same_kind")
        return unit, unit

    def slack(self, dimension: int, largest: float) -> float:
        """How far a score may be off: (d + 8) u, for unit vectors the same for every pair."""
        return SAFETY * (dimension + 8) * UNIT_ROUNDOFF

    def distance_of(self, score: ArrayLike) -> np.ndarray:
        """1 − score, never negative."""
        return np.maximum(0.0, 1.0 - np.asarray(score, dtype=np.float64))

    def score_of(self, distance: ArrayLike) -> np.ndarray:
        """1 − distance."""
        return 1.0 - np.asarray(distance, dtype=np.float64)


@dataclass(frozen=True)
class Euclidean:
    """The length of the difference."""

    name: str = "euclidean"

    def check(self, squared_norm: np.ndarray) -> None:
        """Refuse vectors whose squares float32 cannot hold."""
        if len(squared_norm) and squared_norm.max() > 1e36:
            longest = int(np.argmax(squared_norm))
            raise VectorError(
                f"row {longest} has a vector of length {squared_norm[longest] ** 0.5:.3g}, too "
                "long for float32 arithmetic under euclidean distance; "
                "divide all vectors by a constant"
            )

    def operands(
        self, vectors: np.ndarray, squared_norm: np.ndarray, *, grows: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Two more columns carry the norms: [x, 1, −|x|²/2] against [z, −|z|²/2, 1]."""
        n, dimension = vectors.shape
        left, right = (_table(n, dimension + 2, grows=grows) for _ in range(2))
        left[:, :dimension] = vectors
        left[:, dimension] = 1.0
        left[:, dimension + 1] = -squared_norm / 2
        right[:, :dimension] = vectors
        right[:, dimension:] = left[:, [dimension + 1, dimension]]
        return left, right

    def slack(self, dimension: int, largest: float) -> float:
        """(2d + 12) u times the largest |x|², because |x||z| ≤ (|x|² + |z|²)/2 ≤ largest."""
        relative = SAFETY * (2 * dimension + 12) * UNIT_ROUNDOFF
        return relative * largest + (dimension + 4) * SMALLEST_NORMAL

    def distance_of(self, score: ArrayLike) -> np.ndarray:
        """√(−2 score), 0 where rounding made the score positive."""
        return np.sqrt(np.maximum(0.0, -2.0 * np.asarray(score, dtype=np.float64)))

    def score_of(self, distance: ArrayLike) -> np.ndarray:
        """−distance²/2."""
        return -0.5 * np.square(np.asarray(distance, dtype=np.float64))


def _table(n_rows: int, width: int, *, grows: bool) -> np.ndarray:
    """Where operands are put; with room behind where more of them may come."""
    return roomy(n_rows, width, np.float32) if grows else np.empty((n_rows, width), np.float32)


Metric = Cosine | Euclidean
"""How to make operands for the matrix multiplication, and how to read its scores."""

METRICS: dict[str, Metric] = {"cosine": Cosine(), "euclidean": Euclidean()}


def metric_named(name: str) -> Metric:
    """The metric of that name."""
    if not isinstance(name, str) or name not in METRICS:
        raise UnknownName.of("metric", name, METRICS)
    return METRICS[name]
