"""A run over shards: stages one after the other, each finished shard kept, so that a killed run goes on.

A stage is named by what it does and by a digest of all that it is given. What it is given includes the
folders of the stages before it, whose names hold *their* digests: so another function, another row or
another setting gives another name, and whatever has the right name is right and is not made again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import StoreError
from ..neighbors import store
from ..progress import Progress, silent
from .runner import Do, Runner, Summary
from .shard import Kept, Shard, cannot_write

try:
    import fcntl
except ImportError:  # pragma: no cover — Windows has no such locks: there nobody is kept out
    fcntl = None  # type: ignore[assignment]

SUMMARY = "summary.npz"
"""The file that says of a shard that a stage is finished with it."""
LOCK = "shards.lock"
FORMAT = 3
"""Raised when a stage keeps other things under the same name: what an older one kept is made again."""


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """Be the only run of a project: stages of other inputs are forgotten while one goes on.

    The lock is the system's, so it ends with the process, however that ends.
    """
    place = cache / LOCK
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.open("a+", encoding="utf-8")
    except OSError as error:
        raise cannot_write(place, error) from error
    with file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise StoreError(
                    f"another run labels {cache.parent} in shards now ({file.read().strip()}); wait "
                    "until it is done, or end it and run again: what is finished is not done again"
                ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {time.strftime('%H:%M')}\n")
        file.flush()
        yield


@dataclass
class Run:
    """Stages of one run, their scratch and who does them."""

    home: Path
    runner: Runner
    shards: tuple[Shard, ...]
    key: str  # of the rows
    report: Callable[[str], Progress] = lambda what: silent
    spare: int = 0  # bytes of memory beside a shard

    def stage(self, name: str, do: Do, *constants: Any) -> Stage:
        """Do something to every shard, or take up what was done before."""
        digest = hashlib.blake2b(digest_size=8)
        kind = f"{__version__}.{FORMAT} {name} {do.__module__}.{do.__qualname__} {self.key}"
        for part in _parts((kind, self.shards, constants)):
            digest.update(part)
        folder = self.home / f"{name}-{digest.hexdigest()}"
        try:
            self._forget(name, folder)
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from error
        return Stage(Kept(folder), self, name, do, constants)

    def _forget(self, name: str, folder: Path) -> None:
        """What the stage made for other inputs is of no use any more."""
        for other in self.home.glob(f"{name}-*"):
            if other != folder and other.name[len(name) + 1 :].isalnum():
                shutil.rmtree(other, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage: iterate over it for the summaries, in the order of the shards."""

    kept: Kept
    run: Run
    name: str
    do: Do
    constants: tuple[Any, ...]

    def __iter__(self) -> Iterator[Summary]:
        shards, tell = self.run.shards, self.run.report(self.name)
        lost = [each for each in shards if _summary(self.kept, each) is None]
        made = self.run.runner.each(_do, lost, self.do, self.kept, *self.constants)
        numbers = {each.number for each in lost}
        for at, shard in enumerate(shards):
            tell(at, len(shards))
            found = None if shard.number in numbers else _summary(self.kept, shard)
            yield next(made) if found is None else found
        tell(len(shards), len(shards))

    @property
    def is_finished(self) -> bool:
        """Whether it was done to every shard before."""
        return all(_summary(self.kept, each) is not None for each in self.run.shards)

    def finish(self) -> Kept:
        """Do it for what it writes, when nothing is to be merged."""
        for _ in self:
            pass
        return self.kept

    def total(self, *names: str) -> list[np.ndarray]:
        """Sums over the shards, in their order; integers stay whole, the rest is float64."""
        sums: list[np.ndarray] | None = None
        for each in self:
            found = [each[name] for name in names]
            sums = found if sums is None else [a + b for a, b in zip(sums, found)]
        assert sums is not None
        return sums

    def gathered(self, *names: str) -> list[np.ndarray]:
        """Arrays of all shards, one after the other."""
        parts = [[each[name] for name in names] for each in self]
        return [np.concatenate(each) for each in zip(*parts)]


def _do(shard: Shard, do: Do, kept: Kept, *constants: Any) -> Summary:
    """Do it and keep the summary, which says that the shard is finished.

    A runner may ask twice, where the worker that had finished a shard is lost with its answer.
    """
    before = _summary(kept, shard)
    if before is not None:
        return before
    found = do(shard, kept, *constants)
    store.save(kept.place(shard, SUMMARY), {"done": np.empty(0), **found})
    return found


def _summary(kept: Kept, shard: Shard) -> Summary | None:
    """What was kept of a finished shard; None for one that is not, or whose file is damaged."""
    return store.load(kept.place(shard, SUMMARY), None)


def _parts(value: Any) -> Iterator[bytes]:
    """Everything that a value is, as bytes; a folder is its name, which holds a digest itself."""
    if isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode()
        yield (
            np.ascontiguousarray(value).tobytes()
            if value.dtype != object
            else repr(value.tolist()).encode()
        )
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__.encode()
        for each in fields(value):
            yield from _parts(getattr(value, each.name))
    elif isinstance(value, dict):
        for key in value:
            yield from _parts((key, value[key]))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield f"({len(value)}".encode()
        for each in value:
            yield from _parts(each)
    elif isinstance(value, Path):
        yield value.name.encode()
    else:
        yield f"{type(value).__name__} {value!r}\n".encode("utf-8", "surrogatepass")
