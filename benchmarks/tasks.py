"""What studies of labels share: a data set, draws of its dev rows, and figures of finished predictions.

Train gold is never read, dev gold teaches and chooses, test gold only scores and only where `--test` is
said. Everything here and in the studies uses what the package promises, so that two commits compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from epoxy import Fusion, Session, Split
from epoxy.datasets import Dataset, read_folder
from epoxy.session import Label, Several
from runner import DATA

POOL = 0.6  # the share of dev that may be labelled where the rest of dev scores


@cache
def load(name: str) -> Dataset:
    """One data set by the name of its folder."""
    return read_folder(DATA / name)


def fusion(data: Dataset, **more: Any) -> Fusion:
    """The default model with the data set's own score."""
    return Fusion(scoring=data.scoring, positive=data.positive, **more)


def drawn(data: Dataset, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Dev rows that may be labelled, in a random order, and those that score."""
    order = np.random.default_rng(1000 + draw).permutation(data.dev.n_rows)
    cut = int(POOL * len(order))
    return order[:cut], order[cut:]


def trial(data: Dataset, draw: int, test: bool) -> tuple[Split, Split, np.ndarray]:
    """Rows that may be labelled in a random order, rows that score (without labels), their truth."""
    pool, scored = drawn(data, draw)
    if test:
        whole = np.random.default_rng(draw).permutation(data.dev.n_rows)
        return data.dev.rows(whole), bare(data.test), data.truth["test"]
    return data.dev.rows(pool), bare(data.dev.rows(scored)), data.dev.truth[scored]


def bare(split: Split, ids: Sequence[Any] | None = None) -> Split:
    """The same rows without labels."""
    return Split(split.votes, split.vectors, ids=ids)


def points(data: Dataset, guess: np.ndarray, truth: np.ndarray) -> float:
    """The data set's own score, in points: accuracy, or F1 of its positive class."""
    if data.scoring == "accuracy":
        return 100 * float((guess == truth).mean())
    at = data.classes.index(str(data.positive))
    return f1(guess == at, truth == at)


def f1(guess: np.ndarray, truth: np.ndarray) -> float:
    """F1 of one class, in points."""
    return 200 * float((guess & truth).sum()) / max(float(guess.sum() + truth.sum()), 1)


def figures(data: Dataset, proba: np.ndarray, guess: np.ndarray, truth: np.ndarray) -> Any:
    """Score, log loss and calibration error (of the most probable class, 15 bins) of a prediction."""
    sure, right = proba.max(axis=1), proba.argmax(axis=1) == truth
    bins = np.minimum((sure * 15).astype(int), 14)
    given = np.maximum(proba[np.arange(len(truth)), truth], 1e-12)
    return {
        "points": points(data, guess, truth),
        "log_loss": float(-np.log(given).mean()),
        "calibration_error": float(np.abs(np.bincount(bins, right - sure, 15)).sum() / len(truth)),
    }


def indices(model: Any, split: Split) -> np.ndarray:
    """What a model calls the rows, as class indices."""
    at = {name: index for index, name in enumerate(split.classes)}
    return np.array([at[each] for each in model.predict(split).tolist()])


class Labelled:
    """One session over train and all rows that are labelled or scored, for many sets of labels."""

    def __init__(self, data: Dataset, rows: Split, model: Any = None, **more: Any) -> None:
        self.data, self.rows = data, rows
        named = bare(rows, [f"row-{at}" for at in range(rows.n_rows)])
        self.session = Session(data.train, named, model or fusion(data), **more)

    def teach(
        self, rows: np.ndarray, y: np.ndarray, by: str | None = None, chosen: str | None = None
    ) -> Several:
        """The edit that labels some rows."""
        pairs = zip(rows.tolist(), y.tolist(), strict=True)
        return Several(
            tuple(
                Label("dev", f"row-{row}", self.data.classes[each], by, chosen)
                for row, each in pairs
            ),
            "labels",
        )

    def answer(self, *taught: Several) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and class indices of all rows with these labels, which are taken back."""
        edits = tuple(edit for some in taught for edit in some.edits)
        if edits:
            self.session.apply(Several(edits, "labels"))
        found = self.session.dev_probabilities, self.session.dev_labels
        if edits:
            self.session.undo()
        return found
