"""A benchmark's tables as text, Markdown and HTML, and the sweep figure as SVG.

The figure is drawn here, in thirty lines, because a page must be made from the JSON on a machine
that has nothing but the core installed.
"""

from __future__ import annotations

import html as escape
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .tabulate import Sweep, Table, sweeps, tables

__all__ = ["html", "markdown", "sweep_svg", "text", "write_pages"]

FIGURE = "benchmarks-sweep.svg"
_WIDTH, _HEIGHT, _MARGIN = 300, 170, 34


def markdown(results: Mapping[str, Any]) -> str:
    """The page for the documentation."""
    parts = ["# Benchmarks", "", *_preamble(results)]
    for table in tables(results):
        parts += ["", f"## {table.title}", ""]
        parts += [table.note, ""] if table.note else []
        parts += _markdown_table(table)
    if sweeps(results):
        parts += ["", "## Sweeping one radius", "", _SWEEP_NOTE, "", f"![Sweep]({FIGURE})"]
    return "\n".join(parts) + "\n"


def html(results: Mapping[str, Any]) -> str:
    """The same page, in one file without links to anything else."""
    body = "".join(f"<p>{_inline(line)}</p>" for line in _preamble(results) if line)
    for table in tables(results):
        note = f"<p>{escape.escape(table.note)}</p>" if table.note else ""
        body += f"<h2>{escape.escape(table.title)}</h2>{note}{_html_table(table)}"
    if sweeps(results):
        body += f"<h2>Sweeping one radius</h2><p>{_SWEEP_NOTE}</p>{sweep_svg(sweeps(results))}"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Benchmarks</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head>"
        f"<body><h1>Benchmarks</h1>{body}</body></html>\n"
    )


def text(results: Mapping[str, Any]) -> str:
    """The score and time tables, for a terminal: one method per line, few data sets at a time."""
    wanted = (each for each in tables(results) if each.title in ("Scores", "Training seconds"))
    shown = [part for table in wanted for part in _parts(_turned(table))]
    return "\n\n".join("\n".join([table.title, *_text_table(table)]) for table in shown)


def write_pages(results: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write benchmarks.md, benchmarks.html and the figure; returns the files written."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    pages = {"benchmarks.md": markdown(results), "benchmarks.html": html(results)}
    if sweeps(results):
        pages[FIGURE] = sweep_svg(sweeps(results)) + "\n"
    for name, content in pages.items():
        (home / name).write_text(content, encoding="utf-8")
    return [home / name for name in pages]


def sweep_svg(found: Sequence[Sweep]) -> str:
    """Small multiples: lift on dev (solid) and coverage (dashed) against the shared radius."""
    across = min(3, len(found))
    down = -(-len(found) // across)
    panels = "".join(
        f"<g transform='translate({_WIDTH * (index % across)},{_HEIGHT * (index // across)})'>"
        f"{_panel(sweep)}</g>"
        for index, sweep in enumerate(found)
    )
    size = f"{_WIDTH * across} {_HEIGHT * down}"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {size}' role='img' "
        "font-family='sans-serif' font-size='10'><title>Lift and coverage by radius</title>"
        f"<rect width='100%' height='100%' fill='white'/>{panels}</svg>"
    )


_SWEEP_NOTE = (
    "One radius for all sources. Solid, left axis: points of dev score above WS-LM. "
    "Dashed, right axis: mean coverage of the sources."
)

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:92rem;padding:0 1rem}"
    "p{max-width:60rem}svg{max-width:60rem;width:100%}"
    "table{border-collapse:collapse;display:block;overflow-x:auto;font-size:14px;line-height:1.3;"
    "font-variant-numeric:tabular-nums}"
    "th,td{padding:.3rem .45rem;text-align:right;border-bottom:1px solid #8886;white-space:nowrap}"
    # header names break at their hyphens, so that every method is in sight without scrolling
    "thead th{white-space:normal;vertical-align:bottom;max-width:6rem}"
    "th:first-child,.words th,.words td{text-align:left}.words td:last-child{white-space:normal}"
    "tbody th{font-weight:normal}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}"
)


