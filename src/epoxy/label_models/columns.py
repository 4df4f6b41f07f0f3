"""Fit a label model to extended columns again and again; what two fits share is not computed twice.

Sessions and searches ask for hundreds of fits. Where no column changed the counts are those of the fit
before. The result has the same bits as `model.fit(votes).predict_proba(votes)`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ..errors import NotIdentifiable
from ..estimators import clone
from ..votes import Votes
from .label_model import LabelModel, TableModel, posterior
from .moments import Moments, moments_of

_FEW = 32  # sources up to which BLAS does not think of a second thread


@dataclass(frozen=True, eq=False)
class Columns:
    """Votes of some sources about the rows of one split, one array per source."""

    columns: tuple[np.ndarray, ...]
    n_rows: int
    sequences: np.ndarray | None = None

    def stacked(self) -> np.ndarray:
        """(n_sources, n_rows)."""
        if not self.columns:
            return np.empty((0, self.n_rows), dtype=np.int8)
        return np.stack(self.columns)

    def as_votes(self, sources: tuple[str, ...], classes: tuple[str, ...]) -> Votes:
        """The same as `Votes`, which were checked when the columns were made."""
        return Votes.of_checked(self.stacked().T, sources, classes, self.sequences)


class LabelModelRunner:
    """One label model over changing columns."""

    def __init__(self, label_model: LabelModel, classes: tuple[str, ...]) -> None:
        self.classes = classes
        self._template: Any = clone(label_model)
        self._counted: tuple[tuple[np.ndarray, ...], Moments] | None = None
        self._threads = ThreadpoolController()

    def fit(
        self,
        sources: tuple[str, ...],
        train: Columns,
        balance: Sequence[float] | np.ndarray | None = None,
    ) -> Any:
        """The label model fitted on these columns; `balance` takes the place of its class balance."""
        if not sources:
            raise NotIdentifiable("no source is switched on; add a labeling function")
        model = self._fresh(balance)
        if isinstance(model, TableModel) and model.fits_moments:
            return model.fit_moments(self._moments(sources, train))
        return model.fit(train.as_votes(sources, self.classes))

    def _fresh(self, balance: Sequence[float] | np.ndarray | None) -> Any:
        """The label model before it is fitted."""
        model = copy.copy(self._template)  # clone() reads signatures: half a millisecond per edit
        if balance is not None:
            model.class_balance = list(balance)
        return model

    def _moments(self, sources: tuple[str, ...], train: Columns) -> Moments:
        columns = train.columns
        if self._counted is not None:
            of, known = self._counted
            if known.sources == sources and len(of) == len(columns) and all(map(is_, of, columns)):
                return known
        found = moments_of(columns, train.n_rows, sources, self.classes)
        self._counted = columns, found
        return found

    def predict(self, model: Any, sources: tuple[str, ...], rows: Columns) -> np.ndarray:
        """Probabilities of rows; (n_rows, n_classes)."""
        if isinstance(model, TableModel):
            return posterior_of(model, rows.stacked())
        return np.asarray(model.predict_proba(rows.as_votes(sources, self.classes)))

    def one_thread(self, n_sources: int) -> Any:
        """A context in which products of some hundred rows do not wait for a second thread."""
        if n_sources <= _FEW:
            return nullcontext()
        return self._threads.limit(limits=1, user_api="blas")


def posterior_of(model: TableModel, columns: np.ndarray) -> np.ndarray:
    """Probabilities of rows whose votes are given source by source, (n_sources, n_rows)."""
    return posterior(columns.T, model.log_likelihood_, model.log_prior())
