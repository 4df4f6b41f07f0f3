"""Models on disk: a folder with one JSON file and one file of arrays, and no pickle.

`model.json` says what it is, which version wrote it, and the checksum of `arrays.npz`. The folder is
written beside and renamed, so that a half-written model never has the name of a whole one.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from . import __version__
from .errors import StoreError

__all__ = ["Savable", "State", "load", "make_folder", "nest", "plain", "save", "unnest"]

FORMAT = 1

_HOMES = {
    "Epoxy": "epoxy.model",
    "Fusion": "epoxy.fusion",
    "Triplet": "epoxy.label_models",
    "MajorityVote": "epoxy.label_models",
    "DawidSkene": "epoxy.label_models",
    "Chain": "epoxy.sequences",
    "Tasks": "epoxy.sequences",
}


@dataclass(frozen=True)
class State:
    """Everything a fitted model is: plain JSON values, and arrays without objects."""

    values: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


class Savable(Protocol):
    """What `save` needs of a model."""

    def to_state(self) -> State:
        """Describe the fitted model."""

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same model again."""


def make_folder(folder: str | os.PathLike[str], what: str) -> Path:
    """A folder for `what` to be written to, made now: after hours of work is late to learn it cannot."""
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{what} cannot be written to {str(home)!r} ({error.strerror}); name another folder"
        ) from None
    return home


def save(model: Savable, folder: str | os.PathLike[str]) -> Path:
    """Write a fitted model as a folder; an existing model there is replaced as a whole."""
    target = Path(folder)
    if target.exists() and not (target / "model.json").is_file() and any(target.iterdir()):
        raise StoreError(
            f"{target} exists and is not a saved model; choose another folder or empty this one"
        )
    state = model.to_state()
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        _write(beside, type(model).__name__, state)
        old = None
        if target.exists():
            old = target.with_name(f".{target.name}-old-{os.getpid()}")
            target.rename(old)
        beside.rename(target)
        if old is not None:
            shutil.rmtree(old)
    finally:
        if beside.exists():
            shutil.rmtree(beside)
    return target


def load(folder: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote, whatever its kind."""
    target = Path(folder)
    kind, state = _read(target)
    if kind not in _HOMES:
        raise StoreError(f"{target} holds a {kind!r}, which this version of epoxy does not know")
    return getattr(importlib.import_module(_HOMES[kind]), kind).from_state(state)


def nest(state: State, name: str, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One model's state inside another's: values to store under a key, arrays with a prefix."""
    arrays = {f"{name}/{key}": value for key, value in state.arrays.items()}
    return {"kind": kind, **state.values}, arrays


def unnest(state: State, name: str) -> Any:
    """Make the model that `nest` stored under `name`."""
    values = dict(state.values[name])
    kind = values.pop("kind")
    prefix = f"{name}/"
    arrays = {k.removeprefix(prefix): v for k, v in state.arrays.items() if k.startswith(prefix)}
    return getattr(importlib.import_module(_HOMES[kind]), kind).from_state(State(values, arrays))


def _write(folder: Path, kind: str, state: State) -> None:
    for name, array in state.arrays.items():
        if array.dtype == object:
            raise StoreError(
                f"array {name!r} of {kind} holds Python objects; only numbers are saved"
            )
    buffer = io.BytesIO()
    # names may contain '/', which np.savez would take for folders: number the members instead
    names = list(state.arrays)
    numbered: dict[str, Any] = {f"a{i}": state.arrays[name] for i, name in enumerate(names)}
    np.savez(buffer, **numbered)
    data = buffer.getvalue()
    about = {
        "format": FORMAT,
        "epoxy": __version__,
        "kind": kind,
        "arrays": names,
        "sha256": hashlib.sha256(data).hexdigest(),
        "values": state.values,
    }
    for name, content in (
        ("arrays.npz", data),
        ("model.json", json.dumps(about, indent=1, ensure_ascii=False).encode()),
    ):
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _read(folder: Path) -> tuple[str, State]:
    about = _read_json(folder)
    found = about.get("format")
    if found != FORMAT:
        raise StoreError(
            f"{folder} was written by epoxy {about.get('epoxy', '?')} in format {found!r}, "
            f"this version reads format {FORMAT}; fit and save the model again"
        )
    try:
        data = (folder / "arrays.npz").read_bytes()
    except FileNotFoundError:
        raise StoreError(f"{folder} lacks arrays.npz; save the model again") from None
    if hashlib.sha256(data).hexdigest() != about.get("sha256"):
        raise StoreError(
            f"{folder}/arrays.npz is truncated or damaged (its checksum differs); save the model again"
        )
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {name: stored[f"a{i}"] for i, name in enumerate(about["arrays"])}
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise StoreError(f"{folder}/arrays.npz cannot be read ({error}); save it again") from error
    return str(about["kind"]), State(about["values"], arrays)


def _read_json(folder: Path) -> Mapping[str, Any]:
    path = folder / "model.json"
    try:
        about = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{folder} is not a saved model: no model.json in it") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} is truncated or damaged ({error}); save the model again"
        ) from error
    if not isinstance(about, dict):
        raise StoreError(f"{path} does not describe a model; save the model again")
    return about


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts only; what JSON has no word for becomes null, or its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)
