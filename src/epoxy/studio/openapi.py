"""The verbs as an OpenAPI document, made from their requests."""

from __future__ import annotations

from typing import Any

from .. import __version__
from .requests import schema
from .verbs import VERBS

_ERROR = {
    "type": "object",
    "required": ["message", "kind"],
    "properties": {"message": {"type": "string"}, "kind": {"type": "string"}},
}


def document() -> dict[str, Any]:
    """Every verb as a path."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "epoxy studio", "version": __version__},
        "paths": {f"/api/{name}": {"post": _operation(name)} for name in VERBS},
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(name: str) -> dict[str, Any]:
    verb = VERBS[name]
    media = "application/octet-stream" if verb.binary else "application/json"
    answer: dict[str, Any] = {} if verb.binary else {"schema": {"type": "object"}}
    wrong = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    told = {
        "400": "The request is wrong; the message says how.",
        "409": "A newer request came, or a file was changed.",
        "413": "The request is too large.",
        "429": "Too many requests wait.",
    }
    return {
        "operationId": name,
        "summary": verb.about,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema(verb.request)}},
        },
        "responses": {
            "200": {"description": "Done.", "content": {media: answer}},
            **{status: {"description": words, **wrong} for status, words in told.items()},
        },
    }
