"""Reach over millions of rows: read off approximate neighbour lists, which say how many they miss.

The lists belong to the vectors and are made once (`neighbors.approximate`). A row borrows from the
nearest row in its list that a source votes on; where none is listed, it borrows nothing: its lender
would be farther than all that are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..compiling import compiled
from ..files import write_whole
from ..loans import EXACT_UP_TO, Neighbours
from ..neighbors.approximate import NeighbourLists, Recall, Settings, approximate_lists
from ..votes import ABSTAIN
from .lending import Answers, Lending
from .run import Run
from .runner import Summary
from .shard import Kept, Shard, cannot_write
from .vectors import ShardVectors

AT_ONCE = 1 << 14
MEMORY = 2 * 10**9
"""Bytes that making lists takes at most: more would not make it faster."""


@dataclass(frozen=True)
class Lists:
    """Neighbour lists in files, and what each source has to lend at each distinct vector."""

    folder: Path
    support: Kept
    made_of: str  # vectors and settings


def are_asked(how: Neighbours, n_train: int) -> bool:
    """Whether neighbours are approximate: as the project says, or by the number of rows."""
    return how != "exact" and (how != "auto" or n_train > EXACT_UP_TO)


def lend_by_lists(run: Run, lending: Lending, how: Neighbours, memory: int) -> tuple[Kept, Recall]:
    """Who lends to every train row, as far as the lists know; kept as `lending.lend` keeps it."""
    settings = how if isinstance(how, Settings) else Settings()
    home = run.home / "neighbours"
    vectors = _mapped(run, lending.vectors)
    found = approximate_lists(
        vectors,
        lending.metric,
        settings=settings,
        memory=min(memory, MEMORY),
        folder=home,
        progress=run.report("finding neighbours"),
    )
    _save(home / "node.npy", found.points.node)
    stage = run.stage("support", no_summary, lending, str(settings))
    _keep_support(stage.kept, lending, found)
    lists = Lists(home, stage.kept, f"{found.points.fingerprint()} {settings}")
    return run.stage("reach", list_shard, lending, lists).finish(), found.recall


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
        write_whole(place, fill, durable=False)
    except OSError as error:
        raise cannot_write(place, error) from error
    return np.asarray(np.load(place, mmap_mode="r"))


def _save(path: Path, array: np.ndarray) -> None:
    try:
        write_whole(path, lambda place: _fill(place, array), durable=False)
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


def list_shard(shard: Shard, kept: Kept, lending: Lending, lists: Lists) -> Summary:
    """The nearest supporting rows that are listed, for the train rows of a shard."""
    own = lending.votes.load(shard, "votes")[lending.columns]
    found = Answers.none(own)
    train = np.flatnonzero(lending.vectors.train.load(shard, "train"))
    node = np.load(lists.folder / "node.npy", mmap_mode="r")[shard.start : shard.stop][train]
    names = [(lists.support.folder / f"{at}.row.npy") for at in range(len(own))]
    row = [np.load(each) for each in names]
    vote = [np.load(each.with_name(each.name.replace("row", "vote"))) for each in names]
    for start in range(0, len(node), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        mine = np.maximum(node[part], 0)
        near = np.load(lists.folder / "neighbour.npy", mmap_mode="r")[mine]
        far = np.load(lists.folder / "distance.npy", mmap_mode="r")[mine]
        for at in np.flatnonzero(lending.lends).tolist():
            asks = (own[at, part] < 0) & (node[part] >= 0)
            told = (found.lender[at, part], found.distance[at, part], found.vote[at, part])
            _walk(near, far, asks, row[at], vote[at], *told)
    kept.save(shard, lender=found.lender, distance=found.distance, vote=found.vote)
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
