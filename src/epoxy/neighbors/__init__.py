"""Exact neighbours: who is nearest, who is near, and a graph that answers every later edit."""

from __future__ import annotations

from .column import Column
from .exact import Nearest, nearest, within
from .graph import Graph
from .space import Space
from .warming import warm

__all__ = ["Column", "Graph", "Nearest", "Space", "nearest", "warm", "within"]
