"""Who may speak to the studio: one process on this machine, one person, one origin.

The studio runs a person's code and writes a person's files, so a page on another site must never reach
it, whatever name it makes point to this machine. Every request and every WebSocket, before it is
accepted, must

- name us as its Host (a name that was rebound to 127.0.0.1 is another name),
- not be sent by another site, unless a person followed a link to the page itself,
- come from our own Origin where it can change something (a missing Origin is refused),
- carry a secret: a token as a bearer, or the cookie that a token in the page's address was given for.

A token that opened the page is spent: whoever reads it later in a history or a list of processes has
nothing. The cookie is another secret, which no script can read. It is named after the port because
browsers share cookies between the ports of a host; the Origin is what keeps two studios apart. Answers
carry a policy under which a page loads nothing from anywhere else and runs nothing that is not our file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
BODY_LIMIT = FRAME_LIMIT = 8 << 20
"""Bytes of a request's body, and of one message on a WebSocket."""
STRANGERS, PATIENCE, LINGER = 128, 10.0, 1.0
"""Connections at a time of whom nobody knows; seconds to send a request or to take an answer; seconds
in which the rest of a refused request may still come, so that its sender reads the refusal."""
KNOWN = "epoxy.known"
"""In the scope of a request that is answered."""

Scope = dict[str, Any]


class Refused(Exception):
    """A request that is not answered: the status, and why in words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Keys:
    """The tokens that may still be used, and the secret of the cookie they are changed for."""

    def __init__(self) -> None:
        self.cookie = secrets.token_urlsafe(32)
        self._tokens: list[str] = []

    def new(self) -> str:
        """Another token: 256 bits that nobody can guess."""
        self._tokens.append(secrets.token_urlsafe(32))
        return self._tokens[-1]

    def has(self, told: str) -> bool:
        """Whether it is a token that was not spent."""
        return any(_same(told, each) for each in self._tokens)

    def spend(self, told: str) -> None:
        """Let it be good for nothing more."""
        self._tokens = [each for each in self._tokens if not _same(told, each)]


def _same(told: str, secret: str) -> bool:
    return hmac.compare_digest(told.encode("utf-8", "replace"), secret.encode())


class Guard:
    """ASGI middleware that lets through what may come in, and gives every answer its headers."""

    def __init__(
        self, app: Any, port: int, keys: Keys, opened: Callable[[], None] = lambda: None
    ) -> None:
        self.app, self.keys, self.opened = app, keys, opened
        self.cookie = f"epoxy_{port}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer, pass on or refuse."""
        if scope["type"] == "http":
            send = _safe(send)
        try:
            token = self.check(scope)
        except Refused as refused:
            await _refuse(scope, receive, send, refused)
            return
        scope[KNOWN] = True
        if token is None:
            await self.app(scope, receive, send)
            return
        self.keys.spend(token)
        self.opened()
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.cookie, self.keys.cookie, httponly=True, samesite="strict")
        await answer(scope, receive, send)

    def check(self, scope: Scope) -> str | None:
        """Raise `Refused`, or return the token that came in the address of the page."""
        headers, live = Headers(scope=scope), scope["type"] == "websocket"
        host = _one(headers, "host")
        if host not in self.hosts:
            raise Refused(403, "this name is not the studio's; open the address it printed")
        page = scope["path"] == "/" and scope.get("method") == "GET"
        followed = page and _one(headers, "sec-fetch-mode") == "navigate"
        framed = _one(headers, "sec-fetch-dest") not in (None, "document")
        if _one(headers, "sec-fetch-site") == "cross-site" and (not followed or framed):
            raise Refused(403, "another site sent this; open the studio in a tab of its own")
        reads = not live and scope["method"] in ("GET", "HEAD")
        if not reads and _one(headers, "origin") != f"http://{host}":
            raise Refused(403, "this came from another origin, or does not say from which")
        cookie = cookie_parser("; ".join(headers.getlist("cookie"))).get(self.cookie, "")
        bearer = (_one(headers, "authorization") or "").partition("Bearer ")[2]
        if _same(cookie, self.keys.cookie) or self.keys.has(bearer):
            return None
        told = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if page and len(told) == 1 and self.keys.has(told[0]):
            return str(told[0])
        raise Refused(
            401,
            "the token is missing, wrong or was used; open the address epoxy studio printed, or the "
            "file .epoxy/studio.html of the project, which always has a new one",
        )


def _one(headers: Headers, name: str) -> str | None:
    """A header; one that comes twice counts as none, because two readers might disagree."""
    found = headers.getlist(name)
    return found[0] if len(found) == 1 else ("" if found else None)


def _safe(send: Any) -> Any:
    """`send` that gives an answer our headers; one that says how long it may be kept keeps that."""

    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


async def _refuse(scope: Scope, receive: Any, send: Any, refused: Refused) -> None:
    """Say no: to a WebSocket before it is accepted; to a request before its body, which is then let come.

    A connection closed on bytes that nobody took is reset, and the one who sent them may never see why.
    """
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": str(refused)[:120]})
        return

    async def open_ended(message: Any) -> None:
        await send({**message, "more_body": True} if "body" in message else message)

    answer = PlainTextResponse(f"{refused}\n", refused.status, {"connection": "close"})
    await answer(scope, receive, open_ended)
    size, coming = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while coming and size <= BODY_LIMIT:
                message = await receive()
                size += len(message.get("body", b""))
                coming = bool(message.get("more_body"))
    await send({"type": "http.response.body", "body": b""})


class Connection(H11Protocol):
    """uvicorn's HTTP protocol; of many connections of which none was let in the first makes room.

    So whoever opens connections and sends nothing keeps nobody out, and neither do those who are
    refused. A stranger has a few seconds for a request; a WebSocket may be quiet.
    """

    deadline: asyncio.TimerHandle | None = None
    cycle: Any

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, and begin to wait."""
        others = [each for each in self.connections if isinstance(each, Connection)]
        strangers = [each for each in others if not each.is_known]
        if len(strangers) >= STRANGERS:
            first = min(strangers, key=lambda each: each.since)
            self.connections.discard(first)
            first.transport.abort()
        super().connection_made(transport)
        self.since = self.loop.time()
        self.deadline = self.loop.call_later(PATIENCE, self._give_up)

    @property
    def is_known(self) -> bool:
        """Whether its last request is one that is answered; asked before its turn has come."""
        if self.cycle is None:
            return False
        scope = self.cycle.scope
        if KNOWN not in scope:
            guard: Any = self.config.app
            try:
                guard.check(scope)
                scope[KNOWN] = True
            except Refused:
                scope[KNOWN] = False
        return bool(scope[KNOWN])

    def _give_up(self) -> None:
        if self.cycle is None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self.deadline is not None:
            self.deadline.cancel()
            super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Stop waiting."""
        if self.deadline is not None:
            self.deadline.cancel()
        super().handle_websocket_upgrade(event)
