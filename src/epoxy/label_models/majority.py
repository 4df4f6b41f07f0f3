"""Majority vote: the baseline every label model is shown beside."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator

from ..errors import NotFitted
from ..persistence import State
from ..votes import Votes
from .base import (
    ClassBalance,
    as_votes,
    check_speaks,
    plain_params,
    resolve_balance,
    votes_for,
)

__all__ = ["MajorityVote"]


class MajorityVote(BaseEstimator):  # type: ignore[misc]
    """Each vote counts one; probabilities are shares of the votes cast.

    Parameters
    ----------
    class_balance
        What a row without votes gets, and what breaks ties: shares, a `Split` to count, None for uniform.

    Examples
    --------
    >>> votes = Votes([[0, 0, 1], [-1, 1, -1], [-1, -1, -1]])
    >>> MajorityVote().fit(votes).predict_proba(votes).round(2).tolist()
    [[0.67, 0.33], [0.0, 1.0], [0.5, 0.5]]
    """

    classes_: tuple[str, ...]
    """The classes of the votes it was fitted on."""
    sources_: tuple[str, ...]
    """The sources it was fitted on."""
    class_balance_: np.ndarray
    """Pr(class) as used; (n_classes,)."""

    def __init__(self, class_balance: ClassBalance = None) -> None:
        self.class_balance = class_balance

    def fit(self, votes: Votes) -> Self:
        """Remember classes and balance; there is nothing else to learn."""
        votes = as_votes(votes)
        check_speaks(votes, "MajorityVote")
        self.classes_, self.sources_ = votes.classes, votes.sources
        self.class_balance_ = resolve_balance(self.class_balance, votes.n_classes, "MajorityVote")
        return self

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Return the share of votes for each class; (n_rows, n_classes)."""
        votes = votes_for(self, votes, "classes_")
        counts = np.stack([(votes.matrix == k).sum(axis=1) for k in range(len(self.classes_))], 1)
        total = counts.sum(axis=1, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1), self.class_balance_)

    def predict(self, votes: Votes) -> np.ndarray:
        """Return the class with most votes, by name; ties go to the more frequent class."""
        tie = 1e-9 * self.class_balance_ if hasattr(self, "class_balance_") else 0.0
        best = (self.predict_proba(votes) + tie).argmax(axis=1)
        return np.asarray(np.asarray(self.classes_)[best])

    def to_state(self) -> State:
        """Describe the fitted model for `epoxy.persistence`."""
        if not hasattr(self, "classes_"):
            raise NotFitted.of(self)
        values = {
            "params": plain_params(self),
            "classes": list(self.classes_),
            "sources": list(self.sources_),
        }
        return State(values, {"class_balance_": self.class_balance_})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted model again."""
        model = cls(**state.values["params"])
        model.classes_ = tuple(state.values["classes"])
        model.sources_ = tuple(state.values["sources"])
        model.class_balance_ = state.arrays["class_balance_"]
        return model
