"""From what labeling functions answer to columns of class indices, with every answer checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .errors import LabelError, ParameterError, VoteError
from .lfs import LabelingFunction, SnorkelFunction
from .votes import ABSTAIN

_WRONG = -2


def check_declared(functions: Sequence[LabelingFunction], classes: Sequence[str] | None) -> None:
    """Raise where a function declares a label that is not one of the classes given."""
    for lf in functions if classes is not None else ():
        for label in lf.labels:
            if label not in (known := [as_text(name) for name in classes or ()]):
                close = difflib.get_close_matches(label, known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise VoteError(
                    f"labeling function {lf.name!r} votes {label!r}; "
                    f"expected one of {known[:10]}{hint}"
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
