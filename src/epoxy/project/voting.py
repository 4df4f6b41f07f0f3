"""Functions asked about all rows of a table: at once, or some rows at a time where memory is limited.

On another machine a function is what the text of lfs.py makes there, with all it imports of its folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import mapped
from ..errors import CodeError
from ..functions.apply import Failure
from ..progress import Progress
from ..running import Limits, Loaded, Runner, Voted

if TYPE_CHECKING:
    from .project import Folder

Keep = Callable[[str, np.ndarray], None]


class _Failed(Exception):
    """A function has no column: it is not asked about the rest."""


def voted(
    home: Folder, loaded: Loaded, names: Sequence[str], table: Any, progress: Progress, keep: Keep
) -> Voted:
    """Columns of functions on the rows of a table; `keep` is given each that came without a failure."""
    now, classes = mapped.limit(), home.project.classes
    size = mapped.rows_at_once(table.num_rows)
    if now is None or (now.run is None and table.num_rows <= size):
        return home.runner.vote(names, table, classes, progress, keep)
    columns: dict[str, np.ndarray] = {}
    failures: list[Failure] = []
    starts = range(0, table.num_rows, size)
    parts = [table.slice(at, size) for at in starts]
    travelling = None if now.run is None else Travelling.of(home, loaded)
    if travelling is not None:
        parts = [mapped.rows_of(table, at, min(size, table.num_rows - at)) for at in starts]
    for number, name in enumerate(names):
        found: list[np.ndarray] = []
        failed: list[Failure] = []

        def ask(part: Any, name: str = name) -> Voted:
            return home.runner.vote([name], part, classes)

        def put(part: Any, answer: Voted, found: Any = found, failed: Any = failed) -> None:
            start = sum(map(len, found))
            for each in answer.failures:
                failed.append(replace(each, rows=tuple(start + at for at in each.rows)))
                if each.kind != "raised":
                    raise _Failed
            found += answer.columns.values()

        def report(done: int, total: int, number: int = number) -> None:
            progress(number * total + done, len(names) * total)

        each = ask if travelling is None else _Ask(travelling, name, classes)
        with suppress(_Failed):
            mapped.each(each, parts, put, report, threads=False)
        whole = [each for each in failed if each.kind != "raised"]
        if failed:
            rows = tuple(row for each in failed for row in each.rows)
            failures.append(whole[0] if whole else replace(failed[0], rows=rows))
        if not whole:
            columns[name] = np.concatenate(found)
            if not failed:
                keep(name, columns[name])
    return Voted(columns, tuple(failures))


@dataclass(frozen=True)
class Travelling:
    """The labeling functions of a project by their source."""

    folder: str
    files: tuple[tuple[str, str], ...]  # name within the folder, and text
    meanings: tuple[tuple[str, str | None], ...]  # names and fingerprints
    limits: Limits

    @classmethod
    def of(cls, folder: Folder, loaded: Loaded) -> Travelling:
        """What lfs.py defines, with all it imports of its folder."""
        home = folder.project.folder.resolve()
        files = tuple(
            (str(path.relative_to(home)), path.read_text("utf-8"))
            for path in sorted(loaded.files)
            if path.is_relative_to(home)
        )
        meanings = tuple(loaded.fingerprints.items())
        return cls(str(home), files, meanings, folder.runner.limits)

    def runner(self) -> Runner:
        """The process that runs them here, one for as long as this process lasts."""
        if self not in _running:
            end()
            with ExitStack() as until:
                made = until.enter_context(Runner(self._home(until), self.limits))
                self._check_same(made.load())
                _running[self] = made, until.pop_all()
        return _running[self][0]

    def _home(self, until: ExitStack) -> Path:
        """The project folder where the texts there are those that travelled, else a folder made of these."""
        home = Path(self.folder)
        if not all(_reads(home / name, text) for name, text in self.files):
            home = Path(until.enter_context(tempfile.TemporaryDirectory(prefix="epoxy-functions-")))
            for name, text in self.files:
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(text, "utf-8")
        return home

    def _check_same(self, loaded: Loaded) -> None:
        """Refuse functions that are others here than where the run began: their votes would be, too."""
        here, there = loaded.fingerprints, dict(self.meanings)
        others = sorted(each for each in {*here, *there} if here.get(each) != there.get(each))
        if others:
            raise CodeError(
                f"lfs.py makes other functions of {others} when it is loaded again: what it reads from "
                "files, the environment or the clock decides what they are; write it into lfs.py, or read "
                "it where the function runs"
            )


_running: dict[Travelling, tuple[Runner, ExitStack]] = {}


def end() -> None:
    """End the process that runs functions that travelled here, and remove their texts."""
    while _running:
        _running.popitem()[1][1].close()


@dataclass(frozen=True)
class _Ask:
    """One function about some rows, wherever this is."""

    functions: Travelling
    name: str
    classes: tuple[str, ...]

    def __call__(self, part: Any) -> Voted:
        return self.functions.runner().vote([self.name], mapped.opened(part), self.classes)


def _reads(path: Path, text: str) -> bool:
    try:
        return path.read_text("utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False
