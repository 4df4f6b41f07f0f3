"""Labeling functions written as code: `@labeling_function`, over rows or over whole columns.

A labeling function has a name and `vote(frame)`: one label or None per row, labels being the
user's own strings. Everything `apply` takes is one of the kinds below or in `declare`, or is
made into one by `as_labeling_function`. A decorated function stays callable on a single row, so
that it can be tested like any other function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Protocol, overload, runtime_checkable

from ..errors import AlignmentError, ParameterError, VoteError
from ..rows import Row, Rows


@runtime_checkable
class LabelingFunction(Protocol):
    """What every kind of labeling function offers."""

    name: str

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels it is known to give before it sees a row; empty when only its code knows."""

    def vote(self, frame: Any) -> Sequence[Any]:
        """One label per row, None where it abstains."""


class _Decorated:
    """A function under a name; what a process or a fingerprint needs of it is its arguments."""

    labels: tuple[str, ...] = ()

    def __init__(self, function: Callable[[Any], Any], name: str, **options: Any) -> None:
        # first: it copies the function's own attributes
        functools.update_wrapper(self, function)  # type: ignore[arg-type]
        self.function = function
        self.name = name
        self._arguments = {"function": function, "name": name, **options}

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class RowFunction(_Decorated):
    """A function of one row, made by `@labeling_function`; call it on a dict to test it."""

    def __call__(self, row: Any) -> Any:
        """The function's own answer on one row (a dict, a `Row`, or any row object)."""
        return self.function(Row.of(row))

    def answer(self, row: Row) -> Any:
        """The function's own answer on a row that is already a `Row`."""
        return self.function(row)

    def vote(self, frame: Any) -> list[Any]:
        """One label per row; an error in the function is not contained here, only by `apply`."""
        return [self.function(row) for row in Rows.of(frame)]

    def __repr__(self) -> str:
        return f"labeling_function({self.name})"


class BatchFunction(_Decorated):
    """A function of all rows at once, made by `@labeling_function(batch=True)`."""

    def __init__(self, function: Callable[[Any], Any], name: str, column: str | None) -> None:
        super().__init__(function, name, column=column)
        self.column = column

    def __call__(self, rows: Any) -> Any:
        """The function's own answer, on whatever it is given."""
        return self.function(rows)

    def vote(self, frame: Any) -> list[Any]:
        """One label per row, from one call."""
        rows = Rows.of(frame)
        given = rows.frame if self.column is None else rows.series(self.column)
        votes = _as_list(self.function(given), self.name)
        if len(votes) != rows.n_rows:
            raise AlignmentError(
                f"labeling function {self.name!r} returned {len(votes)} votes for "
                f"{rows.n_rows} rows; return one label or None per row, in order"
            )
        return votes

    def __repr__(self) -> str:
        return f"labeling_function({self.name}, batch=True)"


class SnorkelFunction:
    """A Snorkel labeling function, called as it is: −1 abstains, 0, 1, … count the classes."""

    labels: tuple[str, ...] = ()

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.name = str(function.name)  # type: ignore[attr-defined]

    def __call__(self, row: Any) -> Any:
        """The function's own answer on one row (a dict, a `Row`, or any row object)."""
        return self.answer(Row.of(row))

    def answer(self, row: Any) -> Any:
        """The integer it gives; its preprocessors get a row of their own to write into."""
        return self.function(SnorkelRow(**row) if isinstance(row, Row) else row)

    def vote(self, frame: Any) -> list[Any]:
        """One integer per row; only `apply` knows the classes they count."""
        return [self.answer(row) for row in Rows.of(frame)]

    def __repr__(self) -> str:
        return f"labeling_function({self.name}, from Snorkel)"


class SnorkelRow(SimpleNamespace):
    """A row a Snorkel preprocessor may write to, copy by pickle and memoise, read like a Series."""

    def __getitem__(self, column: str) -> Any:
        return vars(self)[column]

    def __setitem__(self, column: str, value: Any) -> None:
        vars(self)[column] = value

    def __contains__(self, column: str) -> bool:
        return column in vars(self)

    def get(self, column: str, default: Any = None) -> Any:
        """The value, or a default where there is no such column."""
        return vars(self).get(column, default)


@overload
def labeling_function(function: Callable[[Any], Any], /) -> RowFunction: ...


@overload
def labeling_function(
    *, name: str | None = None, batch: bool = False, column: str | None = None
) -> Callable[[Callable[[Any], Any]], RowFunction | BatchFunction]: ...


def labeling_function(
    function: Callable[[Any], Any] | None = None,
    /,
    *,
    name: str | None = None,
    batch: bool = False,
    column: str | None = None,
) -> Any:
    """Make a function of one row (or, with `batch=True`, of all rows) a labeling function.

    The function returns one of your own label strings, or None to abstain.

    Parameters
    ----------
    name
        The source's name; the function's own name when not given.
    batch
        The function takes all rows at once and returns one label or None per row. It receives a
        narwhals DataFrame (`rows["text"]`; `rows.to_native()` is the frame you gave to `apply`).
    column
        With `batch=True`, pass only this column, as a narwhals Series.

    Examples
    --------
    >>> @labeling_function
    ... def asks_to_subscribe(row):
    ...     return "spam" if "subscribe" in row.text else None
    >>> asks_to_subscribe({"text": "please subscribe"})
    'spam'

    >>> @labeling_function(batch=True, column="text")
    ... def short(texts):
    ...     return ["ham" if size < 20 else None for size in texts.str.len_chars()]
    """
    if column is not None and not batch:
        raise ParameterError(
            f"column={column!r} is for batch=True; a row-at-a-time function reads row[{column!r}]"
        )

    def decorate(function: Callable[[Any], Any]) -> RowFunction | BatchFunction:
        found = _name_of(function) if name is None else name
        if batch:
            return BatchFunction(function, found, column)
        return RowFunction(function, found)

    return decorate if function is None else decorate(function)


def as_labeling_function(thing: Any) -> LabelingFunction:
    """Take our own kinds and plain functions, and wrap Snorkel's objects.

    Snorkel's are recognised by what they have, a `name` and a call, and never by importing Snorkel.
    """
    if isinstance(thing, LabelingFunction):
        return thing
    if callable(thing) and isinstance(getattr(thing, "name", None), str):
        return SnorkelFunction(thing)
    if isinstance(thing, FunctionType):
        return RowFunction(thing, _name_of(thing))
    raise ParameterError(
        f"a labeling function is made by @labeling_function, keywords, regex, like, from_model or "
        f"from_column, got {type(thing).__name__} {thing!r:.60}"
    )


def _name_of(function: Callable[[Any], Any]) -> str:
    name = getattr(function, "__name__", None)
    if name is None or name == "<lambda>":
        raise ParameterError(
            f"a labeling function needs a name, got {function!r:.60} which has none; "
            "use labeling_function(name=…) or def"
        )
    return str(name)


def _as_list(votes: Any, name: str) -> list[Any]:
    import narwhals as nw

    found = nw.from_native(votes, series_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.Series):
        missing = found.is_null().to_list()
        pairs = zip(found.to_list(), missing, strict=True)
        return [None if absent else value for value, absent in pairs]
    if isinstance(votes, str) or not hasattr(votes, "__iter__"):
        raise VoteError(
            f"labeling function {name!r} returned {votes!r:.60} for a whole batch; "
            "expected one label or None per row"
        )
    return votes.tolist() if hasattr(votes, "tolist") else list(votes)
