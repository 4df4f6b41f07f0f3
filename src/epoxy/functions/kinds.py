"""Labeling functions as plain values that a form can show: to a function, to code, and back from code.

{"kind": "keywords", "label", "words", "column", "whole_words", "ignore_case"}
{"kind": "regex", "label", "pattern", "column", "ignore_case"}
{"kind": "like", "label", "rows", "radius"}
{"kind": "python", "code"}

A kind is one class here: its fields are what a form, a page or an agent is told, `call` is what an
author would write, and `of_call` reads that back. `KINDS` lists them.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Self

from msgspec import Meta, Struct, ValidationError, convert

from ..errors import CodeError, ParameterError, UnknownName
from .declare import keywords, like, regex, slug

Text = Annotated[str, Meta(max_length=20_000)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
"""A text that a person writes, and one that names something."""
_WIDTH = 96
_ANY_CASE = "(?i)"


class Kind(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Fields of one kind of function."""

    maker: ClassVar[Callable[..., Any] | None] = None  # what makes it of `call`, in `epoxy`

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, by position and by name, but for the function's name."""
        raise ParameterError("Python code runs in a process of its own; save it, or draft it")

    @property
    def kind(self) -> str:
        """What kind of function."""
        return str(self.__struct_config__.tag)

    @classmethod
    def of_call(cls, given: dict[str, Any]) -> Self:
        """The same of the arguments by name; raises where they say more than the fields."""
        return convert({**given, "kind": cls.__struct_config__.tag}, cls)

    def name(self) -> str:
        """What the function is called where nobody names it."""
        return str(self.function().name)

    def function(self, name: str | None = None) -> Any:
        """The labeling function; Python code is not run here."""
        given, named = self.call()
        assert self.maker is not None
        return type(self).maker(*given, **named, name=name)  # type: ignore[misc]


class Keywords(Kind, frozen=True, tag="keywords"):
    """A function of words."""

    maker = keywords
    label: Name
    words: list[Text]
    column: Name = "text"
    whole_words: bool = False
    ignore_case: bool = True

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The label and the words."""
        names = ("column", "whole_words", "ignore_case")
        return [self.label, *self.words], {name: getattr(self, name) for name in names}


class Pattern(Kind, frozen=True, tag="regex"):
    """A function of a regular expression."""

    maker = regex
    label: Name
    pattern: Text
    column: Name = "text"
    ignore_case: bool = False

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The label and the pattern, which says itself that case does not matter."""
        return [self.label, _ANY_CASE * self.ignore_case + self.pattern], {"column": self.column}

    @classmethod
    def of_call(cls, given: dict[str, Any]) -> Self:
        """The case may be a flag."""
        flags, pattern = given.pop("flags", 0), given["pattern"].removeprefix(_ANY_CASE)
        if flags not in (0, int(re.IGNORECASE)):
            raise ParameterError(f"flags={flags} have no field; write them into the pattern")
        any_case = bool(flags) or pattern != given["pattern"]
        return super().of_call({**given, "pattern": pattern, "ignore_case": any_case})

    def function(self, name: str | None = None) -> Any:
        """The labeling function."""
        return super().function(slug("regex", [self.pattern]) if name is None else name)


class Like(Kind, frozen=True, tag="like"):
    """A function of example rows, by their ids."""

    maker = like
    label: Name
    rows: list[Name]
    radius: Annotated[float, Meta(ge=0, le=1e6)]

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The label, the rows and how far."""
        return [self.label], {"rows": self.rows, "radius": self.radius}

    @classmethod
    def of_call(cls, given: dict[str, Any]) -> Self:
        """Ids may be numbers."""
        return super().of_call({**given, "rows": [str(each) for each in given["rows"]]})


class Python(Kind, frozen=True, tag="python"):
    """A function written as code."""

    code: Annotated[str, Meta(max_length=2_000_000)]

    @property
    def last_def(self) -> ast.FunctionDef:
        """The last function it defines; errors count lines of the code alone."""
        named = [each for each in parsed(self.code).body if isinstance(each, ast.FunctionDef)]
        if not named:
            raise CodeError(
                "the code defines no function; write def under @epoxy.labeling_function"
            )
        return named[-1]


Form = Keywords | Pattern | Like | Python
"""What a definition may be; its JSON schema is what a page or an agent is told."""
KINDS: dict[str, type[Kind]] = {
    str(each.__struct_config__.tag): each for each in (Keywords, Pattern, Like, Python)
}
DECLARED = tuple(name for name, kind in KINDS.items() if kind.maker is not None)
"""Kinds that are a call."""


def form_of(given: Mapping[str, Any] | Form) -> Form:
    """One function as a value, complete and checked."""
    if isinstance(given, Kind):
        return given
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if kind not in KINDS:
        raise UnknownName.of("kind of function", kind, KINDS)
    told = dict(given)
    if kind == "like" and isinstance(told.get("rows"), list | tuple):
        told["rows"] = [str(each) for each in told["rows"]]
    try:
        made: Form = convert(told, Form)
    except ValidationError as error:
        raise ParameterError(f"this {kind} function cannot be: {error}; correct it") from None
    return made


def parsed(code: str | bytes, place: str = "the code") -> ast.Module:
    """The tree of Python code; what is wrong with it is said with its line."""
    try:
        return ast.parse(code)
    except SyntaxError as error:
        reason = f"{type(error).__name__}: {error.msg}; correct it and try again"
        raise CodeError(reason, place if error.lineno else "", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, nesting
        raise CodeError(f"{place} cannot be parsed: {error}; correct it") from None


def call_code(form: Form, name: str, callee: str) -> str:
    """The call that makes a function, as an author would write it."""
    form.function(name)  # says what is wrong with it
    given, named = form.call()
    usual = inspect.signature(type(form).maker or keywords).parameters
    parts = [_written(each) for each in given]
    for option, value in {**named, "name": name}.items():
        if value != usual[option].default:
            parts.append(f"{option}={_written(value)}")
    line = f"{callee}({', '.join(parts)})"
    return line if len(line) <= _WIDTH else f"{callee}(\n{_filled(parts)}\n)"


def read_call(call: ast.Call, kind: str) -> tuple[str | None, Form | None]:
    """The name and the form of a call; None where its arguments are more than literals."""
    made, name = KINDS[kind], None
    for each in call.keywords:
        if each.arg == "name":
            name = each.value.value if isinstance(each.value, ast.Constant) else ""
    if name is not None and (not isinstance(name, str) or not name):
        return None, None
    try:
        given = [ast.literal_eval(each) for each in call.args]
        named = {str(each.arg): _literal(each) for each in call.keywords if each.arg != "name"}
        bound = inspect.signature(made.maker or keywords).bind(*given, **named)
        form: Any = made.of_call(bound.arguments)
        form.function(name)
        return form.name() if name is None else name, form
    except (ValueError, TypeError, SyntaxError, AttributeError, KeyError):
        return name, None


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


def _filled(parts: list[str]) -> str:
    """Arguments one after another on lines of a readable width."""
    lines = ["    "]
    for part in parts:
        if len(lines[-1]) + len(part) > _WIDTH and lines[-1].strip():
            lines.append("    ")
        lines[-1] += f"{part}, "
    return "\n".join(each.rstrip() for each in lines)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    plain = isinstance(value, str) and value.isprintable() and '"' not in value
    if not plain or value.endswith("\\"):
        return repr(value)
    return f'r"{value}"' if "\\" in value else f'"{value}"'
