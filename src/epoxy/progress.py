"""How long work reports: one callback, and a bar for people who watch a terminal.

The library is silent unless asked. A function that may take long accepts `progress`, a callable
of (done, total); `bar("embedding")` makes one that draws on standard error, only on a terminal and
only once the work has taken half a second. In a pipe a project says in lines what takes seconds.
`waiting` reports work that cannot count its steps.
"""

from __future__ import annotations

import math
import os
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
    line: float | None = None,
) -> Progress:
    """A progress callback that shows a bar in place: `voting ━━━━╸    620 of 1,000 rows, 310/s, 1 s left`.

    Work of which nothing is done yet shows its rows and the seconds it has taken. Where there is no
    terminal, work that takes longer than `line` seconds is told in lines, after twice the time each.
    """
    out = sys.stderr if stream is None else stream
    start = time.monotonic()
    last, due, drawn = 0.0, math.inf if line is None else line, False

    def report(done: int, total: int) -> None:
        nonlocal last, due, drawn
        now = time.monotonic()
        share, taken = done / max(1, total), now - start
        if not out.isatty():
            if taken >= due and done < total:
                out.write(f"{label} {_told(share, rows, taken)} …\n")
                out.flush()
                due = 2 * max(taken, 1.0)
            return
        if done >= total:
            if drawn:
                out.write("\r\x1b[2K")
                out.flush()
            return
        if taken >= after and now - last >= 0.1:
            out.write(f"\r\x1b[2K{_drawn(label, share, rows, taken, out)}")
            out.flush()
            last, drawn = now, True

    return report


def _drawn(label: str, share: float, rows: int | None, taken: float, out: TextIO) -> str:
    """The bar as rich draws it for this terminal, on one line that fits."""
    from rich.console import Console
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    console = Console(file=out, no_color=bool(os.environ.get("NO_COLOR")), highlight=False)
    cells = Table.grid(padding=(0, 1))
    cells.add_row(label, ProgressBar(1.0, share, width=24), _told(share, rows, taken))
    with console.capture() as shown:
        console.print(cells, no_wrap=True, overflow="ellipsis")
    return shown.get().split("\n")[0]


def _told(share: float, rows: int | None, taken: float) -> str:
    """How much is done, how fast, and how long it will take."""
    if share <= 0:
        return ("" if rows is None else f"{rows:,} rows, ") + f"{taken:.0f} s so far"
    left = f"{taken * (1 - share) / share:.0f} s left"
    if rows is None:
        return f"{share:.0%}, {left}"
    return f"{share * rows:,.0f} of {rows:,} rows, {share * rows / max(taken, 1e-9):,.0f}/s, {left}"


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
