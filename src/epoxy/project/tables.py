"""Files of rows as pyarrow tables: Parquet, CSV and JSON lines; and columns of ids, votes and vectors."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import mapped
from ..errors import (
    AlignmentError,
    FrameError,
    LabelError,
    StoreError,
    UnknownName,
    VectorError,
    VoteError,
    meant,
)
from ..storage import open_regular
from ..votes import ABSTAIN
from .settings import Project

SHOWN = 200
"""Characters of what a reader says; it quotes whole lines of a damaged file."""
DEEPEST = 64
"""Levels of nesting a line of JSON may have; the parser's own limit is a crash."""
KEPT = {
    "int": r"^([+-]?(0|[1-9][0-9]{0,17}))?$",
    "float": r"^([+-]?(0|[1-9][0-9]{0,14})?([.eE].*)?|[a-zA-Z/#]*)$",
}
"""Cells that a number of each kind keeps as they are written."""
INFERRED = 1 << 24
"""Bytes of a file by which it is decided what its columns hold."""
BATCH = 8192
"""Rows of Parquet that are decoded at a time."""
SEPARATED = {".csv": ",", ".tsv": "\t"}
"""What stands between two cells of a line, by the ending of the file."""


def read_rows(
    path: str | Path, cure: str = "check the path", *, naming: Collection[str | None] = ()
) -> Any:
    """Read rows as a pyarrow table from .parquet (or a folder of it), .csv, .tsv, .jsonl or .ndjson.

    `naming` are columns whose cells are names, of rows or classes: in a CSV file 0007 is not 7 there.
    """
    table = mapped.table(*_stream(Path(path), cure, naming))
    if table.num_rows == 0:
        raise FrameError(f"{path} has no rows; give at least one row to label")
    return table


def _stream(path: Path, cure: str, naming: Collection[str | None]) -> tuple[Any, Iterator[Any]]:
    """The schema of a file, and its rows as record batches.

    What a column of CSV or JSON lines holds is decided by the beginning of the file; names in digits are
    text unless a number keeps all of them.
    """
    import pyarrow as pa

    is_folder = os.path.isdir(path)  # Path.is_dir raises where a name is too long
    kind = ".parquet" if is_folder else path.suffix.lower()
    openers = {".parquet": _stream_parquet, ".jsonl": _stream_jsonl, ".ndjson": _stream_jsonl}
    opener = partial(_stream_csv, naming=naming) if kind in SEPARATED else openers.get(kind)
    if opener is None:
        known = [*openers, *SEPARATED]
        raise UnknownName.of("kind of rows file", path.suffix or str(path), known)

    @contextmanager
    def told() -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise StoreError(f"there is no file {path}; {cure}") from None
        except UnicodeDecodeError:
            raise _not_utf8("the header", path) from None
        except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
            if "Empty" in str(error):
                raise FrameError(f"{path} has no rows; give at least one row to label") from None
            raise _unreadable(path, kind, error) from error

    def batches() -> Iterator[Any]:
        with told():
            yield from stream

    with told():
        if not is_folder:
            open_regular(path).close()
        schema, stream = opener(path, cure)
        _check_text(schema, path)
    return schema, batches()


def _stream_parquet(path: Path, cure: str) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    paths = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise FrameError(f"{path} holds no .parquet file; {cure}")
    schemas = [pq.read_schema(each).remove_metadata() for each in paths]
    for file, schema in zip(paths, schemas):
        _check_alike((paths[0], schemas[0]), (file, schema))
    if not sum(pq.read_metadata(each).num_rows for each in paths):
        raise FrameError(f"{path} has no rows; give at least one row to label")

    def batches() -> Iterator[Any]:
        for each in paths:
            # page by page: to buffer a column of a row group is to have all of it in memory
            with pq.ParquetFile(each, pre_buffer=False, buffer_size=1 << 20) as file:
                yield from file.iter_batches(BATCH, use_threads=False)

    return schemas[0], batches()


