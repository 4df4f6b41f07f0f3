"""`epoxy watch`: save lfs.py in any editor, and see in place what the edit changed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import EpoxyError
from .output import draw, say
from .project import folder_argument, folder_of, model_argument, open_project

if TYPE_CHECKING:
    import numpy as np

    from ..session import Session


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy watch`."""
    folder_argument(parser)
    model_argument(parser)
    parser.add_argument(
        "--every", type=float, default=0.1, metavar="SECONDS", help="how often to look (0.1)"
    )
    parser.add_argument("--times", type=int, default=None, metavar="N", help="stop after N saves")


def run(options: argparse.Namespace) -> None:
    """Watch a project until Ctrl-C."""
    path = options.folder / "lfs.py"
    say(f"opening {options.folder}: voting, embedding, finding neighbours, fitting")
    sys.stdout.flush()
    session = open_project(options, graph=True)
    watched = f"watching {path}; Ctrl-C ends"
    problem = [session.problem] if session.problem else []
    why = [] if session.problem or not session.scores.why else [f"({session.scores.why})"]
    told = [f"! {note}" for note in (*session.notes, *problem)]
    draw([watched, *told, *why, _state(session)])
    sys.stdout.flush()
    for done, _ in enumerate(saves(folder_of(session).changed, options.every, time.sleep), 1):
        lines: list[object] = [watched] if sys.stdout.isatty() else []
        try:
            refresh(session, lines.append)
        except EpoxyError as error:  # a file with a typing error in it: say so, wait for the next
            lines.append(f"! {error}")
        draw(lines)
        sys.stdout.flush()
        if options.times is not None and done >= options.times:
            return


def saves(
    changed: Callable[[], bool], every: float, sleep: Callable[[float], None]
) -> Iterator[None]:
    """Yield each time something changed, as often as it is not taken up."""
    while True:
        sleep(every)
        if changed():
            yield


def refresh(session: Session, tell: Callable[[object], None]) -> None:
    """Take up what other sessions decided, run lfs.py again, and tell the difference."""
    start, home = time.perf_counter(), folder_of(session)
    before, broken = None if session.problem else session.labels, home.unread
    others = session.catch_up()
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        tell(f"  another session: {', '.join(others[:5])}{more}")
    change = session.reload() if home.runner.changed() else None
    if broken and not home.unread:
        tell("  lfs.py runs again")
    if change is not None:
        tell(f"  {change}")
    for failure in home.failures:
        tell(f"! {failure}")
    if change is None and not others:
        tell("  nothing changed")
        return
    _tell_flips(session, before, tell)
    tell(f"{_state(session)}  [{1000 * (time.perf_counter() - start):.0f} ms]")


def _tell_flips(
    session: Session, before: np.ndarray | None, tell: Callable[[object], None], limit: int = 5
) -> None:
    if before is None or session.problem:
        return
    after = session.labels
    rows = (before != after).nonzero()[0]
    train = session.split("train")
    for row in rows[:limit].tolist():
        old, new = session.classes[before[row]], session.classes[after[row]]
        tell(f"    row {train.id_of(row)}: {old} → {new}{_text(session, row)}")
    if len(rows) > limit:
        tell(f"    and {len(rows) - limit} more rows")


def _text(session: Session, row: int) -> str:
    home = folder_of(session)
    column = home.project.column
    if column is None:
        return ""
    text = " ".join(str(home.rows.tables[0].column(column)[row].as_py()).split())
    return f"  {text[:60]}{'…' if len(text) > 60 else ''}"


def _state(session: Session) -> str:
    if session.problem:
        return f"{len(session.sources)} functions; {session.problem}"
    covered = session.votes.covered.mean()
    found = session.scores.line()
    return f"{len(session.sources)} functions, {covered:.1%} of rows with a vote, own or lent" + (
        f", held-out {found}" if found else ""
    )
