"""Read a folder in the form of the WRENCH benchmark.

    label.json                       {"0": "ham", "1": "spam"}
    train.json valid.json test.json  {"0": {"label": 1, "weak_labels": [1, -1], "data": {"text": "…"}}}

Only classification is read. The pickled features beside some of these folders are not: opening
a pickle runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StoreError
from ..votes import Split, Votes
from .dataset import Dataset
from .folder import fitting, read_json, require_folder

_FILES = {"train": "train.json", "dev": "valid.json", "test": "test.json"}


def read_wrench(folder: str | Path) -> Dataset:
    """Read a WRENCH folder; its `valid` rows become `dev`, and sources are called lf0, lf1, ….

    True labels of the train rows are kept out of the split: see `Dataset.truth`. A label of −1 is
    unknown.
    """
    where = require_folder(folder)
    classes = _classes(where / "label.json")
    if not (where / _FILES["train"]).is_file():
        raise StoreError(f"{where / 'train.json'} is missing; the folder is not a WRENCH data set")
    splits, tables = {}, {}
    for name, file in _FILES.items():
        if (where / file).is_file():
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

    records = read_json(file)
    if not records:
        raise StoreError(f"{file} holds no rows; fetch it again")
    for key, record in records.items():
        _check(file, key, record)
    rows = list(records.values())
    sources = [f"lf{index}" for index in range(len(rows[0]["weak_labels"]))]
    matrix = _matrix(file, records, len(sources))
    with fitting(f"{file} does not fit label.json"):
        votes = Votes(matrix, sources, classes)
        whole = Split(votes, None, [row["label"] for row in rows], list(records))
    columns = dict.fromkeys(column for row in rows for column in row["data"])
    data = {column: [row["data"].get(column) for row in rows] for column in columns}
    return whole, pa.table({"id": list(records), **data})


def _check(file: Path, key: str, record: Any) -> None:
    wanted = {"label": int, "weak_labels": list, "data": dict}
    for field, kind in wanted.items():
        value = record.get(field) if isinstance(record, Mapping) else None
        if not isinstance(value, kind):
            raise StoreError(
                f"row {key!r} of {file} has {field} = {value!r:.40}, expected {kind.__name__}; "
                "only classification sets can be read"
            )


def _matrix(file: Path, records: Mapping[str, Any], n_sources: int) -> np.ndarray:
    for key, record in records.items():
        if len(record["weak_labels"]) != n_sources:
            raise StoreError(
                f"row {key!r} of {file} has {len(record['weak_labels'])} weak labels, "
                f"the first row has {n_sources}; fetch the file again"
            )
    matrix = [record["weak_labels"] for record in records.values()]
    return np.array(matrix).reshape(len(matrix), n_sources)


def _classes(file: Path) -> tuple[str, ...]:
    names = read_json(file)
    expected = [str(index) for index in range(len(names))]
    if sorted(names, key=lambda key: (len(key), key)) != expected:
        raise StoreError(
            f"{file} numbers its classes {list(names)[:10]}, expected 0 to {len(names) - 1}"
        )
    return tuple(str(names[key]) for key in expected)
