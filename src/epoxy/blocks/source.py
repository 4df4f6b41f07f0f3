"""The rows of a project, from any file, taken into folders of blocks once: rows, vectors, votes.

Files are read a batch at a time, and what is joined by id is joined by DuckDB, which spills to the disk
where its memory ends. Rows without a true label make the table `train`, the others, or those of a dev
file, the table `dev`. `taken.json` is written last: it says of which files this was made, so that
unchanged files are not read again, and what is damaged is taken anew.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AlignmentError, EpoxyError, StoreError, VectorError
from ..inputs import as_float32
from ..progress import Progress, silent
from ..project.read import check_columns, in_both_files
from ..project.settings import Project
from ..project.tables import (
    checked_labels,
    ids_for,
    label_of,
    list_column,
    read_rows,
    stream_rows,
    vectors_for,
    vectors_in,
    vote_columns,
    votes_in,
)
from ..storage import write_whole
from . import files
from .budget import row_bytes, rows_within
from .joined import Joins
from .table import Blocks, Run

TAKING = "taking"
STRETCH = 4096
"""Vectors of a file read at a time."""


@dataclass(frozen=True, eq=False)
class Taken:
    """The rows of a project in blocks; each table has "rows" and "place", and what files have beside."""

    train: Blocks
    dev: Blocks | None
    key: str  # of what they hold
    schema: Any  # of the rows file
    sources: tuple[str, ...]  # of ready-made votes
    dimension: int  # of vectors that files hold, 0 for none
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Room:
    """What may be used: bytes of memory, rows of a block, and who works."""

    memory: int
    most: Callable[[int], int | None]  # rows of a block at most, by the number of all
    run: Run = map
    progress: Callable[[str], Progress] = lambda what: silent


def take(project: Project, home: Path, room: Room, n_functions: int) -> Taken:
    """Take up the rows of a project, unless what was taken before is still what its files hold."""
    about = json.dumps([_inputs(project), n_functions, room.memory, room.most(1 << 40)])
    kept = _kept(home, about, room)
    return _Taking(project, home, room, n_functions).take(about) if kept is None else kept


def array_of(source: str) -> str:
    """What the ready-made votes of a source are called in a table."""
    return f"given-{hashlib.blake2b(source.encode(), digest_size=8).hexdigest()}"


def _inputs(project: Project) -> dict[str, Any]:
    """Everything that decides what is taken: files by size and time, and how they are read."""
    found: dict[str, Any] = {"settings": repr((project.naming, project.classes, project.column))}
    encoder = Path(project.encoder) if project.encoder.endswith((".npy", ".parquet")) else None
    wanted = (project.dev, project.votes, encoder, project.vector_ids, project.dev_vectors)
    for path in (project.rows, *(each for each in wanted if each is not None)):
        inside = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        for file in inside:
            try:
                about = file.stat()
            except OSError:
                continue  # who reads it says what is wrong
            found[str(file)] = [about.st_size, about.st_mtime_ns]
    return found | {"vectors": project.encoder, "ids": str(project.vector_ids)}


def _kept(home: Path, about: str | None, room: Room) -> Taken | None:
    """What was taken before of these files, where all of it is there as it was written."""
    try:
        told = json.loads((home / "taken.json").read_text("utf-8"))
        inside = home / told["key"]
        schema = files.read(inside / "schema.npy").schema
        if told["about"] != about:
            return None
        train = Blocks.in_folder(inside / "train", told["train"], room.run)
        dev = Blocks.in_folder(inside / "dev", told["dev"], room.run) if told["dev"] else None
        more = told["key"], schema, tuple(told["sources"]), told["dimension"], tuple(told["notes"])
        arrays = told["arrays"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    whole = all(table.has(name) for table in (train, dev) if table for name in arrays)
    return Taken(train, dev, *more) if whole else None


def _settled(home: Path, told: dict[str, Any], room: Room) -> Taken:
    """Put what was taken in its place; where the files say what they said before, that stays."""
    place = home / str(told["key"])
    write_whole(home / "taken.json", json.dumps(told).encode())
    found = _kept(home, told["about"], room)
    if found is None:
        shutil.rmtree(place, ignore_errors=True)
        (home / TAKING).rename(place)
        found = _kept(home, told["about"], room)
    for other in home.iterdir():
        if other.is_dir() and other != place:
            shutil.rmtree(other, ignore_errors=True)
    if found is None:
        raise StoreError(f"{place} is not as it was just written; look at the disk, and run again")
    return found


class _Taking:
    """One reading of the files of a project."""

    def __init__(self, project: Project, home: Path, room: Room, n_functions: int) -> None:
        self.project, self.home, self.room, self.n_functions = project, home, room, n_functions
        self.id = project.id
        self.rows = partial(
            stream_rows, project.rows, "check the path under [rows]", project.naming
        )
        self.schema = self.rows()[0]
        self.apart = None
        if project.dev is not None:
            cure = "check dev under [rows]"
            self.apart = read_rows(project.dev, cure, naming=project.naming)
        check_columns(project, _Named(self.schema.names), self.apart)
        self.digest = hashlib.blake2b(digest_size=16)

    def take(self, about: str) -> Taken:
        """Read everything once, and write it in blocks."""
        shutil.rmtree(self.home / TAKING, ignore_errors=True)
        joins = None if self.id is None else Joins(self.home / TAKING, self.room.memory)
        try:
            told = self._take(joins)
        finally:
            if joins is not None:
                joins.close()
        return _settled(self.home, {"about": about, **told}, self.room)

    def _take(self, joins: Joins | None) -> dict[str, Any]:
        report = self.room.progress("reading rows")
        report(0, 1)
        is_dev = self._looked_at(joins)
        if is_dev.all() and self.apart is None:
            raise EpoxyError(
                f"every row of {self.project.rows} has a true label, so there is nothing to label; "
                "give rows without one, or name a dev file"
            )
        sources, votes = self._votes(joins)
        dimension, vectors = self._vectors(joins, len(is_dev))
        self.train, self.dev = self._cut(is_dev, dimension, len(sources) or self.n_functions)
        n_apart = 0 if self.apart is None else self.apart.num_rows
        self.is_dev = np.concatenate([is_dev, np.ones(n_apart, dtype=bool)])
        self._put("place", [np.arange(len(is_dev)), np.arange(n_apart)])
        names = [each for each in self.schema.names if each != self.project.vector_column]
        self._put("rows", self._batches(names, report, len(is_dev)))
        if self.dev is not None and self.apart is not None:
            self.digest.update(_bytes(self.apart))
            self.dev.put("rows", self.apart)
        if vectors is not None:
            self._put("vectors", self._finite(vectors, len(is_dev)))
        arrays = ["rows", "place", *(["vectors"] if vectors is not None else [])]
        if sources:
            names = [array_of(each) for each in sources]
            self._put_each(names, votes)
            arrays += names
        report(1, 1)
        files.write(self.home / TAKING / "schema.npy", self.schema.empty_table())
        return {
            "train": self.train.sizes,
            "dev": () if self.dev is None else self.dev.sizes,
            "arrays": arrays,
            "key": self.digest.hexdigest(),
            "sources": sources,
            "dimension": dimension,
            "notes": self._shared(joins),
        }

    def _looked_at(self, joins: Joins | None) -> np.ndarray:
        """Which rows of the rows file have a true label; ids and labels are checked on the way."""
        label = self.project.label if self.apart is None else None
        columns = [each for each in dict.fromkeys((self.id, label)) if each is not None]
        found: list[np.ndarray] = []

        def look() -> Iterator[Any]:
            at = 0
            for batch in self.rows(columns or self.schema.names[:1])[1]:
                known = np.zeros(len(batch), dtype=bool)
                if label is not None:
                    ids = None if self.id is None else batch.column(self.id)
                    known = _known(batch.column(label), self.project, at, ids)
                found.append(known)
                at += len(batch)
                if self.id is not None:
                    yield batch.column(self.id)

        if joins is None:
            for _ in look():
                pass
        else:
            joins.name_rows(look(), self.project.rows, str(self.id))
            if self.apart is not None:
                more = self.apart.column(self.id).chunks
                joins.name_rows(iter(more), self.project.dev, str(self.id))
        return np.concatenate(found)

    def _cut(
        self, is_dev: np.ndarray, dimension: int, n_sources: int
    ) -> tuple[Blocks, Blocks | None]:
        """Empty tables of blocks that fit into memory."""
        n_train = int(np.count_nonzero(~is_dev))
        each = row_bytes(self._text(len(is_dev)), dimension, n_sources, len(self.project.classes))
        most = rows_within(self.room.memory, each, str(self.project.folder))
        wanted = self.room.most(n_train)
        count = max(1, -(-n_train // (most if wanted is None else min(wanted, most))))
        ends = [round(n_train * at / count) for at in range(count + 1)]
        sizes, home = np.diff(ends).tolist(), self.home / TAKING
        self.digest.update(repr((sizes, self.id)).encode())
        train = Blocks.in_folder(home / "train", sizes, self.room.run)
        n_dev = int(np.count_nonzero(is_dev)) if self.apart is None else self.apart.num_rows
        if not n_dev:
            return train, None
        return train, Blocks.in_folder(home / "dev", [n_dev], self.room.run)

    def _text(self, n_rows: int) -> float:
        """Bytes of a row's columns, about, without its vector."""
        head = next(
            iter(
                self.rows(
                    [each for each in self.schema.names if each != self.project.vector_column]
                )[1]
            )
        )
        return float(head.nbytes / max(1, len(head)))

    def _put(self, name: str, chunks: Iterable[Any]) -> None:
        """Give each table its rows of an array of all rows, in the order of the files."""
        dev: list[Any] = []

        def train() -> Iterator[Any]:
            at = 0
            for chunk in chunks:
                mine = self.is_dev[at : at + len(chunk)]
                at += len(chunk)
                if mine.any():
                    dev.append(_chosen(chunk, mine))
                chunk = chunk if not mine.any() else _chosen(chunk, ~mine)
                self.digest.update(_bytes(chunk))
                yield chunk

        self.train.fill(name, train())
        for each in dev:
            self.digest.update(_bytes(each))
        if self.dev is not None and dev:
            self.dev.fill(name, dev)

    def _put_each(self, names: Sequence[str], chunks: Iterable[np.ndarray]) -> None:
        """The same for a table of votes, whose columns become arrays."""
        whole = np.concatenate(list(chunks), axis=1)
        for name, column in zip(names, whole):
            self._put(name, [column])

    def _batches(self, names: list[str], report: Progress, n_rows: int) -> Iterator[Any]:
        import pyarrow as pa

        at = 0
        for batch in self.rows(names)[1]:
            yield pa.Table.from_batches([batch])
            at += len(batch)
            report(at, 2 * n_rows)

    def _votes(self, joins: Joins | None) -> tuple[tuple[str, ...], Iterator[np.ndarray]]:
        """Ready-made votes of all rows, (n_sources, some rows) at a time."""
        project = self.project
        if project.votes is None:
            return (), iter(())
        assert joins is not None
        read = partial(stream_rows, project.votes, "check file under [votes]", project.naming)
        sources = vote_columns(read()[0].names, project, project.votes)
        tables = joins.joined(read, str(self.id), list(sources), project.votes)
        return sources, (
            np.stack([votes_in(each.column(name), name, project.classes) for name in sources])
            for each in tables
        )

    def _vectors(self, joins: Joins | None, n_rows: int) -> tuple[int, Iterator[np.ndarray] | None]:
        """The vectors of all rows that files hold, some rows at a time, and their dimension."""
        project, name = self.project, self.project.vector_column
        if not project.embeds:
            return 0, None
        if name is not None:
            found = self._from_column(name)
        elif project.vector_ids is not None:
            assert joins is not None
            cure = "check ids under [vectors]"
            read = partial(stream_rows, project.vector_ids, cure, project.naming)
            places = joins.places(read, str(self.id), project.vector_ids)
            file, count = _numbers(Path(project.encoder)), joins.n_given
            if len(file) != count:
                raise AlignmentError(ids_for(project.encoder, len(file), project.vector_ids, count))
            found = (file[places[at : at + STRETCH]] for at in range(0, len(places), STRETCH))
        elif project.encoder.endswith(".npy"):
            found = self._from_file(n_rows)
        elif project.encoder.endswith(".parquet"):
            assert joins is not None
            cure = "check encoder under [vectors]"
            read = partial(stream_rows, Path(project.encoder), cure, project.naming)
            name = list_column(read()[0], project.encoder)
            tables = joins.joined(read, str(self.id), [name], Path(project.encoder))
            found = (vectors_in(each.column(name), str(name)) for each in tables)
        else:
            return 0, None
        first = next(found)
        return int(first.shape[1]), _with_first(first, found)

    def _from_column(self, name: str) -> Iterator[np.ndarray]:
        for batch in self.rows([name])[1]:
            yield vectors_in(batch.column(name), name)
        if self.apart is not None:
            yield vectors_in(self.apart.column(name), name)

    def _from_file(self, n_rows: int) -> Iterator[np.ndarray]:
        project = self.project
        given = [(Path(project.encoder), n_rows)]
        if self.apart is not None:
            if project.dev_vectors is None:
                raise AlignmentError(
                    f"{project.folder} has a dev file and vectors for the rows only; "
                    'name the dev vectors too: dev = "….npy" under [vectors]'
                )
            given.append((project.dev_vectors, self.apart.num_rows))
        for path, count in given:
            file = _numbers(path)
            if len(file) != count:
                raise AlignmentError(vectors_for(path, len(file), count))
            for at in range(0, count, STRETCH):
                yield np.array(file[at : at + STRETCH])

    def _finite(self, chunks: Iterable[np.ndarray], n_rows: int) -> Iterator[np.ndarray]:
        """Vectors as float32, all of one dimension; one that is of no use is named by its row."""
        at, dimension = 0, None
        for chunk in chunks:
            dimension = chunk.shape[1] if dimension is None else dimension
            if chunk.shape[1] != dimension:
                raise VectorError(
                    f"vectors have different dimensions: {sorted((dimension, chunk.shape[1]))}; "
                    "write them again"
                )
            yield as_float32(chunk, name=partial(self._name, at, n_rows))
            at += len(chunk)

    def _name(self, start: int, n_rows: int, row: int) -> Any:
        """The id of a row, or its number in its file."""
        place = start + row
        if place >= n_rows and self.apart is not None:
            return place - n_rows if self.id is None else self.apart.column(self.id)[place - n_rows]
        if self.id is None:
            return place
        for batch in self.rows([self.id])[1]:
            if place < len(batch):
                return batch.column(0)[place].as_py()
            place -= len(batch)
        raise AssertionError

    def _shared(self, joins: Joins | None) -> list[str]:
        """What the rows file and a dev file of its own have in common, in words."""
        if self.apart is None:
            return []
        both = [] if joins is None else joins.in_both()
        column, same = self.project.column, list[str]()
        if column is not None:
            texts = self.apart.column(column)
            met = np.any(self.train.list(_meets, "rows", column=column, texts=texts), axis=0)
            ids = range(len(texts)) if self.id is None else self.apart.column(self.id).to_pylist()
            same = [str(each) for each, hit in zip(ids, met.tolist()) if hit]
        return in_both_files(both, same)


