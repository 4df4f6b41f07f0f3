"""The vectors of a project's rows: given in files, joined by id, or made by its encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from .. import mapped
from ..encoders import Encoder, column_of, resolve
from ..errors import AlignmentError, StoreError, VectorError
from ..inputs import as_float32, as_table
from ..progress import Progress, silent
from ..storage import open_regular, read_arrays, write_arrays
from .read import ROWS_FILE, ProjectRows, as_new
from .settings import Project
from .tables import (
    ids_for,
    ids_in,
    joined_by_id,
    list_column,
    numbers,
    read_rows,
    vectors_for,
    vectors_in,
)

LEARNED = 100_000
"""Train rows from which an encoder that learns (LSA) learns at most, evenly apart."""


def read_vectors(
    project: Project,
    rows: ProjectRows,
    progress: Progress,
    new: tuple[Path, Path | None] | None = None,
) -> list[np.ndarray | None]:
    """A vector per row of every split, or None where the project has none.

    `new` is the file of new rows, the last split, and one of their vectors where the project's is not.
    """
    if not project.embeds:
        return [None] * len(rows.tables)
    if not _are_given(project):
        return list(_embedded(project, rows, progress))
    if new is None:
        return list(_given(project, rows))
    last = {each.name: getattr(rows, each.name) for each in fields(rows)}
    last |= {name: each[-1:] for name, each in last.items() if isinstance(each, tuple)}
    last["files"] = (ROWS_FILE,)
    own, (file, vectors) = as_new(project, new[0]), new
    if vectors is not None:
        own = structs.replace(own, encoder=str(vectors), vector_ids=None)
    elif own.encoder.endswith(".npy") and own.vector_ids is None:
        cure = "write one, or give a file of theirs: --vectors FILE.npy"
        own = structs.replace(
            own, encoder=f"column:{list_column(rows.tables[-1].schema, file, cure)}"
        )
    first = len(rows.files)
    old = replace(rows, ids=rows.ids[:first], tables=rows.tables[:first])
    old = replace(old, positions=rows.positions[:first])
    return [*_given(project, old), *_given(own, ProjectRows(**last))]


def _are_given(project: Project) -> bool:
    """Whether vectors are read, and not made."""
    ends = project.encoder.endswith((".npy", ".parquet"))
    return ends or project.vector_column is not None


def _given(project: Project, rows: ProjectRows) -> list[np.ndarray]:
    """Vectors that files hold."""
    if project.vector_ids is not None:
        found = vectors_named(project, _loaded(Path(project.encoder)), rows.ids)
    elif project.encoder.endswith(".npy"):
        found = _vectors_from_files(project, rows)
    elif project.vector_column is not None:
        name = project.vector_column
        found = [vectors_in(each.column(name), name) for each in rows.tables]
    else:
        found = vectors_by_id(project, rows.ids)
    return _finite(rows, found)


def _finite(rows: ProjectRows, found: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Vectors that were given as float32; names the first row of a file that has none to use."""
    try:
        return [as_float32(each) for each in found]
    except VectorError:
        for file in dict.fromkeys(rows.files):
            mine = [at for at, name in enumerate(rows.files) if name == file]
            order = np.argsort(np.concatenate([rows.positions[at] for at in mine]))
            ids = np.concatenate([rows.ids[at] for at in mine])[order].tolist()
            as_float32(np.concatenate([found[at] for at in mine])[order], name=ids.__getitem__)
        raise


def _embedded(project: Project, rows: ProjectRows, progress: Progress) -> list[np.ndarray]:
    """Vectors by the project's encoder; those of one that learns from the rows are kept while they stay.

    To learn it again takes seconds in every command, and to import what it is learned with one more.
    """
    encoder = resolve(project.encoder)
    kept_too = hasattr(encoder, "settings") and len(rows.tables) == len(rows.files)
    place = _place(project, encoder, rows) if kept_too else None
    sizes = {name: table.num_rows for name, table in zip(("train", "dev"), rows.tables)}
    kept = None if place is None else read_arrays(place, tuple(sizes), mapped.empty)
    if kept is not None and {name: len(each) for name, each in kept.items()} == sizes:
        progress(1, 1)
        return [kept[name] for name in sizes]
    fitted = fitted_encoder(project, rows.tables[0], encoder)
    found = [encoded(project, fitted, table, progress) for table in rows.tables]
    if place is not None:
        with suppress(StoreError):  # a folder that cannot be written: they are learned again
            write_arrays(place, dict(zip(sizes, found)))
            for other in place.parent.glob("*-*.npz"):
                if other != place:
                    other.unlink(missing_ok=True)
    return found


