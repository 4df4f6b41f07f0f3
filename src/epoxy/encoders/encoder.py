"""What every encoder is (rows in, one float32 vector per row out), what it reads, and when rows are equal.

An encoder that learns (LSA, a scikit-learn transformer) learns in `fit`, from the train rows, and
is then applied to every split; a pre-trained one has nothing to learn and its `fit` does nothing,
so that all of them are used in the same way: ``encoder.fit(train_rows).encode(dev_rows)``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from ..errors import AlignmentError, FrameError, ParameterError, VectorError
from ..inputs import as_float32, as_table
from ..progress import Progress, silent
from ..rows import Rows as Table
from ..rows import known_table

Rows = Sequence[Any] | np.ndarray
"""Rows once they are read: one entry per row, by position."""

_MOST_DENSE = 4 << 30  # bytes that sparse vectors may take once they are dense


@runtime_checkable
class Encoder(Protocol):
    """Rows in, vectors out."""

    @property
    def name(self) -> str:
        """What a person calls it: `lsa`, `text:all-MiniLM-L6-v2`."""

    @property
    def identity(self) -> str | None:
        """Everything, besides the row, that decides a vector; `None` if that cannot be known.

        It names the folder of the disk cache, so vectors are never stored for an encoder without
        one.
        """

    @property
    def slow(self) -> bool:
        """Whether a vector costs so much more than reading a file that it is kept on disk."""

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Learn from the train rows; nothing to do for a pre-trained encoder."""

    def prepare(self, rows: Any) -> Rows:
        """Check the rows and return them as this encoder reads them, one entry per row."""

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Return (n_rows, dim) finite float32 vectors, in the order of the rows.

        For no rows at all the result is (0, dim), or (0, 0) where dim is not known beforehand.
        """


class Plain:
    """An encoder of rows as they come that has nothing to learn, and is not kept on disk."""

    identity: str | None = None
    slow = False

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Nothing to learn."""
        return self

    def prepare(self, rows: Any) -> Rows:
        """Return the rows as a sequence."""
        return listed(rows)


def check_positive(who: str, **numbers: int | None) -> None:
    """Refuse counts below 1; None is no count."""
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ParameterError(f"{who} got {name}={value!r}; expected at least 1")


def as_vectors(values: Any, who: str, n_rows: int) -> np.ndarray:
    """Return values as (n_rows, dim) finite float32, or say what is wrong with them."""
    if hasattr(values, "toarray"):  # scipy's sparse matrices and arrays
        if values.shape[0] * values.shape[1] * 4 > _MOST_DENSE:
            raise VectorError(
                f"{who} gave sparse vectors, {values.shape[0]} of length {values.shape[1]}, "
                "too many to make dense; end the pipeline with TruncatedSVD, or use 'lsa'"
            )
        values = values.toarray()
    try:
        raw = np.asarray(values)
        if raw.dtype == object and raw.ndim == 1 and len(raw):
            raw = np.stack([np.asarray(each, dtype=np.float32) for each in raw])
    except (TypeError, ValueError) as error:
        raise VectorError(
            f"{who} gave vectors that do not form a table ({error}); "
            "every row needs one vector of numbers, all of one length"
        ) from error
    if len(raw) != n_rows:
        raise AlignmentError(
            f"{who} has {len(raw)} vectors for {n_rows} rows; expected one vector per row, in order"
        )
    if not n_rows:
        return np.zeros((0, raw.shape[1] if raw.ndim == 2 else 0), dtype=np.float32)
    return as_float32(as_table(raw.astype(np.uint8) if raw.dtype == bool else raw, who), who)


# reading rows


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
    if (
        isinstance(rows, np.ndarray)
        and rows.ndim
        and (rows.dtype.kind not in "OUT" or rows.ndim > 1)
    ):
        return rows
    if isinstance(rows, (list, tuple)):
        return rows
    if isinstance(rows, (str, bytes, Mapping)) or getattr(rows, "ndim", None) == 0:
        raise FrameError(
            f"rows came as one {type(rows).__name__}; expected one entry per row: "
            "put it in a list, or pick a column of the table"
        )
    if _is_table(rows):
        return list(column_of(rows))
    for reader in ("to_pylist", "to_list", "tolist", "__iter__"):  # pyarrow; pandas, polars; numpy
        if hasattr(rows, reader):
            return list(getattr(rows, reader)())
    raise FrameError(
        f"rows came as a {type(rows).__name__}; expected a list, a column or an array with one "
        "entry per row"
    )


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
    person = hashlib.blake2b(kind.encode(), digest_size=16).digest()
    return hashlib.blake2b(content, digest_size=16, person=person).digest()


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
