"""`epoxy studio`: the project in a browser."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from contextlib import suppress

from ..errors import ParameterError
from .output import say
from .project import folder_argument, model_argument, open_project, say_notes


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy studio`."""
    folder_argument(parser)
    model_argument(parser)
    parser.add_argument(
        "--port", type=int, metavar="N", help="default: the first free one from 8765"
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")


def run(options: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    from ..studio.serving import Studio, need_server

    if options.json == "-":
        raise ParameterError("epoxy studio writes no result to read; leave --json out")
    need_server()
    from ..studio.app import UNBUILT, is_built

    session = open_project(options, graph=True, empty=True)
    studio = Studio(session, options.port)

    def ready() -> None:
        say_notes(session)
        say(f"{options.folder} is open at {studio.address} (Ctrl-C ends)")
        if not is_built():
            say(f"{UNBUILT} in the folder epoxy was installed from")
        sys.stdout.flush()
        if not options.no_open and studio.opening is not None:
            webbrowser.open(studio.opening.resolve().as_uri())

    with suppress(KeyboardInterrupt):  # how it is meant to end
        studio.serve(ready)
