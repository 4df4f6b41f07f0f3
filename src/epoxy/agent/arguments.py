"""Whether a tool's arguments are what its schema says, told in words where they are not.

Text is no number: `"12"` may be the id of a row whose number is another. An object may come as text that
holds it, as some clients send it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from ..errors import ParameterError, UnknownName

if TYPE_CHECKING:
    from ..session import Session

TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "object": "an object",
    "null": "null",
}
ROWS = ("row", "like")
"""Arguments that are the number of a row."""


def check_arguments(
    tool: str, given: Mapping[str, Any], schema: Mapping[str, Any], session: Session
) -> None:
    """Refuse arguments that a tool does not have, lacks, or cannot take."""
    known: Mapping[str, Any] = schema["properties"]
    for name in given:
        if name not in known:
            raise UnknownName.of(f"argument of {tool}", name, known)
    for name in schema.get("required", ()):
        if name not in given:
            raise ParameterError(
                f"{tool} needs {name}, {_described(known[name])}, and did not get it; give {name}"
            )
    for name, value in given.items():
        if not Draft202012Validator(known[name]).is_valid(_sent(value, known[name])):
            raise ParameterError(
                f"{name} of {tool} is {_described(known[name])}, got {value!r:.60}; "
                + _cure(name, value, session)
            )


def _sent(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and schema.get("type") == "object":
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _described(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_described, schema["anyOf"]))
    if "enum" in schema:
        return f"one of {', '.join(map(repr, schema['enum']))}"
    return repr(schema["const"]) if "const" in schema else TYPES[schema["type"]]


def _cure(name: str, value: Any, session: Session) -> str:
    if name not in ROWS:
        return f"give {name} as that"
    names = session.state.names
    places = [names.find(file, value) for file in names.files if isinstance(value, str)]
    numbers = sorted({session.number(place) for place in places if place is not None})
    if numbers:
        return f"the row with that id has the number {' or '.join(map(str, numbers))}"
    return 'rows are given by their number, "row" in the answers of next and find_rows'
