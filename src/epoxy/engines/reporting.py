"""One report for every model in a session: held-out scores, the table of sources, the doctor's findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..diagnostics import (
    SOURCE_COLUMNS,
    Case,
    Finding,
    Report,
    Table,
    confusion_table,
    diagnose_case,
    interval,
    reliability_table,
    right_on,
    source_rows,
)
from ..extension import AUTO
from ..label_models import LabelModel
from ..label_models.label_model import balance_used, learned_accuracy
from ..scoring import positive_index
from ..votes import ABSTAIN
from ..workspace import SPLITS, TRAIN, HandLabels
from .base import Outcome
from .scores import Scores, majority_scores, scored_rows, scores_of


@dataclass(frozen=True, eq=False)
class Details:
    """What only an engine can say of its model."""

    title: str
    label_model: LabelModel | None = None
    """Fitted on the extended train votes; None where the model is of another kind."""
    balance: np.ndarray | None = None
    """The class balance in use, where it is not the label model's; (n_classes,)."""
    distance: np.ndarray | None = None
    """How far away the row is that lent each vote of the split; (n_rows, n_active)."""
    lines: Mapping[str, Any] = field(default_factory=dict)
    """Headline numbers of this kind of model."""
    notes: tuple[str, ...] = ()
    """Sentences after the doctor's findings."""
    tables: tuple[Table, ...] = ()

    @property
    def balance_used(self) -> np.ndarray | None:
        """The class balance in use, wherever it is known from."""
        return balance_used(self.label_model) if self.balance is None else self.balance


def report_of(outcome: Outcome, at: int, positive: str | None, details: Details) -> Report:
    """The report of split `at`; scores are of all labelled rows that were held out, as in the session."""
    case = case_of(outcome, at, positive, details)
    split, extended = case.split, case.extended
    summary: dict[str, Any] = {"model": details.title, "split": SPLITS[at], "rows": split.n_rows}
    summary |= details.lines
    recall = outcome.workspace.near.recall
    if recall is not None:
        about = {"recall": recall.value, "low": recall.low, "high": recall.high}
        summary["approximate neighbours"] = about | {"k": recall.k, "rows": recall.sampled}
    by_choice = outcome.workspace.labels.by_choice
    summary["hand labels"] = {"labelled": by_choice.pop("total"), **by_choice}
    summary["covered before"] = _mean(split.votes.covered)
    summary["covered after"] = _mean(extended.covered)
    if case.balance is not None:
        summary["class balance"] = dict(zip(split.classes, case.balance.tolist(), strict=True))
    summary |= _scored(scores_of(outcome, positive), majority_scores(outcome, positive))
    rows, basis = sources_of(
        outcome, at, learned_accuracy(details.label_model), case.label_model is None
    )
    summary["right is of"] = basis
    misspelt = outcome.workspace.labels.misspelt
    notes = (*details.notes, misspelt) if misspelt else details.notes
    findings: tuple[Finding | str, ...] = (*diagnose_case(case), *notes)
    tables = (*details.tables, *_confusion(outcome))
    return Report(details.title, summary, SOURCE_COLUMNS, tuple(rows), findings, tables)


def case_of(outcome: Outcome, at: int, positive: str | None, details: Details) -> Case:
    """What the doctor looks at; labels are those of models that did not learn from the row."""
    workspace, model = outcome.workspace, details.label_model
    train = workspace.split(TRAIN)
    return Case(
        model=details.title if model is None else type(model).__name__,
        train=train,
        extended_train=outcome.extended[TRAIN],
        split=train if at == TRAIN else workspace.split(at),
        extended=outcome.extended[at],
        labels=_held_out_labels(outcome, at),
        label_model=model,
        balance=details.balance_used,
        distance=details.distance,
        metric=workspace.near.metric,
        positive=None if positive is None else positive_index(positive, workspace.classes),
        unheard=outcome.unheard,
        defended=outcome.defended,
    )


def held_out_reliability(outcome: Outcome) -> tuple[Table, ...]:
    """The reliability curve of the rows that are scored; none where nothing is."""
    labels, held = outcome.workspace.labels, outcome.held_out
    if held is None or not (rows := scored_rows(labels, held)).any():
        return ()
    return (reliability_table(held[rows], labels.labels[rows]),)


