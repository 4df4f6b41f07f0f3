"""A fingerprint of a labeling function: of all that decides what it answers, as far as one can see.

joblib hashes values as pickle takes them apart; here functions and classes of the user's own count by
their compiled code, default arguments, closures and the globals they name, and what comes from an
installed library by name and version. Comments and layout do not matter; a new Python does.

What cannot be taken apart (a lock, an open file, a generator) gives None: the caller must then not keep
results. What a function reads while it runs (a file, the network, the clock, a name asked for by
`getattr`) cannot be seen, and does not count.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib.util
import pickle
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

__all__ = ["fingerprint", "is_installed"]

_NOT_BEHAVIOUR = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__qualname__", "__doc__"),
        *("__firstlineno__", "__static_attributes__", "__annotations__", "__annotate__"),
        *("__annotate_func__", "__annotations_cache__", "__dataclass_fields__"),
        *("__dataclass_params__", "_abc_impl", "__abstractmethods__"),
    }
)
"""What a class body leaves behind that no method can depend on, or that repeats its methods."""


def fingerprint(value: object) -> str | None:
    """Return a digest that changes with the behaviour of a labeling function (or with any value).

    None where a part of it cannot be hashed.

    Examples
    --------
    >>> from epoxy import keywords
    >>> fingerprint(keywords("spam", "money")) == fingerprint(keywords("spam", "money"))
    True
    >>> fingerprint(keywords("spam", "money")) == fingerprint(keywords("spam", "gift"))
    False
    """
    from joblib import hashing  # type: ignore[import-untyped]

    class Hasher(hashing.NumpyHasher):  # type: ignore[misc]
        """Hashes what pickle would write, of our parts where a value has some."""

        def save(self, value: Any) -> None:
            try:
                found = parts.of(value)
                super().save(value if found is None else found)
            except TypeError as error:  # joblib takes it for keys that cannot be sorted
                raise pickle.PicklingError(str(error)) from None

    parts = _Parts()
    try:
        found = Hasher(hash_name="sha1").hash((sys.version_info[:2], value))
    # AttributeError and ValueError are what library objects raise where they refuse to be copied
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return str(found)


class _Parts:
    """What decides how values behave that pickle would keep by name alone."""

    def __init__(self) -> None:
        self._begun: dict[
            int, tuple[int, Any]
        ] = {}  # functions and classes, by id; kept: ids are reused

    def of(self, value: Any) -> tuple[Any, ...] | None:
        """The parts of a value; None where pickle takes it apart well."""
        kind = type(value)
        if kind in (frozenset, MappingProxyType):  # the one's order is that of this process only
            return kind.__name__, set(value) if kind is frozenset else dict(value)
        if kind is dict and "_stop_words_id" in value:  # an address in memory, in scikit-learn's
            return tuple((name, each) for name, each in value.items() if name != "_stop_words_id")
        if kind in (staticmethod, classmethod):
            return kind.__name__, value.__func__
        if kind is property:
            return "property", value.fget, value.fset, value.fdel
        if kind.__name__ in ("member_descriptor", "getset_descriptor"):
            return "slot", value.__name__
        if isinstance(value, CodeType):
            return _code(value)
        if isinstance(value, ModuleType):
            return self._module(value, ())
        if not isinstance(value, FunctionType | type | BuiltinFunctionType):
            borrowed = hasattr(value, "__wrapped__") and isinstance(value.__reduce_ex__(4), str)
            return ("wrapped", kind.__name__, value.__wrapped__) if borrowed else None
        library = _reference(value)
        if library is not None or isinstance(value, BuiltinFunctionType):
            return library
        if id(value) in self._begun:
            return "again", self._begun[id(value)][0]
        self._begun[id(value)] = (len(self._begun), value)
        return self._class(value) if isinstance(value, type) else self._function(value)

    def _class(self, kind: type) -> tuple[Any, ...]:
        own = [(name, each) for name, each in vars(kind).items() if name not in _NOT_BEHAVIOUR]
        return "class", kind.__bases__, own

    def _function(self, function: FunctionType) -> tuple[Any, ...]:
        code = function.__code__
        cells: list[tuple[Any, ...]] = []
        for cell in function.__closure__ or ():
            try:
                cells.append((cell.cell_contents,))
            except ValueError:  # a name not yet given a value
                cells.append(())
        named = [self._named(function, name) for name in _globals(code)]
        imported = [self._imported(function, *each) for each in _imports(code)]
        given = (code, function.__defaults__, function.__kwdefaults__)
        return "function", given, cells, named, imported

    def _named(self, function: FunctionType, name: str) -> tuple[Any, ...]:
        """The value of a global the function names; of a module, only what it can mean of it."""
        if name in function.__globals__:
            value = function.__globals__[name]
            if isinstance(value, ModuleType):
                value = self._module(value, _names(function.__code__))
            return name, value
        return name, "builtin" if hasattr(builtins, name) else "missing"

    def _imported(self, function: FunctionType, name: str, level: int) -> tuple[Any, ...]:
        """A module imported inside the function."""
        if level:
            package = str(function.__globals__.get("__package__") or "").split(".")
            name = ".".join([*package[: len(package) - level + 1], *([name] if name else [])])
        if _library(name) is None and name not in sys.modules:
            raise pickle.PicklingError(name)  # to import it would run it
        return self._module(sys.modules.get(name, name), _names(function.__code__))

    def _module(self, module: ModuleType | str, names: Iterable[str]) -> tuple[Any, ...]:
        """A library by name and version; a user's own module by the attributes named beside it."""
        library = _library(module if isinstance(module, str) else module.__name__)
        if library is not None:
            return "module", library
        wanted = sorted(set(names) & set(vars(module)))
        if not wanted:  # the module itself is a value here, and anything of it may be used
            raise pickle.PicklingError(str(module))
        values = [(name, vars(module)[name]) for name in wanted]
        return "own", [
            (name, self._module(each, names) if isinstance(each, ModuleType) else each)
            for name, each in values
        ]


