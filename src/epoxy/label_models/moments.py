"""What a triplet model needs to know about the votes: counts that add.

A *detector* is a source together with one class it names. `Moments` counts how often each detector
fires and how often each two fire on the same row. Nothing else about the rows is kept, so shards of
any size are summarised apart and added: `moments(a) + moments(b) == moments(a over b)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import AlignmentError
from ..votes import Votes

__all__ = ["Moments", "moments"]

_BLOCK = 1 << 18  # rows per float32 product: counts stay below 2**24, where float32 is exact


@dataclass(frozen=True, eq=False)
class Moments:
    """How often each detector fires, and each two of them together."""

    n_rows: int
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    source: np.ndarray  # (n_detectors,) index of the source
    named: np.ndarray  # (n_detectors,) index of the class
    joint: (
        np.ndarray
    )  # (n_detectors, n_detectors) float64, whole numbers; the diagonal counts firings

    @property
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
    """Summarise votes for a triplet model; cost grows with rows × detectors²."""
    fires = [
        (index, named)
        for index, column in enumerate(votes.matrix.T)
        for named in np.flatnonzero(np.bincount(column[column >= 0], minlength=votes.n_classes))
    ]
    source = np.array([each[0] for each in fires], dtype=np.int64)
    named = np.array([each[1] for each in fires], dtype=np.int64)
    joint = np.zeros((len(fires), len(fires)))
    for start in range(0, votes.n_rows, _BLOCK):
        block = votes.matrix[start : start + _BLOCK]
        indicator = (block[:, source] == named).astype(np.float32)
        joint += indicator.T @ indicator
    return Moments(votes.n_rows, votes.sources, votes.classes, source, named, joint)
