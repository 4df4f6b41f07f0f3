"""Where neighbour lists are put block by block: in memory, or in a folder that survives a kill.

    plan.npz                    centres, the cells each node asks, a sample and its true neighbours
    sorted.npy                  the vectors in the order of their cells, while lists are made
    neighbour.part  distance.part  finished blocks, in that order
    done.log                    "block checksum" for each, written after the block
    neighbour.npy  distance.npy    all lists by node
    about.npz                   the plan and the recall; written last: without it nothing is finished

What a killed process wrote is on the disk; after a power cut a block whose checksum is not that of its
bytes is searched again. `name` says of which vectors and settings; of others nothing is taken up.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np

from ...errors import StoreError
from .. import store
from .points import release, write_array

Arrays = dict[str, np.ndarray]
Shape = tuple[int, int]
AT_ONCE = 1 << 15  # rows read of a mapped file before its pages are given back
PLANNED = ("centre", "top", "sample", "true")


class Blocks(Protocol):
    """Lists in the making, by position."""

    @property
    def left(self) -> list[slice]:
        """Blocks of positions that are not finished."""

    def write(self, part: slice, neighbour: np.ndarray, distance: np.ndarray) -> None:
        """Keep the lists of one block."""

    def arranged(self, memory: int) -> tuple[np.ndarray, np.ndarray]:
        """All lists by node."""


def parts(count: int, size: int) -> list[slice]:
    """Slices of so many, one after the other."""
    return [slice(at, min(at + size, count)) for at in range(0, count, size)]


class InMemory:
    """Nothing is kept."""

    def finished(self, shape: Shape) -> Arrays | None:
        """Nothing was made before."""
        return None

    def plan(self, make: Callable[[], Arrays]) -> Arrays:
        """Make the plan."""
        return make()

    def sorted_file(self, vectors: np.ndarray) -> Path | None:
        """Vectors are read where they are."""
        return None

    def blocks(self, shape: Shape, size: int, order: np.ndarray) -> Blocks:
        """Lists go straight to their nodes."""
        return _Held(shape, size, order)

    def finish(self, neighbour: np.ndarray, distance: np.ndarray, known: Arrays) -> Arrays:
        """Give back what there is."""
        return {**known, "neighbour": neighbour, "distance": distance}


class _Held:
    def __init__(self, shape: Shape, size: int, order: np.ndarray) -> None:
        self.order = order
        self.neighbour, self.distance = np.empty(shape, dtype=np.int32), np.empty(shape)
        self.left = parts(shape[0], size)

    def write(self, part: slice, neighbour: np.ndarray, distance: np.ndarray) -> None:
        mine = self.order[part]
        self.neighbour[mine], self.distance[mine] = neighbour, distance

    def arranged(self, memory: int) -> tuple[np.ndarray, np.ndarray]:
        return self.neighbour, self.distance


class InFolder:
    """Everything is kept, and taken up again."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = np.frombuffer(name.encode(), dtype=np.uint8)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be made ({error.strerror}); name a folder that can be written"
            ) from error

    def finished(self, shape: Shape) -> Arrays | None:
        """The lists that were finished before, mapped; None where there are none of this name."""
        known = self._read("about.npz", (*PLANNED, "recall"))
        if known is None:
            return None
        try:
            lists = {name: self._mapped(f"{name}.npy") for name in ("neighbour", "distance")}
        except (OSError, ValueError):
            return None
        if any(each.shape != shape for each in lists.values()):
            return None
        return {**known, **lists}

    def plan(self, make: Callable[[], Arrays]) -> Arrays:
        """The plan that was made before, or a new one."""
        known = self._read("plan.npz", PLANNED)
        if known is not None:
            return known
        for name in ("about.npz", "done.log", "sorted.npy"):  # of other vectors or settings
            (self.folder / name).unlink(missing_ok=True)
        made = make()
        store.save(self.folder / "plan.npz", {**made, "name": self.name})
        return made

    def sorted_file(self, vectors: np.ndarray) -> Path | None:
        """A file for vectors that are not in memory; others are read where they are."""
        return self.folder / "sorted.npy" if _is_mapped(vectors) else None

    def blocks(self, shape: Shape, size: int, order: np.ndarray) -> Blocks:
        """Lists go to files, block by block."""
        return _Kept(self.folder, shape, size, order)

    def finish(self, neighbour: np.ndarray, distance: np.ndarray, known: Arrays) -> Arrays:
        """Say that all is finished, and remove what it was made from."""
        store.save(self.folder / "about.npz", {**known, "name": self.name})
        for name in ("plan.npz", "sorted.npy", "neighbour.part", "distance.part", "done.log"):
            (self.folder / name).unlink(missing_ok=True)
        return {**known, "neighbour": neighbour, "distance": distance}

    def _mapped(self, name: str) -> np.ndarray:
        return mapped(self.folder / name)

    def _read(self, file: str, names: tuple[str, ...]) -> Arrays | None:
        found = store.load(self.folder / file, (*names, "name"))
        if found is None or not np.array_equal(found.pop("name"), self.name):
            return None
        return found


