"""Files that are whole or not there, arrays without pickle, and the models that are made of both.

What is written goes beside its place first (`.NAME.RANDOM.tmp`), is synced, and is renamed: a reader
never sees half of it, and a power cut leaves the old or the new. A killed process leaves its temporary
file; a write to the same folder a day later removes it.

Arrays are stored in one npz as they are, each with the zip format's checksum. A saved model is a folder
with such a file, whose member `model.json` says what the model is, which version wrote it, and its
values. A checksum finds accidents; whoever writes a file on purpose can compute one. So every class
declares its values and arrays, and what differs is refused: compiled loops read tables without looking
where they end.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import re
import shutil
import stat
import struct
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import time
from typing import Annotated, Any, BinaryIO, Protocol, Self, Union, runtime_checkable

import numpy as np

from . import __version__
from .errors import MissingExtra, StoreError

log = logging.getLogger(__name__)

DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError, EOFError),
    *(ValueError, KeyError, IndexError, TypeError, RuntimeError, ArithmeticError, OSError),
    *(MemoryError, AttributeError),
)
"""What reading a damaged file, or making a model of it, can raise."""
CURE = "fit and save the model again"
FINITE = float(np.finfo(np.float64).max)
FILE = "model.npz"
_FORMAT = 3
_ABOUT = "model.json"
_DAY = 24 * 3600
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


# files


def beside(path: Path) -> Path:
    """A name next to `path` that nobody else has."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def write_whole(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Write a file, all or nothing; `content` is its bytes, or makes the file (or folder) it is given."""
    temporary = beside(path)
    try:
        if isinstance(content, bytes):
            temporary.write_bytes(content)
        else:
            content(temporary)
        _sync(temporary)
        os.replace(temporary, path)
    finally:
        _remove(temporary)
    _sync(path.parent)
    sweep(path.parent)


def sweep(folder: Path) -> None:
    """Remove the files that processes left which were killed more than a day ago."""
    for left in folder.glob(".*.tmp"):
        with suppress(OSError):  # another process was quicker
            if left.stat().st_mtime < time() - _DAY:
                _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():  # cannot be opened there, and renames are journalled
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def private(folder: Path) -> None:
    """Make a folder, and let only its owner read it and what lies in it."""
    with suppress(OSError):  # who cannot make or change it is told by what wants to write there
        folder.mkdir(parents=True, exist_ok=True)
        for each in (folder, *folder.rglob("*")):
            if not each.is_symlink():
                each.chmod(each.stat().st_mode & 0o700)


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


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device, which has no end, is refused at once."""
    # without waiting: to open a pipe that nobody writes to would take for ever
    at_once = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise StoreError(f"{path} is not a regular file; put the file itself in its place")
    return file


def read_whole(path: Path, most: int) -> bytes:
    """The bytes of a regular file, of so many at most."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise StoreError(
                f"{path} has {size} bytes, expected {most} at most; put the right file in its place"
            )
        return file.read(size)


# arrays


