"""The worker process as its parent sees it: ask, wait at most so long, and end it."""

from __future__ import annotations

import contextlib
import mmap
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..errors import StoreError
from .frames import receive, send

_START = (
    "import sys; sys.path[:] = sys.argv[5:]; del sys.argv[5:]; "
    "from epoxy.running.worker import main; main()"
)
"""The parent's own search path, so that lfs.py imports there what it would import here."""

Message = tuple[dict[str, Any], bytes]


class TooSlow(Exception):
    """No answer came in time."""


class Ended(Exception):
    """The process ended instead of answering; the message says how."""


class Process:
    """One running worker; a new object for every start.

    It leads a session of its own: Ctrl-C reaches the parent only, which then ends it, and what
    functions start is ended with it. It ends by itself when the parent closes its input or dies.
    """

    def __init__(self, folder: Path, shown: Path, file: str = "lfs.py") -> None:
        self._owner = os.getpid()
        self._shared, extra = _share()
        named = [str(folder), str(shown), file, str(extra.pop("shared"))]
        command = [sys.executable, "-c", _START, *named]
        self._process = subprocess.Popen(
            [*command, *map(str, sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **extra
        )
        if extra.get("pass_fds"):
            os.close(extra["pass_fds"][0])
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_read, args=(self._process.stdout, self._inbox), daemon=True
        )
        self._reader.start()

    @property
    def running(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    @property
    def row(self) -> int | None:
        """The row a function was being asked about when we last heard of it."""
        at = int.from_bytes(self._shared[:8], sys.byteorder, signed=True)
        return None if at < 0 else at

    def ask(self, request: dict[str, Any], payload: Any = b"") -> None:
        """Send a request."""
        try:
            send(cast(BinaryIO, self._process.stdin), request, payload)
        except (BrokenPipeError, OSError):
            raise Ended(self._how()) from None

    def wait(self, until: float) -> Message:
        """The next answer, at the latest when the clock (`time.monotonic`) says `until`."""
        found = None
        while (left := until - time.monotonic()) > 0:
            running = self.running  # before the look: what it said last is in the inbox
            with contextlib.suppress(queue.Empty):
                found = self._inbox.get(timeout=min(left, 0.5))
                break
            if not running:  # a process it forked holds the pipe open
                break
        else:
            raise TooSlow
        if found is None:
            raise Ended(self._how())
        return found

    def end(self) -> None:
        """End the process, and what it started, also where it ended before; call it once."""
        if os.getpid() != self._owner:
            return  # a fork of the parent is at its end, and the process is not its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._reader.join(timeout=1.0)  # a process that left the group may hold the pipe open

    def _how(self) -> str:
        """How it ended, in words."""
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "closed its output"
        if code >= 0:
            return f"ended its process with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"ended its process by {signal.Signals(-code).name}"
        return f"ended its process by signal {-code}"


def _share() -> tuple[Any, dict[str, Any]]:
    """Eight bytes for the number of a row, and the options that give them to a process."""
    if os.name != "posix":
        return b"\xff" * 8, {"shared": -1}
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"\xff" * 8)
            file.flush()
            number = os.dup(file.fileno())
    except OSError as error:
        raise StoreError(
            f"labeling functions cannot be run: no temporary file can be written ({error}); "
            "make room on the disk, or name another folder in TMPDIR"
        ) from error
    options = {"shared": number, "pass_fds": (number,), "start_new_session": True}
    return mmap.mmap(number, 8), options


def _read(stream: BinaryIO, inbox: queue.SimpleQueue[Message | None]) -> None:
    with stream:
        while (message := receive(stream)) is not None:
            inbox.put(message)
    inbox.put(None)
