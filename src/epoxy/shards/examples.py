"""Functions of example rows over shards: their examples are few, so every shard is asked with their vectors.

What a row says is decided by its distance from the nearest example, and a distance is a property of two
vectors: so the votes are those of a session, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import EpoxyError, UnknownName, VectorError
from ..functions.apply import Failure, check_declared
from ..functions.declare import Like
from ..functions.define import as_labeling_function
from ..neighbors import old as neighbors
from ..votes import ABSTAIN
from .lending import with_direction
from .run import Run
from .runner import Summary
from .scanning import Scanned, hashes_of
from .shard import Kept, Shard
from .vectors import ShardVectors


@dataclass(frozen=True)
class Examples:
    """One function, with the vectors of its rows."""

    name: str
    vote: int
    radius: float
    places: np.ndarray  # of those rows that are in the rows file, among all its rows
    elsewhere: tuple[str, ...]  # ids of those that are in a dev file
    vectors: np.ndarray  # (n_examples, dimension) of those with a direction
    metric: str

    def near(self, vectors: np.ndarray) -> np.ndarray:
        """Which rows with these vectors lie within the radius of an example; (n_rows,) bool."""
        found = np.zeros(len(vectors), dtype=bool)
        some = with_direction(vectors, self.metric)
        if len(some) and len(self.vectors):
            examples = neighbors.Space(self.vectors, self.metric)
            every = np.ones((len(examples), 1), dtype=bool)
            asking = neighbors.Space(vectors[some], self.metric)
            found[some] = neighbors.nearest(examples, every, asking).distance[:, 0] <= self.radius
        return found

    def column(self, vectors: np.ndarray, dtype: Any) -> np.ndarray:
        """Votes on rows with these vectors."""
        return np.where(self.near(vectors), self.vote, ABSTAIN).astype(dtype)


@dataclass(frozen=True)
class Likes:
    """All functions of example rows of a project, and those that cannot vote."""

    examples: tuple[Examples, ...] = ()
    vectors: ShardVectors | None = None
    failures: tuple[Failure, ...] = field(default=(), repr=False)

    @property
    def names(self) -> set[str]:
        """Who is not asked in the functions' process."""
        return {each.name for each in self.examples} | {each.name for each in self.failures}

    def on_shard(self, shard: Shard, train: np.ndarray, dtype: Any) -> dict[str, np.ndarray]:
        """Their votes on the train rows of a shard; a row is like itself, with or without a direction."""
        if not self.examples:
            return {}
        assert self.vectors is not None
        vectors, found = self.vectors.of(shard), {}
        for each in self.examples:
            every: np.ndarray = np.full(len(shard), ABSTAIN, dtype)
            every[train] = each.column(vectors, dtype)
            mine = each.places[(each.places >= shard.start) & (each.places < shard.stop)]
            every[mine - shard.start] = each.vote
            found[each.name] = every[train]
        return found

    def on_rows(
        self, vectors: np.ndarray | None, places: np.ndarray, ids: Sequence[str], dtype: Any
    ) -> dict[str, np.ndarray]:
        """Their votes on rows that the driver holds.

        `places` are those in the rows file, or `ids` those of a dev file; rows of neither are no examples.
        """
        if not self.examples:
            return {}
        assert vectors is not None
        found = {}
        for each in self.examples:
            found[each.name] = each.column(vectors, dtype)
            found[each.name][: len(places)][np.isin(places, each.places)] = each.vote
            itself = [at for at, name in enumerate(ids) if name in each.elsewhere]
            found[each.name][itself] = each.vote
        return found


def find_examples(
    run: Run,
    scanned: Scanned,
    likes: Mapping[str, Like],
    vectors: ShardVectors | None,
    apart: tuple[Sequence[Any], np.ndarray] | None,
    about: tuple[str | None, str, tuple[str, ...]],
) -> Likes:
    """The examples of all functions of a project, by their ids.

    `apart` are ids and vectors of the rows of a dev file; `about` says in which column rows are named,
    under which metric they are near, and which classes there are.
    """
    if not likes:
        return Likes()
    column, metric, classes = about
    names = sorted({row for each in likes.values() for row in each.rows})
    known: dict[str, tuple[int, np.ndarray]] = {}
    if vectors is not None:
        known |= _in_dev_file(names, apart)
        stage = run.stage("examples", pick_examples, scanned.kept, vectors, column, names)
        for each in stage:
            found = zip(each["which"].tolist(), each["places"].tolist(), each["vectors"])
            known |= {names[which]: (place, vector) for which, place, vector in found}
    made, failures = [], []
    for like in likes.values():
        try:
            check_declared([as_labeling_function(like)], classes)
            made.append(_examples(like, known, vectors, metric, classes))
        except EpoxyError as error:
            failures.append(Failure(like.name, (), str(error), kind="wrong"))
    return Likes(tuple(made), vectors, tuple(failures))


def _in_dev_file(
    names: Sequence[str], apart: tuple[Sequence[Any], np.ndarray] | None
) -> dict[str, tuple[int, np.ndarray]]:
    if apart is None:
        return {}
    wanted = set(names)
    pairs = zip(map(str, apart[0]), apart[1])
    return {name: (-1, vector) for name, vector in pairs if name in wanted}


def _examples(
    like: Like,
    known: Mapping[str, tuple[int, np.ndarray]],
    vectors: ShardVectors | None,
    metric: str,
    classes: tuple[str, ...],
) -> Examples:
    if vectors is None:
        raise VectorError(
            f"labeling function {like.name!r} needs vectors, and these rows have none; "
            "name an encoder under [vectors], or give the splits vectors"
        )
    for row in like.rows:
        if row not in known:
            raise UnknownName(
                f"labeling function {like.name!r} is like row {row!r}, and no row has that id; "
                "give ids of rows that are in the rows file"
            )
    places = np.array([known[row][0] for row in like.rows], dtype=np.int64)
    every = np.stack([known[row][1] for row in like.rows])
    some = every[with_direction(every, metric)]
    elsewhere = tuple(row for row in like.rows if known[row][0] < 0)
    told = like.name, classes.index(like.label), like.radius
    return Examples(*told, places[places >= 0], elsewhere, some, metric)


def pick_examples(
    shard: Shard,
    kept: Kept,
    rows: Kept,
    vectors: ShardVectors,
    column: str | None,
    names: list[str],
) -> Summary:
    """Which of some names are rows of a shard: numbers of names, places of rows, vectors."""
    import pyarrow as pa

    if column is None:
        numbers = [int(each) if each.isdigit() else -1 for each in names]
        wanted, ids = np.array(numbers, dtype=np.int64), np.arange(shard.start, shard.stop)
    else:
        wanted, ids = hashes_of(pa.array(names, pa.string())), rows.load(shard, "ids")
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    which = np.flatnonzero(ids[order][at] == wanted)
    mine = order[at[which]]
    if not len(mine):
        nothing = np.empty((0, vectors.dimension), dtype=np.float32)
        return {"which": which, "places": mine, "vectors": nothing}
    return {"which": which, "places": shard.start + mine, "vectors": vectors.every(shard)[mine]}
