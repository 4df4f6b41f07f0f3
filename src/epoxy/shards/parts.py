"""Rows in Parquet, one file or a folder of parts: what they hold, checked, and any stretch of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import FrameError, StoreError
from ..project.tables import check_schema, parquet_files
from .shard import Piece, Shard

BATCH = 8192
"""Rows decoded at a time."""


@dataclass(frozen=True)
class Part:
    """One Parquet file, by what its footer says."""

    file: Path
    n_rows: int
    n_bytes: int  # of all columns, decoded
    groups: tuple[int, ...]  # rows of each row group
    key: str


@dataclass(frozen=True, eq=False)
class Parts:
    """The files of a table, in the order of their names."""

    path: Path
    parts: tuple[Part, ...]
    schema: Any  # pyarrow's, without metadata

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return sum(each.n_rows for each in self.parts)

    @property
    def key(self) -> str:
        """A digest that another content would change."""
        text = "\n".join(f"{each.file.name} {each.key}" for each in self.parts)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def row_bytes(self, names: Sequence[str] | None = None) -> float:
        """Decoded bytes of a row, on average."""
        return sum(each.n_bytes for each in self.parts) / max(1, self.n_rows)

    def cut(self, most: int) -> tuple[Shard, ...]:
        """Shards of so many rows at most, as even as can be."""
        count = max(1, -(-self.n_rows // max(1, most)))
        ends = [round(self.n_rows * at / count) for at in range(count + 1)]
        return tuple(
            Shard(number, self._pieces(first, last), first)
            for number, (first, last) in enumerate(pairwise(ends))
        )

    def _pieces(self, first: int, last: int) -> tuple[Piece, ...]:
        found, at = [], 0
        for part in self.parts:
            low, high = max(first - at, 0), min(last - at, part.n_rows)
            if low < high:
                found.append(Piece(str(part.file), low, high))
            at += part.n_rows
        return tuple(found)


def is_parquet(path: Path) -> bool:
    """Whether a table is read in parts: a Parquet file, or a folder of them."""
    return path.suffix.lower() == ".parquet" or path.is_dir()


def parts_of(path: Path, cure: str = "check the path") -> Parts:
    """The Parquet file, or all those in a folder, of one schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not is_parquet(path):
        raise StoreError(
            f"{path} is not Parquet, which is what is read a part at a time; convert it once, for "
            "example with pyarrow or DuckDB, or label in memory, without --memory and --cluster"
        )
    files = parquet_files(path, cure) if path.is_dir() else [path]
    parts, schema = [], None
    for file in files:
        try:
            read = pq.ParquetFile(file)
        except FileNotFoundError:
            raise StoreError(f"there is no file {file}; {cure}") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(file, error) from error
        with read:
            found = read.schema_arrow.remove_metadata()
            schema = found if schema is None else schema
            check_schema(files[0], schema, file, found)
            parts.append(_part(file, read.metadata))
    if not sum(each.n_rows for each in parts):
        raise FrameError(f"{path} has no rows; give at least one row to label")
    return Parts(path, tuple(parts), schema)


def unreadable(file: str | Path, error: Exception) -> StoreError:
    """What to say of a file that is damaged, or is no Parquet."""
    return StoreError(
        f"{file} cannot be read as .parquet: {str(error).rstrip('.')}; write it again, "
        "or give it the ending of what it holds"
    )


def _part(file: Path, about: Any) -> Part:
    groups = [about.row_group(at) for at in range(about.num_row_groups)]
    status = file.stat()
    text = f"{status.st_size} {status.st_mtime_ns} {about.num_rows} {about.serialized_size}"
    n_bytes = sum(each.total_byte_size for each in groups)
    return Part(file, about.num_rows, n_bytes, tuple(each.num_rows for each in groups), text)


def read_shard(
    shard: Shard, columns: Sequence[str] | None = None, rows: int = BATCH
) -> Iterator[Any]:
    """The rows of a shard as pyarrow record batches."""
    for piece in shard.pieces:
        yield from _read_piece(piece, columns, rows)


def table_of(shard: Shard, columns: Sequence[str] | None = None) -> Any:
    """The rows of a shard as one pyarrow table."""
    import pyarrow as pa

    return pa.Table.from_batches(list(read_shard(shard, columns)))


def _read_piece(piece: Piece, columns: Sequence[str] | None, rows: int) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # page by page: to buffer a column of a row group is to have all of it in memory
        with pq.ParquetFile(piece.file, pre_buffer=False, buffer_size=1 << 20) as read:
            yield from _stretch(read, piece, columns, rows)
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(piece.file, error) from error


def _stretch(read: Any, piece: Piece, columns: Sequence[str] | None, rows: int) -> Iterator[Any]:
    at, groups = 0, []
    first = None
    for number in range(read.num_row_groups):
        count = read.metadata.row_group(number).num_rows
        if at < piece.stop and at + count > piece.start:
            groups.append(number)
            first = at if first is None else first
        at += count
    if first is None:
        return
    at = first
    for batch in read.iter_batches(rows, row_groups=groups, columns=columns, use_threads=False):
        low, high = max(piece.start - at, 0), min(piece.stop - at, len(batch))
        if low < high:
            yield batch.slice(low, high - low)
        at += len(batch)
        if at >= piece.stop:
            return
