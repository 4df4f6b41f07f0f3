"""Encoders made of what the user already has: any function, any scikit-learn transformer.

Neither can be asked what decides its vectors (a function's globals, a pipeline's lambdas), so they
are stored on disk only under an identity the user gives, and the user changes it with the
function. A hash of the source was rejected: it misses the weights the function closes over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..errors import NotFitted, ParameterError
from ..progress import Progress, silent
from .rows import Rows, fingerprint, listed
from .vectors import as_vectors


class _Named:
    """An encoder that is stored under the name the user gives it, if any."""

    def __init__(self, name: str, identity: str | None) -> None:
        if identity is not None and not identity:
            raise ParameterError(
                f"{type(self).__name__} got an empty identity; give it a name, or leave it out"
            )
        self.name = name
        self._identity = identity

    @property
    def slow(self) -> bool:
        """True once there is an identity: the user asked for storing by giving it."""
        return self._identity is not None

    def prepare(self, rows: Any) -> Rows:
        """Return the rows as a sequence."""
        return listed(rows)

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Call what the user gave and check what comes back."""
        call, wanted = self._call(), self.prepare(rows)
        if not len(wanted):
            return np.zeros((0, 0), dtype=np.float32)
        vectors = as_vectors(call(wanted), f"encoder {self.name!r}", len(wanted))
        progress(len(wanted), len(wanted))
        return vectors

    def _call(self) -> Callable[[Any], Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, identity={self._identity!r})"


class Function(_Named):
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
        super().__init__(getattr(function, "__name__", type(function).__name__), identity)
        self.function = function

    @property
    def identity(self) -> str | None:
        """What the user called it, if anything."""
        return None if self._identity is None else f"function {self._identity}"

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Nothing to learn."""
        return self

    def _call(self) -> Callable[[Any], Any]:
        return self.function


class Transformer(_Named):
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

    def __init__(self, transformer: Any, *, identity: str | None = None) -> None:
        if isinstance(transformer, type) or not hasattr(transformer, "transform"):
            raise ParameterError(
                f"Transformer got {transformer!r}; expected an object with fit and transform, "
                "such as CountVectorizer()"
            )
        super().__init__(type(transformer).__name__, identity)
        self.transformer = transformer
        self._fitted: Any = None
        self._fitted_on = "as given"

    @property
    def identity(self) -> str | None:
        """What the user called it, and the rows it was fitted on."""
        if self._identity is None:
            return None
        return f"transformer {self._identity} rows={self._fitted_on}"

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Fit a copy of the transformer on the train rows."""
        train = self.prepare(rows)
        self._fitted = _fit_copy(self.transformer, train)
        if self._identity is not None:
            self._fitted_on = fingerprint(train)
        progress(1, 1)
        return self

    def _call(self) -> Callable[[Any], Any]:
        fitted = self._given() if self._fitted is None else self._fitted
        return fitted.transform  # type: ignore[no-any-return]

    def _given(self) -> Any:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        try:
            check_is_fitted(self.transformer)
        except (NotFittedError, TypeError) as error:
            raise NotFitted(
                f"encoder {self.name!r} is not fitted yet; "
                "call fit(train_rows) first, then encode every split with it"
            ) from error
        return self.transformer


def _fit_copy(transformer: Any, rows: Rows) -> Any:
    if not hasattr(transformer, "get_params"):
        return copy.deepcopy(transformer).fit(rows)
    from sklearn.base import clone

    return clone(transformer).fit(rows, None)  # some, like FrozenEstimator, insist on y
