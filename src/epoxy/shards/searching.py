"""Approximate lists made by many: cells lie in files that every worker sees, and nodes are shared out.

Nodes are in the order of their cells there, so a worker that searches a stretch of them reads the cells
around it and few others. What a list holds does not depend on who made it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..neighbors.old.approximate import BLOCK, Search, search_block
from ..neighbors.old.lists_folder import Blocks, parts
from ..neighbors.old.metrics import metric_named
from ..neighbors.old.points import Points
from ..neighbors.old.probing import Members, Partition
from ..neighbors.workers import Work
from ..progress import Progress
from ..storage import write_whole
from .run import Run
from .runner import Summary
from .shard import Kept, Shard, cannot_write

SORTED, NORMS, TOP = "sorted.npy", "norms.npy", "top.npy"


class Opened:
    """Cells as a worker has them open, as old as the stage; it travels empty."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._held: tuple[Members, Partition] | None = None

    def __reduce__(self) -> Any:
        return Opened, (self.room,)

    def __repr__(self) -> str:
        return "Opened()"

    def of(self, cells: Cells) -> tuple[Members, Partition]:
        """Open, or open now: vectors stay in their file, and what is known of nodes is held."""
        if self._held is None:
            vectors = np.asarray(np.load(cells.folder / SORTED, mmap_mode="r"))
            every = np.arange(len(vectors), dtype=np.int32)
            norms = np.load(cells.folder / NORMS)
            points = Points(
                vectors, metric_named(cells.metric), every, every, norms, lambda: cells.made_of
            )
            partition = Partition(np.empty(cells.n_cells), np.load(cells.folder / TOP))
            self._held = Members(points, partition, self.room, is_sorted=True), partition
        return self._held


@dataclass(frozen=True)
class Cells:
    """Where cells are found, and how they are asked."""

    folder: Path
    metric: str
    n_cells: int
    n_nodes: int
    width: int
    made_of: str  # vectors and settings
    opened: Opened

    def blocks(self, shard: Shard, count: int) -> list[slice]:
        """A stretch of the blocks for each of so many shards."""
        every = parts(self.n_nodes, BLOCK)
        first, last = (len(every) * at // count for at in (shard.number, shard.number + 1))
        return every[first:last]


def shared_out(run: Run, folder: Path, metric: str, made_of: str) -> Search:
    """A search whose blocks are shared out over the shards of a run."""

    def search(
        members: Members, partition: Partition, blocks: Blocks, width: int, progress: Progress
    ) -> None:
        _save(folder / NORMS, members.points.squared_norm)
        _save(folder / TOP, partition.top)
        sizes = len(partition.centre), len(partition.top), width
        cells = Cells(folder, metric, *sizes, made_of, Opened(run.spare))
        stage = run.stage("cells", search_shard, cells, len(run.shards))
        left = {part.start for part in blocks.left}
        for shard, _ in zip(run.shards, stage, strict=True):
            mine = cells.blocks(shard, len(run.shards))
            lists = [stage.kept.mapped(shard, name) for name in ("neighbour", "distance")]
            for part in mine:
                if part.start in left:
                    at = slice(part.start - mine[0].start, part.stop - mine[0].start)
                    blocks.write(part, *(each[at] for each in lists))
        for each in (stage.kept.folder, folder / NORMS, folder / TOP):
            shutil.rmtree(each) if each.is_dir() else each.unlink()

    return search


def search_shard(shard: Shard, kept: Kept, cells: Cells, count: int) -> Summary:
    """The lists of a stretch of nodes, in the order of their cells."""
    members, partition = cells.opened.of(cells)
    mine = cells.blocks(shard, count)
    n_rows = mine[-1].stop - mine[0].start if mine else 0
    neighbour = np.empty((n_rows, cells.width), dtype=np.int32)
    distance = np.empty((n_rows, cells.width))

    def search(part: slice) -> None:
        at = slice(part.start - mine[0].start, part.stop - mine[0].start)
        neighbour[at], distance[at] = search_block(members, partition, part, cells.width)

    Work[slice](mine).run(lambda: search)
    kept.save(shard, neighbour=neighbour, distance=distance)
    return {"n_rows": np.array(n_rows)}


def _save(path: Path, array: np.ndarray) -> None:
    def fill(place: Path) -> None:
        with place.open("wb") as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    try:
        write_whole(path, fill)
    except OSError as error:
        raise cannot_write(path, error) from error
