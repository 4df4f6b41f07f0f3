from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import epoxy

HOME = Path(epoxy.__file__).parent


def modules() -> dict[str, Path]:
    """Every module of the package, by its name within it."""
    found = {}
    for path in HOME.rglob("*.py"):
        parts = path.relative_to(HOME).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports of the package."""
    known = modules()
    return {name: imported(name, path, known) for name, path in known.items()}


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that one imports, wherever in its text it does so."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name.removeprefix("epoxy.") for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = [p for p in package if p][: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *(node.module or "").removeprefix("epoxy").split(".")]).strip(
                "."
            )
            found |= {base} | {f"{base}.{each.name}".strip(".") for each in node.names}
    return {each for each in found if each and each in known}


def reached(start: str) -> set[str]:
    """Every module that the modules of a package import, and those that these import."""
    todo = [name for name in graph() if name == start or name.startswith(f"{start}.")]
    found = set(todo)
    while todo:
        new = graph()[todo.pop()] - found
        found |= new
        todo += new
    return found


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("diagnostics", ("model", "fusion", "engines", "session", "project", "suggest", "cli")),
        ("engines", ("session", "project", "suggest", "cli")),
        ("session", ("studio", "agent", "cli")),
        ("project", ("studio", "agent", "cli")),
        ("suggest", ("studio", "agent", "cli")),
        ("studio", ("agent", "cli")),
        ("agent", ("cli",)),
    ],
)
def test_imports_go_down_only(lower, upper):
    found = reached(lower)

    assert "votes" in found
    assert [name for name in found if name.split(".")[0] in upper] == []
