"""`epoxy ask`: answers of a language model, within a budget."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from ..errors import EndpointError, ParameterError
from .folders import say_notes
from .options import Home, Json, app, listed, open_project
from .screen import say, write_json

if TYPE_CHECKING:
    from ..asking import Plan


@app.command()
def ask(
    folder: Home,
    model: Annotated[str, Option(metavar="NAME", help="who answers")],
    budget: Annotated[int, Option(metavar="N", help="the most calls; every try is one")],
    tokens: Annotated[
        int | None, Option(metavar="N", help="the most tokens, sent and answered")
    ] = None,
    money: Annotated[
        float | None, Option(metavar="X", help="the most money; needs --prices")
    ] = None,
    prices: Annotated[
        str | None,
        Option(metavar="IN,OUT", help="of a million tokens sent, and of a million answered"),
    ] = None,
    endpoint: Annotated[
        str | None, Option(metavar="URL", help="default: a server on this machine")
    ] = None,
    key_env: Annotated[
        str | None, Option(metavar="NAME", help="the variable that holds the key (OPENAI_API_KEY)")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="send without asking")] = False,
    rows: Annotated[
        int | None, Option(metavar="N", help="how many rows (default: the budget)")
    ] = None,
    purpose: Annotated[
        Literal["mix", "teach", "score", "cover", "conflict"],
        Option(help="what rows are chosen for"),
    ] = "mix",
    filter: Annotated[  # noqa: A002
        Literal["uncertain", "novote", "conflict"] | None, Option(help="only such rows")
    ] = None,
    find: Annotated[
        str | None, Option(metavar="WORDS", help="only rows that hold these words")
    ] = None,
    ids: Annotated[str | None, Option(metavar="A,B,…", help="these rows")] = None,
    again: Annotated[bool, Option("--again", help="the rows it labelled before")] = False,
    by: Annotated[
        str | None, Option(metavar="NAME", help="the labeller's name (default: the model's)")
    ] = None,
    check: Annotated[
        int | None, Option(metavar="N", help="how many hand-labelled rows (one in five)")
    ] = None,
    at_once: Annotated[int, Option(metavar="N", help="calls in flight")] = 4,
    reliable: Annotated[float, Option(metavar="SHARE", help="warn below this")] = 0.8,
    seconds: Annotated[float, Option(help="the most a call may take")] = 60.0,
    answer_tokens: Annotated[int, Option(metavar="N", help="the most of an answer")] = 256,
    insecure: Annotated[
        bool, Option("--insecure", help="send the key over http to another machine")
    ] = False,
    json: Json = None,
) -> None:
    """Ask a language model about rows, within a budget, and take its answers as fallible labels.

    Any server that speaks the OpenAI chat-completions protocol, by default one on this machine. The
    task, the classes and the columns that are sent stand in DIR/ask.toml, which is written on first
    use for you to edit. What leaves the machine, and where to, is shown before the first call.
    Answers are kept: nothing is paid twice, and a killed run goes on where it was. One row in
    five is one that you labelled, so that the report can say how often answers are right.

    \b
      epoxy ask spam/ --model llama3.1 --budget 300
      epoxy ask spam/ --model gpt-4o-mini --budget 300 --endpoint https://api.openai.com/v1
    """
    from ..asking import LOCAL, Budget, Server
    from ..asking import ask as ask_rows
    from ..progress import bar

    which = {"--rows": rows, "--filter": filter, "--find": find, "--ids": ids, "--again": again}
    given = [name for name, value in which.items() if value]
    if len(given) > 1 and set(given) != {"--filter", "--find"}:
        raise ParameterError(f"{' and '.join(given)} name different rows; give one of them")
    limits = Budget(budget, tokens, money, _prices(prices))
    server = Server(
        model, endpoint or LOCAL, key_env, insecure, seconds, answer_tokens=answer_tokens
    )
    session = open_project(folder)
    done = ask_rows(
        session,
        server,
        rows=_rows(rows, filter, find, ids, again),
        budget=limits,
        by=by,
        purpose=purpose,
        check=check,
        at_once=at_once,
        reliable=reliable,
        confirm=partial(_agreed, folder, yes),
        progress=bar("asking"),
    )
    say(str(done))
    say_notes(session)
    write_json(done.to_dict(), json)
    if done.stopped == "interrupted":
        raise KeyboardInterrupt
    if not done.labels:
        raise EndpointError("no row was labelled; see above why, and ask again")


def _agreed(folder: Path, yes: bool, plan: Plan) -> bool:
    """Show the plan, and let a person at a terminal decide."""
    say(str(plan))
    if not plan.task.described:
        said = f"! {folder / 'ask.toml'} says nothing of the classes yet; answers are better if it does"
        say(said)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ParameterError("nobody is there to agree to what is sent; look at it, and add --yes")
    sys.stdout.flush()
    return input("Send it? [y/N] ").strip().lower() in ("y", "yes")


def _rows(
    rows: int | None, kind: str | None, find: str | None, ids: str | None, again: bool
) -> Any:
    from ..suggest.search import RowQuery

    if again:
        return "again"
    if ids is not None:
        return listed(ids)
    if kind or find:
        return RowQuery(find=find or "", filter=kind or "all")
    return rows


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
