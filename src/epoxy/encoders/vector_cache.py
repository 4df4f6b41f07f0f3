"""Embed each row once: vectors kept on disk by the content of their rows, for all projects of a user.

A row is looked up by what it holds, not by where it stands, so other splits, projects and orders,
appended rows and duplicates cost only the rows never seen. Each encoder has one SQLite file: a batch
is stored whole or not at all, a process may die at any moment, and several may write at once. A file
that SQLite cannot read is removed, and made again.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from ..errors import StoreError
from ..progress import Progress, silent
from .encoder import Encoder, Rows, digest

T = TypeVar("T")
BATCH_ROWS = 1_024
"""Rows stored at a time: what a killed run can lose at most."""

_FORMAT = 3  # changes when vectors are written in another way
_TOGETHER = 1_000  # rows asked for at a time; SQLite allows some thousands
_PATIENCE = 60  # seconds to wait for another process that is writing
_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the second of an error text that is torn
_NOT_DAMAGE = {
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ("BUSY", "LOCKED", "CANTOPEN", "FULL", "IOERR", "READONLY", "PERM", "NOMEM")
}


def cache_folder(cache: str | Path | bool | None = True) -> Path | None:
    """Where vectors are kept: the given folder, else `EPOXY_CACHE`, else the user's cache folder.

    `None` or `False` means nowhere.
    """
    if cache is None or cache is False:
        return None
    if cache is not True:
        return Path(cache).expanduser()
    if chosen := os.environ.get("EPOXY_CACHE"):
        return Path(chosen).expanduser()
    return _user_cache() / "epoxy"


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # the specification tells programs to pass over a relative path
    return Path(chosen) if os.path.isabs(chosen) else Path.home() / ".cache"


class Cached:
    """An encoder that computes no vector twice.

    Parameters
    ----------
    encoder
        What computes the vectors; one without an identity is used as it is, nothing is stored.
    folder
        Of the cache; as `cache_folder` finds it when not given. It can be deleted at any time.

    Examples
    --------
    >>> import tempfile
    >>> from epoxy.encoders import Cached, Function
    >>> def lengths(rows):
    ...     print("embedding", rows)
    ...     return [[len(row), 1.0] for row in rows]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encoder = Cached(Function(lengths, identity="lengths 1"), folder)
    ...     vectors = encoder.encode(["a", "bb"])
    ...     vectors = encoder.encode(["bb", "ccc", "a"])
    embedding ['a', 'bb']
    embedding ['ccc']
    """

    slow = False  # what is stored is not worth storing again

    def __init__(self, encoder: Encoder, folder: str | Path | None = None) -> None:
        self.encoder = encoder
        self.folder = cache_folder(True if folder is None else folder)

    @property
    def name(self) -> str:
        """The name of the encoder inside."""
        return self.encoder.name

    @property
    def identity(self) -> str | None:
        """The identity of the encoder inside."""
        return self.encoder.identity

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Fit the encoder inside."""
        self.encoder.fit(rows, progress=progress)
        return self

    def prepare(self, rows: Any) -> Rows:
        """Check the rows as the encoder inside does."""
        return self.encoder.prepare(rows)

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Return (n_rows, dim) vectors, computing only those not stored yet."""
        identity = self.encoder.identity
        wanted = self.prepare(rows)
        if identity is None or self.folder is None or not len(wanted):
            return self.encoder.encode(wanted, progress=progress)
        store = _Store(self.folder, identity)
        keys = [digest(row) for row in wanted]
        first = {key: row for row, key in reversed(list(enumerate(keys)))}  # of equal rows
        found = store.read(list(first))
        left = sorted(row for key, row in first.items() if key not in found)
        done, total = len(found), len(first)
        progress(done, total)
        for start in range(0, len(left), BATCH_ROWS):
            batch = left[start : start + BATCH_ROWS]
            part = wanted[batch] if isinstance(wanted, np.ndarray) else [wanted[r] for r in batch]
            fresh = self.encoder.encode(part, progress=_from(done + start, total, progress))
            names = [keys[row] for row in batch]
            found.update(zip(names, fresh))
            store.write(names, fresh)
            progress(done + start + len(batch), total)
        sizes = sorted({len(vector) for vector in found.values()})
        if len(sizes) > 1:
            raise StoreError(
                f"encoder {self.name!r} has vectors of length {sizes[0]} and of length {sizes[1]} "
                f"under one identity; give it a new identity, or delete {str(store.path)!r}"
            )
        return np.stack([found[key] for key in keys], dtype=np.float32)

    def __repr__(self) -> str:
        return f"Cached({self.encoder!r}, {str(self.folder)!r})"


def _from(before: int, total: int, progress: Progress) -> Progress:
    return lambda now, _: progress(min(before + now, total), total)


class _Store:
    """The vectors of one encoder, in one file that only its owner can read."""

    def __init__(self, folder: Path, identity: str) -> None:
        # from the identity alone: the name may differ (a moved model folder) where vectors do not
        label = re.sub(r"[^A-Za-z0-9.]+", "-", identity)[:48].strip("-.")
        mark = hashlib.sha256(identity.encode()).hexdigest()[:20]
        self.path = folder / f"vectors-{_FORMAT}" / f"{label}-{mark}.sqlite"

    def read(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Those of the keys that are stored, with their vectors."""

        def found(db: sqlite3.Connection) -> dict[bytes, np.ndarray]:
            kept: dict[bytes, np.ndarray] = {}
            for start in range(0, len(keys), _TOGETHER):
                part = keys[start : start + _TOGETHER]
                ask = f"SELECT key, vector FROM vectors WHERE key IN ({','.join('?' * len(part))})"
                kept |= {key: np.frombuffer(each, "<f4") for key, each in db.execute(ask, part)}
            return kept

        return self._done(found) if self.path.is_file() else {}

    def write(self, keys: Sequence[bytes], vectors: np.ndarray) -> None:
        """Store vectors under their rows' hashes, for good once this returns."""
        content = (row.tobytes() for row in np.ascontiguousarray(vectors, dtype="<f4"))
        pairs = list(zip(keys, content, strict=True))
        self._done(lambda db: db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", pairs))

    def _done(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the file; one that SQLite cannot read is removed, and made again."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                return self._once(do)
            except _DAMAGE as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_DAMAGE:
                    raise
                for path in (self.path, self.path.with_name(f"{self.path.name}-journal")):
                    path.unlink(missing_ok=True)
                return self._once(do)
        except (OSError, *_DAMAGE) as error:
            raise StoreError(
                f"vectors could not be stored in {str(self.path)!r} ({error}); "
                "make room or choose another folder with cache=FOLDER, or cache=False to store none"
            ) from error

    def _once(self, do: Callable[[sqlite3.Connection], T]) -> T:
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
            return do(db)
