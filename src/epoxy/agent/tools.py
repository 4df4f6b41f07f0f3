"""What an agent may ask: a session's verbs by the names of tools, with plain arguments and plain answers.

Reading is free; what would change the project is refused unless the person who started the server
allowed it. Before each, what others decided is taken up. Answers are cut to a size, and say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError, UnknownName
from ..studio import frames, lfs
from ..studio.room import Page, Room
from ..studio.verbs import TOOLS, ask

if TYPE_CHECKING:
    from ..session import Session

READING = tuple(name for name, verb in TOOLS.items() if not verb.writes)
WRITING = tuple(name for name, verb in TOOLS.items() if verb.writes)
MOST, LONGEST = 100, 10_000
"""Items of a list and characters of a text in one answer."""


class Tools:
    """The tools over one session of a project; `write` says whether they may change it."""

    def __init__(self, session: Session, *, write: bool = False) -> None:
        self.session, self.write = session, write
        self.home = session.need_folder("an agent's door")
        self.room = Room(session)
        self.page = Page(by_name="agent", may_write=write)
        self._process = self.home.log.who

    def named(self, client: str) -> None:
        """Say who asks: it stands in the log, and is the labeller of labels given."""
        name = " ".join("".join(c for c in client if c.isprintable()).split())[:60]
        self.page.by_name = f"agent {name}".strip()
        self.home.log.who = f"{self.page.by_name} {self._process}"

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do one, at the state all others left."""
        if name not in TOOLS:
            raise UnknownName.of("tool", name, TOOLS)
        given = dict(arguments)
        if isinstance(given.get("definition"), str):  # as some clients send an object
            with suppress(ValueError, RecursionError):
                given["definition"] = json.loads(given["definition"])
        self.room.ask(None, lambda: lfs.look(self.room, record=False)).result()
        try:
            answer = ask(self.room, self.page, TOOLS[name].name, given).result()
        except ParameterError as error:
            raise ParameterError(f"{error}{self._hint(str(error), given)}") from None
        told: dict[str, Any] = _cut(frames.plain(answer))
        return told

    def _hint(self, error: str, given: Mapping[str, Any]) -> str:
        """Which row is meant where an id was given for a number."""
        at = re.search(r"`\$\.(row|like)`", error)
        if at is None:
            return ""
        names, value = self.session.state.names, given.get(at[1])
        places = [names.find(file, value) for file in names.files if isinstance(value, str)]
        numbers = sorted({self.session.number(place) for place in places if place is not None})
        if numbers:
            return f": the row with that id has the number {' or '.join(map(str, numbers))}"
        return ': rows are given by their number, "row" in the answers of next and find_rows'

    def close(self) -> None:
        """End the thread behind it."""
        self.room.close()


def _cut(value: Any) -> Any:
    """The same with long texts and lists cut; beside a cut list stands how long it was."""
    if isinstance(value, dict):
        made = {name: _cut(each) for name, each in value.items()}
        for name, each in value.items():
            if isinstance(each, list) and len(each) > MOST:
                made[f"{name}_total"] = len(each)
        return made
    if isinstance(value, list):
        return [_cut(each) for each in value[:MOST]]
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}…"
    return value
