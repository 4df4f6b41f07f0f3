"""One array or table in one file: a .npy with a checksum at its end, written whole and synced.

NumPy reads such a file as it reads any other; `read` also finds out whether it is the one that was
written. A file that is cut, flipped or gone is told apart from one that is whole before a number of it
is used. A pyarrow table is kept as the bytes of its stream.
"""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StoreError
from ..storage import open_regular, write_whole

_CHECK = 4  # bytes of the checksum
_TABLE = np.dtype("V1")  # of the bytes of a table


def write(path: Path, value: Any) -> None:
    """Keep an array or a table; the file is whole or not there."""
    array = np.ascontiguousarray(value if isinstance(value, np.ndarray) else stream_of(value))
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    content = array.reshape(-1).view(np.uint8).data
    check = zlib.crc32(content, zlib.crc32(head.getvalue()))

    def fill(place: Path) -> None:
        with place.open("wb") as file:
            for each in (head.getvalue(), content, check.to_bytes(_CHECK, "little")):
                file.write(each)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, fill)
    except OSError as error:
        raise cannot_write(path, error) from error


def read(path: Path, *, n_rows: int | None = None) -> Any:
    """What was kept; refuses a file that is not as it was written."""
    try:
        with open_regular(path) as file:
            found = _checked(np.fromfile(file, np.uint8))
    except (OSError, ValueError) as error:  # StoreError is a ValueError
        raise StoreError(
            f"{path} is damaged or gone ({error}); run again: it is made anew"
        ) from error
    if n_rows is not None and found.shape[:1] != (n_rows,):
        raise StoreError(f"{path} does not hold {n_rows} rows; remove it and run again")
    return found


def is_whole(path: Path, n_rows: int) -> bool:
    """Whether the array can be read as it was written."""
    try:
        read(path, n_rows=n_rows)
    except StoreError:
        return False
    return True


def cannot_write(path: Path, error: OSError) -> StoreError:
    """What to say of a disk that is full or closed to us."""
    return StoreError(
        f"{path} cannot be written ({error.strerror or error}); make room and run again: "
        "what is kept by then is not done again"
    )


def stream_of(table: Any) -> np.ndarray:
    """A pyarrow table as the bytes of its stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), _TABLE)


def _checked(raw: np.ndarray) -> Any:
    """What the bytes of a file hold, once these are known to be those that were written."""
    body, check = raw[:-_CHECK], raw[-_CHECK:]
    if zlib.crc32(body.data) != int.from_bytes(check.tobytes(), "little"):
        raise ValueError("its checksum is another")
    head = io.BytesIO(body[: 1 << 16].tobytes())
    np.lib.format.read_magic(head)
    shape, _, dtype = np.lib.format.read_array_header_1_0(head)
    found: np.ndarray = body[head.tell() :].view(dtype).reshape(shape)
    if dtype != _TABLE:
        return found
    import pyarrow as pa

    return pa.ipc.open_stream(found.data).read_all()
