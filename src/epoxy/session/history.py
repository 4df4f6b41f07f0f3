"""The way back: edits done and undone, bounded by the memory they hold."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from ..errors import ParameterError
from .edits import Edit

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


class History:
    """Steps back and forth; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._past: deque[Step] = deque()
        self._future: list[Step] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._past)

    def done(self, step: Step) -> None:
        """Remember an edit; what was undone before it cannot be redone any more."""
        self._future.clear()
        self._push(step)

    def last(self) -> Step:
        """The step that undo takes back."""
        if not self._past:
            raise ParameterError("there is no edit to undo")
        return self._past[-1]

    def next(self) -> Step:
        """The step that redo does again."""
        if not self._future:
            raise ParameterError("there is no edit to redo; undo one first")
        return self._future[-1]

    def undone(self) -> None:
        """The last step was taken back."""
        step = self._past.pop()
        self._bytes -= step.nbytes
        self._future.append(step)

    def redone(self, number: int) -> None:
        """The next step was done again, under another number."""
        self._push(replace(self._future.pop(), number=number))

    def clear(self) -> None:
        """Make the current state the one that undo stops at."""
        self._past.clear()
        self._future.clear()
        self._bytes = 0

    def _push(self, step: Step) -> None:
        self._past.append(step)
        self._bytes += step.nbytes
        while len(self._past) > 1 and (self._bytes > MOST_BYTES or len(self._past) > MOST_STEPS):
            self._bytes -= self._past.popleft().nbytes
