"""Loans of several sources as tables, so that the experts read one stretch of memory per source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loans import Loans


@dataclass(eq=False)
class Stacked:
    """Loans of the active sources on one split as three tables, brought in step row by row."""

    loans: list[Loans | None]
    votes: np.ndarray
    lent: np.ndarray
    distance: np.ndarray
    lender: np.ndarray

    @classmethod
    def empty(cls, n_sources: int, n_rows: int, dtype: Any) -> Stacked:
        """Nobody votes, and nobody lends."""
        return cls(
            [None] * n_sources,
            np.full((n_sources, n_rows), -1, dtype),
            np.full((n_sources, n_rows), -1, dtype),
            np.full((n_sources, n_rows), np.inf),
            np.full((n_sources, n_rows), -1, np.int32),
        )

    def sync(self, loans: Sequence[Loans]) -> None:
        """Take up the loans that are others than before."""
        for at, each in enumerate(loans):
            if each is not self.loans[at]:
                self.loans[at] = each
                self.votes[at], self.lent[at] = each.own, each.vote
                self.distance[at], self.lender[at] = each.distance, each.lender
