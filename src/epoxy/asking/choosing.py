"""Which rows are asked about: those that help most, those that match a question, or those named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..session.browsing import RowQuery
from ..session.records import Place
from ..votes import ABSTAIN, RANDOM
from ..workspace import TRAIN

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


def rows_to_ask(session: Session, rows: Rows | None) -> Iterable[Chosen]:
    """Rows in the order in which they are asked about; by number or without one, more than are needed."""
    if isinstance(rows, RowQuery):
        how = "words" if rows.find else rows.filter
        labelled = session.state.records.labels
        places = (session.place(int(number)) for number in session.browse(rows).rows)
        return [Chosen(each, how) for each in places if labelled.y[each[0]][each[1]] == ABSTAIN]
    if rows is None or isinstance(rows, int):
        return _next(session)
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


def _next(session: Session) -> list[Chosen]:
    """Train rows without a label, from the beginning of one random order of all."""
    y = session.state.records.labels.y[TRAIN]
    order = np.random.default_rng(0).permutation(len(y))
    return [Chosen((TRAIN, int(row)), RANDOM) for row in order[y[order] == ABSTAIN]]


def _place(session: Session, row: Any) -> Place:
    split, at = session.find(row)
    return session.names.index(split), at