def mapped(path: Path) -> np.ndarray:
    """An array in a file; it may be written to, which changes nothing in the file."""
    return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))


def _is_mapped(vectors: np.ndarray) -> bool:
    base: object = vectors
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    return base is not None


class _Kept:
    """Blocks of lists one after the other in two files, and a log of those that are whole."""

    def __init__(self, folder: Path, shape: Shape, size: int, order: np.ndarray) -> None:
        self.folder, self.shape, self.size, self.order = folder, shape, size, order
        self._lock = threading.Lock()
        for name in ("neighbour.part", "distance.part", "done.log"):
            (folder / name).touch()
        done = self._done()
        self.left = [part for part in parts(shape[0], size) if part.start // size not in done]

    def _part(self, name: str, kind: type, part: slice) -> np.ndarray:
        """A block as it stands in its file; shorter where the file ends."""
        width, item = self.shape[1], np.dtype(kind).itemsize
        count = (part.stop - part.start) * width
        at = part.start * width * item
        return np.fromfile(self.folder / name, dtype=kind, count=count, offset=at)

    def _done(self) -> set[int]:
        """Blocks whose bytes are those that were written."""
        found = {}
        for line in (
            (self.folder / "done.log").read_text("ascii", errors="replace").split("\n")[:-1]
        ):
            with suppress(ValueError):  # half a line that a power cut left
                number, checksum = map(int, line.split())
                found[number] = checksum
        blocks = dict(enumerate(parts(self.shape[0], self.size)))
        return {
            number
            for number, checksum in found.items()
            if number in blocks and _checksum(*self._both(blocks[number])) == checksum
        }

    def _both(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        return (
            self._part("neighbour.part", np.int32, part),
            self._part("distance.part", np.float64, part),
        )

    def write(self, part: slice, neighbour: np.ndarray, distance: np.ndarray) -> None:
        arrays = np.ascontiguousarray(neighbour), np.ascontiguousarray(distance)
        try:
            with self._lock:
                for name, array in zip(("neighbour.part", "distance.part"), arrays, strict=True):
                    with (self.folder / name).open("r+b") as file:
                        file.seek(part.start * self.shape[1] * array.itemsize)
                        file.write(array.data)
                with (self.folder / "done.log").open("a") as log:
                    log.write(f"{part.start // self.size} {_checksum(*arrays)}\n")
        except OSError as error:
            raise StoreError(
                f"{self.folder} cannot be written ({error.strerror}); make room, or make it writable"
            ) from error

    def arranged(self, memory: int) -> tuple[np.ndarray, np.ndarray]:
        """The lists by node in files of their own, written in bands that fit into half the memory."""
        where = np.empty(len(self.order), dtype=np.int64)
        where[self.order] = np.arange(len(self.order))
        width = self.shape[1]
        band = max(1, memory // 2 // (width * 24))
        kinds = {"neighbour": np.int32, "distance": np.float64}
        for name, kind in kinds.items():
            held = np.memmap(self.folder / f"{name}.part", dtype=kind, mode="r", shape=self.shape)
            blocks = ((part, _gathered(held, where[part])) for part in parts(self.shape[0], band))
            write_array(self.folder / f"{name}.npy", kind, self.shape, blocks)
        return mapped(self.folder / "neighbour.npy"), mapped(self.folder / "distance.npy")


def _gathered(held: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of a mapped array, read in their order there and given back as they are read."""
    found = np.empty((len(rows), held.shape[1]), dtype=held.dtype)
    order = np.argsort(rows)
    for part in parts(len(rows), AT_ONCE):
        found[order[part]] = held[rows[order[part]]]
        release(held)
    return found


def _checksum(neighbour: np.ndarray, distance: np.ndarray) -> int:
    return zlib.crc32(distance.data, zlib.crc32(neighbour.data))
