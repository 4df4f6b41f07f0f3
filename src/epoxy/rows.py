"""Rows in any form (frames, lazy frames, series, Hugging Face datasets, lists), read one way.

Everything that reads rows asks a `Rows` for what it needs: whole columns of Python values, whole
columns of text for vectorised matching, a narwhals frame, or `Row` objects one at a time. Each is
made once and kept, because ten labeling functions usually read the same column.

A missing value is None, whatever the frame calls it: pandas' NaN would otherwise make the same
labeling function vote differently on the same rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .errors import FrameError, UnknownName

TEXT = "text"
"""The column of rows that are texts and nothing else."""


class Row(Mapping[str, Any]):
    """One row, read as `row.text` or `row["text"]`; nothing can be written to it.

    The row's values are the instance dictionary itself, so `row.text` is an ordinary attribute
    look-up, and a column called `keys` or `items` wins over the method of that name.

    Examples
    --------
    >>> row = Row({"text": "check out my channel", "likes": 3})
    >>> row.text, row["likes"]
    ('check out my channel', 3)
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "__dict__", dict(values))

    @classmethod
    def of(cls, row: Any) -> Any:
        """Read a dict, a named tuple or a namespace both ways; leave other rows as they are."""
        if isinstance(row, Row):
            return row
        if isinstance(row, Mapping):
            return cls(row)
        if isinstance(row, tuple) and hasattr(row, "_asdict"):
            return cls(row._asdict())
        if type(row) is SimpleNamespace:
            return cls(vars(row))
        return row

    def __getitem__(self, column: str) -> Any:
        try:
            return self.__dict__[column]
        except KeyError:
            raise UnknownName.of("column", column, self.__dict__) from None

    def __getattr__(self, column: str) -> Any:
        if column.startswith("__"):  # copy and pickle probe for methods a row does not have
            raise AttributeError(column)
        raise AttributeError(str(UnknownName.of("column", column, self.__dict__)))

    def __setattr__(self, column: str, value: Any) -> None:
        raise AttributeError(
            f"a row cannot be changed, got {column!r} = …; other labeling functions read it too: "
            "use a local variable or add a column to the frame"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __repr__(self) -> str:
        return f"Row({self.__dict__!r})"


class Rows:
    """A table of rows, whatever it came as; `Rows.of(frame)` reads one."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], n_rows: int, frame: Any = None):
        self.n_rows = n_rows
        self.names = tuple(columns)
        self._columns = columns  # pyarrow columns, narwhals series, or plain lists
        self._frame = frame  # a pyarrow table until narwhals is needed
        self._values: dict[str, list[Any]] = {}
        self._texts: dict[str, Any] = {}
        self._matches: dict[tuple[str, str], np.ndarray] = {}

    @classmethod
    def of(cls, frame: Any) -> Rows:
        """Read a frame, a series, a dataset, a list of dicts, or a list of texts (column `text`)."""
        if isinstance(frame, Rows):
            return frame
        rows = _of_list(frame) if _is_list(frame) else _of_frame(frame)
        if rows.n_rows == 0:
            raise FrameError("the frame has no rows; give at least one row to vote on")
        if not rows.names:
            raise FrameError("the frame has rows but no columns; name at least one column")
        return rows

    @property
    def frame(self) -> Any:
        """The rows as a narwhals DataFrame over what was given (pyarrow for lists and series)."""
        if self._frame is None:
            import pyarrow as pa

            self._frame = pa.table(
                {name: _to_arrow(name, self._columns[name]) for name in self.names}
            )
        if _is_arrow(self._frame):
            import narwhals as nw

            self._frame = nw.from_native(self._frame, eager_only=True)
        return self._frame

    def series(self, column: str) -> Any:
        """One column as a narwhals Series."""
        self.require(column)
        raw = self._columns[column]
        if not (isinstance(raw, list) or _is_arrow(raw)):
            return raw
        import narwhals as nw
        import pyarrow as pa

        array: Any = raw if _is_arrow(raw) else pa.chunked_array([_to_arrow(column, raw)])
        return nw.from_native(array, series_only=True).alias(column)

    def require(self, column: str) -> None:
        """Raise, with the nearest name, where there is no such column."""
        if column not in self.names:
            raise UnknownName.of("column", column, self.names)

    def values(self, column: str) -> list[Any]:
        """One column as a list of Python values, None where missing."""
        self.require(column)
        if column not in self._values:
            raw = self._columns[column]
            self._values[column] = raw if isinstance(raw, list) else _python_values(raw)
        return self._values[column]

    def texts(self, column: str) -> Any:
        """One column as a pyarrow array of large strings, null where missing."""
        self.require(column)
        if column not in self._texts:
            import pyarrow as pa

            raw = self._columns[column]
            array = _to_arrow(column, raw) if isinstance(raw, list) else _series_to_arrow(raw)
            if not _is_text(array.type):
                raise FrameError(
                    f"column {column!r} holds {array.type}, expected text; "
                    "name a text column or write a @labeling_function for it"
                )
            self._texts[column] = array.cast(pa.large_string())
        return self._texts[column]

    def matches(self, column: str, pattern: str, *, keep: bool = False) -> np.ndarray:
        """Where Arrow's RE2 finds a pattern in a text column, False where missing; (n_rows,) bool.

        `keep` remembers the answer, for a pattern that many functions ask about.
        """
        if (column, pattern) not in self._matches:
            import pyarrow.compute as pc

            mask = as_mask(pc.match_substring_regex(self.texts(column), pattern))
            if not keep:
                return mask
            self._matches[column, pattern] = mask
        return self._matches[column, pattern]

    def matrix(self, columns: Sequence[str]) -> np.ndarray:
        """Several numeric columns as (n_rows, n_columns) float64."""
        wide = [self.values(column) for column in columns]
        try:
            return np.array(wide, dtype=float).T
        except (TypeError, ValueError):
            raise FrameError(
                f"columns {list(columns)} are not all numbers; name numeric columns only"
            ) from None

    def records(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Each row as a new dictionary."""
        names = self.names
        columns = [self.values(name)[start:stop] for name in names]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))

    def slice(self, start: int, stop: int) -> Rows:
        """Some rows, as plain columns that travel to another process."""
        part = {name: self.values(name)[start:stop] for name in self.names}
        return Rows(part, min(stop, self.n_rows) - start)

    def __iter__(self) -> Iterator[Row]:
        new, put = Row.__new__, object.__setattr__
        for record in self.records():
            row = new(Row)
            put(row, "__dict__", record)  # the record is ours: no second copy
            yield row

    def __len__(self) -> int:
        return self.n_rows


