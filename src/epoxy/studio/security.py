"""Who may speak to the studio: one process on this machine, one token, one origin.

The studio runs a person's code and writes a person's files, so a page on another site must never reach
it, whatever name it makes point to this machine. Every request and every WebSocket, before it is
accepted, must

- name us as its Host (a name that was rebound to 127.0.0.1 is another name),
- not be sent by another site, unless a person followed a link to the page itself,
- come from our own Origin where it can change something (a missing Origin is refused),
- carry the token: in the address once, which turns it into a cookie no script can read, or as a bearer.

The cookie is named after the port because browsers share cookies between the ports of a host; the
Origin is what keeps two studios apart. Answers carry a policy under which a page loads nothing from
anywhere else and runs nothing that is not a file of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
BODY_LIMIT = FRAME_LIMIT = 8 << 20
"""Bytes of a request's body, and of one message on a WebSocket."""
CONNECTIONS, PATIENCE = 128, 10.0
"""Connections at a time, and seconds to send a whole request or to take an answer."""
LINGER = 1.0
"""Seconds in which the rest of a refused request may still come, so that its sender reads the refusal."""
REFUSED = "epoxy.refused"
"""In the scope of a request, once that is known: whether its connection may be ended at any time."""

Scope = dict[str, Any]


class Refused(Exception):
    """A request that is not answered: the status, and why in words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def new_token() -> str:
    """256 bits that nobody can guess."""
    return secrets.token_urlsafe(32)


class Guard:
    """ASGI middleware that lets through what may come in, and gives every answer its headers."""

    def __init__(self, app: Any, port: int, token: str) -> None:
        self.app, self.cookie, self._token = app, f"epoxy_{port}", token
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer, pass on or refuse."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            bringing = self.check(scope)
        except Refused as refused:
            await refuse(scope, receive, send, refused)
            return
        if bringing:
            await self._welcome(send)
            return
        await self.app(scope, receive, send if scope["type"] == "websocket" else safe(send))

    def check(self, scope: Scope) -> bool:
        """Raise `Refused`, or say whether the token came in the address of the page."""
        headers = _Headers(scope["headers"])
        host, live = headers.one("host"), scope["type"] == "websocket"
        if host not in self.hosts:
            raise Refused(403, "this name is not the studio's; open the address it printed")
        page = scope["path"] == "/" and scope.get("method") == "GET"
        followed = page and headers.one("sec-fetch-mode") == "navigate"
        framed = headers.one("sec-fetch-dest") not in (None, "document")
        if headers.one("sec-fetch-site") == "cross-site" and (live or not followed or framed):
            raise Refused(403, "another site sent this; open the studio in a tab of its own")
        reads = not live and scope["method"] in ("GET", "HEAD")
        if not reads and headers.one("origin") != f"http://{host}":
            raise Refused(403, "this came from another origin, or does not say from which")
        if self._knows(headers):
            return False
        told = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if page and len(told) == 1 and self._is_token(told[0]):
            return True
        raise Refused(401, "the token is missing or wrong; open the address epoxy studio printed")

    def refuses(self, scope: Scope) -> bool:
        """Whether a request is refused, also one whose turn to be told so has not come."""
        if REFUSED not in scope:
            try:
                self.check(scope)
                scope[REFUSED] = False
            except Refused:
                scope[REFUSED] = True
        return bool(scope[REFUSED])

    def _knows(self, headers: _Headers) -> bool:
        bearer = (headers.one("authorization") or "").partition("Bearer ")[2]
        return any(map(self._is_token, (*headers.cookies(self.cookie), bearer)))

    def _is_token(self, told: str) -> bool:
        return hmac.compare_digest(told.encode("utf-8", "replace"), self._token.encode())

    async def _welcome(self, send: Any) -> None:
        """Put the token in a cookie, and send the browser to the page without it."""
        cookie = f"{self.cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
        await answer(safe(send), 303, b"", {"location": "/", "set-cookie": cookie})


class _Headers:
    """Headers by name; one that comes twice counts as none, because two readers might disagree."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._all: dict[str, list[str]] = {}
        for name, value in raw:
            self._all.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def one(self, name: str) -> str | None:
        found = self._all.get(name, [])
        return found[0] if len(found) == 1 else ("" if found else None)

    def cookies(self, name: str) -> list[str]:
        pairs = (
            part.strip().partition("=")
            for part in "; ".join(self._all.get("cookie", [])).split(";")
        )
        return [value for key, _, value in pairs if key == name]


def safe(send: Any) -> Any:
    """`send` that gives an answer our headers; one that says how long it may be kept keeps that."""

    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", [])}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sending


async def refuse(scope: Scope, receive: Any, send: Any, refused: Refused) -> None:
    """Say no: to a WebSocket before it is accepted; to a request before its body, which is then let come.

    A connection closed on bytes that nobody took is reset, and the one who sent them may never see why.
    """
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": str(refused)[:120]})
        return
    said = f"{refused}\n".encode()
    sending = safe(send)
    scope[REFUSED] = True
    await answer(sending, refused.status, said, {"connection": "close"}, more=True)
    await _let_come(receive)
    await sending({"type": "http.response.body", "body": b""})


async def _let_come(receive: Any) -> None:
    """Take what is left of a request and forget it, within its limits of size and time."""
    size, coming = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while coming and size <= BODY_LIMIT:
                message = await receive()
                size += len(message.get("body", b""))
                coming = bool(message.get("more_body"))


async def answer(
    send: Any, status: int, body: bytes, headers: dict[str, str], *, more: bool = False
) -> None:
    """A whole answer; `more`: its end is sent by whoever asked for it."""
    told = {
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        **headers,
    }
    lines = [(name.encode(), value.encode("latin-1")) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body, "more_body": more})
