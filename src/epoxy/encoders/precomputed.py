"""Vectors somebody already has: an array, an .npy file, or a column of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StoreError
from ..progress import Progress, silent
from .protocol import Pretrained
from .rows import Rows, listed
from .vectors import as_vectors


class Precomputed(Pretrained):
    """Vectors that are given, checked for alignment and finiteness.

    Parameters
    ----------
    vectors
        An array of shape (n_rows, dim) or the path of an .npy file that holds one, in the order of
        the rows that `encode` will be given. Left out, the rows are themselves the vectors: an
        array, a column of vectors, or the path of an .npy file, one for each split.

    Examples
    --------
    >>> Precomputed([[1.0, 0.0], [0.0, 2.0]]).encode(["first row", "second row"]).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    >>> Precomputed().encode([[3.0, 4.0]]).tolist()
    [[3.0, 4.0]]
    """

    name = "precomputed"
    identity = None  # what is given is not stored again
    slow = False

    def __init__(self, vectors: Any = None) -> None:
        self.vectors = vectors

    def prepare(self, rows: Any) -> Rows:
        """Return the rows, read from an .npy file where they are one."""
        return _load(rows) if isinstance(rows, (str, Path)) else listed(rows)

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Return the given vectors, one per row."""
        wanted = self.prepare(rows)
        if self.vectors is None:
            vectors = as_vectors(wanted, "the column of vectors", len(wanted))
        elif isinstance(self.vectors, (str, Path)):
            vectors = as_vectors(_load(self.vectors), f"{str(self.vectors)!r}", len(wanted))
        else:
            vectors = as_vectors(self.vectors, "the precomputed array", len(wanted))
        progress(len(wanted), max(1, len(wanted)))
        return vectors

    def __repr__(self) -> str:
        given = self.vectors
        shown = repr(str(given)) if isinstance(given, (str, Path)) else f"<{type(given).__name__}>"
        return f"Precomputed({'' if given is None else shown})"


def _load(path: str | Path) -> np.ndarray:
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(
            f"{str(path)!r} cannot be read as an array of vectors ({error}); "
            "save one with numpy.save, shape (n_rows, dim), numbers only"
        ) from error
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise StoreError(
            f"{str(path)!r} is an archive of several arrays; "
            "save the one array of vectors with numpy.save"
        )
    return loaded
