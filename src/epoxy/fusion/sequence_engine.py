"""Fusion on rows in order: the engine of Fusion, and then what the rest of a sequence adds to each row.

Splits without sequences are left as they are. Scores stay those of models that did not learn from the
row: its probability by Fusion is the one held out, its neighbours speak as the model without labels
sees them, no label of its sequence is known to them, and labels that follow each other in its sequence
are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import Column, Explanation, Report, Table, Voice
from ..engines.base import Outcome
from ..numerics import softmax
from ..sequences.layout import Layout, layout_of
from ..votes import ABSTAIN, RANDOM, Split, Votes
from ..workspace import TRAIN, HandLabels, Source, Workspace
from .around import Vectors
from .engine import FusionEngine
from .fitted import Rows
from .sequence import LabelChain, Steps, class_shares, counted_pairs, smoothed

if TYPE_CHECKING:
    from .model import Fusion


class SequenceEngine(FusionEngine):
    """The default model, which reads the order of rows where train has sequences."""

    def __init__(self, model: Fusion, vectors: Vectors | None = None) -> None:
        super().__init__(model, vectors)
        self._added: list[np.ndarray | None] = []
        self._steps: tuple[tuple[Source, ...], Split, Steps] | None = None
        self._in_sequence: list[np.ndarray] | None = None

    def update(self, workspace: Workspace) -> Outcome:
        """What Fusion makes of the rows, and then of their order."""
        self._in_sequence = None
        outcome = super().update(workspace)
        self._added = [None] * len(workspace.splits)
        if outcome.problem or workspace.splits[TRAIN].votes.sequences is None:
            return outcome
        return self._in_order(outcome, self._last[1], self.before())

    def before(self) -> list[np.ndarray]:
        """Logits of every split without what hand labels taught, smoothed where rows are in order."""
        return super().before() if self._in_sequence is None else self._in_sequence

    def _in_order(self, outcome: Outcome, rows: list[Rows], logits: list[np.ndarray]) -> Outcome:
        workspace, labels = outcome.workspace, outcome.workspace.labels
        layouts = _layouts(workspace)
        bare = [softmax(each) for each in logits]
        steps = self._learned(workspace, rows[TRAIN], bare[TRAIN])
        counts = _counts(workspace, layouts)
        chain = self._chain(steps, outcome.proba[TRAIN], counts, labels)
        known = (chain.given, *[None] * len(layouts))
        self._added = [
            None if layout is None else chain.added(each, layout, given)
            for each, layout, given in zip(outcome.proba, layouts, known)
        ]
        proba = tuple(map(_with, outcome.proba, self._added))
        free = LabelChain(steps.share, steps.pairs[None], steps.trust)
        alone = [None if at is None else free.added(p, at) for p, at in zip(bare, layouts)]
        self._in_sequence = [np.log(np.maximum(_with(*each), 1e-300)) for each in zip(bare, alone)]
        held = outcome.held_out
        assert held is not None  # there is no problem
        if labels.count:
            held = _held_out(workspace, held, bare, steps, counts, layouts)
        rule = self._rule(workspace, proba)

        def make() -> Fusion:
            model: Fusion = outcome.model
            model.fitted_, model.chain_ = replace(model.fitted_, rule=rule), chain
            return model

        return replace(
            outcome,
            make=make,
            proba=proba,
            labels=tuple(map(rule, proba)),
            held_out=held,
            held_out_labels=rule(held),
        )

    def _learned(self, workspace: Workspace, rows: Rows, proba: np.ndarray) -> Steps:
        """What the votes say of the order, kept while they stay: no hand label moves it."""
        active, train = workspace.active, workspace.splits[TRAIN]
        kept = self._steps
        same = kept is not None and kept[1] is train and len(kept[0]) == len(active)
        if kept is not None and same and all(map(is_, kept[0], active)):
            return kept[2]
        names = tuple(map(str, range(len(rows.own))))
        votes = Votes.of_checked(
            np.asfortranarray(rows.own.T), names, workspace.classes, train.votes.sequences
        )
        found = Steps.learn(votes, proba)
        self._steps = (active, train, found)
        return found

    def _chain(
        self,
        steps: Steps,
        proba: np.ndarray,
        counts: Sequence[np.ndarray],
        labels: HandLabels,
    ) -> LabelChain:
        total = np.sum([each.sum(axis=0) for each in counts], axis=0)
        share = class_shares(proba)
        given = np.where(labels.wrong[TRAIN] == 0, labels.y[TRAIN], ABSTAIN)
        pairs = steps.with_counts(total[None], share)
        noise = self.parameters.noise
        return LabelChain(share, pairs, steps.trust, noise, int(total.sum()), given)

    def explain(self, outcome: Outcome, at: int, row: int) -> Explanation:
        """Every part of one row's probabilities, and what its sequence adds."""
        found = super().explain(outcome, at, row)
        added = self._added[at]
        if added is None:
            return found
        given = outcome.model.chain_.given if at == TRAIN else None
        return with_sequence(found, added[:, row], outcome.workspace.split(at), row, given)

    def report(self, outcome: Outcome, at: int, positive: str | None) -> Report:
        """As of Fusion, with how labels follow each other."""
        found = super().report(outcome, at, positive)
        chain: LabelChain | None = outcome.model.chain_
        if chain is None:
            return found
        layout = _layouts(outcome.workspace)[TRAIN]
        assert layout is not None  # a chain was learned from it
        about = {"sequences": len(layout.starts), "longest": layout.longest}
        return replace(
            found,
            summary={**found.summary, "sequences": about},
            findings=(*found.findings, _words(chain)),
            tables=(*found.tables, _table(chain, outcome.workspace.classes)),
        )


