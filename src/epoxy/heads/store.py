"""A fitted head as a folder that is legible without us: `head.json` and numeric arrays."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StoreError
from ..persistence import make_folder
from .base import Head

__all__ = ["load", "read", "write"]

FORMAT = 1
_RECORD = "head.json"
_ARRAYS = "arrays.npz"


def write(
    folder: str | Path, kind: str, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Path:
    """Write one head; each file beside its place first, then renamed, the record last."""
    home = make_folder(folder, "a head")
    if arrays:
        replace(home / _ARRAYS, lambda path: _save_arrays(path, arrays))
    text = json.dumps({"format": FORMAT, "kind": kind, **record}, indent=1) + "\n"
    replace(home / _RECORD, lambda path: path.write_text(text, encoding="utf-8"))
    return home


def read(folder: str | Path) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Read what `write` wrote: kind, record, arrays."""
    home = Path(folder)
    path = home / _RECORD
    if not path.is_file():
        raise StoreError(f"no head in {str(home)!r}, {_RECORD} is missing; save one there first")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        arrays = _load_arrays(home / _ARRAYS)
        made, kind = record.pop("format"), record.pop("kind")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise StoreError(f"the head in {str(home)!r} is damaged ({error}); save it again") from None
    if made != FORMAT:
        raise StoreError(
            f"the head in {str(home)!r} has format {made!r}, this version reads {FORMAT}; "
            "open it with the version that wrote it, or fit and save again"
        )
    return kind, record, arrays


def load(folder: str | Path) -> Head:
    """Open a saved head, whichever kind it is; it predicts on new rows at once."""
    from .finetuned import FineTuned
    from .linear import LinearHead
    from .nearest import NearestNeighbors

    kind, record, arrays = read(folder)
    known: dict[str, Callable[..., Head]] = {
        "linear": LinearHead._restore,
        "nearest": NearestNeighbors._restore,
        "finetuned": FineTuned._restore,
    }
    if kind not in known:
        raise StoreError(
            f"the head in {str(folder)!r} is of kind {kind!r}; known: {', '.join(sorted(known))}"
        )
    try:
        return known[kind](record, arrays, Path(folder))
    except KeyError as error:
        raise StoreError(
            f"the head in {str(folder)!r} is damaged (no {error}); save it again"
        ) from None


def replace(path: Path, fill: Callable[[Path], object]) -> None:
    """Fill a file beside its place, then rename: a reader never sees half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem + "-", suffix=path.suffix)
    os.close(handle)
    beside = Path(name)
    try:
        fill(beside)
        beside.chmod(0o644)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise StoreError(f"array {name!r} holds Python objects, which would need pickle")
    np.savez(path, allow_pickle=False, **arrays)


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
