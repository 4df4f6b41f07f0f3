"""What an edit would make of everything, without making it."""

from __future__ import annotations

from dataclasses import dataclass

from ..engines import Outcome, Scores
from .state import Change, State


@dataclass(frozen=True, eq=False)
class Trial:
    """The state, the labels and the scores an edit would lead to; the session keeps nothing of it."""

    change: Change
    """The difference it would make."""
    outcome: Outcome
    """All that would follow."""
    state: State
    """All that would be decided."""
    scores: Scores

    def __repr__(self) -> str:
        return f"Trial({self.change})"
