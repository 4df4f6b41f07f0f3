"""Tomorrow's rows: labels for rows of another file by the model that the project's rows made.

They are taken into blocks as the project's own rows are, functions vote on them, they are embedded, and
they ask the project's rows who lends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from ..errors import ParameterError, UnknownName
from ..project.settings import Project
from ..project.tables import list_column, stream_rows, votes_in
from ..session.export import format_of
from .opened import Opened
from .source import Room, Taken, array_of, take


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


def take_new(project: Project, file: Path, vectors: Path | None, home: Path, room: Room) -> Taken:
    """Take up the new rows; vectors are read where the project says, or from a file of their own."""
    schema = stream_rows(file, "check --new", project.naming)[0]
    encoder, ids = project.encoder, project.vector_ids
    if vectors is not None and project.embeds:
        encoder, ids = str(vectors), None
    elif encoder.endswith(".npy") and ids is None:
        cure = "write one, or give a file of theirs: --vectors FILE.npy"
        encoder = f"column:{list_column(schema, file, cure)}"
    rows = replace(
        project,
        rows=file,
        dev=None,
        dev_vectors=None,
        votes=None,
        encoder=encoder,
        vector_ids=ids,
        label=None,
        chosen=None,
        by=None,
    )
    return take(rows, home, room, 0)


def answered(made: Opened, new: Taken) -> None:
    """Have the votes and the vectors of the new rows, as the project's rows have them."""
    table, names = new.train, made.few.names
    if made.encoder is not None and not new.dimension:
        made.embed(table)
    elif made.vectors is not None and new.dimension != made.taken.dimension:
        raise ParameterError(
            f"new rows have vectors of dimension {new.dimension}, the project's have "
            f"{made.taken.dimension}; embed them with the same encoder"
        )
    if made.functions is None:
        for name in names:
            if name not in new.schema.names:
                raise UnknownName.of("column of votes in the new rows", name, new.schema.names)
        given: dict[str, Any] = {"names": names, "classes": made.project.classes}
        table.each(votes_block, "rows", into=[array_of(each) for each in names], **given)
    for lost in made.vote(table, names):
        if lost.kind != "raised":
            raise ParameterError(f"function {lost.name!r} failed on new rows: {lost}; correct it")


def votes_block(rows: Any, *, names: tuple[str, ...], classes: tuple[str, ...]) -> Any:
    """Votes that stand in columns of the rows."""
    found = tuple(votes_in(rows.column(name), name, classes) for name in names)
    return tuple(map(np.ascontiguousarray, found))
