"""The loop: sources, radii and hand labels in, current labels out."""

from __future__ import annotations

from ..engines import Scores
from .edits import Edit, Label, Radii, Remove, SetVotes, Several, Switch
from .growing import Append
from .session import Session
from .state import Change

__all__ = [
    "Append",
    "Change",
    "Edit",
    "Label",
    "Radii",
    "Remove",
    "Scores",
    "Session",
    "SetVotes",
    "Several",
    "Switch",
]
