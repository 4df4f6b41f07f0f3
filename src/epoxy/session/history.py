"""What a session holds at one moment, and the way back, bounded by the memory it holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..engines import Outcome, Scores
from ..errors import ParameterError
from .edits import Edit
from .state import State

MOST_BYTES = 32 << 20
MOST_STEPS = 10_000


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

    @property
    def nbytes(self) -> int:
        """Memory it holds."""
        file = self.written
        held = 0 if file is None else len(file.before) + len(file.after)
        return self.edit.nbytes + self.inverse.nbytes + held


@dataclass(frozen=True, eq=False)
class History:
    """Steps back and forth, a value as a state is; the oldest are forgotten first."""

    past: tuple[Step, ...] = ()
    future: tuple[Step, ...] = ()
    nbytes: int = 0  # of the past

    def done(self, step: Step) -> History:
        """With an edit; what was undone before it cannot be redone any more."""
        past, held = (*self.past, step), self.nbytes + step.nbytes
        while len(past) > 1 and (held > MOST_BYTES or len(past) > MOST_STEPS):
            held -= past[0].nbytes
            past = past[1:]
        return History(past, (), held)

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
        return History(self.past[:-1], (*self.future, step), self.nbytes - step.nbytes)

    def redone(self, number: int) -> History:
        """With the next step done again, under another number."""
        made = self.done(replace(self.next(), number=number))
        return replace(made, future=self.future[:-1])


@dataclass(frozen=True, eq=False)
class Moment:
    """All a session shows, replaced as a whole: whatever interrupts an edit, it is this one or the next."""

    state: State
    outcome: Outcome
    scores: Scores
    version: int = 0  # edits seen
    number: int = 0  # the record of the log it goes up to; without a log as `version`
    history: History = History()
