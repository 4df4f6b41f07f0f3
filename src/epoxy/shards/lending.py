"""Reach over shards: the nearest supporting row of every source, which is a minimum over shards.

Every shard asks all shards' supporting rows. Where memory has room for them beside a shard, a worker
reads them once and holds them: they are broadcast by the file system. Where it has not, it reads one
shard of them at a time, again for every shard that asks. Each search is the exact one, and of two answers
the nearer is taken, of equals the lower row: what a search over all rows at once would give, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import neighbors
from ..loans import NOBODY
from ..neighbors.search import Found
from ..votes import ABSTAIN
from .run import Run
from .runner import Summary
from .shard import Kept, Shard
from .vectors import ShardVectors


@dataclass(frozen=True)
class Lending:
    """Sources that lend, over vectors under one metric."""

    votes: Kept
    vectors: ShardVectors
    shards: tuple[Shard, ...]
    columns: np.ndarray  # which of the kept votes
    lends: np.ndarray  # (n_columns,) bool: it votes on some train rows and not on all
    metric: str
    supports: Supports

    def support(self, shard: Shard) -> Support:
        """The rows of a shard that lend; only those with a direction can be near somebody."""
        votes = self.votes.load(shard, "votes")[self.columns]
        backing = np.flatnonzero(((votes != ABSTAIN) & self.lends[:, None]).any(axis=0))
        if not len(backing):
            return Support(backing, votes[:, backing], None)
        vectors = self.vectors.of(shard)[backing]
        some = with_direction(vectors, self.metric)
        backing, vectors = backing[some], vectors[some]
        space = neighbors.Space(vectors, self.metric) if len(backing) else None
        return Support(backing, votes[:, backing], space)


@dataclass(frozen=True, eq=False)
class Support:
    """Rows of one shard that lend, ready to be searched."""

    rows: np.ndarray  # places among the shard's train rows
    votes: np.ndarray  # (n_sources, n_rows)
    space: neighbors.Space | None

    @property
    def n_bytes(self) -> int:
        """What it holds; a space holds vectors twice, as they are and at length one."""
        space = 0 if self.space is None else 2 * self.space.vectors.nbytes + 16 * len(self.space)
        return self.rows.nbytes + self.votes.nbytes + space


class Supports:
    """What a worker holds of the rows that lend, as much as fits; it is as old as the stage.

    The same to a stage's digest, however much fits, and it travels empty.
    """

    def __init__(self, most: int) -> None:
        self.most, self._bytes = most, 0
        self._held: dict[int, Support] = {}

    def __reduce__(self) -> Any:
        return Supports, (self.most,)

    def __repr__(self) -> str:
        return "Supports()"

    def of(self, lending: Lending, shard: Shard) -> Support:
        """Held, or read."""
        found = self._held.get(shard.number)
        if found is None:
            found = lending.support(shard)
            if self._bytes + found.n_bytes <= self.most:
                self._held[shard.number] = found
                self._bytes += found.n_bytes
        return found


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

    def nearer(
        self, at: int, rows: np.ndarray, found: Found, start: np.ndarray, vote: np.ndarray
    ) -> None:
        """Take what is nearer for some rows of source `at`; later shards hold higher rows."""
        close = found.distance < self.distance[at, rows]
        mine, who = rows[close], found.row[close]
        self.distance[at, mine] = found.distance[close]
        self.lender[at, mine] = start[who]
        self.vote[at, mine] = vote[who]


def lend(run: Run, lending: Lending) -> Kept:
    """Who lends to every train row; kept shard by shard as `lender`, `distance` and `vote`."""
    return run.stage("reach", lend_shard, lending).finish()


def lend_shard(shard: Shard, kept: Kept, lending: Lending) -> Summary:
    """The nearest supporting rows of all shards, for the train rows of one."""
    own = lending.votes.load(shard, "votes")[lending.columns]
    found = Answers.none(own)
    if lending.lends.any():
        asking = _Asking(lending.vectors.of(shard), own, lending)
        for other in lending.shards:
            asking.ask(other, found)
    kept.save(shard, lender=found.lender, distance=found.distance, vote=found.vote)
    return {"n_rows": np.array(shard.n_train)}


def lend_to_few(
    run: Run, lending: Lending, vectors: np.ndarray, own: np.ndarray, name: str
) -> Answers:
    """Who lends to some rows that the driver holds, with these own votes (n_sources, n_rows)."""
    found = Answers.none(own)
    if not lending.lends.any() or not own.shape[1]:
        return found
    for each in run.stage(name, lend_out, lending, vectors, own):
        near = each["distance"] < found.distance
        found.distance[near] = each["distance"][near]
        found.lender[near], found.vote[near] = each["lender"][near], each["vote"][near]
    return found


def lend_out(
    shard: Shard, kept: Kept, lending: Lending, vectors: np.ndarray, own: np.ndarray
) -> Summary:
    """What one shard's rows would lend to rows from elsewhere."""
    found = Answers.none(own)
    _Asking(vectors, own, lending).ask(shard, found)
    return {"lender": found.lender, "distance": found.distance, "vote": found.vote}


class _Asking:
    """Rows that ask, prepared once for all shards."""

    def __init__(self, vectors: np.ndarray, own: np.ndarray, lending: Lending) -> None:
        self.lending, self.own = lending, own
        self.places = with_direction(vectors, lending.metric)
        self.space = None
        if len(self.places):
            some = vectors if len(self.places) == len(vectors) else vectors[self.places]
            self.space = neighbors.Space(some, lending.metric)

    def ask(self, other: Shard, found: Answers) -> None:
        """Look whether rows of another shard are nearer than what is known."""
        lending = self.lending
        there = lending.supports.of(lending, other)
        if self.space is None or there.space is None:
            return
        support = ((there.votes != ABSTAIN) & lending.lends[:, None]).T
        wanted = (self.own[:, self.places] == ABSTAIN) & lending.lends[:, None]
        near = neighbors.nearest(there.space, support, self.space, wanted=wanted.T)
        for at, votes in enumerate(there.votes):
            answer = Found(near.row[:, at], near.distance[:, at])
            found.nearer(at, self.places, answer, other.train + there.rows, votes)


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
    from ..neighbors.knn_lists import exact_rows

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
