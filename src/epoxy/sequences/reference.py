"""The reference implementation's arithmetic for a chain, re-derived.

Every (element, source) is a column of its own and every two columns serve in triplets, as if all
shared one label; each column's table Pr(λ, Y^t) then follows as for one task. The joint is

    Π columns Pr(λ, y_t) · Π edges Pr(y_s, y_t) / Π_t Pr(y_t)^(c_t − 2)

where c_t is the number of cliques that hold Y^t. The paper divides by Pr(y_t)^(c_t − 1): every
element's prior is counted once too often. Along a chain this is a product of conditionals times one
extra Pr(y_t) per element, which is how it is stored.
"""

from __future__ import annotations

import numpy as np

from ..errors import NotIdentifiable
from ..label_models import flyingsquid
from ..label_models.moments import moments
from ..votes import Votes


def reference_tables(
    windows: np.ndarray, classes: tuple[str, ...], singles: np.ndarray, solve: str
) -> tuple[np.ndarray, np.ndarray]:
    """log Pr(vote | class) per element and source, (T, m, 3, 2), and Pr(λ = Y), (T, m).

    `windows` is (n_windows, T, m): the votes of whole windows only; `singles` are Pr(Y^t), (T, 2).
    """
    n_windows, length, n_sources = windows.shape
    if not n_windows:
        raise NotIdentifiable(
            f"there is no whole sequence of {length} rows to learn from; give a shorter length"
        )
    summary = moments(Votes(windows.reshape(n_windows, -1), classes=classes))
    tables, right = np.empty((length, n_sources, 3, 2)), np.empty((length, n_sources))
    distinct, which = np.unique(singles, axis=0, return_inverse=True)
    for index, balance in enumerate(distinct):
        found, accuracy = flyingsquid.fit(summary, balance, solve)
        steps = which.ravel() == index
        tables[steps] = found.reshape(tables.shape)[steps]
        right[steps] = accuracy.reshape(right.shape)[steps]
    return tables, right
