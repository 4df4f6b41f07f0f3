"""Neighbours: who is nearest, who lends a source's votes, and a graph that answers every edit."""

from __future__ import annotations

from .graph import LARGE, Graph, Recall, Settings
from .ivf import nearest
from .knn import Nearest
from .space import Space
from .walk import lenders, nearest_lenders, warm, within

__all__ = [
    "LARGE",
    "Graph",
    "Nearest",
    "Recall",
    "Settings",
    "Space",
    "lenders",
    "nearest",
    "nearest_lenders",
    "warm",
    "within",
]
