"""Requests as frozen dataclasses: what may come in is what their fields say, checked and described once.

`read(kind, body)` makes a request from JSON that came from outside; an unknown field, a missing one, a
wrong type, a number that is none or a value out of bounds is an error in words. `schema(kind)` says the
same as a JSON schema. Both follow from the annotations: a text, a number, a list, `Literal` words, other
dataclasses told apart by their `kind`, and unions of these.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ..errors import ParameterError

T = TypeVar("T")
TEXT, LONG_TEXT, MANY, DEEP = 20_000, 2_000_000, 2_000_000, 32
"""Most characters of a text and of a file, most entries of a list, deepest nesting."""
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclasses.dataclass(frozen=True)
class Within:
    """Bounds of a number, or of the length of a text or list."""

    low: float = 0
    high: float = 2**31 - 1


_ROWS = Within()
Row = Annotated[int, _ROWS]
Count = Annotated[int, Within()]
Words = Annotated[str, Within(0, TEXT)]
Name = Annotated[str, Within(1, 500)]


def parsed(text: str | bytes) -> Any:
    """JSON from outside; NaN, infinities and nesting that goes too deep are refused."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ParameterError("this JSON is nested too deep; send a flat object") from None
    except ValueError as error:
        raise ParameterError(f"this is no JSON ({error}); send an object") from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def read(kind: type[T], body: Any, where: str = "the request") -> T:
    """A request from JSON, checked."""
    if not isinstance(body, dict):
        raise ParameterError(f"{where} is {_shown(body)}; send an object")
    hints = _hints(cast(Any, kind))
    fields = dataclasses.fields(cast(Any, kind))
    known = [field.name for field in fields]
    for name in body:
        if name not in known:
            raise ParameterError(
                f"{where} has a field {_shown(name)}, which is not known; "
                f"known: {', '.join(known) or 'none'}"
            )
    given = {}
    for field in fields:
        if field.name in body:
            given[field.name] = _value(hints[field.name], body[field.name], field.name)
        elif field.default is dataclasses.MISSING:
            raise ParameterError(f"{where} has no {field.name!r}; give it")
    return kind(**given)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _value(hint: Any, value: Any, where: str) -> Any:
    bounds = None
    if get_origin(hint) is Annotated:
        hint, bounds = get_args(hint)
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _one_of(get_args(hint), value, where, bounds)
    if origin is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise _wrong(where, value, f"one of {', '.join(map(repr, get_args(hint)))}")
        return value
    if origin is tuple:
        if not isinstance(value, list) or len(value) > MANY:
            raise _wrong(where, value, f"a list of at most {MANY} entries")
        each = get_args(hint)[0]
        if each == Row and value and set(map(type, value)) == {int}:  # a lasso may hold a million
            low, high = min(value), max(value)
            if _ROWS.low <= low and high <= _ROWS.high:
                return tuple(value)
        return tuple(_value(each, one, f"{where}[{at}]") for at, one in enumerate(value))
    if hint is object:
        return value
    if hint is NoneType:
        if value is not None:
            raise _wrong(where, value, "null")
        return None
    if dataclasses.is_dataclass(hint):
        return read(cast(Any, hint), value, where)
    return _plain(hint, value, where, bounds)


def _plain(hint: type, value: Any, where: str, bounds: Within | None) -> Any:
    number = hint in (int, float)
    fits = isinstance(value, (int, float) if hint is float else hint)
    if not fits or (number and isinstance(value, bool)):
        raise _wrong(where, value, _WORDS[hint])
    if hint is str:
        bounds = bounds or Within(0, TEXT)
        if not bounds.low <= len(value) <= bounds.high:
            raise _wrong(where, value, f"a text of {bounds.low:g} to {bounds.high:g} characters")
        if any("\ud800" <= each <= "\udfff" for each in value):
            raise _wrong(where, value, "a text, and this has half a character in it")
    elif number:
        low, high = (-1e300, 1e300) if bounds is None else (bounds.low, bounds.high)
        if not low <= value <= high or not math.isfinite(value):
            raise _wrong(where, value, f"{_WORDS[hint]} of {low:g} to {high:g}")
    return float(value) if hint is float else value


def _one_of(kinds: tuple[Any, ...], value: Any, where: str, bounds: Within | None) -> Any:
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    if all(dataclasses.is_dataclass(kind) for kind in kinds):
        named = {kind.kind: kind for kind in kinds}
        told = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(told, str) or told not in named:
            raise _wrong(where, value, f"an object with a kind: {', '.join(named)}")
        return read(named[told], value, where)
    problems: list[ParameterError] = []
    for kind in kinds:
        try:
            return _value(kind, value, where)
        except ParameterError as error:
            problems.append(error)
    raise problems[0]


def _wrong(where: str, value: Any, expected: str) -> ParameterError:
    return ParameterError(f"{where} is {_shown(value)}; expected {expected}")


def _shown(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, float | int) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a request."""
    hints = _hints(kind)
    fields = dataclasses.fields(cast(Any, kind))
    found: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {each.name: _schema(hints[each.name]) for each in fields},
    }
    needed = [each.name for each in fields if each.default is dataclasses.MISSING]
    if hasattr(kind, "kind"):  # told apart by it, so it is always there
        found["properties"]["kind"] = {"const": kind.kind}
        needed.append("kind")
    return found | ({"required": needed} if needed else {})


_PLAIN: dict[Any, Callable[[Within | None], dict[str, Any]]] = {
    str: lambda b: {"type": "string"} | _bounds(b or Within(0, TEXT), "Length"),
    int: lambda b: {"type": "integer"} | _bounds(b, "imum"),
    float: lambda b: {"type": "number"} | _bounds(b, "imum"),
    bool: lambda b: {"type": "boolean"},
    NoneType: lambda b: {"type": "null"},
}


def _schema(hint: Any) -> dict[str, Any]:
    bounds = None
    if get_origin(hint) is Annotated:
        hint, bounds = get_args(hint)
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(each) for each in get_args(hint)]}
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(hint)[0]), "maxItems": MANY}
    return schema(cast(Any, hint)) if dataclasses.is_dataclass(hint) else _PLAIN[hint](bounds)


def _bounds(within: Within | None, word: str) -> dict[str, Any]:
    return {} if within is None else {f"min{word}": within.low, f"max{word}": within.high}
