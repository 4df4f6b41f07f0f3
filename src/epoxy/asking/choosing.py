"""Which rows are asked about: those that help most, those that match a question, or those named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..session.browsing import RowQuery
from ..session.records import Place
from ..votes import ABSTAIN, RANDOM

if TYPE_CHECKING:
    from ..session import Session

Rows = int | RowQuery | Sequence[Any]
"""How many rows, a question that they match, or their ids."""
CHECK, MOST_CHECKED, SHARE_CHECKED = "check", 100, 5
"""One row in five, and 100 at most, is one that a person labelled: that tells how often answers are right."""


class Chosen(NamedTuple):
    """A row, and how it was picked."""

    place: Place
    how: str | None


def rows_to_ask(session: Session, rows: RowQuery | Sequence[Any]) -> list[Chosen]:
    """Rows that match a question and have no label, or rows by their ids."""
    if isinstance(rows, RowQuery):
        how = "words" if rows.find else rows.filter
        labelled = session.state.records.labels
        places = (session.place(int(number)) for number in session.browse(rows).rows)
        return [Chosen(each, how) for each in places if labelled.y[each[0]][each[1]] == ABSTAIN]
    return [Chosen(_place(session, each), "named") for each in rows]


def rows_to_check(session: Session, by: str) -> list[Chosen]:
    """Rows that a trusted person labelled and `by` did not, shuffled; those drawn at random first."""
    records = session.state.records
    labels = records.labels
    found = [
        Chosen((at, int(row)), CHECK)
        for at in labels.order
        for row in labels.rows[at]
        if labels.wrong[at][row] == 0 and all(each.by != by for each in records.of((at, int(row))))
    ]
    words = [labels.chosen[at][row] for (at, row), _ in found]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[at] for at in sorted(order, key=lambda at: words[at] not in (None, RANDOM))]


def rows_answered(session: Session, by: str) -> list[Chosen]:
    """Rows that `by` labelled."""
    every = session.state.records.rows.items()
    return [
        Chosen(place, each.chosen) for place, several in every for each in several if each.by == by
    ]


def rows_next(session: Session, n: int, purpose: str, by: str) -> list[Chosen]:
    """Rows that help most, `n` besides those that `by` labelled."""
    done = [session.number(place) for place, _ in rows_answered(session, by)]
    found = session.next(n, purpose, without=done)
    return [Chosen(session.place(each.number), each.chosen) for each in found]


def _place(session: Session, row: Any) -> Place:
    split, at = session.find(row)
    return session.names.index(split), at
