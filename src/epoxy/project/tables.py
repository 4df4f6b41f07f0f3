"""Files of rows as pyarrow tables: Parquet, CSV and JSON lines."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import embed, resolve
from ..errors import (
    AlignmentError,
    EpoxyError,
    FrameError,
    LabelError,
    StoreError,
    UnknownName,
    VectorError,
    VoteError,
    meant,
)
from ..inputs import as_float32
from ..neighbors import store as arrays
from ..progress import Progress
from ..session.labels import Place
from ..storage import open_regular
from ..votes import ABSTAIN, RANDOM
from .settings import Project

SHOWN = 200
"""Characters of what a reader says; it quotes whole lines of a damaged file."""
DEEPEST = 64
"""Levels of nesting a line of JSON may have; the parser's own limit is a crash."""
LEADING, NOT_HELD = r"^[+-]?0[0-9]", r"^[+-]?(0[0-9]|[0-9]{16})"
"""Names of digits that a whole number would not keep, and that a float would not."""
WHOLE = r"^([+-]?(0|[1-9][0-9]{0,17}))?$"
"""Cells that a whole number keeps."""
INFERRED = 1 << 24
"""Bytes of a file that is read past memory by which it is decided what its columns hold."""
BATCH = 8192
"""Rows of Parquet that are decoded at a time."""
SEPARATED = {".csv": ",", ".tsv": "\t"}
"""What stands between two cells of a line, by the ending of the file."""


def read_rows(
    path: str | Path, cure: str = "check the path", *, naming: Collection[str | None] = ()
) -> Any:
    """Read rows as a pyarrow table from .parquet, .csv, .tsv, .jsonl or .json lines.

    `naming` are columns whose cells are names, of rows or classes: in a CSV file 0007 is not 7 there.
    """
    import pyarrow as pa

    file = Path(path)
    readers = {
        ".parquet": _read_parquet,
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
    }
    try:
        if file.is_dir():
            return _read_folder(file, cure)
        if file.suffix.lower() not in readers:
            raise UnknownName.of("kind of rows file", file.suffix or str(file), readers)
        open_regular(file).close()
        table = readers[file.suffix.lower()](file)
    except FileNotFoundError:
        raise StoreError(f"there is no file {file}; {cure}") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError, OSError) as error:
        raise StoreError(
            f"{file} cannot be read as {file.suffix}: {str(error)[:SHOWN]}; "
            "write it again, or give it the ending of what it holds"
        ) from error
    _check_text(table, file)
    if file.suffix.lower() in SEPARATED:
        table = _with_digits_kept(table, file, naming)
    if table.num_rows == 0:
        raise FrameError(f"{file} has no rows; give at least one row to label")
    return table


def _read_folder(folder: Path, cure: str) -> Any:
    """All Parquet files of a folder, in the order of their names, of one schema."""
    import pyarrow as pa

    files = parquet_files(folder, cure)
    tables = [read_rows(each, cure) for each in files]
    for file, table in zip(files, tables):
        check_schema(files[0], tables[0].schema, file, table.schema)
    return pa.concat_tables(each.replace_schema_metadata() for each in tables)


def parquet_files(folder: Path, cure: str) -> list[Path]:
    """The Parquet files below a folder, in the order of their names."""
    files = sorted(folder.rglob("*.parquet"))
    if not files:
        raise FrameError(f"{folder} holds no .parquet file; {cure}")
    return files


def check_schema(first: Path, expected: Any, file: Path, found: Any) -> None:
    """Refuse parts of a table that have other columns or types than the first."""
    for name in [*expected.names, *found.names]:
        kinds = [
            str(each.field(name).type) if name in each.names else None for each in (expected, found)
        ]
        if kinds[0] != kinds[1]:
            said = [
                f"no column {name!r}" if kind is None else f"{name!r} of type {kind}"
                for kind in kinds
            ]
            raise AlignmentError(
                f"parts have different schemas: {first} has {said[0]}, and {file} has {said[1]}; "
                "write all parts with the same columns and types"
            )


