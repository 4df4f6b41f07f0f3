"""Arrays on disk that are either whole or not there.

A file is written beside its place and renamed, so a reader never sees half of it. The zip format
keeps a checksum of every member; a damaged file is treated as missing and made again.
"""

from __future__ import annotations

import logging
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ..files import sweep, write_whole

log = logging.getLogger(__name__)

DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError)


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to `path`, all or nothing.

    Nothing is synced: after a power cut the checksums tell.
    """

    def fill(place: Path) -> None:
        with place.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, fill, durable=False)


def load(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray] | None:
    """The named arrays, or None where the file is missing or damaged."""
    if not path.exists():
        return None
    try:
        # opened here, because np.load leaves a damaged file open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except DAMAGE as damage:
        log.debug("%s is damaged and will be made again: %s", path, damage)
        return None


def remove(path: Path) -> None:
    """Delete the file, and what killed processes left beside it."""
    path.unlink(missing_ok=True)
    sweep(path.parent, path.name)
