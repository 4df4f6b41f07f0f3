"""Messages between two processes: a few plain values as JSON, and bytes behind them.

JSON and not pickle, because one of the two runs code of the user's, and nothing it says should run
in the other.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

_SIZES = struct.Struct("<QQ")


def send(stream: BinaryIO, message: dict[str, Any], payload: Any = b"") -> None:
    """Write one message, and bytes (or anything with a buffer) behind it."""
    text = json.dumps(message).encode()
    stream.write(_SIZES.pack(len(text), len(memoryview(payload).cast("B"))) + text)
    stream.write(payload)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read one message; None at the end of the stream, also in the middle of a message."""
    head = stream.read(_SIZES.size)
    if len(head) < _SIZES.size:
        return None
    n_text, n_payload = _SIZES.unpack(head)
    text, payload = stream.read(n_text), stream.read(n_payload)
    if len(text) < n_text or len(payload) < n_payload:
        return None
    return json.loads(text), payload
