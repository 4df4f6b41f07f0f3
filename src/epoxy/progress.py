"""How long work reports: one callback, and a bar for people who watch a terminal.

The library is silent unless asked. A function that may take long accepts `progress`, a callable
of (done, total); `bar("embedding")` makes one that draws on standard error, only on a terminal and
only once the work has taken half a second. In a pipe a project says in one line what takes seconds.
`waiting` reports work that cannot count its steps.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[int, int], None]
"""Called with (done, total), units of the work's own choosing, total ≥ 1."""


def silent(done: int, total: int) -> None:
    """Report nothing."""


def bar(
    label: str,
    *,
    rows: int | None = None,
    stream: TextIO | None = None,
    after: float = 0.5,
    width: int = 24,
    line: float | None = None,
) -> Progress:
    """A progress callback that draws `label ▕████    ▏ 62%  620 of 1,000 rows  3 s left` in place.

    Work of which nothing is done yet shows its rows and the seconds it has taken. Where there is no
    terminal nothing is drawn, and one line tells of work that takes longer than `line` seconds.
    """
    out = sys.stderr if stream is None else stream
    start = time.monotonic()
    last = 0.0
    drawn = 0  # characters that stand on the line

    def report(done: int, total: int) -> None:
        nonlocal last, drawn
        now = time.monotonic()
        finished = done >= total
        early = now - start < after or now - last < 0.1
        if not out.isatty() and line is not None and not (drawn or finished or now - start < line):
            out.write(f"{label}{'' if rows is None else f' ({rows:,} rows)'} …\n")
            out.flush()
            drawn = 1
        if not out.isatty() or (early and not finished) or (finished and not drawn):
            return
        text = (
            "" if finished else f"{label} {_told(done / max(1, total), rows, now - start, width)}"
        )
        out.write(f"\r{text.ljust(drawn)}" + ("\r" if finished else ""))
        out.flush()
        last, drawn = now, len(text)

    return report


def _told(share: float, rows: int | None, taken: float, width: int) -> str:
    if share <= 0:
        return ("" if rows is None else f"{rows:,} rows  ") + f"{taken:.0f} s"
    filled = round(share * width)
    count = "" if rows is None else f"{share * rows:,.0f} of {rows:,} rows  "
    left = taken * (1 - share) / share
    return f"▕{'█' * filled}{' ' * (width - filled)}▏ {share:4.0%}  {count}{left:.0f} s left"


@contextmanager
def waiting(progress: Progress, total: int) -> Iterator[None]:
    """Report now and then that work on `total` rows goes on, and then that it is done."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.5):
            progress(0, total)

    ticker = threading.Thread(target=tick, daemon=True)
    if progress is not silent:
        ticker.start()
    try:
        yield
    finally:
        over.set()
        if ticker.is_alive():
            ticker.join()
        progress(total, total)
