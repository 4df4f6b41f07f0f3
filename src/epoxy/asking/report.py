"""What came of a run: how many answers, how often they agree with hand labels, and what they cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..diagnostics import Column, Finding, Report, Table
from ..diagnostics.sources import interval
from .budget import Meter
from .questions import Chosen, answered
from .task import UNSURE

if TYPE_CHECKING:
    from .plan import Plan

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
    found = [plan.cache.get(each.key) for each in plan.questions]
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
        f"answers of {plan.asker.by}",
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
    records, by = plan.session.state.records, plan.asker.by
    told = [dict(each.row) for each in plan.asker.prompt.task.examples]
    pairs, older = [], 0
    for place, _ in answered(plan.session, by):
        question = plan.asker.question(plan.session, Chosen(place, None))
        if plan.cache.get(question.key) is None:
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
    found, by = [], plan.asker.by
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
