"""Files and folders that are whole or not there.

What is written goes beside its place first (`.NAME.HOST-PID-RANDOM.tmp`), is synced, and is renamed, so
that a reader never sees half of it and a power cut leaves the old or the new. A killed process leaves
its temporary file; the next write to the same place removes it. The name says whose it is: files of a
living process are left to it, and those of another machine that shares the disk until they are a day
old, because its processes cannot be asked.

A folder cannot be renamed over another. The old one is set aside first (`.NAME.….old`); between the two
renames there is no folder of that name, and `standing` finds the one set aside.

What is read is a regular file, at once and no longer than it says: a pipe or a device has no end.
"""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from .errors import StoreError

_DAY = 24 * 3600
_SWEPT: set[Path] = set()
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_OWNER = re.compile(r".*\.(?P<host>[^/]*)-(?P<process>\d+)-[0-9a-f]+\.(tmp|old)")


def beside(path: Path, suffix: str = "tmp", process: int | None = None) -> Path:
    """A name next to `path` that nobody else has, and that says which process it belongs to."""
    owner = os.getpid() if process is None else process
    return path.with_name(f".{path.name}.{_host()}-{owner}-{uuid.uuid4().hex[:8]}.{suffix}")


def write_whole(
    path: Path, content: bytes | Callable[[Path], object], *, durable: bool = True
) -> None:
    """Write a file, all or nothing; `content` is its bytes, or fills the file it is given.

    Without `durable` nothing is synced: what a killed process wrote survives it anyway, and a cache
    with checksums finds out about a power cut by itself. A cache's folder may hold thousands of files,
    so it is swept once in the life of a process, and not for every file.
    """
    temporary = beside(path)
    try:
        if isinstance(content, bytes):
            temporary.write_bytes(content)
        else:
            content(temporary)
        if durable:
            _sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _sync(path.parent)
        sweep(path.parent, path.name)
    elif path.parent not in _SWEPT:
        _SWEPT.add(path.parent)
        sweep(path.parent)


def private(folder: Path) -> None:
    """Make a folder, and let only its owner read it and what lies in it."""
    with suppress(OSError):  # who cannot make or change it is told by what wants to write there
        folder.mkdir(parents=True, exist_ok=True)
        for each in (folder, *folder.rglob("*")):
            if not each.is_symlink():
                each.chmod(each.stat().st_mode & 0o700)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; anything else is refused at once."""
    # without waiting: to open a pipe that nobody writes to would take for ever
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise StoreError(f"{path} is not a regular file; put the file itself in its place")
    return file


def read_whole(path: Path, most: int) -> bytes:
    """The bytes of a regular file, of so many at most."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise StoreError(
                f"{path} has {size} bytes, expected {most} at most; put the right file in its place"
            )
        return file.read(size)


def replace_folder(path: Path, fill: Callable[[Path], object]) -> None:
    """Write a folder as a whole, in the place of one that may be there."""
    temporary, aside = beside(path), beside(path, "old")
    try:
        temporary.mkdir()
        fill(temporary)
        for each in (*temporary.iterdir(), temporary):
            _sync(each)
        if path.exists():
            os.rename(path, aside)
        os.rename(temporary, path)
    except BaseException:
        if aside.exists() and not path.exists():
            os.rename(aside, path)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync(path.parent)
    shutil.rmtree(aside, ignore_errors=True)
    sweep(path.parent, path.name)


def standing(path: Path) -> Path:
    """The folder itself, or the one set aside by a process that was killed while replacing it."""
    if path.exists():
        return path
    aside = path.parent.glob(f".{glob.escape(path.name)}.*.old")
    return max(aside, key=lambda each: each.stat().st_mtime, default=path)


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left of `name`, or of any file in the folder.

    Folders set aside are removed only where the one they were is there again.
    """
    named = "*" if name is None else glob.escape(name)
    stands = name is not None and (folder / name).exists()
    for suffix in ("tmp", "old") if stands else ("tmp",):
        for left in folder.glob(f".{named}.*.{suffix}"):
            _remove_if_orphan(left)


def _remove_if_orphan(left: Path) -> None:
    found = _OWNER.fullmatch(left.name)
    if found is None:
        return
    with suppress(OSError):  # another process was quicker
        if found["host"] == _host():
            gone = not _is_alive(int(found["process"]))
        else:
            gone = left.stat().st_mtime < time.time() - _DAY
        if gone and left.is_dir():
            shutil.rmtree(left)
        elif gone:
            left.unlink()


def _host() -> str:
    return platform.node() or "here"


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is not a question
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():  # cannot be opened there, and renames are journalled
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
