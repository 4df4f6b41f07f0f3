"""Read a folder in the form of the WRENCH benchmark.

    label.json                       {"0": "ham", "1": "spam"}
    train.json valid.json test.json  {"0": {"label": 1, "weak_labels": [1, -1], "data": {"text": "…"}}}

Only classification is read. The pickled features beside some of these folders are not: opening
a pickle runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..errors import StoreError
from ..votes import Split, Votes
from .dataset import Dataset
from .folder import fitting, read_json, require_folder

_FILES = {"train": "train.json", "dev": "valid.json", "test": "test.json"}


class WrenchRow(msgspec.Struct):
    """One row of a split."""

    label: int
    weak_labels: list[int]
    data: dict[str, Any]


def read_wrench(folder: str | Path) -> Dataset:
    """Read a WRENCH folder; its `valid` rows become `dev`, and sources are called lf0, lf1, ….

    True labels of the train rows are kept out of the split: see `Dataset.truth`. A label of −1 is
    unknown.
    """
    where = require_folder(folder)
    names = read_json(where / "label.json", dict[str, str])
    if set(names) != set(map(str, range(len(names)))):
        raise StoreError(
            f"{where / 'label.json'} numbers its classes {list(names)[:10]}, expected 0 to "
            f"{len(names) - 1}"
        )
    classes = tuple(names[str(index)] for index in range(len(names)))
    splits, tables = {}, {}
    for name, file in _FILES.items():
        if name == "train" or (where / file).is_file():
            splits[name], tables[name] = _split(where / file, classes)
    sources = {name: split.votes.n_sources for name, split in splits.items()}
    if len(set(sources.values())) > 1:
        raise StoreError(
            f"the splits in {where} have different numbers of weak labels per row, {sources}; "
            "they do not belong together"
        )
    return Dataset.sealed(where.name, classes, splits, tables)


def _split(file: Path, classes: tuple[str, ...]) -> tuple[Split, Any]:
    import pyarrow as pa

    records = read_json(file, dict[str, WrenchRow])
    if not records:
        raise StoreError(f"{file} holds no rows; fetch it again")
    ids, rows = list(records), list(records.values())
    n_sources = len(rows[0].weak_labels)
    for key, row in records.items():
        if len(row.weak_labels) != n_sources:
            raise StoreError(
                f"row {key!r} of {file} has {len(row.weak_labels)} weak labels, "
                f"the first row has {n_sources}; fetch the file again"
            )
    matrix = np.array([row.weak_labels for row in rows]).reshape(len(rows), n_sources)
    with fitting(f"{file} does not fit label.json"):
        votes = Votes(matrix, [f"lf{index}" for index in range(n_sources)], classes)
        whole = Split(votes, None, [row.label for row in rows], ids)
    columns = dict.fromkeys(column for row in rows for column in row.data)
    data = {column: [row.data.get(column) for row in rows] for column in columns}
    return whole, pa.table({"id": ids, **data})
