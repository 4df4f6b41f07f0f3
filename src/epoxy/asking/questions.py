"""Which rows are asked about: those that help most, those that match a question, or those named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..session.labels import Place
from ..suggest.search import RowQuery
from ..votes import ABSTAIN, RANDOM
from .cache import About, Cache

if TYPE_CHECKING:
    from ..session import Session
    from .plan import Asker

Rows = int | RowQuery | Sequence[Any] | Literal["again"] | None
"""How many rows, a question that they match, their ids, or those that were answered before."""
CHECK, MOST_CHECKED, SHARE_CHECKED = "check", 100, 5
"""One row in five, and 100 at most, is one that a person labelled: that tells how often answers are right."""


class Chosen(NamedTuple):
    """A row, and how it was picked."""

    place: Place
    how: str | None


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


def questions(
    session: Session,
    asker: Asker,
    cache: Cache,
    rows: Rows,
    n: int,
    check: int | None,
    purpose: str,
) -> list[Question]:
    """What to ask about: answers that wait to be used first, then rows to check on, then the rest."""
    if rows == "again":
        return [asker.question(session, each) for each in answered(session, asker.by)]
    if rows is not None and not isinstance(rows, int | RowQuery):
        named = (Chosen(_place(session, each), "named") for each in rows)
        return [asker.question(session, each) for each in named]
    if isinstance(rows, RowQuery):
        chosen = _matching(session, rows)
    else:
        more = cache.n_taken(asker.identity)  # some of which were no label, or undone
        done = [session.number(place) for place, _ in answered(session, asker.by)]
        ranked = session.next(n + more, purpose, without=done)
        chosen = [Chosen(session.place(each.number), each.chosen) for each in ranked]
    found = list(islice(_waiting(session, asker, cache), n))
    n_check = min(MOST_CHECKED, n // SHARE_CHECKED) if check is None else check
    n_check -= sum(each.chosen.how == CHECK for each in found)
    for places, most in ((_to_check(session, asker.by), n_check), (chosen, n)):
        seen = {each.chosen.place for each in found}
        new = (asker.question(session, each) for each in places if each.place not in seen)
        unused = (each for each in new if not cache.is_taken(each.about))
        found += islice(unused, max(0, min(most, n - len(found))))
    return found


def answered(session: Session, by: str) -> list[Chosen]:
    """Rows that `by` labelled."""
    every = session.state.records.rows.items()
    return [
        Chosen(place, each.chosen) for place, several in every for each in several if each.by == by
    ]


def _matching(session: Session, rows: RowQuery) -> list[Chosen]:
    """Rows that match a question and have no label."""
    how = "words" if rows.find else rows.filter
    labelled = session.state.records.labels
    places = (session.place(int(number)) for number in session.browse(rows).rows)
    return [Chosen(each, how) for each in places if labelled.y[each[0]][each[1]] == ABSTAIN]


def _waiting(session: Session, asker: Asker, cache: Cache) -> Iterator[Question]:
    """Questions whose answers came, and that a killed run did not come to use."""
    done = {place for place, _ in answered(session, asker.by)}
    for kept in cache.waiting(asker.identity):
        place = session.state.names.find(kept.file, kept.row)
        if place is not None and place not in done:
            question = asker.question(session, Chosen(place, kept.chosen))
            if question.key == kept.key:
                yield question


def _to_check(session: Session, by: str) -> list[Chosen]:
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


def _place(session: Session, row: Any) -> Place:
    split, at = session.find(row)
    return session.names.index(split), at
