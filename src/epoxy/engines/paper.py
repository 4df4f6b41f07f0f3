"""The paper's pipeline in a session: extended votes, a label model, and every probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..diagnostics import Explanation, Report, explain_row
from ..errors import NotIdentifiable
from ..extension import AUTO, Radius, Reach, Setting, as_radii, as_settings
from ..label_models import LabelModel, Triplet
from ..label_models.label_model import TableModel, posterior, refitted
from ..neighbors.workers import single_threaded_blas
from ..shares import shares_of_counts
from ..votes import Votes
from ..weighting import Nearest, Weighting
from ..workspace import TRAIN, Workspace
from .base import Outcome, most_probable
from .reporting import Details, report_of


class PaperEngine:
    """Extension and one label model, kept in step with a workspace.

    Without a label model of its own the engine takes `Triplet` with the class balance counted on the
    hand labels. Its labelled rows are then scored by models with that very row left out of the
    count: one more fit for each class.
    """

    name, apart = "epoxy", False

    def __init__(
        self,
        label_model: LabelModel | None,
        radius: Radius | None,
        weighting: Weighting,
        metric: str,
    ) -> None:
        self.label_model, self.radius = label_model, radius
        self.weighting, self.metric = weighting, metric

    def settings(self, sources: Sequence[str]) -> list[Setting]:
        """The radii of the constructor."""
        return as_settings(AUTO if self.radius is None else self.radius, sources)

    def update(self, workspace: Workspace) -> Outcome:
        """Extend, fit the label model, read every probability."""
        settings = [each.tuned for each in workspace.active]
        auto = workspace.near.typical if AUTO in settings else np.nan
        radii = as_radii(settings, workspace.names, auto)
        every = range(len(workspace.splits))
        extended = tuple(self._extended(workspace, at, radii) for at in every)
        with single_threaded_blas():  # products of some hundred rows wait for a second thread
            try:
                return self._concluded(workspace, radii, extended)
            except NotIdentifiable as error:
                return Outcome.none(workspace, radii, extended, str(error))

    def _extended(self, workspace: Workspace, at: int, radii: np.ndarray) -> Votes:
        if not isinstance(self.weighting, Nearest):
            return self.reach(workspace, at).extend(radii)
        pairs = zip(workspace.active, radii, strict=True)
        return workspace.columns(at, [each.loans[at].extend(far) for each, far in pairs])

    def _concluded(
        self, workspace: Workspace, radii: np.ndarray, extended: tuple[Votes, ...]
    ) -> Outcome:
        """What a label model makes of extended votes, and of labelled rows without their own label."""
        counts, template = self._counts(workspace), self.label_model or Triplet()
        model = refitted(template, extended[TRAIN], self.balance(workspace))
        proba = tuple(np.asarray(model.predict_proba(each)) for each in extended)
        held = workspace.labels.gather(proba)
        if counts is not None:
            self._leave_one_out(workspace, extended, counts, held)
        labels = tuple(map(most_probable, proba))

        def fitted() -> Any:
            from ..model import Epoxy

            own = Epoxy(self.label_model, radii, self.weighting, metric=self.metric)
            reach = self.reach(workspace, TRAIN)
            return own.with_parts(workspace.split(TRAIN), model, radii, reach, extended[TRAIN])

        found = (workspace, fitted, radii, extended, proba, labels, held, most_probable(held))
        return Outcome(*found, tuned=workspace.is_tuned)

    def balance(self, workspace: Workspace) -> Any:
        """The class shares the label model is told: counted, as tuning chose them, or None."""
        counts = self._counts(workspace)
        if counts is None:
            return workspace.balance
        return shares_of_counts(counts, pseudo=len(counts))

    def _counts(self, workspace: Workspace) -> np.ndarray | None:
        """How often each class occurs among the hand labels; None where the balance is not counted."""
        counted = workspace.labels.counted
        if self.label_model is not None or workspace.balance is not None or not counted:
            return None
        counts = np.zeros(len(workspace.classes), dtype=np.int64)
        for label, rows in counted:
            counts[label] = len(rows)
        return counts

    def _leave_one_out(
        self,
        workspace: Workspace,
        extended: tuple[Votes, ...],
        counts: np.ndarray,
        held: np.ndarray,
    ) -> None:
        """Replace probabilities of counted rows by those of models that did not count them."""
        labels = workspace.labels
        matrix = labels.gather_columns([each.columns for each in extended])
        for label, rows in labels.counted:
            fewer = counts - (np.arange(len(counts)) == label)
            balance = shares_of_counts(fewer, pseudo=len(counts))
            model = refitted(Triplet(), extended[TRAIN], balance)
            mine = matrix.take(rows, axis=1).T
            found = posterior(mine, model.log_likelihood_, model.log_prior())
            for into, column in zip(held.T, found.T):  # four times as fast as both columns at once
                into[rows] = column

    def reach(self, workspace: Workspace, at: int) -> Reach:
        """The reach of the active sources onto split `at`."""
        votes = workspace.own(at)
        loans = tuple(source.loans[at] for source in workspace.active)
        spaces = workspace.near.spaces
        pair = None if spaces is None else (spaces[TRAIN], spaces[at])
        lent = votes if at == TRAIN else workspace.own(TRAIN)
        return Reach(votes, loans, at == TRAIN, self.weighting, pair, lent)

    def explain(self, outcome: Outcome, at: int, row: int) -> Explanation:
        """Every source's part in one row's probabilities."""
        workspace, model = outcome.workspace, outcome.model.label_model_
        split, reach, place = workspace.split(at), self.reach(workspace, at), row
        if isinstance(model, TableModel) and isinstance(self.weighting, Nearest):
            split, reach, place = split.rows([row]), reach.rows([row]), 0  # no other row has a say
        decided, proba = int(outcome.decided[at][row]), outcome.proba[at][row]
        traced, train = reach.trace(outcome.radii), workspace.splits[TRAIN]
        found = explain_row(model, train, split, place, traced, proba, decided)
        return replace(found, row=workspace.splits[at].id_of(row))

    def report(self, outcome: Outcome, at: int, positive: str | None) -> Report:
        """The report of a split, with findings about the label model."""
        model = outcome.model.label_model_
        far = self.reach(outcome.workspace, at).trace(outcome.radii).distance
        lines = {"label model": type(model).__name__}
        return report_of(outcome, at, positive, Details("Epoxy", model, distance=far, lines=lines))
