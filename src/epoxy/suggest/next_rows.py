"""Which rows to look at next, and why.

Rows to teach, to cover and to settle conflicts are chosen by what a label would tell about the rows
around them: each row has a worth (how unsure the model is, whether nobody votes, how sources
quarrel), its gain is its own worth times that of its nearest rows by nearness, and once it is chosen
the worth it tells of is gone. So dense regions come before outliers, and never two rows that are
nearly the same.
Rows to score are drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..errors import NotIdentifiable, ParameterError, UnknownName, few
from ..neighbors import Graph
from ..session.labels import Place, Suspect, suspects
from ..votes import ABSTAIN, RANDOM
from ..workspace import TRAIN
from .search import UNSURE, best, nobody_votes

if TYPE_CHECKING:
    from ..session.session import Session

AROUND = 16
"""Neighbours whose worth a row gains, itself among them."""
SURE = 0.9
"""A source looks wrong where the model is so sure of another class."""
SCORED = (2, 5, 8)
"""Of ten rows of the mix those at these places are drawn at random; the other seven teach."""


@dataclass(frozen=True)
class Suggestion:
    """A row to look at."""

    split: str
    row: int  # in its split
    id: str
    purpose: str
    reason: str
    chosen: str | None
    """What to pass on: `session.label(id, label, split, chosen=…)`; a number may be another row's id."""
    number: int  # through all splits, train rows first


