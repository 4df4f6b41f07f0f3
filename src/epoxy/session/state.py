"""What a session holds at one moment, and what one edit made different."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engines import Comparison, Outcome, Scores, majority_scores, scores_of
from ..engines.scores import shown
from ..errors import AlignmentError, ParameterError, few
from ..scoring import shown_at
from ..votes import ABSTAIN, Split
from ..workspace import SPLITS, TRAIN, Workspace
from .labels import Drawn, Place, Records, with_random

if TYPE_CHECKING:
    from .edits import Edit


class RowNames:
    """Where rows are, by the file they came from and their id; equal ids mean the first row."""

    def __init__(self, files: tuple[str, ...], ids: tuple[np.ndarray, ...]) -> None:
        self.files, self._ids = files, ids
        self._places: dict[tuple[str, str], Place] | None = None

    @cached_property
    def order(self) -> Drawn:
        """All rows in the order in which they are drawn at random, the same for a project always."""
        return Drawn(self.files, self._ids)

    @classmethod
    def of(cls, splits: tuple[Split, ...], files: tuple[str, ...]) -> RowNames:
        """The names of the rows of some splits."""
        return cls(files, tuple(np.asarray(each.ids) for each, _ in zip(splits, files)))

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
class SessionState:
    """Everything decided so far; every later state leaves it as it is."""

    workspace: Workspace
    records: Records
    names: RowNames

    def with_workspace(self, workspace: Workspace) -> SessionState:
        """The same labels over another workspace."""
        return replace(self, workspace=workspace)

    @classmethod
    def begun(
        cls,
        workspace: Workspace,
        files: tuple[str, ...],
        by: Sequence[np.ndarray | None],
        reliability: Mapping[str, float],
    ) -> SessionState:
        """The rows of some files as they came: who labelled them, and how reliable labellers are."""
        records = Records.of_files(workspace, by, reliability)
        return cls.of(workspace, records, RowNames.of(workspace.splits, files))

    @classmethod
    def of(cls, workspace: Workspace, records: Records, names: RowNames) -> SessionState:
        """A workspace with the labels of some records; rows that the draw has passed are random."""
        labels = records.labels
        if labels.told_random.any():
            labels = with_random(labels, names.order)
        return cls(replace(workspace, labels=labels), records, names)

    def with_records(self, records: Records) -> SessionState:
        """The same votes with other hand labels."""
        return SessionState.of(self.workspace, records, self.names)

    def __repr__(self) -> str:
        return f"SessionState({self.workspace!r})"

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
    problem: str = ""
    edit: dict[str, Any] = field(default_factory=dict)  # what was done, as the log keeps it
    unheard: tuple[
        str, ...
    ] = ()  # of the source and those heard before: not heard by the model now
    heard: tuple[str, ...] = ()  # sources that are heard again

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        plain = {name: getattr(self, name) for name in ("version", "what", "source", "seconds")}
        plain |= {"problem": self.problem, "edit": self.edit}
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
            parts.append(f"not heard, since vectors contradict it: {few(self.unheard)}")
        if self.heard:
            parts.append(f"heard again: {few(self.heard)}")
        rows = [each.get("rows", 0.0) for each in (self.before, self.after)]
        first, second = (f" on {n:.0f} rows" if rows[0] != rows[1] else "" for n in rows)
        for name in shown_at("line"):
            if name in self.after:
                old = f"{shown(self.before[name])}{first} → " if name in self.before else ""
                parts.append(f"held-out {name} {old}{shown(self.after[name])}{second}")
        parts.append(f"{1000 * self.seconds:.1f} ms")
        return ", ".join(parts) + (f"; {self.problem}" if self.problem else "")


@dataclass(frozen=True, eq=False)
class Trial:
    """The state, the labels and the scores an edit would lead to; the session keeps nothing of it."""

    change: Change
    """The difference it would make."""
    outcome: Outcome
    """All that would follow."""
    state: SessionState
    """All that would be decided."""
    scores: Scores

    def __repr__(self) -> str:
        return f"Trial({self.change})"


MOST_STEPS = 1_000
"""Edits that can be taken back; each may hold a column of votes."""


@dataclass(frozen=True)
class Written:
    """What lfs.py held before and after this session wrote it."""

    before: bytes
    after: bytes


@dataclass(frozen=True, eq=False)
class Step:
    """One edit and the way back from it."""

    edit: Edit
    inverse: Edit
    what: str
    number: int  # in the log, or counted by the session
    written: Written | None = None  # where the edit follows from lfs.py, and this session wrote it


@dataclass(frozen=True, eq=False)
class History:
    """Steps back and forth, a value as a state is; the oldest are forgotten first."""

    past: tuple[Step, ...] = ()
    future: tuple[Step, ...] = ()

    def done(self, step: Step) -> History:
        """With an edit; what was undone before it cannot be redone any more."""
        return History((*self.past, step)[-MOST_STEPS:])

    def last(self) -> Step:
        """The step that undo takes back."""
        if not self.past:
            raise ParameterError(
                "there is no edit to undo in this session; what earlier ones decided stays until it is "
                "decided anew"
            )
        return self.past[-1]

    def next(self) -> Step:
        """The step that redo does again."""
        if not self.future:
            raise ParameterError("there is no edit to redo; undo one first")
        return self.future[-1]

    def undone(self) -> History:
        """With the last step taken back."""
        step = self.last()
        return History(self.past[:-1], (*self.future, step))

    def redone(self, number: int) -> History:
        """With the next step done again, under another number."""
        made = self.done(replace(self.next(), number=number))
        return replace(made, future=self.future[:-1])


@dataclass(frozen=True, eq=False)
class Moment:
    """All a session shows, replaced as a whole: whatever interrupts an edit, it is this one or the next."""

    state: SessionState
    outcome: Outcome
    scores: Scores
    version: int = 0  # edits seen
    number: int = 0  # the record of the log it goes up to; without a log as `version`
    history: History = History()


def compared(
    name: str, outcome: Outcome, beside: Outcome, own: Scores, positive: str | None
) -> Comparison:
    """Majority vote, the paper's pipeline (`beside`) and a model, scored on the same rows."""
    found = {"majority": majority_scores(outcome, positive)}
    if name != "epoxy":
        held = beside.held_out
        if held is not None and outcome.held_out is not None:
            missing = np.isnan(outcome.held_out).any(axis=1)
            beside = replace(beside, held_out=np.where(missing[:, None], np.nan, held))
        found["epoxy"] = scores_of(beside, positive)
    return Comparison(found | {name: own})


