"""Ask the labeling functions of a project, whatever they do.

A project's functions run in one worker process, started when first needed and kept, so that a
reload costs no start and a model stays loaded. Code that exits, crashes, runs for ever or eats
memory ends that process at most: it costs the function its column, and the next function is asked
in a new process. A thread could not be ended, and a process per function would load its model for
every vote; forking one is no way out, because torch and Arrow do not survive a fork with threads.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..applying import Failure, FailureKind
from ..errors import CodeError, ParameterError, StoreError, UnknownName
from ..exemplars import Like, like
from ..progress import Progress, silent
from .loading import digest_of
from .process import Ended, Process, TooSlow

_TABLES = 4
"""Tables a worker keeps; the one asked about longest ago is forgotten first."""

_PATIENCE = 120.0
"""Seconds for what is no code of the user's: to start, and to take up a table."""

_GRACE = 2.0
"""Seconds by which the system's own alarm comes after us, who can say what happened."""


def _quiet(rows: int) -> None:
    """Report nothing."""


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
class LoadedFunction:
    """A labeling function as its file declares it."""

    name: str
    kind: str  # the class: RowFunction, BatchFunction, TextPattern, ModelVotes, …
    labels: tuple[str, ...]  # empty when only its code knows
    fingerprint: str | None  # None where no fingerprint covers all it depends on
    like: Like | None = None  # a function of example rows, which votes where vectors are

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> LoadedFunction:
        """As the process describes it."""
        examples = told.get("like")
        made = None if examples is None else like(examples.pop("label"), **examples)
        return cls(**{**told, "labels": tuple(told["labels"]), "like": made})


@dataclass(frozen=True)
class Loaded:
    """What lfs.py defined when it was run, in the order it is written."""

    functions: tuple[LoadedFunction, ...]
    files: Mapping[Path, str]  # lfs.py and what it imports of its folder, with digests

    @property
    def names(self) -> tuple[str, ...]:
        """The functions' names."""
        return tuple(each.name for each in self.functions)

    @property
    def likes(self) -> dict[str, Like]:
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
    seconds: Mapping[str, float]


