"""Answers that were paid for, kept by the content of model, prompt and row: `.epoxy/answers.jsonl`.

Lines are appended and synced before an answer counts, so a process that is killed has lost at most the
calls in flight. A line cut short, or damaged, fails its checksum and is as if never written. One
process asks at a time: two would choose the same rows and pay twice.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import StoreError

try:
    import fcntl
except ImportError:  # on Windows nobody is kept out
    fcntl = None  # type: ignore[assignment]

About = tuple[str, str, str]
"""A question by its fingerprint, and the file and id of a row it is about."""
MALFORMED, REFUSED = "malformed", "refused"


@dataclass(frozen=True)
class Answer:
    """What was said of a row: one of the choices, or None and why there is none."""

    choice: str | None
    why: str = ""


@dataclass(frozen=True)
class Kept:
    """An answer as it is kept, with the row it was first about."""

    key: str  # of model, prompt and row
    identity: str  # of model and prompt
    file: str
    row: str
    chosen: str | None  # how the row was picked
    choice: str | None
    why: str = ""
    at: float = field(default_factory=time.time)

    @property
    def about(self) -> About:
        """The question and the row."""
        return self.key, self.file, self.row

    @property
    def answer(self) -> Answer:
        """The answer alone."""
        return Answer(self.choice, self.why)


class Cache:
    """The answers of a project; without a path they are kept as long as the process lives."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._kept: dict[str, Kept] = {}
        self._taken: set[About] = set()
        self._lock = threading.Lock()
        self._file: Any = None
        if path is not None:
            self._open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()  # and lets others in

    def get(self, key: str) -> Answer | None:
        """The answer that was paid for, if one was."""
        found = self._kept.get(key)
        return None if found is None else found.answer

    def add(self, kept: Kept) -> None:
        """Keep an answer; when this returns, it is on the disk."""
        with self._lock:
            self._write(asdict(kept))
            self._kept[kept.key] = kept

    def take(self, used: Iterable[About]) -> None:
        """Note that answers about rows became labels, or were counted: they are not taken up again."""
        new = sorted(set(used) - self._taken)
        if new:
            with self._lock:
                self._write({"taken": new})
                self._taken |= set(new)

    def is_taken(self, about: About) -> bool:
        """Whether an answer about a row was used before."""
        return about in self._taken

    def n_taken(self, identity: str) -> int:
        """How many answers of a model and prompt were used."""
        keys = {key for key, each in self._kept.items() if each.identity == identity}
        return sum(key in keys for key, _, _ in self._taken)

    def waiting(self, identity: str) -> list[Kept]:
        """Answers of a model and prompt that came, and that a killed run did not come to use."""
        found = self._kept.values()
        return [
            each for each in found if each.identity == identity and each.about not in self._taken
        ]

    def _open(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written ({error.strerror}); answers are kept there before they "
                "count: make the project folder writable"
            ) from error
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._file.close()
                raise StoreError(
                    f"another process asks about {path.parent.parent} now; wait until it is done"
                ) from None
        self._file.seek(0)
        for record in _records(self._file.read()):
            if "taken" in record:
                self._taken |= {tuple(each) for each in record["taken"]}
            else:
                kept = Kept(**record)
                self._kept[kept.key] = kept

    def _write(self, record: dict[str, Any]) -> None:
        if self._file is None:
            return
        line = json.dumps({**record, "checksum": _checksum(record)}, ensure_ascii=False)
        data = line.encode("utf-8", "surrogatepass") + b"\n"
        try:
            end = self._file.seek(0, os.SEEK_END)
            if end and (self._file.seek(-1, os.SEEK_END), self._file.read(1))[1] != b"\n":
                data = b"\n" + data  # whoever wrote last was cut short
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(
                f"{self.path} could not be written ({error.strerror}); no further answer is paid for: "
                "make room, and run the same command again"
            ) from error


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        with suppress(ValueError, AttributeError, TypeError, KeyError, RecursionError):
            record = json.loads(line)
            if record.pop("checksum") == _checksum(record):
                yield record


def _checksum(record: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())
