"""Vectors on disk, by the content of their rows: one SQLite file for each encoder.

SQLite gives what a cache needs: a batch is stored whole or not at all, a process may die at any
moment, and several may write at once. What it does not give is a check of what the disk returns, so
every vector carries a checksum of itself, its row's hash and the encoder; one that fails is not
there, and a file that SQLite cannot read is removed. Both are computed again.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from ..errors import StoreError

FORMAT = 2
"""Changes when vectors are written in another way; those of another format are left alone."""

_CHECKSUM = 8  # bytes before each vector
_SELECT = "SELECT key, CAST(vector AS BLOB) FROM vectors WHERE vector NOT NULL AND key IN"
_TOGETHER = 1_000  # rows asked for at a time; SQLite allows some thousands
_PATIENCE = 60  # seconds to wait for another process that is writing
_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the second of an error text that is torn
_NOT_DAMAGE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}
_log = logging.getLogger(__name__)


class Store:
    """The vectors of one encoder, in one file."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self.identity = identity.encode()

    def read(self, keys: Sequence[bytes]) -> Iterator[tuple[int, np.ndarray]]:
        """Positions of the keys that are stored, with their vectors."""
        if not self.path.is_file():
            return
        try:
            with closing(self._open()) as db:
                for start in range(0, len(keys), _TOGETHER):
                    part = keys[start : start + _TOGETHER]
                    rows = db.execute(f"{_SELECT} ({','.join('?' * len(part))})", part)
                    at = {key: start + place for place, key in enumerate(part)}
                    for key, stored in rows:
                        check, vector = stored[:_CHECKSUM], stored[_CHECKSUM:]
                        if check == self._checksum(key, vector):
                            yield at[key], np.frombuffer(vector, dtype="<f4")
        except _DAMAGE as error:
            self._discard(error)

    def write(self, keys: Sequence[bytes], vectors: np.ndarray) -> None:
        """Store vectors under their rows' hashes, for good once this returns."""
        content = [row.tobytes() for row in np.ascontiguousarray(vectors, dtype="<f4")]
        pairs = [(key, self._checksum(key, row) + row) for key, row in zip(keys, content)]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._insert(pairs)
            except _DAMAGE as error:
                if not self._discard(error):
                    raise
                self._insert(pairs)
        except (OSError, *_DAMAGE) as error:
            raise StoreError(
                f"vectors could not be stored in {str(self.path)!r} ({error}); "
                "make room or choose another folder with cache=FOLDER, or cache=False to store none"
            ) from error

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_PATIENCE)
        db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
        return db

    def _insert(self, pairs: list[tuple[bytes, bytes]]) -> None:
        with closing(self._open()) as db, db:
            db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", pairs)

    def _checksum(self, key: bytes, vector: bytes) -> bytes:
        return hashlib.blake2b(self.identity + key + vector, digest_size=_CHECKSUM).digest()

    def _discard(self, error: Exception) -> bool:
        """Remove the file unless the error is of the machine around it; says whether it was."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_DAMAGE:
            return False
        _log.debug("removed the damaged file %s: %s", self.path, error)
        for path in (self.path, self.path.with_name(f"{self.path.name}-journal")):
            path.unlink(missing_ok=True)
        return True