def stream_rows(
    path: Path,
    cure: str,
    naming: Collection[str | None] = (),
    columns: Sequence[str] | None = None,
) -> tuple[Any, Iterator[Any]]:
    """Read a file past memory: its schema, and its rows as record batches (of some columns).

    What a column of CSV or JSON lines holds is decided by the beginning of the file; names are text
    unless all of them are whole numbers.
    """
    import pyarrow as pa

    kind = ".parquet" if path.is_dir() else path.suffix.lower()
    openers = {".parquet": _stream_parquet, ".jsonl": _stream_jsonl, ".ndjson": _stream_jsonl}
    opener = partial(_stream_csv, naming=naming) if kind in SEPARATED else openers.get(kind)
    if opener is None:
        raise UnknownName.of("kind of rows file", path.suffix or str(path), [*openers, *SEPARATED])

    def refused(error: Exception) -> StoreError:
        return StoreError(
            f"{path} cannot be read as {kind}: {str(error)[:SHOWN].rstrip('.')}; "
            "write it again, or give it the ending of what it holds"
        )

    def batches() -> Iterator[Any]:
        try:
            yield from stream
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError, OSError) as error:
            raise refused(error) from error

    try:
        schema, stream = opener(path, columns, cure)
    except FileNotFoundError:
        raise StoreError(f"there is no file {path}; {cure}") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError, OSError) as error:
        if "Empty" in str(error):
            raise FrameError(f"{path} has no rows; give at least one row to label") from None
        raise refused(error) from error
    _check_text(schema.empty_table(), path)
    return schema, batches()


def _stream_parquet(
    path: Path, columns: Sequence[str] | None, cure: str
) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    paths = parquet_files(path, cure) if path.is_dir() else [path]
    schemas = [pq.read_schema(each).remove_metadata() for each in paths]
    for file, schema in zip(paths, schemas):
        check_schema(paths[0], schemas[0], file, schema)
    if not sum(pq.read_metadata(each).num_rows for each in paths):
        raise FrameError(f"{path} has no rows; give at least one row to label")

    def batches() -> Iterator[Any]:
        for each in paths:
            # page by page: to buffer a column of a row group is to have all of it in memory
            with pq.ParquetFile(each, pre_buffer=False, buffer_size=1 << 20) as file:
                for batch in file.iter_batches(BATCH, columns=columns, use_threads=False):
                    yield batch.select(columns) if columns else batch

    return schemas[0], batches()


def _stream_csv(
    path: Path, columns: Sequence[str] | None, cure: str, naming: Collection[str | None]
) -> tuple[Any, Iterator[Any]]:
    import pyarrow as pa
    import pyarrow.csv

    parse = pa.csv.ParseOptions(delimiter=SEPARATED[path.suffix.lower()], newlines_in_values=True)
    read = pa.csv.ReadOptions(block_size=INFERRED)
    with pa.csv.open_csv(path, read, parse) as opened:
        names = [each for each in opened.schema.names if each in naming]
    kinds = dict.fromkeys(names, pa.string())
    if names:
        about = path.stat()
        whole = _whole_numbers(path, tuple(names), about.st_size, about.st_mtime_ns)
        kinds |= dict.fromkeys(whole, pa.int64())
    convert = pa.csv.ConvertOptions(column_types=kinds)
    with pa.csv.open_csv(path, read, parse, convert) as opened:
        schema = opened.schema
    convert.include_columns = list(columns or ())
    return schema, iter(pa.csv.open_csv(path, read, parse, convert))