def _preamble(results: Mapping[str, Any]) -> list[str]:
    machine, settings = results["machine"], results["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    balance = settings["class_balance"] or "as the folder says, else counted on dev"
    runs = f"{settings['seeds']} seeds"
    if settings["quick"]:
        runs = "quick: one seed, fine-tuning cut to one epoch and 300 rows"
    dev = f", {settings['dev_rows']} random dev rows" if settings["dev_rows"] else ""
    return [
        "Train labels are never read; dev labels tune and fit; test labels are read once, to score.",
        "",
        f"Run ({runs}{dev}; class balance: {balance}) at commit "
        f"`{results['commit'] or 'unknown'}`, {results['created'][:10]}, on {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB; {versions}.",
        *(line for note in results.get("notes", ()) for line in ("", note)),
    ]


def _inline(line: str) -> str:
    parts = escape.escape(line).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


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
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _html_table(table: Table) -> str:
    head = "".join(f"<th scope='col'>{escape.escape(cell)}</th>" for cell in table.header)
    body = ""
    for index, row in enumerate(table.rows):
        stressed = table.best[index] if table.best else frozenset()
        cells = [
            f"<strong>{escape.escape(cell)}</strong>" if at in stressed else escape.escape(cell)
            for at, cell in enumerate(row)
        ]
        first, *rest = cells
        body += (
            f"<tr><th scope='row'>{first}</th>{''.join(f'<td>{each}</td>' for each in rest)}</tr>"
        )
    kind = " class='words'" if table.words else ""
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _turned(table: Table) -> Table:
    """Rows and columns exchanged: sixteen methods fit a terminal only downwards."""
    cells = list(zip(table.header, *table.rows))
    return Table(table.title, table.note, tuple(cells[0]), tuple(cells[1:]))


def _parts(table: Table, most: int = 5) -> list[Table]:
    """A wide table as several of at most so many columns, each with the row names."""

    def cut(row: tuple[str, ...], start: int) -> tuple[str, ...]:
        return (row[0], *row[start : start + most])

    starts = range(1, len(table.header), most)
    return [
        Table(table.title, "", cut(table.header, at), tuple(cut(row, at) for row in table.rows))
        for at in starts
    ]


def _text_table(table: Table) -> list[str]:
    rows = [table.header, *table.rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(table.header))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def _panel(sweep: Sweep) -> str:
    left, right = _MARGIN, _WIDTH - _MARGIN
    top, bottom = 22, _HEIGHT - 26
    low, high = min(0.0, *sweep.lift), max(0.0, *sweep.lift)
    high = high if high > low else low + 1
    widest = max(sweep.radius) or 1.0

    def at_x(radius: float) -> float:
        return left + (right - left) * radius / widest

    def at_y(value: float, least: float, most: float) -> float:
        return bottom - (bottom - top) * (value - least) / (most - least)

    lift = _line([(at_x(r), at_y(v, low, high)) for r, v in zip(sweep.radius, sweep.lift)])
    cover = _line([(at_x(r), at_y(v, 0, 1)) for r, v in zip(sweep.radius, sweep.coverage)])
    zero = at_y(0, low, high)
    return (
        f"<text x='{_WIDTH / 2}' y='13' text-anchor='middle'>{escape.escape(sweep.data)}</text>"
        f"<path d='M{left} {top}V{bottom}H{right}V{top}' fill='none' stroke='#999'/>"
        f"<path d='M{left} {zero:.1f}H{right}' stroke='#ccc'/>"
        f"<path d='{lift}' fill='none' stroke='#1f5fbf' stroke-width='1.6'/>"
        f"<path d='{cover}' fill='none' stroke='#b3261e' stroke-width='1.4' stroke-dasharray='4 3'/>"
        f"<text x='{left - 3}' y='{top + 4}' text-anchor='end'>{high:+.1f}</text>"
        f"<text x='{left - 3}' y='{bottom}' text-anchor='end'>{low:+.1f}</text>"
        f"<text x='{right + 3}' y='{top + 4}'>100%</text><text x='{right + 3}' y='{bottom}'>0%</text>"
        f"<text x='{left}' y='{bottom + 13}'>0</text>"
        f"<text x='{right}' y='{bottom + 13}' text-anchor='end'>radius {widest:.2f}</text>"
    )


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
