"""A studio on this machine: the session, its server, and the files it watches."""

from __future__ import annotations

import asyncio
import html
import os
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra, StoreError
from ..storage import private
from ..workspace import TRAIN
from . import lfs, showing
from .picture import Pictures
from .room import Room

if TYPE_CHECKING:
    from ..session import Session

HOST, FIRST_PORT, PORTS = "127.0.0.1", 8765, 20
LEADS_ON = (
    '<meta charset="utf-8"><meta http-equiv="refresh" content="0;url={0}"><a href="{0}">Epoxy</a>\n'
)


def need_server() -> None:
    """Say what to install where the server's packages are missing."""
    for name in ("starlette", "uvicorn", "watchfiles", "websockets"):
        if find_spec(name) is None:
            raise MissingExtra.of("epoxy studio", name, "studio")


def opened(session: Session, *, better_picture: bool = True) -> Room:
    """A room over a session, in which a better picture of its rows is made."""
    room = Room(session)

    def repictured() -> None:
        room.ask(None, lambda: room.tell("picture", picture=showing.picture(room)))

    room.pictures = Pictures(session, repictured)
    cache = None if session.folder is None else session.folder.project.cache / "pictures"
    if better_picture:
        room.pictures.start(texts_of(session), cache)
    return room


class Studio:
    """A server over one session, on a port of this machine alone."""

    def __init__(
        self, session: Session, port: int | None = None, *, better_picture: bool = True
    ) -> None:
        need_server()
        from .security import Keys

        self.socket = _bound(port)
        self.port = int(self.socket.getsockname()[1])
        self.keys = Keys()
        self.token = self.keys.new()
        self.room = opened(session, better_picture=better_picture)
        self._server: Any = None
        self._stopped = threading.Event()

    @property
    def address(self) -> str:
        """Where the page is, with a token that opens it once."""
        return self._with(self.token)

    def _with(self, token: str) -> str:
        return f"http://{HOST}:{self.port}/?token={token}"

    @property
    def opening(self) -> Path | None:
        """The file that leads on to the page; None for a session without a folder."""
        home = self.room.session.folder
        return None if home is None else home.project.cache / "studio.html"

    def write_opening(self) -> None:
        """Write that file anew, for its owner alone, with a token of its own.

        A browser is given its path and not the address, because whoever is on this machine may read
        the command lines of others.
        """
        path = self.opening
        if path is None:
            return
        path.unlink(missing_ok=True)  # whatever it was before: ours is made anew
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(made, "w", encoding="utf-8") as file:
            file.write(LEADS_ON.format(html.escape(self._with(self.keys.new()))))

    def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until `stop`, or until the process is told to end."""
        import uvicorn

        from . import app, security

        guard = security.Guard(app.make_app(self.room), self.port, self.keys, self.write_opening)
        config = uvicorn.Config(
            guard,
            http=security.Connection,
            ws="websockets-sansio",
            ws_max_size=security.FRAME_LIMIT,
            ws_per_message_deflate=False,
            timeout_keep_alive=int(security.PATIENCE),
            timeout_graceful_shutdown=2,
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            lifespan="off",
        )
        if self.opening is not None:
            private(self.opening.parent)
        self.write_opening()
        self._server = uvicorn.Server(config)
        if self._stopped.is_set():
            self._server.should_exit = True
        try:
            asyncio.run(self._run(ready))
        finally:
            if self.opening is not None:
                self.opening.unlink(missing_ok=True)
            self.close()

    async def _run(self, ready: Callable[[], None]) -> None:
        beside = asyncio.create_task(self._watch())
        serving = asyncio.create_task(self._server.serve(sockets=[self.socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        if self._server.started:
            ready()
        await serving
        for left in list(self._server.server_state.connections):  # who does not read what is sent
            left.transport.abort()
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)

    def stop(self) -> None:
        """End `serve`, from any thread."""
        self._stopped.set()
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Let go of the port, the process and the thread."""
        self.room.close()
        self.socket.close()

    async def _watch(self) -> None:
        """Take up files that others save, and what they decide, as long as the server runs."""
        home = self.room.session.folder
        if home is None:
            return
        from watchfiles import awatch

        store = {home.log.path.name, f"{home.log.path.name}-wal", home.log.text.name}
        where = home.project.folder.resolve()

        def wanted(change: Any, path: str) -> bool:
            file = Path(path)
            inside = file.parent.name == home.project.cache.name
            return file.suffix == ".py" or (inside and file.name in store)

        async for _ in awatch(where, watch_filter=wanted, debounce=100, step=30):
            self.room.ask(None, lambda: lfs.look(self.room))


def texts_of(session: Session) -> list[str] | None:
    """The text of every train row that is on the map; None where rows have no text."""
    found = None if session.texts is None else session.texts.column_texts()
    if found is None:
        return None
    near = session.state.workspace.near
    places = near.places[TRAIN] if near.places else None
    rows = range(near.sizes[TRAIN]) if places is None else places.tolist()
    return [found[TRAIN][row] if row < len(found[TRAIN]) else "" for row in rows]


def _bound(port: int | None) -> socket.socket:
    """A socket on this machine alone: on the port asked for, or on the first that is free."""
    if port is not None and not 0 <= port < 65536:
        raise StoreError(f"{port} is no port; give a number of 0 to 65535")
    wanted = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + PORTS), 0]
    for each in wanted:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, each))
            made.listen(1024)
            return made
        except OSError as error:
            made.close()
            problem = error
    raise StoreError(
        f"port {port} of this machine cannot be used ({problem.strerror}); "
        "choose another: --port N, or leave it out"
    ) from problem
