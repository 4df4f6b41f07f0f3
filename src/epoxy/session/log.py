"""The log of a project: every decision as one record, in SQLite, with a copy in plain text beside it.

`log` is append-only: number, who, when, the edit and the edit that takes it back, as JSON. What holds
now is what follows from the records in order; nothing else is stored. A process sees what others wrote
before it writes (`append` refuses otherwise), so decisions of two sessions never overwrite each other
unseen. `decisions.jsonl` repeats the records line by line. Every record carries a checksum: a lost or
damaged database is made again from the lines and from what can still be read of it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
    edit TEXT NOT NULL, inverse TEXT NOT NULL, undoes INTEGER, checksum INTEGER NOT NULL);
"""
_VERSION = 2
_SELECT = "SELECT number, at, who, what, edit, inverse, undoes, checksum FROM log"
PATIENCE = 10.0
"""Seconds to wait for another process to finish its write."""


class Behind(Exception):
    """Others wrote since this process last looked."""


@dataclass(frozen=True)
class LogRecord:
    """One decision."""

    number: int
    at: float
    who: str
    what: str
    edit: dict[str, Any]
    inverse: dict[str, Any]
    undoes: int | None = None  # the record it takes back

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> LogRecord:
        """From a row of the table; raises ValueError where it is not what was written."""
        number, at, who, what, edit, inverse, undoes, checksum = row
        made = cls(number, at, who, what, json.loads(edit), json.loads(inverse), undoes)
        if made.checksum != checksum:
            raise ValueError(f"record {number} is not what was written")
        return made

    @classmethod
    def of_line(cls, line: bytes) -> LogRecord:
        """From a line of the text; raises ValueError where it is not what was written."""
        values = json.loads(line)
        try:
            checksum, made = values.pop("checksum"), cls(**values)
        except (AttributeError, KeyError, TypeError):
            raise ValueError("not a record") from None
        if made.checksum != checksum:
            raise ValueError(f"record {made.number} is not what was written")
        return made

    @property
    def checksum(self) -> int:
        """Of everything but the number, which the table gives."""
        values = (self.at, self.who, self.what, self.edit, self.inverse, self.undoes)
        return zlib.crc32(_json(values).encode("utf-8", "surrogatepass"))

    @property
    def row(self) -> tuple[Any, ...]:
        """What the table holds after the number."""
        edit, inverse = _json(self.edit), _json(self.inverse)
        return (self.at, self.who, self.what, edit, inverse, self.undoes, self.checksum)

    @property
    def line(self) -> str:
        """What the text holds."""
        return _json({**asdict(self), "checksum": self.checksum}) + "\n"


