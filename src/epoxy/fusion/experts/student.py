"""Students: ridge regressions over all unlabelled rows, taught by what others think of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import evidence as ev
from .. import lifts
from ..geometry import Smoother
from ..rows import Rows
from .base import Lesson, Reason
from .parts import strongest

__all__ = ["Echo", "Pupil"]


@dataclass(frozen=True)
class Pupil:
    """Taught by the votes: what rows with such vectors are called by the sources that know them.

    A row without votes teaches the prior, so every row may take part and the regression's matrix
    depends on the vectors alone.
    """

    name: str = "pupil"

    def fit(self, lessons: Sequence[Lesson]) -> list[Taught | None]:
        """Read votes at their lifts as soft labels, and learn these."""
        return _learn(lessons, [self._labels(each) for each in lessons])

    def _labels(self, lesson: Lesson) -> np.ndarray | None:
        if not lesson.train.has_votes:
            return None
        votes = lesson.train.votes
        lift = np.full(votes.shape[1], lifts.TYPICAL)
        if lesson.dev is not None and lesson.y is not None:
            counts = lifts.count(lesson.dev.votes, lesson.y, lesson.n_classes)
            common, deviation = lifts.fit(*counts, lesson.prior)
            lift = common + deviation
        return ev.softmax(np.log(lesson.prior) + lifts.add(votes, lift, lesson.n_classes))


@dataclass(frozen=True)
class Echo:
    """Taught by the experts before it: their pooled opinion of the train rows, made smooth."""

    name: str = "echo"
    is_taught = True

    def fit(self, lessons: Sequence[Lesson]) -> list[Taught | None]:
        """Learn the pooled opinion."""
        return _learn(lessons, [each.taught for each in lessons])


@dataclass(frozen=True, eq=False)
class Taught:
    """A fitted student, with what every train row taught it."""

    weights: np.ndarray  # (n_features, n_classes)
    base: np.ndarray  # (n_classes,) what is answered where the features say nothing
    excess: np.ndarray  # (n_train, n_classes) what each train row taught

    @property
    def readout(self) -> np.ndarray:
        """The weights, which all read features."""
        return self.weights

    def evidence(self, rows: Rows, read: np.ndarray | None = None) -> np.ndarray:
        """What rows with such features are called, against the average row."""
        if read is None and rows.features is None:
            return np.zeros((len(rows), len(self.base)))
        if read is None:
            read = rows.features @ self.weights
        return ev.loudness(ev.from_shares(read + self.base, self.base))

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """The train rows that taught this answer: φ(x)ᵀ (ΦᵀΦ + λ)⁻¹ φᵢ times what row i taught."""
        smoother: Smoother | None = material.smoother
        if row.features is None or smoother is None:
            return []
        likeness = smoother.features @ smoother.apply_inverse(row.features[0]).astype(np.float32)
        return strongest(likeness[:, None] * self.excess, self.evidence(row)[0], "row")


def _learn(lessons: Sequence[Lesson], targets: Sequence[np.ndarray | None]) -> list[Taught | None]:
    """Solve for all targets at once: the features of the train rows are read only one time."""
    smoother = lessons[0].smoother
    given = [target for target in targets if target is not None]
    if smoother is None or not given:
        return [None] * len(lessons)
    bases = [target.mean(axis=0) for target in given]
    excess = np.hstack([target - base for target, base in zip(given, bases, strict=True)])
    parts = np.split(smoother.solve(excess).astype(np.float32), len(given), axis=1)
    shares = np.split(excess.astype(np.float32), len(given), axis=1)
    made = map(Taught, parts, bases, shares)
    return [None if target is None else next(made) for target in targets]
