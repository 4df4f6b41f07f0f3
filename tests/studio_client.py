"""A project of messages, a studio over it in a thread, and somebody who speaks to it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from pathlib import Path

import httpx
from websockets.sync.client import connect

import epoxy
from epoxy.project.create import new_project
from epoxy.studio.frames import unpacked
from epoxy.studio.serving import Studio
from test_one_room import LFS, write_messages


def messages(folder: Path, *, classes=None, **options) -> Path:
    """A project of 160 short messages and 6 functions."""
    rows = write_messages(folder / "rows.csv")
    told = {"positive": "spam", **options}
    new_project(folder / "project", rows, classes=classes, options=told, lfs=LFS)
    return folder / "project"


@contextmanager
def serving(session: epoxy.Session):
    """A studio that answers until the block ends."""
    studio, ready = Studio(session, 0, better_picture=False), threading.Event()
    thread = threading.Thread(target=studio.serve, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(30)
        yield studio
    finally:
        studio.stop()
        thread.join(30)
        assert not thread.is_alive()


class Caller:
    """A script with the token."""

    def __init__(self, port: int, token: str) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.headers = {"Authorization": f"Bearer {token}", "Origin": self.origin}
        self.http = httpx.Client(base_url=self.origin, headers=self.headers, timeout=60)

    def post(self, verb: str, body) -> httpx.Response:
        told = {"Content-Type": "application/json"}
        return self.http.post(f"/api/{verb}", content=json.dumps(body), headers=told)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_) -> None:
        self.http.close()

    def __call__(self, verb: str, **body):
        """The reply; (head, bytes) where bytes belong to it."""
        answer = self.post(verb, body)
        assert answer.status_code == 200, answer.text
        binary = answer.headers["content-type"] == "application/octet-stream"
        return unpacked(answer.content) if binary else answer.json()

    def error(self, verb: str, **body) -> dict:
        answer = self.post(verb, body)
        assert answer.status_code in (400, 409), answer.text
        return answer.json()


class Tab:
    """A page: one WebSocket, its replies, and what was pushed to it."""

    def __init__(self, caller: Caller) -> None:
        headers = {"Authorization": caller.headers["Authorization"]}
        self._opened = connect(
            caller.origin.replace("http", "ws") + "/api/live",
            origin=caller.origin,
            additional_headers=headers,
            compression=None,
            max_size=None,
        )
        self.socket = self._opened.__enter__()
        self.pushed: list[tuple[dict, bytes]] = []
        self.number = 0

    def send(self, verb: str, **body) -> int:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "verb": verb, "body": body}))
        return self.number

    def receive(self) -> tuple[dict, bytes]:
        frame = self.socket.recv(timeout=60)
        return (json.loads(frame), b"") if isinstance(frame, str) else unpacked(frame)

    def answer(self, number: int) -> tuple[dict, bytes]:
        """The answer to a message; what is pushed meanwhile is kept."""
        while True:
            head, data = self.receive()
            if head["id"] == number:
                return head, data
            self.pushed.append((head, data))

    def __call__(self, verb: str, **body):
        head, data = self.answer(self.send(verb, **body))
        assert "reply" in head, head
        return (head["reply"], data) if data else head["reply"]

    def until(self, kind: str, wanted=lambda head: True) -> tuple[dict, bytes]:
        """The next pushed message of a type, also one that came before."""
        while True:
            for at, (head, data) in enumerate(self.pushed):
                if head.get("type") == kind and wanted(head):
                    del self.pushed[: at + 1]
                    return head, data
            self.pushed.append(self.receive())

    def close(self) -> None:
        self._opened.__exit__(None, None, None)

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *_) -> None:
        self.close()
