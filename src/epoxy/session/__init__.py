"""The incremental loop: sources, radii and true labels in, current labels out."""

from __future__ import annotations

from .session import Session
from .versions import Change, Version

__all__ = ["Change", "Session", "Version"]
