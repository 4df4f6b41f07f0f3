"""The verbs as an OpenAPI document, made from their structs: `python -m epoxy.studio.openapi` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, get_args, get_origin

import msgspec

from .. import __version__
from .verbs import VERBS

_REFUSED = {
    "400": "The request is wrong; the message says how.",
    "409": "A file was changed.",
    "413": "The request is too large.",
    "429": "Too many requests wait.",
}


class Error(msgspec.Struct):
    """Why a request was refused."""

    message: str
    kind: str


def document() -> dict[str, Any]:
    """Every verb as a path."""
    answers = [verb.answer for verb in VERBS.values()]
    heads = [get_args(each)[0] if get_origin(each) is tuple else each for each in answers]
    asked, parts = _schemas([verb.asked for verb in VERBS.values()], "Ask")
    told, more = _schemas([*heads, Error], "")
    for each in more.values():  # what is answered has every field
        each["required"] = list(each.get("properties", ()))
    wrong = {"content": {"application/json": {"schema": told[-1]}}}
    paths = {}
    for at, (name, verb) in enumerate(VERBS.items()):
        media: dict[str, Any] = {"application/json": {"schema": told[at]}}
        if get_origin(answers[at]) is tuple:
            media = {"application/octet-stream": {}}
        paths[f"/api/{name}"] = {
            "post": {
                "operationId": name,
                "summary": verb.about.partition("\n")[0],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": asked[at]}},
                },
                "responses": {
                    "200": {"description": "Done.", "content": media},
                    **{
                        status: {"description": words, **wrong}
                        for status, words in _REFUSED.items()
                    },
                },
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "epoxy studio", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": parts | more,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _schemas(kinds: Iterable[Any], prefix: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    template = f"#/components/schemas/{prefix}{{name}}"
    made, parts = msgspec.json.schema_components(kinds, ref_template=template)
    return made, {f"{prefix}{name}": each for name, each in parts.items()}


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(document()).decode() + "\n")
