"""A model kept in step with a changing workspace: one protocol, and who implements it."""

from __future__ import annotations

from .base import Engine, Outcome, Updatable
from .paper import PaperEngine
from .refit import RefitEngine, engine_of
from .reporting import Details, held_out_reliability, report_of
from .scores import Comparison, Scores, majority_scores, scores_of

__all__ = [
    "Comparison",
    "Details",
    "Engine",
    "Outcome",
    "PaperEngine",
    "RefitEngine",
    "Scores",
    "Updatable",
    "engine_of",
    "held_out_reliability",
    "majority_scores",
    "report_of",
    "scores_of",
]
