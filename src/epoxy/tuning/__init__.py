"""Radii (and the class balance) chosen on a small dev set."""

from __future__ import annotations

from .search import Search, Trial, tune

__all__ = ["Search", "Trial", "tune"]
