"""A message with bytes: length of the head, the head as JSON, zeros up to a multiple of 8, the bytes."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Reply:
    """What a verb answers: fields, and bytes where some belong to it."""

    head: dict[str, Any]
    data: bytes | None = None


def as_json(value: Any) -> str:
    """JSON of plain values; a number that is none is null, half a character is a question mark."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace").decode()


def packed(head: dict[str, Any], data: bytes) -> bytes:
    """One binary frame."""
    told = as_json(head).encode()
    start = struct.pack("<I", len(told)) + told
    return start + b"\0" * (-len(start) % 8) + data


def unpacked(frame: bytes) -> tuple[dict[str, Any], bytes]:
    """Head and bytes of a frame."""
    (size,) = struct.unpack_from("<I", frame)
    end = 4 + size
    return json.loads(frame[4:end]), frame[end + -end % 8 :]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
