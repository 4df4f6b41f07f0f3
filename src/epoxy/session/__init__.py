"""The loop: sources, radii and hand labels in, current labels out."""

from __future__ import annotations

from ..engines import Scores
from .curves import Curve
from .edits import Append, Edit, Label, Radii, Remove, SetVotes, Several, Switch
from .session import Session
from .state import Change, Trial

__all__ = [
    "Append",
    "Change",
    "Curve",
    "Edit",
    "Label",
    "Radii",
    "Remove",
    "Scores",
    "Session",
    "SetVotes",
    "Several",
    "Switch",
    "Trial",
]