def _held_out_labels(outcome: Outcome, at: int) -> np.ndarray:
    """Labels of the labelled rows of split `at`, −1 where every model learned from the row."""
    labels, held, decided = outcome.workspace.labels, outcome.held_out, outcome.held_out_labels
    found = np.full(labels.count, ABSTAIN)
    if held is not None and decided is not None:
        found = np.where(np.isfinite(held).all(axis=1), decided, ABSTAIN)
    return np.asarray(found[labels.part(at)])


def _scored(own: Scores, majority: Scores) -> dict[str, Any]:
    """Scores with their basis, the interval of the accuracy, and majority vote beside them."""
    found: dict[str, Any] = {}
    if own:
        right = interval(round(own["accuracy"] * own["rows"]), int(own["rows"]))
        assert right is not None  # there are scores, so there are rows
        found["scores"] = dict(own)
        found["accuracy interval"] = {"low": right["low"], "high": right["high"]}
        if majority:
            found["majority vote"] = {"accuracy": majority["accuracy"]}
    found["basis"] = own.basis
    return found | ({"why": own.why} if own.why else {})


def sources_of(
    outcome: Outcome, at: int = TRAIN, learned: np.ndarray | None = None, graded: bool = True
) -> tuple[list[dict[str, Any]], str]:
    """What each active source does on split `at` and how right it is, and in words of which rows.

    Right is of rows labelled by somebody who is believed, of whichever split, and drawn at random as
    far as is known: labels that may be wrong are no truth, and rows that were chosen for being hard
    show a source worse than it is. Where all were chosen they are all there is, and it is said.
    """
    workspace = outcome.workspace
    labels, every = workspace.labels, range(len(workspace.splits))
    own = workspace.own(at)
    rows = source_rows(own, outcome.extended[at], learned=learned, radii=outcome.radii)
    counted, basis = judging_rows(labels)
    auto = _auto(outcome, graded)
    named = [workspace.own(each).polarity for each in every]
    for row, is_auto, *names in zip(rows, auto, *named, strict=True):
        said = set().union(*names)
        row["polarity"] = [each for each in workspace.classes if each in said]
        row["radius"] = AUTO if is_auto else row["radius"]
    if counted.any() and workspace.active:
        mine = labels.gather_columns([[each.own[at] for each in workspace.active] for at in every])
        both = labels.gather_columns([each.columns for each in outcome.extended])
        y = labels.labels[counted]
        for row, first, then in zip(rows, mine[:, counted], both[:, counted], strict=True):
            told = right_on(first, then, y)
            row["accuracy_original"], row["accuracy_extended"] = told["own"], told["lent"]
    return rows, basis


def judging_rows(labels: HandLabels) -> tuple[np.ndarray, str]:
    """Which labelled rows say how right a source is, and in words what they are; (count,) bool."""
    trusted = np.asarray(labels.noise == 0)
    drawn = trusted & labels.representative
    counted = drawn if drawn.any() else trusted
    number = int(counted.sum())
    if not number:
        return counted, "no row is labelled by hand"
    if not drawn.any():
        how = ", all chosen and none drawn at random: they are harder than most"
    elif (labels.told_random | ~drawn).all():
        how = " drawn at random"
    else:
        how = "; how they were chosen is not known"
    return counted, f"right on {number} hand labels{how}"


def _confusion(outcome: Outcome) -> tuple[Table, ...]:
    """Hand labels against the labels of models that did not learn from them; none where none are scored."""
    labels, held, said = outcome.workspace.labels, outcome.held_out, outcome.held_out_labels
    if held is None or said is None or not (rows := scored_rows(labels, held)).any():
        return ()
    return (confusion_table(labels.labels[rows], said[rows], outcome.workspace.classes),)


def _auto(outcome: Outcome, graded: bool) -> list[bool]:
    """Which active sources lend as far as the model sees fit, without a radius anybody could name."""
    workspace = outcome.workspace
    return [
        (each.radius if graded else each.tuned) == AUTO
        and (graded or bool(np.isnan(far)))
        and workspace.near.spaces is not None
        for each, far in zip(workspace.active, outcome.radii, strict=True)
    ]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
