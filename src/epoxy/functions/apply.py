"""Run labeling functions over rows and get `Votes`.

Functions over whole columns run once each. Row-at-a-time functions share the rows they read, run in
blocks (so that long work can report), and run in processes when asked. Processes are joblib's:
functions travel by value, so that those of a script, a notebook or a closure work like those of a
module; one that cannot travel is refused.

A function that raises is contained: the row abstains, the failure is kept, the other columns
survive. A wrong *answer* (a label that is no class) is not contained, because a typing error would
then look like an abstention.
"""

from __future__ import annotations

import functools
import pickle
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..errors import EpoxyError, LabelError, ParameterError, VoteError, meant
from ..progress import Progress, bar
from ..rows import Rows
from ..votes import ABSTAIN, Votes
from .define import LabelingFunction, RowFunction, SnorkelFunction, as_labeling_function

OnError = Literal["warn", "raise", "collect"]
FailureKind = Literal["raised", "wrong", "slow", "large", "crashed"]

Stop = type[BaseException] | tuple[type[BaseException], ...]
"""Exceptions that are not contained."""


@dataclass(frozen=True)
class Failure:
    """One labeling function failed: how, on which rows, and what it said first.

    `kind` is "raised" where rows on which it raised abstain. The others cost the whole column, and
    only a `Runner` survives them: "wrong" (an answer that is no label), "slow" and "large" (over
    the limits), "crashed" (its process ended).
    """

    name: str
    rows: tuple[int, ...]  # where it raised or was when it was ended, as far as that is known
    error: str
    traceback: str = field(repr=False, default="")
    kind: FailureKind = "raised"
    id: str | None = None
    """Id of the first of these rows, where rows have ids of their own."""

    def named(self, ids: Any) -> Failure:
        """The same, of rows that have these ids; None where they have none."""
        return self if ids is None or not self.rows else replace(self, id=str(ids[self.rows[0]]))

    def line_of(self, file: str) -> int | None:
        """The last line of a file on the way to where it raised."""
        lines = re.findall(rf'{re.escape(file)}", line (\d+)', self.traceback)
        return int(lines[-1]) if lines else None

    def __str__(self) -> str:
        if self.kind == "wrong" and f"function {self.name!r}" in self.error:  # as wrong answers do
            return self.error
        row = ""
        if self.rows:
            row = f"row {self.rows[0]}" if self.id is None else f"the row with id {self.id!r}"
        if self.kind == "raised":
            count = f"{len(self.rows)} row{'s' if len(self.rows) > 1 else ''}"
            where = f"raised on {count}, first on {row}: "
        else:
            where = f"failed on {row}: " if row else "failed: "
        return f"labeling function {self.name!r} {where}{self.error}"


