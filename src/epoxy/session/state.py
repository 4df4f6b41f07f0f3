"""What a session holds at one moment, and what one edit made different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..engines.scores import shown
from ..errors import AlignmentError
from ..votes import Split
from ..workspace import SPLITS, TRAIN, Workspace
from .drawing import drawing_order, with_drawn
from .records import Place, Records


class RowNames:
    """Where rows are, by the file they came from and their id; equal ids mean the first row."""

    def __init__(self, files: tuple[str, ...], ids: tuple[np.ndarray, ...]) -> None:
        self.files, self._ids = files, ids
        self._places: dict[tuple[str, str], Place] | None = None

    @cached_property
    def order(self) -> list[Place]:
        """All rows in the order in which they are drawn at random, the same for a project always."""
        return drawing_order(self.files, self._ids)

    @classmethod
    def of(cls, splits: tuple[Split, ...], files: tuple[str, ...]) -> RowNames:
        """The names of the rows of some splits."""
        return cls(files, tuple(np.asarray(split.ids) for split in splits))

    def name(self, place: Place) -> tuple[str, str]:
        """File and id of a row."""
        at, row = place
        return self.files[at], str(self._ids[at][row])

    def find(self, file: str, row: str) -> Place | None:
        """The row of that name, None if there is none."""
        if self._places is None:
            self._places = {
                (name, str(each)): (at, number)
                for at, (name, ids) in reversed(list(enumerate(zip(self.files, self._ids))))
                for number, each in reversed(list(enumerate(ids.tolist())))
            }
        return self._places.get((file, row))

    def place(self, at: int, row: Any) -> Place:
        """A row of split `at`, given by id, or by position when ids are not what was given."""
        found = self.find(self.files[at], str(row))
        if found is not None and found[0] == at:
            return found
        ids = self._ids[at]
        if found is None and isinstance(row, int | np.integer) and 0 <= row < len(ids):
            return at, int(row)
        for file in self.files:
            if (place := self.find(file, str(row))) is not None:
                name = SPLITS[place[0]]
                raise AlignmentError(f"row {str(row)!r} is a {name} row; add split={name!r}")
        raise AlignmentError(
            f"no row {row!r} in this split of {len(ids)} rows; "
            f"give one of its ids (the first is {ids.tolist()[0] if len(ids) else '–'!r}) or a position"
        )


@dataclass(frozen=True, eq=False)
class State:
    """Everything decided so far; every later state leaves it as it is."""

    workspace: Workspace
    records: Records
    names: RowNames

    def with_workspace(self, workspace: Workspace) -> State:
        """The same labels over another workspace."""
        return replace(self, workspace=workspace)

    @classmethod
    def begun(
        cls,
        workspace: Workspace,
        files: tuple[str, ...],
        by: Sequence[np.ndarray | None],
        reliability: Mapping[str, float],
    ) -> State:
        """The rows of some files as they came: who labelled them, and how reliable labellers are."""
        records = Records.of_files(workspace, by, reliability)
        return cls.of(workspace, records, RowNames.of(workspace.splits, files))

    @classmethod
    def of(cls, workspace: Workspace, records: Records, names: RowNames) -> State:
        """A workspace with the labels of some records; rows that the draw has passed are random."""
        labels = records.labels
        if labels.told_random.any():
            labels = with_drawn(labels, names.order)
        return cls(replace(workspace, labels=labels), records, names)

    def with_records(self, records: Records) -> State:
        """The same votes with other hand labels."""
        return State.of(self.workspace, records, self.names)

    def __repr__(self) -> str:
        return f"State({self.workspace!r})"

    @property
    def n_train(self) -> int:
        """Number of train rows."""
        return self.workspace.splits[TRAIN].n_rows


@dataclass(frozen=True, eq=False)
class Change:
    """The difference one edit made."""

    version: int
    what: str
    source: str | None
    flipped: np.ndarray  # train rows whose label changed
    before: dict[str, float]  # scores
    after: dict[str, float]
    coverage: tuple[float, float] | None  # of the source after extension, before and after
    seconds: float  # the whole edit, from call to return
    searched: float  # share of rows that had to be searched directly
    problem: str = ""
    edit: dict[str, Any] = field(default_factory=dict)  # what was done, as the log keeps it
    unheard: tuple[
        str, ...
    ] = ()  # of the source and those heard before: not heard by the model now
    heard: tuple[str, ...] = ()  # sources that are heard again

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        plain = {name: getattr(self, name) for name in ("version", "what", "source", "seconds")}
        plain |= {"searched": self.searched, "problem": self.problem, "edit": self.edit}
        plain |= {"flipped": self.flipped.tolist(), "before": dict(self.before)}
        coverage = None if self.coverage is None else list(self.coverage)
        plain |= {"unheard": list(self.unheard), "heard": list(self.heard)}
        return plain | {"after": dict(self.after), "coverage": coverage}

    def __repr__(self) -> str:
        return f"Change({self})"

    def __str__(self) -> str:
        parts = [f"{self.what}: {len(self.flipped)} label{'s' * (len(self.flipped) != 1)} changed"]
        if self.coverage is not None:
            before, after = self.coverage
            parts.append(f"coverage of {self.source} {before:.1%} → {after:.1%}")
        if self.unheard:
            parts.append(f"not heard, since vectors contradict it: {_few(self.unheard)}")
        if self.heard:
            parts.append(f"heard again: {_few(self.heard)}")
        rows = [each.get("rows", 0.0) for each in (self.before, self.after)]
        first, second = (f" on {n:.0f} rows" if rows[0] != rows[1] else "" for n in rows)
        for name in ("accuracy", "f1"):
            if name in self.after:
                old = f"{shown(self.before[name])}{first} → " if name in self.before else ""
                parts.append(f"held-out {name} {old}{shown(self.after[name])}{second}")
        parts.append(f"{1000 * self.seconds:.1f} ms")
        return ", ".join(parts) + (f"; {self.problem}" if self.problem else "")


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + f" and {len(names) - 5} more" * (len(names) > 5)
