"""Radii (and the class balance) chosen on a small dev set."""

from __future__ import annotations

from .search import Search, Trial, counting_rows, tune

__all__ = ["Search", "Trial", "counting_rows", "tune"]