class LabelingWarning(UserWarning):
    """Labeling functions raised, and rows abstain (see `failures`)."""

    def __init__(self, message: str, failures: Sequence[Failure] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


@dataclass(frozen=True)
class Applied:
    """The votes, what went wrong on the way, and how long each function took."""

    votes: Votes
    failures: tuple[Failure, ...]
    seconds: Mapping[str, float]


def apply(
    lfs: Sequence[Any],
    frame: Any,
    *,
    classes: Sequence[str] | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    on_error: OnError = "warn",
) -> Votes:
    """Ask every labeling function about every row.

    Parameters
    ----------
    lfs
        Labeling functions of any kind, Snorkel's objects and plain functions of a row among them.
    frame
        A pandas or polars DataFrame, LazyFrame or Series, a pyarrow Table, a Hugging Face dataset, a list
        of dicts, or a list of texts, which are then the column `text`.
    classes
        Your labels, in the order of their indices. When not given they are the labels the
        functions declare or return on these rows, sorted; give them whenever you apply the same
        functions to more than one split, so that both count alike.
    processes
        Run row-at-a-time functions in this many processes.
    progress
        Called with (done, total) votes; a bar on a terminal when not given.
    on_error
        Where a function raises, the row abstains and there is one `LabelingWarning` ("warn") or
        none ("collect"); "raise" stops with a `VoteError`.

    Examples
    --------
    >>> from epoxy import keywords
    >>> rows = [{"text": "free money"}, {"text": "lovely song"}]
    >>> votes = apply([keywords("spam", "money"), keywords("ham", "song")], rows)
    >>> votes.classes, votes.matrix.tolist()
    (('ham', 'spam'), [[1, -1], [-1, 0]])
    """
    if on_error not in ("warn", "raise", "collect"):
        raise ParameterError(
            f"on_error is 'warn', 'raise' or 'collect', got {on_error!r}; choose one of them"
        )
    done = apply_report(lfs, frame, classes=classes, processes=processes, progress=progress)
    _settle(done, on_error)
    return done.votes


def apply_report(
    lfs: Sequence[Any],
    frame: Any,
    *,
    classes: Sequence[str] | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Applied:
    """Do what `apply` does and return the failures beside the votes, without a warning."""
    functions = _functions(lfs)
    rows = Rows.of(frame)
    check_columns(functions, rows)
    check_declared(functions, classes)
    if processes is not None and processes < 1:
        raise ParameterError(f"processes is at least 1, got {processes}; None runs in this one")
    report = _Counter(bar("voting") if progress is None else progress, len(functions) * rows.n_rows)
    alone = {lf.name: lf for lf in functions if isinstance(lf, RowFunction | SnorkelFunction)}
    tallies = {lf.name: whole(lf, rows, report) for lf in functions if lf.name not in alone}
    if alone and (processes or 1) > 1:
        tallies |= _in_processes(alone, rows, processes or 1, report)
    else:
        tallies |= _in_blocks(alone, rows, report)
    columns = [tallies[lf.name].answers for lf in functions]
    names = settle_classes(functions, columns, classes)
    matrix = np.column_stack(
        [encode(lf, column, names) for lf, column in zip(functions, columns, strict=True)]
    )
    return Applied(
        votes=Votes(matrix, [lf.name for lf in functions], names),
        failures=tuple(t.failure(lf.name) for lf in functions if (t := tallies[lf.name]).rows),
        seconds={lf.name: tallies[lf.name].seconds for lf in functions},
    )


@dataclass
class Tally:
    """What one function answered so far."""

    answers: list[Any] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)  # where it raised
    error: str = ""
    trace: str = ""
    seconds: float = 0.0

    def failed(self, row: int, error: BaseException) -> None:
        """The function raised on a row, which abstains; the first error is kept."""
        if not self.rows:
            self.error = said(error)
            inner = error.__traceback__.tb_next if error.__traceback__ else None
            self.trace = "".join(traceback.format_exception(type(error), error, inner))
        self.rows.append(row)
        self.answers.append(None)

    def add(self, later: Tally) -> None:
        """Go on with what it answered on the rows that follow."""
        if not self.rows:
            self.error, self.trace = later.error, later.trace
        self.answers += later.answers
        self.rows += later.rows
        self.seconds += later.seconds

    def failure(self, name: str) -> Failure:
        """What is told of a function that raised."""
        return Failure(name, tuple(self.rows), self.error, self.trace)


def said(error: BaseException) -> str:
    """An exception's kind and message; a message that raises in turn is left out."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a user's exception may do anything
        return f"{type(error).__name__} (its message cannot be shown)"


class _Counter:
    """Turns "that many more votes" into the (done, total) that a progress callback wants."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, more: int) -> None:
        self.done += more
        self.progress(self.done, self.total)


def _functions(lfs: Sequence[Any]) -> list[LabelingFunction]:
    if isinstance(lfs, LabelingFunction) or not isinstance(lfs, Sequence):
        raise ParameterError(
            f"apply takes a list of labeling functions, got {type(lfs).__name__}; "
            "put it in a list, even if it is only one"
        )
    if not lfs:
        raise ParameterError("apply got no labeling function; give at least one")
    functions = [as_labeling_function(lf) for lf in lfs]
    names = [lf.name for lf in functions]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise VoteError(
            f"labeling functions must have different names, got {twice} more than once; "
            "give one of them name=…"
        )
    return functions


def check_columns(functions: Sequence[LabelingFunction], rows: Rows) -> None:
    """Before any work: a column that is not there is a mistake in the call, not in the rows."""
    for lf in functions:
        named = getattr(lf, "columns", getattr(lf, "column", None))
        for column in [named] if isinstance(named, str) else named or ():
            rows.require(column)


def _settle(done: Applied, on_error: OnError) -> None:
    failures = done.failures
    if failures and on_error == "raise":
        raise VoteError(f"{failures[0]}\n\n{failures[0].traceback}")
    if failures and on_error == "warn":
        said = "; ".join(map(str, failures))
        message = f"{said}; these rows abstain, apply_report(...).failures has the tracebacks"
        warnings.warn(LabelingWarning(message, failures), stacklevel=3)


def whole(
    lf: LabelingFunction, rows: Rows, report: Callable[[int], None], stop: Stop = KeyboardInterrupt
) -> Tally:
    """Ask a function of whole columns; where it raises, it does so on every row."""
    start = time.perf_counter()
    tally = Tally()
    try:
        tally.answers = list(lf.vote(rows))
    except EpoxyError:
        raise  # our own: a wrong answer or a wrong column, already explained
    except stop:
        raise
    except BaseException as error:  # noqa: BLE001 - a user's function may raise anything
        for row in range(rows.n_rows):
            tally.failed(row, error)
    tally.seconds = time.perf_counter() - start
    report(rows.n_rows)
    return tally


def _in_blocks(
    functions: Mapping[str, RowFunction | SnorkelFunction], rows: Rows, report: _Counter
) -> dict[str, Tally]:
    tallies = {name: Tally() for name in functions}
    if not functions:
        return tallies
    for start, block in blocks(rows):
        for name, lf in functions.items():
            tallies[name].add(ask(lf, block, start))
            report(len(block))
    return tallies


def blocks(rows: Iterable[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Rows in blocks of about a tenth of a second, however slow the functions are."""
    start, size, block = 0, 16, []
    clock = time.perf_counter()
    for row in rows:
        block.append(row)
        if len(block) == size:
            yield start, block
            start, block = start + size, []
            now = time.perf_counter()
            size = min(2 * size, 8192) if now - clock < 0.1 else max(size // 2, 1)
            clock = now
    if block:
        yield start, block


def ask(
    lf: RowFunction | SnorkelFunction,
    block: Iterable[Any],
    start: int,
    stop: Stop = KeyboardInterrupt,
) -> Tally:
    """Ask a function of one row about some rows, `start` being the first one's number."""
    clock = time.perf_counter()
    tally = Tally()
    answer, keep = lf.answer, tally.answers.append
    for row, values in enumerate(block, start):
        try:
            keep(answer(values))
        except stop:
            raise
        except BaseException as error:  # noqa: BLE001 - a user's function may raise anything
            tally.failed(row, error)
    tally.seconds = time.perf_counter() - clock
    return tally


def _in_processes(
    functions: Mapping[str, RowFunction | SnorkelFunction],
    rows: Rows,
    processes: int,
    report: _Counter,
) -> dict[str, Tally]:
    from concurrent.futures.process import BrokenProcessPool

    import joblib  # type: ignore[import-untyped]

    tallies = {name: Tally() for name in functions}
    size = max(1, -(-rows.n_rows // (4 * processes)))  # four parts each, so that none idles long
    parts = [(start, rows.slice(start, start + size)) for start in range(0, rows.n_rows, size)]
    payload = [pickled(name, lf) for name, lf in functions.items()]
    run = joblib.Parallel(n_jobs=processes, return_as="generator")
    try:
        for part in run(joblib.delayed(_ask_all)(payload, each, start) for start, each in parts):
            for name, tally in zip(functions, part, strict=True):
                tallies[name].add(tally)
                report(len(tally.answers))
    except BrokenProcessPool:
        raise VoteError(
            f"a process died while it ran {list(functions)}; "
            "one of them ends the process or runs out of memory: run without processes to find it"
        ) from None
    return tallies


def pickled(name: str, lf: RowFunction | SnorkelFunction) -> bytes:
    """A function as bytes, by value: those of a script, a notebook or a closure are none of a module's."""
    import joblib

    try:
        return pickle.dumps(joblib.wrap_non_picklable_objects(lf, keep_wrapper=False))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"labeling function {name!r} holds something that cannot be sent to another process "
            f"({error}); make it inside the function, or leave out processes"
        ) from error


def _ask_all(payload: list[bytes], rows: Rows, start: int) -> list[Tally]:
    block = list(rows)
    return [ask(_unpack(each), block, start) for each in payload]


@functools.lru_cache(maxsize=256)
def _unpack(payload: bytes) -> RowFunction | SnorkelFunction:
    """The function, once per process: it may carry a model."""
    function: RowFunction | SnorkelFunction = pickle.loads(payload)  # our own bytes, just sent
    return function


# from answers to columns

_WRONG = -2


def check_declared(functions: Sequence[LabelingFunction], classes: Sequence[str] | None) -> None:
    """Raise where a function declares a label that is not one of the classes given."""
    for lf in functions if classes is not None else ():
        for label in lf.labels:
            if label not in (known := [as_text(name) for name in classes or ()]):
                raise VoteError(
                    f"labeling function {lf.name!r} votes {label!r}; "
                    f"{meant(label, known)}expected one of {known[:10]}"
                )


def settle_classes(
    functions: Sequence[LabelingFunction],
    columns: Sequence[Sequence[Any]],
    classes: Sequence[str] | None,
) -> tuple[str, ...]:
    """The classes given, or else those that functions declare or return, sorted.

    Sorted, because any order of appearance would depend on the order of the rows.
    """
    if classes is not None:
        return tuple(as_text(name) for name in classes)
    numbered = [isinstance(lf, SnorkelFunction) for lf in functions]
    if all(numbered):
        return _numbers(columns)
    if any(numbered):
        name = functions[numbered.index(True)].name
        raise ParameterError(
            f"labeling function {name!r} returns integers and others return labels; "
            "pass classes=[…] so that 0, 1, … have names"
        )
    found = {as_text(label) for lf in functions for label in lf.labels}
    for lf, column in zip(functions, columns, strict=True):
        found |= _labels_in(column, lf.name)
    if len(found) < 2:
        raise LabelError(
            f"the labeling functions name only {sorted(found)} on these rows, "
            "and labeling needs at least 2 classes; pass classes=[…]"
        )
    return tuple(sorted(found))


def encode(lf: LabelingFunction, column: Sequence[Any], classes: Sequence[str]) -> np.ndarray:
    """One function's answers as class indices, −1 where it abstains; (n_rows,)."""
    if isinstance(lf, SnorkelFunction):
        known: dict[Any, int] = {index: index for index in range(ABSTAIN, len(classes))}
        expected = f"-1 to abstain or 0 to {len(classes) - 1} for {list(classes)[:10]}"
    else:
        known = {None: ABSTAIN, **{name: index for index, name in enumerate(classes)}}
        expected = f"one of {list(classes)[:10]} or None to abstain"
    codes = np.array(_codes(column, known), dtype=np.int64)
    wrong = np.flatnonzero(codes == _WRONG)
    if len(wrong):
        raise VoteError(
            f"labeling function {lf.name!r} returned {column[wrong[0]]!r:.80} "
            f"on row {wrong[0]}; expected {expected}"
        )
    return codes


def _codes(column: Sequence[Any], known: Mapping[Any, int]) -> list[int]:
    if None in known:  # labels: nothing but text can equal text
        try:
            return [known.get(value, _WRONG) for value in column]
        except TypeError:  # a list or a dict, which no table can hold; find it below
            pass
    return [_code(value, known) for value in column]


def _code(value: Any, known: Mapping[Any, int]) -> int:
    # True equals 1, and a comparison returned by mistake must not become a vote for class 1
    if not isinstance(value, str | int | np.integer | None) or isinstance(value, bool):
        return _WRONG
    return known.get(value, _WRONG)


def _labels_in(column: Sequence[Any], name: str) -> set[str]:
    for row, value in enumerate(column):
        if value is not None and not isinstance(value, str):
            raise VoteError(
                f"labeling function {name!r} returned {value!r:.80} on row {row}; "
                "expected a label as text or None to abstain"
            )
    return {as_text(value) for value in set(column) if value is not None}


def as_text(label: Any) -> str:
    """A label's own text; a member of a text Enum is its value, not "Label.SPAM"."""
    return str.__str__(label) if isinstance(label, str) else str(label)


def _numbers(columns: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Names "0", "1", … up to the largest integer any Snorkel function returned."""
    whole = (int, np.integer)
    largest = max((int(v) for column in columns for v in column if isinstance(v, whole)), default=1)
    return tuple(str(index) for index in range(max(2, largest + 1)))
