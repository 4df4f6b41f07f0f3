"""Routes: the page and its files, pictures, exports, every verb by POST, and the live connection."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from . import replies
from .frames import as_json, message, parsed
from .openapi import document
from .room import Page, Room
from .security import BODY_LIMIT, PATIENCE, Refused
from .verbs import ask, failed, spoken

UNBUILT = "the page is not built; run make web"
STATIC = Path(str(files("epoxy.studio").joinpath("static")))
EXPORTS = ("labels.csv", "labels.jsonl", "labels.parquet")
OUTBOX = 64 << 20
"""Bytes that may wait for a page that does not take them; then its connection is closed."""


def make_app(room: Room) -> Starlette:
    """The application without its guard."""
    app = Starlette(
        routes=[
            Route("/api/openapi.json", _openapi),
            Route("/api/image/{row:int}", _image),
            Route("/api/export/{name}", _export),
            Route("/api/{verb}", _verb, methods=["POST"]),
            WebSocketRoute("/api/live", _live),
            Mount("/", _Files(directory=STATIC, html=True, check_dir=False)),
        ]
    )
    app.state.room = room
    return app


def is_built() -> bool:
    """Whether there is a page to show."""
    return (STATIC / "index.html").is_file()


class _Files(StaticFiles):
    """The built page; files that are named after their content are kept by the browser."""

    async def get_response(self, path: str, scope: Any) -> Response:
        if path == "." and not is_built():
            return PlainTextResponse(f"{UNBUILT}\n", 503)
        answer = await super().get_response(path, scope)
        if path.startswith("assets/"):
            answer.headers["cache-control"] = "public, max-age=31536000, immutable"
        return answer


async def _openapi(request: Request) -> Response:
    return JSONResponse(document())


async def _image(request: Request) -> Response:
    told = request.query_params.get("size", "64")
    size = int(told) if told.isascii() and told.isdigit() and len(told) < 11 else told
    answer = await _answered(request, "image", {**request.path_params, "size": size})
    answer.headers["cache-control"] = "private, max-age=3600"
    return answer


async def _export(request: Request) -> Response:
    room: Room = request.app.state.room
    name, home = request.path_params["name"], room.session.folder
    path = None if home is None or name not in EXPORTS else home.project.labels / name
    if path is None or not path.is_file():
        return PlainTextResponse("there is no such export; ask for one first\n", 404)
    return FileResponse(path, media_type="application/octet-stream", filename=name)


async def _verb(request: Request) -> Response:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return _told(415, {"message": "send JSON: Content-Type: application/json"})
    try:
        body = parsed(await _body(request) or b"{}")
    except Refused as refused:
        return _told(refused.status, {"message": str(refused), "kind": "Refused"})
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception as error:  # noqa: BLE001 - told
        return _told(*failed(error))
    return await _answered(request, request.path_params["verb"], body)


async def _answered(request: Request, verb: str, body: Any) -> Response:
    try:
        answer = await asyncio.wrap_future(ask(request.app.state.room, Page(), verb, body))
    except Exception as error:  # noqa: BLE001 - told, and logged where it was not foreseen
        return _told(*failed(error))
    if not isinstance(answer, tuple):
        return Response(as_json(answer), media_type="application/json")
    head, data = answer
    if isinstance(head, replies.PNG):
        return Response(data, media_type="image/png")
    return Response(message(head, data), media_type="application/octet-stream")


async def _body(request: Request) -> bytes:
    """The body, within its limits of size and time."""
    told = request.headers.get("content-length", "0")
    parts, size = [], int(told) if told.isdigit() else BODY_LIMIT + 1
    try:
        async with asyncio.timeout(PATIENCE):
            if size <= BODY_LIMIT:
                size = 0
                async for part in request.stream():
                    size += len(part)
                    if size > BODY_LIMIT:
                        break
                    parts.append(part)
    except TimeoutError:
        raise Refused(408, f"the request took more than {PATIENCE:g} s to come") from None
    if size > BODY_LIMIT:
        raise Refused(413, f"a request has {BODY_LIMIT} bytes at most; send less")
    return b"".join(parts)


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
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the page with it
            self._loop.call_soon_threadsafe(self._add, message)

    def _add(self, message: str | bytes) -> None:
        self._bytes += len(message)
        self._queue.put_nowait(message if self._bytes <= OUTBOX else None)

    async def send(self, socket: WebSocket) -> None:
        """Send in order until the page has gone or does not keep up."""
        while (message := await self._queue.get()) is not None:
            async with asyncio.timeout(PATIENCE):
                told = {"text" if isinstance(message, str) else "bytes": message}
                await socket.send({"type": "websocket.send", **told})
            self._bytes -= len(message)


async def _live(socket: WebSocket) -> None:
    room: Room = socket.app.state.room
    await socket.accept()
    outbox = _Outbox()
    page = Page(outbox.put)
    room.pages.append(page)

    async def listen() -> None:
        while (heard := await socket.receive())["type"] != "websocket.disconnect":
            spoken(room, page, heard.get("text") or "")

    tasks = [asyncio.create_task(outbox.send(socket)), asyncio.create_task(listen())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        room.pages.remove(page)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, OSError):
            await socket.close(1008)
