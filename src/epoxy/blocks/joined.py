"""Tables that are brought to the rows by id, by DuckDB: within its memory, the rest on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AlignmentError, MissingExtra, UnknownName
from ..project.read import OWN_IDS
from ..project.tables import check_named, nameless
from .budget import FIXED

SHOWN = 5
BATCH = 8192
Read = Callable[..., tuple[Any, Iterable[Any]]]
"""Opens a file: its schema, and batches of the columns asked for."""


class Joins:
    """The names of all rows in the order of their files, and what is found for them in other files.

    Names are compared as text. `folder` is where DuckDB spills to.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise MissingExtra.of("reading rows past memory", "duckdb", "scale") from error
        folder.mkdir(parents=True, exist_ok=True)
        self.db = duckdb.connect()
        self.db.execute(f"SET memory_limit = '{max(100, (memory - FIXED) // 2_000_000)}MB'")
        self.db.execute("SET temp_directory = ?", [str(folder / "spilled")])
        self.count = self.n_given = self.n_tables = 0

    def close(self) -> None:
        """End it; what was spilled goes with it."""
        self.db.close()

    def name_rows(self, ids: Iterable[Any], file: Path | None, column: str) -> None:
        """Take up the names of a file's rows; refuses missing ones and those that repeat."""
        import pyarrow as pa

        first = self.count
        batches = (pa.record_batch([each], names=[column]) for each in ids)
        self.count += self._fill("names", batches, column, [], file, OWN_IDS, first)
        self._check_once(f"names WHERE place >= {first}", file, column, OWN_IDS)

    def in_both(self) -> list[str]:
        """Names that two files have."""
        twice = "SELECT id FROM names GROUP BY id HAVING count(*) > 1 ORDER BY id"
        return [each for (each,) in self.db.execute(twice).fetchall()]

    def places(self, read: Read, column: str, file: Path) -> np.ndarray:
        """Where each row stands in another file, in the order of the rows."""
        other = self._take(read, column, [], file)
        found = self.db.sql(
            f"SELECT {other}.place FROM names JOIN {other} USING (id) ORDER BY names.place"
        )
        return np.asarray(found.fetchnumpy()["place"])

    def joined(self, read: Read, column: str, names: list[str], file: Path) -> Iterator[Any]:
        """Columns of another file for all rows, in their order, as pyarrow tables of some rows."""
        import pyarrow as pa

        other = self._take(read, column, names, file)
        listed = ", ".join(f"{other}.c{at} AS {_quoted(name)}" for at, name in enumerate(names))
        found = self.db.sql(
            f"SELECT {listed} FROM names JOIN {other} USING (id) ORDER BY names.place"
        )
        for batch in found.to_arrow_reader(BATCH):
            yield pa.Table.from_batches([batch])
        self.db.execute(f"DROP TABLE {other}")

    def _take(self, read: Read, column: str, names: list[str], file: Path) -> str:
        """A table of some columns of a file by its ids; every row has exactly one row there."""
        schema = read()[0]
        if column not in schema.names:
            raise UnknownName.of(f"column of {file}", column, schema.names)
        self.n_tables += 1
        other, cure = f"other{self.n_tables}", "give every row an id of its own"
        batches = read([column, *names])[1]
        self.n_given = self._fill(other, batches, column, names, file, cure)
        self._check_once(other, file, column, cure)
        lost = f"FROM names ANTI JOIN {other} USING (id)"
        (count,) = self.db.execute(f"SELECT count(*) {lost}").fetchall()[0]
        if count:
            shown = self.db.execute(f"SELECT id {lost} ORDER BY place LIMIT {SHOWN}").fetchall()
            raise AlignmentError(
                f"{file} has no row for {count} ids of the rows: {[each for (each,) in shown]}; "
                "write one for every row, under the same id"
            )
        return other

    def _fill(
        self,
        table: str,
        batches: Iterable[Any],
        column: str,
        names: list[str],
        file: Any,
        cure: str,
        first: int = 0,
    ) -> int:
        """Put rows into a table, with a number and a name each; refuses rows without one; how many."""
        import pyarrow as pa

        count, lost = 0, [np.empty(0, np.intp)]
        for batch in batches:
            ids = batch.column(column)
            lost.append(count + _nameless(ids))
            numbers = pa.array(np.arange(first + count, first + count + len(batch)))
            arrays = [numbers, ids.cast(pa.string()), *(batch.column(each) for each in names)]
            titles = ["place", "id", *(f"c{at}" for at in range(len(names)))]
            self.db.register("given", pa.table(arrays, names=titles))
            verb = f"INSERT INTO {table}" if first + count else f"CREATE TABLE {table} AS"
            self.db.execute(f"{verb} SELECT * FROM given")
            count += len(batch)
        check_named(np.concatenate(lost), column, file, cure)
        return count

    def _check_once(self, where: str, file: Any, column: str, cure: str) -> None:
        twice = f"SELECT id, min(place) AS first FROM {where} GROUP BY id HAVING count(*) > 1"
        (count,) = self.db.execute(f"SELECT count(*) FROM ({twice})").fetchall()[0]
        if count:
            shown = self.db.execute(f"{twice} ORDER BY first LIMIT {SHOWN}").fetchall()
            raise AlignmentError(
                f"{file} names {count} rows twice in its column {column!r}: "
                f"{[name for name, _ in shown]}; {cure}"
            )


def _nameless(ids: Any) -> np.ndarray:
    """Which ids are missing, null or blank."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(ids.type):
        return np.flatnonzero(pc.is_null(ids).to_numpy(zero_copy_only=False))
    if not (pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        return nameless(ids.to_pylist())
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(ids), ""), True)
    return np.flatnonzero(blank.to_numpy(zero_copy_only=False))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
