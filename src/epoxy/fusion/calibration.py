"""How loud the whole answer is: one scale of the logits for rows with votes, one for rows without.

Where sources vote they repeat each other, and the sum of what is said is too sure; a row that nobody
votes on is known from its vector alone, and a regression taught mostly by rows without votes says less
than it knows. A scale changes how sure the model is of a row, not which class it finds most probable.

Hand labels set both: held-out probabilities, logits ℓ at scale 1, are to foretell labels q,

    min over a   Σ_i cross entropy(q_i, softmax(a ℓ_i)) + ½ · n0 I · (a − a0)²

with I the mean curvature of one row, so the scale without labels a0 weighs as much as n0 of them. Where
vectors speak, the scales that sets of rows need are much alike, and a0 is known as well as a hundred
labels could tell: n0 is 120. Without vectors they differ, with the number of classes above all, and n0
is 40.
"""

from __future__ import annotations

import numpy as np

from ..numerics import softmax

SCALES = np.array([1.0, 1.35, 0.9])
"""Of rows about which nothing is known, of rows known by their vector alone, and of rows with votes."""
WITHOUT_VECTORS = np.array([1.0, 1.0, 0.73])
"""The same where `agreement` speaks: it hears the votes that others hear, and adds no loudness."""
VOICES, VOICES_WITHOUT_VECTORS = 120.0, 40.0
"""How many labels the scales without labels weigh."""
LOWEST, HIGHEST = 0.25, 4.0


def kinds_of(votes: np.ndarray, pupil: np.ndarray | None) -> np.ndarray:
    """Which scale is a row's: `votes` (n_sources, n_rows), and what their vectors say; (n_rows,)."""
    found = np.zeros(votes.shape[1], dtype=np.intp)
    if pupil is not None:
        found[pupil.any(axis=1)] = 1
    found[(votes >= 0).any(axis=0)] = 2
    return found


def fit_scales(
    start: np.ndarray, logits: np.ndarray, targets: np.ndarray, kinds: np.ndarray, voices: float
) -> np.ndarray:
    """The scales that held-out logits (m, K) of labelled rows need, drawn to those without labels.

    `voices` is how many labels those without labels weigh.
    """
    found = start.copy()
    for kind in (1, 2):
        rows = kinds == kind
        if rows.any():
            found[kind] = _scale(float(start[kind]), logits[rows], targets[rows], voices)
    return found


def _scale(start: float, logits: np.ndarray, targets: np.ndarray, voices: float) -> float:
    """Where the slope of the loss, which rises, is zero; at an end where it is not."""
    from scipy.optimize import brentq

    ridge = voices * float(_spread(softmax(logits), logits).mean())
    if ridge < 1e-12:
        return start  # these rows say nothing at any scale

    def slope(scale: float) -> float:
        excess = softmax(scale * logits) - targets
        return float((excess * logits).sum()) + ridge * (scale - start)

    if slope(LOWEST) >= 0:
        return LOWEST
    return HIGHEST if slope(HIGHEST) <= 0 else float(brentq(slope, LOWEST, HIGHEST, xtol=1e-12))


def _spread(proba: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Variance of a row's logits under its own probabilities; (m,)."""
    mean = (proba * logits).sum(axis=1)
    return np.asarray((proba * logits * logits).sum(axis=1) - mean * mean)
