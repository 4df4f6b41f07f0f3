"""The file of functions, functions that are not saved yet, and what pages are told of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..errors import CodeError, EpoxyError, FileChanged, ParameterError
from ..functions_file import FunctionsFile, WrittenFunction
from . import showing
from .frames import Reply
from .requests import LONG_TEXT, Name, Row, Within, Words

if TYPE_CHECKING:
    from .room import Page, Room

Code = Annotated[str, Within(0, LONG_TEXT)]


@dataclass(frozen=True)
class Keywords:
    """A function of words."""

    label: Name
    words: tuple[Words, ...]
    column: Name
    whole_words: bool = False
    ignore_case: bool = True
    kind: Literal["keywords"] = "keywords"


@dataclass(frozen=True)
class Pattern:
    """A function of a regular expression."""

    label: Name
    pattern: Words
    column: Name
    ignore_case: bool = False
    kind: Literal["regex"] = "regex"


@dataclass(frozen=True)
class Like:
    """A function of example rows."""

    label: Name
    rows: tuple[Name, ...]
    radius: Annotated[float, Within(0, 1e6)]
    kind: Literal["like"] = "like"


@dataclass(frozen=True)
class Python:
    """A function written as code."""

    code: Code
    kind: Literal["python"] = "python"


Definition = Keywords | Pattern | Like | Python


@dataclass(frozen=True)
class Draft:
    """A function that is not saved."""

    definition: Definition
    name: Name | None = None
    replaces: Name | None = None


@dataclass(frozen=True)
class SaveFunction:
    """A function to be written to lfs.py."""

    definition: Definition
    name: Name
    replaces: Name | None = None


@dataclass(frozen=True)
class SomeRows:
    """Rows by number."""

    rows: tuple[Row, ...]


Selected = tuple[Row, ...] | Literal["mine"] | None
"""Rows by number, or those this page has selected: a lasso may hold a million, and they are told once."""


@dataclass(frozen=True)
class Suggest:
    """Functions that could be added: for a class, for some rows, or for rows on which sources quarrel."""

    n: Annotated[int, Within(1, 20)] = 5
    label: Name | None = None
    rows: Selected = None
    conflict: bool = False


@dataclass(frozen=True)
class SaveCode:
    """Another text of lfs.py, and the hash of the one it was made from."""

    text: Code
    hash: Name


class Conflict(EpoxyError):
    """The file was changed since it was read; what it says now comes with the error."""

    def __init__(self, message: str, file: FunctionsFile) -> None:
        super().__init__(message)
        self.theirs, self.hash = file.text, file.hash


def described(room: Room, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of the table of sources with what the file says of each, what the doctor, and how it failed."""
    home, known = room.session.folder, written_functions(room)
    failed = {each.name: str(each) for each in (() if home is None else home.failures)}
    said = [each for each in room.findings[1] if each["kind"] != "not-heard"]  # `heard` of each
    told = {each["source"]: each["text"] for each in reversed(said)}
    lines = []
    for row in rows:
        name = row["name"]
        written = known.get(name)
        of_file = {
            "kind": "other" if written is None else written.kind,
            "line": None if written is None else written.line,
        }
        lines.append(row | of_file | {"failure": failed.get(name), "finding": told.get(name)})
    return lines


def detailed(room: Room, row: dict[str, Any]) -> dict[str, Any]:
    """A line with its definition, its code and its curve."""
    written = written_functions(room).get(row["name"])
    found = None if written is None else written.definition
    vectors = room.session.state.workspace.near.spaces is not None
    return row | {
        "definition": None if found is None else dict(found),
        "code": None if written is None else written.code,
        "curve": room.session.curve(row["name"]).to_dict() if vectors else None,
    }


def written_functions(room: Room) -> dict[str, WrittenFunction]:
    """The functions that can be read off lfs.py by name; none while it does not parse."""
    if room.session.folder is None:
        return {}
    try:
        file = _file(room)
        if room.written[0] != file.hash:
            room.written = (file.hash, {each.name: each for each in file.functions})
    except EpoxyError:
        return {}
    return room.written[1]


