"""`epoxy suggest`: functions that could be added, and adding them."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ParameterError
from .output import say, write_json
from .project import folder_argument, model_argument, open_project, say_notes

if TYPE_CHECKING:
    from ..session import Session
    from ..suggest import FunctionSuggestion

WIDTH = 100


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy suggest`."""
    folder_argument(parser)
    model_argument(parser)
    parser.add_argument("--class", dest="label", metavar="C", help="functions for one class only")
    parser.add_argument("-n", type=int, default=5, metavar="N", help="how many at most (5)")
    parser.add_argument(
        "--conflict", action="store_true", help="for rows on which functions quarrel"
    )
    parser.add_argument(
        "--accept",
        type=int,
        nargs="+",
        default=(),
        metavar="K",
        help="write these of the list to lfs.py, by number",
    )


def run(options: argparse.Namespace) -> None:
    """Print suggestions, and write those accepted to lfs.py."""
    session = open_project(options, graph=True)
    say_notes(session)
    found = session.suggest(options.n, label=options.label, conflict=options.conflict)
    if not found and options.n:
        say(_nothing(options.label))
    chosen = [_numbered(found, number) for number in dict.fromkeys(options.accept)]
    for number, each in enumerate(found, 1):
        _tell(number, each)
    for each in chosen:
        _accept(session, each)
    told = [each.to_dict() for each in found]
    accepted = [each.name for each in chosen]
    write_json({"suggestions": told, "accepted": accepted}, options.json)


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


def _tell(number: int, each: FunctionSuggestion) -> None:
    from ..functions.kinds import Definition, call_code

    code = call_code(Definition(each.definition), each.name, f"epoxy.{each.definition['kind']}")
    say(f"{number}  {code}")
    precision = each.precision
    say(
        f"   votes {each.label!r} on {each.rows:,} rows ({each.coverage:.1%}), on {each.adds:,} of them "
        f"nobody else does, against others on {each.against:,}"
    )
    say(
        f"   right {precision.value:.0%}, {precision.confidence:.0%} interval {precision.low:.0%} to "
        f"{precision.high:.0%}, by {precision.basis}"
    )
    say(textwrap.fill(each.reason, WIDTH, initial_indent="   ", subsequent_indent="   "))
    for word, rows in (("right", each.right), ("wrong", each.wrong)):
        for row in rows:
            by = "labelled" if row.by == "hand" else "looks"
            text = textwrap.shorten(row.text, WIDTH - 30, placeholder="…")
            say(f"   {word}: {row.id} {by} {row.label}: {text}")
    say("")


def _accept(session: Session, each: FunctionSuggestion) -> None:
    change = session.save_function(each.definition, each.name)
    said = "no vote changed" if change is None else str(change)
    scores = session.scores.line()
    say(f"wrote {each.name} to lfs.py: {said}{f'; {scores}' if scores else ''}")
