"""Votes at their worth, own and lent: near loans count more than far ones, with no radius to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...votes import ABSTAIN
from .. import lifts
from ..evidence import loudness
from ..rows import Rows
from .base import Lesson, Reason

__all__ = ["Reach"]

GRADES = 4
UNTAUGHT = (0.8, 0.4, 0.1, 0.0)
"""Lifts of lent votes from nearest to farthest when no hand label can tell."""


@dataclass(frozen=True)
class Reach:
    """Lifts of own votes, and of votes lent by the nearest supporting row, graded by its distance.

    All abstentions are cut into four grades of equal size by the distance to the lender. Each grade has one
    lift, and each source keeps half of its deviation, because a precise source is precise near its rows too.
    Lent votes of one grade repeat each other, so their sum is damped.
    """

    name: str = "reach"
    teaches = False  # speaking about all train rows would cost a search in every refit

    def fit(self, lessons: Sequence[Lesson]) -> list[Graded | None]:
        """Learn lifts and grades from the dev rows, or fall back on typical ones."""
        return [self._fit(each) if each.train.has_votes else None for each in lessons]

    def _fit(self, lesson: Lesson) -> Graded:
        n_sources = lesson.train.votes.shape[1]
        if lesson.dev is None or lesson.y is None:
            edges = _edges(lesson.train)
            own = np.full(n_sources, lifts.TYPICAL)
            return Graded(own, np.zeros(n_sources), edges, np.array(UNTAUGHT), lesson.n_classes)
        right, total = lifts.count(lesson.dev.votes, lesson.y, lesson.n_classes)
        common, deviation = lifts.fit(right, total, lesson.prior)
        edges = _edges(lesson.dev)
        grade = _grade(lesson.dev, edges)
        worth = [
            lifts.shared(*self._counts(lesson, grade == each), lesson.prior)
            for each in range(GRADES)
        ]
        return Graded(common + deviation, deviation / 2, edges, np.array(worth), lesson.n_classes)

    def _counts(self, lesson: Lesson, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert lesson.dev is not None  # only asked where dev rows teach
        assert lesson.y is not None
        votes = np.where(cells, lesson.dev.lent.vote, ABSTAIN)
        return lifts.count(votes, lesson.y, lesson.n_classes)


@dataclass(frozen=True, eq=False)
class Graded:
    """Lifts of own votes, and of lent ones by grade."""

    own: np.ndarray  # (n_sources,) lift of a source's own vote
    lent: np.ndarray  # (n_sources,) what a source adds to the lift of its grade
    edges: np.ndarray  # (n_grades − 1,) distances
    worth: np.ndarray  # (n_grades,) lift of a lent vote
    n_classes: int

    def evidence(self, rows: Rows, read: np.ndarray | None = None) -> np.ndarray:
        """The sum of all lifts."""
        return loudness(self._raw(rows))

    def _raw(self, rows: Rows) -> np.ndarray:
        found = lifts.add(rows.votes, self.own, self.n_classes)
        grade = _grade(rows, self.edges)
        for each, worth in enumerate(self.worth):
            votes = np.where(grade == each, rows.lent.vote, ABSTAIN)
            found += lifts.add(votes, worth + self.lent, self.n_classes, damped=True)
        return found

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """Each vote's lift, own or lent."""
        raw, loud = self._raw(row)[0], self.evidence(row)[0]
        spread = float(np.ptp(raw))
        scale = float(np.ptp(loud)) / spread if spread > 0 else 0.0
        grade = _grade(row, self.edges)[0]
        found = []
        for source, label in enumerate(row.votes[0]):
            weights = np.zeros(self.n_classes)
            if label != ABSTAIN:
                weights[label] = self.own[source] * scale
                found.append(Reason(weights, source=source, vote=int(label)))
            elif grade[source] >= 0:
                lent = row.lent.vote[0]
                label = int(lent[source])
                alike = int(((grade == grade[source]) & (lent == label)).sum())
                lift = self.worth[grade[source]] + self.lent[source]
                weights[label] = lift / np.sqrt(alike) * scale
                lender, distance = row.lent.lender[0, source], row.lent.distance[0, source]
                found.append(Reason(weights, source, label, int(lender), distance=float(distance)))
        return found


def _edges(rows: Rows) -> np.ndarray:
    """Distances that cut the loans into grades of equal size."""
    distance = rows.lent.distance[(rows.votes == ABSTAIN) & np.isfinite(rows.lent.distance)]
    if not len(distance):
        return np.zeros(GRADES - 1)
    return np.asarray(np.quantile(distance, np.linspace(0, 1, GRADES + 1)[1:-1]))


def _grade(rows: Rows, edges: np.ndarray) -> np.ndarray:
    """The grade of each loan, 0 nearest; −1 where nothing is lent."""
    borrows = (rows.votes == ABSTAIN) & np.isfinite(rows.lent.distance)
    return np.where(borrows, np.searchsorted(edges, rows.lent.distance), -1)
