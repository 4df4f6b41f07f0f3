"""The command line: each command parses, calls the session, and prints."""

from __future__ import annotations

from .main import main

__all__ = ["main"]
