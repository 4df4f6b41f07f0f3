"""Exact neighbours: who is nearest, who is near, and a graph that answers every later edit."""

from __future__ import annotations

from .column import Column
from .exact import nearest, warm, within
from .graph import Graph
from .search import Found
from .space import Space

__all__ = ["Column", "Found", "Graph", "Space", "nearest", "warm", "within"]
