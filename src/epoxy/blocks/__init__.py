"""Labels of a project within so much memory, or on other machines: the way of every session, with a limit."""

from __future__ import annotations

from .label import label

__all__ = ["label"]
