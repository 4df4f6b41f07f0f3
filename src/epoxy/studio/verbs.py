"""The table of verbs: what a page, a script or a notebook may ask, and what the session answers.

Each verb is one line of the table: a request (a dataclass, checked by `requests`), and a function of the
room, the page and the request. HTTP, the WebSocket and the notebook look verbs up here and nowhere else.
There is no logic of labelling in this package: verbs read the session, or edit it, and say what it says.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from ..errors import EpoxyError, ParameterError, UnknownName
from ..session import Radii
from ..session.edits import known
from . import drafts, reading, showing
from .drafts import SomeRows
from .frames import Reply
from .requests import LONG_TEXT, Count, Name, Row, Within, read
from .room import Busy, Page, Room, Superseded
from .sources import SourceTable

Setting = Annotated[float, Within(0, 1e6)] | Literal["auto"] | None
LOST = 5
"""Rows shown that lose a lent vote."""


@dataclass(frozen=True)
class Message:
    """What a page sends, by whichever way."""

    id: Annotated[int, Within(1, 2**53)]
    verb: Name
    body: object = None


@dataclass(frozen=True)
class TryRadius:
    """A radius while it is dragged."""

    source: Name
    radius: Setting
    request: Count


@dataclass(frozen=True)
class Radius:
    """A radius that is kept."""

    source: Name
    radius: Setting


@dataclass(frozen=True)
class SwitchSource:
    """A source switched on or off."""

    source: Name
    on: bool


@dataclass(frozen=True)
class LabelRow:
    """A label given to a row, or taken back."""

    row: Row
    label: Name | None
    chosen: Name | None = None


@dataclass(frozen=True)
class Select:
    """What a page has selected: rows by number, or one bit a row, lowest first, in base64."""

    rows: tuple[Row, ...] = ()
    bits: Annotated[str, Within(0, LONG_TEXT)] | None = None


@dataclass(frozen=True)
class Cancel:
    """A job that is not wanted any more."""

    job: Count


@dataclass(frozen=True)
class Export:
    """A format."""

    kind: Literal["csv", "jsonl", "parquet"]


# trying


def _try_radius(room: Room, page: Page, body: TryRadius) -> Reply:
    session = room.session
    now = known(session.state.workspace, body.source)
    trial = session.trial(Radii({body.source: body.radius}))
    page.trial, page.flipped, page.draft = trial.outcome, trial.change.flipped, None
    room.show(page, body.request)
    then = known(trial.outcome.workspace, body.source)
    pairs = list(zip((room.table, SourceTable(trial.outcome)), (now, then)))
    lent = [table.lent_rows(source) for table, source in pairs]
    facts = {
        "extended": [table.extended(source) for table, source in pairs],
        "lent": [table.right(source)["lent"] for table, source in pairs],
    }
    return Reply(
        {
            "request": body.request,
            "what": trial.change.what,
            "seconds": trial.change.seconds,
            "flipped": len(trial.change.flipped),
            "comparison": showing.comparison(session, trial),
            "source": facts | {"lentRows": [len(each) for each in lent]},
            "lost": _lost(room, now, np.setdiff1d(lent[0], lent[1], assume_unique=True)),
        }
    )


def _lost(room: Room, source: Any, rows: np.ndarray) -> list[dict[str, Any]]:
    """The rows that borrow no more, those that just fell out first."""
    far = source.loans[0].distance[rows]
    found = []
    for at in np.argsort(far, kind="stable")[:LOST]:
        number = int(rows[at])
        hand = showing.row_line(room.session, number)["hand"]
        told = {"row": number, "text": showing.words(room.session, number), "hand": hand}
        found.append(told | {"distance": float(far[at])})
    return found


def _drop(room: Room, page: Page, body: reading.Nothing) -> Reply:
    page.forget()
    room.show(page)
    return Reply({})


# editing; what an edit changed is sent to every page by the room


def _radius(room: Room, page: Page, body: Radius) -> Reply:
    return _made(room.session.set_radius(body.source, body.radius))


def _switch(room: Room, page: Page, body: SwitchSource) -> Reply:
    return _made(room.session.switch(body.source, body.on))


def _label(room: Room, page: Page, body: LabelRow) -> Reply:
    session = room.session
    at, row = session.place(body.row)
    name = session.state.names.name((at, row))[1]
    return _made(session.label(name, body.label, session.names[at], chosen=body.chosen))


def _undo(room: Room, page: Page, body: reading.Nothing) -> Reply:
    return _made(room.session.undo())


def _redo(room: Room, page: Page, body: reading.Nothing) -> Reply:
    return _made(room.session.redo())


def _made(change: Any) -> Reply:
    return Reply(showing.change(change, "studio"))


def _tune(room: Room, page: Page, body: reading.Nothing) -> Reply:
    number = room.start_job("tune", lambda progress: str(room.session.tune(progress=progress)))
    return Reply({"job": number})


def _cancel(room: Room, page: Page, body: Cancel) -> Reply:
    if body.job not in room.jobs:
        raise UnknownName.of("job", body.job, room.jobs)
    room.jobs[body.job].set()
    return Reply({})


def _export(room: Room, page: Page, body: Export) -> Reply:
    if room.session.folder is None:
        raise ParameterError(
            "a session without a project folder has no place to write to; "
            "write its labels from Python: session.export(PATH)"
        )
    name = f"labels.{body.kind}"
    path = room.session.export(room.session.folder.project.labels / name, body.kind)
    return Reply({"path": str(path), "url": f"/api/export/{name}"})


def _select(room: Room, page: Page, body: Select) -> Reply:
    rows = np.unique(np.array(body.rows, dtype=np.int64)) if body.bits is None else _set(body.bits)
    if len(rows) and rows[-1] >= room.session.n_rows:
        room.session.place(int(rows[-1]))  # says which rows there are
    page.selection = rows
    return Reply({})


def _set(bits: str) -> np.ndarray:
    """The numbers of the bits that are set."""
    try:
        found = np.frombuffer(b64decode(bits, validate=True), dtype=np.uint8)
    except ValueError:
        raise ParameterError(
            "bits are no base64; send one bit a row in it, lowest first, or rows by number"
        ) from None
    return np.flatnonzero(np.unpackbits(found, bitorder="little"))


@dataclass(frozen=True)
class Verb:
    """A request and what answers it."""

    request: type
    run: Callable[[Room, Page, Any], Reply]
    about: str
    newest: bool = False  # of several that wait only the last is worth doing
    binary: bool = False


VERBS: dict[str, Verb] = {
    "state": Verb(reading.Nothing, reading.state, "Everything but rows and sources."),
    "picture": Verb(reading.Nothing, reading.picture, "Which picture of the rows there is."),
    "positions": Verb(
        reading.Nothing, reading.positions, "Where every row is on the map.", binary=True
    ),
    "colour": Verb(reading.Colour, reading.colour, "Two bytes for every row.", binary=True),
    "sources": Verb(reading.Sources, reading.sources, "Lines of the table of sources."),
    "source": Verb(reading.OneSource, reading.source, "All about one source."),
    "rows": Verb(reading.Rows, reading.rows, "Rows that match."),
    "all_rows": Verb(
        reading.Rows, reading.all_rows, "Numbers of all rows that match.", binary=True
    ),
    "row": Verb(reading.OneRow, reading.row, "One row with all its cells."),
    "why": Verb(reading.OneRow, reading.why, "Why a row has its label."),
    "next": Verb(reading.Next, reading.next_rows, "Rows to label next."),
    "history": Verb(reading.Nothing, reading.history, "Every edit of the project."),
    "try_radius": Verb(TryRadius, _try_radius, "What a radius would change.", newest=True),
    "drop": Verb(reading.Nothing, _drop, "Try nothing any more."),
    "radius": Verb(Radius, _radius, "Set how far a source lends."),
    "switch": Verb(SwitchSource, _switch, "Switch a source on or off."),
    "label": Verb(LabelRow, _label, "Label a row, or take its label back."),
    "undo": Verb(reading.Nothing, _undo, "Take the last edit back."),
    "redo": Verb(reading.Nothing, _redo, "Do an edit again."),
    "tune": Verb(reading.Nothing, _tune, "Choose radii on the hand labels."),
    "cancel": Verb(Cancel, _cancel, "End a job."),
    "export": Verb(Export, _export, "Write the labels to a file."),
    "select": Verb(Select, _select, "What is selected."),
    "draft": Verb(drafts.Draft, drafts.draft, "What a function would do.", newest=True),
    "save_function": Verb(drafts.SaveFunction, drafts.save_function, "Write a function."),
    "suggest": Verb(drafts.Suggest, drafts.suggest, "Functions that could be added."),
    "suggest_radius": Verb(SomeRows, drafts.suggest_radius, "A radius for rows like these."),
    "code": Verb(reading.Nothing, drafts.code, "The file of functions."),
    "save_code": Verb(drafts.SaveCode, drafts.save_code, "Write the file of functions."),
}


def ask(room: Room, page: Page, name: Any, body: Any) -> Future[Reply]:
    """Have a verb done; the future has its answer or the error."""
    try:
        if not isinstance(name, str) or name not in VERBS:
            raise UnknownName.of("verb", name if isinstance(name, str) else "?", VERBS)
        verb = VERBS[name]
        request: Any = read(verb.request, body)
    except EpoxyError as error:
        refused: Future[Reply] = Future()
        refused.set_exception(error)
        return refused
    return room.ask(page, name, lambda: verb.run(room, page, request), newest=verb.newest)


def failed(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Status and words of an error; what was not foreseen is told in general words only."""
    if not isinstance(error, EpoxyError):
        message = "something went wrong inside the studio; the terminal it runs in says what"
        return 500, {"message": message, "kind": "InternalError"}
    told = {"message": str(error), "kind": type(error).__name__}
    if isinstance(error, drafts.Conflict):
        told |= {"theirs": error.theirs, "hash": error.hash}
    if isinstance(error, Busy):
        return 429, told
    return 409 if isinstance(error, Superseded | drafts.Conflict) else 400, told
