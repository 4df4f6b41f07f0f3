"""Reach over shards: the nearest supporting row of every source, which is a minimum over shards.

Two shards meet once: of the rows of each the nearest in the other are found together, because most of
the products are the same. A shard meets itself and the half of all shards that follows it, around the
circle, and keeps what it learns for its own rows and for theirs; afterwards each shard takes the nearest
of what was found for it, of equals the lowest row. Each search is the exact one, so this is what a
search over all rows at once would give, bit for bit.

A shard's vectors are read for every shard it meets, or once where a worker has room for them: they are
broadcast by the file system.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loans import NOBODY
from ..neighbors import old as neighbors
from ..neighbors.old.search import Found
from ..votes import ABSTAIN
from .run import Run
from .runner import Summary
from .shard import Kept, Shard
from .vectors import ShardVectors

AT_ONCE = 8
"""Shards that each meets before answers are merged: what waits on the disk until then is bounded."""


@dataclass(frozen=True)
class Lending:
    """Sources that lend, over vectors under one metric."""

    votes: Kept
    vectors: ShardVectors
    shards: tuple[Shard, ...]
    columns: np.ndarray  # which of the kept votes
    lends: np.ndarray  # (n_columns,) bool: it votes on some train rows and not on all
    metric: str
    held: Held

    def own(self, shard: Shard) -> np.ndarray:
        """Votes of a shard's train rows; (n_sources, n_rows)."""
        return np.asarray(self.votes.load(shard, "votes")[self.columns])

    def side(self, shard: Shard) -> Side:
        """A shard's train rows, ready to lend and to ask."""
        return Side.of(self.vectors.of(shard), self.own(shard), self.lends, self.metric)

    def lenders(self, shard: Shard) -> tuple[np.ndarray, Side]:
        """Of a shard's train rows those that lend, by their places."""
        own = self.own(shard)
        some = np.flatnonzero(((own != ABSTAIN) & self.lends[:, None]).any(axis=0))
        vectors = self.vectors.of(shard) if len(some) else np.empty((0, self.vectors.dimension))
        return some, Side.of(vectors[some], own[:, some], self.lends, self.metric)


@dataclass(frozen=True, eq=False)
class Side:
    """Rows that lend and ask; only those with a direction can be near somebody."""

    own: np.ndarray  # (n_sources, n_rows) votes of all rows
    places: np.ndarray  # the rows that have a direction
    support: np.ndarray  # (n_places, n_sources) bool: they lend
    wanted: np.ndarray  # (n_places, n_sources) bool: they ask
    space: neighbors.Space | None  # of the places; None where there are none

    @classmethod
    def of(cls, vectors: np.ndarray, own: np.ndarray, lends: np.ndarray, metric: str) -> Side:
        """From the vectors of rows, their votes, and which sources lend."""
        places = with_direction(vectors, metric)
        votes = own[:, places].T != ABSTAIN
        some = vectors if len(places) == len(vectors) else vectors[places]
        space = neighbors.Space(some, metric) if len(places) else None
        return cls(own, places, votes & lends, ~votes & lends, space)

    @property
    def n_bytes(self) -> int:
        """What it holds; a space holds vectors twice, as they are and at length one."""
        space = 0 if self.space is None else 2 * self.space.vectors.nbytes + 16 * len(self.space)
        return self.own.nbytes + self.places.nbytes + 2 * self.support.nbytes + space


class Held:
    """What a worker holds of shards' rows, as much as fits; it is as old as the stage.

    The same to a stage's digest, however much fits, and it travels empty.
    """

    def __init__(self, most: int) -> None:
        self.most, self._bytes = most, 0
        self._sides: dict[int, Side] = {}

    def __reduce__(self) -> Any:
        return Held, (self.most,)

    def __repr__(self) -> str:
        return "Held()"

    def release(self) -> None:
        """Hold nothing any more."""
        self._sides.clear()
        self._bytes = 0

    def of(self, lending: Lending, shard: Shard) -> Side:
        """Held, or read."""
        found = self._sides.get(shard.number)
        if found is None:
            found = lending.side(shard)
            if self._bytes + found.n_bytes <= self.most:
                self._sides[shard.number] = found
                self._bytes += found.n_bytes
        return found


NAMES = ("lender", "distance", "vote")


