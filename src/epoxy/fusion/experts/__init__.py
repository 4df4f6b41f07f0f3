"""The named experts, in the order in which they are asked; an expert may be taught by those before it."""

from __future__ import annotations

from .base import Expert, Lesson, Reason, Speaker
from .head import Head
from .majority import Majority
from .neighbours import Neighbours
from .reach import Reach
from .student import Echo, Pupil

__all__ = [
    "Echo",
    "Expert",
    "Head",
    "Lesson",
    "Majority",
    "Neighbours",
    "Pupil",
    "Reach",
    "Reason",
    "Speaker",
    "default",
]


def default() -> tuple[Expert, ...]:
    """The experts of `Fusion()`: votes, loans, hand labels read in two ways, and two students."""
    return (Majority(), Reach(), Head(), Neighbours(), Pupil(), Echo())
