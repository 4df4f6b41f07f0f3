"""What a person decided while working: true labels, radii, switches. One SQLite file, one line each.

Every write is a transaction: after a crash the file holds all of an edit or none of it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StoreError
from ..votes import ABSTAIN
from .versions import Version

__all__ = ["Store"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS labels (row TEXT PRIMARY KEY, label TEXT, at REAL);
CREATE TABLE IF NOT EXISTS sources (name TEXT PRIMARY KEY, radius REAL, is_on INTEGER, extended INTEGER);
CREATE TABLE IF NOT EXISTS history (number INTEGER PRIMARY KEY, what TEXT, detail TEXT, at REAL);
"""
_VERSION = 1


class Store:
    """True labels, radii and switches of a project, kept across restarts."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(self._open()) as db:
                found = db.execute("PRAGMA user_version").fetchone()[0]
                if found not in (0, _VERSION):
                    raise StoreError(
                        f"{self.path} was written in format {found}, this version reads {_VERSION}; "
                        "update epoxy or move the file away"
                    )
                db.executescript(_SCHEMA)
                db.execute(f"PRAGMA user_version = {_VERSION}")
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{self.path} is damaged ({error}); move it away to start with empty labels and radii"
            ) from error

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        return db

    def labels(self) -> dict[str, str]:
        """True labels given by hand, by row id."""
        with closing(self._open()) as db:
            found = db.execute("SELECT row, label FROM labels").fetchall()
        return {row: label for row, label in found if label is not None}

    def radii(self) -> dict[str, float | None]:
        """Radii by source; None for a source that is not extended."""
        with closing(self._open()) as db:
            rows = db.execute("SELECT name, radius, extended FROM sources").fetchall()
        return {name: radius if extended else None for name, radius, extended in rows}

    def switched_off(self) -> set[str]:
        """Sources that are switched off."""
        with closing(self._open()) as db:
            rows = db.execute("SELECT name FROM sources WHERE is_on = 0").fetchall()
        return {name for (name,) in rows}

    def history(self) -> list[dict[str, Any]]:
        """Every edit, oldest first."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT number, what, detail, at FROM history ORDER BY number"
            ).fetchall()
        return [
            {"number": number, "what": what, **json.loads(detail), "at": at}
            for number, what, detail, at in rows
        ]

    def record(self, before: Version, now: Version, what: str) -> None:
        """Write what a person decided between two versions."""
        known = {source.name: (source.radius, source.is_on) for source in before.sources}
        settings = {source.name: (source.radius, source.is_on) for source in now.sources}
        changed = {
            name: value
            for name, value in settings.items()
            if str(known.get(name, value)) != str(value)  # NaN equals itself as text
        }
        if changed:
            self.set_sources(changed, what)
        for split, old, new in zip(now.splits, before.truth, now.truth):
            for row in np.flatnonzero(old != new) if len(old) == len(new) else ():
                label = None if new[row] == ABSTAIN else split.classes[new[row]]
                self.set_label(str(split.ids[row]), label)

    def set_label(self, row: str, label: str | None) -> None:
        """Record one true label; None takes it back."""
        self._edit(
            "label",
            {"row": row, "label": label},
            ("INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", (row, label, time.time())),
        )

    def set_sources(self, settings: Mapping[str, tuple[float, bool]], what: str) -> None:
        """Record radius (NaN: not extended) and switch of some sources in one transaction."""
        statements = [
            (
                "INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?)",
                (name, None if radius != radius else radius, int(on), int(radius == radius)),
            )
            for name, (radius, on) in settings.items()
        ]
        plain = {
            name: None if radius != radius else radius for name, (radius, _) in settings.items()
        }
        self._edit(what, {"sources": plain}, *statements)

    def _edit(
        self, what: str, detail: dict[str, Any], *statements: tuple[str, tuple[Any, ...]]
    ) -> None:
        with closing(self._open()) as db, db:
            for sql, values in statements:
                db.execute(sql, values)
            db.execute(
                "INSERT INTO history (what, detail, at) VALUES (?, ?, ?)",
                (what, json.dumps(detail, ensure_ascii=False), time.time()),
            )
