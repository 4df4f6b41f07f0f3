"""Who lends: one source's nearest supporting row for every row of a split, and the rule that reads it.

`Loans` is the one value for "who lends"; `neighbors.reaches` compares its distances with a radius.
`Neighbourhood` answers it for every split of a session: an edit walks the neighbours found once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import neighbors
from .errors import UnknownName, VectorError
from .mapped import blocks
from .neighbors.graph import typical_distance
from .neighbors.knn import reaches
from .progress import Progress, silent
from .votes import ABSTAIN, Split

NOBODY = -1
"""In `lender`: no train row lends."""
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
    distance: np.ndarray  # (n_rows,) float32, inf for none
    vote: np.ndarray  # (n_rows,) what the lender votes; anything where there is none

    @classmethod
    def nobody(cls, own: np.ndarray) -> Loans:
        """Of a source that has nothing to lend, or of rows without vectors."""
        none, never = (
            np.broadcast_to(each, len(own)) for each in (np.int32(NOBODY), np.float32(np.inf))
        )
        return cls(own, none, never, own)

    def extend(self, radius: float) -> np.ndarray:
        """The votes with each abstention filled whose lender lies within `radius` (NaN: none).

        A radius r includes distance == r. The array of own votes itself is returned when nothing is
        lent, so that whoever compares by identity sees that nothing changed.
        """
        last: tuple[float, np.ndarray] | None = vars(self).get("_last")  # every edit asks again
        if last is None or last[0] != radius:
            lent = self.lent(radius)
            last = radius, np.where(lent, self.vote, self.own) if lent.any() else self.own
            vars(self)["_last"] = last
        return last[1]

    def lent(self, radius: float) -> np.ndarray:
        """Rows that borrow within `radius`; (n_rows,) bool."""
        return np.asarray(reaches(radius, self.distance) & (self.own == ABSTAIN))

    def rows(self, index: Any) -> Loans:
        """The same on a selection of rows."""
        return Loans(self.own[index], self.lender[index], self.distance[index], self.vote[index])

    @classmethod
    def joined(cls, parts: Sequence[Loans]) -> Loans:
        """Loans to the rows of several, one after the other."""
        names = ("own", "lender", "distance", "vote")
        return cls(*(np.concatenate([getattr(each, name) for each in parts]) for name in names))

    @cached_property
    def breakpoints(self) -> np.ndarray:
        """The distances at which some abstaining row is reached, ascending and distinct."""
        far = self.distance[self.own == ABSTAIN]
        return np.unique(far[np.isfinite(far)])


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The vectors of a session's splits (train first), ready to say who is nearest.

    Rows without a direction (zero vectors, under cosine distance) are near nobody: `places` holds, for
    each split, the rows that have one.
    """

    sizes: tuple[int, ...]
    metric: str = "cosine"
    spaces: tuple[neighbors.Space, ...] | None = None  # None without vectors
    graphs: tuple[neighbors.Graph, ...] | None = None  # of every split; None without vectors
    places: tuple[np.ndarray | None, ...] = ()  # rows of the spaces; None for all rows
    apart: bool = False  # rows without a direction are left apart; else they are refused

    @classmethod
    def over(
        cls,
        splits: Sequence[Split],
        metric: str = "cosine",
        *,
        apart: bool = False,
        cache: Path | None = None,
        found: Neighbours = "auto",
        progress: Progress = silent,
    ) -> Neighbourhood:
        """Find the neighbours of the splits' rows."""
        check_neighbours(found)
        if len({split.vectors is None for split in splits}) > 1:
            raise VectorError(
                "one of train and dev has vectors and the other has none, so nothing could be lent; "
                "embed the rows of both, or give neither vectors"
            )
        sizes = tuple(split.n_rows for split in splits)
        made = cls.of_vectors(sizes, [split.vectors for split in splits], metric, apart=apart)
        if made.spaces is None:
            return made
        train, *others = made.spaces
        settings = found if isinstance(found, neighbors.Settings) else neighbors.Settings()
        many = found == "auto" and train.n_nodes > neighbors.LARGE
        how = settings if many or found not in ("auto", "exact") else None
        first = neighbors.Graph.build(train, approximate=how, cache=cache, progress=progress)
        graphs = (first, *(first.queries(each, cache=cache) for each in others))
        return replace(made, graphs=graphs)

    @classmethod
    def of_vectors(
        cls,
        sizes: tuple[int, ...],
        vectors: Sequence[np.ndarray | None],
        metric: str = "cosine",
        *,
        apart: bool = False,
    ) -> Neighbourhood:
        """The vectors of splits of these sizes, prepared; one without them leaves all without."""
        if any(each is None for each in vectors):
            return cls(sizes, metric, apart=apart)
        places = [_placed(each, metric) if apart else None for each in vectors]
        if places[0] is not None and not len(places[0]):
            return cls(sizes, metric, apart=apart)  # no train row has a direction, so nobody lends
        spaces = tuple(
            neighbors.Space(each if place is None else each[place], metric)  # type: ignore[index]
            for each, place in zip(vectors, places)
        )
        for other in spaces[1:]:
            spaces[0].check_same_dimension(other)
        return cls(sizes, metric, spaces, None, tuple(places), apart)

    def asked_by(self, split: Split, *, apart: bool = False) -> Neighbourhood:
        """The same train rows, and the rows of one other split that ask them."""
        if self.spaces is None or self.graphs is None:
            return Neighbourhood((self.sizes[0], split.n_rows), self.metric)
        sizes = (split.n_rows,)
        mine = Neighbourhood.of_vectors(sizes, [split.vectors], self.metric, apart=apart)
        if mine.spaces is None:
            return Neighbourhood((self.sizes[0], split.n_rows), self.metric)
        train, [space] = self.spaces[0], mine.spaces
        graphs = self.graphs[0], self.graphs[0].queries(space)
        places = self.places[0], mine.places[0]
        return Neighbourhood((self.sizes[0], *sizes), self.metric, (train, space), graphs, places)

    @property
    def recall(self) -> neighbors.Recall | None:
        """The share of true neighbours that are known; None where all are."""
        return None if self.graphs is None else self.graphs[0].recall

    @cached_property
    def typical(self) -> float:
        """The distance at which a typical train row has its nearest other; NaN without vectors."""
        if self.spaces is None:
            return float("nan")
        return typical_distance(self.spaces[0], None if self.graphs is None else self.graphs[0])

    def append(self, more: Split, grown: Split) -> Neighbourhood:
        """The same with rows added to train, which is `grown` then."""
        sizes = (self.sizes[0] + more.n_rows, *self.sizes[1:])
        if self.spaces is None or more.vectors is None:
            return Neighbourhood(sizes, self.metric, apart=self.apart)
        new = _placed(more.vectors, self.metric) if self.apart else None
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
        first = self.graphs[0].append(vectors, whole)
        graphs = (first, *(each.asking(first.train) for each in self.graphs[1:]))
        spaces = (first.train, *self.spaces[1:])
        return replace(self, sizes=sizes, places=places, spaces=spaces, graphs=graphs)

    def lend_all(self, own: Sequence[Sequence[np.ndarray]]) -> list[tuple[Loans, ...]]:
        """Loans of many sources, whose votes on every split are given."""
        supports = [self._support(each) for each in own]
        lending = [at for at, each in enumerate(supports) if each is not None]
        made = [tuple(Loans.nobody(votes) for votes in each) for each in own]
        if self.graphs is None or not lending:
            return made
        voting = [each for each in supports if each is not None]
        found = [neighbors.lenders(graph, voting) for graph in self.graphs]
        for place, number in enumerate(lending):
            pairs = [self._placed(at, *each[place]) for at, each in enumerate(found)]
            votes = own[number]
            made[number] = tuple(
                Loans(votes[at], lender, far, votes[0].take(lender))
                for at, (lender, far) in enumerate(pairs)
            )
        return made

    def lend(self, own: Sequence[np.ndarray]) -> tuple[Loans, ...]:
        """Loans of a source with these votes on every split."""
        return self.lend_all([own])[0]

    def _support(self, own: Sequence[np.ndarray]) -> np.ndarray | None:
        """The rows of the space a source votes on; None for one that has nothing to lend.

        So has one that votes on every train row: it is left alone.
        """
        votes = own[0] != ABSTAIN
        if self.spaces is None or not votes.any() or votes.all():
            return None
        support = votes if self.places[0] is None else votes[self.places[0]]
        return support if support.any() else None

    def _placed(self, at: int, row: np.ndarray, distance: np.ndarray) -> neighbors.Nearest:
        """Answers about rows of the spaces as answers about rows of the splits."""
        home, away = self.places[0], self.places[at]
        if home is not None:
            row = np.where(row >= 0, home[np.maximum(row, 0)], NOBODY).astype(np.int32)
        if away is None:
            return row, distance
        lender = np.full(self.sizes[at], NOBODY, dtype=np.int32)
        far = np.full(self.sizes[at], np.inf, np.float32)
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
    first = [vectors[part, 0] == 0 for part in blocks(len(vectors))]
    maybe = np.flatnonzero(np.concatenate([*first, []]))  # few, and all others have one
    without = maybe[~(vectors[maybe] != 0).any(axis=1)]
    return np.delete(np.arange(len(vectors)), without) if len(without) else None
