"""Any other model in a session: whatever has `fit(train, dev)` and `predict_proba(split)`, refitted whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..diagnostics import Explanation, Report, explain_row
from ..errors import NotIdentifiable, ParameterError
from ..estimators import clone
from ..extension import AUTO, Setting, unextended
from ..workspace import TRAIN, Workspace
from .base import Engine, Outcome, Updatable, most_probable
from .reporting import Details, report_of

FOLDS = 5
FEWEST = 10
"""With fewer hand labels none are held out, and nothing is scored."""


def engine_of(model: Any) -> Engine:
    """The engine of a model: its own, or one that refits it whole."""
    if isinstance(model, Updatable):
        return model.engine()
    for name in ("fit", "predict_proba"):
        if not callable(getattr(model, name, None)):
            raise ParameterError(
                f"a session's model has fit(train, dev) and predict_proba(split), and "
                f"{type(model).__name__} has no {name}; give Fusion(), Epoxy() or a model that has both"
            )
    return RefitEngine(model)


class RefitEngine:
    """Clone, fit and predict at every edit; labelled rows are scored by fits without their fold.

    A fold holds whole sequences.
    """

    metric, apart = "cosine", True

    def __init__(self, model: Any) -> None:
        self._template = model
        self.name = type(model).__name__.lower()

    def settings(self, sources: Sequence[str]) -> list[Setting]:
        """The model lends as it likes."""
        return [AUTO] * len(sources)

    def update(self, workspace: Workspace) -> Outcome:
        """Fit a clone on everything, and one more for each fold of the hand labels."""
        every = range(len(workspace.splits))
        radii = np.full(len(workspace.active), np.nan)
        extended = tuple(map(workspace.own, every))
        dev = workspace.hand_labelled()
        try:
            if not workspace.active:
                raise NotIdentifiable("no source is switched on; add a labeling function")
            model = self._fit(workspace, dev)
        except NotIdentifiable as error:
            return Outcome.none(workspace, radii, extended, str(error))
        proba = tuple(np.asarray(model.predict_proba(workspace.split(at))) for at in every)
        held = self._held_out(workspace, dev)
        return Outcome(
            workspace,
            lambda: model,
            radii,
            extended,
            proba,
            tuple(map(most_probable, proba)),
            held,
            most_probable(held),
        )

    def _fit(self, workspace: Workspace, dev: Any) -> Any:
        model = clone(self._template)
        fitted = model.fit(workspace.split(TRAIN), dev)
        return model if fitted is None else fitted

    def _held_out(self, workspace: Workspace, dev: Any) -> np.ndarray:
        count = workspace.labels.count
        held = np.full((count, len(workspace.classes)), np.nan)
        if dev is None or count < FEWEST:
            return held
        groups = workspace.label_groups
        if len(np.unique(groups)) < FOLDS:  # too few sequences to learn from the others
            groups = np.arange(count)
        fold = (np.random.default_rng(0).permutation(groups.max() + 1) % FOLDS)[groups]
        for each in range(FOLDS):
            rest = self._fit(workspace, dev.rows(fold != each))
            held[fold == each] = rest.predict_proba(dev.rows(fold == each))
        return held

    def explain(self, outcome: Outcome, at: int, row: int) -> Explanation:
        """The votes behind a row; how the model weighs them is its own affair."""
        split = outcome.workspace.split(at).rows([row])
        proba, decided = outcome.proba[at][row], int(outcome.decided[at][row])
        return explain_row(None, split, split, 0, unextended(split).trace({}), proba, decided)

    def report(self, outcome: Outcome, at: int, positive: str | None) -> Report:
        """The report of a split; of the model itself nothing more is known than what it says."""
        return report_of(outcome, at, positive, Details(type(self._template).__name__))
