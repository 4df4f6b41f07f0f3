"""How good an outcome's labels are, by what models say that did not learn from the row."""

from __future__ import annotations

import html
import math

import numpy as np

from ..diagnostics import Column, Table
from ..label_models.majority import majority_shares
from ..scoring import SHOWN, positive_index, scores, shown_at
from ..votes import ABSTAIN
from ..workspace import TRAIN, HandLabels
from .base import Outcome

TUNED = (
    "radii and class balance of the paper's pipeline were chosen on labelled rows, so that its scores on "
    "these flatter it; epoxy tune says what to expect of others"
)


class Scores(dict[str, float]):
    """How good the labels are on rows labelled at random, by models that did not learn from them.

    `basis` is "random" where every scored row was drawn at random, "unknown" where the choice of some
    is not known or their labels may be wrong, and "none" where nothing can be scored; `why` says so in words.
    Recall and F1 are NaN where no scored row is of the class they are of.
    """

    def __init__(self, values: dict[str, float], basis: str, why: str = "") -> None:
        super().__init__(values)
        self.basis, self.why = basis, why

    def line(self, place: str = "line") -> str:
        """Those scores of a place (`scoring.SHOWN`) that there are, in a line."""
        names = (name for name in shown_at(place) if name in self)
        return ", ".join(f"{name} {shown(self[name])}" for name in names)


def shown(score: float) -> str:
    """A score in three digits; what is not known is a dash."""
    return "–" if math.isnan(score) else f"{score:.3f}"


class Comparison(dict[str, Scores]):
    """Scores of models on the same rows, by name; it prints as a table."""

    def _table(self) -> Table:
        found = [name for name in shown_at("table") if any(name in each for each in self.values())]
        columns = [
            Column(name, name.replace("_", " "), "number" if SHOWN[name].better else "count")
            for name in found
        ]
        rows = tuple({"model": name, **scored} for name, scored in self.items())
        return Table("", (Column("model", "model"), *columns), rows)

    @property
    def why(self) -> str:
        """What is to be said of these scores, in words."""
        found = next((each.why for each in reversed(self.values()) if each.why), "")
        tuned = TUNED not in found and any(TUNED in each.why for each in self.values())
        return f"{found}; {TUNED}" if tuned else found

    def __str__(self) -> str:
        if not any(self.values()):
            return f"no scores: {self.why}"
        return "\n".join([str(self._table()), *([f"({self.why})"] if self.why else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{self._table()._repr_html_()}<p>{html.escape(self.why)}</p>"


def scores_of(outcome: Outcome, positive: str | None) -> Scores:
    """Scores of an outcome's labelled rows, by what was said of them by models that did not see them."""
    if outcome.problem or outcome.held_out is None:
        return Scores({}, "none", outcome.problem)
    found = _scores(outcome, outcome.held_out, outcome.held_out_labels, positive)
    if found and outcome.tuned:
        found.why = f"{found.why}; {TUNED}" if found.why else TUNED
    return found


def majority_scores(outcome: Outcome, positive: str | None) -> Scores:
    """Scores of a majority vote over the sources' own votes, on the rows the outcome is scored on."""
    workspace, active = outcome.workspace, outcome.workspace.active
    if not workspace.labels.count or outcome.held_out is None or not active:
        return Scores({}, "none", outcome.problem or "no row is labelled")
    if not any((each.own[TRAIN] != ABSTAIN).any() for each in active):
        return Scores({}, "none", "no source votes on any train row; check the labeling functions")
    own = [[source.own[at] for source in active] for at in range(len(workspace.splits))]
    matrix = workspace.labels.gather_columns(own).T
    held = majority_shares(matrix, np.full(len(workspace.classes), 1 / len(workspace.classes)))
    held[np.isnan(outcome.held_out).any(axis=1)] = np.nan
    return _scores(outcome, held, None, positive)


def scored_rows(labels: HandLabels, held_out: np.ndarray) -> np.ndarray:
    """Labelled rows drawn at random for which there is a model that did not learn from them.

    Where a trusted person labelled some of them, labels that may be wrong are no truth to score by.
    """
    found = np.asarray(labels.representative & np.isfinite(held_out[:, 0]))
    trusted = found & (labels.noise == 0)
    return trusted if trusted.any() else found


def _scores(
    outcome: Outcome, proba: np.ndarray, decided: np.ndarray | None, positive: str | None
) -> Scores:
    labels = outcome.workspace.labels
    if not labels.count:
        return Scores({}, "none", "no row is labelled; label some that were drawn at random")
    rows = scored_rows(labels, proba)
    if not rows.any():
        return Scores({}, "none", _why(labels))
    every = bool(rows.all())
    found = scores(
        proba if every else proba[rows],
        labels.labels if every else labels.labels[rows],
        outcome.workspace.classes,
        positive=positive,
        decided=decided if every or decided is None else decided[rows],
    )
    basis, why = _basis(labels, rows)
    one = positive_index(positive, outcome.workspace.classes)
    if one is not None and math.isnan(found["f1"]):
        name = outcome.workspace.classes[one]
        lost = f"no scored row is {name!r}, so its F1 is not known; label more rows drawn at random"
        why = f"{why}; {lost}" if why else lost
    return Scores(found, basis, why)


def _basis(labels: HandLabels, rows: np.ndarray) -> tuple[str, str]:
    """What the scores of these labelled rows rest on, and what is to be said of it."""
    if labels.noise[rows].any():
        why = "the labels they are of may be wrong; label some rows that were drawn at random yourself"
        return "unknown", why
    if labels.told_random[rows].all():
        return "random", ""
    why = "how the labelled rows were chosen is not known; if a tool showed them, scores mislead"
    return "unknown", why


def _why(labels: HandLabels) -> str:
    if not labels.representative.any():
        if labels.misspelt:
            return labels.misspelt
        return "every labelled row was chosen, none drawn at random; label rows drawn at random"
    return f"{labels.count} labelled rows are too few to hold some out and score the rest; label 10 or more"
