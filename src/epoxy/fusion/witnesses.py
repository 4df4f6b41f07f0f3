"""The support of the sources of a session: what depends on a source's own votes is kept between edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..workspace import TRAIN
from . import evidence as ev
from .regions import VOICES
from .support import (
    Around,
    Lesson,
    Line,
    Named,
    Regress,
    Sight,
    Supported,
    directions,
    judged,
    left_out,
    lessons_of,
)
from .vectors import Regressed, Vectors


@dataclass(frozen=True, eq=False)
class _Known:
    """What depends on one source's votes and on vectors alone."""

    column: np.ndarray
    named: Named
    count: np.ndarray
    toward: list[np.ndarray]  # for each reading
    pull: np.ndarray  # of all readings, side by side


class Witnesses:
    """The support of the sources of a session."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._sights: _Sights | None = None

    def judged(
        self,
        columns: Mapping[str, np.ndarray],
        votes: np.ndarray,
        vectors: Vectors,
        regress: Regress,
        first: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which sources are heard, and the support of each; at `first` some of them are.

        `columns` are the votes of each source on train rows, and `votes` the same as one table.
        """
        if self._sights is None or self._sights.vectors is not vectors:
            self._sights, self._known = _Sights.of(vectors), {}
        sights, n_rows = self._sights, votes.shape[1]
        self._known = {name: self._of(sights, name, own) for name, own in columns.items()}
        given = tuple(self._known.values())

        def ask(kept: np.ndarray) -> list[Supported] | None:
            prior, taught = regress(kept)
            if not taught.tells:
                return None
            counts = ev.vote_counts(votes if kept.all() else votes[kept], len(prior))
            lessons, base, found = sights.lessons(taught), taught.readout.base, []
            for each, teaches in zip(given, kept):
                moved, total = np.zeros(each.pull.shape[1]), np.zeros(len(prior))
                if teaches:
                    moved, total = left_out(each.named, each.pull, counts, prior)
                about, less = (each.named.classes, each.count, each.toward), total / n_rows
                found.append(Supported.of(*about, lessons, moved, base + less, less))
            return found

        return judged(first, len(regress(first)[0]), ask)

    def _of(self, sights: _Sights, name: str, column: np.ndarray) -> _Known:
        known = self._known.get(name)
        if known is not None and known.column is column:
            return known
        named = Named.of(column)
        count = named.count
        toward = [
            directions(named.added(sight, len(inverse)), count, inverse)
            for sight, inverse in zip(sights.sights, sights.inverses)
        ]
        pull = [sight.pull(named.rows, each) for sight, each in zip(sights.sights, toward)]
        return _Known(column, named, count, toward, np.hstack(pull))


@dataclass(frozen=True, eq=False)
class _Sights:
    """Train rows as either reading sees them."""

    vectors: Vectors
    sights: list[Sight]
    whole: list[np.ndarray]  # φ of all rows, summed
    inverses: list[np.ndarray]  # what makes directions of means

    @classmethod
    def of(cls, vectors: Vectors) -> _Sights:
        at = vectors.regions[TRAIN]
        sights: list[Sight] = [Line(vectors.features.matrix)]
        if at is not None:
            sights.append(Around(at, len(vectors.view.landmarks)))
        every = np.arange(len(vectors.features.matrix))
        whole = [each.added(every) for each in sights]
        inverses = [vectors.features.inverse, *(1 / (each + VOICES) for each in whole[1:])]
        return cls(vectors, sights, whole, inverses)

    def lessons(self, taught: Regressed) -> list[Lesson]:
        """What either reading was taught."""
        near = self.vectors.near_some
        return lessons_of(taught, self.whole, near)
