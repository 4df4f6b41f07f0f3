"""Models on disk: a folder with one JSON file and one file of arrays, and no pickle.

`model.json` says what it is, which version wrote it, and the checksum of `arrays.npz`. The folder is
written as a whole (see `files`): a process killed while it replaces a model leaves the old or the new.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from . import __version__
from .errors import StoreError
from .files import replace_folder, standing

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
    "LinearHead": "epoxy.heads",
    "NearestNeighbors": "epoxy.heads",
    "FineTuned": "epoxy.heads",
}


@dataclass(frozen=True)
class State:
    """Everything a fitted model is: plain JSON values, and arrays without objects.

    A network's weights and tokenizer are files of their own: `files` writes them into the model's
    folder, and `folder` is where a state that was read finds them.
    """

    values: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    files: Callable[[Path], object] | None = None
    folder: Path | None = None


@runtime_checkable
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
    mine = not target.exists() or (target / "model.json").is_file()
    if not mine and (target.is_file() or any(target.iterdir())):
        raise StoreError(
            f"{target} exists and is not a saved model; choose another folder or empty this one"
        )
    state = model.to_state()
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_folder(target, lambda folder: _write(folder, type(model).__name__, state))
    return target


def load(folder: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote, whatever its kind."""
    target = Path(folder)
    place = standing(target)
    try:
        kind, state = _read(place)
    except StoreError:
        if place == target or not target.exists():
            raise
        kind, state = _read(target)  # another process has just replaced it
    if kind not in _HOMES:
        raise StoreError(f"{target} holds a {kind!r}, which this version of epoxy does not know")
    try:
        return getattr(importlib.import_module(_HOMES[kind]), kind).from_state(state)
    except KeyError as error:
        raise StoreError(f"{target} is damaged (no {error}); save the model again") from None


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
    if state.files is not None:
        state.files(folder)
    (folder / "arrays.npz").write_bytes(data)
    (folder / "model.json").write_bytes(json.dumps(about, indent=1, ensure_ascii=False).encode())


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
    return str(about["kind"]), State(about["values"], arrays, folder=folder)


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
