"""Label a project on a cluster: cut the rows finer than memory asks, and send the shards to workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed import Client

from ..errors import ParameterError
from ..progress import Progress, silent
from ..session.project import Project
from ..shards.budget import bytes_of
from ..shards.labelling import MEMORY, Labelled
from ..shards.labelling import label as label_shards
from ..shards.parts import parts_of
from .connecting import memory_of
from .runner import Dask

SHARDS, SMALLEST, LARGEST = 16, 2_048, 25_000
"""How many shards there are at least, and rows of one: few enough to be shared out evenly, many enough
to be worth a task. Not a matter of how many workers there are, so that a run that is taken up with
more or fewer of them finds its shards again."""


def label(
    folder: str | Path,
    client: Client,
    *,
    memory: str | int | None = None,
    model: Any = None,
    progress: Callable[[str], Progress] = lambda what: silent,
    rows_per_shard: int | None = None,
) -> Labelled:
    """Label every row of a project folder on the workers of a Dask cluster; the labels are those of `label`.

    Parameters
    ----------
    folder
        A project whose rows are Parquet, on a file system that all workers share.
    client
        Connected to the cluster; see `connect` and `local`.
    memory
        What each worker may take; what Dask's workers say they may, if it is not given.
    model
        Another model than the project's own: `Fusion(...)` or `Epoxy(...)`.
    progress
        Makes a callback from what is being done.
    rows_per_shard
        How many rows a shard has at most, where memory would allow more.
    """
    return label_shards(
        folder,
        memory=_memory(client, memory),
        model=model,
        runner=Dask(client),
        progress=progress,
        rows_per_shard=cut(Project.read(folder)) if rows_per_shard is None else rows_per_shard,
    )


def cut(project: Project) -> int:
    """Rows of a shard at most, by the number of all rows alone."""
    n_rows = parts_of(project.rows, "check the path under [rows]").n_rows
    return min(LARGEST, max(SMALLEST, -(-n_rows // SHARDS)))


def _memory(client: Client, asked: str | int | None) -> str | int:
    """What a worker may take, as asked; refuses more than the smallest has."""
    most = memory_of(client)
    if asked is None:
        return MEMORY if most is None else most
    if most is not None and bytes_of(asked) > most * 1.001:
        raise ParameterError(
            f"--memory {asked} is more than the {most / 1e6:,.0f} MB that Dask lets the smallest worker "
            "fill (four fifths of its memory limit); give less, or start workers with more"
        )
    return asked
