"""Exact inference on chains: forward-backward and Viterbi, linear in length.

Everything is kept in logarithms: scaling alone fails when a transition is impossible and the evidence
for it is strong (the product underflows to nothing at all), and long chains are where this happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..compiling import compiled
from .layout import Layout

_FEW = 2048  # entries below which call overhead outweighs the slower ufunc


@dataclass(frozen=True, eq=False)
class ChainPrior:
    """Labels of a chain before any source speaks.

    `pairs[t]` is Pr(Y^t, Y^{t+1}); a stationary chain has one entry, used at every step.
    """

    first: np.ndarray  # (n_classes,) Pr(Y^0)
    pairs: np.ndarray  # (1 or length - 1, n_classes, n_classes)
    stationary: bool = True

    @classmethod
    def independent(cls, share: np.ndarray) -> ChainPrior:
        """A label says nothing about the next."""
        return cls(share, np.outer(share, share)[None])

    @property
    def length(self) -> int | None:
        """How many elements are described; None for any number."""
        return None if self.stationary else len(self.pairs) + 1

    @cached_property
    def log_transitions(self) -> np.ndarray:
        """log Pr(next label | label), one table for each of `pairs`."""
        row = self.pairs.sum(axis=2, keepdims=True)
        # a label of probability zero has no successor; any proper row will do, it is never entered
        even = np.full_like(self.pairs, 1 / self.pairs.shape[1])
        return np.asarray(log(np.divide(self.pairs, row, out=even, where=row > 0)))

    def log_transition(self, step: int) -> np.ndarray:
        """log Pr(Y^{step+1} | Y^step); (n_classes, n_classes)."""
        return np.asarray(self.log_transitions[0 if self.stationary else step])

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
    before, behind, pairs = _run(evidence, layout, prior, None)
    ahead = evidence + before
    last = layout.starts + layout.lengths - 1
    total = log_sum(ahead[last], axis=1)  # (n_sequences,)
    of_row = np.repeat(total, layout.lengths)
    marginals = np.exp(ahead + behind - _finite(of_row)[:, None])
    marginals[np.isneginf(of_row)] = 1.0
    marginals /= marginals.sum(axis=1, keepdims=True)
    return Smoothed(marginals, pairs, float(total.sum()))


def messages(
    evidence: np.ndarray, layout: Layout, prior: ChainPrior, table: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What the rest of its sequence says of each row, its own evidence left out; (n_rows, K) each.

    log Pr(Y^t, evidence of the rows before), and log Pr(evidence of the rows after | Y^t). `table`
    numbers the entry of `prior.pairs` by which each sequence moves.
    """
    return _run(evidence, layout, prior, table)[:2]


def _run(
    evidence: np.ndarray, layout: Layout, prior: ChainPrior, table: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    before, behind = np.zeros_like(evidence), np.zeros_like(evidence)
    pairs = np.zeros((evidence.shape[1],) * 2)
    begin = np.zeros(len(layout.starts), dtype=np.int64) if table is None else table
    given = (np.ascontiguousarray(evidence), layout.starts, layout.lengths, begin)
    stride = 0 if prior.stationary or table is not None else 1
    _forward(*given, stride, log(prior.first), prior.log_transitions, before)
    _backward(*given, stride, before, prior.log_transitions, behind, pairs)
    return before, behind, pairs


@compiled
def _forward(
    evidence: Any,
    starts: Any,
    lengths: Any,
    begin: Any,
    stride: Any,
    first: Any,
    moves: Any,
    before: Any,
) -> None:
    for sequence in range(len(starts)):
        start = starts[sequence]
        before[start] = first
        for at in range(1, lengths[sequence]):
            move = moves[begin[sequence] + stride * (at - 1)]
            ahead = before[start + at - 1] + evidence[start + at - 1]
            for label in range(len(first)):
                before[start + at, label] = _log_sum(ahead + move[:, label])


@compiled
def _backward(
    evidence: Any,
    starts: Any,
    lengths: Any,
    begin: Any,
    stride: Any,
    before: Any,
    moves: Any,
    behind: Any,
    pairs: Any,
) -> None:
    for sequence in range(len(starts)):
        start, last = starts[sequence], starts[sequence] + lengths[sequence] - 1
        total = _log_sum(before[last] + evidence[last])
        for row in range(last, start, -1):
            move = moves[begin[sequence] + stride * (row - start - 1)]
            after = evidence[row] + behind[row]
            for label in range(before.shape[1]):
                link = move[label] + after
                behind[row - 1, label] = _log_sum(link)
                ahead = before[row - 1, label] + evidence[row - 1, label]
                if total > -np.inf:
                    pairs[label] += np.exp(ahead + link - total)


@compiled
def _log_sum(values: Any) -> Any:
    top = values.max()
    return top if top == -np.inf else np.log(np.exp(values - top).sum()) + top


def viterbi(evidence: np.ndarray, layout: Layout, prior: ChainPrior) -> np.ndarray:
    """The most likely joint labelling of each sequence; (n_rows,) class indices, ties to the first."""
    steps = layout.steps()
    best = np.zeros_like(evidence)
    came_from = np.zeros(evidence.shape, dtype=np.intp)
    for step, rows in enumerate(steps):
        if step == 0:
            best[rows] = evidence[rows] + log(prior.first)
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
    return np.asarray(log(np.exp(value - top).sum(axis=axis)) + top.squeeze(axis))


def _finite(value: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(value), 0.0, value)


def log(value: np.ndarray) -> np.ndarray:
    """Logarithms, −inf for zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(value))
