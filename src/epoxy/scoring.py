"""How good probabilities are, by name: the scores that are shown, and those that settings are chosen by.

`SHOWN` is the one registry: reports, `epoxy label`, comparisons and changes show what it says, and `tune`
can choose by each of them.
Dev sets are small, so every score comes with its bootstrap: the same B weightings of the dev rows for
all settings compared, which makes differences paired. For accuracy, log loss, precision, recall and F1
all B scores are one matrix product; other scikit-learn scores are computed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from .errors import LabelError, UnknownName
from .votes import ABSTAIN

Scoring = str | Callable[[np.ndarray, np.ndarray], float]
"""`accuracy`, `f1`, `log_loss`, a scikit-learn scorer's name, or a function of (y, probabilities)."""

_TINY = 1e-12

SUMS = {
    "accuracy": "accuracy",
    "log_loss": "log_loss",
    "neg_log_loss": "log_loss",
    **{each: each for each in ("f1", "precision", "recall")},
    **{f"{each}_macro": each for each in ("f1", "precision", "recall")},
}
"""Scores that are made of sums over rows, and what they are made of."""

ONE_BY_ONE = (
    *("balanced_accuracy", "average_precision", "roc_auc", "roc_auc_ovr", "roc_auc_ovo"),
    *("roc_auc_ovr_weighted", "roc_auc_ovo_weighted", "matthews_corrcoef", "neg_brier_score"),
    *("f1_micro", "f1_weighted", "precision_micro", "precision_weighted", "recall_micro"),
    *("recall_weighted", "jaccard", "jaccard_macro", "jaccard_micro", "jaccard_weighted"),
    "d2_log_loss_score",
)
"""scikit-learn's other scorers of labels and probabilities."""

OF_ONE = ("f1", "precision", "recall", "jaccard", "average_precision", "roc_auc")
"""Scores that say nothing where no row is of the class they are of."""


