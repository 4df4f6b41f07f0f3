"""The process that runs a project's labeling functions, one request at a time.

It reads requests from standard input and answers on what was standard output; what functions print
goes to standard error, because the output of the command that started us may be read by a program.
A thread watches the input, so that the process ends with its parent even while a function runs;
where a function also keeps that thread from running, an alarm of the system ends the process.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from ..applying import Failure, Tally, ask, blocks, check_columns, said, whole
from ..columns import as_text, check_declared, encode
from ..errors import CodeError, EpoxyError, FrameError
from ..exemplars import Like
from ..fingerprints import fingerprint
from ..lfs import LabelingFunction, RowFunction, SnorkelFunction
from ..rows import Row, Rows
from .frames import receive, send
from .loading import Loader

_STOP = (KeyboardInterrupt, MemoryError)
"""What ends a function at once: other rows would take as long to be refused memory."""


class Worker:
    """The functions and tables of one project, and what can be asked about them."""

    def __init__(self, folder: tuple[Path, Path, str], answers: BinaryIO, row: memoryview) -> None:
        self.answers, self.lock, self.at = answers, threading.Lock(), row
        self.functions: dict[str, LabelingFunction] = {}
        self.tables: dict[str, Any] = {}
        self.rows: dict[str, Iterable[Row]] = {}
        self.loader = Loader(*folder, self._saw)

    def answer(self, kind: str, payload: Any = b"", **message: Any) -> None:
        """Send one message; a thread of the user's that imports something sends too."""
        with self.lock:
            send(self.answers, {"is": kind, **message}, payload)

    def load(self) -> None:
        """Run lfs.py and say what it defines, or why it does not."""
        self.functions.clear()  # before the next ones: they may hold models
        try:
            self.functions = {as_text(lf.name): lf for lf in self.loader.load()}
        except CodeError as error:
            self.answer("unloaded", error=error.reason, place=error.place, line=error.line)
            return
        described = [_describe(name, lf) for name, lf in self.functions.items()]
        self.answer("loaded", functions=described)

    def keep(self, key: str, payload: bytes, forget: list[str]) -> None:
        """Keep a table until it is forgotten."""
        import pyarrow as pa
        import pyarrow.compute  # what patterns use, in our time instead of a function's

        for each in forget:
            self.tables.pop(each, None)
            self.rows.pop(each, None)
        self.tables[key] = pa.ipc.open_stream(payload).read_all()
        pa.allocate_buffer(1)  # Arrow reserves a gigabyte at first, which no function took
        with contextlib.suppress(FrameError):  # `vote` says it of a function
            self.tables[key] = Rows.of(self.tables[key])
        self.answer("kept")

    def vote(self, name: str, key: str, classes: list[str]) -> None:
        """Ask one function about every row of a table, and send its column or why there is none."""
        lf, column, failure = self.functions[name], None, None
        try:
            rows = self.tables[key] = Rows.of(self.tables[key])
            check_columns([lf], rows)
            check_declared([lf], classes)
            if isinstance(lf, RowFunction | SnorkelFunction):
                tally = self._ask(lf, self._rows(key, rows))
            else:
                tally = whole(lf, rows, self._report, _STOP)
            failure = tally.failure(name) if tally.rows else None
            column = encode(lf, tally.answers, classes)
        except EpoxyError as error:
            failure = Failure(name, (), str(error), kind="wrong")
        except MemoryError:
            failure = Failure(name, (), "", kind="large")
        except BaseException as error:  # noqa: BLE001 - answers are objects of the user's, too
            failure = Failure(name, (), said(error), kind="crashed")
        told = None if failure is None else vars(failure)
        if column is None:
            self.answer("voted", failure=told)
        else:
            dtype = "int8" if len(classes) <= 127 else "int16"
            self.answer("voted", column.astype(dtype).tobytes(), failure=told, dtype=dtype)

    def _rows(self, key: str, rows: Rows) -> Iterable[Row]:
        """The rows one by one; those of a table that is not large are made once."""
        if key not in self.rows:
            self.rows[key] = list(rows) if rows.n_rows <= 200_000 else rows
        return self.rows[key]

    def _ask(self, lf: RowFunction | SnorkelFunction, rows: Iterable[Row]) -> Tally:
        tally = Tally()
        for start, block in blocks(rows):
            tally.add(ask(lf, self._marked(block, start), start, _STOP))
            self._report(len(block))
        return tally

    def _marked(self, block: Iterable[Any], start: int) -> Iterator[Any]:
        """The rows, each number left where the parent finds it when we are no more."""
        place = self.at
        for place[0], row in enumerate(block, start):
            yield row
        place[0] = -1

    def _report(self, more: int) -> None:
        self.answer("asked", rows=more)

    def _saw(self, path: Path, digest: str) -> None:
        self.answer("file", path=str(path), digest=digest)


def _describe(name: str, lf: LabelingFunction) -> dict[str, Any]:
    try:
        meaning = fingerprint(lf)
    except Exception:  # noqa: BLE001 - objects of the user's decide how they are taken apart
        meaning = None
    labels = [as_text(label) for label in lf.labels]
    told = {"name": name, "kind": type(lf).__name__, "labels": labels, "fingerprint": meaning}
    return told | ({"like": asdict(lf)} if isinstance(lf, Like) else {})


def main() -> None:
    """Answer requests until the input ends."""
    folder, shown, file, shared = sys.argv[1:]
    requests, answers = _streams()
    todo: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, todo), daemon=True).start()
    sys.argv = [""]
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a parent that ignores it hands that down
    worker = Worker((Path(folder), Path(shown), file), answers, _shared_row(int(shared)))
    worker.answer("ready")
    while True:
        message, payload = todo.get()
        do = message.pop("do")
        if do == "keep":
            worker.keep(payload=payload, **message)
            continue
        _limit(message.pop("seconds"), message.pop("memory"))
        worker.at[0] = -1
        getattr(worker, do)(**message)
        _limit(0, None)


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """Streams of our own; functions get an empty input, and standard error as output."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return requests, answers


def _listen(requests: BinaryIO, todo: queue.SimpleQueue[tuple[dict[str, Any], bytes]]) -> None:
    while (request := receive(requests)) is not None:
        todo.put(request)
    if hasattr(os, "killpg"):  # we lead a group of our own: processes of the functions end too
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _shared_row(file: int) -> memoryview:
    """Eight bytes that the parent sees, if the system can share them."""
    shared = bytearray(8) if file < 0 else mmap.mmap(file, 8)
    return memoryview(shared).cast("q")


def _limit(seconds: float, memory: int | None) -> None:
    """Have the system end us after some seconds, and refuse memory beyond what we hold now."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    if sys.platform != "linux":  # macOS takes the limit and does not keep it
        return
    import resource

    # written memory counts, not address space, of which torch and CUDA reserve more than there is
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    now = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    wanted = most if memory is None else now + memory
    if most not in (resource.RLIM_INFINITY, -1):
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
