"""A message with bytes: length of the head, the head as JSON, zeros up to a multiple of 8, the bytes."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from ..errors import ParameterError


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise NotImplementedError


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def as_json(value: Any) -> str:
    """JSON of structs, plain values and numpy's; a number that is none is null."""
    return _ENCODER.encode(value).decode()


def parsed(text: str | bytes) -> Any:
    """JSON from outside."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ParameterError(f"this is no JSON ({error}); send an object") from None


def plain(value: Any) -> Any:
    """The same as dicts, lists and numbers."""
    return msgspec.json.decode(_ENCODER.encode(value))


def packed(head: Any, data: bytes) -> bytes:
    """One binary frame."""
    told = _ENCODER.encode(head)
    start = struct.pack("<I", len(told)) + told
    return start + b"\0" * (-len(start) % 8) + data


def message(head: Any, data: bytes | None) -> str | bytes:
    """Text, or a binary frame where bytes belong to it."""
    return as_json(head) if data is None else packed(head, data)


def unpacked(frame: bytes) -> tuple[Any, bytes]:
    """Head and bytes of a frame."""
    (size,) = struct.unpack_from("<I", frame)
    end = 4 + size
    return msgspec.json.decode(frame[4:end]), frame[end + -end % 8 :]
