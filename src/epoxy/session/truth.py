"""The true labels in a file of rows; of one that names no class it is told whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LabelError, meant
from .project import Project
from .rows_files import label_of


def labels_in(table: Any, project: Project, file: Path) -> np.ndarray:
    """The class of each row by name, None where it is not known."""
    names = table.column_names
    if project.label is None or project.label not in names:
        return np.full(table.num_rows, None, dtype=object)
    ids = table.column(project.id) if project.id in names else None
    return checked_labels(table.column(project.label), project.classes, file, ids=ids)


def checked_labels(
    column: Any, classes: Sequence[str], file: Any, *, start: int = 0, ids: Any = None
) -> np.ndarray:
    """Labels of a file's rows from `start` on by name, None where there is none."""
    values = [label_of(value) for value in column.to_pylist()]
    known = set(classes)
    for at, value in enumerate(values):
        if value is not None and value not in known:
            name = None if ids is None else label_of(ids[at].as_py())
            where = f"row {start + at}" if name is None else f"the row with id {name!r}"
            raise LabelError(
                f"{file} has the label {value!r} on {where}; {meant(value, classes)}expected one of "
                f"{list(classes)} or nothing; correct it there, or see [classes] in epoxy.toml"
            )
    return np.array(values, dtype=object)
