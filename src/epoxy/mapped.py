"""Large arrays within so much memory: files that are mapped, and let go of where memory runs short.

There is one way from rows to labels. Whoever makes an array as long as there are rows makes it by `empty`,
and reads it in `blocks`. Within `within(...)` an array longer than a block is a file of a scratch folder: the
system reads its pages when they are asked for, and from one block to the next they are let go of where the
process holds more than it may. So what is computed does not depend on where arrays lie.

`each` calls a function with parts of the rows: in threads here, or by another map, as a cluster's. What
travels there (`ByFile`) carries the names of such files instead of what is in them.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .errors import StoreError
from .progress import Progress, silent
from .storage import beside

T = TypeVar("T")
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each of many things, and gives the results in their order: `map`, anywhere."""
SHARE, LEAST = 0.7, 0.2
"""Pages of files are let go of when so much of the memory is taken, and theirs are so much of it."""
BLOCK = 4096
"""Rows that are worked on between two looks at how much is taken."""
FEW = 256
"""Rows that are looked up at a time: the system maps what lies around each of them as well."""


@dataclass(eq=False)
class Limit:
    """How much memory may be taken, how many rows are worked on at a time, where the rest lies, who works."""

    memory: int
    rows: int
    folder: Path
    run: Run | None = None  # None: threads of this process


_now: list[Limit] = []
_maps: weakref.WeakValueDictionary[str, mmap.mmap] = weakref.WeakValueDictionary()
_others: list[weakref.ref[mmap.mmap]] = []  # maps of files that are not ours
_tables: list[tuple[Any, str]] = []


def limit() -> Limit | None:
    """The limit that holds now; None for none."""
    return _now[-1] if _now else None


def rows_at_once(n_rows: int) -> int:
    """How many rows to work on at a time: all of them, where there is no limit."""
    return max(1, n_rows) if not _now else _now[-1].rows


@contextmanager
def scratch(home: Path) -> Iterator[tuple[Path, bool]]:
    """A folder below `home` that goes at the end, and whether a killed run left one, which goes now."""
    folder, killed = beside(home / "run"), False
    try:
        home.mkdir(parents=True, exist_ok=True)
        gate = _hold(home, wait=True)  # else another run might take ours for left behind
        folder.mkdir()
        held = _hold(folder)
        for other in home.iterdir():
            if (left := _hold(other)) is not None:
                killed = True
                shutil.rmtree(other, ignore_errors=True)
                os.close(left)
        if gate is not None:
            os.close(gate)
    except OSError as error:
        raise _full(folder, error) from error
    try:
        yield folder, killed
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


@contextmanager
def within(memory: int, rows: int, folder: Path, run: Run | None = None) -> Iterator[Limit]:
    """Keep arrays of more than so many rows in files of a folder."""
    made = Limit(memory, rows, folder, run)
    _now.append(made)
    try:
        yield made
    finally:
        _now.remove(made)
        _tables[:] = [each for each in _tables if not each[1].startswith(str(folder))]
        _mapped.cache_clear()


def _hold(folder: Path, *, wait: bool = False) -> int | None:
    """Lock a folder until it is closed; None where another process holds it, or none can."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover — Windows
        return None
    found = None
    with suppress(OSError):
        found = os.open(folder, os.O_RDONLY)
        fcntl.flock(found, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return found
    if found is not None:
        os.close(found)
    return None


def empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array to fill: in memory, or in a file where it is longer than a block."""
    now, kind = limit(), np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if now is None or not shape or shape[0] <= now.rows or not size:
        return np.empty(tuple(shape), kind)
    found = np.frombuffer(_file(now, size), kind)
    return found[: int(np.prod(shape, dtype=np.int64))].reshape(tuple(shape))


