"""How commands speak: text and tables for a person by rich, JSON for a program, one sentence for an error.

What rows, files and functions say goes through `harmless` first: rich would pass escape sequences and
marks that reorder on to the terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..terminal import WIDTH, harmless

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.text import Text

__all__ = ["bar", "complain", "console", "draw", "harmless", "say", "shorten", "table", "written"]

NARROW = 80
"""Columns below which bars are left out."""
_aside = False  # whether standard output belongs to JSON


def speak_aside(target: str | None) -> str | None:
    """Say everything on standard error where standard output is for a program to read."""
    global _aside
    _aside = target == "-"
    return target


def console(*, errors: bool = False) -> Console:
    """Where a command speaks: as wide as the terminal, and at most `WIDTH` columns."""
    from rich.console import Console

    dull: Any = None if os.environ.get("NO_COLOR") else "auto"
    made = Console(
        stderr=errors or _aside, color_system=dull, highlight=False, markup=False, emoji=False
    )
    known = made.is_terminal or "COLUMNS" in os.environ
    made.width = min(WIDTH, made.width) if known else WIDTH
    return made


def say(*parts: RenderableType, style: str = "", whole: bool = False) -> None:
    """Print for a person; sentences are broken at the width of a terminal, in a pipe they are not.

    What somebody may copy, a command or a path, is left `whole` everywhere.
    """
    _print(console(), parts or ("",), style, whole)


def _print(
    out: Console, parts: Iterable[RenderableType], style: str = "", whole: bool = False
) -> None:
    from rich.padding import Padding

    broken = not whole and (out.is_terminal or "COLUMNS" in os.environ)
    for part in parts:
        if not isinstance(part, str):
            out.print(part)
            continue
        for line in written(part).split("\n", allow_blank=True):
            shown = "yellow" if line.plain.lstrip().startswith("!") else style
            indent = len(line.plain) - len(line.plain.lstrip(" "))
            if broken and indent:
                out.print(Padding(line[indent:], (0, 0, 0, indent)), style=shown)
            else:
                out.print(line, style=shown, soft_wrap=not broken)


def complain(text: object) -> None:
    """Print to standard error."""
    console(errors=True).print(written(text), soft_wrap=True)


def draw(lines: Sequence[RenderableType]) -> None:
    """Show lines in place of the screen before, on a terminal; elsewhere after what was said."""
    out = console()
    with out:  # in one piece
        if out.is_terminal and not out.is_dumb_terminal and not _aside:
            out.clear()
        _print(out, lines[:-1])
        _print(out, lines[-1:], "bold")
    sys.stdout.flush()


def written(text: object, style: str = "") -> Text:
    """Text as it is, without what a terminal would obey."""
    from rich.text import Text

    return Text(harmless(text), style)


def shorten(text: str, width: int) -> str:
    """A text on one line of so many characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    more: str = "",
    indent: int = 1,
) -> Group:
    """A table without lines, with a title over it and what was left out under it.

    A name that begins with ">" is over numbers, with "~" over text that may be cut; no name
    is over bars, which a narrow screen leaves out. Cells are text, or what rich renders.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table

    kept = [at for at, name in enumerate(columns) if name or console().width >= NARROW]
    header = any(name.strip(">~ ") for name in columns)
    made = Table(box=None, pad_edge=False, header_style="dim", show_header=header)
    lines = [[_cell(each) for each in row] for row in rows]
    for at, name in ((at, columns[at]) for at in kept):
        longest = max((getattr(line[at], "cell_len", 0) for line in lines), default=0)
        cut, right = name.startswith("~"), name.startswith(">")
        made.add_column(
            written(name.strip(">~ ")),
            justify="right" if right else "left",
            overflow="ellipsis",
            no_wrap=not cut,
            min_width=min(12, longest) if cut else None,
        )
    for line in lines:
        made.add_row(*(line[at] for at in kept))
    head = [written(title, "bold")] if title else []
    foot = [written(f"{' ' * indent}{more}", "dim")] if more else []
    return Group(*head, Padding(made, (0, 0, 0, indent), expand=False), *foot)


def _cell(value: Any) -> Any:
    """Text on one line, cut where it must be; what rich renders as it is."""
    if not isinstance(value, str):
        return value
    found = written(value)
    found.no_wrap, found.overflow = True, "ellipsis"
    return found


def bar(share: float, width: int = 16, *, empty: bool = True) -> str:
    """A share as a bar of blocks."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + ("░" * (width - full) if empty else "")


def write_json(data: Any, target: str | None) -> None:
    """Write JSON to a file, or to standard output for `-`; nothing if not asked for."""
    if target is None:
        return
    from ..storage import plain

    # a terminal obeys characters beyond ASCII too, so they are escaped there
    text = json.dumps(plain(data), indent=1, ensure_ascii=target == "-") + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, "utf-8", errors="backslashreplace")
    except OSError as error:
        raise StoreError(f"--json {target} cannot be written: {error.strerror}") from error
