"""The default model: named experts give evidence, one pool weighs it."""

from __future__ import annotations

from .experts import Echo, Expert, Head, Lesson, Majority, Neighbours, Pupil, Reach, Reason, Speaker
from .geometry import Geometry
from .model import Fusion
from .pool import Pool

__all__ = [
    "Echo",
    "Expert",
    "Fusion",
    "Geometry",
    "Head",
    "Lesson",
    "Majority",
    "Neighbours",
    "Pool",
    "Pupil",
    "Reach",
    "Reason",
    "Speaker",
]
