"""How much a vote is worth: its lift over the prior, learned from dev rows.

A vote for class c by source j multiplies the odds of c by exp(l_j):

    logit P(y = c | j votes c) = logit P(y = c) + l_j,        l_j = g + u_j

with one lift g shared by all sources and a deviation u_j, held near zero by a ridge so that a source
seen on few dev rows speaks with the common voice. A one-sided source is read as what it is: nothing
is inferred from the class it never names. The estimate needs only counts (n votes, n right), one row
per source and class, and is found by Newton steps on an arrow-shaped system, O(sources).
"""

from __future__ import annotations

import numpy as np

from ..votes import ABSTAIN

__all__ = ["add", "count", "fit", "shared"]

RIDGE = 1.0
RIDGE_SHARED = 1.0
TYPICAL = 1.0
STEPS = 30


def count(votes: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes of each source for each class, and how many are right; two (n_sources, n_classes)."""
    shape = (votes.shape[1], n_classes)
    row, source = np.nonzero(votes != ABSTAIN)
    said = votes[row, source].astype(np.intp)
    cell = source * n_classes + said
    total = np.bincount(cell, minlength=shape[0] * n_classes)
    right = np.bincount(cell, said == y[row], minlength=shape[0] * n_classes)
    return right.reshape(shape), total.reshape(shape).astype(float)


def fit(right: np.ndarray, total: np.ndarray, prior: np.ndarray) -> tuple[float, np.ndarray]:
    """The shared lift and each source's deviation from it, from counts per source and class."""
    offset = np.log(prior) - np.log1p(-prior)
    common, own = TYPICAL, np.zeros(len(total))
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(offset + (common + own)[:, None])))
        slope = (total * chance - right).sum(axis=1)
        bend = (total * chance * (1 - chance)).sum(axis=1)
        gradient_own = slope + RIDGE * own
        gradient = slope.sum() + RIDGE_SHARED * (common - TYPICAL)
        # eliminate the diagonal block: its Schur complement is a single number
        ratio = bend / (bend + RIDGE)
        step = (gradient - ratio @ gradient_own) / ((bend * (1 - ratio)).sum() + RIDGE_SHARED)
        step_own = (gradient_own - bend * step) / (bend + RIDGE)
        common -= float(np.clip(step, -1, 1))
        own -= np.clip(step_own, -1, 1)
        if max(abs(step), np.abs(step_own).max(initial=0.0)) < 1e-10:
            break
    return common, own


def shared(right: np.ndarray, total: np.ndarray, prior: np.ndarray) -> float:
    """One lift for all the votes counted, held near zero: silence is the safe reading."""
    offset = np.log(prior) - np.log1p(-prior)
    right, total = right.sum(axis=0), total.sum(axis=0)
    lift = 0.0
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(offset + lift)))
        gradient = float((total * chance - right).sum()) + lift
        step = gradient / (float((total * chance * (1 - chance)).sum()) + 1.0)
        lift -= float(np.clip(step, -1, 1))
        if abs(step) < 1e-10:
            break
    return lift


def add(votes: np.ndarray, lift: np.ndarray, n_classes: int, *, damped: bool = False) -> np.ndarray:
    """Sum the lifts of the votes for each class; (n_rows, n_classes).

    Damped sums grow like the square root of the number of votes, for votes that repeat each other.
    """
    found = np.zeros((len(votes), n_classes))
    for label in range(n_classes):
        named = votes == label
        found[:, label] = named @ lift
        if damped:
            found[:, label] /= np.sqrt(np.maximum(1, named.sum(axis=1)))
    return found