def fitted_encoder(project: Project, train: Any, encoder: Encoder) -> Encoder:
    """An encoder that has learned from the train rows what it learns."""
    if train.num_rows > LEARNED:
        train = train.take(numbers(np.linspace(0, train.num_rows - 1, LEARNED).astype(np.int64)))
    return encoder.fit(encoder.prepare(column_of(train, project.encoded)))


def encoded(project: Project, encoder: Encoder, table: Any, progress: Progress) -> np.ndarray:
    """The vectors of a table's rows."""
    n_rows, size = table.num_rows, mapped.rows_at_once(table.num_rows)
    ends = [(at, min(size, n_rows - at)) for at in range(0, n_rows, size)]
    if len(ends) < 2:
        return _Encode(encoder, project.encoded)(table, progress)
    parts = [mapped.rows_of(table, *each) for each in ends]
    found: list[np.ndarray] = []
    at = 0

    def put(part: Any, vectors: np.ndarray) -> None:
        nonlocal at
        if not found:
            found.append(mapped.empty((n_rows, vectors.shape[1]), np.float32))
        found[0][at : at + len(vectors)] = vectors
        at += len(vectors)

    mapped.each(_Encode(encoder, project.encoded), parts, put, progress, threads=False)
    return found[0]


@dataclass(frozen=True, eq=False)
class _Encode:
    """Vectors of some rows."""

    encoder: Encoder
    column: Any

    def __call__(self, part: Any, progress: Progress = silent) -> np.ndarray:
        rows = self.encoder.prepare(column_of(mapped.opened(part), self.column))
        return as_float32(np.asarray(self.encoder.encode(rows, progress=progress)))


def _place(project: Project, encoder: Any, rows: ProjectRows) -> Path:
    """Where vectors that were learned from these rows are kept."""
    text = "\n".join([encoder.settings, str(project.encoded), *rows.keys])
    name = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return project.cache / "vectors" / f"learned-{name}.npz"


def _vectors_from_files(project: Project, rows: ProjectRows) -> list[np.ndarray]:
    """Row-aligned .npy files: one for the rows file, and one for the dev file if there is one."""
    files = [Path(project.encoder)]
    if project.dev is not None and len(rows.tables) > 1:
        if project.dev_vectors is None:
            raise AlignmentError(
                f"{project.folder} has a dev file and vectors for the rows only; "
                'name the dev vectors too: dev = "….npy" under [vectors]'
            )
        files.append(project.dev_vectors)
    loaded = [_loaded(each) for each in files]
    if project.dev is not None:
        expected = [len(each) for each in rows.positions]
    else:
        expected = [sum(len(each) for each in rows.positions)]
    for file, each, count in zip(files, loaded, expected):
        if len(each) != count:
            raise AlignmentError(vectors_for(file, len(each), count))
    if project.dev is None:
        loaded *= len(rows.positions)
    taken = (mapped.take(each, rows, np.float32) for each, rows in zip(loaded, rows.positions))
    return list(taken)


def _loaded(file: Path) -> np.ndarray:
    try:
        open_regular(file).close()
        # mapped, so that a header that claims more than the file holds is refused
        found = mapped.load(file)
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise StoreError(
            f"{file} cannot be read as vectors ({error}); save one array of rows × dimension there"
        ) from error
    return as_table(found, str(file))


def vectors_by_id(project: Project, named: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Vectors in a Parquet file of their own, for rows of these names in each split."""
    table = read_rows(project.encoder, "check encoder under [vectors]", naming=project.naming)
    name = list_column(table.schema, project.encoder)
    vectors = vectors_in(table.column(name), name)
    places = ids_in(table, project, project.encoder)
    return [mapped.take(vectors, joined_by_id(places, ids, project.encoder)) for ids in named]


def vectors_named(
    project: Project, vectors: np.ndarray, named: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Vectors whose ids stand in a file beside them, for rows of these names in each split."""
    assert project.vector_ids is not None
    table = read_rows(project.vector_ids, "check ids under [vectors]", naming=project.naming)
    places = ids_in(table, project, project.vector_ids)
    if len(vectors) != table.num_rows:
        raise AlignmentError(ids_for(project.encoder, len(vectors), project.vector_ids, len(table)))
    found = (joined_by_id(places, ids, project.vector_ids) for ids in named)
    return [mapped.take(vectors, each, np.float32) for each in found]
