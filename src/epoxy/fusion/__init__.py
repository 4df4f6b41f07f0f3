"""The default model: votes, vectors, neighbours, and what hand labels correct."""

from __future__ import annotations

from .fitted import PARTS, Fitted
from .fusion import Fusion

__all__ = ["PARTS", "Fitted", "Fusion"]
