"""Embed each row once: any encoder, with its vectors kept on disk by content and model.

A row is looked up by what it holds, not by where it stands, so other splits, another order,
appended rows and duplicates cost only the rows never seen. New vectors are written as they are
finished, a batch at a time; a run that is killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import StoreError
from ..progress import Progress, silent
from .protocol import Encoder
from .rows import Rows, digest
from .store import FORMAT, Store

BATCH_ROWS = 1_024
"""Rows stored at a time: what a killed run can lose at most."""


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
        return _Run(self._store(identity), self.encoder, wanted, progress).vectors()

    def _store(self, identity: str) -> Store:
        assert self.folder is not None
        # from the identity alone: the name may differ (a moved model folder) where vectors do not
        label = re.sub(r"[^A-Za-z0-9.]+", "-", identity)[:48].strip("-.")
        mark = hashlib.sha256(identity.encode()).hexdigest()[:20]
        return Store(self.folder / f"vectors-{FORMAT}" / f"{label}-{mark}.sqlite", identity)

    def __repr__(self) -> str:
        return f"Cached({self.encoder!r}, {str(self.folder)!r})"


class _Run:
    """One call of `encode`: what is stored is read, the rest computed and stored."""

    def __init__(self, store: Store, encoder: Encoder, rows: Rows, progress: Progress) -> None:
        self.store = store
        self.encoder = encoder
        self.rows = rows
        self.progress = progress
        keys = [digest(row) for row in rows]
        first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1)))  # of equal rows
        self.first = np.array(sorted(first.values()))  # the rows whose content is new
        self.keys = [keys[row] for row in self.first]
        place = {key: at for at, key in enumerate(self.keys)}
        self.place = [place[key] for key in keys]  # of each row among the distinct ones
        self.out: np.ndarray | None = None  # (n_distinct, dim), allocated once dim is known

    def vectors(self) -> np.ndarray:
        total = len(self.keys)
        missing = np.ones(total, dtype=bool)
        for at, vector in self.store.read(self.keys):
            self._place(at, vector)
            missing[at] = False
        left = np.flatnonzero(missing)
        done = total - len(left)
        self.progress(done, total)
        for start in range(0, len(left), BATCH_ROWS):
            self._compute(left[start : start + BATCH_ROWS], done + start)
        assert self.out is not None  # there is at least one row, so one was read or computed
        return self.out if total == len(self.place) else self.out[self.place]

    def _compute(self, which: np.ndarray, done: int) -> None:
        total, rows = len(self.keys), self.first[which]
        part = (
            self.rows[rows] if isinstance(self.rows, np.ndarray) else [self.rows[r] for r in rows]
        )
        fresh = self.encoder.encode(
            part, progress=lambda now, _: self.progress(min(done + now, total), total)
        )
        self._place(which, fresh)
        self.store.write([self.keys[at] for at in which], fresh)
        self.progress(done + len(which), total)

    def _place(self, at: Any, vectors: np.ndarray) -> None:
        dim = vectors.shape[-1]
        if self.out is None:
            self.out = np.empty((len(self.keys), dim), dtype=np.float32)
        if dim != self.out.shape[1]:
            raise StoreError(
                f"encoder {self.encoder.name!r} has vectors of length {self.out.shape[1]} and of "
                f"length {dim} under one identity; give it a new identity, or delete "
                f"{str(self.store.path)!r}"
            )
        self.out[at] = vectors


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # the specification tells programs to pass over a relative path
    return Path(chosen) if os.path.isabs(chosen) else Path.home() / ".cache"
