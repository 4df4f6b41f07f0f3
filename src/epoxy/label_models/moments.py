"""What a triplet model needs to know about the votes: counts that add.

A *detector* is a source together with one class it names. `Moments` counts how often each detector
fires and how often each two fire on the same row. Nothing else about the rows is kept, so shards of
any size are summarised apart and added: `moments(a) + moments(b) == moments(a over b)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import AlignmentError
from ..votes import Votes


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
    """Summarise votes for a triplet model; once for a value, which never changes."""
    kept = vars(votes)
    if "_moments" not in kept:
        about = votes.n_rows, votes.sources, votes.classes
        kept["_moments"] = moments_of(votes.matrix.T, *about)
    found: Moments = kept["_moments"]
    return found


def moments_of(
    columns: Sequence[np.ndarray] | np.ndarray,
    n_rows: int,
    sources: tuple[str, ...],
    classes: tuple[str, ...],
) -> Moments:
    """The same of votes given source by source: who fires where is a row of bits, and bits are counted."""
    n_classes, width = len(classes), -(-n_rows // 64)
    named = np.arange(n_classes)[:, None]
    bits = np.zeros((len(sources) * n_classes, 8 * width), dtype=np.uint8)
    for at, column in enumerate(columns):
        fires = np.packbits(column == named.astype(column.dtype), axis=1)
        bits[at * n_classes : (at + 1) * n_classes, : fires.shape[1]] = fires
    words = bits.view(np.uint64)
    code = np.flatnonzero(words.any(axis=1))
    words = words[code]
    joint = np.empty((len(code), len(code)))
    for at, word in enumerate(words):
        joint[at, at:] = np.bitwise_count(word & words[at:]).sum(axis=1)
        joint[at:, at] = joint[at, at:]
    source, by_class = np.divmod(code, n_classes)
    return Moments(n_rows, sources, classes, source, by_class, joint)
