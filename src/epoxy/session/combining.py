"""What the label model makes of a version: probabilities, labels and scores.

Versions that follow each other differ in a column or two, so what is counted over rows is kept from
one to the next and only brought in step.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ..errors import NotIdentifiable
from ..label_models import LabelModel
from ..label_models.base import posterior
from ..label_models.kernels import from_log_odds, sum_log_odds
from .steps import TRAIN, Told, extended_votes, most_probable
from .versions import Version
from .working import Working

__all__ = ["Combining"]

_FEW = 32  # sources up to which BLAS does not think of a second thread


class Combining:
    """Fits a label model to one version after another; what they share is not computed again."""

    def __init__(self, label_model: LabelModel, working: Working, classes: tuple[str, ...]) -> None:
        self.classes = classes
        self._template = clone(label_model, safe=False)
        self._working = working
        self._told: Told | None = None
        self._threads = ThreadpoolController()

    def combine(self, version: Version, positive: str | None, number: int = 0) -> Version:
        """Fit the label model and read probabilities, labels and scores of a version."""
        if len(version.sources) <= _FEW:
            return self._combined(version, positive, number)
        # products of some hundred rows are not worth waiting for a second thread, least of all a busy one
        with self._threads.limit(limits=1, user_api="blas"):
            return self._combined(version, positive, number)

    def _combined(self, version: Version, positive: str | None, number: int) -> Version:
        self._working.sync([source.extended[TRAIN] for source in version.active])
        try:
            model = self._fit(version)
        except NotIdentifiable as error:
            return version.combined(number, None, (), (), {}, str(error))
        proba = tuple(self._probabilities(model, version, at) for at in range(len(version.splits)))
        labels = tuple(most_probable(each) for each in proba)
        if self._told is None or self._told.truth is not version.truth:
            self._told = Told.of(version.truth)
        found = self._told.scores(proba, self.classes, positive)
        return version.combined(number, model, proba, labels, found)

    def _fit(self, version: Version) -> Any:
        model = copy.copy(self._template)  # clone() reads signatures: half a millisecond per edit
        names = tuple(source.name for source in version.active)
        if not names:
            raise NotIdentifiable("no source is switched on; add a labeling function")
        if hasattr(model, "fit_moments") and not model.needs_rows:
            return model.fit_moments(self._working.moments(names, self.classes))
        return model.fit(extended_votes(version, TRAIN))

    def _probabilities(self, model: Any, version: Version, at: int) -> np.ndarray:
        if not hasattr(model, "log_likelihood_"):
            return np.asarray(model.predict_proba(extended_votes(version, at)))
        alike = self._working.patterns() if at == TRAIN else None
        if alike is not None:
            return alike.spread(self._posterior(model, alike.votes))
        if at == TRAIN:
            return self._posterior(model, self._working.matrix)
        return self._posterior(model, np.stack([source.extended[at] for source in version.active]))

    def _posterior(self, model: Any, columns: np.ndarray) -> np.ndarray:
        """Probabilities of rows given as columns of votes; (n_rows, n_classes)."""
        table, prior = model.log_likelihood_, model.log_prior()
        if len(self.classes) == 2:
            odds = table[:, :, 1] - table[:, :, 0]
            return from_log_odds(sum_log_odds(columns, odds, float(prior[1] - prior[0])))
        return posterior(columns.T, table, prior)