@lru_cache(maxsize=8)
def _whole_numbers(path: Path, names: tuple[str, ...], *about: int) -> tuple[str, ...]:
    """Columns of a CSV file whose cells are whole numbers that keep all their digits."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    parse = pa.csv.ParseOptions(delimiter=SEPARATED[path.suffix.lower()], newlines_in_values=True)
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), include_columns=names
    )
    found = dict.fromkeys(names)
    for batch in pa.csv.open_csv(path, parse_options=parse, convert_options=convert):
        for name in list(found):
            if not pc.all(pc.match_substring_regex(batch.column(name), WHOLE)).as_py():
                del found[name]
    return tuple(found)


def _stream_jsonl(
    path: Path, columns: Sequence[str] | None, cure: str
) -> tuple[Any, Iterator[Any]]:
    import pyarrow as pa
    import pyarrow.json

    _check_depth(path)
    opened = pa.json.open_json(path, pa.json.ReadOptions(block_size=INFERRED))
    return opened.schema, (each.select(columns) if columns else each for each in opened)


def _check_text(table: Any, file: Path) -> None:
    """Refuse text that is not UTF-8, as CSV files of another encoding are, and columns of one name."""
    import pyarrow as pa

    try:
        names = table.column_names
    except UnicodeDecodeError:
        raise _not_utf8("the header", file) from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StoreError(f"{file} has more than one column named {twice}; rename all but one")
    kind = file.suffix.lower()
    if kind in SEPARATED and len(names) == 1:
        _check_separated(names[0], file, SEPARATED[kind])
    for column in table.schema if kind in SEPARATED else ():
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            raise _not_utf8(f"column {column.name!r}", file)


def _check_separated(header: str, file: Path, by: str) -> None:
    """Refuse a file that is separated by another mark: rows would be texts with their labels in them."""
    other = next((mark for mark in (";", "\t", ",", "|") if mark in header), None)
    if other is not None:
        raise StoreError(
            f"{file} has a single column, {header!r}, as files have whose cells are separated by "
            f"{other!r} and not by {by!r}; write it with {by!r}, or rename the column if it is one"
        )


def _not_utf8(what: str, file: Path) -> StoreError:
    return StoreError(
        f"{what} of {file} is not UTF-8 text; "
        f"convert it, for example: iconv -f latin1 -t utf-8 {file.name} > utf8.csv"
    )


def _check_depth(path: Path) -> None:
    """Refuse lines nested so deep that the parser would crash on them."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.count(b"[") + line.count(b"{") > DEEPEST and _depth(line) > DEEPEST:
                raise StoreError(
                    f"line {number} of {path} is nested more than {DEEPEST} levels deep; "
                    "flatten it, or write it as text"
                )


def _depth(line: bytes) -> int:
    depth = deepest = 0
    quoted = escaped = False
    for byte in line:
        if quoted:
            quoted, escaped = escaped or byte != 0x22, byte == 0x5C and not escaped
        elif byte == 0x22:
            quoted = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path)


def _read_csv(path: Path, convert: Any = None) -> Any:
    import pyarrow.csv

    by = SEPARATED[path.suffix.lower()]
    parse = pyarrow.csv.ParseOptions(delimiter=by, newlines_in_values=True)
    return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)


def _with_digits_kept(table: Any, path: Path, naming: Collection[str | None]) -> Any:
    """The table of a CSV file with names as text that were taken for numbers and would lose digits."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    kinds = pa.types.is_integer, pa.types.is_floating
    numbers = [
        each.name
        for each in table.schema
        if each.name in naming and any(kind(each.type) for kind in kinds)
    ]
    if not numbers:
        return table
    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(numbers, pa.string()),
        include_columns=numbers,
        strings_can_be_null=True,
    )
    written = _read_csv(path, as_text)
    for name in numbers:
        lost = LEADING if pa.types.is_integer(table.schema.field(name).type) else NOT_HELD
        if pc.any(pc.match_substring_regex(written[name], lost)).as_py():
            table = table.set_column(table.column_names.index(name), name, written[name])
    return table


def _read_jsonl(path: Path) -> Any:
    import pyarrow.json

    _check_depth(path)
    return pyarrow.json.read_json(path)


def label_of(value: Any) -> str | None:
    """A cell of the label column as a class name; an empty cell of a CSV file is no label."""
    return None if value is None or value != value or str(value).strip() == "" else str(value)


def labels_in(table: Any, project: Project, file: Path) -> np.ndarray:
    """The class of each row by name, None where it is not known."""
    names = table.column_names
    if project.label is None or project.label not in names:
        return np.full(table.num_rows, None, dtype=object)
    ids = table.column(project.id) if project.id in names else None
    return checked_labels(table.column(project.label), project.classes, file, ids=ids)


def checked_labels(
    column: Any, classes: Sequence[str], file: Any, *, start: int = 0, ids: Any = None
) -> np.ndarray:
    """Labels of a file's rows from `start` on by name, None where there is none."""
    values = [label_of(value) for value in column.to_pylist()]
    known = set(classes)
    for at, value in enumerate(values):
        if value is not None and value not in known:
            name = None if ids is None else label_of(ids[at].as_py())
            where = f"row {start + at}" if name is None else f"the row with id {name!r}"
            raise LabelError(
                f"{file} has the label {value!r} on {where}; {meant(value, classes)}expected one of "
                f"{list(classes)} or nothing; correct it there, or see [classes] in epoxy.toml"
            )
    return np.array(values, dtype=object)


