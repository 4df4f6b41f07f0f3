"""Exact inference on chains: forward-backward and Viterbi, linear in length.

All sequences move one element at a time together, so Python loops over positions only. Everything is
kept in logarithms: scaling alone fails when a transition is impossible and the evidence for it is
strong (the product underflows to nothing at all), and long chains are where this happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .layout import Layout

__all__ = ["ChainPrior", "Smoothed", "log_sum", "smooth", "viterbi"]

_FEW = 2048  # entries below which call overhead outweighs the slower ufunc


@dataclass(frozen=True, eq=False)
class ChainPrior:
    """Labels of a chain before any source speaks.

    `pairs[t]` is Pr(Y^t, Y^{t+1}); a stationary chain has one entry, used at every step.
    """

    first: np.ndarray  # (n_classes,) Pr(Y^0)
    pairs: np.ndarray  # (1 or length - 1, n_classes, n_classes)
    stationary: bool = True

    @property
    def length(self) -> int | None:
        """How many elements are described; None for any number."""
        return None if self.stationary else len(self.pairs) + 1

    @cached_property
    def _log_transitions(self) -> np.ndarray:
        row = self.pairs.sum(axis=2, keepdims=True)
        # a label of probability zero has no successor; any proper row will do, it is never entered
        even = np.full_like(self.pairs, 1 / self.pairs.shape[1])
        return np.asarray(_log(np.divide(self.pairs, row, out=even, where=row > 0)))

    def log_transition(self, step: int) -> np.ndarray:
        """log Pr(Y^{step+1} | Y^step); (n_classes, n_classes)."""
        return np.asarray(self._log_transitions[0 if self.stationary else step])

    def single(self, step: int) -> np.ndarray:
        """Pr(Y^step); (n_classes,)."""
        if step == 0 or self.stationary:
            return self.first
        return np.asarray(self.pairs[step - 1].sum(axis=0))


@dataclass(frozen=True, eq=False)
class Smoothed:
    """What forward-backward finds."""

    marginals: np.ndarray  # (n_rows, n_classes) Pr(Y^t | all votes of the sequence)
    pairs: np.ndarray  # (n_classes, n_classes) expected count of neighbouring labels
    log_likelihood: float  # log Pr(votes), up to the constant the evidence leaves out


def smooth(evidence: np.ndarray, layout: Layout, prior: ChainPrior) -> Smoothed:
    """Forward-backward on every sequence; `evidence` is log Pr(votes of a row | class).

    A sequence whose votes are impossible under the prior gets equal shares, as nothing was learned.
    """
    steps = layout.steps()
    ahead, behind = np.zeros_like(evidence), np.zeros_like(evidence)
    for step, rows in enumerate(steps):
        before = _log(prior.first) if step == 0 else _push(ahead[rows - 1], prior, step - 1)
        ahead[rows] = evidence[rows] + before
    last = layout.starts + layout.lengths - 1
    total = log_sum(ahead[last], axis=1)  # (n_sequences,)
    of_row = np.repeat(total, layout.lengths)
    pairs = np.zeros((evidence.shape[1],) * 2)
    for step in range(len(steps) - 1, 0, -1):
        rows = steps[step]
        link = prior.log_transition(step - 1) + (evidence[rows] + behind[rows])[:, None, :]
        behind[rows - 1] = log_sum(link, axis=2)
        both = ahead[rows - 1][:, :, None] + link
        pairs += np.exp(both - _finite(of_row[rows])[:, None, None]).sum(axis=0)
    marginals = np.exp(ahead + behind - _finite(of_row)[:, None])
    marginals[np.isneginf(of_row)] = 1.0
    marginals /= marginals.sum(axis=1, keepdims=True)
    return Smoothed(marginals, pairs, float(total.sum()))


def viterbi(evidence: np.ndarray, layout: Layout, prior: ChainPrior) -> np.ndarray:
    """The most likely joint labelling of each sequence; (n_rows,) class indices, ties to the first."""
    steps = layout.steps()
    best = np.zeros_like(evidence)
    came_from = np.zeros(evidence.shape, dtype=np.intp)
    for step, rows in enumerate(steps):
        if step == 0:
            best[rows] = evidence[rows] + _log(prior.first)
            continue
        reach = best[rows - 1][:, :, None] + prior.log_transition(step - 1)
        came_from[rows] = reach.argmax(axis=1)
        best[rows] = evidence[rows] + reach.max(axis=1)
    label = best.argmax(axis=1)  # right at the last row of each sequence, then traced back
    for rows in reversed(steps[1:]):
        label[rows - 1] = came_from[rows, label[rows]]
    return np.asarray(label)


def log_sum(value: np.ndarray, axis: int) -> np.ndarray:
    """log Σ exp, which is −inf for a sum of nothing."""
    if value.size <= _FEW:  # one call instead of seven: long single sequences live here
        return np.asarray(np.logaddexp.reduce(value, axis=axis))
    top = _finite(value.max(axis=axis, keepdims=True))
    return np.asarray(_log(np.exp(value - top).sum(axis=axis)) + top.squeeze(axis))


def _push(ahead: np.ndarray, prior: ChainPrior, step: int) -> np.ndarray:
    return log_sum(ahead[:, :, None] + prior.log_transition(step), axis=1)


def _finite(value: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(value), 0.0, value)


def _log(value: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(value))
