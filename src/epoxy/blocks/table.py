"""Arrays cut into blocks of rows, and functions over the blocks.

What is learned from rows is a sum over blocks and a small solve. A table in memory is one block, a disk
is many, and a cluster is another `map`: the function of a block is the same. So a function is written at
the top of its module (it travels by its name), takes arrays of one block first and everything else by
keyword, and gives back arrays with one entry per row, or a small sum. A pyarrow table of as many rows
goes wherever an array does.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from ..errors import AlignmentError, UnknownName
from ..progress import Progress, silent
from . import files

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each of many things, and gives the results in their order: `map`, anywhere."""


class Blocks:
    """Arrays of equal length, by name, in blocks of rows: in memory, or as files of a folder.

    Parameters
    ----------
    sizes
        Rows of each block.
    run
        Who calls the function of each block: the builtin `map`, a pool's, a cluster's.
    folder
        Where arrays are kept, a file for each block; None keeps them in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from epoxy.blocks import Blocks
    >>> table = Blocks.of({"x": np.arange(6.0)}, sizes=(4, 2))
    >>> table.each(np.square, "x", into="squares")
    >>> float(table.sum(np.sum, "squares")), table.joined("squares").tolist()
    (55.0, [0.0, 1.0, 4.0, 9.0, 16.0, 25.0])
    """

    def __init__(
        self, sizes: Sequence[int], run: Run = map, *, folder: str | Path | None = None
    ) -> None:
        self.sizes = tuple(int(each) for each in sizes)
        self.starts = tuple(accumulate(self.sizes[:-1], initial=0))
        self.run = run
        self.folder = None if folder is None else Path(folder)
        self._held: dict[str, list[Any]] = {}

    @classmethod
    def of(
        cls, arrays: Mapping[str, Any], sizes: Sequence[int] | None = None, run: Run = map
    ) -> Blocks:
        """Cut arrays into blocks in memory: one block, where no sizes are given."""
        if sizes is None:
            sizes = (len(next(iter(arrays.values()))),)
        made = cls(sizes, run)
        for name, array in arrays.items():
            made.put(name, array)
        return made

    @classmethod
    def in_folder(cls, folder: str | Path, sizes: Sequence[int], run: Run = map) -> Blocks:
        """Blocks whose arrays are files of a folder; what was kept there is there."""
        return cls(sizes, run, folder=folder)

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return sum(self.sizes)

    def each(
        self,
        function: Callable[..., Any],
        *names: str,
        into: str | Sequence[str] = (),
        start: bool = False,
        again: bool = True,
        progress: Progress = silent,
        **small: Any,
    ) -> builtins.list[Any]:
        """Call a function with arrays of each block, and keep what it gives under the names `into`.

        One name keeps an array, several a tuple of arrays; what comes after these is given back, a tuple
        for each block. With `start` the function is told the number of the block's first row, by that
        keyword. Without `again` blocks whose results lie in the folder are left as they are.
        `small` goes to every block as it is.
        """
        kept = (into,) if isinstance(into, str) else tuple(into)
        work = _Work(function, names, small, start, kept, self.folder)
        parts = self._parts(names)
        if self.folder is not None and not again:
            parts = [each for each in parts if not self._holds(each.number, kept)]
        made: builtins.list[builtins.list[Any]] = [[] for _ in kept]
        told = []
        for arrays, more in self._told(work, parts, progress):
            told.append(more)
            for block, array in zip(made, arrays):
                block.append(array)
        if self.folder is None:
            self._held.update(zip(kept, made))
        return told

    def stream(
        self,
        function: Callable[..., Any],
        *names: str,
        start: bool = False,
        progress: Progress = silent,
        **small: Any,
    ) -> Iterator[Any]:
        """What a function gives for each block, in their order, as it comes."""
        yield from self._told(_Work(function, names, small, start), self._parts(names), progress)

    def list(self, function: Callable[..., Any], *names: str, **given: Any) -> builtins.list[Any]:
        """What a function gives for each block, in their order."""
        return [*self.stream(function, *names, **given)]

    def sum(self, function: Callable[..., Any], *names: str, **given: Any) -> Any:
        """What a function gives for each block, added up in their order.

        Arrays and numbers are added; tuples, dictionaries and dataclasses are, part by part.
        """
        return reduce(added, self.stream(function, *names, **given))

    def joined(self, name: str) -> Any:
        """An array of all rows."""
        return _together([self.load(at, name) for at in range(len(self.sizes))])

    def rows(self, name: str, places: np.ndarray) -> Any:
        """Some rows of an array, by their ascending numbers among all rows."""
        return _together(self.list(_rows, name, start=True, places=np.asarray(places)))

    def load(self, block: int, name: str) -> Any:
        """The array of one block."""
        if self.folder is None:
            if name not in self._held:
                raise UnknownName.of("array", name, self._held)
            return self._held[name][block]
        return files.read(_place(self.folder, block, name), n_rows=self.sizes[block])

    def put(self, name: str, array: Any) -> None:
        """Cut an array of all rows into blocks, and keep it."""
        self.fill(name, [array])

    def fill(self, name: str, chunks: Iterable[Any]) -> None:
        """Cut what comes chunk by chunk into blocks, and keep it; a block of it is held at a time."""
        parts = []
        for number, part in enumerate(_cut(name, iter(chunks), self.sizes)):
            if self.folder is None:
                parts.append(part)
            else:
                files.write(_place(self.folder, number, name), part)
        if self.folder is None:
            self._held[name] = parts

    def drop(self, name: str) -> None:
        """Forget an array, if it is there."""
        self._held.pop(name, None)
        if self.folder is not None:
            for number in range(len(self.sizes)):
                _place(self.folder, number, name).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        """Whether an array is there for every block, as it was written."""
        if self.folder is None:
            return name in self._held
        return all(self._holds(number, (name,)) for number in range(len(self.sizes)))

    def __contains__(self, name: object) -> bool:
        if self.folder is None:
            return name in self._held
        numbers = range(len(self.sizes))
        return all(_place(self.folder, each, str(name)).exists() for each in numbers)

    def __getstate__(self) -> dict[str, Any]:
        """To travel without who does the work: a function of one block may read the others."""
        return {**self.__dict__, "run": map}

    def _told(self, work: _Work, parts: builtins.list[_Part], progress: Progress) -> Iterator[Any]:
        """Results in the order of the parts; each is told as done."""
        progress(0, max(1, len(parts)))
        for done, found in enumerate(self.run(work, parts), 1):
            yield found
            progress(done, len(parts))
        if not parts:
            progress(1, 1)

    def _holds(self, number: int, names: Sequence[str]) -> bool:
        """Whether the files of a block are there as they were written."""
        assert self.folder is not None
        places = [_place(self.folder, number, name) for name in names]
        return all(files.is_whole(each, self.sizes[number]) for each in places)

    def _parts(self, names: Sequence[str]) -> builtins.list[_Part]:
        held = self.folder is None
        return [
            _Part(
                number,
                self.starts[number],
                size,
                tuple(self.load(number, name) for name in names) if held else self.folder,
            )
            for number, size in enumerate(self.sizes)
        ]


