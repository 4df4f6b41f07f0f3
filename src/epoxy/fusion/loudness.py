"""How loud each feature is in what hand labels teach.

Embeddings need one loudness on every set that was measured: a direction in which many rows vary says much
of what they mean, and labels bend it a little. Few numbers are mostly the columns of a table, of which
labeling functions may know little: there a class may be a function of single columns, which the bent view
whispers and which a louder correction finds from a hundred labels. So vectors of few dimensions are heard
in four ways, and the labels choose: the way that makes them most probable is taken, by the evidence of
`correction`.

Rejected: the likelihood of labels held out, which is too kind to loud corrections; another view of all rows
beside the features, since the columns are the bent axes, unbent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .correction import Problem, evidence
from .features import View

USUAL, COLUMNS = range(2)
"""Which way is which; from `COLUMNS` on they are columns as they are."""
SCALE = 1.1
"""How loud features are in the usual way; the correction has ridge 1."""
LOUD = (2.0, 8.0, 32.0)
"""How many times as long as in the bent view a typical row of columns as they are may be."""
PREFERRED = 2.0
"""Nats by which another way must make the labels more probable than the usual one."""
FAR = 10.0
"""Nats by which a way may be less probable than the best so far, for louder ones to be asked."""
LEAST = 0.03
"""Stretch of an axis below which it is rounding error, of the largest."""


def ways(view: View) -> list[np.ndarray]:
    """In how many ways features may be heard, the usual one first; (n_features,) each.

    Axis j of the bent view is stretched by s_j, the fourth root of its variance, and a row then brought to
    length one. Divided by s_j it is a column again; rows of such columns have a mean squared length of
    about Σ s⁴ / Σ s⁶.
    """
    usual = np.full(len(view.middle), SCALE)
    stretch = np.linalg.norm(view.axes, axis=0)
    if not len(view.phase) or not stretch.any():
        return [usual]
    moves = stretch > LEAST * stretch.max()
    real = stretch[moves]
    columns = np.zeros(len(usual))
    columns[: len(stretch)][moves] = np.sqrt((real**6).sum() / (real**4).sum()) / real
    return [usual, *(loud * columns for loud in LOUD)]


def most_probable(problem: Callable[[int], Problem], n_ways: int) -> int:
    """The way that makes the labels most probable; `problem` is what each gives to solve.

    They are asked from the quietest on: what is far too loud, and takes longest, is seldom asked.
    """
    if n_ways == 1:
        return USUAL
    best, most = USUAL, evidence(problem(USUAL)) + PREFERRED
    for way in range(COLUMNS, n_ways):
        value = evidence(problem(way))
        if value > most:
            best, most = way, value
        elif value < most - FAR:
            break
    return best
