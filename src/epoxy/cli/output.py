"""How commands speak: a table for a person, JSON for a program, one sentence for an error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from ..errors import StoreError

_CONTROL = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
_ORDER = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_HARMLESS: dict[int, str] = {each: f"\\x{each:02x}" for each in [*_CONTROL, *_ORDER]}
_HARMLESS |= {0x0A: "\n", 0x09: " "}


def harmless(text: object) -> str:
    """Text without what a terminal would obey: controls but newlines, and marks that reorder."""
    return str(text).translate(_HARMLESS)


_aside = False  # whether standard output belongs to JSON


def speak_aside(yes: bool) -> None:
    """Say everything on standard error from now on, where standard output is for a program to read."""
    global _aside
    _aside = yes


def say(text: object = "") -> None:
    """Print for a person; what a row or a file says never becomes a command to the terminal."""
    _print(harmless(text), sys.stderr if _aside else sys.stdout)


def draw(lines: Sequence[object]) -> None:
    """Show lines in place of the screen before, on a terminal; elsewhere after what was said.

    Where the terminal has colour, warnings (`!`) are yellow and the last line is bold.
    """
    if _aside or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        say("\n".join(map(str, lines)))
        return
    shown = [harmless(line) for line in lines]
    if paints(sys.stdout):
        styles = ["33" if line.startswith("!") else "" for line in shown[:-1]] + ["1"]
        shown = [f"\x1b[{s}m{line}\x1b[0m" if s else line for s, line in zip(styles, shown)]
    _print("\x1b[H\x1b[2J" + "\n".join(shown), sys.stdout)


def paints(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours, and nobody said NO_COLOR."""
    dull = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return stream.isatty() and not dull


def complain(text: object) -> None:
    """Print to standard error."""
    _print(harmless(text), sys.stderr)


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


def _print(text: str, stream: Any) -> None:
    """A character the stream has no byte for is written as its number."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