class Store:
    """The decisions of a project, kept across restarts and shared by all who have it open."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.text = self.path.with_name("decisions.jsonl")
        self.who = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.notes: list[str] = []
        """What happened to the store, in words, where a person should know."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.path.parent} cannot be made ({error.strerror}); decisions are kept there: "
                "make the project folder writable"
            ) from error
        self._db = self._opened()
        self._file = self.path.stat().st_ino
        self._written = self._db.execute("PRAGMA data_version").fetchone()[0]
        known, every = {each.number for each in self._kept()}, self.records()
        self._copied = (
            every[-1].number if every else 0
        )  # in the text is what this process wrote so far
        self._copy(each for each in every if each.number not in known)

    def close(self) -> None:
        """Let the file go."""
        self._db.close()

    def records(self, after: int = 0) -> list[LogRecord]:
        """Every record with a larger number, in order."""
        with self._told():
            rows = self._db.execute(f"{_SELECT} WHERE number > ? ORDER BY number", (after,))
            return [LogRecord.of_row(row) for row in rows.fetchall()]

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
    ) -> int:
        """Write the record that follows number `after`; raises `Behind` where there is one already.

        One statement and no transaction of ours: whatever interrupts it, the record is written or not,
        and the file is locked for nobody.
        """
        number = after + 1
        record = LogRecord(number, time.time(), self.who, what, edit, inverse, undoes)
        try:
            with self._told():
                _insert(self._db, record, number)
        except sqlite3.IntegrityError:
            raise Behind from None
        self._copy(each for each in self.records(self._copied) if each.who == self.who)
        return number

    # the files

    def _opened(self) -> sqlite3.Connection:
        why = "lacked what its text had"
        if not self.path.exists() or self.path.stat().st_size == 0:
            why = "was empty" if self.path.exists() else "was gone"
        try:
            with self._told(opening=True):
                db = self._connected()
        except (sqlite3.DatabaseError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            return self._restored(f"is damaged ({error})")
        kept = self._kept()  # before the look into the database, which is always written first
        with self._told(opening=True):
            if kept and kept[-1].number > _last(db):
                with _transaction(db):
                    missing = [each for each in kept if each.number > _last(db)]
                    self._fill(db, missing, f"{why}: restored from {self.text.name}")
        return db

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=PATIENCE, check_same_thread=False, isolation_level=None
        )
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, 1, _VERSION):
                raise StoreError(
                    f"{self.path} was written in format {version}, this version reads {_VERSION}; "
                    "update epoxy to open it"
                )
            if version != _VERSION:
                with _transaction(db):
                    db.execute(_SCHEMA)
                    if version == 1:
                        _take_over(db)
                    db.execute(f"PRAGMA user_version = {_VERSION}")
            found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found.splitlines()[-1])
            for row in db.execute(_SELECT):
                LogRecord.of_row(row)
        except BaseException:
            db.close()
            raise
        return db

    def _restored(self, why: str) -> sqlite3.Connection:
        """A database made again from what is left; what was there is set aside, never deleted."""
        records = self._salvaged()
        if not records:
            raise StoreError(
                f"{self.path} {why}, and neither it nor {self.text.name} has a record that can be read; "
                "restore one of the two from a backup: both are left as they are"
            )
        stamp = time.time_ns()
        for suffix in ("", "-wal", "-shm"):
            file = Path(f"{self.path}{suffix}")
            if file.exists():
                file.rename(file.with_name(f"{file.name}.set-aside-{stamp}"))
        with self._told(opening=True):
            db = self._connected()
            with _transaction(db):
                aside = f"{self.path.name}.set-aside-{stamp}"
                self._fill(db, records, f"{why}: restored; the damaged file is kept as {aside}")
        return db

    def _fill(self, db: sqlite3.Connection, records: list[LogRecord], why: str) -> None:
        for each in records:
            _insert(db, each, each.number)
        self.notes.append(f"{self.path.name} {why} ({len(records)} decisions)")

    def _salvaged(self) -> list[LogRecord]:
        """Every record that can still be read, of the text and of the database, in order."""
        found = {each.number: each for each in self._kept()}
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.path)) as db:
            for row in db.execute(_SELECT):
                with suppress(ValueError):
                    found.setdefault(row[0], LogRecord.of_row(row))
        return [found[number] for number in sorted(found)]

    def _kept(self) -> list[LogRecord]:
        """The records of the text; lines cut short by a kill, or damaged, are left out."""
        if not self.text.is_file():
            return []
        found = {}
        for line in self.text.read_bytes().splitlines():
            with suppress(ValueError):
                record = LogRecord.of_line(line)
                found[record.number] = record
        return [found[number] for number in sorted(found)]

    def _copy(self, records: Iterable[LogRecord]) -> None:
        """Repeat records in the text; those that could not be written wait for the next time."""
        missing = list(records)
        if not missing:
            return
        lines = "".join(each.line for each in missing).encode("utf-8", "surrogatepass")
        try:
            with self.text.open("a+b", buffering=0) as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    lines = b"\n" + lines  # whoever wrote last was cut short
                file.write(lines)
                os.fsync(file.fileno())
        except OSError as error:
            note = f"{self.text.name} could not be written ({error.strerror}); its lines are made up for"
            if note not in self.notes:
                self.notes.append(note)
            return
        self._copied = missing[-1].number

    @contextmanager
    def _told(self, *, opening: bool = False) -> Iterator[None]:
        """Say what is true of a file that cannot be used; while opening, damage is another matter."""
        try:
            if not opening and not (self.path.exists() and self.path.stat().st_ino == self._file):
                raise sqlite3.DatabaseError("it was deleted or replaced while it was open")
            yield
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.DatabaseError, ValueError) as error:
            text = str(error)
            cure = _cure(text) if isinstance(error, sqlite3.OperationalError) else None
            if isinstance(error, StoreError) or (opening and cure is None):
                raise
            raise StoreError(
                f"{self.path} could not be used ({text}); nothing was changed: "
                f"{cure or 'open the project again, which restores it'}"
            ) from error


def _cure(text: str) -> str | None:
    """What to do about an error of SQLite's; None where the file itself is damaged."""
    cures = {
        ("locked", "busy"): "another process is writing to it; try again",
        (
            "readonly",
            "unable to open",
        ): "the folder cannot be written to; make it writable, try again",
        ("full",): "the disk is full; make room and try again",
        ("malformed", "no such"): None,
    }
    for words, cure in cures.items():
        if any(word in text for word in words):
            return cure
    return "check the disk and try again"


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _last(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT COALESCE(MAX(number), 0) FROM log").fetchone()[0])


def _insert(db: sqlite3.Connection, record: LogRecord, number: int | None = None) -> int:
    done = db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (number, *record.row))
    return int(done.lastrowid or 0)


def _take_over(db: sqlite3.Connection) -> None:
    """Decisions of the first format, which named rows by id alone, whatever their file."""
    edits: list[tuple[float, dict[str, Any]]] = []
    for name, radius, is_on, extended in db.execute(
        "SELECT name, radius, is_on, extended FROM sources"
    ):
        edits.append((0.0, {"kind": "radii", "radii": {name: radius if extended else None}}))
        if not is_on:
            edits.append((0.0, {"kind": "switch", "source": name, "on": False}))
    for row, label, at in db.execute("SELECT row, label, at FROM labels WHERE label IS NOT NULL"):
        edits.append((at, {"kind": "label", "file": "", "row": row, "label": label, "at": at}))
    for at, edit in edits:
        _insert(db, LogRecord(0, at, "epoxy 0.1", edit["kind"], edit, {}))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
