"""Every vote counts the same: nothing is learned, so nothing can be learned wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...votes import ABSTAIN
from ..evidence import loudness
from ..rows import Rows
from .base import Lesson, Reason

__all__ = ["Majority"]


@dataclass(frozen=True)
class Majority:
    """Share of the votes, with one further vote cast by the prior.

    It is the expert of last resort: with seven positive dev rows every learned weight is noise.
    """

    name: str = "majority"

    def fit(self, lessons: Sequence[Lesson]) -> list[Shares | None]:
        """Remember the prior."""
        return [Shares(each.prior) if each.train.has_votes else None for each in lessons]


@dataclass(frozen=True, eq=False)
class Shares:
    """The prior's vote."""

    prior: np.ndarray  # (n_classes,)

    def evidence(self, rows: Rows, read: np.ndarray | None = None) -> np.ndarray:
        """Shares of the votes, against the prior."""
        counts = np.stack([(rows.votes == k).sum(axis=1) for k in range(len(self.prior))], axis=1)
        shares = (counts + self.prior) / (counts.sum(axis=1, keepdims=True) + 1)
        return loudness(np.log(shares) - np.log(self.prior))

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """Votes for one class are interchangeable, so they share what the class gained."""
        evidence = self.evidence(row)[0]
        counts = np.bincount(row.votes[0][row.votes[0] != ABSTAIN], minlength=len(self.prior))
        found = []
        for source in np.flatnonzero(row.votes[0] != ABSTAIN):
            label = int(row.votes[0, source])
            weights = np.zeros(len(self.prior))
            weights[label] = evidence[label] / counts[label]
            found.append(Reason(weights, source=int(source), vote=label))
        return found
