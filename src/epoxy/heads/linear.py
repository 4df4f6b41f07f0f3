"""A linear head: multinomial logistic regression on vectors, from labels or from probabilities.

Labels go to scikit-learn unchanged. Probabilities go to a solver of the same objective, because
scikit-learn takes them only as K weighted copies of every row, which costs K times the memory; with
one-hot probabilities both give the same head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..errors import ParameterError, StoreError
from ..neighbors.workers import single_threaded_blas
from ..numerics import softmax
from ..persistence import State
from ..schema import Array
from .base import Estimator, Targets, as_inputs

_GRADIENT_TOLERANCE = 1e-4  # scikit-learn's default `tol`, on the same scale (mean loss per row)


class LinearHead(Estimator):
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
        self.C_ = grid[0] if len(grid) == 1 else self._choose(inputs, wanted, grid)
        weights = _solve(inputs, wanted, self.C_, self.max_iter)
        self.classes_ = wanted.classes
        self.present_ = wanted.present
        self.coef_, self.intercept_ = weights.coef, weights.intercept
        self.n_features_in_ = inputs.shape[1]
        return self

    def predict_proba(self, vectors: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        self._check_fitted()
        inputs = as_inputs(vectors, "LinearHead", self.n_features_in_)
        weights = _Weights(self.coef_, self.intercept_)
        return weights.probabilities(inputs, self.present_, len(self.classes_))

    def to_state(self) -> State:
        """Describe the fitted head for `epoxy.persistence`."""
        self._check_fitted()
        arrays = {"coef": self.coef_, "intercept": self.intercept_, "present": self.present_}
        return State({"classes": self.classes_.tolist(), "C": self.C_}, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again."""
        values = state.read_values({"classes": [(str, int, float, bool)], "C": float})
        head = cls(C=values["C"], classes=values["classes"])
        head.C_, head.classes_ = head._grid()[0], np.asarray(values["classes"])
        known = len(head.classes_)
        spec = {
            "present": Array("iu", "present", low=0, high=known - 1),
            "coef": Array("f", "rows dimension"),
            "intercept": Array("f", "rows"),
        }
        arrays = state.read_arrays(spec)
        head.coef_, head.intercept_, head.present_ = (
            arrays[name] for name in ("coef", "intercept", "present")
        )
        n_present = len(np.unique(head.present_))
        if len(head.present_) != n_present or len(head.coef_) != (n_present, 1)[n_present == 2]:
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

    def _choose(self, inputs: np.ndarray, targets: Targets, grid: list[float]) -> float:
        """The C of the smallest held-out log loss."""
        if self.folds < 2:
            raise ParameterError(f"LinearHead got folds={self.folds}; expected at least 2")
        loss = np.zeros(len(grid))
        for held in _folds(targets, self.folds, self.seed):
            rest = _part(targets, ~held)
            if len(rest.present) < 2:
                continue
            for index, C in enumerate(grid):
                weights = _solve(inputs[~held], rest, C, self.max_iter)
                answer = weights.probabilities(inputs[held], rest.present, len(targets.classes))
                loss[index] -= (targets.probabilities[held] * np.log(answer.clip(1e-6))).sum()
        return grid[int(loss.argmin())]


@dataclass(frozen=True, eq=False)
class _Weights:
    coef: np.ndarray  # (1, d) for two classes, else (n_present, d)
    intercept: np.ndarray

    def probabilities(self, inputs: np.ndarray, present: np.ndarray, n_classes: int) -> np.ndarray:
        logits = inputs @ self.coef.T.astype(inputs.dtype) + self.intercept
        if logits.shape[1] == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        answer = np.zeros((len(inputs), n_classes))
        answer[:, present] = softmax(logits.astype(np.float64))
        return answer


def _solve(inputs: np.ndarray, targets: Targets, C: float, max_iter: int) -> _Weights:
    """The weights; by one thread, because a second one costs the many small steps of L-BFGS more."""
    present = targets.present
    with single_threaded_blas():
        if targets.hard is None:
            return _solve_soft(inputs, targets.probabilities[:, present], C, max_iter)
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=C, max_iter=max_iter).fit(inputs, targets.hard)
        return _Weights(np.asarray(model.coef_), np.asarray(model.intercept_))


def _solve_soft(inputs: np.ndarray, wanted: np.ndarray, C: float, max_iter: int) -> _Weights:
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
        logits = inputs @ table[:, :-1].T.astype(inputs.dtype) + table[:, -1]
        if width == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        log_answer = _log_softmax(logits)
        answer = np.exp(log_answer)
        slope = (answer - wanted)[:, -width:] / n_rows  # (n_rows, width)
        gradient = np.empty_like(table)
        gradient[:, :-1] = (slope.T.astype(inputs.dtype) @ inputs) + penalty * table[:, :-1]
        gradient[:, -1] = slope.sum(axis=0)
        loss = -(wanted * log_answer).sum() / n_rows
        loss += 0.5 * penalty * float((table[:, :-1] ** 2).sum())
        return float(loss), gradient.ravel()

    start = np.zeros(width * (dimension + 1))
    options = {"maxiter": max_iter, "gtol": _GRADIENT_TOLERANCE, "ftol": 64 * np.finfo(float).eps}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    table = found.x.reshape(width, dimension + 1)
    return _Weights(table[:, :-1].copy(), table[:, -1].copy())


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)))


def _folds(targets: Targets, count: int, seed: int) -> list[np.ndarray]:
    """Held-out masks; every class is dealt out evenly, so that a rare one is rarely missing."""
    likely = targets.probabilities.argmax(axis=1)
    shuffled = np.random.default_rng(seed).permutation(len(targets))
    dealt = shuffled[np.argsort(likely[shuffled], kind="stable")]
    fold = np.empty(len(targets), dtype=np.int64)
    fold[dealt] = np.arange(len(targets)) % min(count, len(targets))
    return [fold == each for each in range(min(count, len(targets)))]


def _part(targets: Targets, keep: np.ndarray) -> Targets:
    hard = None if targets.hard is None else targets.hard[keep]
    return Targets(targets.probabilities[keep], targets.classes, hard)
