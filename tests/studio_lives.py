"""A process that starts one studio after another on a project, each in a child that somebody kills.

What a studio imports is imported here once, before the first fork, so that a life begins in a second.
Every line on standard input begins a life; it answers with the child's process, port and token.
"""

from __future__ import annotations

import os
import sys

import uvicorn  # noqa: F401 - imported before the fork
from starlette.applications import Starlette  # noqa: F401
from watchfiles import awatch  # noqa: F401

import epoxy
from epoxy.studio import app, security  # noqa: F401
from epoxy.studio.serving import Studio


def live(folder: str) -> None:
    """Serve until killed."""
    studio = Studio(epoxy.Session.open(folder), 0, better_picture=False)
    said = f"{os.getpid()} {studio.port} {studio.token}\n"
    studio.serve(lambda: (sys.stdout.write(said), sys.stdout.flush()))


def main() -> None:
    """Fork a life for each line."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            live(sys.argv[1])
            os._exit(1)  # nobody tells a studio to end here
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
