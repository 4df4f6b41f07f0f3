"""A language model that is none: a real HTTP server on this machine, which answers as it is told to."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = dict[str, Any]
"""status, headers, body (bytes), or one of close, endless, trickle."""


def row_of(body: dict[str, Any]) -> str:
    """The row a request is about: what stands between the marks of its last row."""
    users = [each["content"] for each in body["messages"] if each["role"] == "user"]
    (found,) = [
        m for each in users if (m := re.match(r"<(row-\w+)>\n(.*)\n</\1>\n", each, re.DOTALL))
    ][-1:]
    return found[2]


def by_words(text: str) -> str:
    """What a good model would say of the rows of these tests."""
    return "spam" if re.search("channel|money|free|win", text) else "ham"


def says(content: Any, tokens: tuple[int, int] | None = (50, 5), **more: Any) -> Reply:
    """A completion with this content."""
    answer: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": content}}]}
    if tokens is not None:
        answer["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return {"body": json.dumps(answer).encode(), **more}


def answers(choice: str, **more: Any) -> Reply:
    """A completion that holds an answer."""
    return says(json.dumps({"answer": choice}), **more)


class Model:
    """What the server was asked, and what it does about it."""

    def __init__(self, reply: Callable[[int, dict[str, Any]], Reply] | None = None) -> None:
        self.reply = reply or (lambda number, body: answers(by_words(row_of(body))))
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = self.most_in_flight = 0
        self.url = ""
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        return len(self.bodies)

    @property
    def rows(self) -> list[str]:
        return [row_of(each) for each in self.bodies]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            self.bodies.append(body)
            self.headers.append(dict(handler.headers))
            number = len(self.bodies)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            self._send(handler, self.reply(number, body))
        finally:
            with self._lock:
                self.in_flight -= 1

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if "delay" in reply:
            time.sleep(reply["delay"])
        if reply.get("close"):
            handler.close_connection = True
            return
        handler.send_response(reply.get("status", 200))
        for name, value in reply.get("headers", {}).items():
            handler.send_header(name, value)
        endless = reply.get("endless") or reply.get("trickle")
        body = reply.get("body", b"{}")
        if not endless:
            handler.send_header("Content-Length", str(reply.get("length", len(body))))
        handler.end_headers()
        handler.wfile.write(body if not endless else b"{")
        while endless:
            handler.wfile.write(b" " * (65536 if reply.get("endless") else 1))
            handler.wfile.flush()
            if reply.get("trickle"):
                time.sleep(0.02)
        if "length" in reply:  # of which it says more than it sends
            handler.close_connection = True


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    """Run the server as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                model.serve(self)
            except OSError:  # the client has gone
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
