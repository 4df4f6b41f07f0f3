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
    same = np.einsum("iaja->ij", found.spread())
    total = np.diagonal(same)
    kept: list[int] = []
    for at in sorted(range(len(names)), key=lambda each: (-total[each], names[each])):
        own, rivals = total[at], same[at, kept]
        share, most = (COPY, 0) if own >= CHANCE else (1.0, 1)
        if not own or (rivals >= share * (own + total[kept] - rivals)).sum() <= most:
            kept.append(at)
    return np.sort(np.array(kept, dtype=np.intp))
