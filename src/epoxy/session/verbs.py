"""What a person, a page or an agent asks of a session besides its labels: rows, curves, drafts."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import ParameterError
from ..suggest.search import RowTexts, need_texts
from .edits import known
from .labels import Place
from .view import SessionView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..suggest.drafts import Draft
    from ..suggest.new_functions import FunctionSuggestion, Material
    from ..suggest.next_rows import Suggestion
    from ..suggest.search import Found, RowQuery
    from .curves import Curve
    from .session import Session
    from .state import Change


class SessionVerbs(SessionView):
    """Rows by number (train rows first, then dev rows), found, read and suggested."""

    lock: threading.RLock
    _rows: Any
    _material: Material | None = None

    @property
    def frames(self) -> Any:
        """The rows behind the splits as they were given, for functions to vote on."""
        return self._rows

    @property
    def n_rows(self) -> int:
        """Rows of all splits."""
        return sum(split.n_rows for split in self._now.state.workspace.splits)

    def place(self, number: int) -> Place:
        """The split, by position, and the row in it of a row number."""
        left = number
        if isinstance(number, int | np.integer) and not isinstance(number, bool) and number >= 0:
            for at, split in enumerate(self._now.state.workspace.splits):
                if left < split.n_rows:
                    return at, int(left)
                left -= split.n_rows
        raise ParameterError(
            f"rows are numbered from 0 to {self.n_rows - 1}, got {number!r:.60}; "
            "give a whole number of that range"
        )

    def number(self, place: Place) -> int:
        """The number of a row of a split."""
        at, row = place
        return row + sum(split.n_rows for split in self._now.state.workspace.splits[:at])

    @cached_property
    def texts(self) -> RowTexts | None:
        """The rows as a person reads them; None where the session was given none."""
        column = None if self.folder is None else self.folder.project.column
        return None if self._rows is None else RowTexts(self._rows, column)

    @property
    def file_order(self) -> np.ndarray:
        """What sorts rows as their files do, rows appended since at the end; (n_rows,)."""
        if self.folder is None or not self.rows_of_one_file:
            return np.arange(self.n_rows)
        known = self.folder.rows.positions
        end, splits = sum(map(len, known)), self._now.state.workspace.splits
        more = (end + np.arange(split.n_rows - len(at)) for at, split in zip(known, splits))
        return np.concatenate([part for both in zip(known, more) for part in both])

    def text(self, number: int) -> str:
        """The text of a row: its text column, or all cells where there is none."""
        return need_texts(self.texts).text(*self.place(number))

    def cells(self, number: int) -> dict[str, str]:
        """Every cell of a row, by column, as text."""
        return need_texts(self.texts).cells(*self.place(number))

    def curve(self, source: str, points: int = 60) -> Curve:
        """How many rows a source reaches at growing radii, and how often its lent votes are right.

        Read off the distances to the rows that lend, on rows labelled by hand; nothing is fitted.
        """
        from .curves import curve_of

        workspace = self._now.state.workspace
        return curve_of(workspace, known(workspace, source), points)

    def browse(self, query: RowQuery) -> Found:
        """The numbers of the rows that match a question, in its order, and how many each filter keeps."""
        from ..suggest.search import browse

        return browse(self, query)

    def next(
        self,
        n: int = 10,
        purpose: str = "mix",
        *,
        seed: int = 0,
        among: Sequence[int] | None = None,
        without: Iterable[int] = (),
    ) -> tuple[Suggestion, ...]:
        """Rows to look at next, each with its reason in words and what to pass as `chosen`.

        Parameters
        ----------
        purpose
            `teach` (the model is unsure of them and of rows around them), `score` (drawn at random),
            `cover` (nobody votes there), `conflict` (own votes name different classes), `check` (hand
            labels that look wrong, then votes that look wrong), or `mix`: seven that teach to three
            drawn at random.
        seed
            Settles which of rows that would tell the same comes first; what is drawn at random is the
            project's own.
        among
            Numbers of the rows to choose from, as `browse` gives them; None for all.
        without
            Numbers of rows that shall not come: those somebody skipped.
        """
        from ..suggest.next_rows import suggest

        with self.lock:
            return suggest(self, n, purpose, seed, among, without)

    @property
    def material(self) -> Material:
        """The words and halves of the rows, made when functions are first suggested."""
        from ..suggest.new_functions import Material

        if self._material is None or not self._material.fits(self._now.state.workspace):
            self._material = Material(self)
        return self._material

    def suggest(
        self,
        n: int = 5,
        *,
        label: str | None = None,
        rows: Any = None,
        conflict: bool | Sequence[str] = False,
        kinds: Sequence[str] = ("keywords", "regex", "like"),
    ) -> tuple[FunctionSuggestion, ...]:
        """Functions that could be added, each with what it would vote on and how often it is right.

        Found from hand labels, from what the model makes of other rows and from the words of the rows,
        on one half of them, and judged on the other half. Each next one counts what it adds beyond the
        functions there are and the suggestions before it. `save_function(each.definition, each.name)`
        takes one.

        Parameters
        ----------
        label
            For one class only; else classes take turns.
        rows
            For a region: numbers of the rows on which functions are wanted.
        conflict
            For rows on which sources quarrel: True, or the names of two that do.
        kinds
            Of `keywords`, `regex` and `like` those that are wanted.
        """
        from ..suggest.new_functions import suggest_functions

        with self.lock:
            return suggest_functions(
                self, n, label=label, rows=rows, conflict=conflict, kinds=kinds
            )

    def suggest_radius(self, rows: Sequence[int]) -> float:
        """A radius to begin with for `like` these rows, given by number."""
        from ..suggest.search import suggest_radius

        if not len(rows):
            raise ParameterError("a radius is suggested for rows, and none was given; give some")
        places = [self.place(int(each)) for each in rows]
        return suggest_radius(self._now.state.workspace.near, places)

    def draft(
        self, definition: Mapping[str, Any], name: str | None = None, replaces: str | None = None
    ) -> Draft:
        """What a function would do that nobody saved; nothing is kept.

        `definition` is one as `epoxy.functions.kinds` has them: words, a pattern, example rows or Python
        code. `replaces` names the source it would take the place of. What is wrong with it, and on
        which of its lines, is in the draft's `error`.
        """
        from ..suggest.drafts import draft

        with self.lock:
            return draft(cast("Session", self), definition, name, replaces)

    def save_function(
        self, definition: Mapping[str, Any], name: str, replaces: str | None = None
    ) -> Change | None:
        """Write a function to the project's lfs.py, all else in it as it is, and vote with it.

        Undo takes the function out of the file again, as long as nobody has changed the file since.
        None where it changes no vote.
        """
        from ..suggest.drafts import save

        with self.lock:
            return save(cast("Session", self), definition, name, replaces)

    def save_code(self, text: str, expecting: str) -> Change | None:
        """Write lfs.py whole, if it is still the one with the hash `expecting`, and vote with what changed.

        Code that does not run is written all the same, as by any editor: a `CodeError` says where it
        fails, and the labels stay those of the last one that ran.
        """
        from ..suggest.drafts import save_code

        with self.lock:
            return save_code(cast("Session", self), text, expecting)
