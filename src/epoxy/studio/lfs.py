"""The file of functions, functions that are not saved yet, and what is told of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ..errors import CodeError, EpoxyError, FileChanged, ParameterError
from ..functions.kinds import Form, Keywords, Name, Pattern, Python, Text
from ..functions.lfs_file import FunctionsFile, WrittenFunction
from ..votes import ABSTAIN
from . import replies, showing
from .room import Page, Room
from .table import LongText, verb


class Conflict(EpoxyError):
    """The file was changed since it was read; what it says now comes with the error."""

    def __init__(self, message: str, file: FunctionsFile) -> None:
        super().__init__(message)
        self.theirs, self.hash = file.text, file.hash


def described(room: Room, lines: Sequence[replies.SourceLine]) -> list[replies.SourceLine]:
    """Lines of the table with what the file says of each source, what the doctor, and how it failed."""
    home, known = room.session.folder, written(room)
    failed = {each.name: str(each) for each in (() if home is None else home.failures)}
    said = [each for each in room.findings[1] if each.kind != "not-heard"]  # `heard` of each
    told = {each.source: each.text for each in reversed(said)}
    found = []
    for line in lines:
        place = known.get(line.name)
        of_file = {} if place is None else {"kind": place.kind, "line": place.line}
        doubt = {"failure": failed.get(line.name), "finding": told.get(line.name)}
        found.append(msgspec.structs.replace(line, **of_file, **doubt))
    return found


def detailed(room: Room, line: replies.SourceLine) -> replies.Source:
    """A line with its definition, its code, its curve and its weight."""
    session, place = room.session, written(room).get(line.name)
    vectors = session.state.workspace.near.spaces is not None
    return replies.Source(
        **msgspec.structs.asdict(line),
        definition=None if place is None else place.definition,
        code=None if place is None else place.code,
        curve=session.curve(line.name) if vectors else None,
        adds=session.weight(line.name),
    )


def written(room: Room) -> dict[str, WrittenFunction]:
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


def _allowed(room: Room, page: Page, form: Form) -> Form:
    """A definition that may be run; words are looked for in the text, where no column is named."""
    if isinstance(form, Python) and not page.may_write:
        raise ParameterError(
            "this server only reads, and runs no Python of an agent's; try words, a pattern or "
            "example rows, or ask the person to start it with: epoxy mcp DIR --write"
        )
    texts = room.session.texts
    unnamed = isinstance(form, Keywords | Pattern) and form.column == "text"
    if unnamed and texts is not None and texts.column and "text" not in texts.columns:
        form = msgspec.structs.replace(form, column=texts.column)
    return form


@verb(tool="try_function")
def draft(
    room: Room,
    page: Page,
    definition: Form,
    name: Text | None = None,
    replaces: Text | None = None,
    guess: bool = False,
) -> replies.Draft:
    """What a function would do, beside the others or in place of `replaces`; nothing is kept.

    Words and patterns read the text column, unless `column` names another; Python is run only where
    writing is allowed. The answer has coverage, how often it is right on rows labelled by hand with an
    interval, and labels that would change; `unheard` says that the model would not hear it, because
    vectors contradict it. With `guess` it names the class that the labelled rows it votes on have.
    """
    session, made = room.session, _allowed(room, page, definition)
    found = session.draft(made, name or None, replaces or None)
    if guess and found.ok:
        label = _covered_class(room, found.votes)
        if not isinstance(made, Python) and label not in (None, made.label):
            made = msgspec.structs.replace(made, label=label)
            found = session.draft(made, name or None, replaces or None)
    if found.error is not None and page.by_name is not None:
        where = f" (line {found.error.line} of the code)" if found.error.line else ""
        raise ParameterError(f"{found.error.message}{where}")
    page.forget()
    if found.trial is not None:
        page.trial, page.flipped = found.trial.outcome, found.trial.change.flipped
        page.draft = found.votes
    room.show(page)
    now = showing.comparison(session)
    return replies.of(
        replies.Draft,
        found,
        error=None if found.error is None else replies.of(replies.CodeError, found.error),
        label=getattr(made, "label", None),
        right=showing.share(found.right),
        flips=[
            showing.mention(session, each.row, before=each.before, after=each.after)
            for each in found.flips
        ],
        examples=[showing.mention(session, row, hand=hand) for row, _, hand in found.examples],
        comparison=now if found.trial is None else showing.comparison(session, found.trial),
        before=now,
    )


def _covered_class(room: Room, votes: Sequence[np.ndarray]) -> str | None:
    """The class that most labelled rows have on which it votes; else that the model gives most."""
    session = room.session
    voted = np.concatenate(votes) != ABSTAIN
    hand = np.concatenate(session.state.workspace.labels.y)
    outcome = session.outcome
    given = np.concatenate(outcome.decided) if outcome.labels else np.full(len(hand), ABSTAIN)
    for known in (hand[voted], given[voted]):
        if (known != ABSTAIN).any():
            return session.classes[int(np.bincount(known[known != ABSTAIN]).argmax())]
    return None


@verb(writes=True, tool="add_function")
def save_function(
    room: Room, page: Page, definition: Form, name: Name, replaces: Text | None = None
) -> replies.Saved:
    """Write a function to the project's lfs.py and vote with it; try_function says what it would do."""
    page.forget()
    form = _allowed(room, page, definition)
    made = room.session.save_function(form, name, replaces or None)
    room.code_error = None
    _tell(room)
    return replies.Saved(name, _changed(room, made, name))


@verb(writes=True, tool="change_function")
def change_function(
    room: Room, page: Page, source: Name, definition: Form, name: Text = ""
) -> replies.Saved:
    """Put a function in the place of another in lfs.py, under its name or a new one."""
    return save_function(room, page, definition, name or source, source)


def _changed(room: Room, made: Any, name: str = "") -> replies.Change | None:
    if made is None:
        return None
    failed = [each.message for each in showing.failures(room.session) if each.name == name]
    return showing.change(made, failed)


@verb()
def code(room: Room, page: Page) -> replies.File:
    """The file of functions as it is on disk."""
    file = _file(room)
    functions = [replies.of(replies.InFile, each) for each in written(room).values()]
    return replies.of(replies.File, file, error=room.code_error, functions=functions)


@verb(writes=True)
def save_code(
    room: Room,
    page: Page,
    text: LongText,
    hash: Name,  # noqa: A002 - the protocol's word
) -> replies.SavedFile:
    """Write the file of functions, unless it has another hash; the last that ran stays in use."""
    made = None
    page.forget()
    try:
        made = room.session.save_code(text, hash)
        room.code_error = None
    except FileChanged as error:
        raise Conflict(str(error), _file(room)) from None
    except CodeError as error:
        room.code_error = showing.code_error(error)
    _tell(room)
    return replies.SavedFile(_file(room).hash, room.code_error, _changed(room, made))


def look(room: Room, *, record: bool = True) -> None:
    """Take up what others decided, and run lfs.py again if it or what it imports was saved.

    Where it does not run the last good state stays, and every page is told why.
    """
    session = room.session
    session.catch_up()
    if session.folder is None or not session.folder.runner.changed():
        return
    try:
        session.reload(record=record)
        room.code_error = None
    except EpoxyError as error:
        room.code_error = showing.code_error(error)
    _tell(room)


def _tell(room: Room) -> None:
    room.tell("functions", error=room.code_error, failures=showing.failures(room.session))
