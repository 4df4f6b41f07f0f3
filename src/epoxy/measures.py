"""What a search maximises: a score of probabilities, its resamples, and how sure a difference is.

Dev sets are small, so every score comes with its bootstrap: the same B weightings of the dev rows for
all settings compared, which makes differences paired. For accuracy, F1 and log loss all B scores are
one matrix product; other scikit-learn metrics are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .errors import LabelError, UnknownName

__all__ = ["Measure", "measure_named"]

Metric = str | Callable[[np.ndarray, np.ndarray], float]
"""`accuracy`, `f1`, `log_loss`, a scikit-learn scorer's name, or a function of (y, probabilities)."""


@dataclass(frozen=True, eq=False)
class Measure:
    """One metric on one set of true labels; larger is better."""

    name: str
    y: np.ndarray  # (n_rows,) class indices
    positive: int | None = None
    custom: Callable[[np.ndarray, np.ndarray], float] | None = None
    seed: int = 0
    resamples: int = 200
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def weights(self) -> np.ndarray:
        """How often each row is drawn in each resample; (n_rows, resamples)."""
        rng = np.random.default_rng(self.seed)
        n, count = len(self.y), self.resamples if self.custom is None else min(50, self.resamples)
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=count)
        return np.ascontiguousarray(drawn.T, dtype=np.float64)

    def parts(self, proba: np.ndarray) -> np.ndarray:
        """What the score is a function of, row by row; (n_parts, n_rows)."""
        if self.name == "accuracy":
            return np.asarray([proba.argmax(axis=1) == self.y], dtype=float)
        if self.name == "log_loss":
            said = proba[np.arange(len(self.y)), self.y]
            return np.asarray([np.log(np.maximum(said, 1e-15))])
        guess, truth = proba.argmax(axis=1) == self.positive, self.y == self.positive
        return np.stack([guess & truth, guess, truth]).astype(float)

    def of_parts(self, parts: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The score under each weighting of the rows; parts (…, n_parts, n_rows) → (…, n_weightings)."""
        # one flat product: numpy multiplies stacks of small matrices without BLAS
        flat = parts.reshape(-1, parts.shape[-1]) @ weights
        sums = flat.reshape(*parts.shape[:-1], weights.shape[1])
        if self.name == "f1":
            return np.asarray(
                2 * sums[..., 0, :] / np.maximum(sums[..., 1, :] + sums[..., 2, :], 1)
            )
        return np.asarray(sums[..., 0, :] / np.maximum(weights.sum(axis=0), 1))

    def score(self, proba: np.ndarray) -> float:
        """The score itself."""
        if self.custom is not None:
            return float(self.custom(self.y, proba))
        return float(self.of_parts(self.parts(proba), np.ones((len(self.y), 1)))[0])

    def scores(self, proba: np.ndarray) -> np.ndarray:
        """The score in every resample; (resamples,)."""
        if self.custom is None:
            return self.of_parts(self.parts(proba), self.weights)
        found = []
        for draw in self.weights.T:
            rows = np.repeat(np.arange(len(self.y)), draw.astype(int))
            found.append(self._custom_on(rows, proba))
        return np.array(found)

    def _custom_on(self, rows: np.ndarray, proba: np.ndarray) -> float:
        assert self.custom is not None
        if len(np.unique(self.y[rows])) < 2:  # most metrics are not defined on one class
            return self.score(proba)
        return float(self.custom(self.y[rows], proba[rows]))

    def after_choosing(self, probas: Sequence[np.ndarray]) -> tuple[float, float]:
        """What choosing the best of these settings really gives: mean and spread, on rows not drawn.

        In every resample the best setting is chosen on the rows drawn and scored on the rest, which
        takes out the optimism of having looked at many settings on few rows.
        """
        if self.custom is not None:
            spread = float(self.scores(probas[-1]).std())
            return self.score(probas[-1]), spread
        parts = np.stack([self.parts(proba) for proba in probas])
        drawn = self.of_parts(parts, self.weights)
        left = (self.weights == 0).astype(float)
        rest = self.of_parts(parts, left)
        best = drawn.argmax(axis=0)
        chosen = rest[best, np.arange(rest.shape[1])]
        return float(chosen.mean()), float(chosen.std())


def measure_named(
    metric: Metric,
    y: np.ndarray,
    classes: Sequence[str],
    *,
    positive: str | None = None,
    seed: int = 0,
) -> Measure:
    """Make a measure from what the user wrote, on rows whose truth is known."""
    if not len(y):
        raise LabelError("tuning needs true labels, and the dev split has none; give it y")
    which = _positive(positive, classes)
    if callable(metric):
        return Measure(getattr(metric, "__name__", "custom"), y, which, metric, seed)
    if metric in ("accuracy", "log_loss", "f1"):
        return Measure(metric, y, which, None, seed)
    return Measure(metric, y, which, _from_sklearn(metric, which, len(classes)), seed)


def _positive(positive: str | None, classes: Sequence[str]) -> int | None:
    if positive is None:
        return len(classes) - 1 if len(classes) == 2 else 0
    if positive not in classes:
        raise UnknownName.of("class", positive, classes)
    return list(classes).index(positive)


class _Answers:
    """What scikit-learn's scorers want to see: a fitted classifier with known answers."""

    _estimator_type = "classifier"

    def __init__(self, proba: np.ndarray, classes: np.ndarray) -> None:
        self.proba, self.classes_ = proba, classes

    def predict_proba(self, rows: Any) -> np.ndarray:
        return self.proba

    def predict(self, rows: Any) -> np.ndarray:
        return np.asarray(self.classes_[self.proba.argmax(axis=1)])

    def fit(self, rows: Any, y: Any) -> _Answers:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            regressor_tags=None,
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )


def _from_sklearn(
    name: str, positive: int | None, n_classes: int
) -> Callable[[np.ndarray, np.ndarray], float]:
    from sklearn.metrics import get_scorer, get_scorer_names

    if name not in get_scorer_names():
        known = ["accuracy", "f1", "log_loss", *get_scorer_names()]
        raise UnknownName.of("metric", name, known)
    scorer = get_scorer(name)

    def score(y: np.ndarray, proba: np.ndarray) -> float:
        if n_classes == 2 and positive == 0:  # scikit-learn's positive class is the second
            y, proba = 1 - y, proba[:, ::-1]
        return float(scorer(_Answers(proba, np.arange(n_classes)), np.zeros((len(y), 1)), y))

    return score
