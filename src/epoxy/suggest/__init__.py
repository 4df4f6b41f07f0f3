"""What to look at, and what to write: rows by a question, rows to label next, functions that are missing."""

from __future__ import annotations

from .drafts import Draft
from .new_functions import FunctionSuggestion
from .next_rows import Suggestion
from .search import Found, RowQuery

__all__ = ["Draft", "Found", "FunctionSuggestion", "RowQuery", "Suggestion"]
