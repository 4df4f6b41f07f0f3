"""The extension stage (Algorithm 1): each source speaks for rows near those it votes on.

`reach` answers the slow question once (which supporting row is nearest, and how far is it?);
`Reach.extend` answers the cheap one for any radius (is it near enough?), so a slider costs one
comparison per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import neighbors
from .errors import AlignmentError, RadiusError, UnknownName, VectorError, VoteError
from .progress import Progress, silent
from .votes import ABSTAIN, Split, Votes
from .weighting import Nearest, Pairs, Weighting, resolve_weighting

__all__ = ["Extended", "Radius", "Reach", "as_radii", "reach", "typical_distance"]

Radius = float | Sequence[float | None] | np.ndarray | Mapping[str, float | None]
"""One radius for all sources, one per source, or a {source: radius} mapping.

None (NaN in arrays) leaves a source as it is; so does not naming it in a mapping.
"""

NOBODY = -1
"""In `lender`: no train row lent this vote."""


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
    nearest: np.ndarray  # (n_rows, n_sources) vote of the nearest supporting row, −1 for none
    distance: np.ndarray  # (n_rows, n_sources) float64
    lender: np.ndarray  # (n_rows, n_sources) int32 train row, −1 for none
    weighting: Weighting = field(default_factory=Nearest)
    spaces: tuple[neighbors.Space, neighbors.Space] | None = field(default=None, repr=False)
    lent: Votes | None = field(default=None, repr=False)  # the train votes, for rules that ask many
    certain: np.ndarray | None = field(default=None, repr=False)  # radii searched up to; None: all

    def extend(self, radius: Radius) -> Votes:
        """Fill each abstention whose support lies within `radius`; votes are never overruled."""
        return self.trace(radius).votes

    def trace(self, radius: Radius) -> Extended:
        """Extend, and keep for every vote the row that lent it and its distance."""
        radii = as_radii(radius, self.votes.sources)
        self._check_searched(radii)
        own = self.votes.cast
        with np.errstate(invalid="ignore"):
            within = ~own & (self.distance <= radii)
        if isinstance(self.weighting, Nearest):
            lender = np.where(within | own, self.lender, NOBODY)
            distance = np.where(within | own, self.distance, np.inf)
            matrix = np.where(within, self.nearest, self.votes.matrix)
        else:
            matrix, lender, distance = self._ask_around(within, radii)
        return Extended(self.votes.with_matrix(matrix), lender.astype(np.int32), distance)

    def _check_searched(self, radii: np.ndarray) -> None:
        if self.certain is None:
            return
        with np.errstate(invalid="ignore"):
            beyond = np.flatnonzero(radii > self.certain)
        if len(beyond):
            at = beyond[0]
            raise RadiusError(
                f"source {self.votes.sources[at]!r} was searched up to {self.certain[at]:g}, "
                f"not to {radii[at]:g}; use epoxy.reach(train), or set the radius in the session"
            )

    def _ask_around(
        self, within: np.ndarray, radii: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Let the weighting rule choose among all supporting rows in the ball, source by source."""
        if self.spaces is None or self.lent is None:
            raise VectorError(
                f"the {self.weighting.name!r} rule needs the vectors, and this Reach was made without"
            )
        own = self.votes.cast
        matrix = self.votes.matrix.copy()
        lender = np.where(own, self.lender, NOBODY)
        distance = np.where(own, 0.0, np.inf)
        train, onto = self.spaces
        for source in np.flatnonzero(within.any(axis=0)):
            said = self.lent.matrix[:, source]
            rows = np.flatnonzero(within[:, source])
            support = np.flatnonzero(said != ABSTAIN)
            found = neighbors.within(train, support, onto, rows, radius=float(radii[source]))
            for asks, lends, far in found:
                pairs = Pairs.sort(asks, lends, far, said[lends], self.votes.n_classes)
                chosen = self.weighting.choose(pairs)
                chosen = chosen[chosen >= 0]
                at = pairs.asks[chosen]
                matrix[at, source] = pairs.vote[chosen]
                lender[at, source] = pairs.lends[chosen]
                distance[at, source] = pairs.distance[chosen]
        return matrix, lender, distance


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
    _check_same_sources(train.votes, rows.votes)
    _check_support(train.votes)
    space = neighbors.Space(_vectors_of(train, "train"), metric)
    asking = space if onto is None else neighbors.Space(_vectors_of(rows, "onto"), metric)
    own = rows.votes.cast
    support = train.votes.cast
    support = support & ~support.all(axis=0)  # sources with full coverage are left alone
    found = neighbors.nearest(
        space, support, None if onto is None else asking, wanted=~own, progress=progress
    )
    said = np.take_along_axis(train.votes.matrix, np.maximum(found.row, 0).astype(np.intp), axis=0)
    itself = np.arange(rows.n_rows, dtype=np.int32)[:, None] if onto is None else np.int32(NOBODY)
    return Reach(
        votes=rows.votes,
        nearest=np.where(own, rows.votes.matrix, np.where(found.row >= 0, said, ABSTAIN)),
        distance=np.where(own, 0.0, found.distance),
        lender=np.where(own, itself, found.row),
        weighting=resolve_weighting(weighting),
        spaces=(space, asking),
        lent=train.votes,
    )


