"""The rows of a session as a person reads them, and found by their words.

Rows are numbered through all splits: train rows first, then dev rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import FrameError, ParameterError
from ..rows import TEXT, Rows

_WORDS = re.compile(r'"([^"]+)"|(\S+)')


class RowTexts:
    """The cells behind the splits; lower-cased texts are kept, so that every search after one is quick."""

    def __init__(self, frames: Any, column: str | None = None) -> None:
        given = frames if isinstance(frames, tuple) else (frames,)
        self._parts = [Rows.of(each) for each in given]
        self._lower: list[list[Any]] | None = None
        named = (column, TEXT) if column is not None else (TEXT,)
        known = self._parts[0].names
        self.column = next((name for name in named if name in known), None)
        """The column that holds the text of a row; None where there is none of that kind."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._parts[0].names

    def cells(self, at: int, row: int) -> dict[str, str]:
        """Every cell of a row as text; empty where it is missing or the row came without cells."""
        if at >= len(self._parts) or row >= self._parts[at].n_rows:
            return {}
        frame = self._parts[at].frame
        return dict(zip(frame.columns, map(_shown, frame.row(row))))

    def text(self, at: int, row: int) -> str:
        """The text of a row: the text column, or else all cells by name."""
        cells = self.cells(at, row)
        if self.column is not None:
            return cells.get(self.column, "")
        return ", ".join(f"{name} {value}" for name, value in cells.items() if value)

    def texts(self, at: int) -> list[str]:
        """The text column of every row that came with cells, read at once."""
        if self.column is None or at >= len(self._parts):
            return []
        return [_shown(each) for each in self._parts[at].series(self.column).to_list()]

    def found(self, words: str, sizes: Sequence[int]) -> np.ndarray:
        """Rows that hold every word, in any case; "quoted words" are one; (sum of sizes,) bool."""
        import pyarrow.compute as pc

        wanted = [(phrase or word).lower() for phrase, word in _WORDS.findall(words)]
        found = []
        for texts, size in zip(self._lowered(), sizes):
            mask = np.ones(size, dtype=bool)
            for word in wanted:
                hits = np.zeros(size, dtype=bool)
                for each in texts:
                    match = pc.match_substring(each, word).fill_null(False)
                    hits[: len(match)] |= match.to_numpy(zero_copy_only=False)
                mask &= hits
            found.append(mask)
        return np.concatenate(found)

    def column_texts(self) -> list[list[str]] | None:
        """The text column of each split, "" where a text is missing; None where there is no such column."""
        if self.column is None:
            return None
        return [[each or "" for each in p.texts(self.column).to_pylist()] for p in self._parts]

    def _lowered(self) -> list[list[Any]]:
        """The texts of each split in lower case: of the text column, or of every column of texts."""
        import pyarrow.compute as pc

        if self._lower is None:
            names = self.columns if self.column is None else (self.column,)
            self._lower = []
            for part in self._parts:
                texts = []
                for name in names:
                    try:
                        texts.append(pc.utf8_lower(part.texts(name)))
                    except FrameError:  # not a column of texts
                        continue
                self._lower.append(texts)
        return self._lower


def need_texts(texts: RowTexts | None) -> RowTexts:
    """The rows, or what to do where a session was given none."""
    if texts is None:
        raise ParameterError(
            "rows are read and searched by their cells, and this session was given none; "
            "give them: Session(train, dev, rows=(train_frame, dev_frame))"
        )
    return texts


def _shown(value: Any) -> str:
    if value is None or value != value or isinstance(value, bytes):
        return ""
    return str(value)
