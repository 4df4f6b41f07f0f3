"""Which rows are asked about, what leaves the machine for it, the run itself, and what came of it.

Rows are chosen first, answers that were paid for are looked up, and the rest is told, with what it may
cost, before the first call. Every answer is on the disk before it counts; when the run ends, for
whatever reason, all answers become labels of a labeller who may err, in one edit.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..diagnostics import Column, Finding, Report, Table
from ..diagnostics.per_source import interval
from ..errors import EndpointError, EpoxyError, UnknownName
from ..progress import Progress, silent
from ..session.edits import Label, several
from ..session.labels import Place
from ..suggest.search import RowQuery
from ..votes import ABSTAIN, RANDOM
from .answers import About, Cache, ModelAnswer
from .prompt import UNSURE, Task, fingerprint
from .server import Budget, Meter, Server, Spent, Stopped, Unanswered

if TYPE_CHECKING:
    from ..session import Session

Rows = int | RowQuery | Sequence[Any] | Literal["again"] | None
"""How many rows, a question that they match, their ids, or those that were answered before."""
CHECK, MOST_CHECKED, SHARE_CHECKED = "check", 100, 5
"""One row in five, and 100 at most, is one that a person labelled: that tells how often answers are right."""


Chosen = tuple[Place, str | None]
"""A row, and how it was picked."""
Callback = Callable[[dict[str, str]], str | None]
"""Anything that answers: gets the cells of a row by column, returns a class, or None where it is unsure."""
BYTES_PER_TOKEN, ANSWER_TOKENS = 4, 10
"""What estimates go by; budgets go by what cannot be exceeded."""
SHOWN = 1_500
LOST, LOST_AT_FIRST = 5, 2
"""Questions in a row without an answer that end a run, and those that do before the first answer."""


@dataclass(frozen=True, eq=False)
class Question:
    """A row to ask about, and the fingerprint of all that its answer depends on."""

    place: Place
    cells: Mapping[str, str]
    about: About


@dataclass(eq=False)
class Plan:
    """Who answers under which name, what is sent of a row, which rows, and what is known of the answers."""

    session: Session
    by: str
    task: Task
    answerer: Server | Callback
    cache: Cache
    budget: Budget
    at_once: int = 4
    reliable: float = 0.8
    stop: threading.Event = field(default_factory=threading.Event)
    questions: list[Question] = field(default_factory=list)

    @cached_property
    def identity(self) -> str:
        """A fingerprint of who answers and of all that is told but the row."""
        if isinstance(self.answerer, Server):
            return fingerprint([self.answerer.model, self.task.messages({}, mark="")])
        return fingerprint(["callable", self.by, list(self.task.choices)])

    def choose(self, rows: Rows, n: int, check: int | None, purpose: str) -> None:
        """Choose what to ask: answers that wait to be used, then rows to check on, then the rest."""
        session = self.session
        if rows == "again":
            self.questions = [self.question(*each) for each in self.answered()]
            return
        if rows is not None and not isinstance(rows, int | RowQuery):
            found = [(split, at) for split, at in map(session.find, rows)]
            places = [(session.names.index(split), at) for split, at in found]
            self.questions = [self.question(each, "named") for each in places]
            return
        if isinstance(rows, RowQuery):
            chosen = self._matching(rows)
        else:
            more = self.cache.n_taken(self.identity)  # some of which were no label, or undone
            done = [session.number(place) for place, _ in self.answered()]
            ranked = session.next(n + more, purpose, without=done)
            chosen = [(session.place(each.number), each.chosen) for each in ranked]
        self.questions = list(islice(self._waiting(), n))
        n_check = min(MOST_CHECKED, n // SHARE_CHECKED) if check is None else check
        n_check -= sum(each.about.chosen == CHECK for each in self.questions)
        for places_of, most in ((self._to_check(), n_check), (chosen, n)):
            seen = {each.place for each in self.questions}
            new = (self.question(*each) for each in places_of if each[0] not in seen)
            unused = (each for each in new if not self.cache.is_taken(each.about))
            self.questions += islice(unused, max(0, min(most, n - len(self.questions))))

    def question(self, place: Place, how: str | None) -> Question:
        """What is asked about a row."""
        cells = self.task.cells(self.session.cells(self.session.number(place)))
        key = fingerprint([self.identity, cells])
        return Question(place, cells, About(key, *self.session.state.names.name(place), how))

    def answered(self) -> list[Chosen]:
        """Rows that were labelled under this name."""
        every = self.session.state.records.rows.items()
        return [
            (at, each.chosen) for at, several in every for each in several if each.by == self.by
        ]

    def _matching(self, rows: RowQuery) -> list[Chosen]:
        """Rows that match a question and have no label."""
        session, how = self.session, "words" if rows.find else rows.filter
        y = session.state.records.labels.y
        places = (session.place(int(number)) for number in session.browse(rows).rows)
        return [(each, how) for each in places if y[each[0]][each[1]] == ABSTAIN]

    def _waiting(self) -> Iterator[Question]:
        """Questions whose answers came, and that a killed run did not come to use."""
        done = {place for place, _ in self.answered()}
        for kept in self.cache.waiting(self.identity):
            place = self.session.state.names.find(kept.file, kept.row)
            if place is not None and place not in done:
                question = self.question(place, kept.chosen)
                if question.about.key == kept.key:
                    yield question

    def _to_check(self) -> list[Chosen]:
        """Rows that a trusted person labelled, and nobody under this name; those drawn at random first."""
        records = self.session.state.records
        labels, mine = records.labels, {place for place, _ in self.answered()}
        trusted = [(at, int(row)) for at in labels.order for row in labels.rows[at]]
        found = [at for at in trusted if labels.wrong[at[0]][at[1]] == 0 and at not in mine]
        found = [found[each] for each in np.random.default_rng(0).permutation(len(found))]
        found.sort(key=lambda at: labels.chosen[at[0]][at[1]] not in (None, RANDOM))
        return [(each, CHECK) for each in found]

    def answer(self, cells: Mapping[str, str], meter: Meter) -> ModelAnswer:
        """Ask about one row."""
        if isinstance(self.answerer, Server):
            return self.answerer.answer(self.task, cells, meter)
        meter.settle(meter.take(0, 0), 0, 0)
        said = self.answerer(dict(cells))
        if said is not None and said not in self.task.choices:
            raise UnknownName.of(f"class ({self.by} answered so)", said, self.task.choices)
        return ModelAnswer(UNSURE if said is None else said)

    @cached_property
    def unpaid(self) -> dict[str, Question]:
        """Questions that have no answer yet, one for rows that say the same, by fingerprint."""
        found: dict[str, Question] = {}
        for each in self.questions:  # in their order: a budget that ends early leaves out the last
            if self.cache.get(each.about.key) is None:
                found.setdefault(each.about.key, each)
        return found

    def estimate(self) -> dict[str, float]:
        """Calls, tokens and money, if every question is answered at once."""
        server = self.answerer
        found: dict[str, float] = {"calls": len(self.unpaid)}
        if isinstance(server, Server):
            every = [self.task.messages(each.cells, "") for each in self.unpaid.values()]
            sent = sum(server.most_tokens(each)[0] for each in every) // BYTES_PER_TOKEN
            answered = ANSWER_TOKENS * len(every)
            found["tokens"] = sent + answered
            money = self.budget.cost(sent, answered)
            if money is not None:
                found["money"] = money
        return found

    def __str__(self) -> str:
        server, rows = self.answerer, len(self.questions)
        known = rows - sum(each.about.key in self.unpaid for each in self.questions)
        have = f"; {known} of them have been answered before, and cost nothing" if known else ""
        if not isinstance(server, Server):
            return f"asks {self.by} about {rows} rows{have}"
        columns = ", ".join(self.task.columns)
        away = "to a server on this machine" if server.is_local else "AWAY FROM THIS MACHINE"
        lines = [
            f"asks {server.model} about {rows} rows{have}",
            f"  sends the columns {columns} of each, and what the task says, {away}: {server.where}",
            f"  about {_told(self.estimate())}; at most {_told(vars(self.budget))}",
        ]
        if first := next(iter(self.unpaid.values()), None):
            lines.append("  the first call:")
            for each in self.task.messages(first.cells):
                text = each["content"]
                cut = "" if len(text) <= SHOWN else f" […, {len(text)} characters]"
                lines += [
                    f"  {each['role']:>9} │ {line}" for line in (text[:SHOWN] + cut).split("\n")
                ]
        return "\n".join(lines)

    def run(self, progress: Progress = silent) -> Answers:
        """Ask what has no answer yet, and take all answers up as labels."""
        run, server = _Run(self, progress), self.answerer
        with server if isinstance(server, Server) else nullcontext():
            if isinstance(server, Server):
                server.stop = self.stop
            error = run.over()
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
        known = {each: self.cache.get(each.about.key) for each in self.questions}
        for each, answer in known.items():
            if answer is not None and answer.choice not in (None, UNSURE):
                content = None if home is None else home.content(each.place)
                _, file, row, how = each.about
                labels.append(Label(file, row, answer.choice, self.by, how, content=content))
        if labels:
            session.apply(several(labels, f"{len(labels)} answers of {self.by}"))
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
        try:
            answer = self.plan.answer(question.cells, self.meter)
        except Unanswered as error:
            with self._lock:
                self.unanswered += 1
                self._lost += 1
                if self._lost >= (LOST if self.answered else LOST_AT_FIRST):
                    raise EndpointError(
                        f"{error}; the run ends here, and the same command goes on from there"
                    ) from None
            return
        self.plan.cache.add(question.about, self.plan.identity, answer)
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


_COLUMNS = (
    Column("class", "labelled by hand as"),
    Column("agreed", "answered the same", "interval"),
    Column("instead", "answered instead"),
)


@dataclass(frozen=True)
class Answers:
    """The report of a run; it prints, and turns into a dict."""

    report: Report
    labels: int
    """Answers that became labels."""
    unsure: int
    """Rows of which the answerer said that they do not tell."""
    abstained: int
    """Rows whose answer was no answer, also after one repair."""
    unanswered: int
    """Rows that got no answer at all."""
    calls: int
    tokens: int
    money: float | None
    agreement: dict[str, Any] | None
    """The share of hand-labelled rows answered as labelled, with its interval; None for no such row."""
    stopped: str = ""
    """Why the run ended before all rows were asked about; empty if it did not."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        return {**vars(self), "report": self.report.to_dict()}

    def __str__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def report_of(plan: Plan, meter: Meter, unanswered: int, stopped: str) -> Answers:
    """The report of a run that is over."""
    found = [plan.cache.get(each.about.key) for each in plan.questions]
    said = [each for each in found if each is not None]
    labels = sum(each.choice not in (None, UNSURE) for each in said)
    unsure = sum(each.choice == UNSURE for each in said)
    wrong = Counter(each.said for each in said if each.choice is None)
    pairs, older = _compared(plan)
    agreement = interval(sum(hand == answer for hand, answer in pairs), len(pairs))
    table = Table("agreement with hand labels", _COLUMNS, _by_class(plan, pairs))
    money = meter.money
    summary: dict[str, Any] = {
        "labels": labels,
        "unsure": unsure,
        "no valid answer": wrong.total(),
        "not answered": len(found) - len(said),
        "agreement": (agreement and Column("", "", "interval").write({"": agreement}))
        or "not known: no row with a hand label was answered",
        "calls": meter.calls,
        "tokens": f"{meter.sent:,} sent, {meter.answered:,} answered",
    }
    if money is not None:
        summary["money"] = f"{money:.4f}" + (f", {money / labels:.6f} a label" if labels else "")
    report = Report(
        f"answers of {plan.by}",
        summary,
        findings=tuple(_findings(plan, agreement, older, stopped, wrong)),
        tables=(table,) if pairs else (),
    )
    tokens = meter.sent + meter.answered
    counts = (labels, unsure, wrong.total(), unanswered, meter.calls, tokens)
    return Answers(report, *counts, money, agreement, stopped)


