"""Labeling functions of a project, run in a process that a time and memory limit can end."""

from __future__ import annotations

from .process import Limits, Loaded, Runner, Voted
from .worker import LoadedFunction

__all__ = ["Limits", "Loaded", "LoadedFunction", "Runner", "Voted"]