def with_sequence(
    found: Explanation, added: np.ndarray, split: Split, row: int, given: np.ndarray | None
) -> Explanation:
    """An explanation whose start holds what a sequence added, with that part named; `added` is (2, K)."""
    label, other = (split.classes.index(name) for name in (found.label, found.against))
    parts = (added[:, label] - added[:, other]).tolist()
    layout = layout_of(split.votes, None)
    sequence = int(np.searchsorted(layout.starts, row, side="right")) - 1
    start = int(layout.starts[sequence])
    sides = (range(row - 1, start - 1, -1), range(row + 1, start + int(layout.lengths[sequence])))
    voices = [
        Voice(
            "sequence",
            None,
            "sequence",
            weight=part,
            detail=_side(word, rows, split, given),
            part="sequence",
        )
        for word, rows, part in zip(("before", "after"), sides, parts)
        if len(rows)
    ]
    total = sum(parts)
    return replace(
        found,
        start=found.start - total,
        voices=tuple(sorted((*found.voices, *voices), key=lambda voice: -abs(voice.weight))),
    )


def _side(word: str, rows: range, split: Split, given: np.ndarray | None) -> str:
    """How many rows stand on one side, nearest first in `rows`, and the nearest hand label there."""
    text = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'} {word} it in its sequence"
    nearest = next((row for row in rows if given is not None and given[row] != ABSTAIN), None)
    if nearest is None or given is None:
        return text
    name = split.classes[int(given[nearest])]
    return f"{text}, of which row {split.id_of(nearest)} is hand-labelled {name!r}"


def _layouts(workspace: Workspace) -> list[Layout | None]:
    every = (split.votes for split in workspace.splits)
    return [None if votes.sequences is None else layout_of(votes, None) for votes in every]


def _counts(workspace: Workspace, layouts: Sequence[Layout | None]) -> list[np.ndarray]:
    """Neighbouring labels that are trusted and not chosen, by sequence of each split."""
    labels, n_classes = workspace.labels, len(workspace.classes)
    found = []
    for at, layout in enumerate(layouts):
        drawn = [word is None or word == RANDOM for word in labels.chosen[at].tolist()]
        y = np.where((labels.wrong[at] == 0) & np.array(drawn, bool), labels.y[at], ABSTAIN)
        none = np.zeros((0, n_classes, n_classes))
        found.append(none if layout is None else counted_pairs(y, layout, n_classes))
    return found


def _held_out(
    workspace: Workspace,
    held: np.ndarray,
    bare: Sequence[np.ndarray],
    steps: Steps,
    counts: Sequence[np.ndarray],
    layouts: Sequence[Layout | None],
) -> np.ndarray:
    """Labelled rows in the order of `HandLabels.labels`, nothing learned from labels of their sequence."""
    labels = workspace.labels
    total = np.sum([each.sum(axis=0) for each in counts], axis=0)
    found, start = held.copy(), 0
    for at in labels.order:
        rows, layout = labels.rows[at], layouts[at]
        part = slice(start, start + len(rows))
        start += len(rows)
        if layout is None or not len(rows):
            continue
        own = np.unique(np.searchsorted(layout.starts, rows, side="right") - 1)
        own_counts = counts[at][own]
        counted = own_counts.any(axis=(1, 2))
        tables = np.concatenate([total[None], total - own_counts[counted]])
        chain = LabelChain(steps.share, steps.with_counts(tables, steps.share), steps.trust)
        few = Layout(layout.starts[own], layout.lengths[own])
        number = np.where(counted, np.cumsum(counted), 0)
        found[part] = smoothed(held[part], chain.added(bare[at], few, table=number)[:, rows])
    return found


def _with(proba: np.ndarray, added: np.ndarray | None) -> np.ndarray:
    return proba if added is None else smoothed(proba, added)


def _words(chain: LabelChain) -> str:
    where = f"votes and {chain.counted} neighbouring hand labels" if chain.counted else "votes"
    return (
        f"labels use the order of rows: how they follow each other is learned from {where}, and what "
        f"neighbours say counts {chain.trust:.0%}"
    )


def _table(chain: LabelChain, classes: Sequence[str]) -> Table:
    columns = (Column("label", "label"), *(Column(f"next {n}", n, "share") for n in classes))
    rows: list[dict[str, Any]] = [
        {"label": name} | {f"next {n}": float(p) for n, p in zip(classes, moves)}
        for name, moves in zip(classes, chain.transitions)
    ]
    return Table("how labels follow each other", columns, tuple(rows))
