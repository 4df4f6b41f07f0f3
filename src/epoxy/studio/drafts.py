"""The file of functions, functions that are not saved yet, and what pages are told of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import EpoxyError

if TYPE_CHECKING:
    from .room import Room

_KINDS = {"TextPattern": "keywords", "RowFunction": "python", "BatchFunction": "python"}


class Conflict(EpoxyError):
    """The file was changed since it was read; what it says now comes with the error."""

    def __init__(self, message: str, theirs: str = "", hash: str = "") -> None:  # noqa: A002
        super().__init__(message)
        self.theirs, self.hash = theirs, hash


def described(room: Room, row: dict[str, Any]) -> dict[str, Any]:
    """A line of the table of sources with what its file says of it, and what the doctor says."""
    home = room.session.folder
    found = {each.name: each for each in (() if home is None else home.loaded.functions)}
    function = found.get(row["name"])
    kind = "other" if function is None else _KINDS.get(function.kind, "other")
    told = (each["text"] for each in room.findings[1] if each["source"] == row["name"])
    return row | {"kind": kind, "line": None, "finding": next(told, None)}


def detailed(room: Room, row: dict[str, Any]) -> dict[str, Any]:
    """A line with its definition, its code and its curve."""
    vectors = room.session.state.workspace.near.spaces is not None
    curve = room.session.curve(row["name"]).to_dict() if vectors else None
    return row | {"definition": None, "code": None, "curve": curve}
