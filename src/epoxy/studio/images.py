"""Rows as pictures: pixels in a column, bytes of an image file, or the path of one.

A picture is at most `LARGEST` pixels wide. Pixels become a PNG without any library; files are made smaller
with Pillow where it is installed, and sent as they are where it is not.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import EpoxyError, ParameterError
from ..files import read_whole

if TYPE_CHECKING:
    from ..session import Session

LARGEST, FEWEST, MOST_BYTES = 512, 16, 32 << 20
"""Pixels of a side that are sent, pixels of the smallest picture, bytes of a file that are read."""
_KINDS = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_NAMED = ("image", "pixels", "picture", "path", "file")
_COLUMNS: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()  # by project
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def column_of(session: Session) -> str | None:
    """The column that holds a picture of each row; None where there is none."""
    home = session.folder
    if home is None:
        return None
    if home not in _COLUMNS:
        _COLUMNS[home] = _find(home.rows.tables[0], home.project)
    return _COLUMNS[home]


def _find(table: Any, project: Any) -> str | None:
    first = table.slice(0, 1).to_pylist()[0] if table.num_rows else {}
    told = [project.column] if project.encoder.startswith("image") else []
    names = [*told, *(name for name in _NAMED if name in first)]
    return next((name for name in names if name in first and _is_picture(first[name])), None)


def _is_picture(value: Any) -> bool:
    if isinstance(value, dict):
        return "bytes" in value or "path" in value
    if isinstance(value, bytes):
        return any(value.startswith(each) for each in _KINDS)
    if isinstance(value, str):
        return value.lower().endswith(_ENDINGS)
    return isinstance(value, list) and _shape(np.asarray(value)) is not None


def _shape(pixels: np.ndarray) -> tuple[int, ...] | None:
    """Height and width (and 3 colours) of pixels; a flat list of a square number is a square."""
    if pixels.dtype.kind not in "iuf":
        return None
    if pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3):
        return pixels.shape
    side = math.isqrt(pixels.size)
    square = pixels.ndim == 1 and side * side == pixels.size >= FEWEST
    return (side, side) if square else None


def image_of(session: Session, number: int, size: int) -> tuple[bytes, str]:
    """The picture of a row of at most `size` pixels a side, and its media type."""
    column = column_of(session)
    if column is None or session.folder is None:
        raise ParameterError("rows of this project have no pictures; show their cells")
    at, row = session.place(number)
    value = session.folder.rows.tables[at].column(column)[row].as_py()
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, list):
        return _png(_bytes_of(np.asarray(value)), size), "image/png"
    if isinstance(value, str):
        value = _file(session.folder.project.folder, value)
    if not isinstance(value, bytes):
        raise ParameterError(f"row {number} has no picture")
    kind = next((name for start, name in _KINDS.items() if value.startswith(start)), None)
    if kind is None:
        raise ParameterError(f"the picture of row {number} is of no kind a browser shows")
    return _smaller(value, size, kind)


def _file(home: Path, name: str) -> bytes:
    """The bytes of a file that a row names: a relative path lies in the project, or where we run."""
    path = Path(name).expanduser()
    places = [path] if path.is_absolute() else [home / path, path]
    if path.suffix.lower() not in _ENDINGS:
        raise ParameterError(f"{name!r:.80} does not end like a picture")
    for place in places:
        if place.is_file():
            return read_whole(place, MOST_BYTES)
    raise ParameterError(f"there is no picture {name!r:.80}; check the column of paths")


def _smaller(content: bytes, size: int, kind: str) -> tuple[bytes, str]:
    try:
        from PIL import Image
    except ImportError:
        return content, kind
    try:
        with Image.open(io.BytesIO(content)) as opened:
            opened.thumbnail((size, size))
            out = io.BytesIO()
            opened.convert("RGB").save(out, "PNG")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise EpoxyError(f"this picture cannot be read ({error})") from None
    return out.getvalue(), "image/png"


def _bytes_of(pixels: np.ndarray) -> np.ndarray:
    """Pixels as bytes; numbers of another range are stretched to it."""
    shape = _shape(pixels)
    if shape is None:
        raise ParameterError("these numbers are no picture: they are no square")
    values = np.nan_to_num(pixels.reshape(shape).astype(np.float64))
    top = values.max(initial=0)
    known = (1, 16, 255)  # usual ends of the scale
    scale = next((each for each in known if top <= each), top)
    return np.clip(255 * values / scale, 0, 255).astype(np.uint8)


def _png(pixels: np.ndarray, size: int) -> bytes:
    """Pixels, each drawn as a square so that the longer side has `size` of them at most."""
    longest = max(pixels.shape[:2])
    step = -(-longest // size)
    pixels = pixels[::step, ::step]
    times = max(1, size // max(pixels.shape[:2]))
    pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = np.ascontiguousarray(pixels).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
