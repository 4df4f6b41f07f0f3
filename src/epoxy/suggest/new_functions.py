"""Functions that nobody wrote yet, suggested: found on one half of the rows, judged on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import to_builtins

from ..errors import EpoxyError, NotIdentifiable, ParameterError, UnknownName
from ..functions.kinds import Form, form_of, slug
from ..session.edits import known, votes_of
from ..votes import ABSTAIN
from ..workspace import TRAIN, Workspace
from .mine import (
    Bundle,
    Candidates,
    Finder,
    digests_of,
    example_columns,
    gather,
    word_columns,
)
from .precision import Judge, Precision
from .search import in_conflict, nobody_votes, quarrels, row_mask

if TYPE_CHECKING:
    from ..session.session import Session

SHOWN, IN_QUESTION = 3, 200
"""Examples of each kind, and candidates on which the model's word is checked."""
LOOKS_WRONG = 0.5
"""A vote looks wrong for whose class the model gives less."""
LONGEST = 300
KINDS = ("keywords", "regex", "like")


@dataclass(frozen=True)
class VotedRow:
    """A row that a suggested function votes on."""

    row: int  # number through all splits
    id: str
    text: str
    label: str
    """What the row is, by hand or by the model."""
    by: str  # `hand` or `model`


@dataclass(frozen=True)
class FunctionSuggestion:
    """A function that could be added, and what speaks for it."""

    name: str
    definition: dict[str, Any]
    """What `session.draft` and `session.save_function` take."""
    label: str
    rows: int  # train rows it votes on
    coverage: float
    precision: Precision
    """Estimated on rows that it was not found on."""
    adds: int
    """Train rows on which no function votes that the model hears, nor a suggestion before this one."""
    against: int
    """Train rows on which such a function votes otherwise."""
    right: tuple[VotedRow, ...]
    wrong: tuple[VotedRow, ...]
    """Rows that it looks right and wrong about, hand-labelled ones first."""
    reason: str
    provenance: dict[str, Any] = field(default_factory=dict)
    """What it was found and judged on."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings, lists and dicts."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.name} → {self.label}: votes on {self.coverage:.1%}, right {self.precision}, "
            f"adds {self.adds:,} rows"
        )


class Vocabulary:
    """What suggestions are made from and rows alone decide: their columns and halves; kept by a session."""

    def __init__(self, session: Session) -> None:
        self.workspace = session.state.workspace
        digests = digests_of(session)
        self.find = (digests >> np.uint64(17)) % np.uint64(2) == 0
        sizes = [split.n_rows for split in self.workspace.splits]
        self.columns: list[Candidates] = [
            *word_columns(session.texts, sizes, digests),
            *example_columns(self.workspace.near, self.find, digests),
        ]

    def fits(self, workspace: Workspace) -> bool:
        """Whether these are still the rows."""
        return workspace.splits is self.workspace.splits and workspace.near is self.workspace.near


def suggest_functions(
    session: Session,
    n: int,
    *,
    label: str | None = None,
    rows: Any = None,
    conflict: bool | Sequence[str] = False,
    kinds: Sequence[str] = KINDS,
) -> tuple[FunctionSuggestion, ...]:
    """At most `n` functions, each by what it adds beyond those before it."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ParameterError(f"n is how many functions to suggest, got {n!r:.60}; give a number")
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName.of("kind of function", kind, KINDS)
    classes = session.outcome.workspace.classes
    if label is not None and label not in classes:
        raise UnknownName.of("class", label, classes)
    made = _Suggesting(session, tuple(kinds), _region(session, rows, conflict))
    return made.found(int(n), range(len(classes)) if label is None else [classes.index(label)])


def _region(session: Session, rows: Any, conflict: bool | Sequence[str]) -> np.ndarray | None:
    """The rows that functions are wanted for; None for all."""
    workspace = session.outcome.workspace
    found = None if rows is None else row_mask(rows, session.n_rows)
    if conflict is False:
        return found
    if conflict is True:
        where = quarrels(workspace)
    else:
        pair = [known(workspace, name) for name in conflict]
        parts = [
            in_conflict([each.own[at] for each in pair], split.n_rows)
            for at, split in enumerate(workspace.splits)
        ]
        where = np.concatenate(parts)
    return where if found is None else found & where


