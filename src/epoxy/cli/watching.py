"""`epoxy watch`: save lfs.py in any editor, and see in place what the edit changed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EpoxyError
from ..fingerprints import fingerprint
from .output import say
from .project import folder_argument

__all__ = ["arguments", "refresh", "run", "saves"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy watch`."""
    folder_argument(parser)
    parser.add_argument(
        "--every", type=float, default=0.1, metavar="SECONDS", help="how often to look (0.1)"
    )
    parser.add_argument("--times", type=int, default=None, metavar="N", help="stop after N saves")


def run(options: argparse.Namespace) -> None:
    """Watch a project until Ctrl-C."""
    from ..session import Session

    path = options.folder / "lfs.py"
    seen = path.read_bytes() if path.is_file() else b""  # a save while we open must not be missed
    session = Session.open(options.folder)
    say(f"watching {path}; Ctrl-C ends")
    say(_state(session))
    known = session.meanings
    for done, _ in enumerate(saves(path, options.every, time.sleep, seen), 1):
        try:
            known = refresh(session, known, say)
        except (
            EpoxyError
        ) as error:  # a file with a typing error in it: say so and wait for the next
            say(f"! {error}")
        sys.stdout.flush()
        if options.times is not None and done >= options.times:
            return


def saves(path: Path, every: float, sleep: Callable[[float], None], last: bytes) -> Iterator[None]:
    """Yield each time the content differs from `last`; editors that replace the file are seen too."""
    while True:
        sleep(every)
        try:
            now = path.read_bytes()
        except FileNotFoundError:  # between an editor's delete and its rename
            continue
        if now != last:
            last = now
            yield


def refresh(
    session: Any, known: dict[str, str | None], tell: Callable[[object], None]
) -> dict[str, str | None]:
    """Run lfs.py again, vote with what changed, and tell the difference; returns the new meanings."""
    from ..lfs import as_labeling_function
    from ..session.opening import vote

    start = time.perf_counter()
    lfs = session.project.load_lfs()
    meanings = {as_labeling_function(lf).name: fingerprint(lf) for lf in lfs}
    changed = [
        lf
        for lf in lfs
        if (name := as_labeling_function(lf).name) not in known
        or meanings[name] is None
        or meanings[name] != known[name]
    ]
    gone = [name for name in known if name not in meanings]
    votes, failures = vote(session.project, session.rows, changed) if changed else ([], ())
    before, edits = session.probabilities.argmax(axis=1) if not session.problem else None, []
    for at, name in enumerate(votes[0].sources if votes else ()):
        columns = [each.matrix[:, at] for each in votes]
        dev = columns[1] if len(columns) > 1 else None
        edits.append(session.set_votes(name, columns[0], dev=dev))
    edits += [session.remove(name) for name in gone]
    for edit in edits:
        tell(f"  {edit}")
    for failure in failures:
        tell(f"! {failure}")
    _tell_flips(session, before, tell)
    seconds = time.perf_counter() - start
    tell(f"{_state(session)}  [{1000 * seconds:.0f} ms]" if edits else "  nothing changed")
    return meanings


def _tell_flips(session: Any, before: Any, tell: Callable[[object], None], limit: int = 5) -> None:
    if before is None or session.problem:
        return
    after = session.probabilities.argmax(axis=1)
    rows = np.flatnonzero(before != after)
    ids = session.split("train").ids
    for row in rows[:limit]:
        old, new = session.classes[before[row]], session.classes[after[row]]
        tell(f"    row {ids[row]}: {old} → {new}{_text(session, int(row))}")
    if len(rows) > limit:
        tell(f"    and {len(rows) - limit} more rows")


def _text(session: Any, row: int) -> str:
    column = session.project.column
    if column is None:
        return ""
    text = str(session.rows.tables[0].column(column)[row].as_py())
    text = " ".join(text.split())
    return f"  {text[:60]}{'…' if len(text) > 60 else ''}"


def _state(session: Any) -> str:
    if session.problem:
        return f"{len(session.sources)} functions; {session.problem}"
    covered = session.votes.covered.mean()
    found = session.scores
    shown = ", ".join(f"{name} {found[name]:.3f}" for name in ("accuracy", "f1") if name in found)
    return f"{len(session.sources)} functions, {covered:.1%} of rows with a vote" + (
        f", dev {shown}" if shown else ""
    )
