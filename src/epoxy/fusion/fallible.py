"""What labels that may be wrong say: which classes their labellers take for which.

A labeller who is right 80 % of the time is seldom so of every class, and mistakes that lean one way
move a decision where even ones would only blur it. With p what a model that learned from trusted labels
alone says of the rows (without trusted labels, the model without labels), expectation maximisation
counts how often class k is called right, and what it is called instead,

    q_i(k) ∝ Pr(label_i | k) · p_i(k)
    rate(k) = (Σ_i q_i(k) [label_i = k] + 60 · told(k)) / (Σ_i q_i(k) + 60)

and mistakes likewise. What is known of the labellers as a whole weighs as much as sixty answers about
each class. Labellers known to differ keep their difference, as log-odds.
"""

from __future__ import annotations

import numpy as np

VOICES, ROUNDS = 60.0, 10
LEAST, MOST = 0.02, 0.99


def evenly(y: np.ndarray, wrong: np.ndarray, n_classes: int) -> np.ndarray:
    """Pr(label_i | k) where mistakes are spread evenly over classes; (m, n_classes)."""
    own = np.arange(n_classes) == y[:, None]
    return np.where(own, 1 - wrong[:, None], wrong[:, None] / (n_classes - 1))


def confused(proba: np.ndarray, y: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Pr(label_i | k) with a rate for each class; (m, n_classes).

    Parameters
    ----------
    proba
        What models that did not learn from these labels say of their rows, (m, n_classes).
    y
        The labels.
    wrong
        How often labels of such a labeller are wrong, all classes together.
    """
    n_classes = proba.shape[1]
    own = np.arange(n_classes) == y[:, None]
    level = _log_odds(1 - wrong)
    found = evenly(y, wrong, n_classes)
    even = (1 - np.eye(n_classes)) / (n_classes - 1)
    for _ in range(ROUNDS):
        q = proba * found
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
    return found


def _log_odds(share: np.ndarray) -> np.ndarray:
    inside = np.clip(share, LEAST, MOST)
    return np.asarray(np.log(inside / (1 - inside)))
