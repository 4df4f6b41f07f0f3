"""`epoxy mcp`: the project for an agent."""

from __future__ import annotations

import argparse
from contextlib import suppress

from ..errors import MissingExtra, ParameterError
from .project import folder_argument, model_argument, open_project


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy mcp`."""
    folder_argument(parser)
    model_argument(parser)
    parser.add_argument(
        "--write", action="store_true", help="let it change the project, and run Python it writes"
    )


def run(options: argparse.Namespace) -> None:
    """Serve until the client goes."""
    if options.json is not None:
        raise ParameterError("epoxy mcp writes no result to read; leave --json out")
    try:
        from ..agent.serving import serve, unprinted
    except ImportError as error:
        raise MissingExtra.of("epoxy mcp", error.name or "mcp", "agent") from error
    from ..agent.tools import Tools

    with unprinted():
        tools = Tools(open_project(options, graph=True), write=options.write)
    with suppress(KeyboardInterrupt):  # how it may end
        serve(tools)
