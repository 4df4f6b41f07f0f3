"""One shard: which rows of which files it holds, and where what is made of them is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ..errors import StoreError
from ..storage import write_whole


@dataclass(frozen=True)
class Piece:
    """Rows `start` to `stop` of one Parquet file."""

    file: str
    start: int
    stop: int


@dataclass(frozen=True)
class Shard:
    """A stretch of the rows in the order of their files; small, and ready to travel."""

    number: int
    pieces: tuple[Piece, ...]
    start: int  # where its first row stands among all rows
    train: int = 0  # and among the train rows, once it is known which rows these are
    n_train: int = 0

    @property
    def stop(self) -> int:
        """Where the row after its last one stands."""
        return self.start + sum(each.stop - each.start for each in self.pieces)

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Kept:
    """A folder in which a stage keeps arrays about the rows of each shard."""

    folder: Path

    def save(self, shard: Shard, **arrays: np.ndarray) -> None:
        """Write arrays of a shard's rows; each file is whole or not there."""
        for name, array in arrays.items():
            place = self.place(shard, f"{name}.npy")
            try:
                write_whole(place, partial(_save, array))
            except OSError as error:
                raise cannot_write(place, error) from error

    def load(self, shard: Shard, name: str) -> np.ndarray:
        """Read an array back into memory; a mapped file would count against it too."""
        return np.asarray(np.load(self.place(shard, f"{name}.npy"), allow_pickle=False))

    def mapped(self, shard: Shard, name: str) -> np.ndarray:
        """The array on the disk, for who needs a few of its entries."""
        return np.asarray(np.load(self.place(shard, f"{name}.npy"), mmap_mode="r"))

    def place(self, shard: Shard, name: str) -> Path:
        """Where a file about a shard lies."""
        return self.folder / f"{shard.number:05d}.{name}"


def _save(array: np.ndarray, path: Path) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def cannot_write(place: Path, error: OSError) -> StoreError:
    """What to say of a disk that is full or closed to us."""
    return StoreError(
        f"{place} cannot be written ({error.strerror or error}); make room and run again: "
        "what is finished is not done again"
    )
