"""The paper's quantities, bounds and experiments as functions; the equation is in each docstring.

Measured from pairs of rows: `smoothness` (M_Y), `neighbourhoods` (L, p_d).
Decisions: `choose_radius`, `verdict`, `compare_embeddings`. The formulas (Propositions 1 and 2,
Theorems 1 and 2, their lemmas) are in `theory.bounds`; the experiments in `theory.synthetics`, drawn
by `theory.figures`.
"""

from __future__ import annotations

from . import bounds
from .agreement import choose_radius
from .measure import (
    Curve,
    Scan,
    compare_embeddings,
    neighbourhoods,
    smoothness,
)
from .verdict import Verdict, verdict

__all__ = [
    "Curve",
    "Scan",
    "Verdict",
    "bounds",
    "choose_radius",
    "compare_embeddings",
    "neighbourhoods",
    "smoothness",
    "verdict",
]