class Runner:
    """The labeling functions of one project folder, in a process of their own.

    Limits of memory need Linux, and on Windows it is also not known on which row a function was
    ended; all else is the same everywhere. May be used from several threads, one at a time.

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
        self._process: Process | None = None
        self._tables: dict[str, Any] = {}  # by key, oldest first; those the process has
        self._made = 0
        self._lock = threading.RLock()

    def load(self, *, empty: bool = False) -> Loaded:
        """Run lfs.py afresh, and what it imports of its folder; only if `empty` it may define nothing."""
        with self._lock:
            loaded = self._load()
            if not loaded.functions and not empty:
                raise CodeError(
                    f"{self.folder / self.file} defines no labeling functions; "
                    "decorate one with @epoxy.labeling_function"
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
            failures, seconds = [], {}
            for at, name in enumerate(names):
                start = time.perf_counter()
                report = _portion(progress, at, len(names), table.num_rows)
                column, failure = self._vote(name, table, list(classes), report)
                seconds[name] = time.perf_counter() - start
                if column is not None:
                    columns[name] = column
                if failure is not None:
                    failures.append(failure)
                elif column is not None:
                    keep(name, column)
                report(table.num_rows)
            return Voted(columns, tuple(failures), seconds)

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _load(self) -> Loaded:
        path, seconds = self.folder / self.file, self.limits.seconds
        self.files = {self._home / self.file: digest_of(self._home / self.file)}
        self._loaded = None
        try:
            self._start()
            answer, _ = self._ask("load", seconds)
        except TooSlow:
            raise StoreError(
                f"{path} was still running after {seconds:g} s and was ended; "
                "move slow work into a function, or allow more seconds"
            ) from None
        except Ended as how:
            raise StoreError(
                f"{path} {how} while it was run; take out what it runs outside of functions"
            ) from None
        if "error" in answer:
            raise CodeError(answer["error"], answer["place"], answer["line"])
        functions = map(LoadedFunction.of_json, answer["functions"])
        read = {path: digest for path, digest in self.files.items() if digest}
        return Loaded(tuple(functions), read)

    def _vote(
        self, name: str, table: Any, classes: list[str], report: Callable[[int], None]
    ) -> tuple[np.ndarray | None, Failure | None]:
        seconds, process = self.limits.seconds_for(table.num_rows), self._ready()

        def failed(kind: FailureKind, error: str) -> tuple[None, Failure]:
            row = process.row
            return None, Failure(name, () if row is None else (row,), error, kind=kind)

        try:
            request = {"name": name, "key": self._send(table), "classes": classes}
            answer, payload = self._ask("vote", seconds, report, **request)
        except TooSlow:
            return failed(
                "slow",
                f"it was still running after {seconds:g} s and was ended; "
                "make it faster or allow more seconds",
            )
        except Ended as how:
            return failed("crashed", f"it {how}; correct it and load it again")
        told = answer["failure"]
        failure = None if told is None else Failure(**{**told, "rows": tuple(told["rows"])})
        if failure is not None and failure.kind == "large":
            self._stop()  # what it holds on to goes with the process
            size = f"{self.limits.memory / 2**30:.3g} GiB"
            return failed(
                "large", f"it took more than {size} of memory; keep less or allow more memory"
            )
        if "dtype" not in answer:
            return None, failure
        return np.frombuffer(payload, answer["dtype"]).copy(), failure

    def _start(self) -> None:
        """Have a process, which may not have run lfs.py."""
        if self._process is not None and not self._process.running:
            self._stop()
        if self._process is None:
            self._process = Process(self._home, self.folder, self.file)
            self._end = weakref.finalize(self, self._process.end)
            try:
                self._exchange(None)  # it says when it has started
            except (TooSlow, Ended):
                raise StoreError(
                    f"the process that runs {self.folder / self.file} did not start; "
                    f"see what {sys.executable} says above"
                ) from None

    def _ready(self) -> Process:
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

    def _send(self, table: Any) -> str:
        """The key under which the process has a table; tables never change, so it goes once."""
        for key, each in self._tables.items():
            if each is table:
                self._tables[key] = self._tables.pop(key)
                return key
        import pyarrow as pa

        forget = list(self._tables)[: -(_TABLES - 1)]
        for key in forget:
            del self._tables[key]
        self._made += 1
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        request = {"do": "keep", "key": str(self._made), "forget": forget}
        self._exchange(request, payload=sink.getvalue())
        self._tables[str(self._made)] = table
        return str(self._made)

    def _ask(
        self, do: str, seconds: float, report: Callable[[int], None] = _quiet, **request: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Ask the user's code something, within the limits."""
        limits = {"seconds": seconds + _GRACE, "memory": self.limits.memory}
        return self._exchange({"do": do, **request, **limits}, seconds, report)

    def _exchange(
        self,
        request: dict[str, Any] | None,
        seconds: float = _PATIENCE,
        report: Callable[[int], None] = _quiet,
        payload: Any = b"",
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request, and wait for the answer that ends it."""
        process, until, done = self._process, time.monotonic() + seconds, 0
        assert process is not None

        def tick() -> None:  # a function that is slow on one row goes on too
            report(done)

        try:
            if request is not None:
                process.ask(request, payload)
            while True:
                message, found = process.wait(until, tick)
                if message["is"] == "file":
                    self.files[Path(message["path"])] = message["digest"]
                elif message["is"] == "asked":
                    done += message["rows"]
                    report(done)
                else:
                    return message, found
        except BaseException:  # an interrupt too: it is in the middle of something
            self._stop()
            raise

    def _stop(self) -> None:
        self._tables.clear()
        if self._process is not None:
            self._process = None
            self._end()


def _portion(progress: Progress, at: int, n_functions: int, n_rows: int) -> Callable[[int], None]:
    """Progress of one function among several."""
    total = max(1, n_functions * n_rows)
    return lambda rows: progress(at * n_rows + rows, total)
