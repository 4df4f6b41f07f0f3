"""Votes and vectors that came in Parquet files of their own, brought to rows by their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AlignmentError, StoreError, UnknownName, VectorError, VoteError
from ..votes import ABSTAIN
from .project import Project
from .rows_files import label_of, read_rows


def vectors_by_id(project: Project, named: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Vectors in a Parquet file of their own, for rows of these names in each split."""
    table = read_rows(project.encoder, "check encoder under [vectors]", naming=project.naming)
    name = list_column(table.schema, project.encoder)
    vectors = vectors_in(table.column(name), name)
    places = ids_in(table, project, project.encoder)
    return [vectors[joined_by_id(places, ids, project.encoder)] for ids in named]


def vectors_named(
    project: Project, vectors: np.ndarray, named: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Vectors whose ids stand in a file beside them, for rows of these names in each split."""
    assert project.vector_ids is not None
    table = read_rows(project.vector_ids, "check ids under [vectors]", naming=project.naming)
    places = ids_in(table, project, project.vector_ids)
    if len(vectors) != table.num_rows:
        raise AlignmentError(ids_for(project.encoder, len(vectors), project.vector_ids, len(table)))
    return [vectors[joined_by_id(places, ids, project.vector_ids)] for ids in named]


def ids_for(file: str | Path, n_vectors: int, ids: Path, n_ids: int) -> str:
    """What to say of vectors and ids that are not as many."""
    return (
        f"{file} has {n_vectors} vectors and {ids} has {n_ids} ids; write one id for every vector, "
        "in their order"
    )


def vectors_for(file: str | Path, n_vectors: int, n_rows: int) -> str:
    """What to say of a file of vectors that are not as many as rows."""
    return (
        f"{file} has {n_vectors} vectors for {n_rows} rows; write one for every row, in the order "
        "of the rows"
    )


def ready_made(project: Project, named: Sequence[np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
    """Votes that came in a Parquet file, for rows of these names in each split: a column a source."""
    assert project.votes is not None
    table = read_rows(project.votes, "check file under [votes]", naming=project.naming)
    places = ids_in(table, project, project.votes)
    at = [joined_by_id(places, ids, project.votes) for ids in named]
    found = {}
    for name in vote_columns(table.column_names, project, project.votes):
        votes = votes_in(table.column(name), name, project.classes)
        found[name] = tuple(np.ascontiguousarray(votes[each]) for each in at)
    return found


def vote_columns(names: Sequence[str], project: Project, file: str | Path) -> tuple[str, ...]:
    """The sources that voted in a file: all columns but the id."""
    found = tuple(name for name in names if name != project.id)
    if not found:
        raise StoreError(f"{file} has no column of votes; write one for each source")
    return found


def votes_in(column: Any, source: str, classes: tuple[str, ...]) -> np.ndarray:
    """A column of class indices or class names as votes; null and −1 abstain."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        found = pc.fill_null(column, ABSTAIN).to_numpy()
    else:
        at = pc.index_in(column.cast(pa.string()), value_set=pa.array(classes))
        unknown = pc.and_(pc.is_null(at), pc.is_valid(column))
        if pc.any(unknown).as_py():
            first = column.filter(unknown)[0].as_py()
            raise VoteError(
                f"source {source!r} votes {first!r}; expected one of {list(classes)} or null"
            )
        found = pc.fill_null(at, ABSTAIN).to_numpy()
    if len(found) and (found.min() < ABSTAIN or found.max() >= len(classes)):
        raise VoteError(
            f"source {source!r} votes with numbers from {found.min()} to {found.max()}; "
            f"expected −1, or less than {len(classes)}, the number of classes"
        )
    return np.asarray(found, dtype=np.int8 if len(classes) <= 127 else np.int16)


def list_column(schema: Any, file: str | Path, cure: str = "write one, with the vectors") -> str:
    """The one column of a file that holds vectors."""
    import pyarrow as pa

    kinds = (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)
    found = [each.name for each in schema if any(kind(each.type) for kind in kinds)]
    if len(found) != 1:
        raise VectorError(
            f"vectors are one column of lists, and {file} has {found or 'none'}; {cure}"
        )
    return str(found[0])


def nameless(ids: Sequence[Any]) -> np.ndarray:
    """Where an id is missing: null, NaN, or blank, as an empty cell of a CSV file is."""
    return np.array([at for at, each in enumerate(ids) if label_of(each) is None], dtype=np.intp)


def check_named(
    rows: np.ndarray, column: str | None, file: Any, cure: str = "give every row an id of its own"
) -> None:
    """Refuse a file some of whose rows, by their numbers, have no id."""
    if len(rows):
        raise AlignmentError(
            f"{file} has no id in its column {column!r} for {len(rows)} rows, numbers "
            f"{np.sort(rows)[:5].tolist()}; {cure}"
        )


def ids_in(table: Any, project: Project, file: str | Path) -> dict[str, int]:
    """Where each id stands in a table; refuses ids that repeat or are missing."""
    if project.id not in table.column_names:
        raise UnknownName.of(f"column of {file}", str(project.id), table.column_names)
    given = table.column(project.id).to_pylist()
    check_named(nameless(given), project.id, file)
    names = [str(each) for each in given]
    found = {name: at for at, name in enumerate(names)}
    if len(found) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise AlignmentError(
            f"{file} names {len(twice)} rows twice in its column {project.id!r}: {twice[:5]}; "
            "give every row an id of its own"
        )
    return found


def joined_by_id(places: Mapping[str, int], ids: np.ndarray, file: str | Path) -> np.ndarray:
    """Where the rows with these ids stand in another table."""
    names = [str(each) for each in ids.tolist()]
    lost = [name for name in names if name not in places]
    if lost:
        raise AlignmentError(
            f"{file} has no row for {len(lost)} ids of the rows: {lost[:5]}; "
            "write one for every row, under the same id"
        )
    return np.array([places[name] for name in names], dtype=np.intp)


def vectors_in(column: Any, name: str) -> np.ndarray:
    """An Arrow column of lists of equal length as float32 vectors."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        raise VectorError(
            f"column {name!r} has {column.null_count} rows without a vector; embed them"
        )
    if isinstance(column, pa.ChunkedArray):
        parts = [vectors_in(chunk, name) for chunk in column.chunks]
        if len({each.shape[1] for each in parts}) > 1:
            raise VectorError(
                f"column {name!r} has vectors of different lengths; embed all rows alike"
            )
        return np.concatenate(parts)
    kind = column.type
    fixed = pa.types.is_fixed_size_list(kind)
    if not (fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise VectorError(f"column {name!r} holds {kind}, not vectors; write lists of numbers")
    lengths = [kind.list_size] if fixed else pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        raise VectorError(f"column {name!r} has vectors of different lengths; embed all rows alike")
    values = column.flatten()
    if values.null_count:
        raise VectorError(
            f"column {name!r} has vectors with missing numbers; embed these rows again"
        )
    found = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return np.asarray(found.reshape(len(column), -1))