class _Suggesting:
    """One call."""

    def __init__(self, session: Session, kinds: tuple[str, ...], region: np.ndarray | None) -> None:
        self.session, self.outcome = session, session.outcome
        self.workspace = self.outcome.workspace
        vocabulary = session.vocabulary
        self.evidence = gather(self.outcome, vocabulary.find)
        if not self.evidence.known.any():
            raise NotIdentifiable(
                "nothing says what any row is, so no function can be suggested; "
                "label some rows, or write a first function"
            )
        heard, active = self.outcome.heard, self.workspace.active
        own = [np.concatenate(active[at].own) for at in heard]
        extended = self.outcome.extended
        lent = [np.concatenate([each.columns[at] for each in extended]) for at in heard]
        columns = [each for each in vocabulary.columns if each.kind in kinds]
        self.finder = Finder(self.evidence, columns, own, lent)
        if region is not None:
            self.finder.restrict(region)
        self.names = set(session.sources)
        n_train = self.workspace.splits[TRAIN].n_rows
        self.own = [active[at].own[TRAIN] for at in heard]
        self.silent = nobody_votes(self.own, n_train)

    def found(self, n: int, labels: Sequence[int]) -> tuple[FunctionSuggestion, ...]:
        """The suggestions, best of each turn first."""
        in_question = self.finder.candidates(IN_QUESTION)
        judge = Judge(self.evidence, in_question)
        made: list[FunctionSuggestion] = []
        while len(made) < n and (bundle := self.finder.next(labels)) is not None:
            definition = self._definition(bundle)
            try:
                votes = votes_of(definition.function(), self.session.frames, self.session.state)
            except EpoxyError:  # it says something else in code than it does here
                continue
            voted = self._voted(votes.votes)
            self.finder.told(bundle.label, voted)
            if voted[: len(self.silent)].any():
                made.append(self._told(bundle, definition, voted, judge))
        return tuple(made)

    def _definition(self, bundle: Bundle) -> Form:
        """The function as it would be written."""
        given: dict[str, Any] = {"kind": bundle.kind, "label": self.workspace.classes[bundle.label]}
        texts = self.session.texts
        column = {} if texts is None or texts.column is None else {"column": texts.column}
        if bundle.kind == "keywords":
            given |= column | {"words": list(bundle.parts), "whole_words": True}
        elif bundle.kind == "regex":
            (part,) = bundle.parts
            given |= column | {"pattern": part.pattern, "ignore_case": part.any_case}
        else:
            ids = [self.session.state.names.name((TRAIN, row))[1] for row in bundle.parts]
            given |= {"rows": ids, "radius": bundle.radius}
        return form_of(given)

    def _voted(self, votes: Sequence[Any]) -> np.ndarray:
        """Rows it votes on, through all splits; rows without cells are not voted on; (n_rows,) bool."""
        parts = [np.zeros(split.n_rows, dtype=bool) for split in self.workspace.splits]
        for part, column in zip(parts, votes):
            if column is not None:
                part[: len(column)] = np.asarray(column) != ABSTAIN
        return np.concatenate(parts)

    def _told(
        self, bundle: Bundle, definition: Form, voted: np.ndarray, judge: Judge
    ) -> FunctionSuggestion:
        precision = judge.precision(bundle.label, voted)
        evidence, label, train = self.evidence, bundle.label, voted[: len(self.silent)]
        others = [np.where(each == label, ABSTAIN, each) for each in self.own]
        adds = int((train & self.silent).sum())
        self.silent &= ~train
        found_on = voted & evidence.find & evidence.known
        share = float(evidence.belief[found_on, label].mean()) if found_on.any() else 0
        by_hand = int((found_on & (evidence.hand != ABSTAIN)).sum())
        right, wrong = self._examples(label, voted)
        return FunctionSuggestion(
            name=self._name(bundle),
            definition=to_builtins(definition),
            label=self.workspace.classes[label],
            rows=int(train.sum()),
            coverage=float(train.mean()),
            precision=precision,
            adds=adds,
            against=int((train & ~nobody_votes(others, len(train))).sum()),
            right=right,
            wrong=wrong,
            reason=self._reason(bundle, share, precision),
            provenance={
                "found_on": {"rows": int(found_on.sum()), "hand": by_hand, "share": share},
                "judged_on": {"rows": precision.rows, "hand": precision.hand},
                "version": self.session.version,
            },
        )

    def _reason(self, bundle: Bundle, share: float, precision: Precision) -> str:
        label = repr(self.workspace.classes[bundle.label])
        what = {"keywords": "hold these words", "regex": "match", "like": "lie near these rows"}
        known = f", {precision.hand} of them labelled by hand" if precision.hand else ""
        return (
            f"of rows that {what[bundle.kind]} {share:.0%} look {label} on the half of the rows it was "
            f"found on, of all rows there {self.finder.shares[bundle.label]:.0%}; judged by "
            f"{precision.basis} on {precision.rows:,} other rows{known}"
        )

    def _name(self, bundle: Bundle) -> str:
        said = [each.name if bundle.kind == "regex" else each for each in bundle.parts[:3]]
        if bundle.kind == "like":
            said = [self.session.state.names.name((TRAIN, row))[1] for row in said]
        base = slug(bundle.kind, said)
        names = chain([base], (f"{base}_{number}" for number in count(2)))
        name = next(each for each in names if each not in self.names)
        self.names.add(name)
        return name

    def _examples(self, label: int, voted: np.ndarray) -> tuple[tuple[VotedRow, ...], ...]:
        """Rows it is or looks right about, and wrong; hand-labelled rows first, then the clearest."""
        rows = np.flatnonzero(voted & self.evidence.known)
        sure, by_model = self.evidence.belief[rows, label], self.evidence.hand[rows] == ABSTAIN
        likely = sure >= LOOKS_WRONG
        right = rows[likely][np.lexsort((-sure[likely], by_model[likely]))]
        wrong = rows[~likely][np.lexsort((sure[~likely], by_model[~likely]))]
        return tuple(tuple(map(self._example, each[:SHOWN].tolist())) for each in (right, wrong))

    def _example(self, row: int) -> VotedRow:
        session = self.session
        text = "" if session.texts is None else session.text(row)
        label = self.workspace.classes[int(self.evidence.belief[row].argmax())]
        short = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
        by = "model" if self.evidence.hand[row] == ABSTAIN else "hand"
        return VotedRow(row, session.state.names.name(session.place(row))[1], short, label, by)
