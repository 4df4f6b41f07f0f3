"""`epoxy next`: which rows to look at, and why."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict

from .output import say, write_json
from .project import folder_argument, model_argument, open_project, say_notes

PURPOSES = ("mix", "teach", "score", "cover", "conflict", "check")
WIDTH = 100


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy next`."""
    folder_argument(parser)
    model_argument(parser)
    purpose_argument(parser)
    parser.add_argument("-n", type=int, default=10, metavar="N", help="how many at most (10)")
    parser.add_argument("--seed", type=int, default=0, help="settles which of equal rows come (0)")


def purpose_argument(parser: argparse.ArgumentParser) -> None:
    """What rows are chosen for."""
    parser.add_argument(
        "--purpose", choices=PURPOSES, default="mix", help="what rows are chosen for (mix)"
    )


def run(options: argparse.Namespace) -> None:
    """Print rows with their reasons; nothing is kept."""
    session = open_project(options, graph=True)
    say_notes(session)
    found = session.next(options.n, options.purpose, seed=options.seed)
    if not found and options.n:
        say(f"no row is left to ask for {options.purpose!r}; try another --purpose")
    told = []
    for each in found:
        text = session.text(each.number)
        say(textwrap.fill(f"{each.id}  {each.purpose}: {each.reason}", WIDTH))
        say(f"    {textwrap.shorten(text, WIDTH - 4, placeholder='…')}\n")
        told.append(asdict(each) | {"text": text})
    write_json({"rows": told}, options.json)