def take(array: Any, rows: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Some rows of an array, in their order, as another type if one is named."""
    found = empty((len(rows), *array.shape[1:]), array.dtype if dtype is None else dtype)
    for part in blocks(len(rows), FEW):
        into, some = found[part], rows[part]
        if array.dtype == found.dtype:
            np.take(array, some, axis=0, out=into, mode="clip")  # else it would be copied once more
            continue
        with np.errstate(over="ignore"):  # what overflows is infinite, and said to be
            into[:] = array[some]
    return found


def load(file: Path) -> np.ndarray:
    """The array of a .npy file as it lies there; where memory is limited its pages are let go of too."""
    found = np.load(file, mmap_mode="r", allow_pickle=False)
    pages = getattr(found, "_mmap", None)
    if pages is not None:
        _others.append(weakref.ref(pages))
    return np.asarray(found)


def is_file(array: np.ndarray) -> bool:
    """Whether an array lies in a file of ours, which nobody else writes to."""
    return _place(array) is not None


def table(schema: Any, batches: Iterable[Any]) -> Any:
    """A pyarrow table of record batches that come one after the other."""
    import pyarrow as pa

    now = limit()
    if now is None:
        return pa.Table.from_batches(batches, schema)
    place = beside(now.folder / "rows")
    try:
        with pa.OSFile(str(place), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for each in batches:
                writer.write(each)
    except OSError as error:
        raise _full(place, error) from error
    found = _opened_table(str(place))
    _tables.append((found, str(place)))
    return found


def rows_of(given: Any, start: int, count: int) -> Any:
    """Some rows of a table, ready to travel: see `opened`."""
    place = next((name for each, name in _tables if each is given), None)
    return given.slice(start, count) if place is None else _Rows(place, start, count)


def each(
    function: Callable[[Any], T],
    parts: Sequence[Any],
    put: Callable[[Any, T], None],
    progress: Progress = silent,
    *,
    threads: bool = True,
) -> None:
    """Call a function with each part, and put each result where it belongs.

    Without `threads`, one part after the other where this process does it.
    """
    from .neighbors.workers import spread

    now = limit()
    run = None if now is None else now.run
    if run is None and threads:
        spread(lambda part: put(part, function(part)), parts, progress)
        return
    progress(0, max(1, len(parts)))
    for done, (part, found) in enumerate(zip(parts, (run or map)(function, parts)), 1):
        put(part, found)
        progress(done, len(parts))


# what travels


class ByFile:
    """Travels with the names of files where its arrays lie in some; a frozen dataclass."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: _named(value) for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: opened(value) for name, value in state.items()})


class _Array(NamedTuple):
    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str


class _Rows(NamedTuple):
    path: str
    start: int
    n_rows: int


def opened(value: Any) -> Any:
    """What came by the name of its file; anything else is as it is."""
    if isinstance(value, _Rows):
        return _opened_table(value.path).slice(value.start, value.n_rows)
    if not isinstance(value, _Array):
        return value
    kind, size = np.dtype(value.dtype), int(np.prod(value.shape, dtype=np.int64))
    return np.frombuffer(_mapped(value.path), kind, size, value.offset).reshape(value.shape)


def _named(value: Any) -> Any:
    found = _place(value) if isinstance(value, np.ndarray) else None
    return value if found is None else found


def _place(array: np.ndarray) -> _Array | None:
    """Where an array lies in a file of ours."""
    address = int(array.__array_interface__["data"][0])
    if not array.flags.c_contiguous or not array.size:
        return None
    for path, each in list(_maps.items()):
        start = int(np.frombuffer(each, np.uint8).__array_interface__["data"][0])
        if start <= address < start + len(each):
            return _Array(path, address - start, array.shape, array.dtype.str)
    return None


@lru_cache(maxsize=64)
def _mapped(path: str) -> mmap.mmap:
    """A file that somebody else made, to read."""
    with open(path, "rb") as file:
        found = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _maps[path] = found
    return found


def _opened_table(path: str) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(_mapped(path))).read_all()


def _file(now: Limit, size: int) -> mmap.mmap:
    """A file of so many bytes, mapped; it goes when nobody holds it."""
    try:
        handle, path = tempfile.mkstemp(dir=now.folder)
        try:
            if hasattr(os, "posix_fallocate"):  # a disk that is full says so now, not in the middle
                os.posix_fallocate(handle, 0, size)
            else:
                os.ftruncate(handle, size)
            found = mmap.mmap(handle, size)
        finally:
            os.close(handle)
    except OSError as error:
        raise _full(now.folder, error) from error
    _maps[path] = found
    weakref.finalize(found, _remove, path)
    return found


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _full(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written ({error.strerror or error}); make room and run again: votes, vectors "
        "and neighbours that were found by then are kept"
    )


# memory


def blocks(count: int, size: int = BLOCK) -> Sequence[slice]:
    """Slices of so many rows, one after the other; whoever iterates lets go of pages from one to the next."""
    return _Blocks(slice(at, min(at + size, count)) for at in range(0, count, size))


class _Blocks(tuple[slice, ...]):
    def __iter__(self) -> Iterator[slice]:
        for each in super().__iter__():
            yield each
            let_go()


def let_go() -> None:
    """Let go of pages of files, and of what Arrow holds in reserve, where this process holds too much."""
    now = limit()
    if now is None:
        return
    held, files = taken()
    if held <= max(SHARE * now.memory, held - files + LEAST * now.memory):
        return
    for each in [*_maps.values(), *(each() for each in _others)]:
        with suppress(AttributeError, ValueError, OSError):  # it was closed meanwhile, or cannot
            if each is not None:
                each.madvise(mmap.MADV_DONTNEED)
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()


def taken() -> tuple[int, int]:
    """Bytes of memory that this process holds, and those of files; none where the system does not say."""
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return 0, 0
    try:
        _, held, files, *_ = os.read(file, 100).split()
    finally:
        os.close(file)
    return int(held) * mmap.PAGESIZE, int(files) * mmap.PAGESIZE


def bound(memory: int | None) -> None:
    """Keep so much memory in a process of somebody else, from now on; None: there is no limit."""
    if memory is not None and not _now:
        _now.append(Limit(memory // 2, 1 << 62, Path()))