def known_table(frame: Any) -> Any:
    """A Hugging Face dataset as a pyarrow Table (a streamed one as a list); anything else as it is."""
    if type(frame).__module__.partition(".")[0] != "datasets":
        return frame
    if isinstance(frame, Mapping):
        raise FrameError(
            f"a {type(frame).__name__} holds the tables {list(frame)}; choose one, such as "
            f"data[{next(iter(frame), 'train')!r}]"
        )
    return frame.with_format("arrow")[:] if hasattr(frame, "num_rows") else list(frame)


def as_mask(truth: Any) -> np.ndarray:
    """An Arrow array of truths, False where it is null; (n_rows,) bool.

    Not by `fill_null` and `to_numpy`, which import pandas where there is one: a quarter of a second.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.and_kleene(truth, pc.is_valid(truth)).cast(pa.uint8())
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return np.frombuffer(found.buffers()[1], np.uint8, len(found), found.offset).astype(bool)


def _is_list(frame: Any) -> bool:
    return isinstance(frame, Sequence) and not isinstance(frame, str | bytes)


def _is_arrow(value: Any) -> bool:
    """Whether it is a table or a column of pyarrow's, which is read without narwhals' 50 ms."""
    pa = sys.modules.get("pyarrow")  # who has one has imported it
    return pa is not None and isinstance(value, pa.Table | pa.ChunkedArray)


def _of_frame(given: Any) -> Rows:
    frame = known_table(given)
    if _is_list(frame):
        return _of_list(frame)
    if _is_arrow(frame) and hasattr(frame, "column_names"):
        names = _distinct(frame.column_names)
        return Rows(dict(zip(names, frame.columns)), frame.num_rows, frame)
    import narwhals as nw

    try:
        read: Any = nw.from_native(frame, allow_series=True)
    except TypeError:
        if not hasattr(frame, "__arrow_c_stream__"):
            raise FrameError(
                "rows come as a pandas or polars DataFrame or Series, a pyarrow Table, a dataset, or "
                f"a list of dicts or texts, got {type(frame).__name__}; convert it to one of these"
            ) from None
        import pyarrow as pa

        read = nw.from_native(pa.table(frame))
    except nw.exceptions.DuplicateError as error:
        raise FrameError(f"column names must differ: {error}; rename one of them") from None
    if isinstance(read, nw.Series):
        series: Any = read
        return Rows({str(read.name or TEXT): series}, len(read))
    read = read.collect() if isinstance(read, nw.LazyFrame) else read
    columns = {name: read[:, index] for index, name in enumerate(_distinct(read.columns))}
    return Rows(columns, len(read), read)


def _distinct(columns: Sequence[Any]) -> list[str]:
    names = [str(name) for name in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FrameError(f"column names must differ, got {twice} more than once; rename one")
    return names


def _of_list(given: Sequence[Any]) -> Rows:
    records = list(given)
    if records and all(isinstance(each, str) or each is None for each in records):
        return Rows({TEXT: records}, len(records))
    names: dict[str, None] = {}
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise FrameError(
                f"a list of rows holds dicts or texts, got {type(record).__name__} on row {row}; "
                'write each row as {"text": …}'
            )
        names.update(dict.fromkeys(map(str, record)))
    columns = {name: [_present(record.get(name)) for record in records] for name in names}
    return Rows(columns, len(records))


def _present(value: Any) -> Any:
    """Nothing, for the NaN that pandas' to_dict leaves behind."""
    return None if isinstance(value, float) and value != value else value


def _python_values(series: Any) -> list[Any]:
    values: list[Any]
    if _is_arrow(series):
        from pyarrow import types

        values = series.to_pylist()
        return [_present(each) for each in values] if types.is_floating(series.type) else values
    values = series.to_list()
    missing = series.is_null()
    if missing.any():
        values = [None if gone else value for value, gone in zip(values, missing.to_list())]
    return [_present(value) for value in values] if series.dtype.is_float() else values


def _series_to_arrow(series: Any) -> Any:
    import pyarrow as pa

    try:
        array = series if _is_arrow(series) else series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return _to_arrow(series.name, _python_values(series))
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _to_arrow(name: str, values: Sequence[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values if isinstance(values, list) else _python_values(values))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise FrameError(
            f"column {name!r} is not of one kind ({error}); "
            "only a row-at-a-time @labeling_function can read it"
        ) from None


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
    )
