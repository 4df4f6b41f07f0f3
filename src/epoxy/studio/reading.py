"""What the session says when a page asks: the state, the map, sources, rows, reasons, the log.

Nothing here changes a project. Of a page only how it colours the map is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import numpy as np

from ..errors import ParameterError
from ..session.edits import known
from . import drafts, showing
from .frames import Reply
from .requests import Count, Name, Row, Within, Words
from .room import Page, Room
from .sources import ordered

ColourBy = Literal["label", "source", "uncertain", "hand", "novote", "draft"]
Filter = Literal[
    "all", "uncertain", "conflict", "novote", "wrong", "hand", "near", "voted", "flipped"
]
SourceSort = Literal["file", "name", "coverage", "extended", "own", "lent", "conflicts", "radius"]
Purpose = Literal["mix", "teach", "score", "cover", "conflict", "check"]
SHOWN, MOST_ROWS = 1000, 500
"""Sources and rows in one answer at most."""


@dataclass(frozen=True)
class Nothing:
    """A request without fields."""


@dataclass(frozen=True)
class Colour:
    """How this connection colours the map from now on."""

    by: ColourBy
    source: Name | None = None


@dataclass(frozen=True)
class Sources:
    """Some lines of the table of sources."""

    find: Words = ""
    sort: SourceSort = "file"
    descending: bool = False
    offset: Count = 0
    limit: Annotated[int, Within(0, SHOWN)] = 100


@dataclass(frozen=True)
class OneSource:
    """A source by name."""

    name: Name


@dataclass(frozen=True)
class Rows:
    """A question about rows."""

    find: Words = ""
    like: Row | None = None
    filter: Filter = "all"
    source: Name | None = None
    selection: drafts.Selected = None
    sort: Literal["unsure", "sure", "file", "like", "distance"] | None = None
    offset: Count = 0
    limit: Annotated[int, Within(0, MOST_ROWS)] = 50


@dataclass(frozen=True)
class OneRow:
    """A row by number."""

    row: Row


@dataclass(frozen=True)
class Next:
    """What to label next."""

    n: Annotated[int, Within(1, 200)] = 10
    purpose: Purpose = "mix"
    without: tuple[Row, ...] = ()


def state(room: Room, page: Page, body: Nothing) -> Reply:
    """Everything but rows and sources."""
    return Reply(showing.state(room))


def picture(room: Room, page: Page, body: Nothing) -> Reply:
    """Which picture of the rows there is."""
    return Reply(showing.picture(room))


def positions(room: Room, page: Page, body: Nothing) -> Reply:
    """Where every row is on the map."""
    n_rows = room.session.n_rows
    if room.pictures is None or room.pictures.kind == "none":
        return Reply({"kind": "none", "total": n_rows}, np.zeros((n_rows, 2), "<f4").tobytes())
    found = room.pictures.positions(room.session)
    return Reply({"kind": room.pictures.kind, "total": n_rows}, found.astype("<f4").tobytes())


def colour(room: Room, page: Page, body: Colour) -> Reply:
    """Two bytes for every row, and from now on those that change."""
    if body.by == "source":
        if body.source is None:
            raise ParameterError("the map is coloured by one source; name it: source")
        known(room.session.state.workspace, body.source)
    page.by, page.source = body.by, body.source
    page.marks = room.painted(page)
    head = {"by": body.by, "source": body.source, "version": room.session.version}
    return Reply(head, page.marks.tobytes())


def sources(room: Room, page: Page, body: Sources) -> Reply:
    """Lines of the table of sources."""
    table = room.table
    words = body.find.lower().split()
    found = [
        each
        for each in room.session.state.workspace.sources
        if all(word in each.name.lower() for word in words)
    ]
    part = slice(body.offset, body.offset + body.limit)
    if body.sort == "file":  # no line is made that is not shown
        chosen = (found[::-1] if body.descending else found)[part]
        rows = [table.row(each) for each in chosen]
    else:
        rows = ordered(list(map(table.row, found)), body.sort, descending=body.descending)[part]
    return Reply({"total": len(found), "sources": drafts.described(room, rows)})


def source(room: Room, page: Page, body: OneSource) -> Reply:
    """All about one source."""
    source = known(room.session.state.workspace, body.name)
    (line,) = drafts.described(room, [room.table.row(source)])
    return Reply({**drafts.detailed(room, line), "adds": room.session.weight(body.name)})


def rows(room: Room, page: Page, body: Rows) -> Reply:
    """Rows that match."""
    found = _found(room, page, body)
    shown = found.rows[body.offset : body.offset + body.limit].tolist()
    lines = [showing.row_line(room.session, each) for each in shown]
    return Reply({"total": len(found.rows), "rows": lines, "counts": dict(found.counts)})


def all_rows(room: Room, page: Page, body: Rows) -> Reply:
    """Numbers of all rows that match."""
    rows = _found(room, page, body).rows
    return Reply({"total": len(rows)}, np.asarray(rows, dtype="<u4").tobytes())


def _found(room: Room, page: Page, body: Rows) -> Any:
    from ..session.browsing import RowQuery

    query = RowQuery(
        find=body.find,
        like=body.like,
        filter=body.filter,
        source=body.source,
        selection=page.chosen(body.selection),
        flipped=np.zeros(0, dtype=np.int64) if page.flipped is None else page.flipped,
        sort=body.sort,
    )
    return room.session.browse(query)


def row(room: Room, page: Page, body: OneRow) -> Reply:
    """One row with all its cells."""
    line = showing.row_line(room.session, body.row, whole=True)
    cells = {} if room.session.texts is None else room.session.cells(body.row)
    return Reply(line | {"columns": cells})


def why(room: Room, page: Page, body: OneRow) -> Reply:
    """Why a row has its label."""
    return Reply(showing.why(room.session, body.row))


def next_rows(room: Room, page: Page, body: Next) -> Reply:
    """Rows to label next."""
    found = room.session.next(body.n, body.purpose, without=body.without)
    rows = []
    for each in found:
        line = showing.row_line(room.session, each.number)
        rows.append(line | {"reason": each.reason, "purpose": each.purpose, "chosen": each.chosen})
    return Reply({"rows": rows})


def history(room: Room, page: Page, body: Nothing) -> Reply:
    """Every edit of the project."""
    home = room.session.folder
    records = [] if home is None else home.store.records()
    undone = {each.undoes for each in records if each.undoes is not None}
    edits = []
    for each in records:
        scores, flipped = room.scored.get(each.number, (None, None))
        told = {"number": each.number, "at": _time(each.at), "who": each.who, "what": each.what}
        told |= {"mine": home is not None and each.who == home.store.who}
        edits.append(told | {"undone": each.number in undone, "scores": scores, "flipped": flipped})
    return Reply({"edits": edits})


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