class _Part(NamedTuple):
    """A block on its way to who works on it: its arrays, or where they are."""

    number: int
    start: int
    n_rows: int
    arrays: tuple[Any, ...] | Path | None


@dataclass(frozen=True, eq=False)
class _Work:
    """A function of a block with all that it is given beside the block."""

    function: Callable[..., Any]
    names: Sequence[str]
    small: dict[str, Any]
    start: bool
    into: tuple[str, ...] = ()
    folder: Path | None = None  # where results are kept, if not by who asked

    def __call__(self, part: _Part) -> Any:
        small = {**self.small, "start": part.start} if self.start else self.small
        if isinstance(part.arrays, tuple):
            arrays: Iterable[Any] = part.arrays
        else:
            home = Path(part.arrays)  # type: ignore[arg-type]
            places = (_place(home, part.number, name) for name in self.names)
            arrays = [files.read(place, n_rows=part.n_rows) for place in places]
        found = self.function(*arrays, **small)
        if not self.into:
            return found
        results = found if isinstance(found, tuple) else (found,)
        kept, told = results[: len(self.into)], results[len(self.into) :]
        return self._kept(part, kept), told

    def _kept(self, part: _Part, found: Sequence[Any]) -> Sequence[Any]:
        for name, array in zip(self.into, found, strict=True):
            if len(array) != part.n_rows:
                raise AlignmentError(
                    f"{name!r} of block {part.number} has {len(array)} entries for {part.n_rows} rows; "
                    "give one per row"
                )
            if self.folder is not None:
                files.write(_place(self.folder, part.number, name), array)
        return found if self.folder is None else ()


def added(a: Any, b: Any) -> Any:
    """The sum of two results of blocks, part by part; what adds itself is left to do so."""
    if isinstance(a, tuple):
        parts = [added(x, y) for x, y in zip(a, b, strict=True)]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, dict):
        return {name: added(a[name], b[name]) for name in a}
    if is_dataclass(a) and not hasattr(a, "__add__"):
        return cast(Any, type(a))(
            *(added(getattr(a, each.name), getattr(b, each.name)) for each in fields(a))
        )
    return None if a is None else a + b


def _rows(array: Any, *, places: np.ndarray, start: int) -> Any:
    first, last = np.searchsorted(places, [start, start + len(array)])
    mine = places[first:last] - start
    return array[mine] if isinstance(array, np.ndarray) else array.take(mine)


def _cut(name: str, chunks: Iterator[Any], sizes: Sequence[int]) -> Iterator[Any]:
    """Chunks of any length as blocks of these sizes; refuses other numbers of rows."""
    held, count = builtins.list[Any](), 0
    for size in sizes:
        while not held or count < size:
            chunk = next(chunks, None)
            if chunk is None:
                break
            held.append(chunk)
            count += len(chunk)
        if count < size or not held:
            break
        whole = _together(held)
        yield whole[:size]
        held, count = [whole[size:]], count - size
    else:
        count += sum(map(len, chunks))
        if not count:
            return
    raise AlignmentError(
        f"{name!r} has not {sum(sizes)} rows, which the blocks have; give one entry per row"
    )


def _together(parts: builtins.list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pyarrow as pa

    return pa.concat_tables(parts)


def _place(folder: Path, number: int, name: str) -> Path:
    return folder / f"{number:05d}.{name}.npy"
