"""The studio in a notebook: the same page and the same verbs over a session that is open there."""

from __future__ import annotations

import json
from concurrent.futures import Future
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EpoxyError, MissingExtra, StoreError
from . import showing
from .frames import Reply, as_json, unpacked
from .picture import Pictures
from .requests import read
from .room import Page, Room
from .serving import texts_of
from .verbs import Message, ask, failed

if TYPE_CHECKING:
    from ..session import Session

UNBUILT = "the page is not built; run make web"


def widget(session: Session) -> Any:
    """Show the studio over a session in a notebook; `selection` of what it returns is what is selected.

    Edits made in the widget are edits of the session, and the other way round.
    """
    try:
        import anywidget
    except ImportError as error:
        raise MissingExtra.of("the studio in a notebook", "anywidget", "notebook") from error
    place = files("epoxy.studio").joinpath("static", "widget.js")
    if not place.is_file():
        raise StoreError(f"{UNBUILT} in the folder epoxy was installed from")

    class StudioWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """The page in a cell."""

        _esm = place.read_text("utf-8")

        def __init__(self) -> None:
            super().__init__()
            self.host = Host(session, self.send)
            self.on_msg(lambda _, content, buffers: self.host.receive(content))

        @property
        def selection(self) -> np.ndarray:
            """Numbers of the selected rows: train rows first, then dev rows."""
            return self.host.page.selection

        def close(self) -> None:
            """Let the session go."""
            self.host.close()
            super().close()

    return StudioWidget()


class Host:
    """A room with one page, which speaks by a notebook's messages; `send` takes a head and buffers."""

    def __init__(self, session: Session, send: Any) -> None:
        self._send = send
        self.page = Page(self.push)
        self.room = Room(session, Pictures(session, self._repictured))
        self.room.pages.append(self.page)
        pictures = self.room.pictures
        assert pictures is not None
        cache = None if session.folder is None else session.folder.project.cache / "pictures"
        pictures.start(texts_of(session), cache)

    def receive(self, content: Any) -> None:
        """A message from the page."""
        try:
            told = read(Message, content, "the message")
        except EpoxyError as error:
            self._send({"id": 0, "error": failed(error)[1]})
            return
        future = ask(self.room, self.page, told.verb, {} if told.body is None else told.body)
        future.add_done_callback(partial(self._reply, told.id))

    def push(self, message: str | bytes) -> None:
        """Send what the room pushes."""
        if isinstance(message, str):
            self._send(json.loads(message))
            return
        head, data = unpacked(message)
        self._send(head, [data])

    def _reply(self, number: int, done: Future[Reply]) -> None:
        error = done.exception()
        if error is not None:
            self._send({"id": number, "error": failed(error)[1]})
            return
        reply = done.result()
        head = json.loads(as_json({"id": number, "reply": reply.head}))
        self._send(head, [] if reply.data is None else [reply.data])

    def _repictured(self) -> None:
        room = self.room
        room.ask(None, "picture", lambda: room.tell("picture", picture=showing.picture(room)))

    def close(self) -> None:
        """End the thread and the process behind it."""
        if self.room.pictures is not None:
            self.room.pictures.close()
        self.room.close()
