"""Arrays on disk that are either whole or not there.

A file is written beside its place and renamed, so a reader never sees half of it. The zip format
keeps a checksum of every member; a damaged file is treated as missing and made again.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from ..arrays import DAMAGE, pack, unpack
from ..errors import StoreError
from ..files import open_regular, sweep, write_whole

log = logging.getLogger(__name__)


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to `path`, all or nothing.

    Nothing is synced: after a power cut the checksums tell.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda place: _fill(place, arrays), durable=False)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make room, or make its folder writable"
        ) from error


def _fill(place: Path, arrays: dict[str, np.ndarray]) -> None:
    with place.open("wb") as file:
        pack(arrays, file)


def load(
    path: Path, names: tuple[str, ...] | None, *, room: bool = False
) -> dict[str, np.ndarray] | None:
    """The named arrays (None: all of them), or None where the file is missing or damaged.

    With `room`, tables have room to grow.
    """
    if not path.exists():
        return None
    try:
        with open_regular(path) as file:
            return unpack(file, names, room=room)
    except DAMAGE as damage:
        log.debug("%s is damaged and will be made again: %s", path, damage)
        return None


def remove(path: Path) -> None:
    """Delete the file, and what killed processes left beside it."""
    path.unlink(missing_ok=True)
    sweep(path.parent, path.name)
