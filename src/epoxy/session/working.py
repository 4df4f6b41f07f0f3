"""The numbers an edit touches: extended columns, and how often each two of them meet.

Counts are whole numbers, so updating them column by column gives the same bits as counting anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..label_models.kernels import count_with
from ..label_models.moments import Moments, moments
from ..votes import Votes

__all__ = ["Working"]

_CODES = 1 << 17  # combinations of votes up to which each row keeps the number of its own
_LARGEST = (
    4000  # sources × classes up to which all pairs are kept; beyond, moments are counted anew
)


class Working:
    """A matrix of extended votes (sources × rows) kept in step with its pair counts."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.columns: list[np.ndarray] = []
        self.matrix = np.empty((0, 0), dtype=np.int8)  # (n_sources, n_rows)
        self.pairs = np.empty((0, 0, n_classes, n_classes), dtype=np.int64)
        self.codes: np.ndarray | None = None  # (n_rows,) which combination of votes a row has

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

    def patterns(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The distinct combinations of votes (n_sources, n_patterns), and which one each row has.

        Rows with the same votes have the same probabilities, and there are few such combinations:
        what is costly per row is done once for each. None where there could be too many.
        """
        if self.codes is None:
            return None
        radix = self._radix(len(self.columns))
        most = int(radix[-1]) * (self.n_classes + 1)
        used = np.flatnonzero(np.bincount(self.codes, minlength=most))
        place = np.empty(most, dtype=np.intp)
        place[used] = np.arange(len(used))
        votes = (used // radix[:, None]) % (self.n_classes + 1) - 1
        return votes.astype(self.matrix.dtype), place.take(self.codes)

    def _radix(self, n_sources: int) -> np.ndarray:
        return np.asarray((self.n_classes + 1) ** np.arange(max(1, n_sources)))

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
        if kept and self.matrix.shape[1] == rows:
            new, old = map(list, zip(*kept))
            matrix[new] = self.matrix[old]
            if len(pairs) and len(self.pairs):
                pairs[np.ix_(new, new)] = self.pairs[np.ix_(old, old)]
                for at in new:
                    now[at] = columns[at]
        self.columns, self.matrix, self.pairs = now, matrix, pairs
        self.codes = None
        if m > 0 and float(k + 1) ** m <= min(_CODES, 8 * max(1, rows)):
            self.codes = np.zeros(rows, dtype=np.intp)
            for column, step in zip(matrix, self._radix(m)):
                self.codes += (column.astype(np.intp) + 1) * step

    def _replace(self, at: int, column: np.ndarray) -> None:
        old = self.matrix[at].copy()
        rows = np.flatnonzero(old != column)
        self.matrix[at, rows] = column[rows]
        self.columns[at] = column
        if self.codes is not None:
            step = self._radix(len(self.columns))[at]
            self.codes[rows] += (column[rows].astype(np.intp) - old[rows]) * step
        if not self.keeps_pairs or not len(rows):
            return
        k = self.n_classes
        gone = count_with(self.matrix, rows, old[rows], k)
        come = count_with(self.matrix, rows, column[rows], k)
        cross = self.pairs[at] + come - gone
        cross[at] = np.diag(np.bincount(column[column >= 0], minlength=k))
        self.pairs[at] = cross
        self.pairs[:, at] = cross.transpose(0, 2, 1)
