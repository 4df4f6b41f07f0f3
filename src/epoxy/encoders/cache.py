"""Embed each row once: any encoder, with its vectors kept on disk by content and model.

A row is looked up by what it holds, not by where it stands, so other splits, another order,
appended rows and duplicates cost only the rows never seen. New vectors are written as they are
finished, a shard at a time; a run that is killed goes on where it was.
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
from .store import FORMAT, Shard, Store

__all__ = ["Cached", "cache_folder"]

SHARD_ROWS = 1_024
"""Rows per shard: what a killed run can lose at most."""

_MOST_SMALL = 32  # small shards (one-row additions) a folder may gather before they are merged


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
        return Store(self.folder / f"vectors-{FORMAT}" / f"{label}-{mark}", identity)

    def __repr__(self) -> str:
        return f"Cached({self.encoder!r}, {str(self.folder)!r})"


class _Run:
    """One call of `encode`: what is stored is read, the rest computed and stored."""

    def __init__(self, store: Store, encoder: Encoder, rows: Rows, progress: Progress) -> None:
        self.store = store
        self.encoder = encoder
        self.rows = rows
        self.progress = progress
        self.keys = _keys(rows)  # (n_rows, 2)
        self.first = _first_of_equals(self.keys)  # (n_rows,) the first row with the same content
        self.out: np.ndarray | None = None  # (n_rows, dim), allocated once dim is known

    def vectors(self) -> np.ndarray:
        distinct = np.flatnonzero(self.first == np.arange(len(self.rows)))
        shards = self.store.shards()
        missing = self._read(shards, distinct)
        done = len(distinct) - len(missing)
        self.progress(done, len(distinct))
        for start in range(0, len(missing), SHARD_ROWS):
            self._compute(missing[start : start + SHARD_ROWS], done + start, len(distinct))
        if len(missing):
            self.store.sweep()
            _merge_small(self.store)
        assert self.out is not None  # there is at least one row, so one was read or computed
        for start in range(0, len(self.rows), SHARD_ROWS):  # in blocks: no second copy of it all
            block = slice(start, start + SHARD_ROWS)
            self.out[block] = self.out[self.first[block]]
        return self.out

    def _read(self, shards: list[Shard], distinct: np.ndarray) -> np.ndarray:
        """Fill in what is stored; return the rows that are not."""
        shard_of, place_of = _lookup(shards, self.keys[distinct])
        missing = shard_of < 0
        order = np.argsort(shard_of, kind="stable")
        bounds = np.searchsorted(shard_of[order], np.arange(len(shards) + 1))
        for number, shard in enumerate(shards):
            here = order[bounds[number] : bounds[number + 1]]
            if not len(here):
                continue
            stored = self.store.read(shard)
            if stored is None:
                missing[here] = True
            else:
                self._place(distinct[here], stored[place_of[here]])
        return distinct[missing]

    def _compute(self, rows: np.ndarray, done: int, total: int) -> None:
        part = _take(self.rows, rows)
        fresh = self.encoder.encode(
            part, progress=lambda now, _: self.progress(min(done + now, total), total)
        )
        self._place(rows, fresh)
        self.store.write(self.keys[rows], fresh)
        self.progress(done + len(rows), total)

    def _place(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        if self.out is None:
            self.out = np.empty((len(self.rows), vectors.shape[1]), dtype=np.float32)
        if vectors.shape[1] != self.out.shape[1]:
            raise StoreError(
                f"encoder {self.encoder.name!r} has vectors of length {self.out.shape[1]} and of "
                f"length {vectors.shape[1]} under one identity; give it a new identity, or delete "
                f"{str(self.store.folder)!r}"
            )
        self.out[rows] = vectors


def _keys(rows: Rows) -> np.ndarray:
    packed = bytearray()
    for row in rows:
        packed += digest(row)
    return np.frombuffer(bytes(packed), dtype=">u8").reshape(-1, 2).astype(np.uint64)


def _first_of_equals(keys: np.ndarray) -> np.ndarray:
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: equals stay in the order of the rows
    starts = np.ones(len(keys), dtype=bool)
    starts[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    first = np.empty(len(keys), dtype=np.intp)
    first[order] = order[np.flatnonzero(starts)[np.cumsum(starts) - 1]]
    return first


def _lookup(shards: list[Shard], keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each key, the shard that has it (−1: none) and its place there.

    The search is by the first half of the hash. Two stored rows that share a first half (never
    seen) would make the second a miss, which costs time and nothing else.
    """
    shard_of = np.full(len(keys), -1, dtype=np.intp)
    place_of = np.zeros(len(keys), dtype=np.intp)
    if not shards:
        return shard_of, place_of
    stored = np.concatenate([shard.keys for shard in shards])
    sizes = [len(shard.keys) for shard in shards]
    owner = np.repeat(np.arange(len(shards)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    order = np.argsort(stored[:, 0], kind="stable")
    at = np.searchsorted(stored[order, 0], keys[:, 0])
    at = order[np.minimum(at, len(order) - 1)] if len(order) else at
    found = (stored[at] == keys).all(axis=1) if len(order) else np.zeros(len(keys), dtype=bool)
    shard_of[found] = owner[at[found]]
    place_of[found] = place[at[found]]
    return shard_of, place_of


def _take(rows: Rows, which: np.ndarray) -> Any:
    return rows[which] if isinstance(rows, np.ndarray) else [rows[row] for row in which]


def _merge_small(store: Store) -> None:
    """Gather small shards into full ones, so that a row added at a time does not cost a file each.

    Readers in other processes that lose a shard to this compute its rows again.
    """
    small = [shard for shard in store.shards() if len(shard.keys) < SHARD_ROWS // 2]
    if len(small) <= _MOST_SMALL:
        return
    batch: list[Shard] = []
    for shard in small:
        batch.append(shard)
        if sum(len(each.keys) for each in batch) >= SHARD_ROWS:
            _merge(store, batch)
            batch = []
    _merge(store, batch)


def _merge(store: Store, shards: list[Shard]) -> None:
    read = [(shard, store.read(shard)) for shard in shards]
    whole = [(shard, vectors) for shard, vectors in read if vectors is not None]
    if len(whole) < 2 or len({shard.dim for shard, _ in whole}) > 1:
        return
    keys = np.concatenate([shard.keys for shard, _ in whole])
    store.write(keys, np.concatenate([vectors for _, vectors in whole]))
    for shard, _ in whole:
        store.remove(shard)


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # the specification tells programs to pass over a relative path
    return Path(chosen) if os.path.isabs(chosen) else Path.home() / ".cache"
