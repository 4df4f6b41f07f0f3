"""Read a folder of Parquet rows with votes and vectors beside them.

meta.json             name, classes, sources, metric, positive
{split}.parquet       rows: id, label (a class name, null where unknown), and any other columns
votes-{split}.npy     class indices, −1 abstains; (n_rows, n_sources)
vectors-{split}.npy   one vector per row; optional
images-{split}.npy    one image per row; optional, not read, only pointed to
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EpoxyError, StoreError
from ..votes import Split, Votes
from .dataset import Dataset

_SPLITS = ("train", "dev", "test")


def read_folder(folder: str | Path) -> Dataset:
    """Read a data set in the form of this module's description.

    True labels of the train rows, where there are any, are kept out of the split: see
    `Dataset.truth`.
    """
    where = require_folder(folder)
    meta = _meta(where / "meta.json")
    found = [name for name in _SPLITS if (where / f"{name}.parquet").is_file()]
    if not found:
        raise StoreError(f"{where} holds none of train, dev and test.parquet; name another folder")
    classes = tuple(map(str, meta["classes"]))
    tables = {name: _rows(where / f"{name}.parquet") for name in found}
    splits = {
        name: _split(where, name, table, classes, tuple(meta["sources"]))
        for name, table in tables.items()
    }
    pictures = {name: where / f"images-{name}.npy" for name in found}
    return Dataset.sealed(
        str(meta.get("name", where.name)),
        classes,
        splits,
        tables,
        scoring=str(meta.get("metric") or "accuracy"),
        positive=None if meta.get("positive") is None else str(meta["positive"]),
        images={name: file for name, file in pictures.items() if file.is_file()},
    )


def _split(
    where: Path, name: str, table: Any, classes: tuple[str, ...], sources: tuple[str, ...]
) -> Split:
    matrix = _array(where / f"votes-{name}.npy")
    file = where / f"vectors-{name}.npy"
    vectors = _array(file) if file.is_file() else None
    _check_lengths(where, name, table.num_rows, {"votes": matrix, "vectors": vectors})
    labels = table["label"].to_pylist() if "label" in table.column_names else None
    ids = table["id"].to_pylist() if "id" in table.column_names else None
    with fitting(f"the {name} split in {where} does not fit together"):
        return Split(Votes(matrix, sources, classes), vectors, labels, ids)


def _check_lengths(where: Path, name: str, n_rows: int, arrays: dict[str, Any]) -> None:
    for kind, array in arrays.items():
        if array is not None and len(array) != n_rows:
            raise StoreError(
                f"{kind}-{name}.npy in {where} has {len(array)} rows and {name}.parquet has "
                f"{n_rows}; write both again from the same rows"
            )


def _meta(file: Path) -> dict[str, Any]:
    meta = read_json(file)
    missing = [key for key in ("classes", "sources") if not isinstance(meta.get(key), list)]
    if missing:
        raise StoreError(
            f"{file} lacks the lists {missing}; name the classes and the sources there"
        )
    return meta


def _rows(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{file} cannot be read as Parquet ({error}); write it again") from None


def _array(file: Path) -> np.ndarray:
    if not file.is_file():
        raise StoreError(f"{file} is missing; it holds one entry per row of the split")
    try:
        found: np.ndarray = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise StoreError(f"{file} cannot be read as an array ({error}); write it again") from None
    return found


def require_folder(folder: str | Path) -> Path:
    """The folder, or an error that says what is there instead."""
    where = Path(folder)
    if not where.is_dir():
        what = "is a file" if where.exists() else "does not exist"
        raise StoreError(f"{where} {what}; expected the folder of a data set")
    return where


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    if not file.is_file():
        raise StoreError(f"{file} is missing; the folder is not a data set of this form")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise StoreError(
            f"{file} cannot be read as JSON ({error}); it may have been cut short: fetch it again"
        ) from None
    if not isinstance(found, dict):
        raise StoreError(f"{file} holds a JSON {type(found).__name__}, expected an object")
    return found


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Say of what is found wrong with votes and labels inside which files they came from."""
    try:
        yield
    except EpoxyError as error:
        raise StoreError(f"{what}: {error}") from error
