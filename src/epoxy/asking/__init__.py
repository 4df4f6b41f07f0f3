"""Answers of a language model, or of anything else that can be called, within a budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import EndpointError, ParameterError, UnknownName
from ..progress import Progress, silent
from .answers import Cache
from .plan import Answers, Callback, Plan, Rows
from .prompt import FILE, Example, Task, read_task, write_task
from .server import LOCAL, Budget, Server

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["LOCAL", "Answers", "Budget", "Example", "Plan", "Server", "Task", "ask"]


def ask(
    session: Session,
    answer: Server | Callback | None = None,
    *,
    rows: Rows = None,
    budget: Budget | int | None = None,
    by: str | None = None,
    task: Task | None = None,
    purpose: str = "mix",
    check: int | None = None,
    at_once: int | None = None,
    reliable: float = 0.8,
    confirm: Callable[[Plan], bool] | None = None,
    progress: Progress = silent,
    **server: Any,
) -> Answers:
    """Ask about rows, and take the answers as labels of a labeller who may err.

    Parameters
    ----------
    answer
        What answers: a `Server`, or a function of a row's cells (a dict of texts) that returns a class,
        or None where it is unsure. Without one, `model=` and the other arguments of `Server` make one.
    rows
        How many rows, ids of rows, a `RowQuery` they match, or "again" for all that `by` labelled (those
        whose prompt is the same cost nothing). By default as many as the budget has calls.
    purpose
        What rows are chosen for that are not named, as in `Session.next`.
    budget
        The most calls, or a `Budget` that also limits tokens and money. Every try is a call.
    by
        The labeller's name; by default the model's.
    task
        What is told and which columns are sent; by default what `ask.toml` of the project says.
    check
        How many of the rows are ones that a person labelled, so that it is seen how often answers are
        right; by default one in five, 100 at most.
    at_once
        Calls in flight; by default 4 for a server and 1 for a function.
    reliable
        The report warns below this share of answers that agree with hand labels.
    confirm
        Gets the plan before the first call; nothing is asked where it returns False. Without it rows
        are sent only to this machine: to let them leave it, look at the plan and return True.

    Examples
    --------
    >>> from epoxy import Session, Split, Votes
    >>> rows = [{"text": text} for text in ["win money", "a song", "money now", "sing it"] * 10]
    >>> votes = Votes([[1, -1], [-1, 0], [1, -1], [-1, -1]] * 10, classes=["ham", "spam"])
    >>> vectors = [[1.0, 0.1], [0.1, 1.0], [1.0, 0.2], [0.2, 1.0]] * 10
    >>> session = Session(Split(votes, vectors), rows=rows)
    >>> done = ask(session, lambda row: "spam" if "money" in row["text"] else None, by="me", rows=8)
    >>> done.labels + done.unsure
    8
    """
    answerer, name, told = _asker(session, answer, by, task, server)
    limit = _budget(budget, rows)
    n = rows if isinstance(rows, int) else limit.calls
    if n < 1 or (check is not None and check < 0):
        raise ParameterError(f"{n} rows, {check} to check on, cannot be asked; give 1 or more")
    home = session.folder
    if home is not None:
        home.catch_up(session)  # rows that others labelled are not asked about
    with Cache(None if home is None else home.project.cache / "answers.sqlite") as cache:
        threads = at_once or (4 if isinstance(answerer, Server) else 1)
        plan = Plan(session, name, told, answerer, cache, limit, threads, reliable)
        plan.choose(rows, n, check, purpose)
        if plan.unpaid and not _may(plan, confirm):
            raise EndpointError("nothing was asked and nothing was sent; say yes to let rows leave")
        return plan.run(progress)


def _may(plan: Plan, confirm: Callable[[Plan], bool] | None) -> bool:
    if confirm is not None:
        return confirm(plan)
    server = plan.answerer
    if isinstance(server, Server) and not server.is_local:
        raise EndpointError(
            f"{len(plan.unpaid)} rows would leave this machine for {server.where}; look at the plan and "
            "agree to it: confirm=lambda plan: True"
        )
    return True


def _asker(
    session: Session,
    answer: Server | Callback | None,
    by: str | None,
    task: Task | None,
    server: dict[str, Any],
) -> tuple[Server | Callback, str, Task]:
    if answer is None:
        if "model" not in server:
            raise ParameterError("nobody is named to ask; give model=…, or a function that answers")
        answer = Server(**server)
    elif server:
        raise ParameterError(
            f"{sorted(server)} are of a server, and an answerer is given; leave one"
        )
    name = answer.model if by is None and isinstance(answer, Server) else by
    if not isinstance(name, str) or not name:
        raise ParameterError("answers need the name of a labeller; give by=…")
    cells = session.cells(0)
    home = session.folder
    hidden = frozenset[str]() if home is None else home.rows.given
    if task is None:
        task = _task(
            session, isinstance(answer, Server), tuple(each for each in cells if each not in hidden)
        )
    for column in task.columns:
        if column in hidden:
            raise ParameterError(
                f"column {column!r} holds labels, and would give the answers away; take it out of the "
                "columns that are sent"
            )
        if column not in cells:
            raise UnknownName.of("column", column, cells)
    return answer, name, task


def _task(session: Session, is_server: bool, columns: tuple[str, ...]) -> Task:
    if not is_server:
        return Task(dict.fromkeys(session.classes, ""), columns)
    home, texts = session.folder, session.texts
    column = None if texts is None else texts.column
    if home is not None:
        path, project = home.project.folder / FILE, home.project
        every = [each for each in columns if each != project.id]
        write_task(path, session.classes, every if column is None else [column, *project.mentions])
        return read_task(path, session.classes)
    if column is None:
        raise ParameterError("no column is named to send; give task=Task(classes, columns=…)")
    return Task(dict.fromkeys(session.classes, ""), (column,))


def _budget(given: Budget | int | None, rows: Any) -> Budget:
    if isinstance(given, Budget):
        return given
    if given is None:
        if isinstance(rows, int):
            return Budget(rows)
        if rows is None:
            raise ParameterError("how much may be spent is not said; give budget=…, in calls")
        given = 1 << 40
    return Budget(given)
