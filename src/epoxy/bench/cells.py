"""One file per finished run of one column, so that a killed benchmark continues where it was.

A cell's name carries a hash of everything that determines it: the data's content, the method, the
seed, the settings that matter, and the version. Errors are not kept: what was missing may be there
next time.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..storage import write_whole
from .context import Column, Settings
from .task import Task

FORMAT = 1


@dataclass(frozen=True)
class Cell:
    """One run to do: a column on a task with a seed."""

    task: Task
    column: Column
    seed: int
    settings: Settings
    dev_rows: int | None = None

    @property
    def cost(self) -> int:
        """Rough milliseconds, for the time left."""
        return round(self.column.cost * (500 + self.task.train.n_rows))

    @property
    def path(self) -> Path:
        """Where the result is kept, below the folder of cells."""
        balance = self.settings.class_balance
        identity = {
            "format": FORMAT,
            "version": __version__,
            "data": self.task.fingerprint,
            "method": self.column.name,
            "seed": self.seed,
            "quick": self.settings.quick and "rows" in self.column.needs,
            "class_balance": list(balance) if isinstance(balance, tuple) else balance,
            "dev_rows": self.dev_rows,
            "network": self.settings.network if "rows" in self.column.needs else None,
        }
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        return Path(self.task.name) / f"{self.column.name}-{self.seed}-{key}.json"


class Cells:
    """The folder of finished cells."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """A finished cell; None if it is not there or was cut off while being written."""
        try:
            found = json.loads((self.home / cell.path).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and "guess" in found else None

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep a finished cell, whole or not at all."""
        path = self.home / cell.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(result, indent=1).encode())