def _check_alike(first: tuple[Path, Any], other: tuple[Path, Any]) -> None:
    """Refuse parts of a table that have other columns or types than the first."""
    both = first, other
    for name in [*first[1].names, *other[1].names]:
        kinds = [str(each.field(name).type) if name in each.names else None for _, each in both]
        if kinds[0] != kinds[1]:
            said = [f"{name!r} of type {kind}" if kind else f"no column {name!r}" for kind in kinds]
            raise AlignmentError(
                f"parts have different schemas: {first[0]} has {said[0]}, and {other[0]} has {said[1]}; "
                "write all parts with the same columns and types"
            )


def _stream_csv(path: Path, cure: str, naming: Collection[str | None]) -> tuple[Any, Iterator[Any]]:
    import pyarrow as pa

    schema, about = _open_csv(path).schema, path.stat()
    kinds = {"int": pa.types.is_integer, "float": pa.types.is_floating}
    numbers = tuple(
        (each.name, kind)
        for each in schema
        for kind, is_one in kinds.items()
        if each.name in naming and is_one(each.type)
    )
    lost = _losing_digits(path, numbers, about.st_size, about.st_mtime_ns) if numbers else ()
    opened = _open_csv(path, column_types=dict.fromkeys(lost, pa.string()))
    return opened.schema, iter(opened)


def _open_csv(path: Path, **convert: Any) -> Any:
    import pyarrow.csv as csv

    parse = csv.ParseOptions(delimiter=SEPARATED[path.suffix.lower()], newlines_in_values=True)
    read = csv.ReadOptions(block_size=INFERRED)
    return csv.open_csv(path, read, parse, csv.ConvertOptions(**convert))


@lru_cache(maxsize=8)
def _losing_digits(path: Path, numbers: tuple[tuple[str, str], ...], *about: int) -> list[str]:
    """Columns of a CSV file with a cell that a number would not keep as it is written."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = dict(numbers)
    texts = dict.fromkeys(found, pa.string())
    for batch in _open_csv(path, column_types=texts, include_columns=list(found)):
        for name, kind in list(found.items()):
            if not pc.all(pc.match_substring_regex(batch.column(name), KEPT[kind])).as_py():
                del found[name]
    return [name for name, _ in numbers if name not in found]


def _stream_jsonl(path: Path, cure: str) -> tuple[Any, Iterator[Any]]:
    import pyarrow as pa
    import pyarrow.json

    _check_depth(path)
    opened = pa.json.open_json(path, pa.json.ReadOptions(block_size=INFERRED))
    return opened.schema, iter(opened)


def _check_text(schema: Any, file: Path) -> None:
    """Refuse text that is not UTF-8, as CSV files of another encoding are, and columns of one name."""
    import pyarrow as pa

    names = schema.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StoreError(f"{file} has more than one column named {twice}; rename all but one")
    kind = file.suffix.lower()
    if kind in SEPARATED and len(names) == 1:
        _check_separated(names[0], file, SEPARATED[kind])
    for column in schema if kind in SEPARATED else ():
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
    marks = np.frombuffer(re.sub(rb'"(?:[^"\\]|\\.)*"?', b"", line), dtype=np.uint8)
    steps = np.isin(marks, [*b"[{"]).astype(int) - np.isin(marks, [*b"]}"])
    return int(steps.cumsum().max(initial=0))


def _unreadable(file: Path, kind: str, error: Exception) -> StoreError:
    """That a file of rows is not what its ending says, or has a row that is too long."""
    if "straddling" in str(error):
        return StoreError(
            f"{file} has a row of more than {INFERRED >> 20} MB, which is not read from {kind}; "
            "shorten it, or write the rows as Parquet"
        )
    return StoreError(
        f"{file} cannot be read as {kind}: {str(error)[:SHOWN].rstrip('.')}; "
        "write it again, or give it the ending of what it holds"
    )


def label_of(value: Any) -> str | None:
    """A cell of the label column as a class name, without blanks around it; an empty one is no label."""
    return None if value is None or value != value else str(value).strip() or None


def checked_labels(
    column: Any, classes: Sequence[str], file: Any, *, ids: Any = None
) -> np.ndarray:
    """Labels of a file's rows by name, None where there is none."""
    values = [label_of(value) for value in column.to_pylist()]
    known = set(classes)
    for at, value in enumerate(values):
        if value is not None and value not in known:
            name = None if ids is None else label_of(ids[at].as_py())
            where = f"row {at}" if name is None else f"the row with id {name!r}"
            raise LabelError(
                f"{file} has the label {value!r} on {where}; {meant(value, classes)}expected one of "
                f"{list(classes)} or nothing; correct it there, or see [classes] in epoxy.toml"
            )
    return np.array(values, dtype=object)


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


