"""How commands speak: a table for a person, JSON for a program, one sentence for an error."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["plain", "say", "write_json"]


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


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts only; what JSON has no word for becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)
