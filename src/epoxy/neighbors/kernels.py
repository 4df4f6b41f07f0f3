"""Which inner loops run: numba's where it can be imported, else numpy's, with the same results.

`EPOXY_KERNELS=numpy` or `numba` decides by hand. Both sets pass the same tests and agree in every
bit, because the order of every float64 sum is fixed (see `metrics`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import numpy_kernels

if TYPE_CHECKING:
    from .space import Space

__all__ = ["pair_distances", "squared_norms"]


def squared_norms(vectors: np.ndarray) -> np.ndarray:
    """|x|² of each row in float64."""
    return numpy_kernels.squared_norms(vectors)


def pair_distances(a: Space, nodes: np.ndarray, b: Space, others: np.ndarray) -> np.ndarray:
    """The defined distances of the pairs (nodes[p] of a, others[p] of b)."""
    rows, other_rows = a.first[nodes], b.first[others]
    if a.metric.name == "cosine":
        squared = a.squared_norm[nodes] * b.squared_norm[others]
        return numpy_kernels.pair_cosine(a.vectors, b.vectors, rows, other_rows, squared)
    return numpy_kernels.pair_euclidean(a.vectors, b.vectors, rows, other_rows)
