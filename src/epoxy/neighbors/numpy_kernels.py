"""The inner loops in numpy: the fallback where numba cannot be imported, and the oracle for it."""

from __future__ import annotations

import numpy as np

from .metrics import LANES

__all__ = ["pair_cosine", "pair_euclidean", "squared_norms"]

PAIRS_AT_ONCE = 1 << 14


def _fold(sums: np.ndarray) -> np.ndarray:
    """Add the LANES running sums in halves, the order every kernel keeps."""
    width = LANES
    while width > 1:
        width //= 2
        sums = sums[:, :width] + sums[:, width:]
    return sums[:, 0]


def _dots(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Σ x z per row in float64; products of float32 are exact there, so only the order matters."""
    sums = np.zeros((len(x), LANES))
    for start in range(0, x.shape[1], LANES):
        part = x[:, start : start + LANES].astype(np.float64) * z[:, start : start + LANES]
        sums[:, : part.shape[1]] += part
    return _fold(sums)


def _squares(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Σ (x − z)² per row in float64."""
    sums = np.zeros((len(x), LANES))
    for start in range(0, x.shape[1], LANES):
        part = x[:, start : start + LANES].astype(np.float64) - z[:, start : start + LANES]
        sums[:, : part.shape[1]] += part * part
    return _fold(sums)


def squared_norms(x: np.ndarray) -> np.ndarray:
    """|x|² per row."""
    out = np.empty(len(x))
    for start in range(0, len(x), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        out[part] = _dots(x[part], x[part])
    return out


def pair_cosine(
    x: np.ndarray, z: np.ndarray, rows: np.ndarray, others: np.ndarray, squared: np.ndarray
) -> np.ndarray:
    """Distances of the pairs (x[rows[p]], z[others[p]]); `squared` is |x|²|z|² per pair."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        cosine = _dots(x[rows[part]], z[others[part]]) / np.sqrt(squared[part])
        out[part] = np.maximum(0.0, 1.0 - cosine)
    return out


def pair_euclidean(
    x: np.ndarray, z: np.ndarray, rows: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Distances of the pairs (x[rows[p]], z[others[p]])."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        out[part] = np.sqrt(_squares(x[rows[part]], z[others[part]]))
    return out