def _code(code: CodeType) -> tuple[Any, ...]:
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    flags = code.co_flags & 0xFFFF  # the higher bits are __future__ imports, already compiled in
    table = getattr(code, "co_exceptiontable", b"")
    return "code", code.co_code, code.co_consts, names, counts, flags, table


def _reference(value: Any) -> tuple[str, str] | None:
    """What an installed library offers under a public name counts by that name and the version."""
    module, name = getattr(value, "__module__", None), value.__qualname__
    if module is None and isinstance(value, BuiltinFunctionType):
        module = getattr(value.__self__, "__name__", "builtins")
    library = _library(module) if isinstance(module, str) else None
    if library is None:
        return None
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    # a closure made by a library, or a wrapper with a borrowed name, is not what the name gives
    return (library, name) if found is value else None


@functools.lru_cache(maxsize=4096)
def _library(module: str) -> str | None:
    """`name version` of an installed module; None for the user's own."""
    top = module.partition(".")[0]
    if top == "__main__":
        return None
    if top in sys.stdlib_module_names:
        return module
    if top == "epoxy":
        from .. import __version__

        return f"{module} {__version__}"
    loaded = sys.modules.get(top)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(top)
    folders = getattr(spec, "submodule_search_locations", None) or ()
    file = (
        getattr(loaded, "__file__", None)
        or getattr(spec, "origin", None)
        or next(iter(folders), None)
    )
    return f"{module} {_version(top)}" if file and is_installed(Path(file)) else None


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


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code and that of the functions and comprehensions inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _globals(code: CodeType) -> list[str]:
    steps = (each for inner in _codes(code) for each in dis.get_instructions(inner))
    return sorted({each.argval for each in steps if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")})


def _names(code: CodeType) -> set[str]:
    return {name for inner in _codes(code) for name in inner.co_names}


def _imports(code: CodeType) -> list[tuple[str, int]]:
    """Names and levels of all that code, and the functions inside it, import."""
    found = set()
    for inner in _codes(code):
        steps = list(dis.get_instructions(inner))
        for index, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":  # after the level and the names wanted
                level = steps[index - 2].argval
                found.add((str(step.argval), level if isinstance(level, int) else 0))
    return sorted(found)
