"""Answers that were paid for, kept by the content of model, prompt and row: `.epoxy/answers.sqlite`.

An answer is committed and synced before it counts, so a process that is killed has lost at most the
calls in flight. One process asks at a time: two would choose the same rows and pay twice.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Self

from ..errors import StoreError

About = tuple[str, str, str]
"""A question by its fingerprint, and the file and id of a row it is about."""

_TABLES = """
create table if not exists answers (
    key text primary key, identity text, file text, row text, chosen text, choice text, said text, at real
);
create table if not exists taken (key text, file text, row text, primary key (key, file, row));
"""


@dataclass(frozen=True)
class ModelAnswer:
    """What was answered about a row: one of the choices, or None and what was said instead."""

    choice: str | None
    said: str = ""


@dataclass(frozen=True)
class Kept:
    """An answer as it is kept, with the row it was first about."""

    key: str  # of model, prompt and row
    identity: str  # of model and prompt
    file: str
    row: str
    chosen: str | None  # how the row was picked
    choice: str | None
    said: str = ""
    at: float = field(default_factory=time.time)

    @property
    def about(self) -> About:
        """The question and the row."""
        return self.key, self.file, self.row


class Cache:
    """The answers of a project; without a path they are kept as long as the process lives."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self._lock = path, threading.Lock()
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            place = ":memory:" if path is None else path
            self._db = sqlite3.connect(place, timeout=0, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{path} cannot be written ({error}); answers are kept there before they count: "
                "make the project folder writable"
            ) from error
        try:
            with self._written():
                self._db.execute("pragma locking_mode = exclusive")
                self._db.executescript(f"begin immediate; {_TABLES} commit;")
                self._take_over()
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()  # and lets others in

    def get(self, key: str) -> ModelAnswer | None:
        """The answer that was paid for, if one was."""
        found = self._read("select choice, said from answers where key = ?", key)
        return ModelAnswer(*found[0]) if found else None

    def add(self, *kept: Kept) -> None:
        """Keep answers; when this returns, they are on the disk."""
        rows = [[_storable(each) for each in astuple(one)] for one in kept]
        with self._written():
            self._db.executemany("insert or replace into answers values (?,?,?,?,?,?,?,?)", rows)

    def take(self, used: Iterable[About]) -> None:
        """Note that answers about rows became labels, or were counted: they are not taken up again."""
        with self._written():
            self._db.executemany("insert or ignore into taken values (?,?,?)", used)

    def is_taken(self, about: About) -> bool:
        """Whether an answer about a row was used before."""
        return bool(self._read("select 1 from taken where (key, file, row) = (?,?,?)", *about))

    def n_taken(self, identity: str) -> int:
        """How many answers of a model and prompt were used."""
        count = "select count(*) from taken join answers using (key) where identity = ?"
        return int(self._read(count, identity)[0][0])

    def waiting(self, identity: str) -> list[Kept]:
        """Answers of a model and prompt that came, and that a killed run did not come to use."""
        unused = "select * from answers where identity = ? and (key, file, row) not in taken order by rowid"
        return [Kept(*each) for each in self._read(unused, identity)]

    def _read(self, query: str, *given: str) -> list[Any]:
        with self._lock:
            return self._db.execute(query, given).fetchall()

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            with self._lock, self._db:
                yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY" and self.path is not None:
                raise StoreError(
                    f"another process asks about {self.path.parent.parent} now; wait until it is done"
                ) from None
            raise StoreError(
                f"{self.path} could not be written ({error}); no further answer is paid for: "
                "make room, or move the file away if it is damaged, and run the same command again"
            ) from error

    def _take_over(self) -> None:
        """Answers that an earlier version kept as lines of JSON."""
        lines = self.path and self.path.with_suffix(".jsonl")
        if not lines or not lines.exists() or self._db.execute("select 1 from answers").fetchone():
            return
        for line in lines.read_bytes().splitlines():
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                old = json.loads(line)
                if "taken" in old:
                    self._db.executemany("insert or ignore into taken values (?,?,?)", old["taken"])
                else:
                    names = ("key", "identity", "file", "row", "chosen", "choice", "why", "at")
                    kept = [old[name] for name in names]
                    self._db.execute(
                        "insert or replace into answers values (?,?,?,?,?,?,?,?)", kept
                    )


def _storable(value: object) -> object:
    """Text as SQLite takes it: half a surrogate pair has no UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
