"""Evidence: what something adds to the log-odds of the classes, on top of the prior.

An expert never returns a posterior. It returns evidence, an (n_rows, n_classes) matrix whose rows
have mean zero, so that the prior enters once, in the pool, however many experts speak.
"""

from __future__ import annotations

import numpy as np

__all__ = ["LOUDEST", "centre", "from_shares", "loudness", "softmax"]

LOUDEST = 4.0
"""No expert may say more than this many nats for or against a class."""

FAINTEST = 0.02
"""Regressions answer with numbers below zero; shares are read as at least this."""


def centre(scores: np.ndarray) -> np.ndarray:
    """Subtract each row's mean: only differences between classes mean anything."""
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))


def loudness(scores: np.ndarray) -> np.ndarray:
    """Centre, and keep one sure expert from silencing all others."""
    return centre(np.clip(centre(scores), -LOUDEST, LOUDEST))


def from_shares(shares: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Evidence of class shares against the shares `base`: the gain in each class's logit.

    Regressions answer below 0 and above 1 too, so shares are first pulled inside.
    """
    return np.asarray(_logit(shares) - _logit(base))


def _logit(shares: np.ndarray) -> np.ndarray:
    inside = np.clip(shares, FAINTEST, 1 - FAINTEST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits, row by row."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
