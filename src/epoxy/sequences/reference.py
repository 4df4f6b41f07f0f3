"""The reference implementation's arithmetic for several tasks, re-derived.

Every (element, source) is a column of its own and every two columns serve in triplets, as if all
shared one label; each column's table Pr(λ, Y^t) then follows as for one task. The joint is

    Π columns Pr(λ, y_t) · Π edges Pr(y_s, y_t) / Π_t Pr(y_t)^(c_t − 2)

where c_t is the number of cliques that hold Y^t. The paper divides by Pr(y_t)^(c_t − 1): every
element's prior is counted once too often. With a tree over the labels this is a chain-rule product
of conditionals times one extra Pr(y_t) per element, which is how it is stored here.
"""

from __future__ import annotations

import numpy as np

from ..errors import NotIdentifiable
from ..label_models import flyingsquid
from ..label_models.moments import moments
from ..votes import Votes


def reference_tables(
    items: np.ndarray,
    votes: Votes,
    singles: np.ndarray,
    solve: str,
    attached: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """log Pr(vote | class) per element and source, (T, m, 3, 2), and Pr(λ = Y), (T, m).

    `items` is (n_items, T, m): the votes of whole items only. Columns of sources that are not
    `attached` to an element, (T, m), take no part and say nothing.
    """
    n_items, n_tasks, n_sources = items.shape
    if not n_items:
        raise NotIdentifiable(
            f"there is no whole sequence of {n_tasks} rows to learn from; give a shorter length"
        )
    columns = Votes(items[:, attached], classes=votes.classes)
    task_of_column = np.nonzero(attached)[0]
    summary = moments(columns)
    n_classes = len(votes.classes)
    tables = np.zeros((n_tasks, n_sources, 1 + n_classes, n_classes))
    right = np.full((n_tasks, n_sources), 1 / n_classes)
    distinct, which = np.unique(singles, axis=0, return_inverse=True)
    for index, balance in enumerate(distinct):
        log_table, accuracy = flyingsquid.fit(summary, balance, solve)
        tasks = np.flatnonzero(which.ravel() == index)
        of_balance = np.isin(task_of_column, tasks)
        chosen = attached & np.isin(np.arange(n_tasks), tasks)[:, None]
        tables[chosen], right[chosen] = log_table[of_balance], accuracy[of_balance]
    return tables, right
