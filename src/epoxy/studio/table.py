"""The table of verbs: what may be asked, with what, and what answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_type_hints

from msgspec import Meta, Struct, defstruct
from msgspec.structs import asdict

F = TypeVar("F", bound=Callable[..., Any])
LongText = Annotated[str, Meta(max_length=2_000_000)]


class Verb(Struct, eq=False):
    """Something that a page, a script, a notebook or an agent may ask."""

    name: str
    about: str  # what is told of it
    run: Callable[
        [Any, Any, Any], Any
    ]  # of a room, a page and what came in: a struct, or one with bytes
    asked: type[Struct]  # what may come in
    answer: Any  # a type; of one with bytes a tuple with the type of its head
    writes: bool  # changes the project
    tool: str  # its name among an agent's tools


VERBS: dict[str, Verb] = {}
TOOLS: dict[str, Verb] = {}


def verb(
    *, asked: type[Struct] | None = None, writes: bool = False, tool: str = ""
) -> Callable[[F], F]:
    """List a function as a verb under its own name.

    What may come in are its arguments after the room and the page, or one of type `asked`.
    """

    def listed(function: F) -> F:
        types = get_type_hints(function, include_extras=True)
        name, kind = function.__name__.rstrip("_"), asked
        run: Callable[..., Any] = function
        if kind is None:
            given = list(inspect.signature(function).parameters.values())[2:]
            fields: list[Any] = [
                (
                    each.name,
                    types[each.name],
                    *([] if each.default is each.empty else [each.default]),
                )
                for each in given
            ]
            title = name.title().replace("_", "")
            kind = defstruct(title, fields, frozen=True, forbid_unknown_fields=True)
            run = lambda room, page, told: function(room, page, **asdict(told))  # noqa: E731
        about = inspect.getdoc(function) or ""
        made = Verb(name, about, run, kind, types["return"], writes, tool)
        VERBS[name] = made
        if tool:
            TOOLS[tool] = made
        return function

    return listed
