"""What labels that may be wrong say: which classes their labellers take for which.

A labeller who is right 80 % of the time is seldom so of every class, and mistakes that lean one way
move a decision where even ones would only blur it. With p what a model that learned from trusted labels
alone says of the rows (without trusted labels, the model without labels), expectation maximisation
counts how often class k is called right, and what it is called instead,

    q_i(k) ∝ Pr(label_i | k) · p_i(k) exp(c_k)
    rate(k) = (Σ_i q_i(k) [label_i = k] + 60 · told(k)) / (Σ_i q_i(k) + 60)

and mistakes likewise. What is known of the labellers as a whole weighs as much as sixty answers about
each class. Labellers known to differ keep their difference, as log-odds.

Where labels name a class less often than p does, either the labellers miss it or p finds too much of it.
So p has a bias c, drawn to zero by as much as is known of the class balance (`ridges`): taken for the
truth, a model that finds five times as many rows of a rare class as there are would make of right
labels the ones of somebody who misses most of it.
"""

from __future__ import annotations

import numpy as np

from ..numerics import softmax

VOICES, ROUNDS = 60.0, 50
LEAST, MOST = 0.02, 0.99
APART = 8.0
"""Deviations, in log-odds, that the least and the most of a class's share are apart."""


def evenly(y: np.ndarray, wrong: np.ndarray, n_classes: int) -> np.ndarray:
    """Pr(label_i | k) where mistakes are spread evenly over classes; (m, n_classes)."""
    own = np.arange(n_classes) == y[:, None]
    return np.where(own, 1 - wrong[:, None], wrong[:, None] / (n_classes - 1))


def ridges(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How strongly the bias of each class is drawn to zero where its share is `low` to `high`; (n_classes,).

    The log-odds of a class against the others have K / (K − 1) times the variance of its bias.
    """
    n_classes = len(low)
    deviation = (_log_odds(high) - _log_odds(low)) / APART
    deviation = np.maximum(deviation, 1e-6)  # of a balance that is told there is none
    return np.asarray(n_classes / (n_classes - 1) / deviation**2)


def confused(
    logits: np.ndarray, y: np.ndarray, wrong: np.ndarray, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pr(label_i | k) with a rate for each class, (m, n_classes), and the bias of the logits, (n_classes,).

    Parameters
    ----------
    logits
        What models that did not learn from these labels say of their rows, (m, n_classes).
    y
        The labels.
    wrong
        How often labels of such a labeller are wrong, all classes together.
    ridge
        How strongly the bias is drawn to zero, (n_classes,).
    """
    n_classes, bias = logits.shape[1], np.zeros(logits.shape[1])
    own = np.arange(n_classes) == y[:, None]
    level = _log_odds(1 - wrong)
    found = evenly(y, wrong, n_classes)
    even = (1 - np.eye(n_classes)) / (n_classes - 1)
    for _ in range(ROUNDS):
        said = softmax(logits + bias)
        q = said * found
        q /= q.sum(axis=1, keepdims=True)
        total = q.sum(axis=0)
        told = (q.T @ (1 - wrong)) / np.maximum(total, 1e-12)
        counts = q.T @ own  # (true class, label)
        rate = (np.diagonal(counts) + VOICES * told) / (total + VOICES)
        mistakes = counts * (1 - np.eye(n_classes)) + VOICES * (1 - told)[:, None] * even
        mistakes /= np.maximum(mistakes.sum(axis=1, keepdims=True), 1e-12)
        moved = 1 / (1 + np.exp(-(level[:, None] + _log_odds(rate) - _log_odds(told))))
        right = np.clip(moved, LEAST, MOST)
        found = np.where(own, right, (1 - right) * mistakes[:, y].T)
        curve = np.diag(said.sum(axis=0) + ridge) - said.T @ said
        bias = bias + np.linalg.solve(curve, total - said.sum(axis=0) - ridge * bias)
    return found, bias


def _log_odds(share: np.ndarray) -> np.ndarray:
    inside = np.clip(share, LEAST, MOST)
    return np.asarray(np.log(inside / (1 - inside)))
