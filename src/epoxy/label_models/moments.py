"""What a triplet model needs to know about the votes: counts that add.

A *detector* is a source together with one class it names. `Moments` counts how often each detector
fires and how often each two fire on the same row. Nothing else about the rows is kept, so shards of
any size are summarised apart and added: `moments(a) + moments(b) == moments(a over b)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import AlignmentError
from ..votes import Votes
from . import kernels

_BLOCK = 1 << 18  # rows per float32 product: counts stay below 2**24, where float32 is exact


@dataclass(frozen=True, eq=False)
class Moments:
    """How often each detector fires, and each two of them together."""

    n_rows: int
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    source: np.ndarray  # (n_detectors,) index of the source
    named: np.ndarray  # (n_detectors,) index of the class
    # (n_detectors, n_detectors) float64, whole numbers; the diagonal counts firings
    joint: np.ndarray

    @classmethod
    def of_pairs(
        cls, n_rows: int, sources: tuple[str, ...], classes: tuple[str, ...], met: np.ndarray
    ) -> Moments:
        """From counts of every two (source, class) pairs, (m·k, m·k), named or not."""
        at = np.flatnonzero(np.diagonal(met))
        source, named = np.divmod(at, len(classes))
        return cls(n_rows, sources, classes, source, named, met[at[:, None], at].astype(float))

    @cached_property
    def solved(self) -> dict[Any, Any]:
        """What label models worked out of these counts alone, by their settings: found once for all."""
        return {}

    @cached_property
    def counts(self) -> np.ndarray:
        """Votes of each source for each class; (n_sources, n_classes)."""
        table = np.zeros((len(self.sources), len(self.classes)))
        table[self.source, self.named] = np.diagonal(self.joint)
        return table

    def spread(self) -> np.ndarray:
        """`joint` over all (source, class) pairs, zeros where a class is never named."""
        m, k = len(self.sources), len(self.classes)
        full = np.zeros((m * k, m * k))
        at = self.source * k + self.named
        full[np.ix_(at, at)] = self.joint
        return full.reshape(m, k, m, k)

    def only(self, columns: np.ndarray) -> Moments:
        """Those of some sources, in this order."""
        new = np.full(len(self.sources), -1)
        new[columns] = np.arange(len(columns))
        code = new[self.source] * len(self.classes) + self.named
        at = np.flatnonzero(new[self.source] >= 0)
        at = at[np.argsort(code[at], kind="stable")]
        names = tuple(self.sources[each] for each in columns)
        joint = self.joint[np.ix_(at, at)]
        return Moments(
            self.n_rows, names, self.classes, new[self.source[at]], self.named[at], joint
        )

    def __add__(self, other: Moments) -> Moments:
        if (self.sources, self.classes) != (other.sources, other.classes):
            raise AlignmentError(
                "moments add only for the same sources and classes; "
                f"got {list(self.sources)} and {list(other.sources)}"
            )
        k = len(self.classes)
        mine, theirs = (each.source * k + each.named for each in (self, other))
        both = np.union1d(mine, theirs)
        joint = np.zeros((len(both), len(both)))
        for at, each in ((mine, self), (theirs, other)):
            place = np.searchsorted(both, at)
            joint[np.ix_(place, place)] += each.joint
        return Moments(
            self.n_rows + other.n_rows, self.sources, self.classes, both // k, both % k, joint
        )


def moments(votes: Votes) -> Moments:
    """Summarise votes for a triplet model: by pattern where there are few, else rows × detectors²."""
    alike = votes.patterns
    if alike is not None:
        met = kernels.meet(alike.counts, votes.n_sources, votes.n_classes)
        return Moments.of_pairs(votes.n_rows, votes.sources, votes.classes, met)
    columns = votes.matrix.T  # contiguous one by one
    source, named = _detectors(columns, votes.n_classes)
    joint = np.zeros((len(source), len(source)))
    for start in range(0, votes.n_rows, _BLOCK):
        block = columns[:, start : start + _BLOCK]
        indicator = np.empty((len(source), block.shape[1]), dtype=np.float32)
        for fires, index, named_class in zip(indicator, source, named):
            np.equal(block[index], named_class, out=fires, casting="unsafe")
        joint += indicator @ indicator.T
    return Moments(votes.n_rows, votes.sources, votes.classes, source, named, joint)


def _detectors(columns: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Which sources ever name which classes, in the order of both."""
    if n_classes == 2:
        counts = np.stack([(columns == 0).any(axis=1), (columns == 1).any(axis=1)], axis=1)
    else:
        each = [np.bincount(column[column >= 0], minlength=n_classes) for column in columns]
        counts = np.array(each).reshape(-1, n_classes)
    source, named = np.divmod(np.flatnonzero(counts), n_classes)
    return source, named
