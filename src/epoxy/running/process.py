"""Ask the labeling functions of a project, whatever they do.

A project's functions run in one worker process, started when first needed and kept, so that a reload
costs no start and a model stays loaded. Code that exits, crashes, runs for ever or eats memory ends
that process at most: it costs the function its column, and the next function is asked in a new process.
The process is loky's: it starts without a fork, and without running the program's own file again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import CodeError, ParameterError, StoreError, UnknownName
from ..functions.apply import Failure, FailureKind
from ..functions.kinds import Declared
from ..progress import Progress, silent
from ..storage import open_regular
from .loader import digest_of
from .worker import LoadedFunction, main, put, row_in

_PATIENCE = 120.0
"""Seconds for what is no code of the user's: to start, and to take up a table."""

_GRACE = 2.0
"""Seconds by which the system's own alarm comes after us, who can say what happened."""


class _TooSlow(Exception):
    """No answer came in time."""


class _Ended(Exception):
    """The process ended instead of answering; the message says how."""


@dataclass(frozen=True)
class Limits:
    """How long code of the user's may run, and how much memory it may take.

    Parameters
    ----------
    seconds
        For running lfs.py, and for each function on each 10,000 rows of a table or fewer; a table
        of 25,000 rows has 2.5 times as long.
    memory
        Bytes lfs.py or a function may take beyond what the process held when it began. Linux
        alone keeps this limit.
    """

    seconds: float = 60.0
    memory: int = 4 * 2**30

    def __post_init__(self) -> None:
        if not self.seconds > 0 or not self.memory > 0:
            raise ParameterError(
                f"limits are more than nothing, got seconds={self.seconds!r} and "
                f"memory={self.memory!r}; give both a positive number"
            )

    def seconds_for(self, n_rows: int) -> float:
        """The seconds one function has for a table."""
        return self.seconds * max(1.0, n_rows / 10_000)


@dataclass(frozen=True)
class Loaded:
    """What lfs.py defined when it was run, in the order it is written."""

    functions: tuple[LoadedFunction, ...]
    files: Mapping[Path, str]  # lfs.py and what it imports of its folder, with digests
    undecorated: tuple[str, ...] = ()  # functions of a row that do not vote

    @property
    def names(self) -> tuple[str, ...]:
        """The functions' names."""
        return tuple(each.name for each in self.functions)

    @property
    def likes(self) -> dict[str, Declared]:
        """The functions of example rows, which this process must ask itself."""
        return {each.name: each.like for each in self.functions if each.like is not None}

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """Each function's fingerprint by its name."""
        return {each.name: each.fingerprint for each in self.functions}


@dataclass(frozen=True, eq=False)
class Voted:
    """Columns of class indices by function, −1 where it abstains; none for one that failed whole."""

    columns: Mapping[str, np.ndarray]  # (n_rows,) int8 or int16 each
    failures: tuple[Failure, ...]


