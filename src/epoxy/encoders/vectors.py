"""The one check every encoder's answer passes: a finite float32 vector for each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AlignmentError, VectorError

__all__ = ["as_vectors"]

_BLOCK = 65_536  # rows looked at in one go, so that a check of a large array needs little memory
_MOST_DENSE = 4 << 30  # bytes a sparse answer may take once it is dense


def as_vectors(values: Any, who: str, n_rows: int | None = None) -> np.ndarray:
    """Return values as (n_rows, dim) float32, or say what is wrong with them."""
    raw = _dense(values, who)
    if n_rows is not None and len(raw) != n_rows:
        raise AlignmentError(
            f"{who} has {len(raw)} vectors for {n_rows} rows; expected one vector per row, in order"
        )
    with np.errstate(over="ignore"):  # what overflows float32 is reported below, as infinite
        vectors = raw.astype(np.float32, copy=False)
    for start in range(0, len(vectors), _BLOCK):
        finite = np.isfinite(vectors[start : start + _BLOCK]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise VectorError(
                f"{who} gave a vector with NaN or infinite values for row {row}; "
                "drop that row or repair its vector"
            )
    return np.ascontiguousarray(vectors)


def _dense(values: Any, who: str) -> np.ndarray:
    if hasattr(values, "toarray"):  # scipy's sparse matrices and arrays
        if values.shape[0] * values.shape[1] * 4 > _MOST_DENSE:
            raise VectorError(
                f"{who} gave sparse vectors, {values.shape[0]} of length {values.shape[1]}, "
                "too many to make dense; end the pipeline with TruncatedSVD, or use 'lsa'"
            )
        values = values.toarray()
    try:
        raw = values if isinstance(values, np.ndarray) else np.asarray(values)
        if raw.dtype == object and raw.ndim == 1 and len(raw):
            raw = np.stack([np.asarray(each, dtype=np.float32) for each in raw])
    except (TypeError, ValueError) as error:
        raise VectorError(
            f"{who} gave vectors that do not form a table ({error}); "
            "every row needs one vector of numbers, all of one length"
        ) from error
    if raw.ndim == 1 and not len(raw):
        raw = raw.reshape(0, 0)
    if raw.ndim != 2 or raw.dtype.kind not in "fiub":
        raise VectorError(
            f"{who} gave an array of shape {raw.shape} and type {raw.dtype}; "
            "expected numbers of shape (n_rows, dim)"
        )
    return raw
