"""Sums over all pairs of rows, in blocks, without n² memory.

Everything the theory measures about nearness is a share of near pairs: "of the pairs within r, how
many differ?". A block of anchor rows is compared with all rows by one matrix product, the near
pairs are binned by radius, and only sums per radius are kept. With every row as an anchor the
shares are exact; with a sample of anchors they carry a stated error. Anchors are sampled rather
than pairs because small radii matter most and a random pair is almost never near.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import ParameterError, RadiusError, VectorError
from ..inputs import as_table, check_finite
from ..neighbors.metrics import metric_named
from ..numerics import wilson

Event = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of (anchor rows, other rows), both index arrays: where the event holds, bool."""

_EXACT_PAIRS = 100_000_000  # about a second of one core per 384 dimensions; above it, sample
_BLOCK_CELLS = 2_000_000  # distances held at once: 16 MB


@dataclass(frozen=True)
class Scan:
    """How pairs are looked at.

    Parameters
    ----------
    metric
        `"cosine"` (1 − cosine similarity) or `"euclidean"`.
    anchors
        Rows compared with all others; None takes all of them up to 10,000 rows and otherwise as
        many as make 10⁸ pairs. A sample is drawn without replacement.
    confidence
        Of the bands, simultaneously over all radii asked for (Bonferroni).
    seed
        Of the sample of anchors.
    """

    metric: Literal["cosine", "euclidean"] = "cosine"
    anchors: int | None = None
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        metric_named(self.metric)
        if not 0 < self.confidence < 1:
            raise ParameterError(
                f"confidence lies between 0 and 1, got {self.confidence}; write 0.95 for 95 %"
            )
        if self.anchors is not None and self.anchors < 2:
            raise ParameterError(
                f"a band needs at least 2 anchor rows, got {self.anchors}; "
                "raise anchors or leave it out"
            )

    def choose(self, n_rows: int) -> np.ndarray:
        """The anchor rows among `n_rows`, ascending."""
        count = max(2, _EXACT_PAIRS // max(1, n_rows)) if self.anchors is None else self.anchors
        if count >= n_rows:
            return np.arange(n_rows)
        return np.sort(np.random.default_rng(self.seed).choice(n_rows, count, replace=False))


DEFAULT = Scan()


@dataclass(frozen=True, eq=False)
class Curve:
    """A share as a function of the radius, with a confidence band.

    `value` is NaN where no pair is that near; the band is then [0, 1]. `sampling` is the part of
    the half-width that comes from looking at a sample of anchors only: 0 when all rows were used.
    """

    radii: np.ndarray  # (n_radii,) increasing
    value: np.ndarray  # (n_radii,)
    low: np.ndarray  # (n_radii,)
    high: np.ndarray  # (n_radii,)
    sampling: np.ndarray  # (n_radii,)
    confidence: float
    n_rows: int
    n_anchors: int

    def at(self, radius: Any) -> np.ndarray:
        """The value at any radius between the grid's ends, read linearly; NaN outside them."""
        known = np.isfinite(self.value)
        if not known.any():
            return np.full(np.shape(radius), np.nan)
        found = np.interp(radius, self.radii[known], self.value[known], left=np.nan, right=np.nan)
        return np.asarray(found)

    def __repr__(self) -> str:
        how = "all pairs" if self.n_anchors == self.n_rows else f"{self.n_anchors:,} anchors"
        return f"Curve({len(self.radii)} radii, {self.n_rows:,} rows, {how})"


@dataclass(frozen=True, eq=False)
class PairSums:
    """What a scan keeps: sums over anchors of their near rows, and of events among these."""

    radii: np.ndarray  # (n_radii,)
    near: np.ndarray  # (n_radii,) Σ c, c = near rows of one anchor
    near_squared: np.ndarray  # (n_radii,) Σ c²
    hits: np.ndarray  # (n_events, n_radii) Σ w, w = near rows of one anchor where the event holds
    hits_squared: np.ndarray  # (n_events, n_radii) Σ w²
    hits_near: np.ndarray  # (n_events, n_radii) Σ w c
    touched: np.ndarray  # (n_events, n_radii) anchors with w > 0
    n_rows: int
    n_anchors: int
    confidence: float

    def share(self, event: int) -> Curve:
        """Pr(event | distance ≤ r) with its band.

        The share Σw / Σc is a ratio of two U-statistics. Its variance is estimated by the delta
        method from the spread of w − share·c over anchors, turned into a number of independent
        pairs, and never counted as more than the disjoint pairs the near anchors can form; the band
        is Wilson's with that number. So it does not collapse when no near pair differs.
        """
        hits, near, count = self.hits[event], self.near, self.n_anchors
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(near > 0, hits / near, np.nan)
            squares = (
                self.hits_squared[event]
                - 2 * value * self.hits_near[event]
                + value**2 * self.near_squared
            )
            spread = np.maximum(squares, 0) / max(1, count - 1) * (count / near) ** 2
            variance = spread * (1 / count + 3 / self.n_rows)
            disjoint = near**2 / self.near_squared / (1 + count / self.n_rows)
            independent = np.fmin(value * (1 - value) / variance, disjoint)
            sampled = np.sqrt(spread * (1 / count - 1 / self.n_rows))
        z = self._quantile()
        low, high = wilson(value, np.where(independent > 0, independent, disjoint), z)
        return self._curve(value, low, high, np.nan_to_num(z * sampled))

    def nearness(self) -> Curve:
        """Pr(distance ≤ r) over pairs of different rows, with its band."""
        others, count = self.n_rows - 1, self.n_anchors
        value = self.near / (count * others)
        spread = np.maximum(self.near_squared / others**2 - count * value**2, 0) / (count - 1)
        z = self._quantile()
        half = z * np.sqrt(spread * (1 / count + 3 / self.n_rows))
        low, high = wilson(value, np.full(len(value), count / (1 + count / self.n_rows)), z)
        # the wider of normal and Wilson: with no near pair seen the normal band has no width
        sampled = z * np.sqrt(spread * (1 / count - 1 / self.n_rows))
        rare = self.near == 0
        low = np.where(rare, low, np.clip(value - half, 0, 1))
        high = np.where(rare, high, np.clip(value + half, 0, 1))
        return self._curve(value, low, high, sampled)

    def _quantile(self) -> float:
        from scipy.special import ndtri

        return float(-ndtri((1 - self.confidence) / (2 * len(self.radii))))

    def _curve(
        self, value: np.ndarray, low: np.ndarray, high: np.ndarray, sampling: np.ndarray
    ) -> Curve:
        unseen = np.isnan(value)
        band = np.where(unseen, 0.0, low), np.where(unseen, 1.0, high)
        counted = self.confidence, self.n_rows, self.n_anchors
        return Curve(self.radii, value, band[0], band[1], sampling, *counted)


def near_share(vectors: Any, radii: Any, scan: Scan = DEFAULT) -> Curve:
    """p_d(r) = Pr(d(X, X') ≤ r), the share of pairs of rows within r of each other.

    Assumes rows drawn independently from one distribution; a row is never paired with itself.
    """
    return scan_pairs(vectors, [], radii, scan).nearness()


def scan_pairs(vectors: Any, events: Sequence[Event], radii: Any, scan: Scan) -> PairSums:
    """Count near pairs, and the events among them, for every radius in one pass over the pairs."""
    grid = as_radii(radii)
    ready = prepared(vectors, scan.metric)
    anchors = scan.choose(len(ready))
    near, near_squared = np.zeros(len(grid)), np.zeros(len(grid))
    hits, hits_squared, hits_near, touched = np.zeros((4, len(events), len(grid)))
    for block, distance in blocks(ready, anchors, scan.metric):
        row, other = np.nonzero(distance <= grid[-1])
        cell = row * len(grid) + np.searchsorted(grid, distance[row, other])
        counts = _cumulated(cell, len(block), len(grid))
        near += counts.sum(0)
        near_squared += (counts**2).sum(0)
        for index, event in enumerate(events):
            found = _cumulated(cell[event(block[row], other)], len(block), len(grid))
            hits[index] += found.sum(0)
            hits_squared[index] += (found**2).sum(0)
            hits_near[index] += (found * counts).sum(0)
            touched[index] += (found > 0).sum(0)
    sums = near, near_squared, hits, hits_squared, hits_near, touched
    return PairSums(grid, *sums, len(ready), len(anchors), scan.confidence)


def as_radii(radii: Any) -> np.ndarray:
    """One radius or increasing radii, as float64."""
    grid = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or grid[0] < 0:
        raise RadiusError(
            f"radii are finite distances of at least 0, got {np.asarray(radii)!r}; "
            "give one or an increasing list"
        )
    if (np.diff(grid) <= 0).any():
        raise RadiusError(
            "radii must increase, got equal or falling ones; sort them with np.unique"
        )
    return grid


def differs(labels: np.ndarray) -> Event:
    """The event that two rows carry different labels."""
    return lambda anchor, other: np.asarray(labels[anchor] != labels[other])


def prepared(vectors: Any, metric: str) -> np.ndarray:
    """Vectors whose products, or differences, are distances under the metric."""
    raw = as_table(vectors, "pairs")
    if len(raw) < 2:
        raise VectorError(f"pairs need at least 2 rows, got shape {raw.shape}; give more rows")
    check_finite(raw, "pairs")
    # x² + y² − 2xy cancels: in few dimensions float64 costs nothing and keeps small radii exact
    ready = raw.astype(np.float64 if raw.shape[1] <= 32 else np.float32)
    if metric == "cosine":
        length = np.linalg.norm(ready, axis=1, keepdims=True)
        if (length == 0).any():
            row = int(np.flatnonzero(length[:, 0] == 0)[0])
            raise VectorError(
                f"the vector of row {row} is all zeros and has no direction; "
                "drop the row or use the euclidean metric"
            )
        ready = ready / length
    return np.ascontiguousarray(ready)


def blocks(
    ready: np.ndarray, anchors: np.ndarray, metric: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Anchor rows and their distances to all rows; infinite to themselves."""
    squares = np.einsum("ij,ij->i", ready, ready)
    step = max(1, _BLOCK_CELLS // len(ready))
    for start in range(0, len(anchors), step):
        block = anchors[start : start + step]
        product = ready[block] @ ready.T
        if metric == "cosine":
            distance = np.maximum(1 - product, 0)
        else:
            squared = squares[block, None] + squares[None, :] - 2 * product
            distance = np.sqrt(np.maximum(squared, 0))
        distance[np.arange(len(block)), block] = math.inf
        yield block, distance


def _cumulated(cell: np.ndarray, n_rows: int, n_radii: int) -> np.ndarray:
    """Per row, how many cells fall at or below each radius; (n_rows, n_radii)."""
    counts = np.bincount(cell, minlength=n_rows * n_radii).reshape(n_rows, n_radii)
    return counts.cumsum(axis=1).astype(np.float64)