def pack(file: Any, arrays: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> None:
    """Write arrays, and small files beside them, as one npz without compression."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (files or {}).items():
            archive.writestr(zipfile.ZipInfo(name), content)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def unpack(
    file: BinaryIO, names: Sequence[str] | None = None, empty: Callable[..., Any] = np.empty
) -> dict[str, Any]:
    """The named arrays, or everything; raises one of `DAMAGE` where it is not as it was written.

    `empty` makes the arrays that are filled.
    """
    size = file.seek(0, os.SEEK_END)
    found: dict[str, Any] = {}
    with zipfile.ZipFile(file) as archive:
        if sum(each.file_size for each in archive.infolist()) > size:
            raise ValueError("its parts are larger than the whole")
        for name in archive.namelist() if names is None else [f"{each}.npy" for each in names]:
            with archive.open(name) as member:
                if name.endswith(".npy"):
                    found[name.removesuffix(".npy")] = _read_array(member, empty)
                else:
                    found[name] = member.read()
                if member.read(1):  # to the very end, where its checksum is compared
                    raise ValueError("an array that is not as long as it says")
    return found


def _read_array(member: Any, empty: Callable[..., Any]) -> Any:
    """The array of a .npy file as it comes."""
    version = np.lib.format.read_magic(member)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, fortran, kind = readers[version](member)
    if kind.hasobject:
        raise ValueError("an array of objects")
    found = empty(shape[::-1] if fortran else shape, kind)
    into = memoryview(found.reshape(-1).view(np.uint8)) if found.size else memoryview(b"")
    while len(into):
        count = member.readinto(into[: 1 << 20])
        if not count:
            raise EOFError("an array that ends too early")
        into = into[count:]
    return found.T if fortran else found


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Keep arrays in a file of a cache."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda place: pack(place, arrays))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make room, or make its folder writable"
        ) from error


def read_arrays(
    path: Path, names: Sequence[str] | None = None, empty: Callable[..., Any] = np.empty
) -> dict[str, Any] | None:
    """The arrays that were kept, or None where the file is missing or damaged: they are made again."""
    try:
        with open_regular(path) as file:
            return unpack(file, names, empty)
    except FileNotFoundError:
        return None
    except DAMAGE as damage:
        log.debug("%s is damaged and will be made again: %s", path, damage)
        return None


# what values and arrays must be


def check_values(values: Any, spec: Any, where: str) -> Any:
    """The values, if they are what `spec` says.

    A type stands for itself (an int passes for a float, a bool for neither), `[spec]` for a list,
    `{name: spec}` for a table with exactly these names ("name?" may be missing), a tuple for one of
    several, None for null, `object` for anything.
    """
    import msgspec

    try:
        msgspec.convert(values, _type(spec))
    except (msgspec.ValidationError, OverflowError) as error:
        raise StoreError(f"{where}: {error}; {CURE}") from None
    return values


def _type(spec: Any) -> Any:
    import msgspec

    if isinstance(spec, dict):
        fields = [
            (name.rstrip("?"), _type(each), *([msgspec.UNSET] if name.endswith("?") else []))
            for name, each in spec.items()
        ]
        return msgspec.defstruct("Values", fields, kw_only=True, forbid_unknown_fields=True)
    if isinstance(spec, list):
        return list[_type(spec[0])]  # type: ignore[misc]
    if isinstance(spec, tuple):
        return Union[tuple(map(_type, spec))]  # noqa: UP007
    if spec is float:
        return Annotated[float, msgspec.Meta(ge=-FINITE, le=FINITE)]
    return Any if spec is object else spec


@dataclass(frozen=True)
class Array:
    """What one array must be.

    Shapes are words separated by blanks. A word is a number, the name of a size, or a sum
    (`1+classes`) or product (`classes*columns`) of them; a name that is not known yet is what the
    first array says.
    """

    kinds: str  # of numpy's dtypes: f, i, u, b, U
    shape: str
    low: float = -FINITE
    high: float = FINITE
    nan: bool = False
    shares: int = 0  # so many of the last axes together sum to one
    optional: bool = False

    def check(self, array: np.ndarray, who: str, sizes: dict[str, int]) -> None:
        """Refuse another array; sizes that this one tells are added."""
        words, dtype = self.shape.split(), array.dtype
        shape = [_size(word, sizes) for word in words]
        usual = (
            dtype.kind in self.kinds and dtype.isnative and dtype not in (np.half, np.longdouble)
        )
        fits = len(shape) == array.ndim and all(
            size in (None, real) for size, real in zip(shape, array.shape)
        )
        if not usual or not fits:
            shown = " × ".join(w if size is None else str(size) for w, size in zip(words, shape))
            kind = {"f": "numbers", "b": "yes or no", "iu": "whole numbers"}.get(
                self.kinds, "names"
            )
            raise StoreError(
                f"{who} is {dtype} of shape {array.shape}, expected {kind}, {shown}; {CURE}"
            )
        sizes |= {word: real for word, real, size in zip(words, array.shape, shape) if size is None}
        if "U" not in self.kinds and dtype.kind in "iuf" and array.size:
            self._check_range(array, who)

    def _check_range(self, array: np.ndarray, who: str) -> None:
        seen = array[~np.isnan(array)] if self.nan and array.dtype.kind == "f" else array
        low, high = (seen.min().item(), seen.max().item()) if seen.size else (self.low, self.high)
        if not (self.low <= low and high <= self.high):  # NaN is neither
            raise StoreError(
                f"{who} holds {low} to {high}, expected {self.low:g} to {self.high:g}; {CURE}"
            )
        total = array.sum(axis=tuple(range(-self.shares, 0)), dtype=float) if self.shares else 1
        if np.abs(total - 1).max() > 1e-6:
            raise StoreError(f"{who} holds shares that do not sum to 1; {CURE}")


def _size(word: str, sizes: Mapping[str, int]) -> int | None:
    """What a word of a shape stands for; None where it is not known."""
    combined = sum if "+" in word else math.prod
    parts = [int(part) if part.isdigit() else sizes.get(part) for part in re.split("[+*]", word)]
    return None if None in parts else int(combined(part for part in parts if part is not None))


# models


@dataclass(frozen=True)
class State:
    """Everything a fitted model is: JSON values, arrays without objects, and files as they are.

    Files are a network's weights and tokenizer, which libraries of their own write and read.
    """

    values: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    where: str = "the saved model"

    def read_values(self, spec: Any) -> dict[str, Any]:
        """The values, refused where they are not what `spec` says."""
        found: dict[str, Any] = check_values(self.values, spec, self.where)
        return found

    def read_arrays(self, spec: Mapping[str, Array], **sizes: int) -> Mapping[str, np.ndarray]:
        """The arrays, refused where they are not what `spec` says."""
        unknown = sorted(set(self.arrays) - set(spec))
        if unknown:
            raise StoreError(
                f"{self.where}: array {unknown[0]!r:.60} is none of this kind's; {CURE}"
            )
        for name, wanted in spec.items():
            if name in self.arrays:
                wanted.check(self.arrays[name], f"{self.where}: array {name!r}", sizes)
            elif not wanted.optional:
                raise StoreError(f"{self.where} lacks the array {name!r}; {CURE}")
        return self.arrays


@runtime_checkable
class Savable(Protocol):
    """What `save` needs of a model."""

    def to_state(self) -> State:
        """Describe the fitted model."""

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same model again."""


def save(model: Savable, folder: str | os.PathLike[str]) -> Path:
    """Write a fitted model as a folder; an existing model there is replaced as a whole."""
    target, state, kind = Path(folder), model.to_state(), type(model).__name__
    for name, array in state.arrays.items():
        if array.dtype.hasobject:
            raise StoreError(
                f"array {name!r} of {kind} holds Python objects; only numbers are saved"
            )
    about = {"format": _FORMAT, "epoxy": __version__, "kind": kind, "values": state.values}
    files = {_ABOUT: json.dumps(about, indent=1).encode()}
    files |= {f"files/{name}": content for name, content in state.files.items()}
    try:
        if target.is_dir():
            sweep(target)
        mine = not target.exists() or (target / FILE).is_file()
        if not mine and (not target.is_dir() or any(target.iterdir())):
            raise StoreError(
                f"{target} exists and is not a saved model; choose another folder or empty this one"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        fill = partial(pack, arrays=state.arrays, files=files)
        if target.exists():
            write_whole(target / FILE, fill)
        else:  # the folder appears with the model in it
            write_whole(target, partial(_make_with, fill))
    except OSError as error:
        raise StoreError(
            f"{target} cannot be written ({error.strerror or error}); "
            "make room, or choose another folder"
        ) from error
    return target


def _make_with(fill: Callable[[Path], object], folder: Path) -> None:
    folder.mkdir()
    write_whole(folder / FILE, fill)


def load(folder: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote, whatever its kind."""
    try:
        path = Path(folder) / FILE
        with open_regular(path) as file:
            parts = unpack(file)
        about = json.loads(parts.pop(_ABOUT))
        found, version = about["format"], about["epoxy"]
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{folder} is not a saved model: no {FILE} in it") from None
    except StoreError:
        raise
    except (*DAMAGE, RecursionError) as error:
        raise StoreError(f"no model can be read from {folder!r:.200} ({error}); {CURE}") from error
    if found != _FORMAT:
        raise StoreError(
            f"{folder} was written by epoxy {version} in format {found!r:.20}, this version reads "
            f"format {_FORMAT}; {CURE}"
        )
    spec = {"format": int, "epoxy": str, "kind": str, "values": dict}
    check_values(about, spec, str(path))
    arrays = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
    files = {n.removeprefix("files/"): part for n, part in parts.items() if isinstance(part, bytes)}
    return _made(about["kind"], State(about["values"], arrays, files, str(path)))


def nest(state: State, name: str, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One model's state inside another's: values to store under a key, arrays with a prefix."""
    arrays = {f"{name}/{key}": value for key, value in state.arrays.items()}
    return {"kind": kind, **state.values}, arrays


def unnest(state: State, name: str) -> tuple[Any, State]:
    """Make the model that `nest` stored under `name`; with it, what else the state holds."""
    values = dict(state.values[name])
    kind, prefix = values.pop("kind"), f"{name}/"
    mine = {k.removeprefix(prefix): v for k, v in state.arrays.items() if k.startswith(prefix)}
    rest = {k: v for k, v in state.arrays.items() if not k.startswith(prefix)}
    made = _made(kind, State(values, mine, where=state.where))
    return made, State(state.values, rest, where=state.where)


def _made(kind: Any, state: State) -> Any:
    """The model of a state, which can be saved again; what its class cannot use is said of the file."""
    if not isinstance(kind, str) or kind not in _HOMES:
        raise StoreError(
            f"{state.where} holds a {kind!r:.60}, which this version of epoxy does not know"
        )
    try:
        model = getattr(importlib.import_module(_HOMES[kind]), kind).from_state(state)
        model.to_state()
    except (StoreError, MissingExtra):
        raise
    except DAMAGE as error:
        raise StoreError(
            f"{state.where} does not hold a {kind} that can be used "
            f"({type(error).__name__}: {error}); {CURE}"
        ) from error
    return model


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
