"""A studio that is killed in the middle of writes has lost nothing that it answered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")
pytest.importorskip("watchfiles")
pytest.importorskip("httpx")

import httpx
import numpy as np

import epoxy
from studio_client import Caller, messages

WORDS = ("meeting", "class", "lunch", "offer", "tomorrow")


class Book:
    """What was decided and answered, and the one write that was asked for and not answered."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.known: dict[tuple[str, str], object] = {}
        self.asked: tuple[tuple[str, str], object] | None = None
        self.last: tuple[tuple[str, str], object] | None = None
        self.answered = 0

    def write(self, call: Caller) -> None:
        """Ask for one edit of some kind, and note it down once it is answered."""
        if self.last is not None and self.rng.random() < 0.15:
            key, value = self.last  # what undo brings back
            verb, body = "undo", {}
            self.last = None
        else:
            verb, body, key, value = self._edit()
            self.last = (key, self.known.get(key))
        self.asked = (key, value)
        call(verb, **body)
        self.known[key], self.asked = value, None
        self.answered += 1

    def _edit(self) -> tuple[str, dict, tuple[str, str], object]:
        kind, rng = self.rng.random(), self.rng
        source = str(rng.choice(["prize", "cash", "home"]))
        if kind < 0.6:
            row, label = int(rng.integers(128)), str(rng.choice(["ham", "spam"]))
            body = {"row": row, "label": label, "chosen": "random"}
            return "label", body, ("label", str(row)), label
        if kind < 0.75:
            radius = round(float(rng.random()), 3)
            return "radius", {"source": source, "radius": radius}, ("radius", source), radius
        if kind < 0.9:
            on = bool(rng.random() < 0.5)
            return "switch", {"source": source, "on": on}, ("on", source), on
        words = [str(word) for word in rng.choice(WORDS, 2, replace=False)]
        definition = {"kind": "keywords", "label": "ham", "words": words, "column": "text"}
        body = {"definition": definition, "name": "work"}
        if self.known.get(("words", "work")) is not None:
            body["replaces"] = "work"
        return "save_function", body, ("words", "work"), words

    def check(self, call: Caller) -> None:
        """Compare with what a studio says that was started after the kill."""
        now = told(call)
        for key in self.known:
            allowed = [self.known[key]]
            if self.asked is not None and self.asked[0] == key:
                allowed.append(self.asked[1])  # written, and killed before it was answered
            assert now.get(key) in allowed, (key, now.get(key), allowed)
        self.known, self.asked, self.last = now, None, None


def told(call: Caller) -> dict[tuple[str, str], object]:
    """Every label, radius, switch and word that a studio holds."""
    rows = call("rows", filter="hand", limit=500)["rows"]
    found: dict[tuple[str, str], object] = {
        ("label", str(row["row"])): row["hand"] for row in rows if row["split"] == "train"
    }
    for source in call("sources")["sources"]:
        found["radius", source["name"]] = source["radius"]
        found["on", source["name"]] = source["on"]
        if source["name"] == "work":
            found["words", "work"] = call("source", name="work")["definition"]["words"]
    return found


def killed_while_writing(lives: subprocess.Popen, book: Book) -> None:
    """One life: compare, write one after the other, and be killed within the fourth write or soon after."""
    lives.stdin.write("begin\n")
    lives.stdin.flush()
    process, port, token = lives.stdout.readline().split()
    with Caller(int(port), token) as call:
        book.check(call)
        try:
            for _ in range(3):
                begun = time.perf_counter()
                book.write(call)
            late = 1.5 * (time.perf_counter() - begun) * book.rng.random()
            threading.Timer(late, os.kill, [int(process), signal.SIGKILL]).start()
            while True:
                book.write(call)
        except httpx.TransportError:
            pass


@pytest.mark.parametrize(
    "times", [2, pytest.param(100, marks=pytest.mark.slow)], ids=["twice", "a hundred times"]
)
def test_nothing_is_lost_that_was_answered(tmp_path, times):
    folder, book = messages(tmp_path), Book(times)
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("studio_lives.py")), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as lives:
        for _ in range(times):
            killed_while_writing(lives, book)
        lives.stdin.close()

    session = epoxy.Session.open(folder)  # and so says whoever opens it without a server
    y = session.state.workspace.labels.y[0]
    for (kind, row), label in book.known.items():
        if kind == "label" and (book.asked is None or book.asked[0] != (kind, row)):
            assert session.classes[y[int(row)]] == label
    assert book.answered >= 3 * times
