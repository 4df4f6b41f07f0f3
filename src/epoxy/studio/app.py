"""Routes: the page and its files, pictures, exports, every verb by POST, and the live connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mimetypes
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..errors import EpoxyError, ParameterError
from . import images, security
from .frames import Reply, as_json, packed
from .openapi import document
from .requests import parsed, read
from .room import Page, Room
from .security import BODY_LIMIT, PATIENCE
from .verbs import Message, ask, failed

log = logging.getLogger("epoxy.studio")
UNBUILT = "the page is not built; run make web"
EXPORTS = {f"labels.{kind}": kind for kind in ("csv", "jsonl", "parquet")}
OUTBOX = 64 << 20
"""Bytes that may wait for a page that does not take them; then its connection is closed."""
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html; charset=utf-8"}
_TYPES |= {".svg": "image/svg+xml", ".woff2": "font/woff2", ".json": "application/json"}


def make_app(room: Room) -> Starlette:
    """The application without its guard."""
    static = static_files()
    routes = [
        Route("/", _static(static, "/index.html"), methods=["GET"]),
        Route("/api/openapi.json", _openapi, methods=["GET"]),
        Route("/api/image/{row}", _image, methods=["GET"]),
        Route("/api/export/{name}", _export, methods=["GET"]),
        Route("/api/{verb}", _verb, methods=["POST"]),
        WebSocketRoute("/api/live", _live),
        *(Route(path, _static(static, path), methods=["GET"]) for path in static),
    ]
    app = Starlette(routes=routes)
    app.state.room = room
    return app


def guarded(room: Room, port: int, token: str) -> Any:
    """The application behind its guard."""
    return security.Guard(make_app(room), port, token)


def static_files() -> dict[str, tuple[Path, str]]:
    """Every file of the built page by the one path it is served under, with its media type."""
    home = Path(str(files("epoxy.studio").joinpath("static")))
    found = sorted(each for each in home.rglob("*") if each.is_file()) if home.is_dir() else []
    return {
        f"/{each.relative_to(home).as_posix()}": (each, _type_of(each))
        for each in found
        if not each.is_symlink()
    }


def _type_of(file: Path) -> str:
    guessed = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return _TYPES.get(file.suffix, guessed)


def _static(static: dict[str, tuple[Path, str]], path: str) -> Callable[[Request], Any]:
    async def send(request: Request) -> Response:
        if path not in static:
            return Response(f"{UNBUILT}\n", 503, media_type="text/plain")
        file, kind = static[path]
        headers = {"content-type": kind}
        if path.startswith("/assets/"):  # named after their content
            headers["cache-control"] = "public, max-age=31536000, immutable"
        return Response(await asyncio.to_thread(file.read_bytes), headers=headers)

    return send


async def _openapi(request: Request) -> Response:
    return JSONResponse(document())


async def _image(request: Request) -> Response:
    room: Room = request.app.state.room
    try:
        row = _whole(request.path_params["row"], "the row", 2**31)
        size = _whole(request.query_params.get("size", "64"), "size", images.LARGEST)
        page = Page()
        found = room.ask(page, "image", lambda: images.image_of(room.session, row, max(1, size)))
        content, kind = await asyncio.wrap_future(found)
    except EpoxyError as error:
        return _error(error)
    return Response(content, headers={"content-type": kind, "cache-control": "private, max-age=60"})


def _whole(text: str, what: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= most):
        raise ParameterError(f"{what} is {text!r:.40}; give a whole number of 0 to {most}")
    return int(text)


async def _export(request: Request) -> Response:
    room: Room = request.app.state.room
    name, home = request.path_params["name"], room.session.folder
    path = None if home is None or name not in EXPORTS else home.project.labels / name
    if path is None or not path.is_file():
        return Response("there is no such export; ask for one first\n", 404)
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    headers["content-type"] = "application/octet-stream"
    return Response(await asyncio.to_thread(path.read_bytes), headers=headers)


async def _verb(request: Request) -> Response:
    room: Room = request.app.state.room
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return _told(415, {"message": "send JSON: Content-Type: application/json"})
    try:
        text = await _body(request)
        found = ask(room, Page(), request.path_params["verb"], parsed(text or b"{}"))
        reply = await asyncio.wrap_future(found)
    except security.Refused as refused:
        return _told(refused.status, {"message": str(refused), "kind": "Refused"})
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception as error:  # noqa: BLE001 - told, and logged where it was not foreseen
        return _error(error)
    if reply.data is None:
        return Response(as_json(reply.head), media_type="application/json")
    return Response(packed(reply.head, reply.data), media_type="application/octet-stream")


async def _body(request: Request) -> bytes:
    """The body, within its limits of size and time."""
    told = request.headers.get("content-length", "0")
    if not told.isdigit() or int(told) > BODY_LIMIT:
        raise security.Refused(413, f"a request has {BODY_LIMIT} bytes at most; send less")
    parts, size = [], 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > BODY_LIMIT:
                    raise security.Refused(413, f"a request has {BODY_LIMIT} bytes at most")
                parts.append(part)
    except TimeoutError:
        raise security.Refused(408, f"the request took more than {PATIENCE:g} s to come") from None
    return b"".join(parts)


def _error(error: Exception) -> Response:
    status, told = failed(error)
    if status == 500:
        log.error("a request failed", exc_info=error)
    return _told(status, told)


def _told(status: int, told: dict[str, Any]) -> Response:
    closing = {"connection": "close"} if status in (408, 413) else None
    return Response(as_json(told), status, media_type="application/json", headers=closing)


class _Outbox:
    """What waits to be sent to one page; closed where a page does not take what it asked for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._bytes = 0

    def put(self, message: str | bytes) -> None:
        """From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._add, message)
        except RuntimeError:  # the loop has ended, and the page with it
            return

    def _add(self, message: str | bytes) -> None:
        self._bytes += len(message)
        self._queue.put_nowait(message if self._bytes <= OUTBOX else None)

    async def send(self, socket: WebSocket) -> None:
        """Send in order until the page has gone or does not keep up."""
        while (message := await self._queue.get()) is not None:
            async with asyncio.timeout(PATIENCE):
                if isinstance(message, str):
                    await socket.send_text(message)
                else:
                    await socket.send_bytes(message)
            self._bytes -= len(message)


async def _live(socket: WebSocket) -> None:
    room: Room = socket.app.state.room
    await socket.accept()
    outbox = _Outbox()
    page = Page(outbox.put)
    room.pages.append(page)
    tasks = [
        asyncio.create_task(outbox.send(socket)),
        asyncio.create_task(_listen(socket, room, page, outbox)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.exception()  # a page that has gone, or does not keep up: nothing to say
    finally:
        room.pages.remove(page)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, OSError):
            await socket.close(1008)


async def _listen(socket: WebSocket, room: Room, page: Page, outbox: _Outbox) -> None:
    """Take messages, and answer each when it is done."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        try:
            told = read(Message, parsed(message.get("text") or ""), "the message")
        except EpoxyError as error:
            outbox.put(as_json({"id": 0, "error": failed(error)[1]}))
            continue
        future = ask(room, page, told.verb, {} if told.body is None else told.body)
        future.add_done_callback(partial(_reply, outbox, told.id))


def _reply(outbox: _Outbox, number: int, done: Any) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None:
        status, told = failed(error)
        if status == 500:
            log.error("a request failed", exc_info=error)
        outbox.put(as_json({"id": number, "error": told}))
        return
    reply: Reply = done.result()
    head = {"id": number, "reply": reply.head}
    outbox.put(as_json(head) if reply.data is None else packed(head, reply.data))
