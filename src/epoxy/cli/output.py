"""How commands speak: a table for a person, JSON for a program, one sentence for an error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..errors import StoreError

__all__ = ["complain", "harmless", "say", "write_json"]

_CONTROL = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
_ORDER = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_HARMLESS: dict[int, str] = {each: f"\\x{each:02x}" for each in [*_CONTROL, *_ORDER]}
_HARMLESS |= {0x0A: "\n", 0x09: " "}


def harmless(text: object) -> str:
    """Text without what a terminal would obey: controls but newlines, and marks that reorder."""
    return str(text).translate(_HARMLESS)


def say(text: object = "") -> None:
    """Print to standard output; what a row or a file says never becomes a command to the terminal."""
    _print(harmless(text), sys.stdout)


def complain(text: object) -> None:
    """Print to standard error."""
    _print(harmless(text), sys.stderr)


def write_json(data: Any, target: str | None) -> None:
    """Write JSON to a file, or to standard output for `-`; nothing if not asked for."""
    if target is None:
        return
    from ..persistence import plain

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
