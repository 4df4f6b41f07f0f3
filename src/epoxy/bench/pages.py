"""A benchmark's tables as text for a terminal and as a Markdown page."""

from __future__ import annotations

import html as escape
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import published
from .columns import CEILING
from .comparison import Table
from .curves import draw_curves
from .tabulate import tables

_MOST = 5  # data sets side by side in a terminal


def markdown(results: Mapping[str, Any]) -> str:
    """The page for the documentation."""
    parts = ["# Benchmarks", "", *map(_no_tags, _preamble(results))]
    if draw_curves(results) is not None:
        parts += ["", "![Score on test by number of hand labels](benchmarks.svg)"]
    for table in tables(results):
        parts += ["", f"## {_no_tags(table.title)}", ""]
        parts += [_no_tags(table.note), ""] if table.note else []
        parts += _markdown_table(table)
    return "\n".join(parts) + "\n"


def text(results: Mapping[str, Any]) -> str:
    """The scores, for a terminal: one method per line, few data sets at a time."""
    shown = []
    for table in tables(results):
        if table.title.startswith("Scores"):
            lines = [table.header, *table.rows]
            for start in range(1, len(lines), _MOST):
                part = zip(lines[0], *lines[start : start + _MOST], strict=True)
                shown.append("\n".join([table.title, *_aligned(list(part))]))
    return "\n\n".join(shown)


def write_pages(results: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write benchmarks.md and, with several amounts of labels, benchmarks.svg; returns the files."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    pages = {"md": markdown(results), "svg": draw_curves(results)}
    written = [(home / f"benchmarks.{kind}", page) for kind, page in pages.items() if page]
    for path, page in written:
        path.write_text(page, encoding="utf-8")
    return [path for path, _ in written]


def _preamble(results: Mapping[str, Any]) -> list[str]:
    machine, settings = results["machine"], results["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    balance = settings["class_balance"] or "as the folder says, else counted on dev"
    runs = f"{settings['seeds']} seeds"
    if settings["quick"]:
        runs = "quick: one seed, fine-tuning cut to one epoch and 300 rows"
    known = [
        note
        for name, note in published.KNOWN.items()
        if name in {(d["data"], d["train"], d["dev"], d["test"]) for d in results["data"]}
    ]
    marks = {tuple(each["as_of"].values()) for each in results["results"] if "as_of" in each}
    carried = [f"† measured at commit `{commit}`, {day[:10]}." for commit, day in sorted(marks)]
    return [
        "Dev labels are the hand labels: they tune and fit. Test labels are read once, to score. Train "
        f"labels are read by the column {CEILING} alone, where there are any.",
        "",
        f"Run ({runs}; class balance: {balance}) at commit "
        f"`{results['commit'] or 'unknown'}`, {results['created'][:10]}, on {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB; {versions}.",
        *(line for note in (*carried, *results.get("notes", ()), *known) for line in ("", note)),
    ]


def _no_tags(line: str) -> str:
    """One line of Markdown that holds no HTML: names come from whoever made the data."""
    return escape.escape(" ".join(line.split()), quote=False)


def _markdown_table(table: Table) -> list[str]:
    rest = "---" if table.words else "---:"
    lines = [_piped(table.header), _piped(["---", *[rest] * (len(table.header) - 1)])]
    for index, row in enumerate(table.rows):
        stressed = table.best[index] if table.best else frozenset()
        lines.append(
            _piped(f"**{cell}**" if at in stressed else cell for at, cell in enumerate(row))
        )
    return lines


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_no_tags(cell).replace("|", "\\|") for cell in cells) + " |"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]).rstrip() for row in rows
    ]
