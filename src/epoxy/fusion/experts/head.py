"""A head on hand labels: what dev rows with such vectors and such votes turned out to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import evidence as ev
from ..rows import Rows
from . import ridge
from .base import Lesson, Reason
from .parts import strongest

__all__ = ["Head"]

VECTOR_SHARE = 3.0  # how loud a row's features are beside one vote


@dataclass(frozen=True)
class Head:
    """Ridge regression of the true labels on features and votes together.

    Votes as inputs let the head learn what a source means beside the others, dependent sources
    included. In its dual form the answer is a sum over hand-labelled rows, which is what explanations
    show.
    """

    name: str = "head"

    def fit(self, lessons: Sequence[Lesson]) -> list[Readout | None]:
        """Learn from the dev rows; the first lesson chooses the penalty for all of them."""
        found: list[Readout | None] = []
        penalty = None
        for lesson in lessons:
            found.append(self._fit(lesson, penalty))
            penalty = penalty if found[-1] is None else found[-1].penalty
        return found

    def _fit(self, lesson: Lesson, penalty: float | None) -> Readout | None:
        if lesson.dev is None or lesson.y is None or len(np.unique(lesson.y)) < 2:
            return None
        inputs = _inputs(lesson.dev, lesson.n_classes)
        middle = inputs.mean(axis=0)
        inputs -= middle
        base = np.bincount(lesson.y, minlength=lesson.n_classes) / len(lesson.y)
        found = ridge.fit(inputs, np.eye(lesson.n_classes)[lesson.y] - base, penalty)
        return Readout(
            weights=found.weights.astype(np.float32),
            middle=middle,
            prior=lesson.prior,
            inputs=inputs,
            dual=found.dual,
            penalty=found.penalty,
            n_sources=lesson.train.votes.shape[1],
        )


@dataclass(frozen=True, eq=False)
class Readout:
    """A fitted head, with the rows it learned from."""

    weights: np.ndarray  # (n_inputs, n_classes)
    middle: np.ndarray  # (n_inputs,)
    prior: np.ndarray  # (n_classes,)
    inputs: np.ndarray  # (n_dev, n_inputs) of the rows it learned from
    dual: np.ndarray  # (n_dev, n_classes)
    penalty: float
    n_sources: int

    @property
    def readout(self) -> np.ndarray:
        """The part of the weights that reads features; (n_features, n_classes)."""
        n_votes = self.n_sources * len(self.prior)
        return np.asarray(VECTOR_SHARE * self.weights[: len(self.weights) - n_votes])

    def evidence(self, rows: Rows, read: np.ndarray | None = None) -> np.ndarray:
        """Shares of the classes among rows like these, against the prior."""
        readout = self.readout
        at = len(readout)
        if read is None and rows.features is not None:
            read = rows.features @ readout
        shares = np.tile(self.prior, (len(rows), 1))
        if read is not None:  # a row without a vector is like the average dev row
            shares += read - self.middle[:at] @ self.weights[:at]
        shares += _votes_times(rows.votes, self.weights[at:]) - self.middle[at:] @ self.weights[at:]
        return ev.loudness(ev.from_shares(shares, self.prior))

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """The hand-labelled rows that moved the answer most."""
        here = np.zeros_like(self.middle)
        at = len(self.readout)
        if row.features is not None:
            here[:at] = VECTOR_SHARE * row.features[0] - self.middle[:at]
        here[at:] = _one_hot(row.votes, len(self.prior))[0] - self.middle[at:]
        return strongest((self.inputs @ here)[:, None] * self.dual, self.evidence(row)[0], "hand")


def _inputs(rows: Rows, n_classes: int) -> np.ndarray:
    votes = _one_hot(rows.votes, n_classes)
    return votes if rows.features is None else np.hstack([VECTOR_SHARE * rows.features, votes])


def _one_hot(votes: np.ndarray, n_classes: int) -> np.ndarray:
    return np.hstack([(votes == label).astype(np.float32) for label in range(n_classes)])


def _votes_times(votes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One-hot votes times weights, without making the one-hot matrix of all train rows."""
    n_sources, n_classes = votes.shape[1], weights.shape[1]
    found = np.zeros((len(votes), n_classes), dtype=np.float32)
    for label in range(n_classes):
        named = votes == label
        if named.any():
            found += named.astype(np.float32) @ weights[label * n_sources : (label + 1) * n_sources]
    return found
