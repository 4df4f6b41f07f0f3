"""The extension stage (Algorithm 1): each source speaks for rows near those it votes on.

`reach` answers the slow question once (which supporting row is nearest, and how far is it?);
`Reach.extend` answers the cheap one for any radius (is it near enough?), so a slider costs one
comparison per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from . import neighbors
from .errors import RadiusError, UnknownName, VectorError, VoteError
from .loans import NOBODY, Loans
from .progress import Progress, silent
from .votes import ABSTAIN, Split, Votes, check_alike
from .weighting import Nearest, Pairs, Weighting, resolve_weighting

AUTO: Literal["auto"] = "auto"
"""In place of a radius: the model's own rule decides how far a source lends."""
Setting = float | None | Literal["auto"]
"""What an author may say about one source: a radius, None (lends nothing), or `AUTO`."""

Radius = float | str | Sequence[Setting] | np.ndarray | Mapping[str, Setting]
"""One radius for all sources, one per source, or a {source: radius} mapping.

None (NaN in arrays) leaves a source as it is; so does not naming it in a mapping. "auto" leaves it to
the model's own rule.
"""


@dataclass(frozen=True, eq=False)
class Extended:
    """Votes after extension, and where each came from."""

    votes: Votes
    lender: np.ndarray  # (n_rows, n_sources) int32 train row whose vote was lent, −1 for none
    distance: np.ndarray  # (n_rows, n_sources) how far away it is; 0 for own votes, inf for none


@dataclass(frozen=True, eq=False)
class Reach:
    """For each row and source: the nearest supporting vote, its distance, and who lent it.

    A row on which the source votes itself is its own nearest, at distance 0; `lender` is then the
    row itself on the train split and −1 elsewhere. `distance` is inf where the source has no support,
    or votes on every train row (such sources are left alone).
    """

    votes: Votes
    loans: tuple[Loans, ...] = field(repr=False)  # one per source
    onto_train: bool = True
    weighting: Weighting = field(default_factory=Nearest)
    spaces: tuple[neighbors.Space, neighbors.Space] | None = field(default=None, repr=False)
    lent: Votes | None = field(default=None, repr=False)  # the train votes, for rules that ask many

    def rows(self, index: Any) -> Reach:
        """The reach onto a selection of its rows, as rows of another split than train."""
        loans = tuple(each.rows(index) for each in self.loans)
        return Reach(self.votes.rows(index), loans, False, self.weighting)

    @cached_property
    def nearest(self) -> np.ndarray:
        """The vote of the nearest supporting row, −1 for none; (n_rows, n_sources)."""
        said = self._stack([np.where(each.lender >= 0, each.vote, ABSTAIN) for each in self.loans])
        return np.where(self.votes.cast, self.votes.matrix, said)

    @cached_property
    def distance(self) -> np.ndarray:
        """How far it is; (n_rows, n_sources) float32."""
        return np.where(
            self.votes.cast, np.float32(0), self._stack([each.distance for each in self.loans])
        )

    @cached_property
    def lender(self) -> np.ndarray:
        """The train row that lends, −1 for none; (n_rows, n_sources) int32."""
        itself = np.arange(self.votes.n_rows, dtype=np.int32)[:, None]
        own = itself if self.onto_train else np.int32(NOBODY)
        return np.where(self.votes.cast, own, self._stack([each.lender for each in self.loans]))

    def _stack(self, columns: list[np.ndarray]) -> np.ndarray:
        return np.stack(columns).T if columns else np.empty((self.votes.n_rows, 0))

    def extend(self, radius: Radius) -> Votes:
        """Fill each abstention whose support lies within `radius`; votes are never overruled."""
        radii = self._radii(radius)
        return self.votes.with_columns([self.column(at, far) for at, far in enumerate(radii)])

    def column(self, source: int, radius: float) -> np.ndarray:
        """One source's votes after extension, NaN for none; (n_rows,)."""
        return self._lending(source, radius).extend(radius)

    def trace(self, radius: Radius) -> Extended:
        """Extend, and keep for every vote the row that lent it and its distance."""
        radii = self._radii(radius)
        lending = [self._lending(at, far) for at, far in enumerate(radii)]
        votes = self.votes.with_columns([each.extend(far) for each, far in zip(lending, radii)])
        own = self.votes.cast
        lent = votes.cast & ~own
        lender = np.where(lent, self._stack([each.lender for each in lending]), NOBODY)
        far = np.where(lent, self._stack([each.distance for each in lending]), np.inf)
        lender, far = np.where(own, self.lender, lender), np.where(own, 0, far)
        return Extended(votes, lender.astype(np.int32), far.astype(np.float32))

    def _radii(self, radius: Radius) -> np.ndarray:
        if radius is None:
            raise RadiusError("extend needs a radius, got None; give 0 or more, or {} for nobody")
        return as_radii(radius, self.votes.sources)

    def _lending(self, source: int, radius: float) -> Loans:
        """Who lends to the rows within the radius: the nearest, or whom another rule picks there."""
        mine = self.loans[source]
        if isinstance(self.weighting, Nearest):
            return mine
        if self.spaces is None or self.lent is None:
            raise VectorError(
                f"the {self.weighting.name!r} rule needs the vectors, and this Reach was made without"
            )
        (train, onto), said = self.spaces, self.lent.matrix[:, source]
        rows, support = np.flatnonzero(mine.lent(radius)), np.flatnonzero(said != ABSTAIN)
        lender = np.full(len(mine.own), NOBODY, np.int32)
        distance, vote = np.full(len(mine.own), np.inf, np.float32), mine.own.copy()
        for found in neighbors.within(train, support, onto, rows, radius) if len(rows) else ():
            asks, lends, far = found
            pairs = Pairs.sort(asks, lends, far, said[lends], self.votes.n_classes)
            chosen = self.weighting.choose(pairs)
            chosen = chosen[chosen >= 0]
            at = pairs.asks[chosen]
            lender[at], distance[at] = pairs.lends[chosen], pairs.distance[chosen]
            vote[at] = pairs.vote[chosen]
        return Loans(mine.own, lender, distance, vote)


