"""An adapter to Snorkel's own LabelModel, so that it can stand beside ours in one table."""

from __future__ import annotations

import importlib
from typing import Any, Self

import numpy as np

from ..errors import MissingExtra, NotFitted
from ..votes import Votes
from .label_model import BalancedModel, ClassBalance, as_votes, check_speaks, resolve_balance


class Snorkel(BalancedModel):
    """Snorkel's LabelModel behind our protocol; needs the `snorkel` extra.

    Parameters
    ----------
    class_balance
        Passed on: shares, a `Split` to count, None to let Snorkel assume uniform.
    epochs, seed
        Passed on; the seed is explicit because Snorkel's default is drawn when it is imported.
    """

    def __init__(
        self, class_balance: ClassBalance = None, *, epochs: int = 100, seed: int = 0
    ) -> None:
        self.class_balance = class_balance
        self.epochs = epochs
        self.seed = seed

    def fit(self, votes: Votes) -> Self:
        """Train Snorkel's model on the votes."""
        try:
            module = importlib.import_module("snorkel.labeling.model")
        except ImportError as error:
            raise MissingExtra.of("the Snorkel label model", "snorkel", "snorkel") from error
        votes = as_votes(votes)
        check_speaks(votes, "Snorkel")
        balance = resolve_balance(self.class_balance, votes.n_classes, "Snorkel")
        model: Any = module.LabelModel(cardinality=votes.n_classes, verbose=False)
        model.fit(
            np.ascontiguousarray(votes.matrix).astype(int),
            class_balance=balance.tolist(),
            n_epochs=self.epochs,
            seed=self.seed,
            progress_bar=False,
        )
        self.classes_, self.sources_, self.model_ = votes.classes, votes.sources, model
        self.class_balance_ = balance
        return self

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Return Snorkel's probabilities; (n_rows, n_classes)."""
        if not hasattr(self, "model_"):
            raise NotFitted.of(self)
        matrix = np.ascontiguousarray(as_votes(votes).matrix).astype(int)
        return np.asarray(self.model_.predict_proba(matrix))
