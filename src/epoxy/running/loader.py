"""Run `lfs.py` afresh, with every module it imports from its own folder.

Modules of the folder are compiled from their text at every load. Python would take them from
`sys.modules`, where an edit is never seen, or from bytecode, which it compares with the source by
size and by modification time in whole seconds, so that two saves within one may look the same.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ..errors import CodeError, EpoxyError, StoreError
from ..functions.apply import said
from ..functions.define import LabelingFunction, as_labeling_function
from ..functions.fingerprint import is_installed
from ..storage import open_regular

_PACKAGE = Path(__file__).resolve().parents[1]


def digest_of(path: Path) -> str:
    """A digest of a file's content; empty where there is no such file, or it has no end."""
    try:
        with open_regular(path) as file:
            return digest(file.read())
    except (OSError, StoreError):
        return ""


def digest(content: bytes) -> str:
    """A digest of what a file holds."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class Loader(MetaPathFinder):
    """Runs the `lfs.py` of one folder, and finds modules of that folder for `import`."""

    def __init__(self, folder: Path, shown: Path, file: str) -> None:
        self.folder, self.shown = folder, shown  # absolute; as the user named it
        self.file = file  # within the folder
        self.files: dict[Path, str] = {}
        """Files that were read or looked for since the load began, with digests of what ran."""
        self.texts: dict[str, bytes] = {}  # what ran, by module
        sys.path.insert(0, str(self.folder))
        sys.meta_path.insert(sys.meta_path.index(PathFinder), self)

    def load(self) -> tuple[list[LabelingFunction], list[str]]:
        """Run the file; its labeling functions in their order, and functions that look like some."""
        path = self.folder / self.file
        tops = {name.partition(".")[0] for name in self.texts}  # packages hold them as values
        for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
            del sys.modules[name]
        self.texts.clear()
        self.files.clear()
        importlib.invalidate_caches()  # a file as old as its folder's last look counts as missing
        try:
            module = self._run(path)
            functions = [as_labeling_function(each) for each in _functions_of(module)]
        except BaseException as error:  # a user's file may raise anything
            raise self._explain(error, path) from error
        names = [each.name for each in functions]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise CodeError(
                f"{self._show(path)} has more than one labeling function named {twice}; "
                "give one of them name=…"
            )
        return functions, [] if "lfs" in vars(module) else _undecorated(self.texts["lfs"])

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What Python itself would find, with a loader of ours for a module of the folder."""
        spec = PathFinder.find_spec(name, path, target)
        loader = None if spec is None else spec.loader
        if spec and type(loader) is SourceFileLoader and self._owns(Path(loader.path)):
            spec.loader = _FromText(name, loader.path, self)
        return spec

    def _owns(self, file: Path) -> bool:
        """Whether a file is the project's; a virtual environment, or we, may lie in its folder."""
        inside = file.is_relative_to(self.folder)
        return inside and not is_installed(file) and not file.is_relative_to(_PACKAGE)

    def _run(self, path: Path) -> ModuleType:
        if not path.is_file():
            self.files[path] = ""
            raise CodeError(f"{self.shown} has no {self.file}; write your labeling functions there")
        loader = _FromText("lfs", str(path), self)
        spec = importlib.util.spec_from_loader("lfs", loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["lfs"] = module
        loader.exec_module(module)
        return module

    def _missed(self, name: str) -> None:
        """Name the file that is not there, for whoever waits until it is written."""
        self.files[self.folder / f"{name.partition('.')[0]}.py"] = ""

    def _explain(self, error: BaseException, path: Path) -> CodeError:
        if isinstance(error, ModuleNotFoundError) and error.name:
            self._missed(error.name)
        file, line = self._where(error, path)
        place = str(self._show(file))
        if isinstance(error, EpoxyError):  # it has its cure already
            return CodeError(str(error), place if line else "", line)
        if isinstance(error, SystemExit):
            reason = f"it ends the program ({said(error)}); take out the call of exit"
        else:
            reason = f"{said(error)}; correct it and try again"
        return CodeError(reason, place, line)

    def _where(self, error: BaseException, path: Path) -> tuple[Path, int | None]:
        """The file of the folder and the line in it where the error began."""
        if isinstance(error, SyntaxError) and error.filename:
            return Path(error.filename), error.lineno
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            file = Path(frame.filename)
            if self._owns(file):
                return file, frame.lineno
        return path, None

    def _show(self, file: Path) -> Path:
        """A file of the folder, named as the folder was."""
        inside = file.is_relative_to(self.folder)
        return self.shown / file.relative_to(self.folder) if inside else file


class _FromText(SourceFileLoader):
    """Compiles a module from its text, without reading or writing bytecode."""

    def __init__(self, name: str, path: str, owner: Loader) -> None:
        super().__init__(name, path)
        self.owner = owner

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        text = self.get_data(path)
        self.owner.files[Path(path)] = digest(text)
        code: CodeType = self.source_to_code(text, path)
        self.owner.texts[fullname] = text
        return code


def _functions_of(module: ModuleType) -> list[Any]:
    listed = vars(module).get("lfs")
    if isinstance(listed, list | tuple):
        found = list(listed)
    else:
        found = [value for value in vars(module).values() if _is_function(value)]
    return list({id(each): each for each in found}.values())


def _is_function(value: Any) -> bool:
    if isinstance(value, type):
        return False
    snorkel = (
        callable(value) and hasattr(value, "_pre") and isinstance(getattr(value, "name", 0), str)
    )
    return isinstance(value, LabelingFunction) or snorkel


def _undecorated(text: bytes) -> list[str]:
    """Plain functions of one argument, `row`, that nothing in the file uses."""
    tree = ast.parse(text)
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.decorator_list
        and [each.arg for each in node.args.args] == ["row"]
        and node.name not in used
    ]