@dataclass(frozen=True, eq=False)
class Answers:
    """For rows that ask: who lends, what, and from how far; (n_sources, n_rows)."""

    lender: np.ndarray  # int32
    distance: np.ndarray  # float64
    vote: np.ndarray

    @classmethod
    def none(cls, own: np.ndarray) -> Answers:
        """Nobody lends; what would be lent is then the row's own vote."""
        return cls(np.full(own.shape, NOBODY, np.int32), np.full(own.shape, np.inf), own.copy())

    @classmethod
    def of(cls, found: Found, asking: Side, start: np.ndarray, votes: np.ndarray) -> Answers:
        """What was found for the places of a side, of lenders by their rows and votes."""
        made = cls.none(asking.own)
        for at, (row, distance) in enumerate(zip(found.row.T, found.distance.T)):
            near = row >= 0
            mine, who = asking.places[near], row[near]
            made.distance[at, mine] = distance[near]
            made.lender[at, mine], made.vote[at, mine] = start[who], votes[at, who]
        return made

    def nearer(self, other: Answers) -> None:
        """Take what another knows better: who is nearer, and of equals the lower row."""
        near = other.distance < self.distance
        near |= (other.distance == self.distance) & (other.lender < self.lender)
        for name in NAMES:
            getattr(self, name)[near] = getattr(other, name)[near]

    def keep(self, kept: Kept, shard: Shard, about: str = "") -> None:
        """Write them down, those about another shard under its name."""
        kept.save(shard, **{f"{name}{about}": getattr(self, name) for name in NAMES})

    @classmethod
    def kept(cls, kept: Kept, shard: Shard, about: str = "") -> Answers:
        """Read them back."""
        return cls(*(kept.load(shard, f"{name}{about}") for name in NAMES))