class Runner:
    """The labeling functions of one project folder, in a process of their own.

    Limits of memory need Linux; all else is the same everywhere. May be used from several threads, one
    at a time.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "lfs.py").write_text("import epoxy; a = epoxy.keywords('spam', 'money')")
    >>> with Runner(folder) as runner:
    ...     names = runner.load().names
    ...     table = pyarrow.table({"text": ["free money", "hello"]})
    ...     runner.vote(names, table, ["ham", "spam"]).columns["keywords_money"]
    array([ 1, -1], dtype=int8)
    """

    def __init__(
        self, folder: str | Path, limits: Limits | None = None, file: str = "lfs.py"
    ) -> None:
        self.folder, self._home = Path(folder), Path(folder).resolve()
        self.file = file  # the one that is run, within the folder
        self.limits = Limits() if limits is None else limits
        self.files: dict[Path, str] = {}
        """Files of the folder that the last load read or looked for, also one that failed."""
        self._loaded: Loaded | None = None
        self._process: _Process | None = None
        self._tables: dict[int, Any] = {}  # those the process has
        self._numbers = itertools.count()
        self._lock = threading.RLock()

    def load(self, *, empty: bool = False) -> Loaded:
        """Run lfs.py afresh, and what it imports of its folder; only if `empty` it may define nothing."""
        with self._lock:
            loaded = self._load()
            if not loaded.functions and not empty:
                names = ", ".join(loaded.undecorated) or "one"
                raise CodeError(
                    f"{self.folder / self.file} defines no labeling functions; "
                    f"decorate {names} with @epoxy.labeling_function"
                )
            self._loaded = loaded
            return loaded

    def changed(self) -> bool:
        """Whether a file the last load read, or missed, is another now; never runs anything."""
        return any(digest_of(path) != digest for path, digest in self.files.items())

    def vote(
        self,
        names: Sequence[str],
        table: Any,
        classes: Sequence[str],
        progress: Progress = silent,
        keep: Callable[[str, np.ndarray], None] = lambda name, column: None,
    ) -> Voted:
        """Ask functions of the last `load` about every row of a pyarrow table.

        `keep` is given each column that came without a failure, before the next function is asked.
        A function that raises abstains on these rows, as with `apply`; one that answers wrongly,
        takes too long or too much, or ends its process, has no column. Each leaves a `Failure`.
        A table travels to the worker once, as long as it is the same object.
        """
        with self._lock:
            known = (self._loaded or self.load()).names
            for name in names:
                if name not in known:
                    raise UnknownName.of("labeling function", name, known)
            columns: dict[str, np.ndarray] = {}
            failures, n_rows = [], table.num_rows
            for at, name in enumerate(names):

                def report(done: int, before: int = at * n_rows) -> None:
                    progress(before + done, max(1, len(names) * n_rows))

                column, failure = self._vote(name, table, list(classes), report)
                if column is not None:
                    columns[name] = column
                if failure is not None:
                    failures.append(failure)
                elif column is not None:
                    keep(name, column)
                report(n_rows)
            return Voted(columns, tuple(failures))

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._tables.clear()
            if self._process is not None:
                self._process.end()
                self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _load(self) -> Loaded:
        path, seconds = self.folder / self.file, self.limits.seconds
        with contextlib.suppress(OSError):  # one that is not there is the process's to tell
            open_regular(path).close()
        self._loaded = None
        self._start()
        # which it reads is not known where it never ends
        self.files = {
            each: digest_of(each) for each in [self._home / self.file, *self._home.glob("*.py")]
        }
        try:
            found = self._ask("load", seconds=seconds)
        except _TooSlow:
            raise StoreError(
                f"{path} was still running after {seconds:g} s and was ended; "
                "move slow work into a function, or allow more seconds"
            ) from None
        except _Ended as how:
            raise StoreError(
                f"{path} {how} while it was run; take out what it runs outside of functions"
            ) from None
        if isinstance(found, CodeError):
            raise found
        functions, undecorated = found
        read = {path: digest for path, digest in self.files.items() if digest}
        return Loaded(functions, read, undecorated)

    def _vote(
        self, name: str, table: Any, classes: list[str], report: Callable[[int], None]
    ) -> tuple[np.ndarray | None, Failure | None]:
        seconds, process = self.limits.seconds_for(table.num_rows), self._ready()

        def failed(kind: FailureKind, error: str) -> tuple[None, Failure]:
            row = process.at[0]
            return None, Failure(name, () if row < 0 else (row,), error, kind=kind)

        try:
            key = self._key_of(table)
            column, failure = self._ask("vote", name, key, classes, seconds=seconds, report=report)
        except _TooSlow:
            return failed(
                "slow",
                f"it was still running after {seconds:g} s and was ended; "
                "make it faster or allow more seconds",
            )
        except _Ended as how:
            return failed("crashed", f"it {how}; correct it and load it again")
        if failure is not None and failure.kind == "large":
            self.close()  # what it holds on to goes with the process
            size = f"{self.limits.memory / 2**30:.3g} GiB"
            return failed(
                "large", f"it took more than {size} of memory; keep less or allow more memory"
            )
        return column, failure

    def _start(self) -> None:
        """Have a process, which may not have run lfs.py."""
        if self._process is not None and not self._process.running:
            self.close()
        if self._process is None:
            what = f"the process that runs {self.folder / self.file} did not start"
            try:
                self._process = _Process((self._home, self.folder, self.file))
                self._ask(None)  # it says when it has started
            except (_TooSlow, _Ended):
                raise StoreError(f"{what}; see what {sys.executable} says above") from None
            except OSError as error:
                raise StoreError(
                    f"{what} ({error}); make room on the disk, or name another folder in TMPDIR"
                ) from error

    def _ready(self) -> _Process:
        """A process that has run lfs.py as it was at the last `load`."""
        if self._process is None or not self._process.running:
            before, files = self._loaded, self.files
            again = self._load()
            if before is not None and again.files != before.files:
                self.files = files  # to `changed`, the new text is still to be loaded
                raise StoreError(
                    f"{self.folder / self.file} was changed while its functions voted; load it again"
                )
            self._loaded = before
        assert self._process is not None
        return self._process

    def _key_of(self, table: Any) -> int:
        """The number under which the process has a table; tables never change, so it goes once."""
        key = next((key for key, each in self._tables.items() if each is table), None)
        if key is None:
            import pyarrow as pa

            key, sink = next(self._numbers), pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            self._ask("keep", key, sink.getvalue())
            put(self._tables, key, table)
        return key

    def _ask(
        self,
        do: str | None,
        *given: Any,
        seconds: float | None = None,
        report: Callable[[int], None] = lambda rows: None,
    ) -> Any:
        """Ask the process something and wait for the answer; with seconds, within the limits."""
        process, done = self._process, 0
        assert process is not None
        until = time.monotonic() + (_PATIENCE if seconds is None else seconds)
        try:
            if do is not None:
                alarm = 0 if seconds is None else seconds + _GRACE
                memory = None if seconds is None else self.limits.memory
                process.send((do, given, alarm, memory))
            while (answer := process.receive(until)) is None:
                done = max(done, process.at[0])  # a function that is slow on one row goes on too
                report(done)
            value, self.files = answer
            return value
        except BaseException:  # an interrupt too: it is in the middle of something
            self.close()
            raise


