"""Hand labels as records: who gave which label to which row, and how the row was chosen.

A row may carry several records, one per labeller. Their consensus is what models learn from: the
person at the keyboard (no name) is trusted and settles it; without one, labellers are weighed by the
log-odds of their reliability, and the label is fallible: it teaches, and never overrides a model.
How reliable a labeller is was told, or is estimated from rows that several labelled.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..diagnostics import Column, Explanation, Finding, Report, Table
from ..engines import Outcome
from ..errors import ParameterError, few
from ..inputs import nearly
from ..numerics import softmax
from ..votes import ABSTAIN, RANDOM
from ..workspace import TRAIN, HandLabels, Workspace

if TYPE_CHECKING:
    from .state import SessionState

UNTOLD, VOICES = 0.9, 10.0
"""How often a labeller is right of whom nothing is known, and the rows labelled twice that outweigh it."""
TRUSTED = 0.999
ROUNDS = 50


@dataclass(frozen=True)
class Record:
    """One label by one labeller."""

    label: int
    by: str | None = None
    chosen: str | None = None
    at: float = 0.0  # seconds since 1970; 0 for labels that came with a file

    def to_json(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """The record with its class by name."""
        return {"label": classes[self.label], "by": self.by, "chosen": self.chosen, "at": self.at}


Place = tuple[int, int]
"""Number of the split, and row in it."""


@dataclass(frozen=True, eq=False)
class Records:
    """Records of the rows that were labelled since the splits were read, and their consensus."""

    labels: HandLabels
    rows: Mapping[Place, tuple[Record, ...]] = field(default_factory=dict)
    reliability: Mapping[str, float] = field(default_factory=dict)  # as told
    n_classes: int = 2

    def __repr__(self) -> str:
        return f"Records({len(self.rows)} rows labelled since, {self.labels!r})"

    @classmethod
    def of_files(
        cls,
        workspace: Workspace,
        by: Sequence[np.ndarray | None],
        reliability: Mapping[str, float],
    ) -> Records:
        """Labels as rows came with them; `by` names who gave each, split by split, None for trusted."""
        labels = workspace.labels
        given: list[tuple[Place, str | None, Record | None]] = []
        for at, names in enumerate(by):
            for row in labels.rows[at].tolist() if names is not None else ():
                if names is not None and names[row] is not None:
                    record = Record(int(labels.y[at][row]), names[row], labels.chosen[at][row])
                    given += [((at, row), None, None), ((at, row), names[row], record)]
        made = cls(labels, {}, dict(reliability), len(workspace.classes))
        return made.replaced(given)[0]

    @cached_property
    def estimated(self) -> dict[str, float]:
        """How often labellers are right of whom nothing was told, where others labelled the same rows."""
        double = [
            sorted(records, key=lambda each: each.by or "")  # sums do not depend on who came first
            for _, records in sorted(self.rows.items())
            if len(records) > 1
        ]
        return _estimated(double, self.reliability, self.n_classes)

    def right(self, by: str) -> float:
        """How often a labeller is right: as told, else as estimated, else as most are."""
        return self.reliability.get(by, self.estimated.get(by, UNTOLD))

    def of(self, place: Place) -> tuple[Record, ...]:
        """The records of one row, those that came with a file included."""
        if place in self.rows:
            return self.rows[place]
        at, row = place
        label = int(self.labels.y[at][row])
        if label == ABSTAIN:
            return ()
        return (Record(label, None, self.labels.chosen[at][row]),)

    def replaced(
        self, given: Iterable[tuple[Place, str | None, Record | None]]
    ) -> tuple[Records, list[Record | None]]:
        """The same with labellers' records of rows replaced (None: taken back), and what was said before."""
        rows, before, doubled = dict(self.rows), list[Record | None](), False
        changed: dict[Place, None] = {}
        for place, by, record in given:
            old = rows[place] if place in rows else self.of(place)
            before.append(next((each for each in old if each.by == by), None))
            kept = tuple(each for each in old if each.by != by)
            rows[place] = kept if record is None else (*kept, record)
            doubled |= max(len(old), len(rows[place])) > 1
            changed[place] = None
        made = replace(self, rows=rows)
        if not doubled:
            made.__dict__["estimated"] = self.estimated  # of rows with several labels, as before
        elif made.estimated != self.estimated:
            fallible = (each for each, records in rows.items() if any(r.by for r in records))
            changed |= dict.fromkeys(fallible)
        found = [(*each, *made._consensus(rows[each])) for each in changed]
        return replace(made, labels=made.labels.with_labels(found)), before

    def resized(self, n_train: int) -> Records:
        """The same over so many train rows: the last are cut off, or unlabelled ones follow."""
        rows = {at: each for at, each in self.rows.items() if at[0] != TRAIN or at[1] < n_train}
        return replace(self, labels=self.labels.resized(n_train), rows=rows)

    def _consensus(self, records: tuple[Record, ...]) -> tuple[int, str | None, float]:
        """The label, how its row was chosen, and how often such a label is wrong."""
        trusted = [each for each in records if self._trusts(each.by)]
        if trusted:
            last = trusted[-1]
            return last.label, last.chosen, 0.0
        if not records:
            return ABSTAIN, None, 0.0
        weight: dict[int, float] = {}
        for each in records:
            right = min(max(self.right(each.by or ""), 0.01), 0.99)
            weight[each.label] = weight.get(each.label, 0.0) + math.log(right / (1 - right))
        best = max(sorted(weight), key=lambda label: weight[label])
        against = sum(math.exp(value) for label, value in weight.items() if label != best)
        right = math.exp(weight[best]) / (math.exp(weight[best]) + max(against, 1.0))
        return best, records[-1].chosen, max(1 - right, 0.01)

    def _trusts(self, by: str | None) -> bool:
        return by is None or self.reliability.get(by, 0.0) >= 1.0