def _compared(plan: Plan) -> tuple[list[tuple[int, int]], int]:
    """Hand label and answer of rows that have both, and how many answers are to another prompt.

    Examples of the task are left out: their answer was told.
    """
    records, by = plan.session.state.records, plan.by
    told = [dict(each.row) for each in plan.task.examples]
    pairs, older = [], 0
    for place, _ in plan.answered():
        question = plan.question(place, None)
        if plan.cache.get(question.about.key) is None:
            older += 1
            continue
        several = records.of(place)
        hand = next((each.label for each in several if each.by is None), None)
        if hand is not None and dict(question.cells) not in told:
            pairs += [(hand, each.label) for each in several if each.by == by]
    return pairs, older


def _by_class(plan: Plan, pairs: list[tuple[int, int]]) -> tuple[dict[str, Any], ...]:
    rows = []
    for at, name in enumerate(plan.session.classes):
        said = [answer for hand, answer in pairs if hand == at]
        others = Counter(plan.session.classes[each] for each in said if each != at).most_common(3)
        instead = ", ".join(f"{other} {count}" for other, count in others)
        rows.append(
            {"class": name, "agreed": interval(said.count(at), len(said)), "instead": instead}
        )
    return tuple(rows)


def _findings(
    plan: Plan,
    agreement: dict[str, Any] | None,
    older: int,
    stopped: str,
    wrong: Counter[str],
) -> list[Finding]:
    found, by = [], plan.by
    if wrong:
        shown = "; ".join(f"{text!r:.200} ({count} ×)" for text, count in wrong.most_common(3))
        fact = f"{wrong.total()} answers named none of the choices: {shown}."
        cure = "Allow a model that thinks aloud more --answer-tokens, or take another."
        found.append(Finding("no-valid-answer", (), "warning", fact, cure))
    if stopped:
        cure = "The same command goes on from there, and pays nothing twice."
        found.append(Finding("stopped", (), "warning", f"The run ended early: {stopped}.", cure))
    if agreement is None:
        fact = f"How often {by} is right is not known; 90% is assumed, or what [labellers] says."
        cure = "Label some rows by hand, drawn at random, and ask again: some are then asked twice."
        found.append(Finding("unknown-reliability", (), "note", fact, cure))
    elif agreement["value"] < plan.reliable:
        share = f"{agreement['value']:.0%} ({agreement['low']:.0%}–{agreement['high']:.0%})"
        fact = (
            f"{by} agrees with {share} of hand labels, less than the {plan.reliable:.0%} asked for."
        )
        cure = "Say more of the classes in the task, take another model, or undo these labels."
        found.append(Finding("unreliable", (), "warning", fact, cure))
    if older:
        fact = f"{older} labels of {by} answer another prompt, or were not asked for here."
        found.append(
            Finding("older-answers", (), "note", fact, "Ask about them again: rows='again'.")
        )
    return found
