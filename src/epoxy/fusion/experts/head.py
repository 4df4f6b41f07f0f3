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

SHARES = (3.0, 1.0, 0.0)
"""How loud a row's features may be beside one vote; 0 where the vectors carry nothing."""


@dataclass(frozen=True)
class Head:
    """Ridge regression of the true labels on features and votes together.

    Votes as inputs let the head learn what a source means beside the others, dependent sources
    included. How loud the features are beside the votes is chosen together with the penalty, by the rows
    left out, so that vectors that carry nothing do not drown the votes. In its dual form the answer is a
    sum over hand-labelled rows, which is what explanations show.
    """

    name: str = "head"

    def fit(self, lessons: Sequence[Lesson]) -> list[Readout | None]:
        """Learn from the dev rows; the first lesson chooses share and penalty for all of them."""
        found: list[Readout | None] = []
        chosen = None
        for lesson in lessons:
            found.append(_learn(lesson, chosen))
            chosen = found[-1] or chosen
        return found


def _learn(lesson: Lesson, like: Readout | None) -> Readout | None:
    """The head of one lesson, with share and penalty of another head where there is one."""
    if lesson.dev is None or lesson.y is None or len(np.unique(lesson.y)) < 2:
        return None
    if like is not None:
        return _fit(lesson, lesson.dev, lesson.y, like.share, like.penalty)[1]
    shares = SHARES if lesson.dev.features is not None else (0.0,)
    tried = [_fit(lesson, lesson.dev, lesson.y, share) for share in shares]
    return min(tried, key=lambda each: each[0])[1]


def _fit(
    lesson: Lesson, dev: Rows, y: np.ndarray, share: float, penalty: float | None = None
) -> tuple[float, Readout]:
    """The error on rows left out, and the head."""
    inputs = _inputs(dev, lesson.n_classes, share)
    middle = inputs.mean(axis=0)
    inputs -= middle
    base = np.bincount(y, minlength=lesson.n_classes) / len(y)
    found = ridge.fit(inputs, np.eye(lesson.n_classes)[y] - base, penalty)
    made = Readout(
        weights=found.weights.astype(np.float32),
        middle=middle,
        prior=lesson.prior,
        inputs=inputs,
        dual=found.dual,
        share=share,
        penalty=found.penalty,
        n_sources=dev.votes.shape[1],
    )
    return found.loss, made


@dataclass(frozen=True, eq=False)
class Readout:
    """A fitted head, with the rows it learned from."""

    weights: np.ndarray  # (n_inputs, n_classes)
    middle: np.ndarray  # (n_inputs,)
    prior: np.ndarray  # (n_classes,)
    inputs: np.ndarray  # (n_dev, n_inputs) of the rows it learned from
    dual: np.ndarray  # (n_dev, n_classes)
    share: float  # how loud features are; 0 if it reads votes alone
    penalty: float
    n_sources: int

    @property
    def readout(self) -> np.ndarray | None:
        """The part of the weights that reads features (n_features, n_classes), if there is one."""
        return self.share * self.weights[: self._at] if self._at else None

    @property
    def _at(self) -> int:
        """Where the inputs that are votes begin."""
        return len(self.weights) - self.n_sources * len(self.prior)

    def evidence(self, rows: Rows, read: np.ndarray | None = None) -> np.ndarray:
        """Shares of the classes among rows like these, against the prior."""
        at, readout = self._at, self.readout
        if read is None and readout is not None and rows.features is not None:
            read = rows.features @ readout
        shares = np.tile(self.prior, (len(rows), 1))
        if read is not None:  # a row without a vector is like the average dev row
            shares += read - self.middle[:at] @ self.weights[:at]
        shares += _votes_times(rows.votes, self.weights[at:]) - self.middle[at:] @ self.weights[at:]
        return ev.loudness(ev.from_shares(shares, self.prior))

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """The hand-labelled rows that moved the answer most."""
        here = np.zeros_like(self.middle)
        at = self._at
        if at and row.features is not None:
            here[:at] = self.share * row.features[0] - self.middle[:at]
        here[at:] = _one_hot(row.votes, len(self.prior))[0] - self.middle[at:]
        return strongest((self.inputs @ here)[:, None] * self.dual, self.evidence(row)[0], "hand")


def _inputs(rows: Rows, n_classes: int, share: float) -> np.ndarray:
    votes = _one_hot(rows.votes, n_classes)
    if rows.features is None or share == 0:
        return votes
    return np.hstack([share * rows.features, votes])


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
