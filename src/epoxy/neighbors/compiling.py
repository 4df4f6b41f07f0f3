"""How the inner loops are compiled, and how they index."""

from __future__ import annotations

from typing import TypeVar

import numba
import numpy as np

__all__ = ["U", "compiled"]

U = np.uint64  # a signed index costs a wrap-around test that stops vectorisation
F = TypeVar("F")


def compiled(function: F) -> F:
    """Compile once, keep on disk, run without the interpreter lock."""
    done: F = numba.njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")(function)
    return done
