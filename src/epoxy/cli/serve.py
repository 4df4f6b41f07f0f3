"""`epoxy studio` and `epoxy mcp`: the project for a browser, and for an agent."""

from __future__ import annotations

import sys
import webbrowser
from contextlib import suppress
from typing import Annotated

from typer import Option

from ..errors import MissingExtra, ParameterError
from .folders import say_notes
from .options import Home, Json, Model, app, open_project
from .screen import say


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
