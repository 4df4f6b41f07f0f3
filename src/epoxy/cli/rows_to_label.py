"""`epoxy next`, `annotate` and `suggest`: rows to label and functions to add, and taking them up."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..errors import EpoxyError, ParameterError
from .folders import say_notes
from .options import Home, Json, Model, Purpose, app, open_project
from .row_view import full
from .screen import bar, console, draw, say, shorten, table, write_json

if TYPE_CHECKING:
    from ..session import Session
    from ..suggest import FunctionSuggestion
    from ..suggest.next_rows import Suggestion

SKIP, WHY, UNDO, QUIT = "s", "w", "u", "q"
CLASS_KEYS = "123456789" + "".join(sorted(set("abcdefghijklmnoprtvxyz") - {SKIP, WHY, UNDO, QUIT}))
"""The keys of classes in order, unless every class is called by a key of its own."""


@app.command("next")
def next_rows(
    folder: Home,
    model: Model = None,
    purpose: Purpose = "mix",
    n: Annotated[int, Option("-n", metavar="N", help="how many at most")] = 10,
    seed: Annotated[int, Option(help="settles which of equal rows come")] = 0,
    json: Json = None,
) -> None:
    """Which rows to look at, and why.

    mix: seven rows that teach to three drawn at random, on which scores rest. teach: the model is
    unsure of them and of rows around them. score: drawn at random. cover: dense regions nobody votes
    on. conflict: functions quarrel. check: labels and votes that look wrong. Nothing is kept; the
    same rows come until one is labelled, by epoxy annotate or in the studio.

    \b
      epoxy next spam/ --purpose cover -n 5
    """
    session = open_project(folder, model)
    say_notes(session)
    found = session.next(n, purpose, seed=seed)
    if not found and n:
        say(f"no row is left to ask for {purpose!r}; try another --purpose")
    for each in found:
        say(f"{each.id}  {each.purpose}: {each.reason}")
        for line in full(session, each.number, 94):
            say(f"    {line}")
        say()
    if found:
        say(f"label them by keyboard: epoxy annotate {folder} --purpose {purpose}")
    told = [asdict(each) | {"text": session.text(each.number)} for each in found]
    write_json({"rows": told}, json)


@app.command()
def annotate(
    folder: Home,
    model: Model = None,
    purpose: Purpose = "mix",
    times: Annotated[int | None, Option(metavar="N", help="end after N labels")] = None,
    json: Json = None,
) -> None:
    """Label rows by keyboard at the terminal, in the order that helps.

    Shows one row at a time with the reason it was chosen: seven rows that teach to three drawn at
    random, on which scores rest. Digits label, s skips, w says why the row has the label it has,
    u takes the last label back, q ends. Every label is kept and learned from as soon as its key is
    pressed. Keys may be piped in.
    """
    if json == "-":
        raise ParameterError("epoxy annotate writes no result to read; leave --json out")
    if times is not None and times < 1:
        raise ParameterError(f"--times counts labels, from 1 on, got {times}; leave it out")
    session = open_project(folder, model)
    class_keys(session.classes)  # refused before anything is shown
    say_notes(session)
    with keys() as read:
        done = label_rows(session, read, purpose, times)
    say(f"{done} label{'' if done == 1 else 's'} given, all kept; {_scored(session)}")


def label_rows(
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
        draw([*_screen(session, row, told, why), _footer(session)])
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


def _screen(session: Session, row: Suggestion, told: str, why: Sequence[str]) -> list[Any]:
    taught = session.hand_labelled()
    picture = full(session, row.number, console().width - 4)
    return [
        f"{0 if taught is None else taught.n_rows} labelled; {_scored(session)}",
        told,
        "",
        f"row {row.id}: {row.reason}",
        "",
        *(f"  {line}" for line in picture),
        *why,
        "",
    ]


def _footer(session: Session) -> str:
    given = [f"[{key}] {name}" for key, name in class_keys(session.classes).items()]
    return "   ".join([*given, "[s] skip", "[w] why", "[u] undo", "[q] end"])


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


@app.command()
def suggest(
    folder: Home,
    model: Model = None,
    label: Annotated[
        str | None, Option("--class", metavar="C", help="functions for one class only")
    ] = None,
    n: Annotated[int, Option("-n", metavar="N", help="how many at most")] = 5,
    conflict: Annotated[
        bool, Option("--conflict", help="for rows on which functions quarrel")
    ] = False,
    accept: Annotated[
        list[int] | None,
        Option(metavar="K …", help="write these of the list to lfs.py, by number"),
    ] = None,
    json: Json = None,
) -> None:
    """Functions that could be added: words, patterns and example rows, and how right each would be.

    Found on one half of the rows, from hand labels and from what the model makes of the others, and
    judged on the other half: coverage, how often it is right with a 90 % interval and what that
    rests on, the rows it adds, and rows it looks right and wrong about. --accept writes them to
    lfs.py.

    \b
      epoxy suggest spam/ --class spam
      epoxy suggest spam/ --class spam --accept 1 3
    """
    session = open_project(folder, model)
    say_notes(session)
    found = session.suggest(n, label=label, conflict=conflict)
    if not found and n:
        say(_nothing(label))
    chosen = [_numbered(found, number) for number in dict.fromkeys(accept or ())]
    for number, each in enumerate(found, 1):
        _tell(session, number, each)
    for each in chosen:
        change = session.save_function(each.definition, each.name)
        said, scores = "no vote changed" if change is None else str(change), session.scores.line()
        say(f"wrote {each.name} to lfs.py: {said}{f'; {scores}' if scores else ''}")
    if found and not chosen:
        say(f"take them: epoxy suggest {folder}{f' --class {label}' if label else ''} --accept 1")
    told = [each.to_dict() for each in found]
    write_json({"suggestions": told, "accepted": [each.name for each in chosen]}, json)


def _nothing(label: str | None) -> str:
    """That nothing is suggested, and what may help."""
    if label is not None:
        return f"no words, patterns or example rows tell {label!r} from the others; label more rows"
    return (
        "no words, patterns or example rows tell classes from each other; label more rows, or ask "
        "for one class: --class C"
    )


def _numbered(found: Sequence[FunctionSuggestion], number: int) -> FunctionSuggestion:
    if not found:
        raise ParameterError(
            "there is nothing to accept, since nothing is suggested; leave --accept out"
        )
    if not 1 <= number <= len(found):
        raise ParameterError(
            f"there is no suggestion {number} to accept, they are numbered 1 to {len(found)}; "
            "see the list without --accept"
        )
    return found[number - 1]


def _tell(session: Session, number: int, each: FunctionSuggestion) -> None:
    """One suggestion: its code, what it adds, how right it is, and rows for and against it."""
    from ..functions.kinds import form_of
    from ..functions.lfs_file import call_code

    code = call_code(form_of(each.definition), each.name, f"epoxy.{each.definition['kind']}")
    say(f"{number}  {code}", style="bold")
    say(
        f"   votes {each.label!r} on {each.rows:,} rows ({each.coverage:.1%}), on {each.adds:,} of them "
        f"nobody else does, against others on {each.against:,}"
    )
    sure = each.precision
    say(
        f"   right {sure.value:.0%} {bar(sure.value, 20)} {sure.confidence:.0%} interval {sure.low:.0%} to "
        f"{sure.high:.0%}, by {sure.basis}"
    )
    say(f"   {each.reason}")
    pictured = not each.right + each.wrong or session.texts is None or session.texts.column is None
    lines = [
        (word, row.id, f"{'labelled' if row.by == 'hand' else 'looks'} {row.label}",
         "" if pictured else shorten(row.text, 60))
        for word, rows in (("right", each.right), ("wrong", each.wrong))
        for row in rows
        if word == "right" or row.label != each.label
    ]  # fmt: skip
    say(table(["", "~", "~", "~"], lines, indent=3), "")
