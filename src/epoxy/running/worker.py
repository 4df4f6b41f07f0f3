"""The process that runs a project's labeling functions, one request at a time.

It leads a session of its own: Ctrl-C reaches the parent only, and what functions start is ended with it.
What functions print goes to standard error, because the output of the command that started us may be
read by a program. A thread looks whether the parent lives; where a function keeps that thread from
running, an alarm of the system ends the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CodeError, EpoxyError, FrameError
from ..functions.apply import (
    Failure,
    as_text,
    ask,
    check_columns,
    check_declared,
    encode,
    said,
    whole,
)
from ..functions.define import LabelingFunction, RowFunction, SnorkelFunction
from ..functions.fingerprint import fingerprint
from ..functions.kinds import Declared, Like
from ..rows import Row, Rows
from .loader import Loader

TABLES = 4
"""Tables that are kept."""
_STOP = (KeyboardInterrupt, MemoryError)
"""What ends a function at once: other rows would take as long to be refused memory."""


@dataclass(frozen=True)
class LoadedFunction:
    """A labeling function as its file declares it."""

    name: str
    labels: tuple[str, ...]  # empty when only its code knows
    fingerprint: str | None  # None where no fingerprint covers all it depends on
    like: Declared | None = None  # a function of example rows, which votes where vectors are

    @classmethod
    def of(cls, name: str, lf: LabelingFunction) -> LoadedFunction:
        """Describe a function."""
        try:
            meaning = fingerprint(lf)
        except Exception:  # noqa: BLE001 - objects of the user's decide how they are taken apart
            meaning = None
        made = lf if isinstance(lf, Declared) and isinstance(lf.form, Like) else None
        return cls(name, tuple(map(as_text, lf.labels)), meaning, made)


class Worker:
    """The functions and tables of one project, and what can be asked about them."""

    def __init__(self, at: Any, folder: tuple[Path, Path, str]) -> None:
        self.at = at
        self.functions: dict[str, LabelingFunction] = {}
        self.tables: dict[int, Any] = {}
        self.rows: dict[int, Iterable[Row]] = {}
        self.loader = Loader(*folder)

    def load(self) -> tuple[tuple[LoadedFunction, ...], tuple[str, ...]] | CodeError:
        """Run lfs.py and say what it defines and what looks as if it should, or why it does not."""
        self.functions.clear()  # before the next ones: they may hold models
        try:
            found, undecorated = self.loader.load()
        except CodeError as error:
            return error
        self.functions = {as_text(lf.name): lf for lf in found}
        described = (LoadedFunction.of(name, lf) for name, lf in self.functions.items())
        return tuple(described), tuple(undecorated)

    def keep(self, key: int, payload: Any) -> None:
        """Keep a table until it is forgotten."""
        import pyarrow as pa
        import pyarrow.compute  # what patterns use, in our time instead of a function's

        put(self.tables, key, pa.ipc.open_stream(payload).read_all())
        pa.allocate_buffer(1)  # Arrow reserves a gigabyte at first, which no function took
        with contextlib.suppress(FrameError):  # `vote` says it of a function
            self.tables[key] = Rows.of(self.tables[key])

    def vote(
        self, name: str, key: int, classes: list[str]
    ) -> tuple[np.ndarray | None, Failure | None]:
        """One function's column on a table, or why there is none."""
        lf, column, failure = self.functions[name], None, None
        try:
            rows = self.tables[key] = Rows.of(self.tables[key])
            check_columns([lf], rows)
            check_declared([lf], classes)
            if isinstance(lf, RowFunction | SnorkelFunction):
                tally = ask(lf, self._marked(self._rows(key, rows)), 0, _STOP)
            else:
                tally = whole(lf, rows, lambda rows: None, _STOP)
            failure = tally.failure(name) if tally.rows else None
            column = encode(lf, tally.answers, classes)
        except EpoxyError as error:
            failure = Failure(name, (), str(error), kind="wrong")
        except MemoryError:
            failure = Failure(name, (), "", kind="large")
        except BaseException as error:  # noqa: BLE001 - answers are objects of the user's, too
            failure = Failure(name, (), said(error), kind="crashed")
        dtype = np.int8 if len(classes) <= 127 else np.int16
        return None if column is None else column.astype(dtype), failure

    def _rows(self, key: int, rows: Rows) -> Iterable[Row]:
        """The rows one by one; those of a table that is not large are made once."""
        if key not in self.rows:
            put(self.rows, key, list(rows) if rows.n_rows <= 200_000 else rows)
        return self.rows[key]

    def _marked(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, each number left where the parent finds it also when we are no more."""
        place = self.at
        for place[0], row in enumerate(rows):
            yield row
        place[0] = -1


def put(tables: dict[int, Any], key: int, table: Any) -> None:
    """Keep one more table: of many, the first is forgotten on both sides."""
    tables[key] = table
    while len(tables) > TABLES:
        del tables[next(iter(tables))]


def row_in(file: str) -> Any:
    """Eight bytes of a file that two processes see."""
    return memoryview(np.memmap(file, np.int64, "r+", shape=1).data)


def main(
    connection: Any, shared: str, folder: tuple[Path, Path, str], cwd: str, parent: int
) -> None:
    """Answer requests until the parent hangs up or dies."""
    _part_from(parent)
    at = row_in(shared)
    with contextlib.suppress(OSError):  # Windows keeps it as long as it is open
        os.unlink(shared)
    os.chdir(cwd)
    worker = Worker(at, folder)
    connection.send((None, {}))
    while True:
        try:
            do, given, seconds, memory = connection.recv()
        except EOFError:
            _end()
        at[0] = -1
        _limit(seconds, memory)
        answer = getattr(worker, do)(*given)
        _limit(0, None)
        connection.send((answer, dict(worker.loader.files)))


def _part_from(parent: int) -> None:
    """A session, an empty input and an output of our own, and an end soon after the parent's."""
    if hasattr(os, "setsid"):
        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a parent that ignores it hands that down
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = [""]

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        _end()

    threading.Thread(target=watch, daemon=True).start()


def _end() -> None:
    if hasattr(os, "killpg"):  # we lead a group of our own: processes of the functions end too
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


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
