"""`epoxy annotate`: label rows by keyboard at the terminal, in the order that helps."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import EpoxyError, ParameterError
from .choosing import purpose_argument
from .output import draw, say
from .project import folder_argument, model_argument, open_project, say_notes

if TYPE_CHECKING:
    from ..session import Session
    from ..suggest.next_rows import Suggestion

SKIP, WHY, UNDO, QUIT = "s", "w", "u", "q"
CLASS_KEYS = "123456789" + "".join(sorted(set("abcdefghijklmnoprtvxyz") - {SKIP, WHY, UNDO, QUIT}))
"""The keys of classes in order, unless every class is called by a key of its own."""
LINES = 14
"""Lines of a row that are shown."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy annotate`."""
    folder_argument(parser)
    model_argument(parser)
    purpose_argument(parser)
    parser.add_argument("--times", type=int, default=None, metavar="N", help="end after N labels")


def run(options: argparse.Namespace) -> None:
    """Show rows and take labels until q, or until nothing is left to ask."""
    if options.json == "-":
        raise ParameterError("epoxy annotate writes no result to read; leave --json out")
    if options.times is not None and options.times < 1:
        raise ParameterError(f"--times counts labels, from 1 on, got {options.times}; leave it out")
    session = open_project(options, graph=True)
    class_keys(session.classes)  # refused before anything is shown
    say_notes(session)
    with keys() as read:
        done = annotate(session, read, options.purpose, options.times)
    say(f"{done} label{'' if done == 1 else 's'} given, all kept; {_scored(session)}")


def annotate(
    session: Session, read: Callable[[], str], purpose: str, times: int | None = None
) -> int:
    """Label what is suggested by the keys that `read` gives ("" ends); returns how many were given."""
    skipped, given, told = set[int](), list[int](), ""
    while times is None or len(given) < times:
        row = next(iter(session.next(1, purpose, without=[*skipped, *given])), None)
        if row is None:
            say(f"no row is left to ask for {purpose!r}; try another --purpose")
            break
        key = _answer(session, row, told, read)
        if key in ("", QUIT):
            break
        told = ""
        if key == SKIP:
            skipped.add(row.number)
        elif key == UNDO:
            try:
                told = str(session.undo())
                given = given[:-1]
            except EpoxyError as error:  # nothing was given yet
                told = f"! {error}"
        else:
            label = class_keys(session.classes)[key]
            told = str(session.label(row.id, label, row.split, chosen=row.chosen))
            given.append(row.number)
    return len(given)


def class_keys(classes: tuple[str, ...]) -> dict[str, str]:
    """The class that each key gives: classes named by one digit or letter have that for a key."""
    if set(classes) <= {"0", *CLASS_KEYS}:
        return {each: each for each in classes}
    if len(classes) > len(CLASS_KEYS):
        raise ParameterError(
            f"{len(classes)} classes are more than there are keys ({len(CLASS_KEYS)}); "
            "label in epoxy studio, or with session.label(row, class)"
        )
    return dict(zip(CLASS_KEYS, classes, strict=False))


def _answer(session: Session, row: Suggestion, told: str, read: Callable[[], str]) -> str:
    """The first key that decides about a row; w shows its reasons and asks again."""
    known = {*class_keys(session.classes), SKIP, UNDO, QUIT, ""}
    why: list[str] = []
    while True:
        draw(_screen(session, row, told, why))
        sys.stdout.flush()
        key = read()
        if key in known:
            return key
        if key == WHY:
            why = ["", *_reasons(session, row)]
        else:
            told = f"! no key {key!r} here"


def _reasons(session: Session, row: Suggestion) -> list[str]:
    try:
        return str(session.explain(row.id, row.split)).splitlines()
    except EpoxyError as error:
        return [f"! {error}"]


def _screen(session: Session, row: Suggestion, told: str, why: list[str]) -> list[str]:
    width = min(100, shutil.get_terminal_size().columns)
    parts = session.text(row.number).splitlines()
    lines = [line for part in parts for line in textwrap.wrap(part, width) or [""]]
    cut = [*lines[: LINES - 1], "…"] if len(lines) > LINES else lines
    taught = session.hand_labelled()
    return [
        f"{0 if taught is None else taught.n_rows} labelled; {_scored(session)}",
        told,
        "",
        *textwrap.wrap(f"row {row.id}: {row.reason}", width),
        "",
        *(f"  {line}" for line in cut),
        *why,
        "",
        "   ".join(
            [
                *(f"[{key}] {name}" for key, name in class_keys(session.classes).items()),
                "[s] skip",
                "[w] why",
            ]
        )
        + "   [u] undo   [q] end",
    ]


def _scored(session: Session) -> str:
    scores = session.scores
    found = scores.line()
    return f"{found} on {scores['rows']:.0f} rows" if found else f"no scores: {scores.why}"


@contextmanager
def keys() -> Iterator[Callable[[], str]]:
    """A function that waits for a key; at a terminal without Enter, elsewhere from what is piped in."""
    if not sys.stdin.isatty():
        yield lambda: _piped()
        return
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)
        yield lambda: os.read(file, 1).decode("ascii", "replace").lower()
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _piped() -> str:
    """The next character that is no space or newline; "" at the end."""
    while True:
        key = sys.stdin.read(1)
        if not key or not key.isspace():
            return key.lower()
