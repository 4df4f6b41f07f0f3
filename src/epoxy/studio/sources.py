"""The table of sources: what each covers, how right it is, whom it contradicts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import right_on
from ..engines.reporting import judging_rows
from ..label_models.label_model import learned_accuracy
from ..suggest.search import in_conflict
from ..votes import ABSTAIN
from ..workspace import TRAIN, Source
from .replies import Interval, SourceLine
from .showing import share

if TYPE_CHECKING:
    from ..engines import Outcome


class SourceTable:
    """Numbers about every source of an outcome, each made when it is first asked for, and kept."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome, self.workspace = outcome, outcome.workspace
        self._at = {name: at for at, name in enumerate(self.workspace.names)}
        self._lines: dict[str, SourceLine] = {}

    def row(self, source: Source) -> SourceLine:
        """One line of the table."""
        if source.name not in self._lines:
            self._lines[source.name] = self._line(source)
        return self._lines[source.name]

    def _line(self, source: Source) -> SourceLine:
        at = self._at.get(source.name)
        reach = None if at is None else float(self.outcome.radii[at])
        own, lent = self.right(source)
        distinct = np.unique(np.concatenate(source.own))
        return SourceLine(
            name=source.name,
            classes=[self.workspace.classes[each] for each in distinct[distinct != ABSTAIN]],
            on=source.is_on,
            heard=source.name not in self.outcome.unheard,
            radius=source.radius,
            reach=None if reach is None or np.isnan(reach) else reach,
            coverage=_share(source.own[TRAIN]),
            extended=self.extended(source),
            own=own,
            lent=lent,
            conflicts=self.conflicts(source),
            weight=None if at is None or self._learned is None else float(self._learned[at]),
        )

    def extended(self, source: Source) -> float:
        """The share of train rows with a vote of its own or a lent one."""
        return _share(self._column(source, TRAIN))

    def right(self, source: Source) -> tuple[Interval | None, Interval | None]:
        """How often own and lent votes are right, on the hand labels that tell (`judging_rows`)."""
        labels, every = self.workspace.labels, range(len(source.loans))
        both = labels.gather([self._column(source, at) for at in every])
        counted = judging_rows(labels)[0]
        told = right_on(labels.gather(source.own)[counted], both[counted], labels.labels[counted])
        return share(told["own"]), share(told["lent"])

    def conflicts(self, source: Source) -> int:
        """Train rows it votes on itself on which sources name different classes."""
        return int(np.count_nonzero(self._quarrels & (source.own[TRAIN] != ABSTAIN)))

    def lent_rows(self, source: Source) -> np.ndarray:
        """Train rows that borrow its vote."""
        return np.flatnonzero(
            (source.own[TRAIN] == ABSTAIN) & (self._column(source, TRAIN) != ABSTAIN)
        )

    def _column(self, source: Source, at: int) -> np.ndarray:
        place = self._at.get(source.name)
        return source.own[at] if place is None else self.outcome.extended[at].columns[place]

    @cached_property
    def _quarrels(self) -> np.ndarray:
        """Train rows on which active sources name different classes themselves; (n_rows,) bool."""
        own = [source.own[TRAIN] for source in self.workspace.active]
        return in_conflict(own, self.workspace.splits[TRAIN].n_rows)

    @cached_property
    def _learned(self) -> np.ndarray | None:
        """What a label model thinks of each active source; None where the model is of another kind."""
        if self.outcome.problem:
            return None
        return learned_accuracy(getattr(self.outcome.model, "label_model_", None))


def _share(votes: np.ndarray) -> float:
    return np.count_nonzero(votes != ABSTAIN) / max(1, len(votes))


def ordered(lines: list[SourceLine], sort: str, *, descending: bool = False) -> list[SourceLine]:
    """Lines by a column; those without a number come last either way."""

    def value(line: SourceLine) -> Any:
        if sort == "name":
            return line.name.lower()
        found = line.reach if sort == "radius" else getattr(line, sort)
        return found.value if isinstance(found, Interval) else found

    known = [each for each in lines if value(each) is not None]
    return sorted(known, key=value, reverse=descending) + [
        each for each in lines if value(each) is None
    ]
