"""Who is nearest, for one source at a time, on every split of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import neighbors
from ..extension import NOBODY, Reach
from ..progress import Progress, silent
from ..votes import ABSTAIN, Split, Votes
from ..weighting import Nearest, Weighting
from .versions import Source

__all__ = ["Found", "Index"]


@dataclass(frozen=True, eq=False)
class Found:
    """One source's nearest supporting train row for each row of a split."""

    row: np.ndarray  # (n_rows,) int32, −1 for none
    distance: np.ndarray  # (n_rows,) float64, inf for none
    searched: float = 0.0  # share of rows that had to be searched directly


@dataclass(frozen=True, eq=False)
class Index:
    """Spaces of the splits (train first), None where there are no vectors."""

    spaces: tuple[neighbors.Space, ...] | None
    sizes: tuple[int, ...]

    @classmethod
    def over(cls, splits: Sequence[Split], metric: str, progress: Progress = silent) -> Index:
        """Prepare the splits' vectors once."""
        sizes = tuple(split.n_rows for split in splits)
        if any(split.vectors is None for split in splits):
            return cls(None, sizes)
        return cls(tuple(neighbors.Space(split.vectors, metric) for split in splits), sizes)

    def append(self, more: Split) -> Index:
        """The same index with rows added to train."""
        sizes = (self.sizes[0] + more.n_rows, *self.sizes[1:])
        if self.spaces is None:
            return Index(None, sizes)
        train = self.spaces[0]
        grown = neighbors.Space(np.concatenate([train.vectors, more.vectors]), train.metric.name)
        return Index((grown, *self.spaces[1:]), sizes)

    def nobody(self, at: int) -> Found:
        """The answer for a source that has nothing to lend."""
        n = self.sizes[at]
        return Found(np.full(n, NOBODY, dtype=np.int32), np.full(n, np.inf))

    def reach(self, at: int, support: np.ndarray, radius: float, old: Found | None) -> Found:
        """The nearest row of `support` for each row of split `at`, right up to `radius`."""
        if self.spaces is None:
            return self.nobody(at)
        onto = None if at == 0 else self.spaces[at]
        found = neighbors.nearest(self.spaces[0], support[:, None], onto)
        return Found(found.row[:, 0], found.distance[:, 0], 1.0)

    def widen(self, at: int, found: Found, radius: float) -> Found:
        """The same answer, right up to a larger radius."""
        return found

    def searched(self, found: Found) -> float:
        """Share of rows that had to be searched directly for this answer."""
        return found.searched

    def extend(
        self,
        at: int,
        own: np.ndarray,
        lent: np.ndarray,
        found: Found,
        radius: float,
        weighting: Weighting,
        n_classes: int,
    ) -> np.ndarray:
        """One source's votes on split `at` after extension."""
        with np.errstate(invalid="ignore"):
            within = (own == ABSTAIN) & (found.distance <= radius)
        if not within.any():
            return own
        if isinstance(weighting, Nearest):
            return np.where(within, lent[np.maximum(found.row, 0)], own)
        reached = self._reach_of(at, own, lent, found, weighting, n_classes)
        return np.ascontiguousarray(reached.extend([radius]).matrix[:, 0])

    def as_reach(
        self, at: int, sources: Sequence[Source], votes: Votes, weighting: Weighting
    ) -> Reach:
        """The answers of several sources as one `Reach`."""
        own = votes.cast
        lent = np.stack([source.own[0] for source in sources], axis=1)
        row = np.stack([source.reach[at].row for source in sources], axis=1)
        distance = np.stack([source.reach[at].distance for source in sources], axis=1)
        said = np.take_along_axis(lent, np.maximum(row, 0).astype(np.intp), axis=0)
        itself = np.arange(len(own), dtype=np.int32)[:, None] if at == 0 else np.int32(NOBODY)
        return Reach(
            votes=votes,
            nearest=np.where(own, votes.matrix, np.where(row >= 0, said, ABSTAIN)),
            distance=np.where(own, 0.0, distance),
            lender=np.where(own, itself, row),
            weighting=weighting,
            spaces=None if self.spaces is None else (self.spaces[0], self.spaces[at]),
            lent=Votes(lent, votes.sources, votes.classes),
        )

    def _reach_of(
        self,
        at: int,
        own: np.ndarray,
        lent: np.ndarray,
        found: Found,
        weighting: Weighting,
        n_classes: int,
    ) -> Reach:
        classes = [str(k) for k in range(n_classes)]
        votes = Votes(own[:, None], ["source"], classes)
        source: Any = Source("source", (lent,), (found,) * (at + 1), (own,), 0.0)
        return self.as_reach(at, [source], votes, weighting)
