"""The paper's quantities, bounds and experiments as functions; the equation is in each docstring.

Measured from pairs of rows: `smoothness` (M_Y), `neighbourhoods` (L), `near_share` (p_d).
Decisions: `choose_radius`, `verdict`, `compare_embeddings`. The formulas are in `theory.bounds`
(Propositions 1 and 2, Theorems 1 and 2, their lemmas) and `theory.lift`; the experiments in
`theory.synthetics`, drawn by `theory.figures`.
"""

from __future__ import annotations

from . import bounds, lift
from .pairs import Curve, Scan, near_share
from .radius import choose_radius, surroundings
from .smoothness import (
    compare_embeddings,
    model_smoothness,
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
    "lift",
    "model_smoothness",
    "near_share",
    "neighbourhoods",
    "smoothness",
    "surroundings",
    "verdict",
]
