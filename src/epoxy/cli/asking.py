"""`epoxy ask`: answers of a language model, within a budget."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..errors import EndpointError, ParameterError
from .output import say, write_json
from .project import folder_argument, open_project, say_notes

if TYPE_CHECKING:
    from ..asking import Plan

FILTERS = ("uncertain", "novote", "conflict")
PURPOSES = ("mix", "teach", "score", "cover", "conflict")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy ask`."""
    folder_argument(parser)
    parser.add_argument("--model", dest="name", metavar="NAME", required=True, help="who answers")
    parser.add_argument(
        "--budget", type=int, required=True, metavar="N", help="the most calls; every try is one"
    )
    parser.add_argument(
        "--tokens", type=int, metavar="N", help="the most tokens, sent and answered"
    )
    parser.add_argument("--money", type=float, metavar="X", help="the most money; needs --prices")
    parser.add_argument(
        "--prices", metavar="IN,OUT", help="of a million tokens sent, and of a million answered"
    )
    parser.add_argument("--endpoint", metavar="URL", help="default: a server on this machine")
    parser.add_argument(
        "--key-env", metavar="NAME", help="the variable that holds the key (OPENAI_API_KEY)"
    )
    parser.add_argument("--yes", action="store_true", help="send without asking")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--rows", type=int, metavar="N", help="how many rows (default: the budget)")
    parser.add_argument(
        "--purpose", choices=PURPOSES, default="mix", help="what rows are chosen for (mix)"
    )
    which.add_argument("--filter", choices=FILTERS, help="only such rows")
    which.add_argument("--find", metavar="WORDS", help="only rows that hold these words")
    which.add_argument("--ids", metavar="A,B,…", help="these rows")
    which.add_argument("--again", action="store_true", help="the rows it labelled before")
    parser.add_argument("--by", metavar="NAME", help="the labeller's name (default: the model's)")
    parser.add_argument(
        "--check", type=int, metavar="N", help="how many hand-labelled rows (one in five)"
    )
    parser.add_argument("--at-once", type=int, default=4, metavar="N", help="calls in flight (4)")
    parser.add_argument(
        "--reliable", type=float, default=0.8, metavar="SHARE", help="warn below this (0.8)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="the most a call may take (60)")
    parser.add_argument(
        "--answer-tokens", type=int, default=256, metavar="N", help="the most of an answer (256)"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="send the key over http to another machine"
    )


def run(options: argparse.Namespace) -> None:
    """Show what would be sent, ask, and report."""
    from ..asking import LOCAL, Budget, Server, ask
    from ..progress import bar

    budget = Budget(options.budget, options.tokens, options.money, _prices(options.prices))
    server = Server(
        options.name,
        options.endpoint or LOCAL,
        options.key_env,
        options.insecure,
        options.seconds,
        answer_tokens=options.answer_tokens,
    )
    session = open_project(options, graph=True)
    done = ask(
        session,
        server,
        rows=_rows(options),
        budget=budget,
        by=options.by,
        purpose=options.purpose,
        check=options.check,
        at_once=options.at_once,
        reliable=options.reliable,
        confirm=lambda plan: _agreed(plan, options),
        progress=bar("asking"),
    )
    say(done)
    say_notes(session)
    write_json(done.to_dict(), options.json)
    if done.stopped == "interrupted":
        raise KeyboardInterrupt
    if not done.labels:
        raise EndpointError("no row was labelled; see above why, and ask again")


def _agreed(plan: Plan, options: argparse.Namespace) -> bool:
    """Show the plan, and let a person at a terminal decide."""
    say(plan)
    task = plan.asker.prompt.task
    if not task.described:
        say(
            f"! {options.folder / 'ask.toml'} says nothing of the classes yet; answers are better if it does"
        )
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise ParameterError("nobody is there to agree to what is sent; look at it, and add --yes")
    sys.stdout.flush()
    return input("Send it? [y/N] ").strip().lower() in ("y", "yes")


def _rows(options: argparse.Namespace) -> Any:
    from ..suggest.search import RowQuery

    if options.again:
        return "again"
    if options.ids is not None:
        return [each.strip() for each in options.ids.split(",")]
    if options.filter or options.find:
        return RowQuery(find=options.find or "", filter=options.filter or "all")
    return options.rows


def _prices(given: str | None) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        sent, answered = map(float, given.split(","))
    except ValueError:
        raise ParameterError(
            f"--prices got {given!r}; give two numbers, of a million tokens sent and answered: 0.15,0.6"
        ) from None
    return sent, answered
