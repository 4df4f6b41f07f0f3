"""How long work reports: one callback, and a bar for people who watch a terminal.

The library is silent unless asked. A function that may take long accepts `progress`, a callable
of (done, total); `bar("embedding")` makes one that draws on standard error, only on a terminal and
only once the work has taken half a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Progress", "bar", "silent"]

Progress = Callable[[int, int], None]
"""Called with (done, total), units of the work's own choosing, total ≥ 1."""


def silent(done: int, total: int) -> None:
    """Report nothing."""


def bar(
    label: str, *, stream: TextIO | None = None, after: float = 0.5, width: int = 24
) -> Progress:
    """A progress callback that draws `label ▕████    ▏ 62 %  3 s left` in place."""
    out = sys.stderr if stream is None else stream
    start = time.monotonic()
    last = 0.0
    drawn = False

    def report(done: int, total: int) -> None:
        nonlocal last, drawn
        now = time.monotonic()
        finished = done >= total
        if not out.isatty() or now - start < after or (now - last < 0.1 and not finished):
            return
        last = now
        share = min(1.0, done / max(1, total))
        filled = round(share * width)
        left = (now - start) * (1 - share) / share if share else 0.0
        text = f"{label} ▕{'█' * filled}{' ' * (width - filled)}▏ {share:4.0%}  {left:.0f} s left"
        out.write("\r" + ("" if not finished else " " * (len(text) + 2) + "\r"))
        if not finished:
            out.write(text)
        drawn = True
        out.flush()

    return report