def vectors_by_id(project: Project, named: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Vectors in a Parquet file of their own, for rows of these names in each split."""
    table = read_rows(project.encoder, "check encoder under [vectors]", naming=project.naming)
    name = list_column(table.schema, project.encoder)
    vectors = vectors_in(table.column(name), name)
    places = ids_in(table, project, project.encoder)
    return [vectors[joined_by_id(places, ids, project.encoder)] for ids in named]


def vectors_named(
    project: Project, vectors: np.ndarray, named: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Vectors whose ids stand in a file beside them, for rows of these names in each split."""
    assert project.vector_ids is not None
    table = read_rows(project.vector_ids, "check ids under [vectors]", naming=project.naming)
    places = ids_in(table, project, project.vector_ids)
    if len(vectors) != table.num_rows:
        raise AlignmentError(ids_for(project.encoder, len(vectors), project.vector_ids, len(table)))
    return [vectors[joined_by_id(places, ids, project.vector_ids)] for ids in named]


def ids_for(file: str | Path, n_vectors: int, ids: Path, n_ids: int) -> str:
    """What to say of vectors and ids that are not as many."""
    return (
        f"{file} has {n_vectors} vectors and {ids} has {n_ids} ids; write one id for every vector, "
        "in their order"
    )


def vectors_for(file: str | Path, n_vectors: int, n_rows: int) -> str:
    """What to say of a file of vectors that are not as many as rows."""
    return (
        f"{file} has {n_vectors} vectors for {n_rows} rows; write one for every row, in the order "
        "of the rows"
    )


def ready_made(project: Project, named: Sequence[np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
    """Votes that came in a Parquet file, for rows of these names in each split: a column a source."""
    assert project.votes is not None
    table = read_rows(project.votes, "check file under [votes]", naming=project.naming)
    places = ids_in(table, project, project.votes)
    at = [joined_by_id(places, ids, project.votes) for ids in named]
    found = {}
    for name in vote_columns(table.column_names, project, project.votes):
        votes = votes_in(table.column(name), name, project.classes)
        found[name] = tuple(np.ascontiguousarray(votes[each]) for each in at)
    return found


def vote_columns(names: Sequence[str], project: Project, file: str | Path) -> tuple[str, ...]:
    """The sources that voted in a file: all columns but the id."""
    found = tuple(name for name in names if name != project.id)
    if not found:
        raise StoreError(f"{file} has no column of votes; write one for each source")
    return found


def votes_in(column: Any, source: str, classes: tuple[str, ...]) -> np.ndarray:
    """A column of class indices or class names as votes; null and −1 abstain."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        found = pc.fill_null(column, ABSTAIN).to_numpy()
    else:
        at = pc.index_in(column.cast(pa.string()), value_set=pa.array(classes))
        unknown = pc.and_(pc.is_null(at), pc.is_valid(column))
        if pc.any(unknown).as_py():
            first = column.filter(unknown)[0].as_py()
            raise VoteError(
                f"source {source!r} votes {first!r}; expected one of {list(classes)} or null"
            )
        found = pc.fill_null(at, ABSTAIN).to_numpy()
    if len(found) and (found.min() < ABSTAIN or found.max() >= len(classes)):
        raise VoteError(
            f"source {source!r} votes with numbers from {found.min()} to {found.max()}; "
            f"expected −1, or less than {len(classes)}, the number of classes"
        )
    return np.asarray(found, dtype=np.int8 if len(classes) <= 127 else np.int16)


def list_column(schema: Any, file: str | Path, cure: str = "write one, with the vectors") -> str:
    """The one column of a file that holds vectors."""
    import pyarrow as pa

    kinds = (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)
    found = [each.name for each in schema if any(kind(each.type) for kind in kinds)]
    if len(found) != 1:
        raise VectorError(
            f"vectors are one column of lists, and {file} has {found or 'none'}; {cure}"
        )
    return str(found[0])


def nameless(ids: Sequence[Any]) -> np.ndarray:
    """Where an id is missing: null, NaN, or blank, as an empty cell of a CSV file is."""
    return np.array([at for at, each in enumerate(ids) if label_of(each) is None], dtype=np.intp)


def check_named(
    rows: np.ndarray, column: str | None, file: Any, cure: str = "give every row an id of its own"
) -> None:
    """Refuse a file some of whose rows, by their numbers, have no id."""
    if len(rows):
        raise AlignmentError(
            f"{file} has no id in its column {column!r} for {len(rows)} rows, numbers "
            f"{np.sort(rows)[:5].tolist()}; {cure}"
        )


def ids_in(table: Any, project: Project, file: str | Path) -> dict[str, int]:
    """Where each id stands in a table; refuses ids that repeat or are missing."""
    if project.id not in table.column_names:
        raise UnknownName.of(f"column of {file}", str(project.id), table.column_names)
    given = table.column(project.id).to_pylist()
    check_named(nameless(given), project.id, file)
    names = [str(each) for each in given]
    found = {name: at for at, name in enumerate(names)}
    if len(found) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise AlignmentError(
            f"{file} names {len(twice)} rows twice in its column {project.id!r}: {twice[:5]}; "
            "give every row an id of its own"
        )
    return found


def joined_by_id(places: Mapping[str, int], ids: np.ndarray, file: str | Path) -> np.ndarray:
    """Where the rows with these ids stand in another table."""
    names = [str(each) for each in ids.tolist()]
    lost = [name for name in names if name not in places]
    if lost:
        raise AlignmentError(
            f"{file} has no row for {len(lost)} ids of the rows: {lost[:5]}; "
            "write one for every row, under the same id"
        )
    return np.array([places[name] for name in names], dtype=np.intp)


def vectors_in(column: Any, name: str) -> np.ndarray:
    """An Arrow column of lists of equal length as float32 vectors."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        raise VectorError(
            f"column {name!r} has {column.null_count} rows without a vector; embed them"
        )
    if isinstance(column, pa.ChunkedArray):
        parts = [vectors_in(chunk, name) for chunk in column.chunks]
        if len({each.shape[1] for each in parts}) > 1:
            raise VectorError(
                f"column {name!r} has vectors of different lengths; embed all rows alike"
            )
        return np.concatenate(parts)
    kind = column.type
    fixed = pa.types.is_fixed_size_list(kind)
    if not (fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise VectorError(f"column {name!r} holds {kind}, not vectors; write lists of numbers")
    lengths = [kind.list_size] if fixed else pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        raise VectorError(f"column {name!r} has vectors of different lengths; embed all rows alike")
    values = column.flatten()
    if values.null_count:
        raise VectorError(
            f"column {name!r} has vectors with missing numbers; embed these rows again"
        )
    found = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return np.asarray(found.reshape(len(column), -1))


ROWS_FILE, DEV_FILE = "rows", "dev"
"""What files are called in the log, wherever they lie: the rows file, and a dev file of its own."""
OWN_IDS = "give every row an id of its own, or take id out of [rows] to name rows by position"
"""What to do where ids do not name the rows."""


@dataclass(frozen=True, eq=False)
class ProjectRows:
    """The rows of a project, cut into train and dev, with ids and hand labels."""

    files: tuple[str, ...]  # the file each split came from
    tables: tuple[Any, ...]  # pyarrow tables, train first
    ids: tuple[np.ndarray, ...]
    y: tuple[np.ndarray | None, ...]  # names, None where unknown
    chosen: tuple[np.ndarray | None, ...]
    by: tuple[np.ndarray | None, ...]  # who gave each label, None for somebody who is believed
    sequences: tuple[np.ndarray | None, ...]
    positions: tuple[np.ndarray, ...]  # where each row stands in its file
    keys: tuple[str, ...]  # fingerprints of the tables
    given: frozenset[str] = frozenset()  # columns that hold labels, and so are no content
    _contents: dict[str, list[Place]] = field(default_factory=dict, repr=False)

    def content(self, at: int, row: int) -> str:
        """A fingerprint of what a row says, whoever labelled it and wherever it stands."""
        return self._fingerprint(self.tables[at].slice(row, 1).to_pylist()[0])

    def _fingerprint(self, cells: dict[str, Any]) -> str:
        told = {name: value for name, value in cells.items() if name not in self.given}
        text = json.dumps(told, sort_keys=True, default=str, ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def follow(
        self, content: str, file: str, place: Place | None, taken: Container[Place] = ()
    ) -> Place | None:
        """Where the row of a file with this content is now: at its old place, or where it was moved to.

        Of rows that say the same, the first that is not `taken`.
        """
        if place is not None and self.content(*place) == content:
            return place
        if not self._contents:
            for at, table in enumerate(self.tables):
                every = (cells for batch in table.to_batches(10_000) for cells in batch.to_pylist())
                for row, cells in enumerate(every):
                    key = f"{self.files[at]} {self._fingerprint(cells)}"
                    self._contents.setdefault(key, []).append((at, row))
        found = self._contents.get(f"{file} {content}", [])
        free = [each for each in found if each not in taken]
        return next(iter(free or found), None)


def read_project(project: Project) -> ProjectRows:
    """Read the rows; those with a true label are dev rows, unless dev is a file of its own.

    Rows in sequences stay where they are, labelled or not.
    """
    table = read_rows(project.rows, "check the path under [rows]", naming=project.naming)
    apart = (
        None
        if project.dev is None
        else read_rows(project.dev, "check dev under [rows]", naming=project.naming)
    )
    check_columns(project, table, apart)
    labels = labels_in(table, project, project.rows)
    if apart is not None:
        tables: tuple[Any, ...] = (table, apart)
        positions: tuple[np.ndarray, ...] = (
            np.arange(table.num_rows),
            np.arange(apart.num_rows),
        )
        truth: tuple[Any, ...] = (None, labels_in(apart, project, project.dev or project.rows))
        files: tuple[str, ...] = (ROWS_FILE, DEV_FILE)
    elif project.sequence is not None:
        tables, positions, files = (table,), (np.arange(table.num_rows),), (ROWS_FILE,)
        truth = (labels,)
    else:
        is_dev = np.array([label is not None for label in labels], dtype=bool)
        positions = (np.flatnonzero(~is_dev), np.flatnonzero(is_dev))
        if not len(positions[0]):
            raise EpoxyError(
                f"every row of {project.rows} has a true label, so there is nothing to label; "
                "give rows without one, or name a dev file"
            )
        used = 2 if is_dev.any() else 1
        positions, files = positions[:used], (ROWS_FILE, ROWS_FILE)[:used]
        tables = tuple(_taken(table, each) for each in positions)
        truth = (None, labels[is_dev])[:used]
    return named_rows(project, files, tables, positions, truth)


def _taken(table: Any, rows: np.ndarray) -> Any:
    """Some rows of a table.

    Their numbers are handed over as they lie in memory: to convert an array, Arrow imports pandas
    where there is one, a third of a second of every command.
    """
    import pyarrow as pa

    numbers = pa.py_buffer(rows.astype(np.int64, copy=False))
    return table.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, numbers]))


def named_rows(
    project: Project,
    files: tuple[str, ...],
    tables: tuple[Any, ...],
    positions: tuple[np.ndarray, ...],
    truth: tuple[Any, ...],
) -> ProjectRows:
    """Tables of rows with their names, which are checked, and all that is told of how they were labelled."""
    ids = tuple(_ids(each, project, at) for each, at in zip(tables, positions))
    _check_ids(project, files, ids, positions)
    return ProjectRows(
        files,
        tables,
        ids,
        truth,
        tuple(_chosen(each, project.chosen) for each in tables),
        tuple(_words(each, project.by) for each in tables),
        tuple(_sequences(each, project, at) for each, at in zip(tables, positions)),
        positions,
        tuple(_table_key(each) for each in tables),
        frozenset(each for each in (project.label, project.chosen, project.by) if each),
    )


def check_columns(project: Project, table: Any, apart: Any) -> None:
    """Every column that epoxy.toml names is there; labels are where they are read from.

    A table is anything with `column_names`.
    """
    needed = (
        *(project.id, project.column, project.sequence, project.position),
        *(project.vector_column, *project.mentions),
    )
    chosen = None if project.chosen == RANDOM else project.chosen
    labelled = (project.label, chosen, project.by)
    places: list[tuple[Any, Path | None, tuple[str | None, ...]]]
    places = [(table, project.rows, (*needed, *(labelled if apart is None else ())))]
    if apart is not None:
        places.append((apart, project.dev, (*needed, *labelled)))
    for where, file, names in places:
        for name in names:
            if name is not None and name not in where.column_names:
                raise UnknownName.of(f"column of {file}", name, where.column_names)
    if apart is not None and project.label is None:
        raise StoreError(
            f"{project.dev} is a dev file, and epoxy.toml names no label column; "
            'add label = "…" under [rows]'
        )


def _check_ids(
    project: Project,
    files: tuple[str, ...],
    ids: tuple[np.ndarray, ...],
    positions: tuple[np.ndarray, ...],
) -> None:
    """Ids name rows, so every row has one, and no two rows of a file share one."""
    if project.id is None:
        return
    for file in dict.fromkeys(files):
        path = project.rows if file == ROWS_FILE else project.dev
        mine = [at for at, name in enumerate(files) if name == file]
        lost = np.concatenate([positions[at][nameless(ids[at].tolist())] for at in mine])
        check_named(lost, project.id, path, OWN_IDS)
        every = np.concatenate([ids[at].astype(str) for at in mine])
        names, counts = np.unique(every, return_counts=True)
        twice = names[counts > 1].tolist()
        if twice:
            raise AlignmentError(
                f"{path} names {len(twice)} rows twice in its column {project.id!r}: {twice[:5]}; "
                f"{OWN_IDS}"
            )


def twice(project: Project, rows: ProjectRows) -> list[str]:
    """Rows that a rows file and a dev file of its own have in common, by id or by text, in words."""
    if project.dev is None:
        return []
    known, asked = (set(each.astype(str).tolist()) for each in rows.ids)
    both = [] if project.id is None else sorted(known & asked)
    column = project.column
    if column is None:
        return in_both_files(both, [])
    texts = set(rows.tables[0].column(column).to_pylist()) - {None, ""}
    said = rows.tables[1].column(column).to_pylist()
    names = zip(rows.ids[1].astype(str).tolist(), said)
    return in_both_files(both, [name for name, text in names if text in texts])


def in_both_files(both: list[str], same: list[str]) -> list[str]:
    """What is said of ids that are in the rows file and the dev file, and of dev rows that are alike one."""
    found = []
    if both:
        found.append(
            f"{len(both)} ids are in the rows file and in the dev file ({_some(both)}); they name two "
            "rows each, and a label of one is not the other's: take them out of one file if they are "
            "the same"
        )
    if same:
        found.append(
            f"{len(same)} dev rows say what a row of the rows file says ({_some(same)}); a model trained "
            "on the labels has seen them, and its scores on dev flatter it"
        )
    return found


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _chosen(table: Any, how: str | None) -> np.ndarray | None:
    """How each row was chosen: by the column of that name, or all at random."""
    if how == RANDOM and how not in table.column_names:
        return np.full(table.num_rows, RANDOM, dtype=object)
    return _words(table, how)


def _words(table: Any, column: str | None) -> np.ndarray | None:
    if column is None or column not in table.column_names:
        return None
    words = np.empty(table.num_rows, dtype=object)
    words[:] = [label_of(value) for value in table.column(column).to_pylist()]
    return words


def read_vectors(
    project: Project, rows: ProjectRows, progress: Progress
) -> list[np.ndarray | None]:
    """A vector per row of every split, or None where the project has none."""
    if not project.embeds:
        return [None] * len(rows.tables)
    if project.vector_ids is not None:
        found = vectors_named(project, _loaded(Path(project.encoder)), rows.ids)
    elif project.encoder.endswith(".npy"):
        found = _vectors_from_files(project, rows)
    elif project.vector_column is not None:
        name = project.vector_column
        found = [vectors_in(each.column(name), name) for each in rows.tables]
    elif project.encoder.endswith(".parquet"):
        found = vectors_by_id(project, rows.ids)
    else:
        return list(_embedded(project, rows, progress))
    return list(_finite(rows, found))


def _finite(rows: ProjectRows, found: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Vectors that were given as float32; names the first row of a file that has none to use."""
    try:
        return [as_float32(each) for each in found]
    except VectorError:
        for file in dict.fromkeys(rows.files):
            mine = [at for at, name in enumerate(rows.files) if name == file]
            order = np.argsort(np.concatenate([rows.positions[at] for at in mine]))
            ids = np.concatenate([rows.ids[at] for at in mine])[order].tolist()
            as_float32(np.concatenate([found[at] for at in mine])[order], name=ids.__getitem__)
        raise


def _embedded(project: Project, rows: ProjectRows, progress: Progress) -> list[np.ndarray]:
    """Vectors by the project's encoder; those of one that learns from the rows are kept while they stay.

    To learn it again takes seconds in every command, and to import what it is learned with one more.
    """
    encoder = resolve(project.encoder)
    place = _place(project, encoder, rows) if hasattr(encoder, "settings") else None
    sizes = {name: table.num_rows for name, table in zip(("train", "dev"), rows.tables)}
    kept = None if place is None else arrays.load(place, tuple(sizes))
    if kept is not None and {name: len(each) for name, each in kept.items()} == sizes:
        progress(1, 1)
        return [kept[name] for name in sizes]
    found = embed(encoder, *rows.tables, column=project.encoded, progress=progress)
    if place is not None:
        with suppress(StoreError):  # a folder that cannot be written: they are learned again
            arrays.save(place, dict(zip(sizes, found)))
            for other in place.parent.glob("*-*.npz"):
                if other != place:
                    arrays.remove(other)
    return found


def _place(project: Project, encoder: Any, rows: ProjectRows) -> Path:
    """Where vectors that were learned from these rows are kept."""
    text = "\n".join([encoder.settings, str(project.encoded), *rows.keys])
    name = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return project.cache / "vectors" / f"learned-{name}.npz"


def _vectors_from_files(project: Project, rows: ProjectRows) -> list[np.ndarray]:
    """Row-aligned .npy files: one for the rows file, and one for the dev file if there is one."""
    files = [Path(project.encoder)]
    if project.dev is not None and len(rows.tables) > 1:
        if project.dev_vectors is None:
            raise AlignmentError(
                f"{project.folder} has a dev file and vectors for the rows only; "
                'name the dev vectors too: dev = "….npy" under [vectors]'
            )
        files.append(project.dev_vectors)
    loaded = [_loaded(each) for each in files]
    if project.dev is not None:
        expected = [len(each) for each in rows.positions]
    else:
        expected = [sum(len(each) for each in rows.positions)]
    for file, each, count in zip(files, loaded, expected):
        if len(each) != count:
            raise AlignmentError(vectors_for(file, len(each), count))
    if project.dev is not None:
        return list(loaded)
    return [loaded[0][each] for each in rows.positions]


def _loaded(file: Path) -> np.ndarray:
    try:
        open_regular(file).close()
        # mapped, so that a header that claims more than the file holds is refused
        return np.array(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise StoreError(
            f"{file} cannot be read as vectors ({error}); save one array of rows × dimension there"
        ) from error


def _sequences(table: Any, project: Project, at: np.ndarray) -> np.ndarray | None:
    """The sequence of each row by name, checked; where positions are missing another part begins."""
    if project.sequence is None or not table.num_rows:
        return None
    from ..sequences import sequence_ids

    given = [label_of(value) for value in table.column(project.sequence).to_pylist()]
    if None in given:
        raise AlignmentError(
            f"row {given.index(None)} has no sequence in the column {project.sequence!r}; "
            "name the sequence of every row"
        )
    names, places = np.array(given), at
    if project.position is not None:
        places = np.array(table.column(project.position).to_pylist())
    number = sequence_ids(names, places, gaps="split")
    first = np.unique(names, return_index=True, return_inverse=True)
    part = (number - number[first[1]][first[2]]).tolist()
    named = [name if not each else f"{name} (part {each + 1})" for name, each in zip(names, part)]
    return np.array(named)


def _ids(table: Any, project: Project, positions: np.ndarray) -> np.ndarray:
    if project.id is None or project.id not in table.column_names:
        return positions
    return np.array(table.column(project.id).to_pylist())


def _table_key(table: Any) -> str:
    """A fingerprint of the rows' content, whatever file they came from."""
    digest = hashlib.blake2b(str(table.schema.remove_metadata()).encode(), digest_size=16)
    for batch in table.combine_chunks().to_batches():
        for column in batch.columns:
            for value in _buffers(column):
                digest.update(value)
    return digest.hexdigest()


def _buffers(column: Any) -> list[bytes]:
    import pyarrow as pa

    # through IPC: slices and dictionaries are written out as they are read
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([column], names=["column"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return [sink.getvalue().to_pybytes()]
