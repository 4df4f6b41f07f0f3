"""Rows as pictures: pixels in a column, bytes of an image file, or the path of one.

A picture is at most `LARGEST` pixels wide and is sent as a PNG, whatever it was.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import EpoxyError, MissingExtra, ParameterError
from ..storage import read_whole

if TYPE_CHECKING:
    from ..session import Session

LARGEST, FEWEST, MOST_BYTES = 512, 16, 32 << 20
"""Pixels of a side that are sent, pixels of the smallest picture, bytes of a file that are read."""
_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_NAMED = ("image", "pixels", "picture", "path", "file")
_COLUMNS: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()  # by project


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
        return value.startswith(_STARTS)
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


def image_of(session: Session, number: int, size: int) -> bytes:
    """The picture of a row as a PNG of at most `size` pixels a side."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra.of("pictures of rows", "pillow", "studio") from error
    value = value_of(session, number)
    try:
        if isinstance(value, np.ndarray):
            made = Image.fromarray(_bytes_of(value))
            times = max(1, size // max(made.size))  # each pixel a square
            made = made.resize([times * side for side in made.size], Image.Resampling.NEAREST)
        else:
            made = Image.open(io.BytesIO(value))
        made.thumbnail((size, size))
        out = io.BytesIO()
        made.convert("L" if made.mode == "L" else "RGB").save(out, "PNG")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise EpoxyError(f"this picture cannot be read ({error})") from None
    return out.getvalue()


def value_of(session: Session, number: int) -> np.ndarray | bytes:
    """What makes the picture of a row: numbers of pixels, or the bytes of a file."""
    column = column_of(session)
    if column is None or session.folder is None:
        raise ParameterError("rows of this project have no pictures; show their cells")
    at, row = session.place(number)
    value = session.folder.rows.tables[at].column(column)[row].as_py()
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, str):
        value = _file(session.folder.project.folder, value)
    if isinstance(value, list):
        pixels = np.asarray(value)
        shape = _shape(pixels)
        if shape is None:
            raise ParameterError("these numbers are no picture: they are no square")
        return pixels.reshape(shape)
    if isinstance(value, bytes) and value.startswith(_STARTS):
        return value
    raise ParameterError(f"row {number} has no picture of a kind that is known")


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


def _bytes_of(pixels: np.ndarray) -> np.ndarray:
    """Pixels as bytes; numbers of another range are stretched to it."""
    values = np.nan_to_num(pixels.astype(np.float64))
    top = values.max(initial=0)
    known = (1, 16, 255)  # usual ends of the scale
    scale = next((each for each in known if top <= each), top)
    return np.clip(255 * values / scale, 0, 255).astype(np.uint8)
