"""Text for a terminal: without what it would obey, and tables by rich."""

from __future__ import annotations

from typing import Any

WIDTH = 100
"""Columns of the widest screen."""
_CONTROL = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
_ORDER = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_HARMLESS: dict[int, str] = {each: f"\\x{each:02x}" for each in [*_CONTROL, *_ORDER]}
_HARMLESS |= {0x0A: "\n", 0x09: " "}


def harmless(text: object) -> str:
    """Text without what a terminal would obey: controls but newlines, and marks that reorder."""
    return str(text).translate(_HARMLESS)


def as_text(renderable: Any, width: int = WIDTH) -> str:
    """What rich would print, as plain text."""
    import io

    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
