"""Vectors on disk, by the content of their rows: shards that are whole or not there.

A folder holds the vectors of one encoder. A shard is two files: ``NAME.npy``, plain float32
vectors, and ``NAME.json``, which names their rows (a hash of each row's content) and carries the
checksum of both. The ``.json`` is written last and makes the shard exist; each file is written
beside its place, synced and renamed. So a process may die at any moment, and several may write at
once (names are random), and what is read is either right or not there. What fails its checksum is
removed and computed again. A single file for all vectors was rejected: appending to it needs locks
and can tear.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StoreError

__all__ = ["FORMAT", "Shard", "Store"]

FORMAT = 1
"""Changes when shards are written in another way; shards of another format are left alone."""

_LEFT_BEHIND = 24 * 3600  # seconds after which a file nobody finished can be no one's
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Shard:
    """One file of vectors and the rows they belong to."""

    path: Path  # of the .npy file
    keys: np.ndarray  # (n_rows, 2) uint64, the two halves of each row's hash
    dim: int
    checksum: str  # of the .npy file


class Store:
    """The vectors of one encoder, in one folder."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self.identity = identity

    def shards(self) -> list[Shard]:
        """Read which rows are stored; what is damaged is removed, what is foreign passed over."""
        found = (self._shard(path) for path in sorted(self.folder.glob("*.json")))
        return [shard for shard in found if shard is not None]

    def read(self, shard: Shard) -> np.ndarray | None:
        """Return a shard's vectors, or None (and remove it) if they are not what was written."""
        try:
            content = shard.path.read_bytes()
        except OSError:
            content = b""
        if _checksum(content) != shard.checksum:
            self._discard(shard.path, "its vectors are not those that were written")
            return None
        return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))

    def write(self, keys: np.ndarray, vectors: np.ndarray) -> Path:
        """Store vectors under their rows' hashes, for good once this returns."""
        path = self.folder / f"{uuid.uuid4().hex}.npy"
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(vectors, dtype="<f4"), allow_pickle=False)
        content = buffer.getvalue()
        entry: dict[str, Any] = {
            "format": FORMAT,
            "identity": self.identity,
            "dim": int(vectors.shape[1]),
            "vectors": _checksum(content),
            "rows": keys.astype(">u8").tobytes().hex(),
        }
        entry["entry"] = _checksum(_canonical(entry))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_whole(path, content)
            _write_whole(path.with_suffix(".json"), _canonical(entry))
        except OSError as error:
            raise StoreError(
                f"vectors could not be stored in {str(self.folder)!r} ({error.strerror or error}); "
                "make room or choose another folder with cache=FOLDER, or cache=False to store none"
            ) from error
        return path

    def remove(self, shard: Shard) -> None:
        """Remove a shard whose rows are stored elsewhere."""
        _remove(shard.path)

    def sweep(self) -> None:
        """Remove what a killed process left unfinished, once it is a day old."""
        limit = time.time() - _LEFT_BEHIND
        for path in self._unfinished():
            try:
                if path.stat().st_mtime < limit:
                    path.unlink()
            except OSError:  # another process was quicker
                continue

    def _unfinished(self) -> Iterator[Path]:
        yield from self.folder.glob("*.part")
        for path in self.folder.glob("*.npy"):
            if not path.with_suffix(".json").exists():
                yield path

    def _shard(self, path: Path) -> Shard | None:
        try:
            entry = json.loads(path.read_bytes())
            claimed = entry.pop("entry")
            whole = claimed == _checksum(_canonical(entry))
            foreign = whole and (entry["format"] != FORMAT or entry["identity"] != self.identity)
            if foreign:
                _log.debug("passed over %s: written for another encoder or version", path)
                return None
            if not whole:
                raise ValueError("its checksum does not match")
            keys = np.frombuffer(bytes.fromhex(entry["rows"]), dtype=">u8").reshape(-1, 2)
            return Shard(
                path.with_suffix(".npy"), keys.astype(np.uint64), entry["dim"], entry["vectors"]
            )
        except FileNotFoundError:  # merged away by another process since it was listed
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._discard(path, str(error))
            return None

    def _discard(self, path: Path, why: str) -> None:
        _log.debug("removed the damaged shard %s: %s", path, why)
        _remove(path)


def _remove(path: Path) -> None:
    # the entry first: without it the vectors are nobody's, whatever happens next
    for suffix in (".json", ".npy"):
        path.with_suffix(suffix).unlink(missing_ok=True)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()


def _write_whole(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and renames are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
