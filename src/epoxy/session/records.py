"""Hand labels as records: who gave which label to which row, and how the row was chosen.

A row may carry several records, one per labeller. Their consensus is what models learn from: the
person at the keyboard (no name) is trusted and settles it; without one, labellers are weighed by the
log-odds of their reliability, and the label is fallible: it teaches, and never overrides a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..votes import ABSTAIN
from ..workspace import HandLabels

__all__ = ["Record", "Records"]

UNTOLD = 0.9
"""How often a labeller is right whose reliability nobody told."""


@dataclass(frozen=True)
class Record:
    """One label by one labeller."""

    label: int
    by: str | None = None
    chosen: str | None = None
    at: float = 0.0  # seconds since 1970; 0 for labels that came with a file

    def to_json(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """The record with its class by name."""
        return {"label": classes[self.label], "by": self.by, "chosen": self.chosen, "at": self.at}


Place = tuple[int, int]
"""Number of the split, and row in it."""


@dataclass(frozen=True, eq=False)
class Records:
    """Records of the rows that were labelled since the splits were read, and their consensus."""

    labels: HandLabels
    rows: Mapping[Place, tuple[Record, ...]] = field(default_factory=dict)
    reliability: Mapping[str, float] = field(default_factory=dict)

    def of(self, place: Place) -> tuple[Record, ...]:
        """The records of one row, those that came with a file included."""
        if place in self.rows:
            return self.rows[place]
        at, row = place
        label = int(self.labels.y[at][row])
        if label == ABSTAIN:
            return ()
        return (Record(label, None, self.labels.chosen[at][row]),)

    def by(self, place: Place, by: str | None) -> Record | None:
        """What one labeller said of a row."""
        return next((each for each in self.of(place) if each.by == by), None)

    def replaced(self, place: Place, by: str | None, record: Record | None) -> Records:
        """The same with one labeller's record of a row replaced, or with None taken back."""
        kept = tuple(each for each in self.of(place) if each.by != by)
        now = kept if record is None else (*kept, record)
        at, row = place
        labels = self.labels.with_label(at, row, *self._consensus(now))
        return replace(self, labels=labels, rows={**self.rows, place: now})

    def grown(self, n_rows: int) -> Records:
        """The same with unlabelled rows at the end of train."""
        return replace(self, labels=self.labels.grown(n_rows))

    def _consensus(self, records: tuple[Record, ...]) -> tuple[int, str | None, float]:
        """The label, how its row was chosen, and how often such a label is wrong."""
        trusted = [each for each in records if self._trusts(each.by)]
        if trusted:
            last = trusted[-1]
            return last.label, last.chosen, 0.0
        if not records:
            return ABSTAIN, None, 0.0
        weight: dict[int, float] = {}
        for each in records:
            right = min(max(self.reliability.get(each.by or "", UNTOLD), 0.01), 0.99)
            weight[each.label] = weight.get(each.label, 0.0) + math.log(right / (1 - right))
        best = max(sorted(weight), key=lambda label: weight[label])
        against = sum(math.exp(value) for label, value in weight.items() if label != best)
        right = math.exp(weight[best]) / (math.exp(weight[best]) + max(against, 1.0))
        return best, records[-1].chosen, max(1 - right, 0.01)

    def _trusts(self, by: str | None) -> bool:
        return by is None or self.reliability.get(by, 0.0) >= 1.0