def reach(
    train: Split,
    onto: Split | None = None,
    *,
    metric: str = "cosine",
    weighting: str | Weighting | None = None,
    progress: Progress = silent,
) -> Reach:
    """Find, for each row of `onto` and each source, the nearest train row the source votes on.

    Parameters
    ----------
    train
        Where support comes from, whatever rows are extended.
    onto
        The rows to extend (dev, test, tomorrow's data); None for the train rows themselves.
    metric
        `"cosine"` or `"euclidean"`.
    weighting
        Which supporting row lends its vote: `"nearest"` (default), `"k-nearest"`,
        `"distance-weighted"`, `"random-neighbor"`, or a rule from `epoxy.weighting`.

    Examples
    --------
    >>> votes = Votes([[0], [-1], [-1]], classes=["ham", "spam"])
    >>> split = Split(votes, vectors=[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> reach(split).extend(0.2).matrix.ravel().tolist()
    [0, 0, -1]
    """
    rows = train if onto is None else onto
    check_alike(train, rows)
    _check_support(train.votes)
    space = neighbors.Space(_vectors_of(train, "train"), metric)
    asking = space if onto is None else neighbors.Space(_vectors_of(rows, "onto"), metric)
    support = train.votes.cast
    support = support & ~support.all(axis=0)  # sources with full coverage are left alone
    found = neighbors.nearest_lenders(space, asking, list(support.T), progress)
    loans = tuple(
        Loans(votes, lender, distance, lent.take(lender))
        for votes, (lender, distance), lent in zip(rows.votes.matrix.T, found, train.votes.matrix.T)
    )
    spaces = (space, asking)
    return Reach(rows.votes, loans, onto is None, resolve_weighting(weighting), spaces, train.votes)


def unextended(split: Split) -> Reach:
    """A reach of nobody: for models that extend no source and splits without vectors."""
    loans = tuple(Loans.nobody(column) for column in split.votes.matrix.T)
    return Reach(split.votes, loans, onto_train=False)


def far(radius: Setting) -> float:
    """How far a source with this setting may lend: NaN not at all, inf by the model's own rule."""
    if radius is None:
        return float("nan")
    return float("inf") if radius == AUTO else float(radius)


def as_settings(radius: Radius | Setting, sources: Sequence[str]) -> list[Setting]:
    """A radius in any accepted form as one setting per source; a mapping leaves out who lends nothing."""
    if isinstance(radius, Mapping):
        for name in radius:
            if name not in sources:
                raise UnknownName.of("source", name, sources)
        given: Any = [radius.get(name) for name in sources]
    elif radius is None or isinstance(radius, str | int | float | np.number):
        if radius is None or radius != radius:
            raise RadiusError("a radius is a distance of at least 0, got nan; give 0 or more")
        given = [radius] * len(sources)
    else:
        given = list(radius) if np.ndim(radius) == 1 else [radius]  # type: ignore[arg-type]
    if len(given) != len(sources):
        raise RadiusError(
            f"got {len(given)} radii for {len(sources)} sources; give one, one per source, "
            "or a {source: radius} mapping"
        )
    return [as_setting(each, name) for each, name in zip(given, sources)]


def as_setting(value: Any, source: str) -> Setting:
    """Check what an author says about one source's radius; NaN, as arrays write it, is None."""
    if value is None or (isinstance(value, float | np.floating) and value != value):
        return None
    if isinstance(value, str) and value == AUTO:
        return AUTO
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise RadiusError(
            f"the radius of source {source!r} is {value!r}; "
            "give a distance of at least 0, None (it lends nothing) or 'auto'"
        )
    if value < 0:
        raise RadiusError(
            f"the radius of source {source!r} is {value:g}; "
            "a radius is a distance of at least 0, None (it lends nothing) or 'auto'"
        )
    return float(value)


def as_radii(radius: Radius, sources: Sequence[str], auto: float = np.nan) -> np.ndarray:
    """One number per source, NaN where it is not extended; `auto` stands for settings of that name."""
    settings = as_settings(radius, sources)
    return np.array(
        [np.nan if each is None else auto if each == AUTO else each for each in settings],
        dtype=float,
    )


def _vectors_of(split: Split, who: str) -> np.ndarray:
    if split.vectors is None:
        raise VectorError(
            f"extension needs vectors, and the {who} split has none; "
            "embed the rows and pass Split(votes, vectors)"
        )
    return split.vectors


def _check_support(train: Votes) -> None:
    if not train.cast.any():
        raise VoteError(
            f"no support at all: none of the {train.n_sources} sources votes on any of the "
            f"{train.n_rows} train rows, so there is nothing to extend; check the labeling functions"
        )