def check_ids(
    ids: np.ndarray,
    column: str | None,
    file: Any,
    cure: str = "give every row an id of its own",
    rows: np.ndarray | None = None,
) -> None:
    """Refuse ids of rows that repeat or are missing, of `rows` by their numbers."""
    if ids.dtype.kind not in "iu":
        lost = np.flatnonzero([label_of(each) is None for each in ids.tolist()])
        if len(lost):
            numbered = np.sort(lost if rows is None else rows[lost])[:5].tolist()
            raise AlignmentError(
                f"{file} has no id in its column {column!r} for {len(lost)} rows, numbers {numbered}; "
                f"{cure}"
            )
        ids = ids.astype(str)
    if len(ids) and ids.dtype.kind in "iu" and (np.diff(ids) > 0).all():
        return
    names, first, times = np.unique(ids, return_index=True, return_counts=True)
    twice = names[times > 1][np.argsort(first[times > 1])]
    if len(twice):
        raise AlignmentError(
            f"{file} names {len(twice)} rows twice in its column {column!r}: "
            f"{[str(each) for each in twice[:5]]}; {cure}"
        )


def ids_in(table: Any, project: Project, file: str | Path) -> np.ndarray:
    """The ids of a table, checked."""
    if project.id not in table.column_names:
        raise UnknownName.of(f"column of {file}", str(project.id), table.column_names)
    ids = ids_of(table.column(project.id))
    check_ids(ids, project.id, file)
    return ids


def numbers(rows: np.ndarray) -> Any:
    """Numbers handed over to Arrow as they lie in memory.

    To convert an array, Arrow imports pandas where there is one, a third of a second of every command.
    """
    import pyarrow as pa

    kept = pa.py_buffer(rows.astype(np.int64, copy=False))
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, kept])


def ids_of(column: Any) -> np.ndarray:
    """A column of ids as they are written."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return np.array(column.to_pylist())
    kind = np.dtype(str(column.type))
    parts = [
        np.frombuffer(each.buffers()[1], kind)[each.offset : each.offset + len(each)]
        for each in column.chunks
    ]  # `to_numpy` imports pandas where there is one, half a second of every command
    return np.concatenate(parts).astype(kind if kind == np.uint64 else np.int64)


def joined_by_id(known: np.ndarray, ids: np.ndarray, file: str | Path) -> np.ndarray:
    """Where the rows with these ids stand among those of another table; as text they are the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if known.dtype.kind != "i" or ids.dtype.kind != "i":
        known, ids = known.astype(str), ids.astype(str)
    whole = known.dtype.kind == "i"
    asked, there = (numbers(each) if whole else pa.array(each.tolist()) for each in (ids, known))
    found = pc.index_in(asked, value_set=there)
    if found.null_count:
        lost = [str(each) for each in ids[pc.is_null(found).to_numpy(zero_copy_only=False)][:5]]
        raise AlignmentError(
            f"{file} has no row for {found.null_count} ids of the rows: {lost}; "
            "write one for every row, under the same id"
        )
    return np.asarray(found.to_numpy(), np.intp)


def vectors_in(column: Any, name: str) -> np.ndarray:
    """An Arrow column of lists of equal length as float32 vectors."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        raise VectorError(
            f"column {name!r} has {column.null_count} rows without a vector; embed them"
        )
    if isinstance(column, pa.ChunkedArray):
        found, at = np.empty((0, 0), np.float32), 0
        for part in (vectors_in(chunk, name) for chunk in column.chunks):
            if not at:
                found = mapped.empty((len(column), part.shape[1]), np.float32)
            if part.shape[1] != found.shape[1]:
                raise VectorError(
                    f"column {name!r} has vectors of different lengths; embed all rows alike"
                )
            found[at : at + len(part)] = part
            at += len(part)
        return found
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
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return np.asarray(numbers.reshape(len(column), -1))
