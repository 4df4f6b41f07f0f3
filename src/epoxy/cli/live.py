"""`epoxy watch`, `studio` and `mcp`: a project that stays open, for an editor, a browser, an agent."""

from __future__ import annotations

import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ..errors import EpoxyError, MissingExtra, ParameterError
from .folders import say_notes
from .options import Home, Json, Model, app, folder_of, open_project
from .row_view import glance
from .screen import console, draw, say

if TYPE_CHECKING:
    import numpy as np

    from ..session import Session


@app.command()
def watch(
    folder: Home,
    model: Model = None,
    every: Annotated[float, Option(metavar="SECONDS", help="how often to look")] = 0.1,
    times: Annotated[int | None, Option(metavar="N", help="stop after N saves")] = None,
    json: Json = None,
) -> None:
    """Save lfs.py in any editor and see what changed.

    Shows how many rows have a vote, scores, the rows whose label flipped and the milliseconds, in
    place, until Ctrl-C; also of what other sessions of the project decide meanwhile. A file without
    functions is waited for.
    """
    say(f"opening {folder}: voting, embedding, finding neighbours, fitting")
    session = open_project(folder, model, empty=True)
    watched = f"watching {folder / 'lfs.py'}; Ctrl-C ends"
    problem = [session.problem] if session.problem and session.sources else []
    why = [] if session.problem or not session.scores.why else [f"({session.scores.why})"]
    told = [f"! {note}" for note in (*session.notes, *problem)]
    draw([watched, *told, *why, state(session)])
    for done, _ in enumerate(saves(folder_of(session).changed, every, time.sleep), 1):
        lines: list[str] = [watched] if console().is_terminal else []
        try:
            refresh(session, lines.append)
        except EpoxyError as error:  # a file with a typing error in it: say so, wait for the next
            lines.append(f"! {error}")
        draw(lines)
        if times is not None and done >= times:
            return


def saves(
    changed: Callable[[], bool], every: float, sleep: Callable[[float], None]
) -> Iterator[None]:
    """Yield each time something changed, as often as it is not taken up."""
    while True:
        sleep(every)
        if changed():
            yield


def refresh(session: Session, tell: Callable[[str], None]) -> None:
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
    tell(f"{state(session)}  [{1000 * (time.perf_counter() - start):.0f} ms]")


def _tell_flips(
    session: Session, before: np.ndarray | None, tell: Callable[[str], None], limit: int = 5
) -> None:
    if before is None or session.problem:
        return
    after = session.labels
    rows = (before != after).nonzero()[0]
    train = session.split("train")
    for row in rows[:limit].tolist():
        old, new = session.classes[before[row]], session.classes[after[row]]
        tell(f"    row {train.id_of(row)}: {old} → {new}  {glance(session, row)}".rstrip())
    if len(rows) > limit:
        tell(f"    and {len(rows) - limit} more rows")


def state(session: Session) -> str:
    """How many functions there are, on how many rows they vote, and how right the labels are."""
    if not session.sources:
        return "no function yet; write one in lfs.py and save it"
    if session.problem:
        return f"{len(session.sources)} functions; {session.problem}"
    own, both = session.split().votes.covered.mean(), session.votes.covered.mean()
    found = session.scores.line()
    return (
        f"{len(session.sources)} functions, {own:.1%} of rows with a vote, {both:.1%} with lent ones"
        + (f", held-out {found}" if found else "")
    )


@app.command()
def studio(
    folder: Home,
    model: Model = None,
    port: Annotated[
        int | None, Option(metavar="N", help="default: the first free one from 8765")
    ] = None,
    no_open: Annotated[bool, Option("--no-open", help="do not open the browser")] = False,
    json: Json = None,
) -> None:
    """The project in a browser: edit, label, move a radius, and watch every label change.

    Serves on this machine alone, prints one line with the address (its token opens the page) and
    ends with Ctrl-C. Save lfs.py in any editor meanwhile. Needs: pip install 'epoxy-ws[studio]'.

    \b
      epoxy studio spam/
    """
    from ..studio.serving import Studio, need_server

    if json == "-":
        raise ParameterError("epoxy studio writes no result to read; leave --json out")
    need_server()
    from ..studio.app import UNBUILT, is_built

    session = open_project(folder, model, empty=True)
    made = Studio(session, port)

    def ready() -> None:
        say_notes(session)
        say(f"{folder} is open at {made.address} (Ctrl-C ends)")
        if not is_built():
            say(f"{UNBUILT} in the folder epoxy was installed from")
        sys.stdout.flush()
        if not no_open and made.opening is not None:
            webbrowser.open(made.opening.resolve().as_uri())

    with suppress(KeyboardInterrupt):  # how it is meant to end
        made.serve(ready)


@app.command()
def mcp(
    folder: Home,
    model: Model = None,
    write: Annotated[
        bool, Option("--write", help="let it change the project, and run Python it writes")
    ] = False,
    json: Json = None,
) -> None:
    """The project for an agent: a session's verbs as tools of the Model Context Protocol.

    Speaks on standard input and output, for a client that starts it. Reading is free; without
    --write nothing is kept and no Python of an agent's is run. With it, functions, radii, switches
    and labels go to the log under the agent's name and can be undone. Needs:
    pip install 'epoxy-ws[agent]'.

    \b
      epoxy mcp spam/
    """
    if json is not None:
        raise ParameterError("epoxy mcp writes no result to read; leave --json out")
    try:
        from ..agent.serving import serve, unprinted
    except ImportError as error:
        raise MissingExtra.of("epoxy mcp", error.name or "mcp", "agent") from error
    from ..agent.tools import Tools

    with unprinted():
        tools = Tools(open_project(folder, model), write=write)
    with suppress(KeyboardInterrupt):  # how it may end
        serve(tools)
