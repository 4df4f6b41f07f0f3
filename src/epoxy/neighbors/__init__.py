"""Exact neighbours: who is nearest, who is near, and a graph that answers every later edit."""

from __future__ import annotations

from .exact import Nearest, nearest, within
from .space import Space

__all__ = ["Nearest", "Space", "nearest", "within"]
