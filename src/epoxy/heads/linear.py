"""A linear head: multinomial logistic regression on vectors, from labels or from probabilities.

scikit-learn takes probabilities only as K weighted copies of every row, which costs K times the memory
and, with ten classes, ten times the time. So the same objective is solved here, for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..errors import ParameterError, StoreError
from ..neighbors.workers import single_threaded_blas
from ..storage import Array, State
from .head import Head, Targets, as_inputs


class LinearHead(Head):
    """Logistic regression on vectors.

    Parameters
    ----------
    C
        Inverse strength of the L2 penalty. Given several, the one with the smallest cross-validated
        log loss is taken, the smaller (stronger penalty) on a tie.
    classes
        All classes, in the order of the columns of `predict_proba`; a class without a row then gets
        probability 0. Without it the classes are the labels that occur.
    folds
        Number of folds where C is chosen.
    max_iter
        Most iterations of the solver.
    seed
        Shuffles the folds.

    Examples
    --------
    >>> import numpy as np
    >>> head = LinearHead().fit(np.array([[0.0, 1.0], [1.0, 0.0]]), ["ham", "spam"])
    >>> head.predict(np.array([[1.0, 0.1]])).tolist()
    ['spam']
    """

    C_: float
    """The inverse penalty used."""
    coef_: np.ndarray
    """One row of weights per class that occurred (one row in all for two classes)."""
    intercept_: np.ndarray
    """One per row of `coef_`."""
    present_: np.ndarray
    """Positions in `classes_` of the classes that occurred."""

    def __init__(
        self,
        C: float | Sequence[float] = 1.0,
        *,
        classes: Sequence[Any] | None = None,
        folds: int = 5,
        max_iter: int = 1000,
        seed: int = 0,
    ) -> None:
        self.C = C
        self.classes = classes
        self.folds = folds
        self.max_iter = max_iter
        self.seed = seed

    def fit(self, vectors: Any, targets: Any) -> Self:
        """Learn from labels, or from one row of probabilities per row."""
        inputs = as_inputs(vectors, "LinearHead")
        wanted = Targets.read(targets, n_rows=len(inputs), classes=self.classes)
        wanted.need_two_classes("LinearHead")
        grid = self._grid()
        with single_threaded_blas():  # a second thread costs the many small steps of L-BFGS more
            shares = wanted.probabilities
            self.C_ = grid[0] if len(grid) == 1 else self._choose(inputs, shares, grid)
            self.present_ = wanted.present
            weights = solve(inputs, shares[:, self.present_], self.C_, self.max_iter)
        self.classes_ = wanted.classes
        self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
        self.n_features_in_ = inputs.shape[1]
        return self

    def predict_proba(self, vectors: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        self._check_fitted()
        inputs = as_inputs(vectors, "LinearHead", self.n_features_in_)
        answer = np.zeros((len(inputs), len(self.classes_)))
        weights = np.column_stack([self.coef_, self.intercept_])
        answer[:, self.present_] = np.exp(log_probabilities(inputs, weights))
        return answer

    def to_state(self) -> State:
        """Describe the fitted head for `epoxy.storage`."""
        self._check_fitted()
        arrays = {"coef": self.coef_, "intercept": self.intercept_, "present": self.present_}
        return State({"classes": self.classes_.tolist(), "C": self.C_}, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again."""
        values = state.read_values({"classes": [(str, int, float, bool)], "C": float})
        head = cls(C=values["C"], classes=values["classes"])
        head.C_, head.classes_ = head._grid()[0], np.asarray(values["classes"])
        spec = {
            "present": Array("iu", "present", low=0, high=len(head.classes_) - 1),
            "coef": Array("f", "rows dimension"),
            "intercept": Array("f", "rows"),
        }
        found = state.read_arrays(spec)
        head.coef_, head.intercept_, head.present_ = (
            found[name] for name in ("coef", "intercept", "present")
        )
        n_present = len(np.unique(head.present_))
        whole = len(head.present_) == n_present > 1
        if not whole or len(head.coef_) != (n_present, 1)[n_present == 2]:
            raise StoreError(
                f"its {len(head.coef_)} rows of weights do not fit {n_present} classes; "
                "fit and save the head again"
            )
        head.n_features_in_ = head.coef_.shape[1]
        return head

    def _grid(self) -> list[float]:
        given = np.atleast_1d(np.asarray(self.C))
        usual = given.ndim == 1 and given.dtype.kind in "iuf"
        grid = sorted(float(each) for each in given) if usual else []
        if not grid or not all(0 < each < np.inf for each in grid):
            raise ParameterError(f"LinearHead got C={self.C!r}; expected positive numbers")
        return grid

    def _choose(self, inputs: np.ndarray, shares: np.ndarray, grid: list[float]) -> float:
        """The C of the smallest held-out log loss; every fold gets its part of each class."""
        if self.folds < 2:
            raise ParameterError(f"LinearHead got folds={self.folds}; expected at least 2")
        fold = folds_of(shares.argmax(axis=1), self.folds, self.seed)
        loss = np.zeros(len(grid))
        for held in np.equal.outer(np.unique(fold), fold):
            present = np.flatnonzero(shares[~held].any(axis=0))
            if len(present) < 2:
                continue
            for at, C in enumerate(grid):
                weights = solve(inputs[~held], shares[~held][:, present], C, self.max_iter)
                said = np.full((held.sum(), shares.shape[1]), np.log(1e-6))
                said[:, present] = log_probabilities(inputs[held], weights).clip(np.log(1e-6))
                loss[at] -= (shares[held] * said).sum()
        return grid[int(loss.argmin())]


def folds_of(labels: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of each row, so that every fold gets its part of each class; (n_rows,)."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    found = np.empty(len(labels), dtype=np.intp)
    found[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(labels)) % folds
    return found


def log_probabilities(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of each class; weights are one row per class, the intercept last (one row for two classes)."""
    from scipy.special import log_softmax

    logits = inputs @ weights[:, :-1].T.astype(inputs.dtype) + weights[:, -1]
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    return np.asarray(log_softmax(logits.astype(np.float64), axis=1))


def solve(inputs: np.ndarray, wanted: np.ndarray, C: float, max_iter: int) -> np.ndarray:
    """Minimise C Σ_i CE(wanted_i, p_i) + ½‖W‖², the intercept free, by L-BFGS.

    Two classes have one weight vector, as in scikit-learn: with two, the same C would penalise half
    as much.
    """
    from scipy.optimize import minimize

    n_rows, dimension = inputs.shape
    width = 1 if wanted.shape[1] == 2 else wanted.shape[1]
    penalty = 1 / (C * n_rows)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        table = flat.reshape(width, dimension + 1)
        said = log_probabilities(inputs, table)
        slope = (np.exp(said) - wanted)[:, -width:] / n_rows
        gradient = np.empty_like(table)
        gradient[:, :-1] = (slope.T.astype(inputs.dtype) @ inputs) + penalty * table[:, :-1]
        gradient[:, -1] = slope.sum(axis=0)
        loss = 0.5 * penalty * (table[:, :-1] ** 2).sum() - (wanted * said).sum() / n_rows
        return float(loss), gradient.ravel()

    # the tolerance is scikit-learn's default, on the same scale: the mean loss of a row
    options = {"maxiter": max_iter, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
    start = np.zeros(width * (dimension + 1))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x.reshape(width, dimension + 1))
