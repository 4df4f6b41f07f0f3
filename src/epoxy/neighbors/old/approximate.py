"""Approximate neighbour lists of millions of rows, with the share of true neighbours they hold.

Exact lists take time that grows with the square of the rows: minutes at 200,000, far more at a million.
Here each node asks the cells nearest to it (see `probing`) and lists the nearest it meets; the distances
listed are the defined ones, and only who is listed is approximate. How many of the true neighbours are,
is measured: for a sample of nodes they are found exactly, and since a true neighbour is listed if and
only if its cell was asked, the sample tells before anything is searched how many cells must be asked for
a recall.

With a folder, finished blocks are kept there with a checksum each, and a build that was killed goes on
after them; the result is mapped, not held. Rejected: graphs of links (HNSW, NN-descent), which take
four times as long and more at 200,000 rows for the same recall, and whose lists depend on the order in
which threads meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ParameterError
from ...numerics import wilson
from ...progress import Progress, silent
from ..graph import Recall
from ..workers import Work, n_threads
from .lists_folder import Blocks, InFolder, InMemory, parts
from .points import Points
from .probing import (
    Asking,
    Members,
    Partition,
    asked_cells,
    cells_for,
    learn,
    nearest_in_cells,
    with_newcomers,
)

BLOCK = 4096  # nodes searched, written and checked at a time
MEMORY = 4 << 30
SURE = 1.959963984540054
LEAST_ROOM = 32 << 20
ROOM = 256 << 20  # for prepared cells where few are asked


Search = Callable[[Members, Partition, Blocks, int, Progress], None]
"""Searches the blocks of positions that are not finished and writes them."""


@dataclass(frozen=True)
class Settings:
    """How approximate lists are made.

    `recall` is the share of true neighbours to reach on the sample, by asking more cells, up to `most`
    of them (None: as many as it takes); `probes` asks a fixed number instead.
    """

    k: int = 64
    recall: float | None = 0.95
    probes: int | None = None
    most: int | None = None
    cells: int | None = None  # None: twice the square root of the number of distinct vectors
    sample: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("k", "probes", "most", "cells", "sample"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ParameterError(
                    f"{name} is a whole number of at least 1, got {value!r}; give one"
                )
        if self.probes is None and not (self.recall is not None and 0 < self.recall <= 1):
            raise ParameterError(
                f"recall is a share above 0 and up to 1, got {self.recall!r}; "
                "give one such as 0.95, or a number of probes"
            )


@dataclass(frozen=True, eq=False)
class NeighbourLists:
    """Each distinct vector's nearest others as far as they were found, itself among them.

    `neighbour` and `distance` may be mapped files; `points.node` says which list is a row's.
    """

    points: Points
    neighbour: np.ndarray  # (n_nodes, k) int32 nodes, nearest first, equals by node
    distance: np.ndarray  # (n_nodes, k) float64
    partition: Partition
    recall: Recall

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The lists of some rows: the first row of each neighbour, and how far it is.

        A row without a direction has none: −1 and inf.
        """
        node = self.points.node[start:stop]
        row = self.points.first[self.neighbour[np.maximum(node, 0)]]
        far = np.asarray(self.distance[np.maximum(node, 0)])
        row[node < 0], far[node < 0] = -1, np.inf
        return row, far


def approximate_lists(
    vectors: Any,
    metric: str = "cosine",
    *,
    settings: Settings | None = None,
    memory: int = MEMORY,
    folder: str | Path | None = None,
    progress: Progress = silent,
    search: Search | None = None,
) -> NeighbourLists:
    """List the nearest rows of every row, most of them, within a number of bytes of memory.

    Parameters
    ----------
    vectors
        float32 or float16, rows × dimension; a file mapped by `numpy.load(…, mmap_mode="r")` is read
        in blocks. Rows with equal vectors share a list; under cosine distance rows of zeros have none.
    memory
        Bytes that this may take beyond the vectors themselves where those are in memory.
    folder
        Where lists are written; a build that was killed goes on there, and one that was finished with
        the same vectors and settings is opened. Without it everything is kept in memory.
    search
        Who searches the blocks, if not the threads of this process.

    Examples
    --------
    >>> found = approximate_lists(np.eye(4, dtype="float32"), settings=Settings(k=2))
    >>> found.neighbour.tolist(), found.recall.value
    ([[0, 1], [1, 0], [2, 0], [3, 0]], 1.0)
    """
    points = Points.over(vectors, metric)
    given = {"memory": memory, "folder": folder, "progress": progress, "search": search}
    return build(points, settings or Settings(), **given)  # type: ignore[arg-type]


def folder_in(cache: Path, points: Points, settings: Settings) -> Path:
    """Where a cache keeps the lists of these points: the name says which, and how they are made."""
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=8).hexdigest()
    return cache / f"lists-{points.fingerprint()}-{digest}"


