"""What every encoder is: rows in, one float32 vector per row out.

An encoder that learns (LSA, a scikit-learn transformer) learns in `fit`, from the train rows, and
is then applied to every split; a pre-trained one has nothing to learn and its `fit` does nothing,
so that all of them are used in the same way: ``encoder.fit(train_rows).encode(dev_rows)``.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from ..errors import ParameterError
from ..progress import Progress, silent
from .rows import Rows


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
