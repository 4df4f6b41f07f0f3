"""Which rows follow which: sequences as slices of the rows, in windows or by id.

Order is never guessed: rows that are out of order, skipped or given twice are an error, because a
chain over misordered rows still returns plausible numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import AlignmentError, ParameterError
from ..votes import Votes


@dataclass(frozen=True, eq=False)
class Layout:
    """Sequences of adjacent rows: sequence s holds rows starts[s], …, starts[s] + lengths[s] − 1."""

    starts: np.ndarray  # (n_sequences,)
    lengths: np.ndarray  # (n_sequences,) all at least 1

    @property
    def n_rows(self) -> int:
        """Number of rows in all sequences together."""
        return int(self.lengths.sum())

    @property
    def longest(self) -> int:
        """Length of the longest sequence, 0 when there is none."""
        return int(self.lengths.max(initial=0))

    @property
    def number(self) -> np.ndarray:
        """The sequence each row belongs to, from 0; (n_rows,)."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def position(self) -> np.ndarray:
        """Place of each row in its sequence, from 0; (n_rows,)."""
        return np.asarray(np.arange(self.n_rows) - np.repeat(self.starts, self.lengths))

    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Every two rows that follow each other within a sequence."""
        follows = np.flatnonzero(self.position > 0)
        return follows - 1, follows

    def cut(self, length: int) -> Layout:
        """The same rows with every sequence cut into windows of `length`, the last one shorter."""
        starts = np.flatnonzero(self.position % length == 0)
        return Layout(starts, np.diff(np.r_[starts, self.n_rows]))

    def only_whole(self, length: int) -> Layout:
        """The sequences of exactly this length."""
        keep = self.lengths == length
        return Layout(self.starts[keep], self.lengths[keep])


def layout_of(votes: Votes, length: int | None) -> Layout:
    """Sequences named by the votes; else windows of `length` rows, the last one shorter; else one."""
    n_rows = votes.n_rows
    if votes.sequences is not None:
        ids = votes.sequences
        starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if n_rows else np.empty(0, int)
    else:
        starts = np.arange(0, n_rows, max(1, n_rows) if length is None else length)
    return Layout(starts, np.diff(np.r_[starts, n_rows]))


def sequence_ids(ids: Any, positions: Any, *, gaps: str = "error") -> np.ndarray:
    """Check that rows are in order and return ids fit for `Votes(..., sequences=ids)`.

    Parameters
    ----------
    ids
        The sequence each row belongs to.
    positions
        The place of each row in its sequence, whole numbers that rise by one.
    gaps
        "error" refuses a sequence that skips a position; "split" starts a new sequence there, so
        that rows on both sides of a gap do not count as neighbours.

    Examples
    --------
    >>> sequence_ids(["a", "a", "b"], [0, 1, 0]).tolist()
    [0, 0, 1]
    >>> sequence_ids(["a", "a", "a"], [0, 1, 5], gaps="split").tolist()
    [0, 0, 1]
    """
    if gaps not in ("error", "split"):
        raise ParameterError(f"gaps={gaps!r} is not known; expected 'error' or 'split'")
    names, places = np.asarray(ids), np.asarray(positions)
    if names.ndim != 1 or names.shape != places.shape:
        raise AlignmentError(
            f"sequences need one id and one position per row, got shapes {names.shape} and "
            f"{places.shape}"
        )
    if places.dtype.kind not in "iu":
        raise AlignmentError(f"positions are whole numbers, got dtype {places.dtype}; count frames")
    fresh = np.r_[True, names[1:] != names[:-1]] if len(names) else np.empty(0, bool)
    found, counts = np.unique(names[fresh], return_counts=True)
    if (counts > 1).any():
        raise AlignmentError(
            f"rows of sequence {found[counts > 1][0].item()!r} are not adjacent; "
            "sort the rows by sequence and position"
        )
    rise = np.where(fresh, 1, np.diff(places.astype(np.int64), prepend=0))
    wrong = np.flatnonzero((rise < 1) | ((rise > 1) & (gaps == "error")))
    if len(wrong):
        row = int(wrong[0])
        what = (
            "a position was given twice; drop one of the rows"
            if rise[row] == 0
            else "rows are out of order; sort them by sequence and position"
            if rise[row] < 0
            else "positions are missing; add the rows, or pass gaps='split' to cut the sequence there"
        )
        raise AlignmentError(
            f"sequence {names[row].item()!r} has position {places[row]} on row {row} after "
            f"{places[row - 1]}; {what}"
        )
    return np.cumsum(fresh | (rise > 1)) - 1
