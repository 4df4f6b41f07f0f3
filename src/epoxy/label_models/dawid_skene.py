"""Dawid and Skene's model: a confusion matrix per source, by expectation maximisation."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from ..errors import ParameterError, UnknownName
from ..votes import ABSTAIN, Votes
from .label_model import (
    ClassBalance,
    TableModel,
    as_votes,
    check_speaks,
    posterior,
    resolve_balance,
)


class DawidSkene(TableModel):
    """Maximum likelihood for sources with any confusion matrix, starting from the majority vote.

    E-step: Pr(y | λ) ∝ Pr(y)·Πᵢ πᵢ[y, λᵢ]. M-step: πᵢ[y, v] and Pr(y) are the expected counts.
    Each source's counts start from a weak prior in which it is right more often than not, so that a
    source with few votes cannot turn certain.

    Parameters
    ----------
    class_balance
        Pr(Y), kept fixed when given (shares, or a `Split` to count); learned when None.
    abstain
        `"symbol"`: silence is one more thing a source can say, which one-sided sources need;
        `"missing"`: it says nothing, as for crowd workers who see few rows; `"auto"`: per source,
        missing for those that name every class, a symbol for the others.
    max_iter, tol
        Stop after so many rounds, or when no probability moves by more than `tol`.

    References
    ----------
    Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm",
    Applied Statistics 28 (1979).
    """

    n_iter_: int
    """Rounds until nothing moved."""

    def __init__(
        self,
        class_balance: ClassBalance = None,
        *,
        abstain: Literal["auto", "symbol", "missing"] = "auto",
        max_iter: int = 100,
        tol: float = 1e-5,
    ) -> None:
        self.class_balance = class_balance
        self.abstain = abstain
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, votes: Votes) -> Self:
        """Run expectation maximisation from the majority vote."""
        votes = as_votes(votes)
        check_speaks(votes, "DawidSkene")
        if self.abstain not in ("auto", "symbol", "missing"):
            raise UnknownName.of("abstain", self.abstain, ["auto", "symbol", "missing"])
        if self.max_iter < 1:
            raise ParameterError(f"DawidSkene got max_iter={self.max_iter}; expected at least 1")
        self.sources_, self.classes_, self.findings_ = votes.sources, votes.classes, []
        fixed = self.class_balance is not None
        balance = resolve_balance(self.class_balance, votes.n_classes, "DawidSkene")
        # rows with the same votes behave alike: work on the distinct ones
        rows, times = np.unique(np.ascontiguousarray(votes.matrix), axis=0, return_counts=True)
        proba = _start(rows, balance)
        counted = self._counted(votes)
        self.n_iter_ = 0
        while self.n_iter_ < self.max_iter:
            self.n_iter_ += 1
            weight = proba * times[:, None]
            if not fixed:
                balance = (weight.sum(axis=0) + 1) / (times.sum() + votes.n_classes)
            table = _table(rows, weight, counted)
            new = posterior(rows, table, np.log(balance))
            moved = float(np.abs(new - proba).max())
            proba = new
            if moved < self.tol:
                break
        self.class_balance_, self.log_likelihood_ = balance, table
        self.accuracy_ = _accuracies(rows, proba * times[:, None])
        return self

    def _counted(self, votes: Votes) -> np.ndarray:
        """Sources whose silence is read as a symbol; (n_sources,) bool."""
        if self.abstain != "auto":
            return np.full(votes.n_sources, self.abstain == "symbol")
        return np.array([len(named) < votes.n_classes for named in votes.polarity])


def _start(rows: np.ndarray, balance: np.ndarray) -> np.ndarray:
    counts = np.stack([(rows == k).sum(axis=1) for k in range(len(balance))], axis=1)
    start = counts + balance
    return np.asarray(start / start.sum(axis=1, keepdims=True))


def _table(rows: np.ndarray, weight: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """log Pr(vote | class) from expected counts; (n_sources, 1 + n_classes, n_classes)."""
    n_sources, n_classes = rows.shape[1], weight.shape[1]
    table = np.empty((n_sources, 1 + n_classes, n_classes))
    for source in range(n_sources):
        said = rows[:, source].astype(np.intp) + 1
        counts: np.ndarray = np.stack(
            [np.bincount(said, weight[:, k], minlength=1 + n_classes) for k in range(n_classes)], 1
        )
        counts[1:] += 0.1 + 0.1 * np.eye(n_classes)
        counts[0] += 0.1
        if not counted[source]:
            counts[0] = 0
        with np.errstate(divide="ignore"):
            table[source] = np.log(counts / counts.sum(axis=0))
        if not counted[source]:
            table[source, 0] = 0.0
    return table


def _accuracies(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Expected share of right votes; chance for a source that never votes."""
    found = np.full(rows.shape[1], 1 / weight.shape[1])
    for source in range(rows.shape[1]):
        cast = rows[:, source] != ABSTAIN
        if cast.any():
            said = weight[cast]
            found[source] = said[np.arange(len(said)), rows[cast, source]].sum() / said.sum()
    return found
