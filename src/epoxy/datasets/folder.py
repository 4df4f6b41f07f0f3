"""Read a folder of Parquet rows with votes and vectors beside them.

meta.json             name, classes, sources, metric, positive
{split}.parquet       rows: id, label (a class name, null where unknown), and any other columns
votes-{split}.npy     class indices, −1 abstains; (n_rows, n_sources)
vectors-{split}.npy   one vector per row; optional
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from ..errors import EpoxyError, StoreError
from ..votes import Split, Votes
from .dataset import Dataset

_SPLITS = ("train", "dev", "test")
Read = TypeVar("Read")


class Meta(msgspec.Struct):
    """What meta.json says."""

    classes: list[str | int]
    sources: list[str | int]
    name: str | None = None
    metric: str | None = None
    positive: str | int | None = None
    class_balance: Any = None


def read_folder(folder: str | Path) -> Dataset:
    """Read a data set in the form of this module's description.

    True labels of the train rows, where there are any, are kept out of the split: see
    `Dataset.truth`.
    """
    where = require_folder(folder)
    meta = read_json(where / "meta.json", Meta)
    found = [name for name in _SPLITS if (where / f"{name}.parquet").is_file()]
    if not found:
        raise StoreError(f"{where} holds none of train, dev and test.parquet; name another folder")
    tables = {name: _rows(where / f"{name}.parquet") for name in found}
    return Dataset.sealed(
        where.name if meta.name is None else meta.name,
        tuple(map(str, meta.classes)),
        {name: _split(where, name, table, meta) for name, table in tables.items()},
        tables,
        scoring=meta.metric or "accuracy",
        positive=None if meta.positive is None else str(meta.positive),
    )


def _split(where: Path, name: str, table: Any, meta: Meta) -> Split:
    matrix = _array(where / f"votes-{name}.npy")
    file = where / f"vectors-{name}.npy"
    vectors = _array(file) if file.is_file() else None
    for kind, array in (("votes", matrix), ("vectors", vectors)):
        if array is not None and len(array) != table.num_rows:
            raise StoreError(
                f"{kind}-{name}.npy in {where} has {len(array)} rows and {name}.parquet has "
                f"{table.num_rows}; write both again from the same rows"
            )
    labels, ids = (
        table[column].to_pylist() if column in table.column_names else None
        for column in ("label", "id")
    )
    with fitting(f"the {name} split in {where} does not fit together"):
        votes = Votes(matrix, map(str, meta.sources), map(str, meta.classes))
        return Split(votes, vectors, labels, ids)


def _rows(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{file} cannot be read as Parquet ({error}); write it again") from None


def _array(file: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except FileNotFoundError:
        raise StoreError(f"{file} is missing; it holds one entry per row of the split") from None
    except (ValueError, EOFError, OSError) as error:
        raise StoreError(f"{file} cannot be read as an array ({error}); write it again") from None


def require_folder(folder: str | Path) -> Path:
    """The folder, or an error that says what is there instead."""
    where = Path(folder)
    if not where.is_dir():
        what = "is a file" if where.exists() else "does not exist"
        raise StoreError(f"{where} {what}; expected the folder of a data set")
    return where


def read_json(file: Path, kind: type[Read]) -> Read:
    """A JSON file of a certain form."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        raise StoreError(f"{file} is missing; the folder is not a data set of this form") from None
    except (msgspec.DecodeError, OSError) as error:
        raise StoreError(
            f"{file} cannot be read ({error}); it may have been cut short or be of another kind of "
            "data set: only classification is read"
        ) from None


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Say of what is found wrong with votes and labels inside which files they came from."""
    try:
        yield
    except EpoxyError as error:
        raise StoreError(f"{what}: {error}") from error
