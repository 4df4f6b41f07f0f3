"""A fingerprint of a labeling function: of all that decides what it answers, as far as one can see.

A function's fingerprint covers its code, its default arguments, the values it closes over and the
globals it names, and theirs in turn. What comes from an installed library counts by name and
version. Two decisions:

- Code counts as compiled, not as written. Source text is not there for a function typed at a
  prompt, and is that of the *newest* file, not of the function in memory, after an edit. Comments and
  layout therefore do not matter, and a new Python version makes new fingerprints.
- What cannot be taken apart (a lock, an open file, a generator) gives None: the caller must then not
  keep results. What a function reads while it runs (a file, the network, the clock, a name asked for
  by `getattr`) cannot be seen, and does not count.
"""

from __future__ import annotations

import builtins
import dis
import functools
import hashlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

_NOT_BEHAVIOUR = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__qualname__", "__doc__"),
        *("__firstlineno__", "__static_attributes__", "__annotations__", "__annotate__"),
        *("__annotate_func__", "__annotations_cache__", "__dataclass_fields__"),
        *("__dataclass_params__", "_abc_impl", "__abstractmethods__"),
    }
)
"""What a class body leaves behind that no method can depend on, or that repeats its methods."""

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))


def fingerprint(value: object) -> str | None:
    """Return a digest that changes with the behaviour of a labeling function (or with any value).

    None where a part of it cannot be hashed.

    Examples
    --------
    >>> from epoxy.declarative import keywords
    >>> fingerprint(keywords("spam", "money")) == fingerprint(keywords("spam", "money"))
    True
    >>> fingerprint(keywords("spam", "money")) == fingerprint(keywords("spam", "gift"))
    False
    """
    try:
        found = _Hasher().of(value)
    # AttributeError and ValueError are what library objects raise where they refuse to be copied
    except (_Unhashable, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return _digest("python", *map(str, sys.version_info[:2]), found).hex()


class _Unhashable(Exception):
    """Some part cannot be taken apart into values."""


def _digest(kind: str, *parts: str | bytes) -> bytes:
    """One digest of a kind and its parts; lengths keep ("ab", "c") and ("a", "bc") apart."""
    whole = hashlib.sha256(kind.encode())
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        whole.update(b"|%d|" % len(raw))
        whole.update(raw)
    return whole.digest()


class _Hasher:
    """Digests of values, each taken apart once; a value inside itself counts by its depth."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # id to depth, of the values being taken apart right now
        self._done: dict[int, tuple[object, bytes]] = {}  # the value is kept: ids are reused

    def of(self, value: Any) -> bytes:
        if type(value) in _ATOMS:
            return _digest(type(value).__name__, repr(value))
        key = id(value)
        if key in self._done:
            return self._done[key][1]
        if key in self._open:
            return _digest("cycle", str(self._open[key]))
        self._open[key] = len(self._open)
        try:
            found = self._take_apart(value)
        finally:
            del self._open[key]
        self._done[key] = (value, found)
        return found

    def _all(self, kind: str, values: Iterable[Any]) -> bytes:
        return _digest(kind, *(self.of(value) for value in values))

    def _take_apart(self, value: Any) -> bytes:
        kind = type(value)
        if kind in (tuple, list):
            return self._all(kind.__name__, value)
        if kind in (set, frozenset):  # its order is that of this process only
            return _digest("set", *sorted(self.of(each) for each in value))
        if kind in (dict, MappingProxyType):
            return self._all("dict", (part for item in value.items() for part in item))
        if kind is bytearray:
            return _digest("bytearray", bytes(value))
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, re.Pattern):
            return self._all("pattern", (value.pattern, value.flags))
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType | BuiltinFunctionType) and (
            not isinstance(value.__self__, ModuleType | type(None))
        ):
            return self._all("method", (value.__name__, value.__self__))
        if isinstance(value, ModuleType):
            return self._module(value, ())
        if isinstance(value, type):
            return self._class(value)
        return self._object(value)

    def _array(self, value: np.ndarray) -> bytes:
        if value.dtype.hasobject:
            return self._all("objects", (value.shape, value.tolist()))
        shape = repr((value.dtype.str, value.dtype.descr, value.shape))
        return _digest("array", shape, np.ascontiguousarray(value).tobytes())

    def _code(self, code: CodeType) -> bytes:
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        flags = (
            code.co_flags & 0xFFFF
        )  # the higher bits are __future__ imports, already compiled in
        table = getattr(code, "co_exceptiontable", b"")
        return self._all("code", (code.co_code, code.co_consts, names, counts, flags, table))

    def _function(self, function: FunctionType) -> bytes:
        library = _reference(function)
        if library is not None:
            return library
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append(self.of(cell.cell_contents))
            except ValueError:  # a name not yet given a value
                cells.append(b"empty")
        return _digest(
            "function",
            self.of(function.__code__),
            self.of(function.__defaults__),
            self.of(function.__kwdefaults__),
            *cells,
            *(self._named(function, name) for name in _globals(function.__code__)),
            *(self._imported(function, *each) for each in imports_of(function.__code__)),
        )

    def _named(self, function: FunctionType, name: str) -> bytes:
        """The value of a global the function names; of a module, only what it can mean of it."""
        if name in function.__globals__:
            value = function.__globals__[name]
            if isinstance(value, ModuleType):
                return _digest(name, self._module(value, _names(function.__code__)))
            return _digest(name, self.of(value))
        return _digest(name, "builtin" if hasattr(builtins, name) else "missing")

    def _imported(self, function: FunctionType, name: str, level: int) -> bytes:
        """A module imported inside the function."""
        if level:
            package = str(function.__globals__.get("__package__") or "")
            parts = package.split(".")
            name = ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])
        library = _library(name)
        if library is not None:
            return _digest("module", library)
        if name not in sys.modules:
            raise _Unhashable(name)  # to import it would run it
        return self._module(sys.modules[name], _names(function.__code__))

    def _module(self, module: ModuleType, names: Iterable[str]) -> bytes:
        """A library by name and version; a user's own module by the attributes named beside it."""
        library = _library(module.__name__)
        if library is not None:
            return _digest("module", library)
        wanted = sorted(set(names) & set(vars(module)))
        if not wanted:  # the module itself is a value here, and anything of it may be used
            raise _Unhashable(module.__name__)
        found = []
        for name in wanted:
            value = vars(module)[name]
            if isinstance(value, ModuleType):
                found.append(_digest(name, self._module(value, names)))
            else:
                found.append(_digest(name, self.of(value)))
        return _digest("own module", *found)

    def _class(self, kind: type) -> bytes:
        library = _reference(kind)
        if library is not None:
            return library
        own = [(name, value) for name, value in vars(kind).items() if name not in _NOT_BEHAVIOUR]
        members = [_digest(name, self._member(value)) for name, value in own]
        return _digest("class", *(self.of(base) for base in kind.__bases__), *members)

    def _member(self, value: Any) -> bytes:
        if isinstance(value, staticmethod | classmethod):
            return _digest(type(value).__name__, self.of(value.__func__))
        if isinstance(value, property):
            return self._all("property", (value.fget, value.fset, value.fdel))
        if type(value).__name__ in ("member_descriptor", "getset_descriptor"):
            return _digest("slot", value.__name__)
        return self.of(value)

    def _object(self, value: Any) -> bytes:
        """Anything else as `copy` and pickle take it apart, which is also how most say they cannot."""
        library = _reference(value)
        if library is not None:
            return library
        reduced = value.__reduce_ex__(4)
        if isinstance(reduced, str):  # "find me under this name", as functools.lru_cache says
            wrapped = getattr(value, "__wrapped__", None)
            if wrapped is None:
                raise _Unhashable(reduced)
            return self._all("wrapped", (type(value).__name__, wrapped))
        make, args, *rest = reduced
        state, items, pairs = (*rest, None, None, None)[:3]
        if isinstance(state, dict):  # scikit-learn's vectorizers remember an address in memory
            state = {name: each for name, each in state.items() if name != "_stop_words_id"}
        return self._all("object", (make, args, state, list(items or ()), list(pairs or ())))


def _reference(value: Any) -> bytes | None:
    """What an installed library offers under a public name counts by that name and the version."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str) or (module is not None and not isinstance(module, str)):
        return None
    if module is None and isinstance(value, BuiltinFunctionType):
        module = getattr(value.__self__, "__name__", "builtins")
    library = None if module is None else _library(module)
    if library is None:
        return None
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    # a closure made by a library, or a wrapper with a borrowed name, is not what the name gives
    return _digest("library", library, name) if found is value else None


@functools.lru_cache(maxsize=4096)
def _library(module: str) -> str | None:
    """`name version` of an installed module; None for the user's own."""
    top = module.partition(".")[0]
    if top == "__main__":
        return None
    if top in sys.stdlib_module_names:
        return module
    if top == "epoxy":
        from . import __version__

        return f"{module} {__version__}"
    where = _home(top)
    return f"{module} {_version(top)}" if where is not None and is_installed(where) else None


def _home(top: str) -> Path | None:
    """Where a top-level module lies, whether it is loaded or not."""
    loaded = sys.modules.get(top)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(top)
    file = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
    folders = getattr(spec, "submodule_search_locations", None)
    where = file or next(iter(folders or ()), None)
    return None if where is None else Path(where)


def is_installed(file: Path) -> bool:
    """Whether a file belongs to an installed library or to Python."""
    places = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib")}
    inside = any(file.is_relative_to(place) for place in places if place)
    return inside or not {"site-packages", "dist-packages"}.isdisjoint(file.parts)


def _version(top: str) -> str:
    from importlib import metadata  # most functions name no library, and each worker would load it

    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:  # sklearn is scikit-learn
        names = metadata.packages_distributions().get(top, ["?"])
    return "?" if names == ["?"] else metadata.version(names[0])


def _codes(code: CodeType) -> Iterable[CodeType]:
    """The code and that of the functions and comprehensions inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _globals(code: CodeType) -> list[str]:
    found = {
        each.argval
        for inner in _codes(code)
        for each in dis.get_instructions(inner)
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return sorted(found)


def _names(code: CodeType) -> set[str]:
    return {name for inner in _codes(code) for name in inner.co_names}


def imports_of(code: CodeType) -> list[tuple[str, int]]:
    """Names and levels of all that code, and the functions inside it, import."""
    found = set()
    for inner in _codes(code):
        steps = list(dis.get_instructions(inner))
        for index, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":  # after the level and the names wanted
                level = steps[index - 2].argval
                found.add((str(step.argval), level if isinstance(level, int) else 0))
    return sorted(found)
