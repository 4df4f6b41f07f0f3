"""Opening the files of a data set, with an error that names the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import EpoxyError, StoreError


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
