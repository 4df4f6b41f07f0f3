"""What all heads share, and targets read once into probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import AlignmentError, LabelError, NotFitted, VectorError
from ..inputs import as_table, check_finite
from ..storage import State, save

if TYPE_CHECKING:  # a base that a type checker knows nothing of would make a head pass for any type
    from ..estimators import Estimator as BaseEstimator

    class ClassifierMixin:
        """A classifier's score: its accuracy."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """The share of rows that are right."""

else:
    from sklearn.base import BaseEstimator, ClassifierMixin


class Head(ABC, ClassifierMixin, BaseEstimator):
    """Whatever learns targets from inputs, and then answers for new inputs: a classifier of scikit-learn."""

    classes_: np.ndarray
    """The classes, in the order of the columns of `predict_proba`."""

    @abstractmethod
    def fit(self, inputs: Any, targets: Any) -> Self:
        """Learn from labels, or from one row of probabilities per row."""

    @abstractmethod
    def predict_proba(self, inputs: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""

    @abstractmethod
    def to_state(self) -> State:
        """Describe the fitted head for `epoxy.storage`."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again."""

    def predict(self, inputs: Any) -> np.ndarray:
        """Return the most probable class of each row; ties go to the class listed first."""
        return np.asarray(self.classes_[self.predict_proba(inputs).argmax(axis=1)])

    def save(self, folder: str | Path) -> None:
        """Write the fitted head to a folder: JSON, arrays and a network's weights, no pickle."""
        save(self, folder)

    def _check_fitted(self) -> None:
        if not hasattr(self, "classes_"):
            raise NotFitted.of(self)


@dataclass(frozen=True, eq=False)
class Targets:
    """What a head learns from: one distribution over the classes per row."""

    probabilities: np.ndarray  # (n_rows, n_classes) float64, rows sum to 1
    classes: np.ndarray  # (n_classes,) the labels themselves

    @classmethod
    def read(cls, targets: Any, *, n_rows: int, classes: Sequence[Any] | None = None) -> Self:
        """Read labels (names, or indices into `classes`) or an (n_rows, K) matrix."""
        given = np.asarray(targets)
        if given.ndim not in (1, 2):
            raise LabelError(
                f"targets are one label per row or rows × classes of probabilities, "
                f"got shape {given.shape}"
            )
        if len(given) != n_rows:
            raise AlignmentError(
                f"a head needs one target per row, got {n_rows} rows and {len(given)} targets"
            )
        if not n_rows:
            raise LabelError("a head cannot learn from no rows; give at least one row per class")
        read = _read_soft if given.ndim == 2 else _read_hard
        return cls(*read(given, None if classes is None else np.asarray(classes)))

    @property
    def present(self) -> np.ndarray:
        """Indices of the classes that carry any weight."""
        return np.flatnonzero(self.probabilities.sum(axis=0) > 0)

    def need_two_classes(self, who: str) -> None:
        """Refuse rows of one class: whatever is learned from them is a constant."""
        if len(self.present) < 2:
            only = self.classes[self.present[0]]
            raise LabelError(
                f"{who} needs rows of at least 2 classes, all {len(self.probabilities)} are "
                f"{str(only)!r}; label a row of another class"
            )


def as_inputs(vectors: Any, who: str, dimension: int | None = None) -> np.ndarray:
    """Vectors as a checked float array; float64 stays, everything else becomes float32."""
    given = as_table(vectors, who)
    if dimension is not None and given.shape[1] != dimension:
        raise VectorError(
            f"{who} was fitted on vectors of dimension {dimension}, got {given.shape[1]}; "
            "use the encoder it was fitted with"
        )
    found = given if given.dtype == np.float64 else given.astype(np.float32)
    check_finite(found, who)
    return found


def _read_soft(given: np.ndarray, classes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    names = np.arange(given.shape[1]) if classes is None else classes
    if len(names) != given.shape[1]:
        raise LabelError(
            f"targets have {given.shape[1]} columns for the {len(names)} classes "
            f"{names.tolist()[:10]}; give one column per class"
        )
    if given.dtype.kind not in "fiub":
        raise LabelError(f"probabilities are numbers, got dtype {given.dtype}")
    shares = given.astype(np.float64)
    right = (shares >= 0).all(axis=1) & (np.abs(shares.sum(axis=1) - 1) <= 1e-3)  # float16 counts
    if not right.all():
        row = int(np.flatnonzero(~right)[0])
        raise LabelError(
            f"targets hold {shares[row].round(4).tolist()} on row {row}; expected probabilities "
            "that sum to 1; leave out the rows without a label"
        )
    return shares / shares.sum(axis=1, keepdims=True), names


def _read_hard(given: np.ndarray, classes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if given.dtype.kind == "f":
        if not np.array_equal(given, np.floor(given)):  # false for NaN too
            raise LabelError("labels are names or whole numbers, got fractions or NaN")
        given = given.astype(np.int64)
    labels, numbers = given.tolist(), given.dtype.kind in "iu"
    for row, label in enumerate(labels):
        if label is None or (numbers and label < 0):
            raise LabelError(
                f"the label of row {row} is {label}, unknown; leave out the rows without a label"
            )
    names = np.unique(given) if classes is None else classes
    if numbers and names.dtype.kind not in "iu":
        index = np.where(given < len(names), given, -1)  # positions
    else:
        place = {name: position for position, name in enumerate(names.tolist())}
        index = np.array([place.get(label, -1) for label in labels], dtype=np.int64)
    if (index < 0).any():
        row = int(np.flatnonzero(index < 0)[0])
        raise LabelError(
            f"the label of row {row} is {labels[row]!r}; expected one of {names.tolist()[:10]}"
        )
    return np.eye(len(names))[index], names
