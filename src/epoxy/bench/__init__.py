"""The paper's evaluation on any data folder: the baselines, one protocol, honest tables.

`run` does the work and writes JSON and CSV; `markdown` makes a page of it. Train labels are never read,
dev labels tune and fit, test labels are seen by the judge alone, after a method has answered.
"""

from __future__ import annotations

from .context import BenchColumn, BenchSettings, Context, Prediction
from .loop import read, run
from .methods import COLUMNS
from .page import markdown, tables, text, write_page
from .task import open_task

__all__ = [
    "COLUMNS",
    "BenchColumn",
    "BenchSettings",
    "Context",
    "Prediction",
    "markdown",
    "open_task",
    "read",
    "run",
    "tables",
    "text",
    "write_page",
]
