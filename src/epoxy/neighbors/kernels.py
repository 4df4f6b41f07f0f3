"""Which inner loops run: numba's where it can be imported, else numpy's, with the same results.

`EPOXY_KERNELS=numpy` or `numba` decides by hand. Both sets pass the same tests and agree in every
bit, because the order of every float64 sum is fixed (see `metrics`).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UnknownName

if TYPE_CHECKING:
    from .space import Space

__all__ = ["active", "pair_distances", "squared_norms"]

KINDS = ("numba", "numpy")


def active() -> ModuleType:
    """The module whose inner loops are in use."""
    return _load(os.environ.get("EPOXY_KERNELS", ""))


@functools.cache
def _load(kind: str) -> ModuleType:
    if not kind:
        kind = "numba" if importlib.util.find_spec("numba") else "numpy"
    if kind not in KINDS:
        raise UnknownName.of("kernel set (EPOXY_KERNELS)", kind, KINDS)
    return importlib.import_module(f".{kind}_kernels", __package__)


def squared_norms(vectors: np.ndarray) -> np.ndarray:
    """|x|² of each row in float64."""
    rows = np.arange(len(vectors), dtype=np.int32)
    squared: np.ndarray = active().pair_dots(vectors, vectors, rows, rows)
    return squared


def pair_distances(a: Space, nodes: np.ndarray, b: Space, others: np.ndarray) -> np.ndarray:
    """The defined distances of the pairs (nodes[p] of a, others[p] of b)."""
    pairs = a.vectors, b.vectors, a.first[nodes], b.first[others]
    if a.metric.name == "euclidean":
        squares: np.ndarray = active().pair_squares(*pairs)
        np.sqrt(squares, out=squares)
        return squares
    cosine: np.ndarray = active().pair_dots(*pairs)
    cosine /= np.sqrt(a.squared_norm[nodes] * b.squared_norm[others])
    np.subtract(1.0, cosine, out=cosine)
    np.maximum(0.0, cosine, out=cosine)
    return cosine
