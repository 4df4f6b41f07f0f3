"""The numbers an edit touches: extended columns, and how often each two of them meet.

Counts are whole numbers, so updating them column by column gives the same bits as counting anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..label_models.kernels import encode, swap
from ..label_models.moments import Moments, moments
from ..label_models.patterns import Patterns, fits, steps_of
from ..votes import Votes

__all__ = ["Working"]

_LARGEST = (
    4000  # sources × classes up to which all pairs are kept; beyond, moments are counted anew
)
_NONE = np.empty(0, dtype=np.int32)


class Working:
    """A matrix of extended votes (sources × rows) kept in step with its pair counts."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.columns: list[np.ndarray] = []
        self.matrix = np.empty((0, 0), dtype=np.int8)  # (n_sources, n_rows)
        self.pairs = np.empty((0, 0, n_classes, n_classes), dtype=np.int64)
        self.steps = _NONE  # (n_sources,) of the numbers below; empty where there are too many
        self.codes = _NONE  # (n_rows,) number of each row's combination of votes
        self.counts = _NONE  # (n_codes,) rows that have it

    def sync(self, columns: Sequence[np.ndarray]) -> int:
        """Bring the numbers in step with `columns`; return how many columns had to be counted."""
        if not self._fits(columns):
            self._reshape(columns)
        touched = 0
        for at, column in enumerate(columns):
            if column is not self.columns[at]:
                self._replace(at, column)
                touched += 1
        return touched

    def moments(self, sources: tuple[str, ...], classes: tuple[str, ...]) -> Moments:
        """The same as `moments(votes)` of the extended votes."""
        if not self.keeps_pairs:
            return moments(Votes.of_checked(self.matrix.T.copy(order="F"), sources, classes))
        m, k = len(sources), self.n_classes
        each = np.arange(m)
        counts = self.pairs[each, each].diagonal(axis1=1, axis2=2)  # (n_sources, n_classes)
        source, named = np.nonzero(counts)
        flat = self.pairs.transpose(0, 2, 1, 3).reshape(m * k, m * k)
        at = source * k + named
        joint = flat[np.ix_(at, at)].astype(float)
        return Moments(self.matrix.shape[1], sources, classes, source, named, joint)

    @property
    def keeps_pairs(self) -> bool:
        """Whether pair counts are kept at all."""
        return len(self.columns) * self.n_classes <= _LARGEST

    def patterns(self) -> Patterns | None:
        """The same as `patterns_of` the matrix; None where there could be too many."""
        if not len(self.steps):
            return None
        code = np.flatnonzero(self.counts)
        votes = (code.astype(np.int32) // self.steps[:, None]) % (self.n_classes + 1) - 1
        return Patterns(votes.astype(self.matrix.dtype), code, self.codes, self.counts)

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
        pairs = np.zeros((m, m, k, k) if m * k <= _LARGEST else (0, 0, k, k), dtype=np.int64)
        nobody = np.full(rows, -1, dtype=dtype)
        now: list[np.ndarray] = [nobody] * m
        known = self.matrix.shape[1] == rows and (not len(pairs) or len(self.pairs))
        if kept and known:
            new, old = map(list, zip(*kept))
            matrix[new] = self.matrix[old]
            if len(pairs):
                pairs[np.ix_(new, new)] = self.pairs[np.ix_(old, old)]
            for at in new:
                now[at] = columns[at]
        self.columns, self.matrix, self.pairs = now, matrix, pairs
        self.steps = self.codes = self.counts = _NONE
        if fits(m, k, rows):
            self.steps = steps_of(m, k)
            self.codes, self.counts, _ = encode(matrix, self.steps, (k + 1) ** m)

    def _replace(self, at: int, column: np.ndarray) -> None:
        step = int(self.steps[at]) if len(self.steps) else 0
        cross = self.pairs[at].copy() if self.keeps_pairs else np.empty((0, 0, 0), dtype=np.int64)
        swap(self.matrix, at, column, cross, (self.codes, self.counts, step))
        self.columns[at] = column
        if self.keeps_pairs:
            self.pairs[at] = cross
            self.pairs[:, at] = cross.transpose(0, 2, 1)
