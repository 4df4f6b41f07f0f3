"""The table of sources: what each covers, how right it is, whom it contradicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import interval
from ..label_models.base import learned_accuracy
from ..votes import ABSTAIN
from ..workspace import TRAIN, Source
from .marks import labelled_rows

if TYPE_CHECKING:
    from ..engines import Outcome
    from ..session import Session

SORTS = ("file", "name", "coverage", "extended", "own", "lent", "conflicts", "radius")


class SourceTable:
    """Numbers about every source of an outcome; what is costly is made when a line is asked for."""

    def __init__(self, session: Session, outcome: Outcome) -> None:
        self.session, self.outcome = session, outcome
        self.workspace = outcome.workspace
        self._at = {name: at for at, name in enumerate(self.workspace.names)}
        self._named = _named_classes(outcome)
        self._rows, self._y = labelled_rows(outcome), self.workspace.labels.labels
        self._learned = _learned(outcome)

    def row(self, source: Source) -> dict[str, Any]:
        """One line of the table."""
        at = self._at.get(source.name)
        own, column = source.own[TRAIN], self._column(source, TRAIN)
        reach = None if at is None else float(self.outcome.radii[at])
        failed = () if self.session.folder is None else self.session.folder.failures
        learned = None if at is None or self._learned is None else float(self._learned[at])
        cast = own != ABSTAIN
        return {
            "name": source.name,
            "classes": [self.workspace.classes[each] for each in _distinct(source)],
            "on": source.is_on,
            "radius": source.radius,
            "reach": None if reach is None or np.isnan(reach) else reach,
            "coverage": float(cast.mean()),
            "extended": float((column != ABSTAIN).mean()),
            **self.right(source),
            "conflicts": self.conflicts(source),
            "weight": learned,
            "failure": next((str(each) for each in failed if each.name == source.name), None),
        }

    def right(self, source: Source) -> dict[str, Any]:
        """How often own and lent votes are right on rows labelled by hand."""
        own = np.concatenate(source.own)[self._rows]
        both = np.concatenate([self._column(source, at) for at in range(len(source.loans))])
        both, y = both[self._rows], self._y
        mine, lent = own != ABSTAIN, (own == ABSTAIN) & (both != ABSTAIN)
        return {
            "own": interval(int((own[mine] == y[mine]).sum()), int(mine.sum())),
            "lent": interval(int((both[lent] == y[lent]).sum()), int(lent.sum())),
        }

    def conflicts(self, source: Source) -> int:
        """Train rows it votes on itself on which sources name different classes."""
        return int(((self._named > 1) & (source.own[TRAIN] != ABSTAIN)).sum())

    def lent_rows(self, source: Source) -> np.ndarray:
        """Train rows that borrow its vote."""
        return np.flatnonzero(
            (source.own[TRAIN] == ABSTAIN) & (self._column(source, TRAIN) != ABSTAIN)
        )

    def _column(self, source: Source, at: int) -> np.ndarray:
        place = self._at.get(source.name)
        return source.own[at] if place is None else self.outcome.extended[at].columns[place]


def _named_classes(outcome: Outcome) -> np.ndarray:
    """How many classes the active sources name on each train row themselves; (n_rows,)."""
    workspace = outcome.workspace
    named = np.zeros((len(workspace.classes), workspace.splits[TRAIN].n_rows), dtype=bool)
    for source in workspace.active:
        own = source.own[TRAIN]
        rows = np.flatnonzero(own != ABSTAIN)
        named[own[rows], rows] = True
    return np.asarray(named.sum(axis=0))


def _distinct(source: Source) -> list[int]:
    seen = np.unique(np.concatenate(source.own))
    return [int(each) for each in seen if each != ABSTAIN]


def _learned(outcome: Outcome) -> np.ndarray | None:
    """What a label model thinks of each active source; None where the model is of another kind."""
    if outcome.problem:
        return None
    return learned_accuracy(getattr(outcome.model, "label_model_", None))


def ordered(
    rows: list[dict[str, Any]], sort: str, *, descending: bool = False
) -> list[dict[str, Any]]:
    """Lines by a column; those without a number come last either way."""
    if sort == "file":
        return rows[::-1] if descending else rows
    if sort == "name":
        return sorted(rows, key=lambda row: str(row["name"]).lower(), reverse=descending)

    def number(row: dict[str, Any]) -> float | None:
        value = row["reach"] if sort == "radius" else row[sort]
        found: float | None = value["value"] if isinstance(value, dict) else value
        return found

    known = [row for row in rows if number(row) is not None]
    rest = [row for row in rows if number(row) is None]
    return [*sorted(known, key=lambda row: number(row) or 0.0, reverse=descending), *rest]
