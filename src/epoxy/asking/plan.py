"""What a run would ask, what leaves the machine for it, and the run itself.

Rows are chosen first, answers that were paid for are looked up, and the rest is told, with what it may
cost, before the first call. Every answer is on the disk before it counts; when the run ends, for
whatever reason, all answers become labels of a labeller who may err, in one edit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import EndpointError, EpoxyError, ParameterError, UnknownName
from ..progress import Progress, silent
from ..session.edits import Label, several
from .answers import Answers, answers_of
from .budget import Budget, Meter, Spent
from .cache import About, Answer, Cache, Kept
from .choosing import Chosen
from .prompt import Prompt, fingerprint
from .running import Run
from .server import Server, Stopped
from .task import UNSURE

if TYPE_CHECKING:
    from ..session import Session

Callback = Callable[[dict[str, str]], str | None]
"""Anything that answers: gets the cells of a row by column, returns a class, or None where it is unsure."""
BYTES_PER_TOKEN, ANSWER_TOKENS = 4, 10
"""What estimates go by; budgets go by what cannot be exceeded."""
SHOWN = 1_500


@dataclass(frozen=True, eq=False)
class Question:
    """A row to ask about, and the fingerprint of all that its answer depends on."""

    chosen: Chosen
    cells: Mapping[str, str]
    key: str
    name: tuple[str, str]  # file and id of the row

    @property
    def about(self) -> About:
        """The question and the row."""
        return (self.key, *self.name)


@dataclass(eq=False)
class Asker:
    """Who answers, under which name, and what is sent of a row."""

    by: str
    prompt: Prompt
    answerer: Server | Callback

    @cached_property
    def identity(self) -> str:
        """A fingerprint of who answers and of all that is told but the row."""
        if isinstance(self.answerer, Server):
            return self.prompt.identity(self.answerer.model)
        return fingerprint(["callable", self.by, list(self.prompt.task.choices)])

    def question(self, session: Session, chosen: Chosen) -> Question:
        """What is asked about a row."""
        cells = self.prompt.task.cells(session.cells(session.number(chosen.place)))
        key = self.prompt.key(self.identity, cells)
        return Question(chosen, cells, key, session.state.names.name(chosen.place))

    def answer(self, cells: Mapping[str, str], meter: Meter) -> Answer:
        """Ask about one row."""
        if isinstance(self.answerer, Server):
            return self.answerer.answer(self.prompt, cells, meter)
        meter.settle(meter.take(0, 0), 0, 0)
        said = self.answerer(dict(cells))
        if said is not None and said not in self.prompt.task.choices:
            raise UnknownName.of(f"class ({self.by} answered so)", said, self.prompt.task.choices)
        return Answer(UNSURE if said is None else said)


@dataclass(eq=False)
class Plan:
    """Questions about rows of a session, and what is known of their answers."""

    session: Session
    asker: Asker
    questions: list[Question]
    cache: Cache
    budget: Budget
    at_once: int = 4
    reliable: float = 0.8
    stop: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def unpaid(self) -> dict[str, Question]:
        """Questions that have no answer yet, one for rows that say the same, by fingerprint."""
        found: dict[str, Question] = {}
        for each in self.questions:  # in their order: a budget that ends early leaves out the last
            if self.cache.get(each.key) is None:
                found.setdefault(each.key, each)
        return found

    def estimate(self) -> dict[str, float]:
        """Calls, tokens and money, if every question is answered at once."""
        server = self.asker.answerer
        found: dict[str, float] = {"calls": len(self.unpaid)}
        if isinstance(server, Server):
            every = [self.asker.prompt.messages(each.cells, "") for each in self.unpaid.values()]
            sent = sum(server.most_tokens(each)[0] for each in every) // BYTES_PER_TOKEN
            answered = ANSWER_TOKENS * len(every)
            found["tokens"] = sent + answered
            money = self.budget.cost(sent, answered)
            if money is not None:
                found["money"] = money
        return found

    def __str__(self) -> str:
        server, rows = self.asker.answerer, len(self.questions)
        known = rows - sum(each.key in self.unpaid for each in self.questions)
        have = f"; {known} of them have been answered before, and cost nothing" if known else ""
        if not isinstance(server, Server):
            return f"asks {self.asker.by} about {rows} rows{have}"
        columns = ", ".join(self.asker.prompt.task.columns)
        away = "to a server on this machine" if server.is_local else "AWAY FROM THIS MACHINE"
        lines = [
            f"asks {server.model} about {rows} rows{have}",
            f"  sends the columns {columns} of each, and what the task says, {away}: {server.where}",
            f"  about {_told(self.estimate())}; at most {_told(vars(self.budget))}",
        ]
        if first := next(iter(self.unpaid.values()), None):
            lines.append("  the first call:")
            for each in self.asker.prompt.messages(first.cells):
                text = each["content"]
                cut = "" if len(text) <= SHOWN else f" […, {len(text)} characters]"
                lines += [
                    f"  {each['role']:>9} │ {line}" for line in (text[:SHOWN] + cut).split("\n")
                ]
        return "\n".join(lines)

    def run(self, progress: Progress = silent) -> Answers:
        """Ask what has no answer yet, and take all answers up as labels."""
        meter = Meter(self.budget)
        if isinstance(self.asker.answerer, Server):
            self.asker.answerer.stop = self.stop

        def one(question: Question) -> None:
            answer = self.asker.answer(question.cells, meter)
            about = (question.key, self.asker.identity, *question.name, question.chosen.how)
            self.cache.add(Kept(*about, answer.choice, answer.why))

        runner = Run(one, self.stop)
        error = runner.over(list(self.unpaid.values()), self.at_once, progress)
        if isinstance(self.asker.answerer, Server):
            self.asker.answerer.close()
        self._take()
        if error is not None and not isinstance(error, Spent | Stopped | EndpointError):
            raise error
        if isinstance(error, EndpointError) and not runner.answered:
            raise error
        stopped = "interrupted" if runner.interrupted else _why(error)
        return answers_of(self, meter, runner.unanswered, stopped)

    def _take(self) -> None:
        """Make answers labels, in one edit, and note that they were used."""
        session, home, labels = self.session, self.session.folder, list[Label]()
        known = {each: self.cache.get(each.key) for each in self.questions}
        for each, answer in known.items():
            if answer is not None and answer.choice not in (None, UNSURE):
                content = None if home is None else home.content(each.chosen.place)
                said = (answer.choice, self.asker.by, each.chosen.how)
                labels.append(Label(*each.name, *said, content=content))
        if labels:
            session.apply(several(labels, f"{len(labels)} answers of {self.asker.by}"))
        self.cache.take(each.about for each, answer in known.items() if answer is not None)


def _why(error: BaseException | None) -> str:
    if error is None:
        return ""
    return str(error) if isinstance(error, EpoxyError) else "the budget is spent"


def _told(amounts: Mapping[str, object]) -> str:
    """Calls, tokens and money in words."""
    found = []
    for name in ("calls", "tokens", "money"):
        value = amounts.get(name)
        if isinstance(value, int | float):
            found.append(f"{value:,.4g} in money" if name == "money" else f"{value:,.0f} {name}")
    return ", ".join(found)


def checked_columns(asker: Asker, known: Mapping[str, str], hidden: frozenset[str]) -> None:
    """Refuse columns that are not there, and those that hold the labels."""
    for column in asker.prompt.task.columns:
        if column in hidden:
            raise ParameterError(
                f"column {column!r} holds labels, and would give the answers away; take it out of the "
                "columns that are sent"
            )
        if column not in known:
            raise UnknownName.of("column", column, known)
