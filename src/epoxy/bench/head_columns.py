"""Columns that learn from vectors, with or without votes: heads, boosting, nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..heads import LinearHead, NearestNeighbors
from ..neighbors.workers import single_threaded_blas
from ..votes import Split
from .context import Context, Prediction
from .label_columns import Labels, epoxy_labels, triplet_labels

PENALTIES = (0.1, 1.0, 10.0, 100.0)
WEAK_PENALTIES = (0.01, 0.1, 1.0, 10.0)  # many noisy rows: stronger penalties are worth trying
NEIGHBOURS = (1, 3, 5, 10, 15, 20, 30, 50)
_FOLDS = 5
_BELIEVED = 0.9  # probability from which self-training takes its own answer for a label

Inputs = Callable[[Split], np.ndarray]
"""What a classifier reads of a split's rows."""


def ts_nft(context: Context) -> Prediction:
    """TS-NFT: logistic regression on the dev vectors and labels, the penalty by cross-validation."""
    return _linear(context, context.vectors)


def lr_xv(context: Context) -> Prediction:
    """LR-xv: the same on vectors and votes."""
    return _linear(context, context.vectors_and_votes)


def self_training(context: Context) -> Prediction:
    """Self-train: LR-xv believes what it is 90 % sure of on train rows, for at most five rounds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    inputs = context.vectors_and_votes
    penalty = _penalty(context, inputs)
    unlabelled = inputs(context.task.train)
    head = LogisticRegression(C=penalty, max_iter=1000)

    def fit(rows: np.ndarray, labels: np.ndarray) -> Any:
        taught = np.r_[labels, np.full(len(unlabelled), -1)]
        model = SelfTrainingClassifier(head, threshold=_BELIEVED, max_iter=5)
        with single_threaded_blas():  # as in LinearHead
            return model.fit(np.vstack([rows, unlabelled]), taught)

    return _by_hand(context, inputs, fit, {"C": penalty})


def boosting(context: Context) -> Prediction:
    """Boost-xv: histogram gradient boosting on vectors and votes; smaller leaves for few labels."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    least = int(np.clip(len(context.truth) // 20, 2, 20))

    def fit(rows: np.ndarray, labels: np.ndarray) -> Any:
        model = HistGradientBoostingClassifier(min_samples_leaf=least, random_state=context.seed)
        return model.fit(rows, labels)

    return _by_hand(context, context.vectors_and_votes, fit, {"min_samples_leaf": least})


def ceiling(context: Context) -> Prediction:
    """Ceiling: LR-xv taught by the true labels of all train rows; no baseline, but what is left."""
    assert context.gold is not None  # the loop gives it to this column alone
    known = np.flatnonzero(context.gold >= 0)
    rows, labels = context.vectors_and_votes(context.task.train)[known], context.gold[known]
    classes = tuple(range(len(context.task.classes)))
    return _chosen(
        context,
        PENALTIES,
        "C",
        lambda penalty: LinearHead(penalty, classes=classes).fit(rows, labels),
        context.vectors_and_votes,
    )


def _linear(context: Context, inputs: Inputs) -> Prediction:
    penalty = _penalty(context, inputs)
    return _by_hand(context, inputs, LinearHead(penalty).fit, {"C": penalty})


def _penalty(context: Context, inputs: Inputs) -> float:
    """The penalty of the smallest held-out log loss on dev; the strongest where one class is there."""
    labels = context.truth
    with context.clock("tuning"):
        if len(np.unique(labels)) < 2:
            return PENALTIES[0]
        return LinearHead(PENALTIES).fit(inputs(context.dev), labels).C_


def _by_hand(
    context: Context, inputs: Inputs, fit: Callable[[np.ndarray, np.ndarray], Any], facts: Any
) -> Prediction:
    """What a classifier taught by the dev labels says of test, and out of fold of dev."""
    rows, labels = inputs(context.dev), context.truth
    with context.clock("training"):
        answer = _taught_by(context, fit, rows, labels)
    return Prediction(answer(inputs(context.task.test)), _held_out(context, rows, fit), facts)