def as_radii(radius: Radius, sources: Sequence[str]) -> np.ndarray:
    """A radius in any accepted form as one number per source, NaN where it is not extended."""
    if isinstance(radius, Mapping):
        for name in radius:
            if name not in sources:
                raise UnknownName.of("source", name, sources)
        given: Any = [radius.get(name) for name in sources]
    elif isinstance(radius, int | float | np.number):
        if radius != radius:
            raise RadiusError("a radius is a distance of at least 0, got nan; give 0 or more")
        given = [radius] * len(sources)
    else:
        given = list(radius)
    if len(given) != len(sources):
        raise RadiusError(
            f"got {len(given)} radii for {len(sources)} sources; give one, one per source, "
            "or a {source: radius} mapping"
        )
    radii = np.array([np.nan if each is None else float(each) for each in given])
    wrong = np.flatnonzero(radii < 0)
    if len(wrong):
        raise RadiusError(
            f"the radius of source {sources[wrong[0]]!r} is {radii[wrong[0]]:g}; "
            "a radius is a distance of at least 0; use None to leave a source as it is"
        )
    return radii


def typical_distance(split: Split, metric: str = "cosine", sample: int = 2000) -> float:
    """The median distance from a row to its nearest other row (from at most `sample` rows)."""
    if split.vectors is None:
        raise VectorError(
            "radius=None looks at how near rows are to each other, and the train split has no "
            "vectors; embed the rows, or give radius={} to extend nothing"
        )
    space = neighbors.Space(split.vectors, metric)
    if space.n_nodes < 2:
        return 0.0
    rows = np.unique(np.linspace(0, len(space) - 1, min(sample, len(space))).astype(int))
    alone = np.bincount(space.node)[space.node[rows]] == 1  # a row with an equal twin is at 0
    nodes = np.unique(space.node[rows[alone]])
    distance = np.zeros(space.n_nodes)
    for start in range(0, len(nodes), 256):
        part = nodes[start : start + 256]
        score = space.left[part] @ space.right.T
        score[np.arange(len(part)), part] = -np.inf
        distance[part] = space.node_distances(part, space, score.argmax(axis=1))
    return float(np.median(distance[space.node[rows]]))


def _vectors_of(split: Split, who: str) -> np.ndarray:
    if split.vectors is None:
        raise VectorError(
            f"extension needs vectors, and the {who} split has none; "
            "embed the rows and pass Split(votes, vectors)"
        )
    return split.vectors


def _check_same_sources(train: Votes, onto: Votes) -> None:
    if train.sources != onto.sources or train.classes != onto.classes:
        raise AlignmentError(
            f"train and onto must have the same sources and classes, got "
            f"{list(train.sources)[:5]} / {list(train.classes)[:5]} and "
            f"{list(onto.sources)[:5]} / {list(onto.classes)[:5]}; apply the same labeling functions"
        )


def _check_support(train: Votes) -> None:
    if not train.cast.any():
        raise VoteError(
            f"no support at all: none of the {train.n_sources} sources votes on any of the "
            f"{train.n_rows} train rows, so there is nothing to extend; check the labeling functions"
        )
