"""Columns that fine-tune a pre-trained network: on dev labels, on WS-LM's, on Epoxy's."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from ..errors import LabelError
from ..heads import FineTuned, Training
from .context import Context, Prediction
from .label_columns import Labels, epoxy_labels, triplet_labels
from .task import take

_STEPS = 300  # steps a small data set should get before early stopping may end them
_MOST_ROWS = 2400  # train rows used: on a CPU an epoch over more takes longer than it teaches
_HELD_SHARE = 0.2


def ts_ft(context: Context) -> Prediction:
    """TS-FT: on four fifths of the dev labels, early stopping on the rest."""
    held = _held(context.truth, context.seed)
    texts, labels = context.task.rows["dev"], context.truth
    head = _head(context, int((~held).sum()))
    with context.clock("training"):
        head.fit(
            take(texts, np.flatnonzero(~held)),
            labels[~held],
            dev=(take(texts, np.flatnonzero(held)), labels[held]),
        )
    known = np.full((len(labels), len(context.task.classes)), np.nan)
    known[held] = head.predict_proba(take(texts, np.flatnonzero(held)))
    return _answer(context, head, known)


def ws_ft(context: Context) -> Prediction:
    """WS-FT: on WS-LM's probabilities of the covered train rows, early stopping on dev."""
    return _weakly(context, triplet_labels(context))


def epoxy_ft(context: Context) -> Prediction:
    """Epoxy-FT: on Epoxy's probabilities, early stopping on dev."""
    return _weakly(context, epoxy_labels(context))


def _weakly(context: Context, labels: Labels) -> Prediction:
    rows = labels.taught(context)
    most = 300 if context.settings.quick else _MOST_ROWS
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(context.seed).permutation(rows)[:most])
    head = _head(context, len(rows))
    texts = context.task.rows
    dev = None if context.task.dev is None else (texts["dev"], context.truth)
    with context.clock("training"):
        head.fit(take(texts["train"], rows), labels.train[rows], dev=dev)
    known = None if dev is None else head.predict_proba(texts["dev"])
    return _answer(context, head, known)


def _head(context: Context, n_rows: int) -> FineTuned:
    batch = Training.batch_size
    epochs = int(np.clip(math.ceil(_STEPS / math.ceil(n_rows / batch)), 3, 20))
    training = Training(epochs=1 if context.settings.quick else epochs, patience=3)
    return FineTuned(
        context.settings.network,
        training=training,
        classes=context.task.classes,
        seed=context.seed,
        progress=context.progress,
    )


def _answer(context: Context, head: FineTuned, dev: np.ndarray | None) -> Prediction:
    test = context.task.rows["test"]
    start = time.perf_counter()
    answer = head.predict_proba(test)  # one pass of the network, what embedding costs
    passed = time.perf_counter() - start
    facts: dict[str, Any] = {
        "history": head.history_,
        "seconds_per_1000_rows": 1000 * passed / len(test),
    }
    return Prediction(answer, dev, facts)


def _held(labels: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of each class, at least one row where a class has two."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        held[rows[: max(1, round(len(rows) * _HELD_SHARE)) if len(rows) > 1 else 0]] = True
    if not held.any():
        raise LabelError("early stopping needs two dev rows of one class, got one each; label more")
    return held
