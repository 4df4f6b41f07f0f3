"""Columns that answer from vectors without fine-tuning: linear heads and nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..heads import LinearHead, NearestNeighbors
from .context import Context, Prediction
from .label_columns import Labels, epoxy_labels, triplet_labels

__all__ = ["epoxy_nft", "ts_knn", "ts_nft", "ws_knn", "ws_nft"]

PENALTIES = (0.1, 1.0, 10.0, 100.0)
WEAK_PENALTIES = (0.01, 0.1, 1.0, 10.0)  # many noisy rows: stronger penalties are worth trying
NEIGHBOURS = (1, 3, 5, 10, 15, 20, 30, 50)
_FOLDS = 5


def ts_nft(context: Context) -> Prediction:
    """TS-NFT: logistic regression on the dev vectors and labels, the penalty by cross-validation."""
    vectors, labels = context.vectors(context.dev), context.truth
    classes = context.task.classes
    with context.clock("tuning"):
        penalty = LinearHead(PENALTIES, classes=classes).fit(vectors, labels).C_
    with context.clock("training"):
        head = LinearHead(penalty, classes=classes).fit(vectors, labels)
    answer = head.predict_proba(context.vectors(context.task.test))
    return Prediction(answer, _held_out(context, LinearHead(penalty)), {"C": penalty})


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


def _chosen(context: Context, grid: Any, name: str, fit: Callable[[Any], Any]) -> Prediction:
    """Fit with the value of the grid that does best on dev (the first without dev)."""
    dev = context.task.dev
    with context.clock("tuning"):
        value = grid[0]
        if dev is not None:
            asked = context.vectors(dev)
            value = context.best({each: _lazily(fit, each, asked) for each in grid})
    with context.clock("training"):
        head = fit(value)
    known = None if dev is None else head.predict_proba(context.vectors(dev))
    return Prediction(head.predict_proba(context.vectors(context.task.test)), known, {name: value})


def _lazily(fit: Callable[[Any], Any], value: Any, vectors: np.ndarray) -> Callable[[], Any]:
    return lambda: fit(value).predict_proba(vectors)


def _taught(context: Context, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and probabilities of the train rows some source speaks for."""
    rows = labels.taught(context)
    return context.vectors(context.task.train)[rows], labels.train[rows]


def _held_out(context: Context, head: LinearHead) -> np.ndarray | None:
    """Out-of-fold probabilities of dev, for the threshold; NaN where a fold has one class."""
    if not context.task.scoring.thresholded:
        return None
    from sklearn.base import clone

    vectors, labels = context.vectors(context.dev), context.truth
    answer = np.full((len(labels), len(context.task.classes)), np.nan)
    order = np.random.default_rng(context.seed).permutation(len(labels))
    dealt = order[np.argsort(labels[order], kind="stable")]
    for fold in range(min(_FOLDS, len(labels))):
        held = dealt[fold::_FOLDS]
        rest = np.setdiff1d(dealt, held)
        if len(np.unique(labels[rest])) > 1:
            part = clone(head).set_params(classes=context.task.classes)
            answer[held] = part.fit(vectors[rest], labels[rest]).predict_proba(vectors[held])
    return answer
