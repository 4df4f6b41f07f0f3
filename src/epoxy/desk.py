"""Where a search tries its settings: one radius per source and a class balance in, dev probabilities out.

A search asks for hundreds of settings that differ in one source. So everything that lasts is laid out
once (who is reached from how far), extended columns are kept per radius, and pair counts are updated,
not counted again. Which settings to try, and which to take, is decided in `tuning`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from .extension import Reach
from .label_models import LabelModel
from .label_models.base import posterior
from .measures import Measure
from .session.working import Working
from .votes import ABSTAIN, Split, Votes
from .weighting import Nearest

__all__ = ["Desk"]


class Desk:
    """Everything a setting is evaluated with; evaluating changes only what differs."""

    def __init__(
        self,
        train: Split,
        dev: Split,
        reaches: tuple[Reach, Reach],
        label_model: LabelModel,
        measure: Measure,
        known: np.ndarray,
    ) -> None:
        self.sources, self.classes = train.votes.sources, train.classes
        self.splits, self.reaches = (train, dev), reaches
        self.template: Any = clone(label_model, safe=False)
        self.measure, self.known = measure, known
        self.working = Working(len(self.classes))
        self.full = np.asarray(train.votes.cast.all(axis=0))
        self.steps = [self._steps(source) for source in range(len(self.sources))]
        self.columns: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def _steps(self, source: int) -> np.ndarray:
        """The distances at which some abstaining row of train or dev is reached, ascending."""
        if self.full[source]:
            return np.empty(0)
        parts = [
            r.distance[~s.votes.cast[:, source], source] for r, s in zip(self.reaches, self.splits)
        ]
        every = np.concatenate(parts)
        return np.unique(every[np.isfinite(every)])

    def snap(self, source: int, radius: float) -> int:
        """Which step a radius comes to: 0 for no extension, else the number of steps within it."""
        if np.isnan(radius):
            return 0
        return int(np.searchsorted(self.steps[source], radius, side="right"))

    def radius(self, source: int, step: int) -> float:
        """The smallest radius of a step; NaN for no extension."""
        return float("nan") if step == 0 else float(self.steps[source][step - 1])

    def column(self, source: int, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The source's extended votes on train and dev."""
        key = (source, step)
        if key not in self.columns:
            self.columns[key] = tuple(  # type: ignore[assignment]
                self._extend(number, source, self.radius(source, step)) for number in (0, 1)
            )
        return self.columns[key]

    def _extend(self, number: int, source: int, radius: float) -> np.ndarray:
        found, votes = self.reaches[number], self.splits[number].votes
        if not isinstance(found.weighting, Nearest):
            radii: list[float | None] = [None] * len(self.sources)
            radii[source] = None if np.isnan(radius) else radius
            return np.ascontiguousarray(found.extend(radii).matrix[:, source])
        own = votes.matrix[:, source]
        with np.errstate(invalid="ignore"):
            within = (own == ABSTAIN) & (found.distance[:, source] <= radius)
        return np.where(within, found.nearest[:, source], own).astype(votes.matrix.dtype)

    def evaluate(self, steps: Sequence[int], balance: tuple[float, ...] | None) -> np.ndarray:
        """Dev probabilities of the rows with truth, under one setting."""
        chosen = [self.column(source, step) for source, step in enumerate(steps)]
        model = copy.copy(self.template)
        if balance is not None:
            model.class_balance = list(balance)
        dev = np.stack([column[1] for column in chosen])
        if hasattr(model, "fit_moments") and not model.needs_rows:
            self.working.sync([column[0] for column in chosen])
            model.fit_moments(self.working.moments(self.sources, self.classes))
            columns = dev[:, self.known]
            return np.asarray(posterior(columns.T, model.log_likelihood_, model.log_prior()))
        votes = [
            Votes.of_checked(
                np.stack([column[number] for column in chosen]).T,
                self.sources,
                self.classes,
                self.splits[number].votes.sequences,
            )
            for number in (0, 1)
        ]
        return np.asarray(model.fit(votes[0]).predict_proba(votes[1])[self.known])
