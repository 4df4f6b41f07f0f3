"""The paper's quantities, bounds and experiments as functions; the equation is in each docstring.

Measured from pairs of rows: `smoothness` (M_Y), `support_smoothness` (L), `near_share` (p_d).
Decisions: `choose_radius`, `verdict`, `compare_embeddings`. The formulas are in `theory.bounds`
(Propositions 1 and 2, Theorems 1 and 2, their lemmas) and `theory.lift`; the experiments in
`theory.synthetics`, drawn by `theory.figures`.
"""

from __future__ import annotations

from . import bounds, lift
from .lift import Participation, exact_lift
from .pairs import Curve, Scan, near_share
from .radius import choose_radius, surroundings
from .smoothness import (
    compare_embeddings,
    model_smoothness,
    neighbourhoods,
    smoothness,
    support_smoothness,
)
from .verdict import Verdict, sweep, verdict

__all__ = [
    "Curve",
    "Participation",
    "Scan",
    "Verdict",
    "bounds",
    "choose_radius",
    "compare_embeddings",
    "exact_lift",
    "lift",
    "model_smoothness",
    "near_share",
    "neighbourhoods",
    "smoothness",
    "support_smoothness",
    "surroundings",
    "sweep",
    "verdict",
]
