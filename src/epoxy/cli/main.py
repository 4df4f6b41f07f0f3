"""`epoxy`: the one place where errors become one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import EpoxyError

# isort: off
from . import (  # noqa: F401  (each registers its commands, which are listed in this order)
    demo,
    folders,
    inspection,
    choices,
    rows_to_label,
    language_model,
    live,
    end_model,
    paper,
)

# isort: on
from .options import app
from .screen import complain

MANY = ("--data", "--try", "--accept")
"""Options that take several values, `--data A B` as well as `--data A --data B`."""


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"epoxy {__version__}")
        raise typer.Exit


@app.callback(help=app.info.help)
def epoxy(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="say which")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def command() -> Any:
    """The command line, to parse words and to be described."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 2 for an error of the input, 130 for Ctrl-C."""
    words = spread(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # a character the stream has no byte for is its number
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    name = next((word for word in words if not word.startswith("-")), "")
    said = f"epoxy {name}".strip()
    try:
        made = command()
        with made.make_context("epoxy", list(words)) as context:
            made.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.TyperException as error:  # of the words that were given
        help_of = "" if not words else f"; see {said} --help"
        complain(f"{said}: {error.format_message().rstrip('.')}{help_of}")
        return 2
    except EpoxyError as error:
        complain(f"{said}: {error}")
        return 2
    except KeyboardInterrupt:
        complain(
            f"{said}: interrupted; nothing was left half written, and votes and vectors that were "
            "finished are kept"
        )
        return 130
    except BrokenPipeError:  # the reader of a pipe has gone: not an error of ours
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        complain(
            f"{said}: {error.filename} cannot be used ({error.strerror}); "
            "name another place, or make it writable"
        )
        return 2
    return 0


def spread(words: Sequence[str]) -> list[str]:
    """`--data A B` as `--data A --data B`."""
    found: list[str] = []
    option = ""
    for word in words:
        if word.startswith("-"):
            option = word if word in MANY else ""
        elif option and found[-1] != option:
            found.append(option)
        found.append(word)
    return found