def build(
    points: Points,
    settings: Settings,
    *,
    memory: int = MEMORY,
    folder: str | Path | None = None,
    progress: Progress = silent,
    search: Search | None = None,
) -> NeighbourLists:
    """The same of points that were looked through before."""
    if not points.n_nodes:
        raise ParameterError("neighbours need at least one row with a direction, got 0; add rows")
    width = min(settings.k, points.n_nodes)
    n_cells = min(settings.cells or cells_for(points.n_nodes), points.n_nodes)
    room = _room(points, width, n_cells, memory, held=folder is None)
    place: InMemory | InFolder = InMemory()
    if folder is not None:
        place = InFolder(Path(folder), f"{points.fingerprint()} {asdict(settings)}")
    shape = points.n_nodes, width
    if (known := place.finished(shape)) is not None:
        return _opened(points, known)
    plan = place.plan(lambda: _planned(points, settings, width, n_cells, room))
    partition = Partition(plan["centre"], plan["top"])
    sorted_file = place.sorted_file(points.vectors)
    members = Members(points, partition, room, sorted_file=sorted_file)
    blocks = place.blocks(shape, BLOCK, members.order)
    (search or search_all)(members, partition, blocks, width, progress)
    neighbour, distance = blocks.arranged(memory)
    recall = measured_recall(plan["sample"], plan["true"], neighbour)
    known = place.finish(neighbour, distance, {**plan, "recall": _numbers(recall)})
    return _opened(points, known)


def _opened(points: Points, known: dict[str, np.ndarray]) -> NeighbourLists:
    value, low, high, k, sampled = known["recall"].tolist()
    recall = Recall(value, low, high, int(k), int(sampled))
    partition = Partition(known["centre"], known["top"])
    return NeighbourLists(points, known["neighbour"], known["distance"], partition, recall)


def _numbers(recall: Recall) -> np.ndarray:
    return np.array([recall.value, recall.low, recall.high, recall.k, recall.sampled])


def measured_recall(sample: np.ndarray, true: np.ndarray, neighbour: np.ndarray) -> Recall:
    """How many of the true neighbours of some nodes are listed."""
    found = [np.isin(mine, neighbour[node]).sum() for node, mine in zip(sample, true, strict=True)]
    share = float(np.sum(found)) / max(1, true.size)
    low, high = wilson(share, len(sample), SURE)
    return Recall(share, float(low), float(high), true.shape[1], len(sample))


def _planned(
    points: Points, settings: Settings, width: int, n_cells: int, room: int
) -> dict[str, np.ndarray]:
    """Centres, a sample's true neighbours, how many cells to ask, and which."""
    centre = learn(points, n_cells, settings.seed)
    rng = np.random.default_rng([settings.seed, 1])
    sample = np.sort(rng.permutation(points.n_nodes)[: settings.sample])
    true = _true_neighbours(points, sample, width)
    probes = settings.probes
    if probes is None:
        probes = _probes_for(points, sample, true, centre, settings)
    partition = Partition.over(points, centre, min(probes, n_cells))
    return {"centre": centre, "top": partition.top, "sample": sample, "true": true}


