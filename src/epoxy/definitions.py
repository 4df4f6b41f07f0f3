"""Labeling functions as plain values that a form can show: to a function, to code, and back from code.

{"kind": "keywords", "label", "words", "column", "whole_words", "ignore_case"}
{"kind": "regex", "label", "pattern", "column", "ignore_case"}
{"kind": "like", "label", "rows", "radius"}
{"kind": "python", "code"}
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from .declarative import keywords, regex, slug
from .errors import CodeError, EpoxyError, ParameterError, UnknownName
from .exemplars import like

Text = Annotated[str, Meta(max_length=20_000)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
"""A text that a person writes, and one that names something."""


class _Form(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Fields of one kind of function."""


class Keywords(_Form, frozen=True, tag="keywords"):
    """A function of words."""

    label: Name
    words: list[Text]
    column: Name = "text"
    whole_words: bool = False
    ignore_case: bool = True


class Pattern(_Form, frozen=True, tag="regex"):
    """A function of a regular expression."""

    label: Name
    pattern: Text
    column: Name = "text"
    ignore_case: bool = False


class Like(_Form, frozen=True, tag="like"):
    """A function of example rows, by their ids."""

    label: Name
    rows: list[Name]
    radius: Annotated[float, Meta(ge=0, le=1e6)]


class Python(_Form, frozen=True, tag="python"):
    """A function written as code."""

    code: Annotated[str, Meta(max_length=2_000_000)]


Form = Keywords | Pattern | Like | Python
"""What a definition may be; its JSON schema is what a page or an agent is told."""
_WIDTH = 96
_ANY_CASE = "(?i)"


class Definition(Mapping[str, Any]):
    """One function as a value, complete and checked."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        kind = given.get("kind") if isinstance(given, Mapping) else None
        known = [each.__struct_config__.tag for each in get_args(Form)]
        if kind not in known:
            raise UnknownName.of("kind of function", kind, known)
        told = dict(given)
        if kind == "like" and isinstance(told.get("rows"), list | tuple):
            told["rows"] = [str(each) for each in told["rows"]]
        try:
            self.form: Form = convert(told, Form)
        except ValidationError as error:
            raise ParameterError(f"this {kind} function cannot be: {error}; correct it") from None
        self._values: dict[str, Any] = to_builtins(self.form)

    @property
    def kind(self) -> str:
        """What kind of function."""
        return str(self._values["kind"])

    @cached_property
    def last_def(self) -> ast.FunctionDef:
        """Of Python code: the last function it defines; errors count lines of the code alone."""
        try:
            body = ast.parse(self["code"]).body
        except SyntaxError as error:
            reason = f"{type(error).__name__}: {error.msg}; correct it and try again"
            raise CodeError(reason, "the code", error.lineno) from None
        except (ValueError, RecursionError, MemoryError) as error:  # null bytes, nesting
            raise CodeError(f"the code cannot be parsed: {error}; correct it") from None
        named = [each for each in body if isinstance(each, ast.FunctionDef)]
        if not named:
            raise CodeError(
                "the code defines no function; write def under @epoxy.labeling_function"
            )
        return named[-1]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._values == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Definition({self._values!r})"

    def function(self, name: str | None = None) -> Any:
        """The labeling function it stands for; Python code is not run here."""
        if self.kind == "keywords":
            options = {each: self[each] for each in ("column", "whole_words", "ignore_case")}
            return keywords(self["label"], *self["words"], **options, name=name)
        if self.kind == "regex":
            pattern = _ANY_CASE * self["ignore_case"] + self["pattern"]
            called = slug("regex", [self["pattern"]]) if name is None else name
            return regex(self["label"], pattern, column=self["column"], name=called)
        if self.kind == "like":
            return like(self["label"], rows=self["rows"], radius=self["radius"], name=name)
        raise ParameterError("Python code runs in a process of its own; save it, or draft it")


def call_code(definition: Definition, name: str, callee: str) -> str:
    """The call that makes a function, as an author would write it."""
    definition.function(name)  # says what is wrong with it
    kind, parts = definition.kind, [_quoted(definition["label"])]
    if kind == "keywords":
        parts += map(_quoted, definition["words"])
    elif kind == "regex":
        parts.append(_raw(_ANY_CASE * definition["ignore_case"] + definition["pattern"]))
    else:
        ids = ", ".join(map(_quoted, definition["rows"]))
        parts += [f"rows=[{ids}]", f"radius={definition['radius']!r}"]
    if definition.get("column", "text") != "text":
        parts.append(f"column={_quoted(definition['column'])}")
    if kind == "keywords":
        parts += ["whole_words=True"] * definition["whole_words"]
        parts += ["ignore_case=False"] * (not definition["ignore_case"])
    parts.append(f"name={_quoted(name)}")
    line = f"{callee}({', '.join(parts)})"
    return line if len(line) <= _WIDTH else f"{callee}(\n{_filled(parts)}\n)"


def definition_of(call: ast.Call, kind: str) -> tuple[str | None, Definition | None]:
    """The name and the definition of a call; None where its arguments are more than literals."""
    try:
        given = [ast.literal_eval(each) for each in call.args]
        named: dict[str, Any] = {str(each.arg): _literal(each) for each in call.keywords}
        name, flags = named.pop("name", None), named.pop("flags", 0)
        makers: dict[str, Any] = {"keywords": keywords, "regex": regex, "like": like}
        made = makers[kind](*given, **named)
    except (ValueError, TypeError, SyntaxError, EpoxyError):
        return (_name_alone(call), None)
    name = made.name if name is None else name
    if not isinstance(name, str):
        return None, None
    if kind == "keywords":
        values = {"label": made.label, "words": given[1:], **named}
    elif kind == "regex":
        pattern = made.pattern.removeprefix(_ANY_CASE)
        any_case = bool(flags) or pattern != made.pattern
        values = {"label": made.label, "pattern": pattern, "column": made.column}
        values["ignore_case"] = any_case
    else:
        values = {"label": made.label, "rows": list(made.rows), "radius": made.radius}
    try:
        found = Definition({"kind": kind, **values})
    except EpoxyError:
        return name, None
    return name, found if flags in (0, int(re.IGNORECASE)) else None


def _literal(given: ast.keyword) -> Any:
    """A literal, or `re.IGNORECASE` under its usual names."""
    node = given.value
    if given.arg == "flags" and isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "re":
            return int(getattr(re, node.attr))
        raise ValueError
    if given.arg is None:
        raise ValueError
    return ast.literal_eval(node)


def _name_alone(call: ast.Call) -> str | None:
    for each in call.keywords:
        if each.arg == "name" and isinstance(each.value, ast.Constant):
            return each.value.value if isinstance(each.value.value, str) else None
    return None


def _filled(parts: list[str]) -> str:
    """Arguments one after another on lines of a readable width."""
    lines = ["    "]
    for part in parts:
        if len(lines[-1]) + len(part) > _WIDTH and lines[-1].strip():
            lines.append("    ")
        lines[-1] += f"{part}, "
    return "\n".join(each.rstrip() for each in lines)


def _quoted(text: str) -> str:
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else repr(text)


def _raw(pattern: str) -> str:
    plain = pattern.isprintable() and '"' not in pattern and not pattern.endswith("\\")
    return f'r"{pattern}"' if plain and "\\" in pattern else _quoted(pattern)
