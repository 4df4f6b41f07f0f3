"""Who is nearest, for one source at a time, on every split of a session.

With a graph, an edit walks the neighbours found once and searches only what they cannot settle.
Without one (one-shot commands), every source is searched directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import neighbors
from ..extension import NOBODY, Reach
from ..label_models.kernels import borrow
from ..neighbors.column import Speakers
from ..progress import Progress, silent
from ..votes import ABSTAIN, Split, Votes
from ..weighting import Nearest, Weighting
from .versions import Source

__all__ = ["Found", "Index"]


@dataclass(frozen=True, eq=False)
class Found:
    """One source's nearest supporting train row for each row of a split, without a graph."""

    row: np.ndarray  # (n_rows,) int32, −1 for none
    distance: np.ndarray  # (n_rows,) float64, inf for none
    radius: float = np.inf  # answers are certain up to here
    n_searched: int = 0


Answer = Found | neighbors.Column


@dataclass(frozen=True, eq=False)
class Index:
    """Spaces of the splits (train first) and their graphs; None where there are no vectors."""

    spaces: tuple[neighbors.Space, ...] | None
    graphs: tuple[neighbors.Graph, ...] | None
    sizes: tuple[int, ...]
    cache: Path | None = None

    @classmethod
    def over(
        cls,
        splits: Sequence[Split],
        metric: str,
        *,
        graph: bool = True,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> Index:
        """Prepare the splits' vectors once, and their neighbours if edits are to come."""
        sizes = tuple(split.n_rows for split in splits)
        if any(split.vectors is None for split in splits):
            return cls(None, None, sizes)
        spaces = tuple(neighbors.Space(split.vectors, metric) for split in splits)
        for other in spaces[1:]:
            spaces[0].check_same_dimension(other)
        if not graph:
            return cls(spaces, None, sizes)
        first = neighbors.Graph.build(spaces[0], cache=cache, progress=progress)
        others = (first.queries(space, cache=cache) for space in spaces[1:])
        return cls(spaces, (first, *others), sizes, cache)

    def append(self, more: Split) -> Index:
        """The same index with rows added to train."""
        sizes = (self.sizes[0] + more.n_rows, *self.sizes[1:])
        if self.spaces is None:
            return Index(None, None, sizes)
        if self.graphs is None:
            return Index((self.spaces[0].append(more.vectors), *self.spaces[1:]), None, sizes)
        first = self.graphs[0].append(more.vectors, cache=self.cache)
        others = tuple(first.queries(space, cache=self.cache) for space in self.spaces[1:])
        return Index((first.train, *self.spaces[1:]), (first, *others), sizes, self.cache)

    def nobody(self, at: int) -> Found:
        """The answer for a source that has nothing to lend."""
        n = self.sizes[at]
        return Found(np.full(n, NOBODY, dtype=np.int32), np.full(n, np.inf))

    def speakers(self, support: np.ndarray) -> np.ndarray | Speakers:
        """A source's support as `reach` wants it, worked out once for all splits."""
        if self.graphs is None:
            return support
        return Speakers.of(self.graphs[0].train, support)

    def reach(self, at: int, support: Any, radius: float, old: Answer | None) -> Answer:
        """The nearest row of `support` for each row of split `at`, certain up to `radius`."""
        if self.spaces is None:
            return self.nobody(at)
        if self.graphs is None:
            onto = None if at == 0 else self.spaces[at]
            found = neighbors.nearest(self.spaces[0], support[:, None], onto)
            return Found(found.row[:, 0], found.distance[:, 0], np.inf, self.sizes[at])
        wanted = _wanted(radius)
        if isinstance(old, neighbors.Column) and old.graph is self.graphs[at]:
            return _up_to(old, wanted).voting(support).reaching(wanted)
        return neighbors.Column.of(self.graphs[at], support, radius=wanted)

    def reached(
        self, own: Sequence[np.ndarray], radius: float, old: Source | None = None
    ) -> tuple[Answer, ...]:
        """`reach` on every split, for a source with these votes; `old` is what it was before."""
        support = own[0] != ABSTAIN
        every = range(len(self.sizes))
        if not support.any() or support.all():  # nothing to lend, or sources left alone
            return tuple(self.nobody(at) for at in every)
        speakers = self.speakers(support)
        return tuple(
            self.reach(at, speakers, radius, old.reach[at] if old else None) for at in every
        )

    def widen(self, found: Answer, radius: float) -> Answer:
        """The same answer, certain up to a larger radius."""
        return found if isinstance(found, Found) else found.reaching(_wanted(radius))

    def searched(self, found: Answer) -> float:
        """Share of rows that the last step had to search directly."""
        return found.n_searched / max(1, len(found.row))

    def said(self, lent: np.ndarray, found: Answer) -> np.ndarray:
        """What the nearest row votes; anything where there is none."""
        return lent.take(found.row) if len(lent) else np.full(len(found.row), ABSTAIN, lent.dtype)

    def extend(self, at: int, source: Source, weighting: Weighting, n_classes: int) -> np.ndarray:
        """A source's votes on split `at` after extension."""
        own = source.own[at]
        nearest = borrow(own, source.said[at], source.reach[at].distance, source.radius)
        if nearest is own or isinstance(weighting, Nearest):
            return nearest
        votes = Votes(own[:, None], [source.name], [str(k) for k in range(n_classes)])
        reached = self.as_reach(at, [source], votes, weighting)
        return np.ascontiguousarray(reached.extend([source.radius]).matrix[:, 0])

    def with_radius(
        self, source: Source, radius: float, weighting: Weighting, n_classes: int
    ) -> Source:
        """The same source with another radius; searches only what lies beyond the last one asked."""
        reached = tuple(self.widen(each, radius) for each in source.reach)
        said = source.said
        if not said or reached != source.reach:
            said = tuple(self.said(source.own[0], each) for each in reached)
        heard = Source(
            source.name, source.own, reached, source.own, float(radius), source.is_on, said
        )
        every = range(len(reached))
        extended = (self.extend(at, heard, weighting, n_classes) for at in every)
        return replace(heard, extended=tuple(extended))

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
            certain=np.array([source.reach[at].radius for source in sources]),
        )


def _up_to(column: neighbors.Column, radius: float) -> neighbors.Column:
    """The same answers, certain only up to a smaller radius: what lies beyond is not kept up to date."""
    if column.radius <= radius:
        return column
    near = column.found.distance <= radius
    found = type(column.found)(
        np.where(near, column.found.row, NOBODY), np.where(near, column.found.distance, np.inf)
    )
    return replace(column, radius=radius, found=found)


def _wanted(radius: float) -> float:
    """How far an answer must be certain for a radius; nothing is asked of one that is not extended."""
    return 0.0 if np.isnan(radius) else float(radius)
