"""Rows that say the same have the same answer: votes as a few distinct combinations.

A combination of votes is a number in base 1 + n_classes, one digit per source, so with ten sources
and two classes there are 59,049 of them however many rows there are, and real votes use some
hundreds. What is costly per row (pair counts, log-odds, exponentials) is done once for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from . import kernels

_LARGEST = 1 << 17  # combinations up to which every row keeps the number of its own
_PER_ROW = 8  # and up to so many for each row: beyond, the tables cost more than the rows


@dataclass(frozen=True, eq=False)
class Patterns:
    """The combinations of votes that occur, and which one each row has."""

    votes: np.ndarray  # (n_sources, n_patterns)
    code: np.ndarray  # (n_patterns,) the number of each
    codes: np.ndarray  # (n_rows,) int32, the number of each row's combination
    counts: np.ndarray  # (n_codes,) rows that have it

    def spread(self, answers: np.ndarray) -> np.ndarray:
        """Probabilities of the patterns, (n_patterns, n_classes), as those of the rows."""
        if answers.shape[1] == 2:
            table = np.empty(len(self.counts))
            table[self.code] = answers[:, 1]
            return kernels.look_up_pairs(table, self.codes)
        table = np.empty((len(self.counts), answers.shape[1]))
        table[self.code] = answers
        return np.asarray(table.take(self.codes, axis=0))


def fits(n_sources: int, n_classes: int, n_rows: int) -> bool:
    """Whether so many sources and classes have few enough combinations for so many rows."""
    if not n_sources or not n_rows:
        return False
    # by logarithms: a power of a thousand sources is no number any more
    return n_sources * math.log(n_classes + 1) <= math.log(min(_LARGEST, _PER_ROW * n_rows))


def steps_of(n_sources: int, n_classes: int) -> np.ndarray:
    """What one more in a source's vote adds to the number of a combination; (n_sources,)."""
    return np.asarray((n_classes + 1) ** np.arange(n_sources), dtype=np.int32)


def votes_by_code(n_sources: int, n_classes: int) -> np.ndarray:
    """The votes that each number of a combination stands for; (n_sources, n_codes)."""
    codes = np.arange((n_classes + 1) ** n_sources, dtype=np.int32)
    return np.asarray(codes // steps_of(n_sources, n_classes)[:, None] % (n_classes + 1) - 1)


def patterns_of(columns: np.ndarray, n_classes: int) -> Patterns | None:
    """The patterns of votes given as (n_sources, n_rows); None where there could be too many."""
    n_sources, n_rows = columns.shape
    if not fits(n_sources, n_classes, n_rows):
        return None
    n_codes = (n_classes + 1) ** n_sources
    codes, counts, seen = kernels.encode(columns, steps_of(n_sources, n_classes), n_codes)
    code = np.flatnonzero(counts > 0)  # several times as fast as of the counts
    votes = columns.take(seen[code], axis=1)
    return Patterns(votes, code, codes, counts)
