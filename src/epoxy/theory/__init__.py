"""The paper's quantities, bounds and experiments as functions; the equation is in each docstring.

Measured from pairs of rows: `smoothness` (M_Y), `support_smoothness` (L), `near_share` (p_d).
Formulas: Proposition 1, Theorem 1, Proposition 2, Theorem 2 and their lemmas. Decisions:
`choose_radius`, `verdict`, `compare_embeddings`. Experiments: `epoxy.theory.synthetics`.
"""

from __future__ import annotations

from .bounds import (
    Constants,
    coverage_gain,
    epoxy_risk,
    estimation_error,
    extended_accuracy,
    extended_accuracy_tight,
    extended_source_risk,
    inherited_smoothness,
    minimum_overlap,
    new_accuracy,
    new_accuracy_tight,
    overlap_growth,
    rate_improvement,
)
from .lift import (
    Lift,
    Others,
    Participation,
    agreement_floor,
    exact_lift,
    lift_bound,
    others_without,
    participation,
    posterior,
    single_lift,
)
from .pairs import Curve, Scan, near_share
from .radius import (
    LiftCurve,
    RadiusChoice,
    Surroundings,
    choose_radius,
    new_accuracy_by_agreement,
    surroundings,
)
from .smoothness import (
    EmbeddingRank,
    Neighbourhood,
    compare_embeddings,
    model_smoothness,
    neighbourhoods,
    smoothness,
    support_smoothness,
)
from .verdict import RadiusRow, SourceVerdict, Sweep, Verdict, sweep, verdict

__all__ = [
    "Constants",
    "Curve",
    "EmbeddingRank",
    "Lift",
    "LiftCurve",
    "Neighbourhood",
    "Others",
    "Participation",
    "RadiusChoice",
    "RadiusRow",
    "Scan",
    "SourceVerdict",
    "Surroundings",
    "Sweep",
    "Verdict",
    "agreement_floor",
    "choose_radius",
    "compare_embeddings",
    "coverage_gain",
    "epoxy_risk",
    "estimation_error",
    "exact_lift",
    "extended_accuracy",
    "extended_accuracy_tight",
    "extended_source_risk",
    "inherited_smoothness",
    "lift_bound",
    "minimum_overlap",
    "model_smoothness",
    "near_share",
    "neighbourhoods",
    "new_accuracy",
    "new_accuracy_by_agreement",
    "new_accuracy_tight",
    "others_without",
    "overlap_growth",
    "participation",
    "posterior",
    "rate_improvement",
    "single_lift",
    "smoothness",
    "support_smoothness",
    "surroundings",
    "sweep",
    "verdict",
]
