"""The paper's evaluation on any data folder: every baseline, one protocol, honest tables.

`run` does the work and writes JSON; `markdown` and `html` make pages of it. Train labels are never
read, dev labels tune and fit, test labels are seen by the judge alone, after a method has answered.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "COLUMNS": "columns",
    "DEEP": "columns",
    "Column": "context",
    "Context": "context",
    "Prediction": "context",
    "Settings": "context",
    "html": "pages",
    "markdown": "pages",
    "open_task": "task",
    "read": "loop",
    "run": "loop",
    "tables": "tabulate",
    "text": "pages",
    "write_pages": "pages",
}

__all__ = [
    "COLUMNS",
    "DEEP",
    "Column",
    "Context",
    "Prediction",
    "Settings",
    "html",
    "markdown",
    "open_task",
    "read",
    "run",
    "tables",
    "text",
    "write_pages",
]

if TYPE_CHECKING:
    from .columns import COLUMNS, DEEP
    from .context import Column, Context, Prediction, Settings
    from .loop import read, run
    from .pages import html, markdown, text, write_pages
    from .tabulate import tables
    from .task import open_task


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
