"""Neighbours: who is nearest, who is near, and a graph that answers every edit; exact, or most of them."""

from __future__ import annotations

from .approximate import NeighbourLists, Recall, Settings, approximate_lists
from .column import Column
from .exact import nearest, nearest_both, warm, within
from .graph import Graph
from .search import Found
from .space import Space

__all__ = [
    "Column",
    "Found",
    "Graph",
    "NeighbourLists",
    "Recall",
    "Settings",
    "Space",
    "approximate_lists",
    "nearest",
    "nearest_both",
    "warm",
    "within",
]
