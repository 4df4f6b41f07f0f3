"""Files of rows as pyarrow tables: Parquet, CSV and JSON lines."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..errors import AlignmentError, FrameError, StoreError, UnknownName

SHOWN = 200
"""Characters of what a reader says; it quotes whole lines of a damaged file."""
DEEPEST = 64
"""Levels of nesting a line of JSON may have; the parser's own limit is a crash."""
LEADING, NOT_HELD = r"^[+-]?0[0-9]", r"^[+-]?(0[0-9]|[0-9]{16})"
"""Names of digits that a whole number would not keep, and that a float would not."""
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
    if file.is_dir():
        return _read_folder(file, cure)
    readers = {
        ".parquet": _read_parquet,
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
    }
    if file.suffix.lower() not in readers:
        raise UnknownName.of("kind of rows file", file.suffix or str(file), readers)
    try:
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
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
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
