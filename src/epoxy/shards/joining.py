"""A second Parquet table brought to the rows by their ids, never by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import AlignmentError, UnknownName
from ..project.tables import check_named, nameless
from .parts import Parts, read_shard, table_of
from .run import Run
from .runner import Summary
from .scanning import SHOWN, Named, check_unique, hashes_of
from .shard import Kept, Shard


@dataclass(frozen=True)
class Joined:
    """Where the rows of another table are, by the hashes of their ids."""

    what: str
    shards: tuple[Shard, ...]
    kept: Kept
    id: str


def index(run: Run, parts: Parts, what: str, column: str, most: int) -> Joined:
    """Look up the ids of another table once; refuses ids that repeat or are missing."""
    if column not in parts.schema.names:
        raise UnknownName.of(f"column of {parts.path}", column, parts.schema.names)
    shards = parts.cut(most)
    other = replace(run, shards=shards, key=f"{what} {parts.key}")
    stage = other.stage(f"ids-of-{what}", index_shard, column)
    check_named(stage.gathered("nameless")[0], column, parts.path)
    kept = stage.kept
    check_unique(other, kept, Named(column, None, (), str(parts.path)), f"names-of-{what}")
    return Joined(str(parts.path), shards, kept, column)


def index_shard(shard: Shard, kept: Kept, column: str) -> Summary:
    """The hashes of a shard's ids, as they stand and in order."""
    import pyarrow as pa

    found, lost, at = [], [], shard.start
    for each in read_shard(shard, [column]):
        found.append(hashes_of(each.column(column).cast(pa.string())))
        lost.append(at + nameless(each.column(column).to_pylist()))
        at += len(each)
    hashes = np.concatenate(found)
    order = np.argsort(hashes, kind="stable")
    kept.save(shard, ids=hashes, hashes=hashes[order], order=order)
    return {"nameless": np.concatenate(lost)}


def joined(
    hashes: np.ndarray, other: Joined, columns: Sequence[str], ids: Any
) -> Iterator[tuple[np.ndarray, Any]]:
    """Rows of the other table for rows with these hashes: places among these, and a table of as many.

    `ids` gives the name of a row, for the message where one has no partner.
    """
    for mine, shard, rows in partners(hashes, other, ids):
        yield mine, _taken(shard, columns, rows)


def partners(
    hashes: np.ndarray, other: Joined, ids: Any
) -> Iterator[tuple[np.ndarray, Shard, np.ndarray]]:
    """Where the rows of the other table are: places among these, a shard, and its rows, ascending."""
    left = np.ones(len(hashes), dtype=bool)
    for shard in other.shards:
        if not left.any():
            return
        theirs = other.kept.load(shard, "hashes")
        at = np.minimum(np.searchsorted(theirs, hashes), len(theirs) - 1)
        mine = np.flatnonzero(theirs[at] == hashes)
        if len(mine):
            left[mine] = False
            rows = other.kept.load(shard, "order")[at[mine]]
            order = np.argsort(rows, kind="stable")
            yield mine[order], shard, rows[order]
    if left.any():
        lost = [ids(row) for row in np.flatnonzero(left)[:SHOWN].tolist()]
        raise AlignmentError(
            f"{other.what} has no row for {np.count_nonzero(left)} ids of the rows: {lost}; "
            "write one for every row, under the same id"
        )


def _taken(shard: Shard, columns: Sequence[str], rows: np.ndarray) -> Any:
    """Some rows of a shard, ascending, as a table."""
    import pyarrow as pa

    if len(rows) == len(shard):
        return table_of(shard, columns)
    parts, at, begin = [], 0, 0
    for batch in read_shard(shard, columns):
        end = int(np.searchsorted(rows, at + len(batch)))
        if end > begin:
            parts.append(batch.take(pa.array(rows[begin:end] - at)))
        at, begin = at + len(batch), end
    return pa.Table.from_batches(parts)
