"""The one check every encoder's answer passes: a finite float32 vector for each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AlignmentError, VectorError
from ..inputs import as_float32, as_table

_MOST_DENSE = 4 << 30  # bytes a sparse answer may take once it is dense


def as_vectors(values: Any, who: str, n_rows: int | None = None) -> np.ndarray:
    """Return values as (n_rows, dim) float32, or say what is wrong with them."""
    raw = _dense(values, who)
    if n_rows is not None and len(raw) != n_rows:
        raise AlignmentError(
            f"{who} has {len(raw)} vectors for {n_rows} rows; expected one vector per row, in order"
        )
    return as_float32(raw, who) if len(raw) else raw.astype(np.float32)


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
    if not len(raw):
        return raw.reshape(0, raw.shape[1] if raw.ndim == 2 else 0)
    return as_table(raw.astype(np.uint8) if raw.dtype == bool else raw, who)
