"""A nearest-neighbour head: the mean target of the k nearest rows under cosine distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..errors import ParameterError
from ..inputs import LARGEST
from ..storage import Array, State
from .head import Head, Targets, as_inputs

_STORED = {
    "vectors": Array("f", "rows dimension", low=-LARGEST, high=LARGEST),
    "targets": Array("f", "rows classes", low=0, high=1, shares=1),
}


class NearestNeighbors(Head):
    """Each of the k nearest rows speaks with equal weight; its target may be a distribution.

    Parameters
    ----------
    k
        How many neighbours.
    classes
        All classes, in the order of the columns of `predict_proba`; without it, those that occur.

    Examples
    --------
    >>> import numpy as np
    >>> head = NearestNeighbors(k=1).fit(np.array([[0.0, 1.0], [1.0, 0.0]]), ["ham", "spam"])
    >>> head.predict(np.array([[1.0, 0.1]])).tolist()
    ['spam']
    """

    def __init__(self, k: int = 10, *, classes: Sequence[Any] | None = None) -> None:
        self.k = k
        self.classes = classes

    def fit(self, vectors: Any, targets: Any) -> Self:
        """Keep the rows."""
        inputs = as_inputs(vectors, "NearestNeighbors")
        wanted = Targets.read(targets, n_rows=len(inputs), classes=self.classes)
        return self._keep(inputs, wanted.probabilities, wanted.classes)

    def predict_proba(self, vectors: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        self._check_fitted()
        inputs = as_inputs(vectors, "NearestNeighbors", self.n_features_in_)
        if not len(inputs):
            return np.empty((0, len(self.classes_)))
        return np.asarray(self._index.predict(inputs))

    def to_state(self) -> State:
        """Describe the fitted head for `epoxy.storage`."""
        self._check_fitted()
        arrays = {"vectors": self.vectors_, "targets": self.targets_}
        return State({"classes": self.classes_.tolist(), "k": self.k}, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again."""
        values = state.read_values({"classes": [(str, int, float, bool)], "k": int})
        head = cls(k=values["k"], classes=values["classes"])
        classes = np.asarray(values["classes"])
        arrays = state.read_arrays(_STORED, classes=len(classes))
        return head._keep(arrays["vectors"], arrays["targets"], classes)

    def _keep(self, vectors: np.ndarray, targets: np.ndarray, classes: np.ndarray) -> Self:
        from sklearn.neighbors import KNeighborsRegressor

        whole = isinstance(self.k, int | np.integer) and not isinstance(self.k, bool)
        if not whole or not 1 <= self.k <= len(vectors):
            raise ParameterError(
                f"NearestNeighbors got k={self.k!r} for {len(vectors)} rows; expected a whole number "
                "from 1 to as many as there are rows"
            )
        self.vectors_, self.targets_, self.classes_ = vectors, targets, classes
        self.n_features_in_ = vectors.shape[1]
        self._index = KNeighborsRegressor(self.k, metric="cosine", algorithm="brute")
        self._index.fit(vectors, targets)
        return self