def change_between(old: Moment, new: Moment, edit: Edit, what: str, start: float) -> Change:
    """What an edit begun at `start` (by `time.perf_counter`) made different."""
    source = edit.about.source
    before, now = old.outcome, new.outcome
    return Change(
        version=new.version,
        what=what,
        source=source,
        flipped=_flipped(before, now),
        before=old.scores,
        after=new.scores,
        coverage=None if source is None else (_coverage(before, source), _coverage(now, source)),
        problem=now.problem,
        edit=edit.to_json(),
        unheard=tuple(each for each in now.unheard if each == source or each not in before.unheard),
        heard=tuple(
            each
            for each in before.unheard
            if each in now.workspace.names and each not in now.unheard
        ),
        seconds=time.perf_counter() - start,
    )


def _flipped(before: Outcome, now: Outcome) -> np.ndarray:
    """Train rows whose label differs."""
    if not before.labels or not now.labels:
        rows = now.workspace.splits[TRAIN].n_rows if before.labels or now.labels else 0
        return np.arange(rows)
    old, new = before.decided[TRAIN], now.decided[TRAIN]
    shared = min(len(old), len(new))
    return np.flatnonzero(old[:shared] != new[:shared])


def _coverage(outcome: Outcome, source: str) -> float:
    """Share of train rows an active source votes on after extension."""
    names = outcome.workspace.names
    if source not in names:
        return 0.0
    column: Any = outcome.extended[TRAIN].columns[names.index(source)]
    return float(np.count_nonzero(column != ABSTAIN) / max(1, len(column)))
