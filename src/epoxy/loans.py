"""Who lends: one source's nearest supporting row for every row of a split, and the rule that reads it.

`Loans` is the one value for "who lends", and `Loans.extend` decides `distance <= radius` for every vote
that is lent (Fusion grades loans by distance, and asks the same there). `Neighbourhood` answers it for
every split of a session: with a graph an edit walks the neighbours found once and searches only what
they cannot settle, without one every source is searched directly. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import neighbors
from .compiling import compiled
from .errors import UnknownName, VectorError
from .neighbors.column import Support
from .progress import Progress, silent
from .votes import ABSTAIN, Split

NOBODY = -1
"""In `lender`: no train row lends."""
AHEAD = 64
"""Sources whose loans are found for every radius at once; of more, as far as each lends."""
EXACT_UP_TO = 300_000
"""Distinct train vectors up to which "auto" finds all neighbours: minutes, once."""
KINDS = ("auto", "exact", "approximate")
Neighbours = str | neighbors.Settings
"""How neighbours are found: "auto", "exact", "approximate", or the settings of approximate ones."""


@dataclass(frozen=True, eq=False)
class Loans:
    """One source on one split: its own votes, and the nearest train row it votes on for each row.

    Rows the source votes on itself may have any lender: they never borrow.
    """

    own: np.ndarray  # (n_rows,) votes, −1 abstains
    lender: np.ndarray  # (n_rows,) int32 train row, −1 for none
    distance: np.ndarray  # (n_rows,) float64, inf for none
    vote: np.ndarray  # (n_rows,) what the lender votes; anything where there is none
    certain: float = np.inf  # answers hold up to this radius
    searched: float = 0.0  # share of rows that the last step searched directly
    column: neighbors.Column | None = None  # where the answers were read off a graph

    @classmethod
    def nobody(cls, own: np.ndarray) -> Loans:
        """Of a source that has nothing to lend, or of rows without vectors."""
        none = np.full(len(own), NOBODY, dtype=np.int32)
        return cls(own, none, np.full(len(own), np.inf), own)

    def extend(self, radius: float) -> np.ndarray:
        """The votes with each abstention filled whose lender lies within `radius` (NaN: none).

        A radius r includes distance == r. The array of own votes itself is returned when nothing is
        lent, so that whoever compares by identity sees that nothing changed.
        """
        if np.isnan(radius):
            return self.own
        column = np.empty_like(self.own)
        return column if _borrow(self.own, self.vote, self.distance, radius, column) else self.own

    def rows(self, index: Any) -> Loans:
        """The same on a selection of rows."""
        return Loans(
            self.own[index],
            self.lender[index],
            self.distance[index],
            self.vote[index],
            self.certain,
        )

    @classmethod
    def joined(cls, parts: Sequence[Loans]) -> Loans:
        """Loans to the rows of several, one after the other."""
        return cls(
            np.concatenate([each.own for each in parts]),
            np.concatenate([each.lender for each in parts]),
            np.concatenate([each.distance for each in parts]),
            np.concatenate([each.vote for each in parts]),
            min(each.certain for each in parts),
        )

    def lent(self, radius: float) -> np.ndarray:
        """Rows that borrow within `radius`; (n_rows,) bool."""
        return np.asarray((self.own == ABSTAIN) & (self.extend(radius) != ABSTAIN))

    @cached_property
    def breakpoints(self) -> np.ndarray:
        """The distances at which some abstaining row is reached, ascending and distinct."""
        far = self.distance[self.own == ABSTAIN]
        return np.unique(far[np.isfinite(far)])


@compiled
def _borrow(
    own: np.ndarray, vote: np.ndarray, distance: np.ndarray, radius: float, column: np.ndarray
) -> bool:
    borrowed = False
    for at in range(own.shape[0]):  # no branch inside: a compiler makes vectors of it
        lent = (own[at] < 0) & (distance[at] <= radius)
        column[at] = vote[at] if lent else own[at]
        borrowed |= lent
    return borrowed


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The vectors of a session's splits (train first), ready to say who is nearest.

    Rows without a direction (zero vectors, under cosine distance) are near nobody: `places` holds, for
    each split, the rows that have one.
    """

    sizes: tuple[int, ...]
    metric: str = "cosine"
    spaces: tuple[neighbors.Space, ...] | None = None  # None without vectors
    graphs: tuple[neighbors.Graph, ...] | None = None  # None: every source is searched directly
    places: tuple[np.ndarray | None, ...] = ()  # rows of the spaces; None for all rows
    cache: Path | None = None
    found: Neighbours = "exact"

    @classmethod
    def over(
        cls,
        splits: Sequence[Split],
        metric: str = "cosine",
        *,
        apart: bool = False,
        graph: bool = True,
        cache: Path | None = None,
        found: Neighbours = "exact",
        progress: Progress = silent,
    ) -> Neighbourhood:
        """Prepare the splits' vectors once, and their neighbours if edits are to come.

        `apart` leaves rows without a direction apart; without it they are refused. Approximate
        neighbours are found with or without `graph`: a direct search would find other ones.
        """
        check_neighbours(found)
        if len({split.vectors is None for split in splits}) > 1:
            raise VectorError(
                "one of train and dev has vectors and the other has none, so nothing could be lent; "
                "embed the rows of both, or give neither vectors"
            )
        sizes = tuple(split.n_rows for split in splits)
        vectors = [split.vectors for split in splits]
        made = cls.of_vectors(sizes, vectors, metric, apart=apart, cache=cache)
        made = replace(made, found=found)
        return made.with_graph(progress) if graph or made.is_approximate else made

    @classmethod
    def of_vectors(
        cls,
        sizes: tuple[int, ...],
        vectors: Sequence[np.ndarray | None],
        metric: str = "cosine",
        *,
        apart: bool = False,
        cache: Path | None = None,
    ) -> Neighbourhood:
        """The vectors of splits of these sizes, prepared; one without them leaves all without."""
        if any(each is None for each in vectors):
            return cls(sizes, metric)
        places = [_placed(each, metric) if apart else None for each in vectors]
        if places[0] is not None and not len(places[0]):
            return cls(sizes, metric)  # no train row has a direction, so nobody lends
        spaces = tuple(
            neighbors.Space(each if place is None else each[place], metric)  # type: ignore[index]
            for each, place in zip(vectors, places)
        )
        for other in spaces[1:]:
            spaces[0].check_same_dimension(other)
        return cls(sizes, metric, spaces, None, tuple(places), cache)

    def with_graph(self, progress: Progress = silent) -> Neighbourhood:
        """The same with every row's neighbours found, so that edits take milliseconds."""
        if self.spaces is None or self.graphs is not None:
            return self
        train, cache = self.spaces[0], self.cache
        if self.is_approximate:
            chosen = None if isinstance(self.found, str) else self.found
            first = neighbors.Graph.approximate(train, chosen, cache=cache, progress=progress)
        else:
            first = neighbors.Graph.build(train, cache=cache, progress=progress)
        others = (first.queries(space, cache=self.cache) for space in self.spaces[1:])
        return replace(self, graphs=(first, *others))

    @property
    def is_approximate(self) -> bool:
        """Whether a graph of these rows lists most of the neighbours, not all."""
        if self.spaces is None or self.found == "exact":
            return False
        return self.found != "auto" or self.spaces[0].n_nodes > EXACT_UP_TO

    @property
    def recall(self) -> neighbors.Recall | None:
        """The share of true neighbours that are known; None where all are."""
        return None if self.graphs is None else self.graphs[0].recall

    def append(self, more: Split, grown: Split, *, apart: bool = False) -> Neighbourhood:
        """The same with rows added to train, which is `grown` then."""
        sizes = (self.sizes[0] + more.n_rows, *self.sizes[1:])
        if self.spaces is None or more.vectors is None:
            return Neighbourhood(sizes, self.metric)
        new = _placed(more.vectors, self.metric) if apart else None
        kept = self.places[0]
        if kept is not None or new is not None:
            old = np.arange(self.sizes[0]) if kept is None else kept
            rows = np.arange(more.n_rows) if new is None else new
            kept = np.concatenate([old, self.sizes[0] + rows])
        vectors = more.vectors if new is None else more.vectors[new]
        whole = grown.vectors if kept is None else None
        places = (kept, *self.places[1:])
        if self.graphs is None:
            space = self.spaces[0].append(vectors, whole)
            return replace(self, sizes=sizes, places=places, spaces=(space, *self.spaces[1:]))
        first = self.graphs[0].append(vectors, whole=whole, cache=self.cache)
        others = tuple(each.asking(first, cache=self.cache) for each in self.graphs[1:])
        spaces = (first.train, *self.spaces[1:])
        return replace(self, sizes=sizes, places=places, spaces=spaces, graphs=(first, *others))

    def lend_all(
        self, own: Sequence[Sequence[np.ndarray]], radii: Sequence[float] | None = None
    ) -> list[tuple[Loans, ...]]:
        """Loans of many sources, certain up to a radius each at least (None: for every one).

        Few are found for every radius, so that a larger one needs no search; and without a graph all,
        in one search.
        """
        if self.spaces is None or self.graphs is not None or not own:
            far = [np.inf] * len(own) if radii is None or len(own) <= AHEAD else radii
            return [self.lend(each, radius) for each, radius in zip(own, far, strict=True)]
        support = [self._support(each) for each in own]
        nobody = np.zeros(len(self.spaces[0]), dtype=bool)
        lends = np.stack([nobody if each is None else each for each in support], axis=1)
        found = [self._searched(at, own, lends) for at in range(len(self.sizes))]
        return [tuple(each[number] for each in found) for number in range(len(own))]

    def lend(
        self,
        own: Sequence[np.ndarray],
        radius: float = np.inf,
        old: Sequence[Loans] | None = None,
    ) -> tuple[Loans, ...]:
        """Loans of a source with these votes on every split, certain up to `radius`.

        `old` are its loans before the edit.
        """
        support = self._support(own)
        if support is None:
            return tuple(Loans.nobody(each) for each in own)
        if self.graphs is None:
            lends = support[:, None]
            return tuple(self._searched(at, [own], lends)[0] for at in range(len(own)))
        wanted = 0.0 if np.isnan(radius) else float(radius)
        heard = Support.of(self.graphs[0].train, support)
        found = []
        for at, graph in enumerate(self.graphs):
            before = None if old is None else old[at].column
            if before is not None and before.graph is graph:
                column = _up_to(before, wanted).voting(heard).reaching(wanted)
            else:
                column = neighbors.Column.of(graph, heard, radius=wanted)
            found.append(self._read(at, own, column))
        return tuple(found)

    def lend_more(self, own: Sequence[np.ndarray], old: Sequence[Loans]) -> tuple[Loans, ...]:
        """Loans of a source after rows were added to train, on which it votes as `own` says.

        `old` are its loans before; what they are certain of, these are.
        """
        support = self._support(own)
        columns = [each.column for each in old]
        if support is None or self.graphs is None or any(each is None for each in columns):
            return self.lend(own)
        heard = Support.of(self.graphs[0].train, support)
        return tuple(
            self._read(at, own, column.grown(graph, heard))
            for at, (graph, column) in enumerate(zip(self.graphs, columns))
            if column is not None
        )

    def _support(self, own: Sequence[np.ndarray]) -> np.ndarray | None:
        """The rows of the space a source votes on; None for one that has nothing to lend.

        So has one that votes on every train row: it is left alone.
        """
        votes = own[0] != ABSTAIN
        if self.spaces is None or not votes.any() or votes.all():
            return None
        support = votes if self.places[0] is None else votes[self.places[0]]
        return support if support.any() else None

    def reaching(self, loans: Sequence[Loans], radius: float) -> tuple[Loans, ...]:
        """The same loans, certain up to a larger radius; a smaller one changes nothing."""
        if np.isnan(radius) or all(radius <= each.certain for each in loans):
            return tuple(loans)
        if self._asked and self._asked[0][0] is loans[0]:
            found = self._asked[0][1]
            if all(radius <= each.certain for each in found):
                return found
        own = [each.own for each in loans]
        found = tuple(
            each if each.column is None else self._read(at, own, each.column.reaching(radius))
            for at, each in enumerate(loans)
        )
        self._asked[:] = [(loans[0], found)]
        return found

    @cached_property
    def _asked(self) -> list[tuple[Loans, tuple[Loans, ...]]]:
        """The loans that were asked farther last, and the answer: a slider asks at every step."""
        return []

    def _searched(
        self, at: int, own: Sequence[Sequence[np.ndarray]], support: np.ndarray
    ) -> list[Loans]:
        assert self.spaces is not None
        onto = None if at == 0 else self.spaces[at]
        asks = np.stack([each[at] == ABSTAIN for each in own], axis=1)
        wanted = asks if self.places[at] is None else asks[self.places[at]]
        found = neighbors.nearest(self.spaces[0], support, onto, wanted=wanted)
        made = []
        for each, row, distance in zip(own, found.row.T, found.distance.T):
            lender, far = self._placed(
                at, np.ascontiguousarray(row), np.ascontiguousarray(distance)
            )
            made.append(Loans(each[at], lender, far, each[0].take(lender), np.inf, 1.0))
        return made

    def _read(self, at: int, own: Sequence[np.ndarray], column: neighbors.Column) -> Loans:
        lender, distance = self._placed(at, column.row, column.distance)
        searched = column.n_searched / max(1, len(lender))
        vote = own[0].take(lender)
        return Loans(own[at], lender, distance, vote, column.radius, searched, column)

    def _placed(
        self, at: int, row: np.ndarray, distance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Answers about rows of the spaces as answers about rows of the splits."""
        home, away = self.places[0], self.places[at]
        if home is not None:
            row = np.where(row >= 0, home[np.maximum(row, 0)], NOBODY).astype(np.int32)
        if away is None:
            return row, distance
        lender = np.full(self.sizes[at], NOBODY, dtype=np.int32)
        far = np.full(self.sizes[at], np.inf)
        lender[away], far[away] = row, distance
        return lender, far


def check_neighbours(found: Any) -> None:
    """Refuse a way of finding neighbours that is none."""
    if not isinstance(found, neighbors.Settings) and found not in KINDS:
        raise UnknownName.of("way of finding neighbours", found, KINDS)


def _placed(vectors: np.ndarray | None, metric: str) -> np.ndarray | None:
    """Rows that have a direction; None where all have one, or where distance needs none."""
    assert vectors is not None
    if metric != "cosine":
        return None
    maybe = np.flatnonzero(vectors[:, 0] == 0)  # few, and all others have one
    without = maybe[~(vectors[maybe] != 0).any(axis=1)]
    return np.delete(np.arange(len(vectors)), without) if len(without) else None


def _up_to(column: neighbors.Column, radius: float) -> neighbors.Column:
    """The same answers, certain only up to a smaller radius: what lies beyond is not kept up to date."""
    if column.radius <= radius:
        return column
    near = column.found.distance <= radius
    found = type(column.found)(
        np.where(near, column.found.row, NOBODY), np.where(near, column.found.distance, np.inf)
    )
    return replace(column, radius=radius, found=found)