class _Named:
    """What is asked of a table whose rows are not read: its columns."""

    def __init__(self, names: list[str]) -> None:
        self.column_names = names


def _known(column: Any, project: Project, start: int, ids: Any) -> np.ndarray:
    """Which rows have a true label; a label that names no class is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(column.type) and not pc.any(pc.is_in(column, pa.array([""]))).as_py():
        named = pc.is_in(column, value_set=pa.array(project.classes))
        if pc.all(pc.or_(named, pc.is_null(column))).as_py() is not False:
            return np.asarray(named.to_numpy(zero_copy_only=False))
    labels = checked_labels(column, project.classes, project.rows, start=start, ids=ids)
    return np.array([each is not None for each in labels.tolist()], dtype=bool)


def _meets(rows: Any, *, column: str, texts: Any) -> np.ndarray:
    """Which of some texts the rows of a block say."""
    import pyarrow.compute as pc

    met = pc.is_in(texts, value_set=rows.column(column).combine_chunks())
    said = np.array([label_of(each) is not None for each in texts.to_pylist()], dtype=bool)
    hits: np.ndarray = met.to_numpy(zero_copy_only=False) & said
    return hits


def _numbers(path: Path) -> np.ndarray:
    """A .npy file of vectors, mapped."""
    try:
        found = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(
            f"{path} cannot be read as vectors ({error}); save one array of rows × dimension there"
        ) from error
    if found.ndim != 2 or found.dtype.kind not in "fiu":
        raise VectorError(
            f"{path} holds an array of shape {found.shape} and type {found.dtype}; save rows × "
            "dimension, numbers, one row after the other"
        )
    return found


def _with_first(first: np.ndarray, rest: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield first
    yield from rest


def _chosen(chunk: Any, mine: np.ndarray) -> Any:
    import pyarrow as pa

    return chunk[mine] if isinstance(chunk, np.ndarray) else chunk.filter(pa.array(mine))


def _bytes(chunk: Any) -> Any:
    """What a chunk holds, for a digest."""
    if isinstance(chunk, np.ndarray):
        return np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data
    return files.stream_of(chunk).data
