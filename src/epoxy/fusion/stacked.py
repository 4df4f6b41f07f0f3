"""Loans of several sources: as tables that the experts read in one stretch of memory, and by grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loans import Loans
from ..workspace import TRAIN, Workspace
from . import evidence as ev


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


class Grading:
    """The distances that cut loans into grades; each source's are sorted once per column."""

    def __init__(self) -> None:
        self._ascending: dict[str, tuple[Loans, np.ndarray]] = {}

    def edges(self, workspace: Workspace, columns: np.ndarray) -> np.ndarray:
        """Those of some active sources; loans that approximate lists do not know count as farther."""
        known = [self._sorted(workspace, at) for at in columns]
        if workspace.near.recall is None:
            return ev.grade_edges(known)
        loans = [workspace.active[at].loans[TRAIN] for at in columns]
        asked = np.array([np.count_nonzero(each.own < 0) for each in loans])
        return ev.grade_edges(known, ev.unlisted_loans(asked, np.array([*map(len, known)])))

    def _sorted(self, workspace: Workspace, at: int) -> np.ndarray:
        """One source's distances to its abstaining train rows, ascending."""
        source = workspace.active[at]
        loans = source.loans[TRAIN]
        known = self._ascending.get(source.name)
        if known is None or known[0] is not loans:
            far = loans.distance[loans.own < 0]
            self._ascending[source.name] = (loans, np.sort(far[np.isfinite(far)]))
        return self._ascending[source.name][1]
