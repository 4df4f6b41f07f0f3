"""Order statistics over all shards, exact and without bringing their numbers together.

Each shard keeps its numbers in ascending order. The number of a given rank is found by asking all of
them how many lie up to each of some pivots, and again between the two pivots that enclose it: a few
rounds, each a handful of counts. Numbers are at least 0, so as bits they have the order they have as
numbers, and pivots are bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .run import Run
from .runner import Summary
from .shard import Kept, Shard

PIVOTS = 1 << 12
AT_ONCE = 1 << 20
"""Numbers that are in memory at a time where all are read in order."""
SORTED = "ascending"


def keep_sorted(kept: Kept, shard: Shard, numbers: np.ndarray) -> np.ndarray:
    """Keep numbers of a shard, of at least 0, in ascending order; how many there are."""
    kept.save(shard, **{SORTED: np.sort(numbers + 0.0)})  # −0 has the bits of something large
    return np.array(len(numbers))


def ranked(run: Run, kept: Kept, ranks: Sequence[int], name: str) -> dict[int, float]:
    """The numbers of these ranks, counted from 0, among those of all shards."""
    wanted = np.array(sorted(set(ranks)), dtype=np.int64)
    if not len(wanted):
        return {}
    low = np.zeros(len(wanted), dtype=np.uint64)
    high = np.full(len(wanted), _bits(np.inf), dtype=np.uint64)
    step = 0
    while (low < high).any():
        pivots = low[:, None] + _shares(high - low)
        (up_to,) = run.stage(f"{name}-{step}", count_shard, kept, pivots).total("up_to")
        # the first pivot with more numbers up to it than the rank lies at or behind it
        first = (up_to <= wanted[:, None]).sum(axis=1)
        rows = np.arange(len(wanted))
        before = np.where(first > 0, pivots[rows, np.maximum(first, 1) - 1] + np.uint64(1), low)
        inside = first < pivots.shape[1]
        high = np.where(inside, pivots[rows, np.minimum(first, pivots.shape[1] - 1)], high)
        low = np.minimum(before, high)
        step += 1
    return dict(zip(wanted.tolist(), low.view(np.float64).tolist()))


def _shares(width: np.ndarray) -> np.ndarray:
    """Whole numbers below each width, evenly apart and ascending; all of them where there are few."""
    each = width // np.uint64(PIVOTS) + np.uint64(1)
    steps = np.arange(PIVOTS, dtype=np.uint64)
    last = np.maximum(width, np.uint64(1)) - np.uint64(1)
    return np.asarray(np.minimum(steps * each[:, None], last[:, None]))


def _bits(number: float) -> np.uint64:
    return np.uint64(np.float64(number).view(np.uint64))


def count_shard(shard: Shard, kept: Kept, numbers: Kept, pivots: np.ndarray) -> Summary:
    """How many numbers of a shard are at most each pivot."""
    mine = numbers.mapped(shard, SORTED)
    return {"up_to": np.searchsorted(mine, pivots.view(np.float64), "right").astype(np.int64)}


def in_order(run: Run, kept: Kept, total: int, name: str) -> Iterator[np.ndarray]:
    """All numbers in ascending order, so many at a time; equal ones come together."""
    ends = ranked(run, kept, range(AT_ONCE - 1, total - 1, AT_ONCE), name)
    low = -np.inf
    for high in [*sorted(set(ends.values())), np.inf]:
        parts = []
        for shard in run.shards:
            mine = kept.mapped(shard, SORTED)
            first, last = np.searchsorted(mine, [low, high], "right")
            parts.append(np.array(mine[first:last]))
        yield np.sort(np.concatenate(parts))
        low = high
