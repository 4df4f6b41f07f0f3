"""The log of a project: every decision as one record, in SQLite, and as a line of text beside it.

`log` is append-only: number, who, when, the edit and the edit that takes it back, as JSON. What holds
now is what follows from the records in order; nothing else is stored. SQLite writes ahead and syncs in
full, so a record is there or not whatever ends the process. A process sees what others wrote before it
writes (`append` refuses otherwise), so decisions of two sessions never overwrite each other unseen.
`decisions.jsonl` repeats the records: where the database is gone or older, it starts from there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ..errors import StoreError

VERSION = 3
_SCHEMA = """
CREATE TABLE log (
    number INTEGER PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
    edit TEXT NOT NULL, inverse TEXT NOT NULL, undoes INTEGER)
"""
_COLUMNS = "number, at, who, what, edit, inverse, undoes"
PATIENCE = 10.0
"""Seconds to wait for another process to finish its write."""
_CURES = {
    ("locked", "busy"): "another process is writing to it; try again",
    ("readonly", "unable"): "the folder cannot be written to; make it writable, try again",
    ("full",): "the disk is full; make room and try again",
    ("disk", "i/o"): "check the disk and try again",
}


class Behind(Exception):
    """Others wrote since this process last looked."""


class LogRecord(msgspec.Struct, frozen=True):
    """One decision."""

    number: int
    at: float
    who: str
    what: str
    edit: dict[str, Any]
    inverse: dict[str, Any]
    undoes: int | None = None  # the record it takes back

    @property
    def line(self) -> str:
        """What the text holds."""
        return _json(msgspec.to_builtins(self)) + "\n"


class Log:
    """The decisions of a project, kept across restarts and shared by all who have it open."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.text = self.path.with_name("decisions.jsonl")
        self.who = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.notes: list[str] = []
        """What happened to the log, in words, where a person should know."""
        self._waiting: list[LogRecord] = []  # not in the text yet
        self._file: int | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.path.parent} cannot be made ({error.strerror}); decisions are kept there: "
                "make the project folder writable"
            ) from error
        kept = self._lines()  # before the look into the database, which is always written first
        with self._told():
            self._db = self._connected()
            self._take_up(kept)
            self._written = self._db.execute("PRAGMA data_version").fetchone()[0]
        self._file = self.path.stat().st_ino
        known = {each.number for each in kept}
        self._copy([each for each in self.records() if each.number not in known])

    def close(self) -> None:
        """Let the file go."""
        self._db.close()

    def records(self, after: int = 0) -> list[LogRecord]:
        """Every record with a larger number, in order."""
        with self._told():
            rows = self._db.execute(
                f"SELECT {_COLUMNS} FROM log WHERE number > ? ORDER BY number", (after,)
            )
            return [
                LogRecord(number, at, who, what, json.loads(edit), json.loads(inverse), undoes)
                for number, at, who, what, edit, inverse, undoes in rows.fetchall()
            ]

    def changed(self) -> bool:
        """Whether another process wrote since the last call; SQLite looks at one number of the file."""
        before = self._written
        with self._told():
            self._written = self._db.execute("PRAGMA data_version").fetchone()[0]
        return bool(self._written != before)

    def append(
        self,
        edit: dict[str, Any],
        inverse: dict[str, Any],
        what: str,
        undoes: int | None = None,
        *,
        after: int,
    ) -> None:
        """Write the record that follows number `after`; raises `Behind` where there is one already.

        One statement and no transaction of ours: whatever interrupts it, the record is written or not,
        and the file is locked for nobody.
        """
        record = LogRecord(after + 1, time.time(), self.who, what, edit, inverse, undoes)
        try:
            with self._told():
                self._insert(self._db, record)
        except sqlite3.IntegrityError:
            raise Behind from None
        self._copy([record])

    # the files

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=PATIENCE, check_same_thread=False, isolation_level=None
        )
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            if _version(db) != VERSION:
                with _transaction(db):
                    self._migrate(db)
            found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found.splitlines()[-1])
        except BaseException:
            db.close()
            raise
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        """Make the table, or take over what an earlier format holds; that of format 2 had a checksum more."""
        version = _version(db)
        if version not in range(VERSION + 1):
            raise StoreError(
                f"{self.path} was written in format {version}, this version reads {VERSION}; "
                "update epoxy to open it"
            )
        if version == 2:
            db.execute("ALTER TABLE log RENAME TO before")
        if version != VERSION:
            db.execute(_SCHEMA)
        if version == 2:
            db.execute(f"INSERT INTO log SELECT {_COLUMNS} FROM before")
            db.execute("DROP TABLE before")
        for number, (at, edit) in enumerate(_first_format(db) if version == 1 else (), 1):
            self._insert(db, LogRecord(number, at, "epoxy 0.1", edit["kind"], edit, {}))
        db.execute(f"PRAGMA user_version = {VERSION}")

    def _take_up(self, kept: list[LogRecord]) -> None:
        """Records that only the text has: the database is gone, or older than it."""
        if kept and kept[-1].number > _last(self._db):
            with _transaction(self._db):
                last = _last(self._db)
                missing = [each for each in kept if each.number > last]
                for each in missing:
                    self._insert(self._db, each)
            self.notes.append(
                f"{self.path.name} lacked {len(missing)} decisions, which were taken from "
                f"{self.text.name}"
            )

    def _insert(self, db: sqlite3.Connection, record: LogRecord) -> None:
        number, at, who, what, edit, inverse, undoes = msgspec.structs.astuple(record)
        values = (number, at, who, what, _json(edit), _json(inverse), undoes)
        db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def _lines(self) -> list[LogRecord]:
        """The records of the text; lines cut short by a kill are left out."""
        found = {}
        for line in self.text.read_bytes().splitlines() if self.text.is_file() else ():
            with suppress(ValueError):
                record = msgspec.convert(json.loads(line), LogRecord)
                found[record.number] = record
        return [found[number] for number in sorted(found)]

    def _copy(self, records: list[LogRecord]) -> None:
        """Repeat records in the text; those that could not be written wait for the next time."""
        self._waiting += records
        if not self._waiting:
            return
        lines = "".join(each.line for each in self._waiting).encode("utf-8", "surrogatepass")
        try:
            with self.text.open("a+b", buffering=0) as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    lines = b"\n" + lines  # whoever wrote last was cut short
                file.write(lines)
        except OSError as error:
            note = f"{self.text.name} could not be written ({error.strerror}); its lines are made up for"
            if note not in self.notes:
                self.notes.append(note)
            return
        self._waiting = []

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say what is true of a file that cannot be used."""
        if self._file is not None and not (
            self.path.exists() and self.path.stat().st_ino == self._file
        ):
            raise StoreError(
                f"{self.path} was deleted or replaced while it was open; nothing was changed: "
                "open the project again"
            )
        try:
            yield
        except (StoreError, sqlite3.IntegrityError):
            raise
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(
                f"{self.path} could not be used ({error}); nothing was changed: {self._cure(error)}"
            ) from error

    def _cure(self, error: Exception) -> str:
        text = str(error).lower()
        for words, cure in _CURES.items():
            if isinstance(error, sqlite3.OperationalError) and any(word in text for word in words):
                return cure
        lines = len(self._lines())
        if not lines:
            return "restore it, or decisions.jsonl beside it, from a backup"
        return (
            f"move it to another place and open the project again, to start from the {lines} "
            f"decisions of {self.text.name}"
        )


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _last(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT COALESCE(MAX(number), 0) FROM log").fetchone()[0])


def _first_format(db: sqlite3.Connection) -> Iterator[tuple[float, dict[str, Any]]]:
    """Decisions of the first format, which named rows by id alone, whatever their file."""
    for name, radius, is_on, extended in db.execute(
        "SELECT name, radius, is_on, extended FROM sources"
    ):
        yield 0.0, {"kind": "radii", "radii": {name: radius if extended else None}}
        if not is_on:
            yield 0.0, {"kind": "switch", "source": name, "on": False}
    for row, label, at in db.execute("SELECT row, label, at FROM labels WHERE label IS NOT NULL"):
        yield at, {"kind": "label", "file": "", "row": row, "label": label, "at": at}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
