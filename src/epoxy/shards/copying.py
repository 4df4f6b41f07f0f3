"""Rows that are read whole, as a Parquet copy of them that is read like any other.

CSV and JSON lines say what their columns are only when all of a file was read, so they cannot be read
in parts within a budget of memory, and are refused there. Where nobody asked for one, as with new rows
of a project that fits into memory, the file is read whole once and kept as Parquet until it changes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..project.settings import Project
from ..project.tables import read_rows, vectors_in
from ..storage import write_whole
from .parts import Parts, is_parquet, parts_of
from .shard import cannot_write

FOLDER = "rows"
GROUP = 65_536
"""Rows of a row group, the least that is read of a copy at a time."""


def copied_parts(project: Project, path: Path, cure: str) -> Parts:
    """A table of a project in whatever format, under its own name; of another than Parquet a copy is read."""
    if is_parquet(path):
        return parts_of(path, cure)
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        read_rows(path, cure, naming=project.naming)  # says what is wrong with it
        raise
    known = repr((str(path.resolve()), project.naming)).encode()
    whose = hashlib.blake2b(known, digest_size=8).hexdigest()
    place = project.cache / FOLDER / f"{whose}-{content}.parquet"
    found = _kept(place)
    if found is None:
        table = _with_vectors(read_rows(path, cure, naming=project.naming), project.vector_column)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            for other in place.parent.glob(f"{whose}-*.parquet"):
                other.unlink(missing_ok=True)
            write_whole(place, lambda to: pq.write_table(table, to, row_group_size=GROUP))
        except OSError as error:
            raise cannot_write(place, error) from error
        found = parts_of(place)
    return Parts(path, found.parts, found.schema)


def _kept(place: Path) -> Parts | None:
    """A copy that was made before, if it is there and whole."""
    try:
        return parts_of(place) if place.exists() else None
    except StoreError:
        return None


def _with_vectors(table: Any, column: str | None) -> Any:
    """The same with vectors as lists of one length, which is known before a row is read."""
    import pyarrow as pa

    if column is None or column not in table.column_names:
        return table
    found = vectors_in(table.column(column), column)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(found.reshape(-1)), found.shape[1])
    return table.set_column(table.column_names.index(column), column, lists)
