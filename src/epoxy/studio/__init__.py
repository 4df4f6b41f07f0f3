"""A local web app over a session: every verb of it behind one door, for a page, a script and a notebook."""

from __future__ import annotations

from .notebook import widget

__all__ = ["widget"]
