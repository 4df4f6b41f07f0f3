"""The studio in a notebook: the same page and the same verbs over a session that is open there."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MissingExtra, StoreError
from . import frames
from .room import Page, Room
from .serving import opened
from .verbs import spoken

if TYPE_CHECKING:
    from ..session import Session


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
        raise StoreError(
            "the page is not built; run make web in the folder epoxy was installed from"
        )

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
        self.room: Room = opened(session)
        self.room.pages.append(self.page)

    def receive(self, content: Any) -> None:
        """A message from the page."""
        spoken(self.room, self.page, frames.as_json(content))

    def push(self, message: str | bytes) -> None:
        """Send what the room pushes."""
        if isinstance(message, str):
            self._send(frames.parsed(message))
        else:
            head, data = frames.unpacked(message)
            self._send(head, [data])

    def close(self) -> None:
        """End the thread and the process behind it."""
        self.room.close()
