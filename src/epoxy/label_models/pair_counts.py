"""Extended columns and how often each two of them meet, kept in step column by column.

Counts are whole numbers, so updating them column by column gives the same bits as counting anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..votes import Votes
from . import kernels
from .moments import Moments, moments
from .patterns import Patterns, fits, steps_of, votes_by_code

# sources × classes up to which all pairs are kept; beyond, moments are counted anew
_LARGEST = 4000
_NONE = np.empty(0, dtype=np.int32)
_NOBODY = np.empty((0, 0, 0), dtype=np.int64)


def _runs(new: Sequence[int], old: Sequence[int]) -> list[tuple[slice, slice]]:
    """Places that moved together, as slices: where one column comes or goes there are two of them."""
    apart = [0, *(np.flatnonzero((np.diff(new) != 1) | (np.diff(old) != 1)) + 1).tolist(), len(new)]
    lengths = [(at, end - at) for at, end in pairwise(apart)]
    return [(slice(new[at], new[at] + n), slice(old[at], old[at] + n)) for at, n in lengths]


class PairCounts:
    """A matrix of extended votes (sources × rows) kept in step with its pair counts."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.columns: list[np.ndarray] = []
        self.matrix = np.empty((0, 0), dtype=np.int8)  # (n_sources, n_rows)
        self.pairs = np.empty((0, n_classes, 0, n_classes), dtype=np.int64)
        # (n_sources,) of the numbers below; empty where there are too many
        self.place_values = _NONE
        self.codes = _NONE  # (n_rows,) number of each row's combination of votes
        self.counts = _NONE  # (n_codes,) rows that have it
        self.votes = _NONE  # (n_sources, n_codes) the votes it stands for
        self._patterns: Patterns | None = None  # those that occur, once they were asked for
        self._moments: Moments | None = None  # once they were asked for, until a column changes

    def sync(self, columns: Sequence[np.ndarray]) -> int:
        """Bring the numbers in step with `columns`; return how many columns had to be counted."""
        if not self._fits(columns):
            self._reshape(columns)
        touched = [at for at, column in enumerate(columns) if column is not self.columns[at]]
        for at in touched:
            self._replace(at, columns[at])
        alike = self.patterns() if self.keeps_pairs else None
        if alike is not None:
            weight = self.counts[alike.code]
            for at in touched:
                self._set_pairs(at, kernels.meet_one(alike.votes, weight, at, self.n_classes))
        return len(touched)

    def moments(self, sources: tuple[str, ...], classes: tuple[str, ...]) -> Moments:
        """The same as `moments(votes)` of the extended votes; the same object while no column changes."""
        known = self._moments
        if known is None or (known.sources, known.classes) != (sources, classes):
            self._moments = known = self._counted(sources, classes)
        return known

    def _counted(self, sources: tuple[str, ...], classes: tuple[str, ...]) -> Moments:
        if not self.keeps_pairs:
            return moments(Votes.of_checked(self.matrix.T.copy(order="F"), sources, classes))
        size = len(sources) * self.n_classes
        met = self.pairs.reshape(size, size)
        return Moments.of_pairs(self.matrix.shape[1], sources, classes, met)

    @property
    def keeps_pairs(self) -> bool:
        """Whether pair counts are kept at all."""
        return len(self.columns) * self.n_classes <= _LARGEST

    def patterns(self) -> Patterns | None:
        """The same as `patterns_of` the matrix; None where there could be too many."""
        if self._patterns is None and len(self.place_values):
            code = np.flatnonzero(self.counts > 0)  # several times as fast as of the counts
            votes = self.votes.take(code, axis=1)
            self._patterns = Patterns(votes, code, self.codes, self.counts)
        return self._patterns

    def _fits(self, columns: Sequence[np.ndarray]) -> bool:
        rows = len(columns[0]) if columns else 0
        return self.matrix.shape == (len(columns), rows)

    def _reshape(self, columns: Sequence[np.ndarray]) -> None:
        """Make room for other columns, keeping what is known about those that stay."""
        rows = len(columns[0]) if columns else 0
        dtype = columns[0].dtype if columns else np.int8
        place = {id(column): at for at, column in enumerate(self.columns)}
        kept = [(new, place[id(c)]) for new, c in enumerate(columns) if id(c) in place]
        m, k = len(columns), self.n_classes
        matrix = np.full((m, rows), -1, dtype=dtype)
        pairs = np.zeros((m, k, m, k) if m * k <= _LARGEST else (0, k, 0, k), dtype=np.int64)
        nobody = np.full(rows, -1, dtype=dtype)
        now: list[np.ndarray] = [nobody] * m
        known = self.matrix.shape[1] == rows and (not len(pairs) or len(self.pairs))
        if kept and known:
            new, old = map(list, zip(*kept))
            matrix[new] = self.matrix[old]
            if len(pairs):
                for to, since in _runs(new, old):
                    for onto, source in _runs(new, old):
                        pairs[to, :, onto] = self.pairs[since, :, source]
            for at in new:
                now[at] = columns[at]
        self.columns, self.matrix, self.pairs = now, matrix, pairs
        self.place_values = self.codes = self.counts = self.votes = _NONE
        self._patterns = self._moments = None
        if fits(m, k, rows):
            self.place_values = steps_of(m, k)
            self.codes, self.counts, _ = kernels.encode(matrix, self.place_values, (k + 1) ** m)
            self.votes = votes_by_code(m, k).astype(dtype)

    def _replace(self, at: int, column: np.ndarray) -> None:
        """Put a column in place; where rows are not numbered, its pairs are counted by the way."""
        by_row = self.keeps_pairs and not len(self.place_values)
        cross = self.pairs[at].transpose(1, 0, 2).copy() if by_row else _NOBODY
        step = int(self.place_values[at]) if len(self.place_values) else 0
        kernels.swap(self.matrix, at, column, cross, (self.codes, self.counts, step))
        self.columns[at] = column
        self._patterns = self._moments = None
        if by_row:
            self._set_pairs(at, cross)

    def _set_pairs(self, at: int, cross: np.ndarray) -> None:
        """`cross` (n_sources, n_classes, n_classes): each vote of the column with each of every source."""
        self.pairs[at] = cross.transpose(1, 0, 2)
        self.pairs[:, :, at] = cross.transpose(0, 2, 1)
