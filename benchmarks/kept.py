"""Results as CSV: tables of rows, or cases with nested figures, each with the commit it was measured at."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from runner import HERE, tree_name

Row = dict[str, Any]


def commit() -> str:
    """The commit of this checkout, marked where its sources differ."""
    return tree_name(HERE.parent)


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a CSV; dots in a column's name are nesting, an empty cell is None or missing."""
    if not Path(path).is_file():
        return []
    with Path(path).open(newline="", encoding="utf-8") as file:
        return [_nested(row.items()) for row in csv.DictReader(file)]


def write_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """Write rows; a row that names no commit gets this one."""
    flat = [dict(_flat({**row, "commit": row.get("commit") or commit()})) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    names = [*(name for name in names if name != "commit"), "commit"]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names, lineterminator="\n")
        table.writeheader()
        table.writerows(flat)


def read_cases(path: str | Path) -> dict[str, Row]:
    """Nested figures by case, each case with its `commit`."""
    flat: dict[str, Row] = {}
    for row in read_rows(path):
        case = flat.setdefault(str(row["case"]), {"commit": row["commit"]})
        case[row["figure"]] = row["value"]
    return {name: _nested(each.items()) for name, each in flat.items()}


def write_cases(path: str | Path, cases: dict[str, Row]) -> None:
    """One line for every figure of every case."""
    write_rows(
        path,
        (
            {"case": name, "figure": figure, "value": value, "commit": case.get("commit")}
            for name, case in cases.items()
            for figure, value in _flat(case)
            if figure != "commit"
        ),
    )


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, float):
        yield name, f"{value:.6g}"
    elif isinstance(value, list | tuple):
        yield name, " ".join(str(dict(_flat({"": each}))[""]) for each in value)
    elif value is not None:
        yield name, value


def _nested(cells: Iterable[tuple[str, Any]]) -> Row:
    found: Row = {}
    for name, cell in cells:
        *path, last = name.split(".")
        if path and cell in ("", None):
            continue
        home = found
        for key in path:
            home = home.setdefault(key, {})
        home[last] = cell if name in ("commit", "figure", "case") else _typed(cell)
    return found


def _typed(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None
