"""Reading what happened: the per-source table, explanations, and the report they are shown in."""

from __future__ import annotations

from ..scoring import calibration_error, scores
from .doctor import diagnose, diagnose_case
from .examination import Case
from .parts import confusion_table, part_table, reliability_table
from .per_source import SOURCE_COLUMNS, interval, right_on, source_rows
from .reasons import Explanation, Voice, explain_row, vote_shares
from .report import Column, Finding, Report, Table
from .unheard import not_heard

__all__ = [
    "SOURCE_COLUMNS",
    "Case",
    "Column",
    "Explanation",
    "Finding",
    "Report",
    "Table",
    "Voice",
    "calibration_error",
    "confusion_table",
    "diagnose",
    "diagnose_case",
    "explain_row",
    "interval",
    "not_heard",
    "part_table",
    "reliability_table",
    "right_on",
    "scores",
    "source_rows",
    "vote_shares",
]
