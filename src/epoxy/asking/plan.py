"""What a run would ask, what leaves the machine for it, and the run itself.

Rows are chosen first, answers that were paid for are looked up, and the rest is told, with what it may
cost, before the first call. Every answer is on the disk before it counts; when the run ends, for
whatever reason, all answers become labels of a labeller who may err, in one edit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import EndpointError, EpoxyError, UnknownName
from ..progress import Progress, silent
from ..session.edits import Label, several
from .budget import Budget, Meter, Spent
from .cache import Answer, Cache, Kept
from .prompt import Prompt, fingerprint
from .questions import Chosen, Question
from .report import Answers, report_of
from .server import Server, Stopped, Unanswered
from .task import UNSURE

if TYPE_CHECKING:
    from ..session import Session

Callback = Callable[[dict[str, str]], str | None]
"""Anything that answers: gets the cells of a row by column, returns a class, or None where it is unsure."""
BYTES_PER_TOKEN, ANSWER_TOKENS = 4, 10
"""What estimates go by; budgets go by what cannot be exceeded."""
SHOWN = 1_500
LOST, LOST_AT_FIRST = 5, 2
"""Questions in a row without an answer that end a run, and those that do before the first answer."""


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
        run, server = _Run(self, progress), self.asker.answerer
        if isinstance(server, Server):
            server.stop = self.stop
        error = run.over()
        if isinstance(server, Server):
            server.close()
        self._take()
        if error is not None and not isinstance(error, Spent | Stopped | EndpointError):
            raise error
        if isinstance(error, EndpointError) and not run.answered:
            raise error
        stopped = "the budget is spent" if error is not None else ""
        stopped = str(error) if isinstance(error, EpoxyError) else stopped
        return report_of(
            self, run.meter, run.unanswered, "interrupted" if run.interrupted else stopped
        )

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


class _Run:
    """Asks questions, one by one until the first answer: a wrong key or address costs one call."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.plan, self.progress, self.meter = plan, progress, Meter(plan.budget)
        self._todo = iter(plan.unpaid.values())
        self._lock, self._lost = threading.Lock(), 0
        self.answered = self.unanswered = 0
        self.interrupted = False

    def over(self) -> BaseException | None:
        """Ask all of them; returns what ended the run before the end, None if nothing did."""
        futures: list[Future[None]] = []
        with ThreadPoolExecutor(self.plan.at_once) as pool:
            for workers in (1, self.plan.at_once):
                futures += [pool.submit(self._work, not futures) for _ in range(workers)]
                self._wait(futures)
        errors = [error for each in futures if (error := each.exception()) is not None]
        errors.sort(key=lambda error: isinstance(error, Spent | Stopped))  # the telling ones first
        return errors[0] if errors else None

    def _work(self, until_answered: bool) -> None:
        while not (until_answered and self.answered):
            with self._lock:
                question = None if self.plan.stop.is_set() else next(self._todo, None)
            if question is None:
                return
            try:
                self._one(question)
            except BaseException:
                self.plan.stop.set()
                raise
            self.progress(self.answered, len(self.plan.unpaid))

    def _one(self, question: Question) -> None:
        asker = self.plan.asker
        try:
            answer = asker.answer(question.cells, self.meter)
        except Unanswered as error:
            with self._lock:
                self.unanswered += 1
                self._lost += 1
                if self._lost >= (LOST if self.answered else LOST_AT_FIRST):
                    raise EndpointError(
                        f"{error}; the run ends here, and the same command goes on from there"
                    ) from None
            return
        about = (question.key, asker.identity, *question.name, question.chosen.how)
        self.plan.cache.add(Kept(*about, answer.choice, answer.said))
        with self._lock:
            self._lost = 0
            self.answered += 1

    def _wait(self, futures: Sequence[Future[None]]) -> None:
        """Wait for calls; Ctrl-C ends the run when those in flight are answered."""
        try:
            while wait(futures, timeout=0.1).not_done:  # a signal may not end a longer wait
                pass
        except KeyboardInterrupt:
            self.interrupted = True
            self.plan.stop.set()
            wait(futures)


def _told(amounts: Mapping[str, object]) -> str:
    """Calls, tokens and money in words."""
    found = []
    for name in ("calls", "tokens", "money"):
        value = amounts.get(name)
        if isinstance(value, int | float):
            found.append(f"{value:,.4g} in money" if name == "money" else f"{value:,.0f} {name}")
    return ", ".join(found)
