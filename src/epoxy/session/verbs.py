"""What a person, a page or an agent asks of a session besides its labels; nothing here changes anything."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ParameterError
from .edits import known
from .records import Place
from .texts import RowTexts, need_texts
from .view import SessionView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .browsing import Found, RowQuery
    from .curves import Curve


class SessionVerbs(SessionView):
    """Rows by number (train rows first, then dev rows), found, read and suggested."""

    _rows: Any

    @property
    def n_rows(self) -> int:
        """Rows of all splits."""
        return sum(split.n_rows for split in self._state.workspace.splits)

    def place(self, number: int) -> Place:
        """The split, by position, and the row in it of a row number."""
        left = number
        if isinstance(number, int | np.integer) and not isinstance(number, bool) and number >= 0:
            for at, split in enumerate(self._state.workspace.splits):
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
        return row + sum(split.n_rows for split in self._state.workspace.splits[:at])

    @cached_property
    def texts(self) -> RowTexts | None:
        """The rows as a person reads them; None where the session was given none."""
        column = None if self.folder is None else self.folder.project.column
        return None if self._rows is None else RowTexts(self._rows, column)

    @property
    def file_order(self) -> np.ndarray:
        """What sorts rows as their files do; (n_rows,)."""
        if self.folder is None or not self.rows_of_one_file:
            return np.arange(self.n_rows)
        read = np.concatenate(self.folder.rows.positions)
        return np.concatenate([read, np.arange(len(read), self.n_rows)])

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

        workspace = self._state.workspace
        return curve_of(workspace, known(workspace, source), points)

    def browse(self, query: RowQuery) -> Found:
        """The numbers of the rows that match a question, in its order, and how many each filter keeps."""
        from .browsing import browse

        return browse(self, query)

    def suggest_radius(self, rows: Sequence[int]) -> float:
        """A radius to begin with for `like` these rows, given by number."""
        from .nearness import suggest_radius

        if not len(rows):
            raise ParameterError("a radius is suggested for rows, and none was given; give some")
        places = [self.place(int(each)) for each in rows]
        return suggest_radius(self._state.workspace.near, places)
