"""Lists and searches in float64 that `shards` still reads; they go with it."""

from __future__ import annotations

from .exact import nearest, nearest_both
from .space import Space

__all__ = ["Space", "nearest", "nearest_both"]
