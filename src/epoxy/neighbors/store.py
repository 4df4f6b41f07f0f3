"""Arrays on disk that are either whole or not there.

A file is written beside its place and renamed, so a reader never sees half of it. The zip format
keeps a checksum of every member; a damaged file is treated as missing and made again.
"""

from __future__ import annotations

import logging
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

__all__ = ["load", "remove", "save"]

log = logging.getLogger(__name__)

DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError)


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to `path`, all or nothing.

    No fsync: what a killed process wrote survives it, and after a power cut the checksums tell.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    _sweep(path)


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
    _sweep(path)


def _sweep(path: Path) -> None:
    """Delete half-written files of processes that are no more; others may still be writing."""
    for leftover in path.parent.glob(f"{path.name}.*.tmp"):
        writer = leftover.name.removeprefix(f"{path.name}.").removesuffix(".tmp")
        if not (writer.isdigit() and _is_alive(int(writer))):
            leftover.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is not a question
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
