"""Students: ridge regressions over all unlabelled rows, taught by what others think of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...votes import ABSTAIN
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

    A row without votes teaches nothing (its target is the prior), so every row may take part and the
    regression's matrix depends on the vectors alone.
    """

    name: str = "pupil"

    def fit(self, lesson: Lesson) -> Taught | None:
        """Read votes at their lifts as soft labels, and learn these."""
        votes = lesson.train.votes
        if lesson.smoother is None or not (votes != ABSTAIN).any():
            return None
        lift = np.full(votes.shape[1], lifts.TYPICAL)
        if lesson.dev is not None and lesson.y is not None:
            counts = lifts.count(lesson.dev.votes, lesson.y, lesson.n_classes)
            common, deviation = lifts.fit(*counts, lesson.prior)
            lift = common + deviation
        said = lifts.add(votes, lift, lesson.n_classes)
        return _learn(lesson.smoother, ev.softmax(np.log(lesson.prior) + said), lesson.prior)


@dataclass(frozen=True)
class Echo:
    """Taught by the experts before it: their pooled opinion of the train rows, made smooth."""

    name: str = "echo"
    is_taught = True

    def fit(self, lesson: Lesson) -> Taught | None:
        """Learn the pooled opinion."""
        if lesson.smoother is None or lesson.taught is None:
            return None
        return _learn(lesson.smoother, lesson.taught, lesson.taught.mean(axis=0))


@dataclass(frozen=True, eq=False)
class Taught:
    """A fitted student, with what every train row taught it."""

    weights: np.ndarray  # (n_features, n_classes)
    base: np.ndarray  # (n_classes,) what is answered where the features say nothing
    excess: np.ndarray  # (n_train, n_classes) what each train row taught

    def evidence(self, rows: Rows) -> np.ndarray:
        """What rows with such features are called, against the average row."""
        if rows.features is None:
            return np.zeros((len(rows), len(self.base)))
        shares = rows.features @ self.weights.astype(np.float32)
        return ev.loudness(ev.from_shares(shares + self.base, self.base))

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """The train rows that taught this answer: φ(x)ᵀ (ΦᵀΦ + λ)⁻¹ φᵢ times what row i taught."""
        smoother: Smoother | None = material.smoother
        if row.features is None or smoother is None:
            return []
        likeness = smoother.features @ smoother.apply_inverse(row.features[0]).astype(np.float32)
        return strongest(likeness[:, None] * self.excess, self.evidence(row)[0], "row")


def _learn(smoother: Smoother, target: np.ndarray, base: np.ndarray) -> Taught:
    excess = (target - base).astype(np.float32)
    # the features have mean zero, so the target's mean would not be learned anyway
    return Taught(smoother.solve(excess), target.mean(axis=0), excess)
