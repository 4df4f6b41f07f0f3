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
        How many neighbours. Given several, the one whose leave-one-out answer has the smallest
        squared error (Brier score) is taken, the smaller on a tie.
    classes
        All classes, in the order of the columns of `predict_proba`; without it, those that occur.

    Examples
    --------
    >>> import numpy as np
    >>> head = NearestNeighbors(k=1).fit(np.array([[0.0, 1.0], [1.0, 0.0]]), ["ham", "spam"])
    >>> head.predict(np.array([[1.0, 0.1]])).tolist()
    ['spam']
    """

    k_: int
    """The number of neighbours used."""

    def __init__(
        self, k: int | Sequence[int] = 10, *, classes: Sequence[Any] | None = None
    ) -> None:
        self.k = k
        self.classes = classes

    def fit(self, vectors: Any, targets: Any) -> Self:
        """Keep the rows, and choose k where several are given."""
        inputs = as_inputs(vectors, "NearestNeighbors")
        wanted = Targets.read(targets, n_rows=len(inputs), classes=self.classes)
        grid = self._grid(len(inputs))
        self._keep(inputs, wanted.probabilities, wanted.classes)
        self.k_ = grid[0] if len(grid) == 1 else self._choose(grid)
        return self

    def predict_proba(self, vectors: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        self._check_fitted()
        inputs = as_inputs(vectors, "NearestNeighbors", self.n_features_in_)
        if not len(inputs):
            return np.empty((0, len(self.classes_)))
        near = self._index.kneighbors(inputs, self.k_, return_distance=False)
        return np.asarray(self.targets_[near].mean(axis=1))

    def leave_one_out(self) -> np.ndarray:
        """What each fitted row's neighbours say about it, itself left out; (n_rows, n_classes)."""
        self._check_fitted()
        k = min(self.k_, len(self.targets_) - 1)
        return np.asarray(self.targets_[self._others(k)].mean(axis=1))

    def to_state(self) -> State:
        """Describe the fitted head for `epoxy.storage`."""
        self._check_fitted()
        arrays = {"vectors": self.vectors_, "targets": self.targets_}
        return State({"classes": self.classes_.tolist(), "k": self.k_}, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again."""
        values = state.read_values({"classes": [(str, int, float, bool)], "k": int})
        head = cls(k=values["k"], classes=values["classes"])
        classes = np.asarray(values["classes"])
        arrays = state.read_arrays(_STORED, classes=len(classes))
        head._keep(arrays["vectors"], arrays["targets"], classes)
        head.k_ = head._grid(len(head.targets_))[0]
        return head

    def _keep(self, vectors: np.ndarray, targets: np.ndarray, classes: np.ndarray) -> None:
        from sklearn.neighbors import NearestNeighbors as Index

        self.vectors_, self.targets_, self.classes_ = vectors, targets, classes
        self.n_features_in_ = vectors.shape[1]
        self._index = Index(metric="cosine", algorithm="brute").fit(vectors)

    def _grid(self, n_rows: int) -> list[int]:
        several = isinstance(self.k, Sequence)
        given = np.atleast_1d(np.asarray(self.k))
        usual = given.ndim == 1 and given.dtype.kind in "iu"
        grid = sorted(set(given.tolist())) if usual else []
        if not grid or grid[0] < 1:
            raise ParameterError(f"NearestNeighbors got k={self.k!r}; expected at least 1")
        usable = [k for k in grid if k <= n_rows - several]  # leave-one-out has one row less
        if not usable:
            raise ParameterError(
                f"NearestNeighbors got k={self.k!r} for {n_rows} rows; "
                "expected fewer neighbours than rows"
            )
        return usable

    def _others(self, k: int) -> np.ndarray:
        """The k nearest other rows of each fitted row, nearest first."""
        return np.asarray(self._index.kneighbors(None, k, return_distance=False))

    def _choose(self, grid: list[int]) -> int:
        spoken = self.targets_[self._others(grid[-1])].cumsum(axis=1)  # (n_rows, k, n_classes)
        error = [
            float(((spoken[:, k - 1] / k - self.targets_) ** 2).sum(axis=1).mean()) for k in grid
        ]
        return grid[int(np.argmin(error))]
