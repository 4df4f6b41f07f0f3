"""Models on disk: a folder with one JSON file and one file of arrays, and no pickle.

`model.json` says what it is, which version wrote it, and the size and checksum of every other file; it
ends with its own. Checksums find accidents; against the rest every class declares what its values and
arrays are (see `schema`), and nothing else is used. The folder is written as a whole (see `files`): a
process killed while it replaces a model leaves the old or the new.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from . import __version__
from .arrays import DAMAGE, pack, unpack
from .errors import MissingExtra, StoreError
from .files import read_whole, replace_folder, standing
from .schema import Array, check_arrays, check_values

__all__ = ["Savable", "State", "load", "make_folder", "nest", "plain", "save", "seal", "unnest"]

FORMAT = 2
MOST_JSON = 64 << 20
_ABOUT = {
    "format": int,
    "epoxy": str,
    "kind": str,
    "arrays": [str],
    "files": dict,
    "values": dict,
    "checksum": str,
}

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

    def read_values(self, spec: Any) -> dict[str, Any]:
        """The values, refused where they are not what `spec` says."""
        found: dict[str, Any] = check_values(self.values, spec, self._where("model.json"))
        return found

    def read_arrays(self, spec: Mapping[str, Array], **sizes: int) -> Mapping[str, np.ndarray]:
        """The arrays, refused where they are not what `spec` says."""
        return check_arrays(self.arrays, spec, self._where("arrays.npz"), **sizes)

    def _where(self, file: str) -> str:
        return f"the saved {file}" if self.folder is None else f"{self.folder}/{file}"


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
    state = model.to_state()
    try:
        mine = not target.exists() or (target / "model.json").is_file()
        if not mine and (not target.is_dir() or any(target.iterdir())):
            raise StoreError(
                f"{target} exists and is not a saved model; choose another folder or empty this one"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_folder(target, lambda folder: _write(folder, type(model).__name__, state))
    except OSError as error:
        raise StoreError(
            f"{target} cannot be written ({error.strerror or error}); "
            "make room, or choose another folder"
        ) from error
    return target


def load(folder: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote, whatever its kind."""
    try:
        place = standing(target := Path(folder))
        try:
            kind, state = _read(place)
        except StoreError:
            if place == target or not target.exists():
                raise
            kind, state = _read(target)  # another process has just replaced it
    except (OSError, ValueError, TypeError) as error:  # no access, or no path at all
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"no model can be read from {folder!r:.200} ({error}); check the folder's name and rights"
        ) from error
    return _made(kind, state, target)


def nest(state: State, name: str, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One model's state inside another's: values to store under a key, arrays with a prefix."""
    arrays = {f"{name}/{key}": value for key, value in state.arrays.items()}
    return {"kind": kind, **state.values}, arrays


def unnest(state: State, name: str) -> tuple[Any, State]:
    """Make the model that `nest` stored under `name`; with it, what else the state holds."""
    values = dict(state.values[name])
    kind = values.pop("kind")
    prefix = f"{name}/"
    mine = {k.removeprefix(prefix): v for k, v in state.arrays.items() if k.startswith(prefix)}
    rest = {k: v for k, v in state.arrays.items() if not k.startswith(prefix)}
    folder = state.folder or Path(kind)
    made = _made(kind, State(values, mine, folder=state.folder), folder)
    return made, State(state.values, rest, folder=state.folder)


def _made(kind: Any, state: State, target: Path) -> Any:
    """The model of a state; whatever its class cannot use is said of the folder."""
    if not isinstance(kind, str) or kind not in _HOMES:
        raise StoreError(f"{target} holds a {kind!r}, which this version of epoxy does not know")
    try:
        return getattr(importlib.import_module(_HOMES[kind]), kind).from_state(state)
    except (StoreError, MissingExtra):
        raise
    except (*DAMAGE, AttributeError, ArithmeticError) as error:
        raise StoreError(
            f"{target} does not hold a {kind} that can be used ({type(error).__name__}: {error}); "
            "fit and save the model again"
        ) from error


def seal(about: Mapping[str, Any]) -> bytes:
    """The text of `model.json`, with its own checksum at the end."""
    content = {name: value for name, value in about.items() if name != "checksum"}
    sealed = {**content, "checksum": _checksum(json.dumps(content, sort_keys=True).encode())}
    return json.dumps(sealed, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(folder: Path, kind: str, state: State) -> None:
    for name, array in state.arrays.items():
        if array.dtype == object:
            raise StoreError(
                f"array {name!r} of {kind} holds Python objects; only numbers are saved"
            )
    if state.files is not None:
        state.files(folder)
    # names may contain '/', which a zip file would take for folders: number the members instead
    numbered = {f"a{i}": array for i, array in enumerate(state.arrays.values())}
    pack(numbered, folder / "arrays.npz")
    about = {
        "format": FORMAT,
        "epoxy": __version__,
        "kind": kind,
        "arrays": list(state.arrays),
        "files": {each.name: _described(each.read_bytes()) for each in sorted(folder.iterdir())},
        "values": state.values,
    }
    (folder / "model.json").write_bytes(seal(about))


def _described(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": _checksum(data)}


def _read(folder: Path) -> tuple[str, State]:
    about = _read_about(folder)
    if "arrays.npz" not in about["files"]:
        raise StoreError(f"{folder}/model.json names no arrays.npz; fit and save the model again")
    for name, described in about["files"].items():
        data = _read_file(folder, name, described)
        if name == "arrays.npz":
            stored = data
    try:
        arrays = unpack(io.BytesIO(stored), [f"a{i}" for i in range(len(about["arrays"]))])
    except DAMAGE as error:
        raise StoreError(
            f"{folder}/arrays.npz cannot be read ({error}); fit and save the model again"
        ) from error
    named = dict(zip(about["arrays"], arrays.values()))
    return about["kind"], State(about["values"], named, folder=folder)


def _read_file(folder: Path, name: str, described: Any) -> bytes:
    """One of a model's files, as long as it was and with the bytes it had."""
    path = folder / name
    if path.parent != folder or Path(name).name != name:
        raise StoreError(f"{folder} names a file {name!r} outside of itself; save the model again")
    size = described.get("bytes") if isinstance(described, dict) else None
    try:
        data = read_whole(path, size if isinstance(size, int) else 0)
    except FileNotFoundError:
        raise StoreError(f"{folder} lacks {name}; save the model again") from None
    if _described(data) != described:
        raise StoreError(
            f"{path} is truncated or damaged (its checksum differs); save the model again"
        )
    return data


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    try:
        about = json.loads(read_whole(path, MOST_JSON).decode("utf-8", "surrogatepass"))
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{folder} is not a saved model: no model.json in it") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"{path} is truncated or damaged ({error}); save the model again"
        ) from error
    if not isinstance(about, dict):
        raise StoreError(f"{path} does not describe a model; save the model again")
    if about.get("format") != FORMAT:
        raise StoreError(
            f"{folder} was written by epoxy {about.get('epoxy', '?')} in format "
            f"{about.get('format')!r}, this version reads format {FORMAT}; "
            "fit and save the model again"
        )
    check_values(about, _ABOUT, str(path))
    if json.loads(seal(about))["checksum"] != about["checksum"]:
        raise StoreError(
            f"{path} is damaged or was edited (its checksum differs); save the model again"
        )
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
