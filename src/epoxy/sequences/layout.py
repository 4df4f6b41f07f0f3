"""Which rows follow which: sequences as slices of the rows, in windows or by id.

Sequence models read rows in order. `Layout` holds where each sequence starts and how long it is;
lengths may differ. Order is never guessed: rows that are out of order, skipped or given twice are an
error, because a chain over misordered rows still returns plausible numbers.
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

    def steps(self) -> list[np.ndarray]:
        """Rows at position 0, 1, …; sequences come longest first, so later steps are prefixes."""
        order = np.argsort(-self.lengths, kind="stable")
        starts, lengths = self.starts[order], self.lengths[order]
        alive = len(starts) - np.searchsorted(lengths[::-1], np.arange(self.longest), side="right")
        return [starts[:count] + step for step, count in enumerate(alive)]

    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Every two rows that follow each other within a sequence."""
        follows = np.flatnonzero(self.position > 0)
        return follows - 1, follows

    def cut(self, length: int) -> Layout:
        """The same rows with every sequence cut into windows of `length`, the last one shorter."""
        # a row starts a window where its position is a multiple of the length
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
        step = max(1, n_rows) if length is None else length
        starts = np.arange(0, n_rows, step)
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
    _check_adjacent(names, fresh)
    rise = np.diff(places.astype(np.int64), prepend=0)
    _check_steps(names, places, np.where(fresh, 1, rise), gaps)
    return np.cumsum(fresh | (rise > 1)) - 1


def _check_adjacent(names: np.ndarray, fresh: np.ndarray) -> None:
    found, counts = np.unique(names[fresh], return_counts=True)
    if (counts > 1).any():
        again = found[counts > 1][0].item()
        raise AlignmentError(
            f"rows of sequence {again!r} are not adjacent; sort the rows by sequence and position"
        )


def _check_steps(names: np.ndarray, places: np.ndarray, rise: np.ndarray, gaps: str) -> None:
    wrong = np.flatnonzero(rise < 1 if gaps == "split" else rise != 1)
    if not len(wrong):
        return
    row = int(wrong[0])
    name, before, now = names[row].item(), places[row - 1], places[row]
    fact = f"sequence {name!r} has position {now} on row {row} after {before}; "
    if rise[row] == 0:
        raise AlignmentError(fact + "a position was given twice; drop one of the rows")
    if rise[row] < 0:
        raise AlignmentError(fact + "rows are out of order; sort them by sequence and position")
    raise AlignmentError(
        fact + "positions are missing; add the rows, or pass gaps='split' to cut the sequence there"
    )
