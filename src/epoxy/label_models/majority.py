"""Majority vote: the baseline every label model is shown beside."""

from __future__ import annotations

from typing import Self

import numpy as np

from ..votes import Votes
from .label_model import (
    ClassBalance,
    SavedModel,
    as_votes,
    check_speaks,
    resolve_balance,
    votes_for,
)

_TIE = 1e-9
"""The class balance counts as so much of a vote: it settles ties and answers for silent rows."""


class MajorityVote(SavedModel):
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

    def __init__(self, class_balance: ClassBalance = None) -> None:
        self.class_balance = class_balance

    def fit(self, votes: Votes) -> Self:
        """Remember classes and balance; there is nothing else to learn."""
        votes = as_votes(votes)
        check_speaks(votes, "MajorityVote")
        self.classes_, self.sources_, self.findings_ = votes.classes, votes.sources, []
        self.class_balance_ = resolve_balance(self.class_balance, votes.n_classes, "MajorityVote")
        return self

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Return the share of votes for each class, ties settled; (n_rows, n_classes)."""
        return majority_shares(votes_for(self, votes, "classes_").matrix, self.class_balance_)

    def predict(self, votes: Votes) -> np.ndarray:
        """Return the class with most votes, by name; ties go to the more frequent class."""
        best = self.predict_proba(votes).argmax(axis=1)
        return np.asarray(np.asarray(self.classes_)[best])


def majority_shares(matrix: np.ndarray, balance: np.ndarray) -> np.ndarray:
    """Each class's share of the votes on every row, ties settled by `balance`; (n_rows, n_classes)."""
    counts = np.stack([(matrix == label).sum(axis=1) for label in range(len(balance))], axis=1)
    said = counts.sum(axis=1, keepdims=True)
    return np.asarray((counts + _TIE * balance) / (said + _TIE))
