"""The paper's evaluation on any data folder: every baseline, one protocol, honest tables.

`run` does the work and writes JSON; `markdown` makes a page of it. Train labels are never read, dev
labels tune and fit, test labels are seen by the judge alone, after a method has answered.
"""

from __future__ import annotations

from .columns import COLUMNS, DEEP
from .context import Column, Context, Prediction, Settings
from .loop import read, run
from .pages import markdown, text, write_pages
from .tabulate import tables
from .task import open_task

__all__ = [
    "COLUMNS",
    "DEEP",
    "Column",
    "Context",
    "Prediction",
    "Settings",
    "markdown",
    "open_task",
    "read",
    "run",
    "tables",
    "text",
    "write_pages",
]
