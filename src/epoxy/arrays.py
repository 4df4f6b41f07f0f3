"""Arrays in one npz file without compression, as `numpy.savez` writes it, read with care.

Nothing is inflated and nothing allocated for what a header merely claims: members are stored as they
are, do not overlap, and are as long as their headers say.
"""

from __future__ import annotations

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from .room import roomy

CHUNK = 1 << 20
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError, EOFError),
    *(ValueError, KeyError, IndexError, TypeError, RuntimeError, OverflowError, OSError),
    MemoryError,
)
"""What reading a damaged file can raise."""


def pack(arrays: Mapping[str, np.ndarray], file: Any) -> None:
    """Write arrays to a path or an open file."""
    np.savez(file, allow_pickle=False, **arrays)


def unpack(
    file: BinaryIO, names: Sequence[str] | None, *, room: bool = False
) -> dict[str, np.ndarray]:
    """The named arrays (None: all); raises one of `DAMAGE` where they are not as they were written.

    With `room`, tables have room to grow (see `room`).
    """
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(each.compress_type != zipfile.ZIP_STORED for each in members):
            raise ValueError("it is compressed")
        if sum(each.file_size for each in members) > size:
            raise ValueError("its parts are larger than the whole")
        if names is None:
            names = [each.filename.removesuffix(".npy") for each in members]
        return {name: _array(archive, archive.getinfo(f"{name}.npy"), room) for name in names}


def _array(archive: zipfile.ZipFile, about: zipfile.ZipInfo, room: bool) -> np.ndarray:
    with archive.open(about) as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError("an array of another version")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(member)
        n_bytes = dtype.itemsize * math.prod(shape)
        if dtype.hasobject or n_bytes != about.file_size - member.tell():
            raise ValueError("an array that is not as long as it says")
        grows = room and len(shape) == 2 and n_bytes and not fortran
        table = roomy(shape[0], shape[1], dtype) if grows else None
        stored = np.empty(n_bytes, np.uint8) if table is None else table.reshape(-1).view(np.uint8)
        at = 0
        while part := member.read(CHUNK):  # to the very end, where its checksum is compared
            stored[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
    if table is not None:
        return table
    return np.ndarray(shape, dtype, stored, order="F" if fortran else "C")
