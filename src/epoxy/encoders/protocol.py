"""What every encoder is: rows in, one float32 vector per row out.

An encoder that learns (LSA, a scikit-learn transformer) learns in `fit`, from the train rows, and
is then applied to every split; a pre-trained one has nothing to learn and its `fit` does nothing,
so that all of them are used in the same way: ``encoder.fit(train_rows).encode(dev_rows)``.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from ..errors import AlignmentError, ParameterError, VectorError
from ..inputs import as_float32, as_table
from ..progress import Progress, silent
from .rows import Rows

_MOST_DENSE = 4 << 30  # bytes that sparse vectors may take once they are dense


@runtime_checkable
class Encoder(Protocol):
    """Rows in, vectors out."""

    @property
    def name(self) -> str:
        """What a person calls it: `lsa`, `text:all-MiniLM-L6-v2`."""

    @property
    def identity(self) -> str | None:
        """Everything, besides the row, that decides a vector; `None` if that cannot be known.

        It names the folder of the disk cache, so vectors are never stored for an encoder without
        one.
        """

    @property
    def slow(self) -> bool:
        """Whether a vector costs so much more than reading a file that it is kept on disk."""

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Learn from the train rows; nothing to do for a pre-trained encoder."""

    def prepare(self, rows: Any) -> Rows:
        """Check the rows and return them as this encoder reads them, one entry per row."""

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Return (n_rows, dim) finite float32 vectors, in the order of the rows.

        For no rows at all the result is (0, dim), or (0, 0) where dim is not known beforehand.
        """


class Pretrained:
    """An encoder with nothing to learn, whose vectors are worth keeping."""

    slow = True

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Nothing to learn."""
        return self


def check_positive(who: str, **numbers: int | None) -> None:
    """Refuse counts below 1; None is no count."""
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ParameterError(f"{who} got {name}={value!r}; expected at least 1")


def as_vectors(values: Any, who: str, n_rows: int) -> np.ndarray:
    """Return values as (n_rows, dim) finite float32, or say what is wrong with them."""
    if hasattr(values, "toarray"):  # scipy's sparse matrices and arrays
        if values.shape[0] * values.shape[1] * 4 > _MOST_DENSE:
            raise VectorError(
                f"{who} gave sparse vectors, {values.shape[0]} of length {values.shape[1]}, "
                "too many to make dense; end the pipeline with TruncatedSVD, or use 'lsa'"
            )
        values = values.toarray()
    try:
        raw = np.asarray(values)
        if raw.dtype == object and raw.ndim == 1 and len(raw):
            raw = np.stack([np.asarray(each, dtype=np.float32) for each in raw])
    except (TypeError, ValueError) as error:
        raise VectorError(
            f"{who} gave vectors that do not form a table ({error}); "
            "every row needs one vector of numbers, all of one length"
        ) from error
    if len(raw) != n_rows:
        raise AlignmentError(
            f"{who} has {len(raw)} vectors for {n_rows} rows; expected one vector per row, in order"
        )
    if not n_rows:
        return np.zeros((0, raw.shape[1] if raw.ndim == 2 else 0), dtype=np.float32)
    return as_float32(as_table(raw.astype(np.uint8) if raw.dtype == bool else raw, who), who)
