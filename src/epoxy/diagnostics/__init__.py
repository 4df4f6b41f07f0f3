"""Reading what happened: the per-source table, explanations, and the report they are shown in."""

from __future__ import annotations

from .doctor import diagnose
from .examination import Finding
from .explanation import Explanation, Voice
from .report import Column, Report
from .scores import calibration_error, scores
from .sources import SOURCE_COLUMNS, interval, source_rows

__all__ = [
    "SOURCE_COLUMNS",
    "Column",
    "Explanation",
    "Finding",
    "Report",
    "Voice",
    "calibration_error",
    "diagnose",
    "interval",
    "scores",
    "source_rows",
]
