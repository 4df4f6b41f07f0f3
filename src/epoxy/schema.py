"""What stored values and arrays must be, declared, and checked before anything uses them.

A checksum finds accidents; whoever wrote a file on purpose can compute one. So a saved class declares
its values as types and its arrays as kind, shape and range, and what differs is refused in words:
compiled loops read tables without looking where they end.

Values: a type stands for itself (int passes for float, bool for neither), `[spec]` for a list,
`{name: spec}` for a table with exactly these names ("name?" may be missing), a tuple for one of
several, None for null, `object` for anything.

Shapes: words separated by blanks. A word is a number, the name of a size, or a sum (`1+classes`) or
product (`classes*columns`) of them; a name that is not known yet is what the first array says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import StoreError

FINITE = float(np.finfo(np.float64).max)
SUM_TOLERANCE = 1e-6
CURE = "fit and save the model again"
_KINDS = {
    "f": "numbers",
    "iu": "whole numbers",
    "b": "yes or no",
    "iuUf": "names",
    "iuf": "numbers",
}
_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
    None: "null",
}


@dataclass(frozen=True)
class Array:
    """What one array must be."""

    kinds: str  # of numpy's dtypes: f, i, u, b, U
    shape: str
    low: float = -FINITE
    high: float = FINITE
    nan: bool = False
    shares: int = 0  # so many of the last axes together sum to one
    optional: bool = False


def check_values(values: Any, spec: Any, where: str) -> Any:
    """The values, if they are what `spec` says."""
    at, expected, found = _misfit(values, spec, "")
    if expected:
        raise StoreError(f"{where}: {at or 'it'} is {found!r:.60}, expected {expected}; {CURE}")
    return values


def _misfit(value: Any, spec: Any, at: str) -> tuple[str, str, Any]:
    """Where a value differs, what was expected there, and what is; three nothings where it fits."""
    if isinstance(spec, tuple):
        tried = [_misfit(value, each, at) for each in spec]
        fits = any(not expected for _, expected, _ in tried)
        return ("", "", None) if fits else (at, " or ".join(each[1] for each in tried), value)
    if isinstance(spec, list) and isinstance(value, list):
        inner = (_misfit(each, spec[0], f"{at}[{i}]") for i, each in enumerate(value))
        return next((each for each in inner if each[1]), ("", "", None))
    if isinstance(spec, dict) and isinstance(value, dict):
        return _misfit_table(value, spec, at)
    if isinstance(spec, list | dict):
        return at, _WORDS[type(spec)], value
    if spec is None:
        fits = value is None
    elif spec is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits = fits and abs(value) <= FINITE
    else:
        fits = isinstance(value, spec) and (spec is not int or not isinstance(value, bool))
    return ("", "", None) if fits else (at, _WORDS[spec], value)


def _misfit_table(value: dict[str, Any], spec: dict[str, Any], at: str) -> tuple[str, str, Any]:
    names = {name.rstrip("?"): each for name, each in spec.items()}
    for name in value:
        if name not in names:
            return f"{at}.{name}".strip("."), "no such name", value[name]
    for name, each in names.items():
        if name in value:
            inner = _misfit(value[name], each, f"{at}.{name}".strip("."))
            if inner[1]:
                return inner
        elif f"{name}?" not in spec:
            return f"{at}.{name}".strip("."), "a value", None
    return "", "", None


def check_arrays(
    arrays: Mapping[str, np.ndarray], spec: Mapping[str, Array], where: str, **sizes: int
) -> Mapping[str, np.ndarray]:
    """The arrays, if all are there, none is unknown, and each is what `spec` says."""
    unknown = sorted(set(arrays) - set(spec))
    if unknown:
        raise StoreError(f"{where}: array {unknown[0]!r:.60} is none of this kind's; {CURE}")
    for name, wanted in spec.items():
        if name in arrays:
            _check_array(arrays[name], wanted, f"{where}: array {name!r}", sizes)
        elif not wanted.optional:
            raise StoreError(f"{where} lacks the array {name!r}; {CURE}")
    return arrays


def _check_array(array: np.ndarray, wanted: Array, who: str, sizes: dict[str, int]) -> None:
    words = wanted.shape.split()
    shape = tuple(_size(word, sizes) for word in words)
    fits = len(shape) == array.ndim and all(
        size in (None, real) for size, real in zip(shape, array.shape)
    )
    if not fits or array.dtype.kind not in wanted.kinds:
        shown = " × ".join(word if size is None else str(size) for word, size in zip(words, shape))
        raise StoreError(
            f"{who} is {array.dtype} of shape {array.shape}, "
            f"expected {_KINDS[wanted.kinds]}, {shown}; {CURE}"
        )
    sizes |= {word: real for word, real, size in zip(words, array.shape, shape) if size is None}
    if array.dtype.kind not in "iuf" or wanted.kinds == "iuUf" or not array.size:
        return
    seen = array[~np.isnan(array)] if wanted.nan and array.dtype.kind == "f" else array
    low, high = (seen.min().item(), seen.max().item()) if seen.size else (wanted.low, wanted.high)
    if not (wanted.low <= low and high <= wanted.high):  # NaN is neither
        limits = f"from {wanted.low:g} to {wanted.high:g}"
        expected = "finite numbers" if wanted.high == -wanted.low == FINITE else f"numbers {limits}"
        raise StoreError(f"{who} holds {low} to {high}, expected {expected}; {CURE}")
    if wanted.shares:
        total = array.sum(axis=tuple(range(-wanted.shares, 0)), dtype=np.float64)
        if np.abs(total - 1).max() > SUM_TOLERANCE:
            raise StoreError(f"{who} holds shares that do not sum to 1; {CURE}")


def _size(word: str, sizes: Mapping[str, int]) -> int | None:
    """What a word of a shape stands for; None where it is not known."""
    for sign, combined in (("+", sum), ("*", math.prod)):
        if sign in word:
            parts = [_size(part, sizes) for part in word.split(sign)]
            return (
                None if None in parts else int(combined(part for part in parts if part is not None))
            )
    return int(word) if word.isdigit() else sizes.get(word)