def met_by(shard: Shard, count: int) -> list[tuple[int, int]]:
    """Whom a shard meets, as (how far along the circle, who): every two of `count` shards once."""
    half = [(far, (shard.number + far) % count) for far in range(1, count // 2 + 1)]
    if count % 2 == 0 and shard.number >= count // 2:
        half.pop()  # across the circle: the other one meets this
    return half


def lend(run: Run, lending: Lending) -> Kept:
    """Who lends to every train row; kept shard by shard as `lender`, `distance` and `vote`."""
    found: Kept | None = None
    for number, first in enumerate(range(1, max(2, len(run.shards) // 2 + 1), AT_ONCE)):
        steps = (first, first + AT_ONCE)
        meeting = run.stage(f"reach-{number}", meet_shards, lending, steps)
        merging = run.stage(f"nearest-{number}", merge_shard, lending, meeting.kept, found, steps)
        if not merging.is_finished:
            meeting.finish()
            merging.finish()
        shutil.rmtree(meeting.kept.folder, ignore_errors=True)
        found = merging.kept
    lending.held.release()
    assert found is not None
    return found


def meet_shards(shard: Shard, kept: Kept, lending: Lending, steps: tuple[int, int]) -> Summary:
    """The nearest of some shards' rows for the train rows of one, and the other way round.

    In the first steps a shard meets itself too.
    """
    own = lending.own(shard)
    found = Answers.none(own)
    if lending.lends.any():
        here = lending.held.of(lending, shard)
        if steps[0] == 1 and here.space is not None:
            near = neighbors.nearest(here.space, here.support, wanted=here.wanted)
            found.nearer(_answers(near, here, here, shard))
        for far, number in met_by(shard, len(lending.shards)):
            if far in range(*steps):
                other = lending.shards[number]
                mine, theirs = _met((shard, here), (other, lending.held.of(lending, other)))
                found.nearer(mine)
                theirs.keep(kept, shard, f"-{number}")
    found.keep(kept, shard)
    return {"n_rows": np.array(shard.n_train)}


def _met(one: tuple[Shard, Side], two: tuple[Shard, Side]) -> tuple[Answers, Answers]:
    """What the rows of two shards lend each other."""
    (first, here), (second, there) = one, two
    if here.space is None or there.space is None:
        return Answers.none(here.own), Answers.none(there.own)
    wanted = here.wanted, there.wanted
    mine, theirs = neighbors.nearest_both(
        here.space, here.support, there.space, there.support, wanted=wanted
    )
    return _answers(mine, here, there, second), _answers(theirs, there, here, first)


def _answers(found: Found, asking: Side, lenders: Side, shard: Shard) -> Answers:
    return Answers.of(found, asking, shard.train + lenders.places, lenders.own[:, lenders.places])


def merge_shard(
    shard: Shard,
    kept: Kept,
    lending: Lending,
    meeting: Kept,
    before: Kept | None,
    steps: tuple[int, int],
) -> Summary:
    """The nearest of all that was found for the train rows of a shard."""
    found = Answers.kept(meeting, shard)
    if before is not None:
        found.nearer(Answers.kept(before, shard))
    for other in lending.shards if lending.lends.any() else ():
        met = met_by(other, len(lending.shards))
        if any(far in range(*steps) and number == shard.number for far, number in met):
            found.nearer(Answers.kept(meeting, other, f"-{shard.number}"))
    found.keep(kept, shard)
    return {"n_rows": np.array(shard.n_train)}


def lend_to_few(
    run: Run, lending: Lending, vectors: np.ndarray, own: np.ndarray, name: str
) -> Answers:
    """Who lends to some rows that the driver holds, with these own votes (n_sources, n_rows)."""
    found = Answers.none(own)
    if not lending.lends.any() or not own.shape[1]:
        return found
    for each in run.stage(name, lend_out, lending, vectors, own):
        found.nearer(Answers(each["lender"], each["distance"], each["vote"]))
    return found


def lend_out(
    shard: Shard, kept: Kept, lending: Lending, vectors: np.ndarray, own: np.ndarray
) -> Summary:
    """What one shard's rows would lend to rows from elsewhere."""
    found = Answers.none(own)
    asking = Side.of(vectors, own, lending.lends, lending.metric)
    some, lenders = lending.lenders(shard)
    if asking.space is not None and lenders.space is not None:
        near = neighbors.nearest(lenders.space, lenders.support, asking.space, wanted=asking.wanted)
        start = shard.train + some[lenders.places]
        found.nearer(Answers.of(near, asking, start, lenders.own[:, lenders.places]))
    return {name: getattr(found, name) for name in NAMES}


def with_direction(vectors: np.ndarray, metric: str) -> np.ndarray:
    """Rows that can be near somebody: under cosine distance a vector of zeros is not."""
    if metric != "cosine":
        return np.arange(len(vectors))
    return np.flatnonzero((vectors != 0).any(axis=1))


def typical_distance(run: Run, vectors: ShardVectors, metric: str, n_train: int) -> float:
    """The median distance from a train row to its nearest other row, from at most 2,000 rows.

    What `extension.typical_distance` says of all rows at once.
    """
    if n_train < 2:
        return 0.0
    rows = np.unique(np.linspace(0, n_train - 1, min(2000, n_train)).astype(int))
    (sample,) = run.stage("typical-rows", sample_shard, vectors, rows).gathered("vectors")
    near = [
        each["near"] for each in run.stage("typical", typical_shard, vectors, metric, rows, sample)
    ]
    return float(np.median(np.min(near, axis=0)))


def sample_shard(shard: Shard, kept: Kept, vectors: ShardVectors, rows: np.ndarray) -> Summary:
    """Vectors of some train rows, by their places among train rows."""
    mine = rows[(rows >= shard.train) & (rows < shard.train + shard.n_train)] - shard.train
    if not len(mine):
        return {"vectors": np.empty((0, vectors.dimension), dtype=np.float32)}
    return {"vectors": vectors.of(shard)[mine]}


def typical_shard(
    shard: Shard,
    kept: Kept,
    vectors: ShardVectors,
    metric: str,
    rows: np.ndarray,
    sample: np.ndarray,
) -> Summary:
    """How near any other row of a shard comes to each row of the sample; inf where there is none."""
    from ..neighbors.old.knn_lists import exact_rows

    near = np.full(len(rows), np.inf)
    if not shard.n_train:
        return {"near": near}
    train = neighbors.Space(vectors.of(shard), metric)
    asking = neighbors.Space(sample, metric)
    width = min(2, train.n_nodes)
    node, distance = exact_rows(train, asking, np.arange(asking.n_nodes), width)
    node, distance = node[asking.node], distance[asking.node]
    inside = np.flatnonzero((rows >= shard.train) & (rows < shard.train + shard.n_train))
    near[:] = distance[:, 0]
    own = train.node[rows[inside] - shard.train]
    twin = np.bincount(train.node)[own] > 1
    others = np.where(node[inside] == own[:, None], np.inf, distance[inside]).min(axis=1)
    near[inside] = np.where(twin, 0.0, others)
    return {"near": near}


def lends(counts: np.ndarray, n_train: int) -> np.ndarray:
    """Which sources have something to lend, by their number of votes: some, and not on every row."""
    return np.asarray((counts > 0) & (counts < n_train))


def columns_of(names: Sequence[str], every: Sequence[str]) -> np.ndarray:
    """Where sources stand among all that voted."""
    return np.array([list(every).index(name) for name in names], dtype=np.intp)