def suggest(
    session: Session,
    n: int,
    purpose: str,
    seed: int,
    among: Sequence[int] | None = None,
    without: Iterable[int] = (),
) -> tuple[Suggestion, ...]:
    """At most `n` rows for one purpose, of those whose numbers are `among` and not in `without`."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ParameterError(f"n is how many rows to suggest, got {n!r:.60}; give a whole number")
    places = None if among is None else {session.place(each) for each in among}
    chooser = Chooser(session, seed, places, {session.place(each) for each in without})
    if purpose == "mix":
        return chooser.mix(int(n))
    if purpose not in PURPOSES:
        raise UnknownName.of("purpose", purpose, (*PURPOSES, "mix"))
    return tuple(PURPOSES[purpose](chooser, int(n)))


class Chooser:
    """One call's choice of rows; no row twice, and none of those `taken`."""

    def __init__(
        self, session: Session, seed: int, among: set[Place] | None, taken: set[Place]
    ) -> None:
        self.session, self.seed, self.among = session, seed, among
        self.outcome, self.names = session.outcome, session.state.names
        self.workspace = self.outcome.workspace
        self.labels = self.workspace.labels
        self.taken = taken

    def mix(self, n: int) -> tuple[Suggestion, ...]:
        """Seven rows that teach to three drawn at random, counted on from the rows labelled so far."""
        start = sum(map(bool, self.session.state.records.rows.values()))
        drawn = [(start + at) % 10 in SCORED for at in range(n)]
        score = list(self.score(sum(drawn)))
        if self.outcome.problem:  # nobody can say what would teach
            return tuple(score + self.score(n - len(score)))
        teach = list(self.teach(n - sum(drawn)))
        teach += self.score(n - len(score) - len(teach))
        parts = {True: iter(score), False: iter(teach)}
        found = [next(parts[each], None) for each in drawn]
        return tuple(each for each in found if each is not None)

    def score(self, n: int) -> list[Suggestion]:
        """Rows from the front of the project's random order that no trusted person has labelled."""
        found: list[Suggestion] = []
        for count, place in enumerate(self.names.order, 1):
            if len(found) >= n:
                break
            at, row = place
            missing = self.labels.y[at][row] == ABSTAIN or self.labels.wrong[at][row] > 0
            if missing and self._open(place):
                reason = (
                    f"drawn at random, number {count:,} of {len(self.names.order):,} in the order "
                    "of this project: scores rest on such rows"
                )
                found.append(self._made(place, "score", reason, RANDOM))
        return found

    def teach(self, n: int) -> list[Suggestion]:
        """Rows the model is unsure of, among others it is unsure of."""
        self._need_model()
        sure = best(self.outcome)[: len(self.labels.y[TRAIN])]
        classes = self.workspace.classes
        proba = self.outcome.proba[TRAIN]

        def why(row: int, around: np.ndarray) -> str:
            first, second = np.argsort(-proba[row], kind="stable")[:2].tolist()
            return (
                f"the model gives {classes[first]!r} {proba[row, first]:.0%} and "
                f"{classes[second]!r} {proba[row, second]:.0%}"
                + self._also(around, sure < UNSURE, "it is unsure of")
            )

        return self._greedy(n, 1 - sure, "teach", why)

    def cover(self, n: int) -> list[Suggestion]:
        """Rows nobody votes on whom the model hears, among others of this kind."""
        extended, heard = self.outcome.extended[TRAIN], self.outcome.heard
        silent = nobody_votes([extended.columns[at] for at in heard], extended.n_rows)
        what = (
            "no source that is heard votes here" if self.outcome.unheard else "no source votes here"
        )
        if not silent.any():
            own = [self.workspace.active[at].own[TRAIN] for at in heard]
            silent = nobody_votes(own, extended.n_rows)
            what += " itself, votes are only lent"

        def why(row: int, around: np.ndarray) -> str:
            return what + self._also(around, silent, "it is so for")

        return self._greedy(n, silent.astype(float), "cover", why)

    def conflict(self, n: int) -> list[Suggestion]:
        """Rows on which sources that are heard name different classes, rather evenly than one to many."""
        heard = [self.workspace.active[at] for at in self.outcome.heard]
        columns = [each.own[TRAIN] for each in heard]
        classes, n_rows = self.workspace.classes, len(self.labels.y[TRAIN])
        counts = np.zeros((len(classes), n_rows), dtype=np.int32)
        for column in columns:
            cast = np.flatnonzero(column != ABSTAIN)
            counts[column[cast], cast] += 1
        total = counts.sum(axis=0)
        quarrel = 1 - counts.max(axis=0) / np.maximum(total, 1)
        quarrel[total == 0] = 0.0

        def why(row: int, around: np.ndarray) -> str:
            said = []
            for k in np.flatnonzero(counts[:, row])[:4].tolist():
                names = [each.name for each, c in zip(heard, columns) if c[row] == k]
                said.append(f"{few(names, 3)} say{'s' * (len(names) == 1)} {classes[k]!r}")
            return "; ".join(said) + self._also(around, quarrel > 0, "sources also quarrel on")

        return self._greedy(n, quarrel, "conflict", why)

    def check(self, n: int) -> list[Suggestion]:
        """Hand labels that look wrong, worst first, and then rows where a source looks wrong."""
        self._need_model()
        doubted = [each for each in suspects(self.outcome) if self._open(each.place)]
        found = [self._suspect(each) for each in doubted[:n]]
        return found + self._doubtful(n - len(found))

    def _suspect(self, found: Suspect) -> Suggestion:
        classes, (at, row) = self.workspace.classes, found.place
        reason = (
            f"labelled {classes[found.label]!r}, to which a model that did not learn from it gives "
            f"{found.probability:.1%}, and {classes[found.says]!r} {found.sure:.0%}"
        )
        return self._made(found.place, "check", reason, self.labels.chosen[at][row])

    def _doubtful(self, n: int) -> list[Suggestion]:
        """Rows on which a source votes against a model that is sure, the source with most such rows first."""
        decided, classes = self.outcome.labels[TRAIN], self.workspace.classes
        sure, found = best(self.outcome)[: len(decided)], list[Suggestion]()
        doubted = []
        for source in self.workspace.active if n > 0 else ():
            said = source.own[TRAIN]
            doubted.append(
                (source.name, said, (said != ABSTAIN) & (said != decided) & (sure >= SURE))
            )

        def against(name: str, said: np.ndarray, wrong: np.ndarray) -> list[Suggestion]:
            def why(row: int, around: np.ndarray) -> str:
                return (
                    f"{name} votes {classes[int(said[row])]!r}, and the model is "
                    f"{sure[row]:.0%} sure of {classes[int(decided[row])]!r}"
                    + self._also(around, wrong, "it is so for")
                )

            return self._greedy(1 + n // 4, np.where(wrong, sure, 0.0), "check", why)

        for each in sorted(doubted, key=lambda each: -int(each[2].sum())):
            found += against(*each)
        return found[:n]

    # the choice

    def _greedy(
        self, n: int, worth: np.ndarray, purpose: str, why: Callable[[int, np.ndarray], str]
    ) -> list[Suggestion]:
        """The rows with the largest gain one after the other, each without what the last ones told."""
        worth = np.where(self.labels.y[TRAIN] == ABSTAIN, worth, 0.0)
        for at, row in self.taken:
            if at == TRAIN:
                worth[row] = 0.0
        field, askable = self._field, self._worth_asking(worth)
        if n <= 0 or not askable.any():
            return []
        field.begin(worth, askable, self.labels.rows[TRAIN])
        found: list[Suggestion] = []
        while len(found) < n and (node := field.best()) is not None:
            rows = field.of(node)
            row = int(rows[askable[rows].argmax()])  # the one with the most worth, first of equals
            reason = why(row, field.around(node))
            found.append(self._made((TRAIN, row), purpose, reason, purpose))
            askable[row] = 0.0
            field.take(node)
        return found

    def _open(self, place: Place) -> bool:
        return place not in self.taken and (self.among is None or place in self.among)

    def _worth_asking(self, worth: np.ndarray) -> np.ndarray:
        """Worth of the rows that may be asked about, nothing of others."""
        if self.among is None:
            return worth.copy()
        rows = [row for at, row in self.among if at == TRAIN]
        found = np.zeros_like(worth)
        found[rows] = worth[rows]
        return found

    @cached_property
    def _field(self) -> _Field:
        near = self.workspace.near
        graph = None if near.graphs is None else near.graphs[TRAIN]
        placed = near.places[TRAIN] if near.places else None
        return _Field(graph, placed, len(self.labels.y[TRAIN]), self.seed)

    def _made(self, place: Place, purpose: str, reason: str, chosen: str | None) -> Suggestion:
        self.taken.add(place)
        at, row = place
        name, number = self.names.name(place)[1], self.session.number(place)
        return Suggestion(self.session.names[at], row, name, purpose, reason, chosen, number)

    def _also(self, around: np.ndarray, alike: np.ndarray, words: str) -> str:
        """How many of the rows around are like this one, in words."""
        if len(around) < 2:
            return ""
        return f"; {words} {int(alike[around].sum())} of the {len(around)} rows nearest to it"

    def _need_model(self) -> None:
        if self.outcome.problem:
            raise NotIdentifiable(self.outcome.problem)


class _Field:
    """Worth over the distinct vectors of train, and what a label of one tells of the others.

    Without a neighbour graph every row stands for itself.
    """

    def __init__(
        self, graph: Graph | None, placed: np.ndarray | None, n_rows: int, seed: int
    ) -> None:
        self.node = np.arange(n_rows)  # of each row; −1 for rows without a direction
        self.rows, self.start = np.arange(n_rows), np.arange(n_rows + 1)  # of each vector
        self.near, self.weight = self.node[:, None], np.ones((n_rows, 1), dtype=np.float32)
        if graph is not None:
            self.node = np.full(n_rows, -1)
            self.node[slice(None) if placed is None else placed] = graph.train.node
            self.rows, self.start = graph.train.members
            self.rows = self.rows if placed is None else placed[self.rows]
            self.near, far = graph.listed(AROUND)
            self.weight = np.exp(-far / (float(np.median(far[:, -1])) or 1.0)).astype(np.float32)
        # equal gains are settled by the seed, not by the order of the rows
        self.shake = 1 + 1e-9 * np.random.default_rng(seed).random(len(self.near))

    def begin(self, worth: np.ndarray, askable: np.ndarray, known: np.ndarray) -> None:
        """What is to be told: each row's `worth`, of which `askable` may be asked, and some are `known`."""
        kept = self.node >= 0
        self.left = np.bincount(self.node[kept], worth[kept], len(self.near))
        self.most = np.zeros(len(self.near))
        np.maximum.at(self.most, self.node[kept], askable[kept])
        nodes = self.node[known][self.node[known] >= 0]
        np.multiply.at(self.left, self.near[nodes].ravel(), 1 - self.weight[nodes].ravel())
        self.gain = (self.weight * self.left[self.near]).sum(axis=1) * self.most * self.shake
        self.gain[self.left <= 0] = 0.0

    def best(self) -> int | None:
        """The vector whose label would tell most; None where there is nothing left to tell."""
        # gains only fall, so the first whose gain still stands is the best
        while True:
            top = int(self.gain.argmax())
            now = float((self.weight[top] * self.left[self.near[top]]).sum())
            now *= self.most[top] * self.shake[top] if self.left[top] > 0 else 0.0
            if now <= 0 and self.gain[top] <= 0:
                return None
            if now >= self.gain[top] * (1 - 1e-12):
                return top
            self.gain[top] = now

    def take(self, node: int) -> None:
        """A label of this vector was asked for: what it tells is known."""
        self.left[self.near[node]] *= 1 - self.weight[node]
        self.left[node] = 0.0

    def of(self, node: int) -> np.ndarray:
        """The rows of a vector."""
        return self.rows[self.start[node] : self.start[node + 1]]

    def around(self, node: int) -> np.ndarray:
        """The rows nearest to a vector, itself among them."""
        return np.concatenate([self.of(each) for each in self.near[node].tolist()])[:AROUND]


PURPOSES: dict[str, Callable[[Chooser, int], list[Suggestion]]] = {
    "teach": Chooser.teach,
    "score": Chooser.score,
    "cover": Chooser.cover,
    "conflict": Chooser.conflict,
    "check": Chooser.check,
}
