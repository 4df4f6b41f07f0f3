"""Answers that were paid for, kept by the content of model, prompt and row: `.epoxy/answers.sqlite`.

An answer is committed and synced before it counts, so a process that is killed has lost at most the
calls in flight. One process asks at a time: two would choose the same rows and pay twice.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from ..errors import StoreError

_TABLES = """
create table if not exists answers (
    key text primary key, identity text, file text, row text, chosen text, choice text, said text, at real
);
create table if not exists taken (key text, file text, row text, primary key (key, file, row));
"""


class About(NamedTuple):
    """A question by its fingerprint, the file and id of a row it is about, and how that was picked."""

    key: str
    file: str
    row: str
    chosen: str | None = None


class ModelAnswer(NamedTuple):
    """What was answered about a row: one of the choices, or None and what was said instead."""

    choice: str | None
    said: str = ""


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

    def add(self, about: About, identity: str, answer: ModelAnswer) -> None:
        """Keep an answer of a model and prompt; when this returns, it is on the disk."""
        key, *row = about
        # half a surrogate pair has no UTF-8
        told = [each and each.encode("utf-8", "replace").decode() for each in (*row, *answer)]
        values = (key, identity, *told, time.time())
        with self._written():
            self._db.execute("insert or replace into answers values (?,?,?,?,?,?,?,?)", values)

    def take(self, used: Iterable[About]) -> None:
        """Note that answers about rows became labels, or were counted: they are not taken up again."""
        with self._written():
            rows = [each[:3] for each in used]
            self._db.executemany("insert or ignore into taken values (?,?,?)", rows)

    def is_taken(self, about: About) -> bool:
        """Whether an answer about a row was used before."""
        return bool(self._read("select 1 from taken where (key, file, row) = (?,?,?)", *about[:3]))

    def n_taken(self, identity: str) -> int:
        """How many answers of a model and prompt were used."""
        count = "select count(*) from taken join answers using (key) where identity = ?"
        return int(self._read(count, identity)[0][0])

    def waiting(self, identity: str) -> list[About]:
        """Answers of a model and prompt that came, and that a killed run did not come to use."""
        unused = "identity = ? and (key, file, row) not in taken order by rowid"
        found = self._read(f"select key, file, row, chosen from answers where {unused}", identity)
        return [About(*each) for each in found]

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