class _Process:
    """One worker as its parent sees it; a new object for every start."""

    def __init__(self, folder: tuple[Path, Path, str]) -> None:
        from multiprocessing.util import Finalize

        from joblib.externals.loky.backend import (  # type: ignore[import-untyped]
            get_context,
            process,
        )

        file, shared = tempfile.mkstemp()
        os.write(file, bytes(8))  # whole before anybody maps it
        os.close(file)
        self.at = row_in(shared)  # that a function is being asked about
        self.at[0] = -1
        self._connection, theirs = get_context("loky").Pipe()
        given = (theirs, shared, folder, os.getcwd(), os.getpid())
        made = process.LokyProcess(target=main, args=given, daemon=False)
        # not by `start`: a program's end would wait for it, and a daemon (Dask's workers) may not
        self._process = made._Popen(made)
        theirs.close()
        self.end = Finalize(self, _kill, (self._process, self._connection), exitpriority=100)

    @property
    def running(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def send(self, request: Any) -> None:
        """Send a request."""
        try:
            self._connection.send(request)
        except OSError:
            raise _Ended(self._how()) from None

    def receive(self, until: float) -> tuple[Any, dict[Path, str]] | None:
        """The answer, and the files it rests on; None where none comes within half a second."""
        left = until - time.monotonic()
        running = self.running  # before the look: what it said last is in the pipe
        try:
            if self._connection.poll(max(0.0, min(left, 0.5))):
                # what a function wrote there may announce more than ever comes
                over = threading.Timer(max(0.0, left) + _GRACE, self.end)
                over.start()
                try:
                    value, files = self._connection.recv()
                finally:
                    over.cancel()
                return value, files
        except (EOFError, OSError):
            raise _Ended(self._how()) from None
        except Exception:  # noqa: BLE001 - what is no answer may unpickle as anything
            raise _Ended("wrote into the pipe by which its process answers") from None
        if not running:  # a process it forked holds the pipe open
            raise _Ended(self._how())
        if left <= 0:
            raise _TooSlow
        return None

    def _how(self) -> str:
        """How it ended, in words."""
        until = time.monotonic() + 1.0
        while (code := self._process.poll()) is None and time.monotonic() < until:
            time.sleep(0.01)
        if code is None:
            return "closed its output"
        if code >= 0:
            return f"ended its process with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"ended its process by {signal.Signals(-code).name}"
        return f"ended its process by signal {-code}"


def _kill(process: Any, connection: Any) -> None:
    """End a worker, and what it started, also where it ended before."""
    connection.close()
    for kill in (getattr(os, "killpg", None), os.kill):  # it may not have a group of its own yet
        if kill is not None:
            with contextlib.suppress(OSError):
                kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    process.wait()
