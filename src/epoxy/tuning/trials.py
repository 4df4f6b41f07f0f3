"""Where a search tries its settings: one radius per source and a class balance in, dev probabilities out.

A search asks for hundreds of settings that differ in one source. So everything that lasts is laid out
once (who is reached from how far), extended columns are kept per radius, and pair counts are updated,
not counted again. Which settings to try, and which to take, is decided in `search`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..extension import Reach
from ..label_models import LabelModel
from ..label_models.runner import Columns, LabelModelRunner
from ..scoring import Score
from ..votes import Split
from ..weighting import Nearest


class TrialEvaluator:
    """Everything a setting is evaluated with; evaluating changes only what differs."""

    def __init__(
        self,
        splits: tuple[Split, Split],
        reaches: tuple[Reach, Reach],
        label_model: LabelModel,
        score: Score,
        known: np.ndarray,
    ) -> None:
        train = splits[0]
        self.sources, self.classes = train.votes.sources, train.classes
        self.splits, self.reaches, self.score, self.known = splits, reaches, score, known
        self.covered = float(train.votes.covered.mean()) if train.n_rows else 0.0
        self.runner = LabelModelRunner(label_model, self.classes)
        self.breakpoints = [
            np.unique(np.concatenate([each.loans[source].breakpoints for each in reaches]))
            for source in range(len(self.sources))
        ]
        self.columns: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def snap(self, source: int, radius: float) -> int:
        """Which step a radius comes to: 0 for no extension, else the number of breakpoints within it."""
        if np.isnan(radius):
            return 0
        return int(np.searchsorted(self.breakpoints[source], radius, side="right"))

    def radius(self, source: int, step: int) -> float:
        """The smallest radius of a step; NaN for no extension."""
        return float("nan") if step == 0 else float(self.breakpoints[source][step - 1])

    def column(self, source: int, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The source's extended votes on train and dev."""
        key = (source, step)
        if key not in self.columns:
            radius = self.radius(source, step)
            train, dev = (self._extend(each, source, radius) for each in self.reaches)
            self.columns[key] = train, dev
        return self.columns[key]

    def _extend(self, reach: Reach, source: int, radius: float) -> np.ndarray:
        if isinstance(reach.weighting, Nearest):
            return reach.loans[source].extend(radius)
        radii = np.full(len(self.sources), np.nan)
        radii[source] = radius
        return np.ascontiguousarray(reach.extend(radii).matrix[:, source])

    def evaluate(self, steps: Sequence[int], balance: tuple[float, ...] | None) -> np.ndarray:
        """Dev probabilities of the rows with truth, under one setting."""
        chosen = [self.column(source, step) for source, step in enumerate(steps)]
        train, dev = (
            Columns(tuple(each[at] for each in chosen), split.n_rows, split.votes.sequences)
            for at, split in enumerate(self.splits)
        )
        model = self.runner.fit(self.sources, train, balance)
        return np.asarray(self.runner.predict(model, self.sources, dev)[self.known])