def _estimated(
    double: Sequence[Sequence[Record]], told: Mapping[str, float], n_classes: int
) -> dict[str, float]:
    """Each labeller's share of right labels, by expectation maximisation over rows labelled twice.

    A labeller is right with one probability on all rows, and wrong labels are spread evenly over the
    other classes. Labels of the person at the keyboard are taken as right.
    """
    flat = [(at, each) for at, records in enumerate(double) for each in records]
    names = sorted({each.by or "" for _, each in flat})
    free = np.array([name != "" and name not in told for name in names], dtype=bool)
    if not free.any():
        return {}
    right = np.array([TRUSTED if name == "" else told.get(name, UNTOLD) for name in names])
    right = np.clip(right, 1 - TRUSTED, TRUSTED)
    row = np.array([at for at, _ in flat])
    who = np.searchsorted(names, [each.by or "" for _, each in flat])
    label = np.array([each.label for _, each in flat])
    same = np.arange(n_classes) == label[:, None]
    counts = np.bincount(who, minlength=len(names))
    for _ in range(ROUNDS):
        each = right[who, None]
        belief = np.zeros((len(double), n_classes))
        np.add.at(belief, row, np.log(np.where(same, each, (1 - each) / (n_classes - 1))))
        hits = np.bincount(who, softmax(belief)[row, label], len(names))
        right = np.where(free, (hits + VOICES * UNTOLD) / (counts + VOICES), right)
    return {name: float(right[at]) for at, name in enumerate(names) if free[at]}


def check_words(by: str | None, chosen: str | None) -> None:
    """Refuse what is no word, and warn of one that was perhaps meant as "random"."""
    for what, word in (("by", by), ("chosen", chosen)):
        if word is not None and not isinstance(word, str):
            raise ParameterError(f"{what} is a word, got {word!r:.60}; write it in quotes")
    if chosen is not None and nearly(chosen, RANDOM):
        warnings.warn(
            f"chosen={chosen!r} is another word than {RANDOM!r}, so no score rests on such rows; "
            f"write {RANDOM!r} if that is meant",
            stacklevel=3,
        )


