"""Tomorrow's rows: labels for rows of another file by the model that the project's rows made.

The model is that of the last run, read back from what its stages kept, or made now where something
changed since. Who lends to the new rows is asked shard by shard; no other old row is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ParameterError, UnknownName
from ..inputs import as_float32
from ..loans import Loans
from ..project.settings import Project
from ..project.tables import ids_in, list_column, read_rows, vectors_in, votes_in
from ..session.export import format_of, label_columns, write_table, written_ids
from ..votes import ABSTAIN
from .lending import lend_to_few
from .opening import World
from .paper import Concluded
from .vectors import Encoding, JoinedVectors, VectorColumn, VectorFile
from .voting import Functions, vote_dtype, vote_on


def rows_in(project: Project, file: Path) -> Any:
    """The new rows, whose ids name them."""
    table = read_rows(file, "check --new", naming=project.naming)
    if project.id is not None:
        ids_in(table, project, file)
    return table


def place_for(project: Project, file: Path, to: Path | None) -> Path:
    """Where their labels are written; never over those of the project's own rows."""
    target = project.labels / f"{file.stem}.parquet" if to is None else to
    if to is None and target == project.labels / "labels.parquet":
        raise ParameterError(
            f"labels of {file} would be written over those of the project's rows, {target}; "
            "name another file: --to FILE"
        )
    format_of(target)
    return target


def label_rows(
    world: World, found: Concluded, file: Path, vectors: Path | None, target: Path
) -> tuple[Path, int]:
    """Write a label for every row of a file, so many rows at a time; where, and how many."""
    import pyarrow as pa

    table = rows_in(world.project, file)
    every = _vectors(world, table, file, vectors)
    parts = []
    for start in range(0, table.num_rows, world.fits):
        rows = table.slice(start, world.fits)
        some = None if every is None else every[start : start + world.fits]
        parts.append(_labelled(world, found, rows, some, start))
    return write_table(pa.concat_tables(parts), target, format_of(target)), table.num_rows


def _labelled(
    world: World, found: Concluded, rows: Any, vectors: np.ndarray | None, start: int
) -> Any:
    import pyarrow as pa

    own = _votes(world, rows, vectors)
    loans = [Loans.nobody(each) for each in own]
    if found.lending is not None and vectors is not None:
        at = np.flatnonzero(found.made.lending >= 0)
        near = lend_to_few(world.run, found.lending, vectors, own[at], "new-reach")
        for number, each in zip(found.made.lending[at].tolist(), at.tolist()):
            lent = (near.lender[number], near.distance[number], near.vote[number])
            loans[each] = Loans(own[each], *lent)
    proba = found.answer(loans, vectors)
    votes = np.zeros((2, rows.num_rows), dtype=np.int64)
    for lent_by, far in zip(loans, found.made.radii):
        votes[0] += lent_by.own != ABSTAIN
        votes[1] += lent_by.lent(far)
    ids: Any = np.arange(start, start + rows.num_rows)
    if world.project.id is not None:
        ids = written_ids(rows.column(world.project.id))
    nothing: np.ndarray = np.full(rows.num_rows, ABSTAIN)
    label = found.made.rule(proba).astype(np.int64)
    classes = world.project.classes
    both = (votes[0], votes[1])
    return pa.table(label_columns(classes, ids, proba, label, both, nothing, nothing))


def _votes(world: World, rows: Any, vectors: np.ndarray | None) -> np.ndarray:
    """Votes of the active sources; (n_sources, n_rows)."""
    names, classes = world.few.names, world.project.classes
    if isinstance(world.functions, Functions):
        liked = world.likes.on_rows(vectors, np.empty(0, int), (), vote_dtype(classes))
        mine = {name: column for name, column in liked.items() if name in names}
        found, lost = vote_on(world.functions, rows, names, classes, mine)
        if lost is not None:
            raise ParameterError(f"function {lost.name!r} failed on new rows: {lost}; correct it")
        return found
    for name in names:
        if name not in rows.column_names:
            raise UnknownName.of("column of votes in the new rows", name, rows.column_names)
    return np.stack([votes_in(rows.column(name), name, classes) for name in names])


def _vectors(world: World, table: Any, file: Path, given: Path | None) -> np.ndarray | None:
    """Vectors of the new rows, made or read as those of the old ones."""
    source = world.given
    if source is None:
        return None
    if given is not None:
        read = VectorFile.of(given, table.num_rows)
        found = read.rows(0, read.n_rows)
    elif isinstance(source, Encoding):
        found = source.of(table)
    elif isinstance(source, JoinedVectors):
        if source.other.id not in table.column_names:
            raise UnknownName.of("column of the new rows", source.other.id, table.column_names)
        found = source.of(table.column(source.other.id).to_pylist())
    else:
        cure = "write one, or give a file of theirs: --vectors FILE.npy"
        name = (
            source.column
            if isinstance(source, VectorColumn)
            else list_column(table.schema, file, cure)
        )
        if name not in table.column_names:
            raise UnknownName.of(f"column of {file}", name, table.column_names)
        found = vectors_in(table.column(name), name)
    assert world.vectors is not None
    if found.shape[1] != world.vectors.dimension:
        raise ParameterError(
            f"new rows have vectors of dimension {found.shape[1]}, the project's have "
            f"{world.vectors.dimension}; embed them with the same encoder"
        )
    column = world.project.id

    def id_of(row: int) -> Any:
        return row if column is None else table.column(column)[row].as_py()

    return as_float32(found, name=id_of)
