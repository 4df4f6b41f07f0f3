"""The default model: experts that need no hand label, weighed and corrected by those there are."""

from __future__ import annotations

from .fitted import EXPERTS, Fitted
from .model import Fusion

__all__ = ["EXPERTS", "Fitted", "Fusion"]
