"""How commands speak: a table for a person, JSON for a program, one sentence for an error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..persistence import plain

__all__ = ["say", "write_json"]


def say(text: object = "") -> None:
    """Print to standard output."""
    print(text)


def write_json(data: Any, target: str | None) -> None:
    """Write JSON to a file, or to standard output for `-`; nothing if not asked for."""
    if target is None:
        return
    text = json.dumps(plain(data), indent=1, ensure_ascii=False)
    if target == "-":
        sys.stdout.write(text + "\n")
    else:
        Path(target).write_text(text + "\n", "utf-8")
