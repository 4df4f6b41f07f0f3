"""A row as a person reads it at a terminal: its text, or its picture in half blocks."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from ..errors import EpoxyError
from .screen import shorten

if TYPE_CHECKING:
    import numpy as np

    from ..session import Session

LINES, SIDE = 14, 24
"""Lines of a text that are shown, and pixels of a picture's side."""
_BLOCKS = " ▀▄█"


def glance(session: Session, row: Any, width: int = 60) -> str:
    """A row, by number or id, in one line; of a picture without text there is nothing to say."""
    number = row if isinstance(row, int) else number_of(session, row)
    if number is None or session.texts is None:
        return ""
    if session.texts.column is None and _pictures(session):
        return ""
    return shorten(session.text(number), width)


def full(session: Session, number: int, width: int) -> list[str]:
    """A row's picture, or else its text, in lines of so many characters."""
    import textwrap

    picture = _pixels(session, number)
    if picture is not None:
        return half_blocks(picture)
    text = "" if session.texts is None else session.text(number)
    lines = [line for part in text.splitlines() for line in textwrap.wrap(part, width) or [""]]
    return [*lines[: LINES - 1], "…"] if len(lines) > LINES else lines


def half_blocks(pixels: np.ndarray) -> list[str]:
    """Bright pixels as blocks, two rows of pixels a line."""
    import numpy as np

    step = max(1, math.ceil(max(pixels.shape) / SIDE))
    bright = pixels[::step, ::step] > (pixels.min() + pixels.max()) / 2
    if len(bright) % 2:
        bright = np.vstack([bright, np.zeros_like(bright[:1])])
    pairs = bright[::2] + 2 * bright[1::2]
    return ["".join(_BLOCKS[each] for each in line) for line in pairs.tolist()]


def number_of(session: Session, row: Any) -> int | None:
    """The number of a row by its id; None for one that is not there."""
    try:
        name, position = session.find(row)
    except EpoxyError:
        return None
    return session.number((session.names.index(name), position))


def _pictures(session: Session) -> str | None:
    from ..studio.images import column_of

    return column_of(session)


def _pixels(session: Session, number: int) -> np.ndarray | None:
    """Brightness of a row's picture; None where there is none, or none that can be read here."""
    import numpy as np

    from ..studio.images import image_of, value_of

    try:
        value = value_of(session, number)
        if isinstance(value, np.ndarray):
            return value if value.ndim == 2 else value.mean(axis=2)
        from PIL import Image

        with Image.open(io.BytesIO(image_of(session, number, SIDE))) as image:
            return np.asarray(image.convert("L"), dtype=float)
    except (ImportError, EpoxyError):
        return None
