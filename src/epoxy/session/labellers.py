"""Who labelled rows by hand, how reliable each is, and which labels look wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import Column, Explanation, Finding, Report, Table
from ..engines import Outcome
from .records import UNTOLD, Place, Records

if TYPE_CHECKING:
    from .state import State

SUSPECT, SHOWN = 0.05, 10
"""A label is suspect that a model which did not learn from it finds so improbable."""
COLUMNS = (
    Column("labeller", "labeller"),
    Column("labels", "labels"),
    Column("right", "right", "share"),
    Column("from", "known from"),
    Column("suspect", "suspect"),
)


def with_labellers(report: Report, state: State, outcome: Outcome) -> Report:
    """The report with a table of the labellers and the labels that look wrong."""
    found = suspects(outcome)
    if found:
        ids = [state.names.name(place)[1] for place in found[:SHOWN]]
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        fact = f"Hand labels that look wrong, worst first: rows {', '.join(ids)}{more}."
        cure = "Look at them again: they are improbable to a model that did not learn from them."
        finding = Finding("suspect-labels", (), "note", fact, cure)
        report = replace(report, findings=(*report.findings, finding))
    rows = _labellers(state, found)
    if not rows:
        return report
    return replace(report, tables=(*report.tables, Table("labellers", COLUMNS, rows)))


def with_answers(found: Explanation, state: State, place: Place) -> Explanation:
    """The explanation with what labellers who may err said of the row; theirs is no truth."""
    at, row = place
    said = [each for each in state.records.of(place) if each.by is not None]
    if not said:
        return found
    names = state.workspace.classes
    words = tuple(
        f"{each.by}, right {state.records.right(each.by or ''):.0%} of the time, says "
        f"{names[each.label]!r}"
        for each in said
    )
    trusted = state.records.labels.wrong[at][row] == 0
    return replace(found, said=words, truth=found.truth if trusted else None)


def suspects(outcome: Outcome) -> list[tuple[int, int]]:
    """Split and row of labels that are improbable to models that did not learn from them, worst first."""
    labels, held = outcome.workspace.labels, outcome.held_out
    if held is None or not labels.count:
        return []
    given = held[np.arange(labels.count), labels.labels]
    places = [(at, int(row)) for at in labels.order for row in labels.rows[at]]
    order = np.argsort(given, kind="stable")
    return [places[at] for at in order if given[at] < SUSPECT]


def _labellers(state: State, found: list[tuple[int, int]]) -> tuple[dict[str, Any], ...]:
    records, counts = state.records, dict[str, list[int]]()
    doubted = set(found)
    for place, several in records.rows.items():
        for each in several:
            if each.by is not None:
                seen = counts.setdefault(each.by, [0, 0])
                seen[0] += 1
                seen[1] += place in doubted
    return tuple(
        {
            "labeller": name,
            "labels": count,
            "right": records.right(name),
            "from": _known_from(name, records),
            "suspect": doubtful,
        }
        for name, (count, doubtful) in sorted(counts.items())
    )


def _known_from(name: str, records: Records) -> str:
    if name in records.reliability:
        return "told"
    twice = name in records.estimated
    return "rows labelled twice" if twice else f"not known: {UNTOLD:.0%} assumed"