def _true_neighbours(points: Points, sample: np.ndarray, width: int) -> np.ndarray:
    """The exact lists of some nodes: all others are asked, in blocks that follow each other."""
    blocks = np.arange(points.n_nodes) // BLOCK
    members = Members(points, Partition(np.empty(int(blocks[-1]) + 1), blocks[:, None]), room=0)
    true = np.empty((len(sample), width), dtype=np.int32)
    share = -(-len(sample) // n_threads())

    def search(part: slice) -> None:
        true[part] = nearest_in_cells(members, Asking(points, sample[part], None), width)[0]

    Work(parts(len(sample), share)).run(lambda: search)
    return true


def _probes_for(
    points: Points, sample: np.ndarray, true: np.ndarray, centre: np.ndarray, settings: Settings
) -> int:
    """The fewest cells to ask so that the sample's recall is what is wanted.

    A true neighbour is listed if its cell is asked, so its rank among the node's cells says it all.
    """
    assert settings.recall is not None
    everything = len(centre)
    ranked = asked_cells(points, sample, centre, everything)
    nodes, place = np.unique(true, return_inverse=True)
    cell = asked_cells(points, nodes, centre, 1)[place.reshape(true.shape), 0]
    rank = np.empty_like(ranked)
    np.put_along_axis(rank, ranked, np.arange(everything, dtype=np.uint16)[None], axis=1)
    needed = np.sort(np.take_along_axis(rank, cell, axis=1).ravel())
    probes = int(needed[max(0, int(np.ceil(settings.recall * len(needed))) - 1)]) + 1
    if settings.most is not None and probes > settings.most:
        reached = float((needed < settings.most).mean())
        raise ParameterError(
            f"a recall of {settings.recall:g} of {true.shape[1]} neighbours takes {probes} of "
            f"{everything} cells, and {settings.most} may be asked, which reach {reached:.3f}; "
            "let more be asked with most=…, or want less"
        )
    return probes


def asked_by(
    lists: NeighbourLists, others: Points, *, room: int = ROOM, progress: Progress = silent
) -> tuple[np.ndarray, np.ndarray]:
    """Lists of the nodes of other rows: the nearest of the same cells as rows like them ask.

    `room` bytes of prepared cells are held.
    """
    partition, width = lists.partition, lists.neighbour.shape[1]
    members = Members(lists.points, partition, room)
    nodes = np.arange(others.n_nodes)
    top = asked_cells(others, nodes, partition.centre, partition.probes)
    by_cell = np.argsort(top[:, 0], kind="stable")
    neighbour = np.empty((len(nodes), width), dtype=np.int32)
    distance = np.empty((len(nodes), width))

    def search(part: slice) -> None:
        mine = by_cell[part]
        asking = Asking(others, mine, top[mine])
        neighbour[mine], distance[mine] = nearest_in_cells(members, asking, width)

    Work(parts(len(nodes), BLOCK)).run(lambda: search, progress=progress)
    return neighbour, distance


def grown_lists(
    lists: NeighbourLists, grown: Points, *, progress: Progress = silent
) -> NeighbourLists:
    """The lists of points to which nodes were added: what a build with the same centres would list.

    The recall is that of the build; new nodes ask as many cells.
    """
    old, n_old = lists.partition, len(lists.neighbour)
    new = np.arange(n_old, grown.n_nodes)
    top = asked_cells(grown, new, old.centre, old.probes)
    partition = Partition(old.centre, np.concatenate([old.top, top]))
    everybody = Members(grown, partition, ROOM)
    newcomers = Members(grown, partition, ROOM, only=slice(n_old, None))
    shape = grown.n_nodes, lists.neighbour.shape[1]
    neighbour, distance = np.empty(shape, dtype=np.int32), np.empty(shape)
    by_cell = np.argsort(partition.cell[:n_old], kind="stable")

    def renew(part: slice) -> None:
        mine = by_cell[part]
        held = lists.neighbour[mine], lists.distance[mine]
        asks = (newcomers.size[old.top[mine]] > 0).any(axis=1)
        if asks.any():
            asking = Asking(grown, mine[asks], old.top[mine[asks]])
            kept = held[0][asks], held[1][asks]
            held[0][asks], held[1][asks] = with_newcomers(newcomers, everybody, asking, kept)
        neighbour[mine], distance[mine] = held

    Work(parts(n_old, BLOCK)).run(lambda: renew, progress=progress)
    asking = Asking(grown, new, top)
    neighbour[n_old:], distance[n_old:] = nearest_in_cells(everybody, asking, shape[1])
    return NeighbourLists(grown, neighbour, distance, partition, lists.recall)


def search_all(
    members: Members, partition: Partition, blocks: Blocks, width: int, progress: Progress
) -> None:
    """Search every block of positions that is not finished yet, with the threads of this process."""

    def search(part: slice) -> None:
        blocks.write(part, *search_block(members, partition, part, width))

    Work(blocks.left).run(lambda: search, progress=progress)


def search_block(
    members: Members, partition: Partition, part: slice, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The lists of a block of positions, and how far each is."""
    positions = np.arange(part.start, part.stop)
    top = partition.top[members.order[part]]
    return nearest_in_cells(members, Asking(members.points, members.places(positions), top), width)


def _room(points: Points, width: int, n_cells: int, memory: int, *, held: bool) -> int:
    """Bytes left for prepared cells, after all that must be held."""
    n, d = points.n_nodes, points.dimension + 2
    lists = 2 * (width + 16) * 8 + width * 12
    threads = n_threads() * (BLOCK * (12 * d + lists) + 256 * (width + 16) * 4 * d + (4 << 20))
    learning = 2 * 4 * d * min(n, 32 * n_cells) + n_threads() * 3 * 1024 * 4 * n_cells
    tables = n * (4 + 4 + 8 + 8 + 2 * min(64, n_cells)) + (n * width * 12 if held else 0)
    needed = tables + max(threads, learning)
    if memory < needed + LEAST_ROOM:
        raise ParameterError(
            f"lists of {width} neighbours of {n:,} vectors need {(needed + LEAST_ROOM) / 2**30:.2f} "
            f"GB of memory, {memory / 2**30:.2f} GB may be used; allow more, or give a folder and a "
            "smaller k"
        )
    return memory - needed
