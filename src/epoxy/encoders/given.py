"""Encoders made of what the user already has: vectors, any function, any scikit-learn transformer.

A function cannot be asked what decides its vectors, so they are stored on disk only under an identity that
the user gives, and changes with it; those of a transformer are not stored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import NotFitted, ParameterError, StoreError
from ..progress import Progress, silent
from .encoder import Plain, Rows, as_vectors, listed


class Precomputed(Plain):
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

    def __init__(self, vectors: Any = None) -> None:
        self.vectors = vectors

    def prepare(self, rows: Any) -> Rows:
        """Return the rows, read from an .npy file where they are one."""
        return _load(rows) if isinstance(rows, (str, Path)) else listed(rows)

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Return the given vectors, one per row."""
        wanted = self.prepare(rows)
        if self.vectors is None:
            given, who = wanted, "the column of vectors"
        elif isinstance(self.vectors, (str, Path)):
            given, who = _load(self.vectors), repr(str(self.vectors))
        else:
            given, who = self.vectors, "the precomputed array"
        progress(len(wanted), max(1, len(wanted)))
        return as_vectors(given, who, len(wanted))

    def __repr__(self) -> str:
        given = self.vectors
        shown = repr(str(given)) if isinstance(given, (str, Path)) else f"<{type(given).__name__}>"
        return f"Precomputed({'' if given is None else shown})"


def _load(path: str | Path) -> np.ndarray:
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        loaded.close()
        problem: object = "it is an archive of several arrays"
    except (OSError, ValueError, EOFError) as error:
        problem = error
    raise StoreError(
        f"{str(path)!r} cannot be read as an array of vectors ({problem}); "
        "save one with numpy.save, shape (n_rows, dim), numbers only"
    )


class _Called(Plain):
    """An encoder that calls what it was given."""

    def __init__(self, what: Any, name: str) -> None:
        self.what = what
        self.name = name

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Call what the user gave and check what comes back."""
        call, wanted = self._call(), self.prepare(rows)
        if not len(wanted):
            return np.zeros((0, 0), dtype=np.float32)
        vectors = as_vectors(call(wanted), f"encoder {self.name!r}", len(wanted))
        progress(len(wanted), len(wanted))
        return vectors

    def _call(self) -> Callable[[Any], Any]:
        return self.what  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Function(_Called):
    """Any function from a list of rows to one vector per row.

    Parameters
    ----------
    function
        Called with all rows at once; or, where the vectors are cached, with up to 1,024 new rows
        at a time, so a row's vector must not depend on the other rows.
    identity
        A name of your own for what the function does, changed whenever it changes. Given one,
        vectors are kept on disk; without, they are computed on every call.

    Examples
    --------
    >>> lengths = Function(lambda rows: [[len(row), 1.0] for row in rows])
    >>> lengths.encode(["a", "three"]).tolist()
    [[1.0, 1.0], [5.0, 1.0]]
    """

    def __init__(self, function: Callable[[Any], Any], *, identity: str | None = None) -> None:
        if not callable(function):
            raise ParameterError(
                f"Function got a {type(function).__name__}; expected a function of a list of rows"
            )
        if identity is not None and not identity:
            raise ParameterError("Function got an empty identity; give it a name, or leave it out")
        super().__init__(function, getattr(function, "__name__", type(function).__name__))
        self.slow = identity is not None  # the user asked for storing by giving one
        self.identity = None if identity is None else f"function {identity}"


class Transformer(_Called):
    """Any scikit-learn transformer or pipeline: fitted on the train rows, applied to all.

    `fit` works on a copy, so the object given stays as it is. One that is fitted already can
    encode at once; to keep its fit in a pipeline that calls `fit`, wrap it in
    `sklearn.frozen.FrozenEstimator`.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> counts = Transformer(CountVectorizer()).fit(["red green", "green"])
    >>> counts.encode(["green green red"]).tolist()
    [[2.0, 1.0]]
    """

    def __init__(self, transformer: Any) -> None:
        if isinstance(transformer, type) or not hasattr(transformer, "transform"):
            raise ParameterError(
                f"Transformer got {transformer!r}; expected an object with fit and transform, "
                "such as CountVectorizer()"
            )
        super().__init__(transformer, type(transformer).__name__)
        self._fitted: Any = None

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Fit a copy of the transformer on the train rows."""
        train = self.prepare(rows)
        if hasattr(self.what, "get_params"):
            from sklearn.base import clone

            self._fitted = clone(self.what).fit(train, None)  # FrozenEstimator insists on y
        else:
            self._fitted = copy.deepcopy(self.what).fit(train)
        progress(1, 1)
        return self

    def _call(self) -> Callable[[Any], Any]:
        if self._fitted is not None:
            return self._fitted.transform  # type: ignore[no-any-return]
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        try:
            check_is_fitted(self.what)
        except (NotFittedError, TypeError) as error:
            raise NotFitted(
                f"encoder {self.name!r} is not fitted yet; "
                "call fit(train_rows) first, then encode every split with it"
            ) from error
        return self.what.transform  # type: ignore[no-any-return]
