"""The loop: sources, radii and hand labels in, current labels out."""

from __future__ import annotations

from ..engines import Scores
from .curves import RadiusCurve
from .edits import Append, Edit, Label, Radii, Remove, SetVotes, Several, Switch
from .session import Session
from .state import Change, Trial

from ..suggest.search import Found, RowQuery  # isort: skip  (what `browse` takes and gives; it needs the above)

__all__ = [
    "Append",
    "Change",
    "Edit",
    "Found",
    "Label",
    "Radii",
    "RadiusCurve",
    "Remove",
    "RowQuery",
    "Scores",
    "Session",
    "SetVotes",
    "Several",
    "Switch",
    "Trial",
]
