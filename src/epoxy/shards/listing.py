"""Reach over millions of rows: read off approximate neighbour lists, which say how many they miss.

The lists belong to the vectors of the train rows and are made once (`neighbors.approximate`): the same
that a session in memory has. A row borrows from the nearest row in its list that a source votes on;
where none is listed, it borrows nothing: its lender would be farther than all that are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..compiling import compiled
from ..loans import LARGE as EXACT_UP_TO
from ..loans import Neighbours
from ..neighbors import store
from ..neighbors.graph import Recall
from ..neighbors.old.approximate import ROOM, NeighbourLists, Settings, asked_by, build
from ..neighbors.old.points import Points
from ..storage import write_whole
from ..votes import ABSTAIN
from .lending import Answers, Lending
from .run import Run
from .runner import Serial, Summary
from .searching import shared_out
from .shard import Kept, Shard, cannot_write
from .vectors import ShardVectors

AT_ONCE = 1 << 14
MEMORY = 2 * 10**9
"""Bytes that making lists takes at most: more would not make it faster."""
TYPICAL = 2000


@dataclass(frozen=True)
class Lists:
    """Neighbour lists in files, and what each source has to lend at each distinct vector."""

    folder: Path
    support: Kept
    made_of: str  # vectors and settings


@dataclass(frozen=True, eq=False)
class Listed:
    """The lists of all train rows, as the driver has them: in files, of which it knows who is equal."""

    found: NeighbourLists
    home: Path
    made_of: str
    train: np.ndarray  # (n_rows,) bool
    room: int

    @property
    def recall(self) -> Recall:
        """The share of true neighbours that are listed."""
        return self.found.recall

    def lend(self, run: Run, lending: Lending) -> Kept:
        """Who lends to every train row, as far as is listed; kept as `lending.lend` keeps it."""
        return run.stage("reach", list_shard, lending, self._with_support(run, lending)).finish()

    def lend_to_few(
        self, run: Run, lending: Lending, vectors: np.ndarray, own: np.ndarray, name: str
    ) -> Answers:
        """Who lends to some rows that the driver holds: they ask the cells that rows like them ask."""
        answers = Answers.none(own)
        asking = Points.over(vectors, lending.metric)
        if not asking.n_nodes:
            return answers
        place = run.stage(name, no_summary, self.made_of, vectors).kept.folder / "asked.npz"
        known = store.load(place, ("neighbour", "distance"))
        if known is None:
            near, far = asked_by(self.found, asking, room=self.room)
            known = {"neighbour": near, "distance": far}
            store.save(place, known)
        support = _Support(self._with_support(run, lending), len(own))
        support.walk(lending, asking.node, known["neighbour"], known["distance"], own, answers)
        return answers

    def _with_support(self, run: Run, lending: Lending) -> Lists:
        kept = run.stage("support", no_summary, lending, self.made_of).kept
        if not (kept.folder / f"{len(lending.columns) - 1}.vote.npy").exists():  # written last
            _keep_support(kept, lending, self.found)
        return Lists(self.home, kept, self.made_of)

    def typical_distance(self) -> float:
        """The median distance from a train row to its nearest other row, from at most 2,000 rows.

        What `extension.typical_distance` reads off a graph.
        """
        node = self.found.points.node[self.train]
        node = node[node >= 0]
        if self.found.neighbour.shape[1] < 2:
            return 0.0
        rows = np.unique(np.linspace(0, len(node) - 1, min(TYPICAL, len(node))).astype(int))
        alone = np.bincount(node)[node[rows]] == 1  # a row with an equal twin is at 0
        far = np.zeros(len(rows))
        far[alone] = self.found.distance[node[rows[alone]], 1]  # the nearest but itself
        return float(np.median(far))


def are_asked(how: Neighbours, n_distinct: int) -> bool:
    """Whether neighbours are approximate: as the project says, or by the number of distinct vectors."""
    return how != "exact" and (how != "auto" or n_distinct > EXACT_UP_TO)


def find_lists(
    run: Run, vectors: ShardVectors, metric: str, how: Neighbours, memory: int
) -> Listed | None:
    """Lists of the train rows, made or taken up; None where neighbours are exact."""
    if not are_asked(how, sum(each.n_train for each in run.shards)):
        return None
    train = np.concatenate([vectors.train.load(each, "train") for each in run.shards])
    points = Points.over(_mapped(run, vectors), metric, None if train.all() else train)
    if not are_asked(how, points.n_nodes):
        return None
    settings = Settings() if isinstance(how, str) else Settings(how.k, how.recall)
    home, made_of = run.home / "neighbours", f"{points.fingerprint()} {settings}"
    found = build(
        points,
        settings,
        memory=min(memory, MEMORY),
        folder=home,
        progress=run.report("finding neighbours"),
        search=None if isinstance(run.runner, Serial) else shared_out(run, home, metric, made_of),
    )
    _save(home / "node.npy", points.node)
    return Listed(found, home, made_of, train, min(ROOM, memory))


def no_summary(shard: Shard, kept: Kept, *constants: Any) -> Summary:
    """A stage whose folder the driver fills."""
    return {}


def _mapped(run: Run, vectors: ShardVectors) -> np.ndarray:
    """All vectors as one mapped file; copies shard by shard are joined first."""
    if vectors.given is not None and np.dtype(vectors.given.dtype) in (np.float32, np.float16):
        return np.asarray(np.load(vectors.given.file, mmap_mode="r"))
    place = run.home / "vectors.npy"
    n_rows = run.shards[-1].stop

    def fill(path: Path) -> None:
        made = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, vectors.dimension))
        for shard in run.shards:
            made[shard.start : shard.stop] = vectors.every(shard)
            made.flush()

    try:
        write_whole(place, fill)
    except OSError as error:
        raise cannot_write(place, error) from error
    return np.asarray(np.load(place, mmap_mode="r"))


def _save(path: Path, array: np.ndarray) -> None:
    try:
        write_whole(path, lambda place: _fill(place, array))
    except OSError as error:
        raise cannot_write(path, error) from error


def _fill(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _keep_support(kept: Kept, lending: Lending, lists: NeighbourLists) -> None:
    """For each source and distinct vector, the lowest train row that votes there, and its vote."""
    n_nodes, node = len(lists.points.first), lists.points.node
    for at, column in enumerate(lending.columns.tolist()):
        row = np.full(n_nodes, -1, dtype=np.int32)
        vote = np.full(n_nodes, ABSTAIN, dtype=np.int16)
        for shard in reversed(lending.shards if lending.lends[at] else ()):
            own = lending.votes.mapped(shard, "votes")[column]
            places = np.flatnonzero(lending.vectors.train.load(shard, "train"))
            mine = np.flatnonzero(np.asarray(own) != ABSTAIN)[::-1]  # the lowest is written last
            where = node[shard.start + places[mine]]
            there = where >= 0
            row[where[there]] = shard.train + mine[there]
            vote[where[there]] = own[mine[there]]
        _save(kept.folder / f"{at}.row.npy", row)
        _save(kept.folder / f"{at}.vote.npy", vote)


class _Support:
    """For each source, the lowest row that lends at each distinct vector, and its vote."""

    def __init__(self, lists: Lists, n_sources: int) -> None:
        folder = lists.support.folder
        self.row = [np.load(folder / f"{at}.row.npy") for at in range(n_sources)]
        self.vote = [np.load(folder / f"{at}.vote.npy") for at in range(n_sources)]

    def walk(
        self,
        lending: Lending,
        node: np.ndarray,
        near: np.ndarray,
        far: np.ndarray,
        own: np.ndarray,
        answers: Answers,
    ) -> None:
        """Answer the rows of these nodes from lists by node, `near` and `far`."""
        for start in range(0, len(node), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            mine = np.maximum(node[part], 0)
            listed = np.asarray(near[mine]), np.asarray(far[mine])
            for at in np.flatnonzero(lending.lends).tolist():
                asks = (own[at, part] < 0) & (node[part] >= 0)
                told = answers.lender[at, part], answers.distance[at, part], answers.vote[at, part]
                _walk(*listed, asks, self.row[at], self.vote[at], *told)


def list_shard(shard: Shard, kept: Kept, lending: Lending, lists: Lists) -> Summary:
    """The nearest supporting rows that are listed, for the train rows of a shard."""
    own = lending.own(shard)
    found = Answers.none(own)
    train = np.flatnonzero(lending.vectors.train.load(shard, "train"))
    node = np.load(lists.folder / "node.npy", mmap_mode="r")[shard.start : shard.stop][train]
    names = ("neighbour.npy", "distance.npy")
    near, far = (np.load(lists.folder / name, mmap_mode="r") for name in names)
    _Support(lists, len(own)).walk(lending, node, near, far, own, found)
    found.keep(kept, shard)
    return {"n_rows": np.array(shard.n_train)}


@compiled
def _walk(
    near: Any, far: Any, asks: Any, row: Any, vote: Any, lender: Any, distance: Any, lent: Any
) -> None:
    for at in range(near.shape[0]):
        if not asks[at]:
            continue
        for place in range(near.shape[1]):
            who = row[near[at, place]]
            if who < 0:
                continue
            if lender[at] >= 0 and far[at, place] > distance[at]:
                break  # only equals are left to compare
            if lender[at] < 0 or who < lender[at]:
                lender[at] = who
                distance[at] = far[at, place]
                lent[at] = vote[near[at, place]]