@dataclass(frozen=True, eq=False)
class Score:
    """One score on one set of true labels; larger is better."""

    name: str
    y: np.ndarray  # (n_rows,) class indices
    which: tuple[int, ...]  # the classes of precision, recall and F1
    custom: Callable[[np.ndarray, np.ndarray], float] | None = None
    seed: int = 0
    resamples: int = 200

    @cached_property
    def weights(self) -> np.ndarray:
        """How often each row is drawn in each resample; (n_rows, resamples)."""
        rng = np.random.default_rng(self.seed)
        n, count = len(self.y), self.resamples if self.custom is None else min(50, self.resamples)
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=count)
        return np.ascontiguousarray(drawn.T, dtype=np.float64)

    def parts(self, proba: np.ndarray) -> np.ndarray:
        """What the score is a function of, row by row; (n_parts, n_rows)."""
        made_of = SUMS[self.name]
        if made_of == "accuracy":
            return np.asarray([proba.argmax(axis=1) == self.y], dtype=float)
        if made_of == "log_loss":
            said = proba[np.arange(len(self.y)), self.y]
            return np.asarray([np.log(np.maximum(said, 1e-15))])
        guess, truth = (np.equal.outer(self.which, at) for at in (proba.argmax(axis=1), self.y))
        return np.concatenate([guess & truth, guess, truth]).astype(float)

    def of_parts(self, parts: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The score under each weighting of the rows; parts (…, n_parts, n_rows) → (…, n_weightings)."""
        # one flat product: numpy multiplies stacks of small matrices without BLAS
        flat = parts.reshape(-1, parts.shape[-1]) @ weights
        sums = flat.reshape(*parts.shape[:-1], weights.shape[1])
        made_of = SUMS[self.name]
        if made_of in ("accuracy", "log_loss"):
            return np.asarray(sums[..., 0, :] / np.maximum(weights.sum(axis=0), 1))
        both, said, real = np.split(sums, 3, axis=-2)  # each (…, len(which), n_weightings)
        at = ("precision", "recall", "f1").index(made_of)
        there = said + real > 0  # a class that no row shows or is given tells nothing
        return np.asarray(
            ratios(both, said, real)[at].sum(axis=-2) / np.maximum(there.sum(axis=-2), 1)
        )

    def told(self, weights: np.ndarray) -> np.ndarray:
        """Which weightings tell the score at all: those with a row, of its class if it is of one."""
        one = self.custom is None and self.name in OF_ONE and len(self.which) == 1
        rows = self.y == self.which[0] if one else slice(None)
        return np.asarray(weights[rows].any(axis=0))

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
        if len(np.unique(self.y[rows])) < 2:  # most scores are not defined on one class
            return self.score(proba)
        return float(self.custom(self.y[rows], proba[rows]))

    def after_choosing(self, probas: Sequence[np.ndarray]) -> tuple[float, float]:
        """What choosing the best of these settings really gives: mean and spread, on rows not drawn.

        In every resample the best setting is chosen on the rows drawn and scored on the rest, which
        takes out the optimism of having looked at many settings on few rows. A resample that draws
        every row leaves none to score on and is not counted, nor is one that draws or leaves no row of
        the class that the score is of; NaN where all are such, as with one row.
        """
        if self.custom is not None:
            spread = float(self.scores(probas[-1]).std())
            return self.score(probas[-1]), spread
        parts = np.stack([self.parts(proba) for proba in probas])
        drawn = self.of_parts(parts, self.weights)
        left = (self.weights == 0).astype(float)
        rest = self.of_parts(parts, left)
        best = drawn.argmax(axis=0)
        told = self.told(self.weights) & self.told(left)
        chosen = rest[best, np.arange(rest.shape[1])][told]
        if not len(chosen):
            return float("nan"), float("nan")
        return float(chosen.mean()), float(chosen.std())


def score_named(
    scoring: Scoring,
    y: np.ndarray,
    classes: Sequence[str],
    *,
    positive: str | None = None,
    seed: int = 0,
) -> Score:
    """Make a score from what the user wrote, on rows whose truth is known."""
    if not len(y):
        raise LabelError("tuning needs true labels, and the dev split has none; give it y")
    one = positive_index(positive, classes)
    which = tuple(range(len(classes))) if one is None else (one,)
    if callable(scoring):
        return Score(getattr(scoring, "__name__", "custom"), y, which, scoring, seed)
    measure = SHOWN.get(scoring, Measure(lambda it: 0.0, better=0))
    if not (measure.better or scoring in (*SUMS, *ONE_BY_ONE)):
        known = [*SUMS, *ONE_BY_ONE, *(name for name, each in SHOWN.items() if each.better)]
        raise UnknownName.of("scoring", scoring, dict.fromkeys(known))
    if one is not None and scoring in OF_ONE and not (y == one).any():
        raise LabelError(
            f"tuning by {scoring} needs rows that are {classes[one]!r}, and none of the {len(y)} it may "
            "choose by is; label more rows drawn at random, or choose by accuracy"
        )
    if scoring in SUMS:
        every = tuple(range(len(classes))) if scoring.endswith("_macro") else which
        return Score(scoring, y, every, None, seed)
    if measure.better:
        return Score(scoring, y, which, partial(_of_shown, measure, one), seed)
    return Score(scoring, y, which, _from_sklearn(scoring, one, len(classes)), seed)


def _of_shown(measure: Measure, one: int | None, y: np.ndarray, proba: np.ndarray) -> float:
    return measure.better * measure.of(Scored(proba, y, one))


def positive_index(positive: str | None, classes: Sequence[str]) -> int | None:
    """The class that precision, recall and F1 are of: the one named, or else the second of two.

    None for more classes with none named: scores are then the mean over all of them, and what needs
    one class (a threshold) must ask for it.
    """
    if positive is None:
        return 1 if len(classes) == 2 else None
    if positive not in classes:
        raise UnknownName.of("class", positive, classes)
    return list(classes).index(positive)


def precision_recall_f1(
    guess: np.ndarray, truth: np.ndarray, positive: int | None, n_classes: int
) -> tuple[float, float, float]:
    """Precision, recall and F1 of class indices: of `positive`, or the mean over classes.

    As in scikit-learn, that is over the classes that some row is of or is called.
    """
    counts = []
    for at in range(n_classes) if positive is None else (positive,):
        guessed, true = guess == at, truth == at
        counts.append([np.count_nonzero(each) for each in (guessed & true, guessed, true)])
    both, said, real = np.array(counts).T
    there = max(1, int(np.count_nonzero(said + real)))
    precision, recall, f1 = (float(each.sum()) / there for each in ratios(both, said, real))
    return precision, recall, f1


def ratios(both: Any, said: Any, real: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1 of counts (or sums of weights); 0 where nothing is counted.

    `both` are the rows rightly called positive, of those `said` to be and those that are (`real`).
    """
    pairs = (both, said), (both, real), (2 * both, said + real)
    precision, recall, f1 = (np.asarray(up / np.maximum(down, _TINY)) for up, down in pairs)
    return precision, recall, f1


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows whose truth is known, and what was said of them."""

    proba: np.ndarray  # (n_rows, n_classes)
    truth: np.ndarray  # (n_rows,) class indices
    positive: int | None  # the class of precision, recall and F1; None: the mean over all
    decided: np.ndarray | None = (
        None  # (n_rows,) where a model does not name the most probable class
    )

    @cached_property
    def guess(self) -> np.ndarray:
        """The most probable class."""
        if self.proba.shape[1] == 2:  # many times as fast as argmax over pairs, and the same
            return np.asarray((self.proba[:, 1] > self.proba[:, 0]) * 1)
        return np.asarray(self.proba.argmax(axis=1))

    @property
    def named(self) -> np.ndarray:
        """The class that is answered."""
        return self.guess if self.decided is None else self.decided

    @cached_property
    def of_class(self) -> tuple[float, float, float]:
        """Precision, recall and F1; NaN where no row is of the class they are of."""
        n_classes = self.proba.shape[1]
        found = precision_recall_f1(self.named, self.truth, self.positive, n_classes)
        if self.positive is None or np.count_nonzero(self.truth == self.positive):
            return found
        said = np.count_nonzero(self.named == self.positive)
        return found[0] if said else math.nan, math.nan, math.nan

    def log_loss(self) -> float:
        """The mean of minus the logarithm of what the true class was given."""
        said = np.maximum(self.proba[np.arange(len(self.truth)), self.truth], 1e-15)
        return -float(np.log(said).sum()) / len(self.truth)

    def calibration_error(self, bins: int = 15) -> float:
        """Mean distance between how sure and how right, over equally wide bins, weighted by rows."""
        sure = self.proba[np.arange(len(self.truth)), self.guess]
        at = np.minimum((sure * bins).astype(np.intp), bins - 1)
        gap = np.bincount(at, (self.guess == self.truth) - sure, bins)
        return float(np.abs(gap).sum() / len(sure))


@dataclass(frozen=True)
class Measure:
    """A score that is shown: how it is made, and where it stands."""

    of: Callable[[Scored], float]
    places: tuple[str, ...] = ()
    """`table`: where models stand side by side; `line`: after an edit; `label`: what `epoxy label` says."""
    better: int = 1
    """1: larger is better, −1: smaller is, 0: it is no score."""


SHOWN: dict[str, Measure] = {
    "rows": Measure(lambda it: len(it.truth), ("table",), 0),
    "accuracy": Measure(
        lambda it: np.count_nonzero(it.named == it.truth) / len(it.truth),
        ("table", "line", "label"),
    ),
    "precision": Measure(lambda it: it.of_class[0]),
    "recall": Measure(lambda it: it.of_class[1]),
    "f1": Measure(lambda it: it.of_class[2], ("table", "line", "label")),
    "log_loss": Measure(Scored.log_loss, ("table",), -1),
    "calibration_error": Measure(Scored.calibration_error, ("table", "label"), -1),
}
"""The scores of reports, `epoxy label`, changes and the studio, in the order in which they are shown."""


def shown_at(place: str) -> list[str]:
    """The names of the scores that stand at a place."""
    return [name for name, measure in SHOWN.items() if place in measure.places]


def scores(
    proba: np.ndarray,
    y: np.ndarray | None,
    classes: Sequence[str],
    *,
    positive: str | None = None,
    decided: np.ndarray | None = None,
) -> dict[str, float]:
    """Accuracy, precision, recall, F1, log loss and calibration error on the rows with truth.

    Precision, recall and F1 are those of `positive` (for two classes the second one unless told
    otherwise), and the mean over classes when there are more; NaN where no row that counts is of that
    class, since nobody can say how many would have been found. `decided` are class indices where a
    model does not name the most probable one. Empty where nothing is known.
    """
    known = None if y is None else y != ABSTAIN
    if y is None or known is None or not known.any():
        return {}
    if not known.all():
        y, proba = y[known], proba[known]
        decided = None if decided is None else decided[known]
    answers = Scored(proba, y, positive_index(positive, classes), decided)
    return {name: measure.of(answers) for name, measure in SHOWN.items()}


def calibration_error(proba: np.ndarray, truth: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error of the most probable class, over equally wide bins."""
    return Scored(proba, truth, None).calibration_error(bins)


def _from_sklearn(
    name: str, positive: int | None, n_classes: int
) -> Callable[[np.ndarray, np.ndarray], float]:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.metrics import get_scorer

    class Scored(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """What scorers want to see: a fitted classifier, whose rows are its probabilities."""

        classes_ = np.arange(n_classes)

        def predict_proba(self, rows: np.ndarray) -> np.ndarray:
            return rows

        def predict(self, rows: np.ndarray) -> np.ndarray:
            return np.asarray(rows.argmax(axis=1))

    scorer = get_scorer(name)

    def score(y: np.ndarray, proba: np.ndarray) -> float:
        if n_classes == 2 and positive == 0:  # scikit-learn's positive class is the second
            y, proba = 1 - y, proba[:, ::-1]
        return float(scorer(Scored(), proba, y))

    return score
