"""Sources that repeat others: a copy has nothing to say of its own."""

from __future__ import annotations

import numpy as np

from ..label_models.moments import Moments

COPY, CHANCE = 0.75, 10


def distinct(found: Moments) -> np.ndarray:
    """Sources that are no copy of one with more votes: (row, vote) pairs overlap by 75 % or more.

    Few votes overlap by chance: below ten only the third of equals goes.
    """
    names = found.sources
    same = np.zeros((len(names), len(names)))
    for named in range(len(found.classes)):
        rows = np.flatnonzero(found.named == named)
        who = found.source[rows]
        same[np.ix_(who, who)] += found.joint[np.ix_(rows, rows)]
    total = np.diagonal(same)
    kept = np.empty(len(names), dtype=np.intp)
    count = 0
    for at in sorted(range(len(names)), key=lambda each: (-total[each], names[each])):
        others = kept[:count]
        own, rivals = total[at], same[at, others]
        share, most = (COPY, 0) if own >= CHANCE else (1.0, 1)
        if not own or (rivals >= share * (own + total[others] - rivals)).sum() <= most:
            kept[count] = at
            count += 1
    return np.sort(kept[:count])