def _taught_by(
    context: Context, fit: Callable[..., Any], rows: np.ndarray, labels: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Probabilities of every class; where all labels are of one, that one."""
    present = np.unique(labels)
    model = fit(rows, labels) if len(present) > 1 else None

    def answer(asked: np.ndarray) -> np.ndarray:
        found = np.zeros((len(asked), len(context.task.classes)))
        found[:, present] = 1.0 if model is None else model.predict_proba(asked)
        return found

    return answer


def ts_knn(context: Context) -> Prediction:
    """TS-KNN: the nearest dev rows, their number by leave-one-out."""
    vectors = context.vectors(context.dev)
    with context.clock("training"):
        head = NearestNeighbors(NEIGHBOURS, classes=context.task.classes)
        head.fit(vectors, context.truth)
    answer = head.predict_proba(context.vectors(context.task.test))
    return Prediction(answer, head.leave_one_out(), {"k": head.k_})


def ws_nft(context: Context) -> Prediction:
    """WS-NFT: logistic regression on WS-LM's probabilities of the covered train rows."""
    return _weak_linear(context, triplet_labels(context))


def epoxy_nft(context: Context) -> Prediction:
    """Epoxy-NFT: logistic regression on Epoxy's probabilities."""
    return _weak_linear(context, epoxy_labels(context))


def ws_knn(context: Context) -> Prediction:
    """WS-KNN: the nearest covered train rows with WS-LM's probabilities, their number by dev."""
    vectors, targets = _taught(context, triplet_labels(context))
    usable = [k for k in NEIGHBOURS if k <= len(vectors)]
    return _chosen(context, usable, "k", lambda k: NearestNeighbors(k).fit(vectors, targets))


def _weak_linear(context: Context, labels: Labels) -> Prediction:
    vectors, targets = _taught(context, labels)
    return _chosen(
        context, WEAK_PENALTIES, "C", lambda penalty: LinearHead(penalty).fit(vectors, targets)
    )


def _chosen(
    context: Context,
    grid: Any,
    name: str,
    fit: Callable[[Any], Any],
    inputs: Inputs | None = None,
) -> Prediction:
    """Fit with the value of the grid that does best on dev (the first without dev)."""
    dev, inputs = context.task.dev, inputs or context.vectors
    with context.clock("tuning"):
        value = grid[0]
        if dev is not None:
            asked = inputs(dev)
            value = context.best({each: _lazily(fit, each, asked) for each in grid})
    with context.clock("training"):
        head = fit(value)
    known = None if dev is None else head.predict_proba(inputs(dev))
    return Prediction(head.predict_proba(inputs(context.task.test)), known, {name: value})


def _lazily(fit: Callable[[Any], Any], value: Any, vectors: np.ndarray) -> Callable[[], Any]:
    return lambda: fit(value).predict_proba(vectors)


def _taught(context: Context, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and probabilities of the train rows some source speaks for."""
    rows = labels.taught(context)
    return context.vectors(context.task.train)[rows], labels.train[rows]


def _held_out(
    context: Context, rows: np.ndarray, fit: Callable[[np.ndarray, np.ndarray], Any]
) -> np.ndarray | None:
    """Out-of-fold probabilities of dev, for the threshold; None where none is needed."""
    labels = context.truth
    if not context.task.scoring.thresholded or len(labels) < 2:
        return None
    answer = np.full((len(labels), len(context.task.classes)), np.nan)
    order = np.random.default_rng(context.seed).permutation(len(labels))
    dealt = order[np.argsort(labels[order], kind="stable")]
    for fold in range(min(_FOLDS, len(labels))):
        held = dealt[fold::_FOLDS]
        rest = np.setdiff1d(dealt, held)
        answer[held] = _taught_by(context, fit, rows[rest], labels[rest])(rows[held])
    return answer
