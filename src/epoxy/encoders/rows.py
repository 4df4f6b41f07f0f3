"""What an encoder reads: one column of any table, or rows as they come; and when two rows are one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FrameError, ParameterError
from ..rows import Rows as Table
from ..rows import known_table

Rows = Sequence[Any] | np.ndarray
"""Rows once they are read: one entry per row, by position."""


def column_of(rows: Any, column: str | Sequence[str] | None = None) -> Any:
    """Return one column of a table (any data frame, dataset, list of dicts); other rows as they are.

    Of several columns each row becomes a tuple.

    Examples
    --------
    >>> column_of([{"text": "hello", "stars": 5}, {"text": "bye", "stars": 1}], "text")
    ['hello', 'bye']
    """
    if column is not None and not isinstance(column, str):
        return list(zip(*(column_of(rows, each) for each in column), strict=True))
    rows = known_table(rows)
    if not _is_table(rows):
        if column is not None and not (isinstance(rows, Sequence) and not len(rows)):
            raise FrameError(
                f"column {column!r} was asked of a {type(rows).__name__}, which has no columns; "
                "pass a data frame or a list of dicts, or leave the column out"
            )
        return rows
    if getattr(rows, "shape", (1,))[0] == 0:
        return []
    table = Table.of(rows)
    if column is None and len(table.names) > 1:
        raise FrameError(
            f"the rows are a table of {len(table.names)} columns {list(table.names[:8])}; "
            "say which one to encode with column=..."
        )
    return table.values(table.names[0] if column is None else column)


def _is_table(rows: Any) -> bool:
    if isinstance(rows, (list, tuple)):
        return bool(rows) and isinstance(rows[0], Mapping)
    return hasattr(rows, "collect_schema") or hasattr(rows, "columns")


def listed(rows: Any) -> Rows:
    """Return rows as something with a length and an index: columns become lists."""
    if isinstance(rows, (str, bytes, Mapping)) or getattr(rows, "ndim", None) == 0:
        raise FrameError(
            f"rows came as one {type(rows).__name__}; expected one entry per row: "
            "put it in a list, or pick a column of the table"
        )
    if isinstance(rows, np.ndarray):
        return list(rows.tolist()) if rows.dtype.kind in "OUT" and rows.ndim == 1 else rows
    if isinstance(rows, (list, tuple)):
        return rows
    if _is_table(rows):
        return list(column_of(rows))
    for reader in ("to_pylist", "to_list", "tolist"):  # pyarrow; pandas and polars; numpy-like
        if hasattr(rows, reader):
            return list(getattr(rows, reader)())
    if not hasattr(rows, "__iter__"):
        raise FrameError(
            f"rows came as a {type(rows).__name__}; expected a list, a column or an array with one "
            "entry per row"
        )
    return list(rows)


def texts(rows: Any, who: str) -> list[str]:
    """Return rows as a list of strings, or say which row is not one."""
    values = list(listed(rows))
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise FrameError(
                f"{who} reads strings, row {position} holds {repr(value)[:60]} "
                f"({type(value).__name__}); pick a column of text, and fill or drop missing rows"
            )
    return values


def digest(row: Any) -> bytes:
    """16 bytes that stand for the row's content: equal for equal rows, wherever they come from.

    A `Path` stands for what is in the file, not for its name.
    """
    if isinstance(row, str):
        kind, content = "text", row.encode("utf-8", "surrogatepass")
    elif isinstance(row, Path):
        kind, content = "file", row.read_bytes()
    elif isinstance(row, np.ndarray) and row.dtype != object:
        kind, content = f"array {row.dtype.str} {row.shape}", np.ascontiguousarray(row).tobytes()
    elif hasattr(row, "tobytes") and hasattr(row, "convert") and hasattr(row, "size"):
        picture = row.convert("RGB")  # a palette is not part of tobytes()
        kind, content = f"picture {picture.size}", picture.tobytes()
    elif isinstance(row, bytes):
        kind, content = "bytes", row
    else:
        kind, content = "json", _as_json(row)
    return hashlib.blake2b(content, digest_size=16, person=_person(kind)).digest()


def fingerprint(rows: Rows) -> str:
    """One short name for a whole sequence of rows, order included."""
    total = hashlib.blake2b(digest_size=12)
    for row in rows:
        total.update(digest(row))
    return total.hexdigest()


def _as_json(row: Any) -> bytes:
    try:
        return json.dumps(row, sort_keys=True, ensure_ascii=True).encode()
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"a row of type {type(row).__name__} cannot be stored by content ({error}); "
            "encode with cache=False, or pass rows of text, paths, arrays or plain values"
        ) from error


@lru_cache(maxsize=256)
def _person(kind: str) -> bytes:
    return hashlib.blake2b(kind.encode(), digest_size=16).digest()