def _file(room: Room) -> FunctionsFile:
    home = room.session.folder
    if home is None:
        raise ParameterError("this session has no lfs.py; open a project folder: Session.open(DIR)")
    return FunctionsFile.read(home.functions)


def draft(room: Room, page: Page, body: Draft) -> Reply:
    """What a function would do; the map shows it until it is dropped."""
    session = room.session
    found = session.draft(plain(body.definition), body.name, body.replaces)
    page.forget()
    if found.trial is not None:
        page.trial, page.flipped = found.trial.outcome, found.trial.change.flipped
        page.draft = found.votes
    room.show(page)
    error = None if found.error is None else asdict(found.error)
    flips = [
        {"row": row, "text": showing.words(session, row), "from": each.before, "to": each.after}
        for each in found.flips
        for row in [each.row]
    ]
    examples = [
        {"row": row, "text": showing.words(session, row), "hand": hand}
        for row, _, hand in found.examples
    ]
    told = {
        name: getattr(found, name)
        for name in ("ok", "rows", "coverage", "extended", "right", "conflicts", "overlaps")
    }
    now = showing.comparison(session)
    return Reply(
        told
        | {
            "error": error,
            "flips": flips,
            "unheard": found.unheard,
            "flipped": found.flipped,
            "comparison": now if found.trial is None else showing.comparison(session, found.trial),
            "before": now,
            "seconds": found.seconds,
            "examples": examples,
            "code": found.code,
            "name": found.name,
        }
    )


def plain(definition: Definition) -> dict[str, Any]:
    """A definition as the session takes it."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(definition).items()}


def save_function(room: Room, page: Page, body: SaveFunction) -> Reply:
    """Write a function to lfs.py and vote with it."""
    page.forget()
    made = room.session.save_function(plain(body.definition), body.name, body.replaces)
    room.code_error = None
    _tell(room)
    return Reply(
        {"change": None if made is None else showing.change(made, "studio"), "name": body.name}
    )


def suggest(room: Room, page: Page, body: Suggest) -> Reply:
    """Functions that could be added; nothing is kept."""
    chosen = page.chosen(body.rows)
    rows = None if chosen is None else chosen.tolist()
    found = room.session.suggest(body.n, label=body.label, rows=rows, conflict=body.conflict)
    told = [each.to_dict() for each in found]
    for row in (row for each in told for row in (*each["right"], *each["wrong"])):
        row["text"] = showing.words(room.session, row["row"])
    return Reply({"suggestions": told})


def suggest_radius(room: Room, page: Page, body: SomeRows) -> Reply:
    """A radius to begin with."""
    return Reply({"radius": room.session.suggest_radius(body.rows), "rows": len(body.rows)})


def code(room: Room, page: Page, body: Any) -> Reply:
    """The file of functions as it is on disk."""
    file = _file(room)
    functions = [
        {"name": each.name, "line": each.line, "kind": each.kind}
        for each in written_functions(room).values()
    ]
    return Reply(
        {"text": file.text, "hash": file.hash, "error": room.code_error, "functions": functions}
    )


def save_code(room: Room, page: Page, body: SaveCode) -> Reply:
    """Write the file; code that does not run is written too, and the last good state stays."""
    made = None
    page.forget()
    try:
        made = room.session.save_code(body.text, body.hash)
        room.code_error = None
    except FileChanged as error:
        raise Conflict(str(error), _file(room)) from None
    except CodeError as error:
        room.code_error = showing.code_error(error)
    _tell(room)
    change = None if made is None else showing.change(made, "studio")
    return Reply({"hash": _file(room).hash, "error": room.code_error, "change": change})


def reload(room: Room) -> None:
    """Run lfs.py again; where it fails the last good state stays, and every page is told why."""
    try:
        room.under("lfs.py", room.session.reload)
        room.code_error = None
    except EpoxyError as error:
        room.code_error = showing.code_error(error)
    _tell(room)


def _tell(room: Room) -> None:
    room.tell("functions", error=room.code_error, failures=showing.failures(room.session))