SUSPECT, SHOWN = 0.05, 10
"""A label is suspect that a model which did not learn from it finds so improbable."""
COLUMNS = (
    Column("labeller", "labeller"),
    Column("labels", "labels"),
    Column("right", "right", "share"),
    Column("from", "known from"),
    Column("suspect", "suspect"),
)
DOUBTS = (
    Column("row", "row"),
    Column("label", "labelled"),
    Column("probability", "probability of that", "share"),
    Column("says", "model says"),
)


def with_labellers(report: Report, state: SessionState, outcome: Outcome) -> Report:
    """The report with a table of the labellers and the labels that look wrong."""
    found = suspects(outcome)
    if found:
        names = state.workspace.classes
        rows = tuple(
            {
                "row": state.names.name(each.place)[1],
                "label": names[each.label],
                "probability": each.probability,
                "says": names[each.says],
            }
            for each in found
        )
        ids = few([row["row"] for row in rows], SHOWN)
        fact = f"Hand labels that look wrong, worst first: rows {ids}."
        cure = "Look at them again: they are improbable to a model that did not learn from them."
        finding = Finding("suspect-labels", (), "note", fact, cure)
        tables = (*report.tables, Table("Suspect labels", DOUBTS, rows))
        report = replace(report, findings=(*report.findings, finding), tables=tables)
    told = _labellers(state, {each.place for each in found})
    if not told:
        return report
    return replace(report, tables=(*report.tables, Table("labellers", COLUMNS, told)))


def with_answers(found: Explanation, state: SessionState, place: Place) -> Explanation:
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


class Suspect(NamedTuple):
    """A label that is improbable to models that did not learn from it, and what they say."""

    place: Place
    label: int
    probability: float
    says: int
    sure: float


def suspects(outcome: Outcome) -> list[Suspect]:
    """Labels that look wrong, worst first."""
    labels, held = outcome.workspace.labels, outcome.held_out
    if held is None or not labels.count:
        return []
    given = held[np.arange(labels.count), labels.labels]
    places = [(at, int(row)) for at in labels.order for row in labels.rows[at]]
    order = [at for at in np.argsort(given, kind="stable") if given[at] < SUSPECT]
    told = zip(labels.labels, given, held.argmax(axis=1), held.max(axis=1), strict=True)
    every = [(int(label), float(p), int(says), float(q)) for label, p, says, q in told]
    return [Suspect(places[at], *every[at]) for at in order]


def _labellers(state: SessionState, doubted: set[Place]) -> tuple[dict[str, Any], ...]:
    records, counts = state.records, dict[str, list[int]]()
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


_KEY = b"epoxy: rows drawn at random"


class Drawn(Sequence[Place]):
    """All rows of some files in the order in which they are drawn."""

    def __init__(self, files: Sequence[str], ids: Sequence[np.ndarray]) -> None:
        digests = (
            random_digest(file, name)
            for file, names in zip(files, ids)
            for start in range(0, len(names), 1 << 16)
            for name in names[start : start + (1 << 16)].tolist()
        )
        sizes = [len(names) for _, names in zip(files, ids)]
        self._starts = np.cumsum([0, *sizes])
        self._order = np.argsort(np.fromiter(digests, np.uint64, sum(sizes)), kind="stable")

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        row = int(self._order[number])
        at = int(np.searchsorted(self._starts, row, side="right")) - 1
        return at, row - int(self._starts[at])


def random_digest(file: str, name: Any) -> int:
    """Where a row stands in the order: rows are drawn from the least number on."""
    whole = f"{file}\n{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(whole, digest_size=8, key=_KEY).digest(), "big")


def with_random(labels: HandLabels, order: Sequence[Place]) -> HandLabels:
    """Labels with every row called random that the draw has passed; the same where there is none."""
    passed: list[Place] = []
    last = 0
    for at, row in order:
        if labels.y[at][row] == ABSTAIN or labels.wrong[at][row] > 0:
            break
        passed.append((at, row))
        if labels.chosen[at][row] == RANDOM:
            last = len(passed)
    turned = [
        (at, row, labels.y[at][row], RANDOM, labels.wrong[at][row])
        for at, row in passed[:last]
        if labels.chosen[at][row] != RANDOM
    ]
    return labels.with_labels(turned) if turned else labels
