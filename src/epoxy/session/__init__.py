"""The loop: sources, radii and hand labels in, current labels out."""

from __future__ import annotations

from ..engines import Scores
from .browsing import Found, RowQuery
from .choosing import Suggestion
from .curves import Curve
from .drafting import Draft
from .edits import Edit, Label, Radii, Remove, SetVotes, Several, Switch
from .growing import Append
from .session import Session
from .state import Change
from .suggesting import FunctionSuggestion
from .trials import Trial

__all__ = [
    "Append",
    "Change",
    "Curve",
    "Draft",
    "Edit",
    "Found",
    "FunctionSuggestion",
    "Label",
    "Radii",
    "Remove",
    "RowQuery",
    "Scores",
    "Session",
    "SetVotes",
    "Several",
    "Suggestion",
    "Switch",
    "Trial",
]
