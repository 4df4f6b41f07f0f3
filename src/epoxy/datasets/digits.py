"""scikit-learn's handwritten digits, with what a person would say about a digit as columns.

The images are 8 × 8 pixels of 0 to 16. Beside the pixels each row has measures that labeling
functions can be written over ("two holes is an 8"), because nobody thinks in pixel numbers.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from ..votes import Split, Votes
from .dataset import Dataset

_SIZES = {"train": 1200, "dev": 97, "test": 500}
_INK = 6  # of 16: what counts as ink when strokes and holes are counted


def digits() -> Dataset:
    """Load the 1,797 digits as rows; train has no true labels, dev and test have.

    Columns:

    - `id`; `pixels` (64 numbers, row by row); `ink` (share of the page that is inked);
    - `top_left`, `top_right`, `bottom_left`, `bottom_right`, `center` (share of the ink in each
      quarter of the page and in its middle 4 × 4);
    - `width` of the inked box, of its two uppermost lines (`width_top`) and of its two lowest
      (`width_bottom`), in pixels;
    - `strokes_high`, `strokes_middle`, `strokes_low` (how many strokes a level line crosses at a
      quarter, a half and three quarters of the box);
    - `holes`, `hole_size` (pixels of the largest) and `hole_height` (how far down the page it lies,
      0 to 1; missing where there is none).
    """
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = raw.images.astype(np.uint8)
    y = raw.target.astype(np.int64)
    classes = tuple(str(digit) for digit in range(10))
    # shuffled by a hash: the same on every machine and under every version of a random generator
    order = np.array(sorted(range(len(y)), key=lambda row: sha256(b"digit-%d" % row).digest()))
    splits, tables = {}, {}
    start = 0
    for name, size in _SIZES.items():
        rows = order[start : start + size]
        start += size
        ids = [f"digit-{row}" for row in rows]
        tables[name] = _table(images[rows], ids)
        votes = Votes(np.empty((size, 0), dtype=np.int8), (), classes)
        vectors = images[rows].reshape(size, 64) / np.float32(16)
        splits[name] = Split(votes, vectors, y[rows], ids)
    return Dataset.sealed("digits", classes, splits, tables)


def _table(images: np.ndarray, ids: list[str]) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {"id": ids, "pixels": list(images.reshape(len(images), 64))}
    described = [_describe(image) for image in images]
    columns |= {name: [each[name] for each in described] for name in described[0]}
    return pa.table(columns)


def _describe(image: np.ndarray) -> dict[str, float | int | None]:
    """What a person would say about one 8 × 8 digit."""
    total = float(image.sum())
    inked = image >= _INK
    rows = np.flatnonzero(inked.any(axis=1))
    high, middle, low = (
        rows[0] + round((rows[-1] - rows[0]) * share) for share in (0.25, 0.5, 0.75)
    )
    holes = _holes(inked)
    largest = max(holes, key=len, default=None)
    return {
        "ink": round(total / (16 * 64), 3),
        "top_left": round(float(image[:4, :4].sum()) / total, 3),
        "top_right": round(float(image[:4, 4:].sum()) / total, 3),
        "bottom_left": round(float(image[4:, :4].sum()) / total, 3),
        "bottom_right": round(float(image[4:, 4:].sum()) / total, 3),
        "center": round(float(image[2:6, 2:6].sum()) / total, 3),
        "width": _width(inked),
        "width_top": _width(inked[rows[0] : rows[0] + 2]),
        "width_bottom": _width(inked[rows[-1] - 1 : rows[-1] + 1]),
        "strokes_high": _strokes(inked[high]),
        "strokes_middle": _strokes(inked[middle]),
        "strokes_low": _strokes(inked[low]),
        "holes": len(holes),
        "hole_size": 0 if largest is None else len(largest),
        "hole_height": None if largest is None else round(float(largest[:, 0].mean()) / 7, 3),
    }


def _width(inked: np.ndarray) -> int:
    columns = np.flatnonzero(inked.any(axis=0))
    return int(columns[-1] - columns[0] + 1)


def _strokes(line: np.ndarray) -> int:
    """How often a line of pixels goes from paper to ink."""
    return int((np.diff(np.r_[False, line].astype(np.int8)) == 1).sum())


def _holes(inked: np.ndarray) -> list[np.ndarray]:
    """The regions of paper that ink encloses, each as its (row, column) pixels."""
    from scipy import ndimage

    framed = np.pad(~inked, 1, constant_values=True)  # one ring of paper joins all that is outside
    regions, count = ndimage.label(framed)
    outside = regions[0, 0]
    return [np.argwhere(regions == k) - 1 for k in range(1, count + 1) if k != outside]
