"""Reading what happened: the per-source table, explanations, and the report they are shown in."""

from __future__ import annotations

from .explanation import Explanation, Voice
from .report import Column, Report
from .scores import calibration_error, scores
from .sources import SOURCE_COLUMNS, interval, source_rows

__all__ = [
    "SOURCE_COLUMNS",
    "Column",
    "Explanation",
    "Report",
    "Voice",
    "calibration_error",
    "interval",
    "scores",
    "source_rows",
]
