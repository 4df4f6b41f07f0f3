"""A class balance that votes tell is kept: rows together are called what it says.

Evidence of sources that err more often one way leans that way on every row, and π0 as the start of the
posterior does not undo it. So a *lean* β is added to the logits ℓ of rows of which anything is known,
such that over train rows the mean posterior is π0,

    mean_i softmax(scale_i · (ℓ_i + β)) = π0

as far as π0 is told by the votes themselves (`Balance.trust`); where it is a guess, nothing is added.
Some rows, evenly apart, stand for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..numerics import softmax
from .features import spaced
from .fitted import Fitted, Rows

SOME = 3000
_ROUNDS, _FARTHEST, _ENOUGH = 100, 1.0, 1e-12


def some_of(n_train: int) -> np.ndarray:
    """The train rows that stand for all."""
    return spaced(n_train, SOME)


def keeps_balance(base: Fitted, train: Rows) -> Fitted:
    """The model without labels with a lean, where votes tell the class balance."""
    if not base.balance.trust:
        return base
    return matched(base, *known_logits(base, train.take(some_of(len(train)))))


def known_logits(base: Fitted, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Logits at scale 1 of those rows of which anything is known, and their scales."""
    said = base.answer(rows)[0]
    scale, known = base.scale(rows, said), base.known(rows, said)
    return (base.summed(rows, said) / scale[:, None])[known], scale[known]


def matched(base: Fitted, logits: np.ndarray, scale: np.ndarray) -> Fitted:
    """The model without labels with its lean, from `known_logits` of some rows."""
    lean = _lean(logits, scale, base.prior)
    return replace(base, lean=base.balance.trust * lean)


def _lean(logits: np.ndarray, scale: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """By Newton steps; the equation is the gradient of a convex function of β."""
    found, every = np.zeros(len(shares)), np.full((len(shares),) * 2, 1 / len(shares))
    if not len(logits):
        return found
    for _ in range(_ROUNDS):
        proba = softmax(scale[:, None] * (logits + found))
        excess = proba.mean(axis=0) - shares
        if np.abs(excess).max() < _ENOUGH:
            break
        bent = scale[:, None] * proba
        curvature = (np.diag(bent.sum(axis=0)) - bent.T @ proba) / len(proba)
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(shares)) + every, -excess)
        found += step * min(1.0, _FARTHEST / max(float(np.abs(step).max()), 1e-300))
    return np.asarray(found - found.mean())
