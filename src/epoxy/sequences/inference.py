"""Exact inference along chains of labels, linear in the number of labels.

Everything is kept in logarithms: scaling alone fails when a
transition is impossible and the evidence for it is strong, and long chains are where this happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..compiling import compiled
from .layout import Layout

ENTRIES = 1 << 22  # table entries held at once, all items together


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

    @classmethod
    def of_joint(cls, joint: np.ndarray) -> ChainPrior:
        """The chain with the same neighbouring pairs as a joint table, one axis per position."""
        if joint.ndim == 1:
            return cls.independent(joint)
        pairs = np.stack([marginal(joint, (at, at + 1)) for at in range(joint.ndim - 1)])
        return cls(marginal(joint, (0,)), pairs, stationary=False)

    @property
    def length(self) -> int | None:
        """How many elements are described; None for any number."""
        return None if self.stationary else len(self.pairs) + 1

    @property
    def singles(self) -> np.ndarray:
        """Pr(Y^t) of the elements described, one where they are all alike; (n, n_classes)."""
        later = self.pairs[:0] if self.stationary else self.pairs
        return np.concatenate([self.first[None], later.sum(axis=1)])

    @cached_property
    def log_transitions(self) -> np.ndarray:
        """log Pr(next label | label), one table for each of `pairs`."""
        row = self.pairs.sum(axis=2, keepdims=True)
        # a label of probability zero has no successor; any proper row will do, it is never entered
        even = np.full_like(self.pairs, 1 / self.pairs.shape[1])
        return np.asarray(log(np.divide(self.pairs, row, out=even, where=row > 0)))


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
    total = log_sum(ahead[layout.starts + layout.lengths - 1], axis=1)  # (n_sequences,)
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
    label = np.zeros(len(evidence), dtype=np.int64)
    stride = 0 if prior.stationary else 1
    given = (np.ascontiguousarray(evidence), layout.starts, layout.lengths)
    _trace(*given, stride, log(prior.first), prior.log_transitions, label)
    return label


@compiled
def _trace(
    evidence: Any, starts: Any, lengths: Any, stride: Any, first: Any, moves: Any, label: Any
) -> None:
    came_from = np.zeros(evidence.shape, np.int64)
    for sequence in range(len(starts)):
        start, last = starts[sequence], starts[sequence] + lengths[sequence] - 1
        best = evidence[start] + first
        for row in range(start + 1, last + 1):
            move, ahead = moves[stride * (row - start - 1)], best.copy()
            for now in range(len(first)):
                reach = ahead + move[:, now]
                came_from[row, now] = reach.argmax()
                best[now] = evidence[row, now] + reach.max()
        label[last] = best.argmax()
        for row in range(last, start, -1):
            label[row - 1] = came_from[row, label[row]]


def marginal(joint: np.ndarray, keep: tuple[int, ...]) -> np.ndarray:
    """Sum a table over all but some axes, in their order."""
    return np.asarray(np.einsum(joint, list(range(joint.ndim)), list(keep)))


def log_sum(value: np.ndarray, axis: int) -> np.ndarray:
    """log Σ exp, which is −inf for a sum of nothing."""
    top = _finite(value.max(axis=axis, keepdims=True))
    return np.asarray(log(np.exp(value - top).sum(axis=axis)) + top.squeeze(axis))


def _finite(value: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(value), 0.0, value)


def log(value: np.ndarray) -> np.ndarray:
    """Logarithms, −inf for zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(value))
