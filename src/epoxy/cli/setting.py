"""`epoxy set`: how far a source lends, and whether it has a say, decided at the terminal."""

from __future__ import annotations

import argparse
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import VectorError
from .output import say, write_json
from .project import folder_argument, model_argument, open_project, say_notes

if TYPE_CHECKING:
    from ..session import Change, Session


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy set`."""
    folder_argument(parser)
    parser.add_argument("source", metavar="SOURCE", help="the name of a labeling function")
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument(
        "--radius",
        metavar="R",
        help="a distance of at least 0, auto (the model's own rule) or none (it lends nothing)",
    )
    one.add_argument("--on", action="store_true", help="let it have its say again")
    one.add_argument("--off", action="store_true", help="leave it out; its votes stay known")
    model_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Make one decision about a source, say what it changed, and how to take it back."""
    session = open_project(options)
    radius, on = session.radii.get(options.source), options.source not in session.switched_off
    if options.radius is not None:
        change = _set_radius(session, options)
        back = f"--radius {'none' if radius is None else radius}"
    else:
        change = session.switch(options.source, options.on)
        back = "--on" if on else "--off"
    say(change)
    say(f"back: epoxy set {shlex.join([str(options.folder), options.source])} {back}")
    say_notes(session)
    write_json(change.to_dict(), options.json)


def _set_radius(session: Session, options: argparse.Namespace) -> Change:
    if session.split().vectors is None:
        raise VectorError(
            f"--radius {options.radius} says how far {options.source!r} lends to near rows, and the "
            f"rows of {options.folder} have no vectors; choose an encoder under [vectors] in epoxy.toml"
        )
    return session.set_radius(options.source, _setting(options.radius))


def _setting(text: str) -> Any:
    """What a text means as a radius; one that means none is the session's to refuse."""
    if text.lower() == "none":
        return None
    with suppress(ValueError):
        radius = float(text)
        return radius if radius == radius else text  # NaN would be read as None
    return text
