"""Where shards are worked on: here one after the other, or wherever another `Runner` sends them.

A stage of work is a module-level function `do(shard, *constants)` that gives a small summary: a
dictionary of arrays. What it makes of single rows it writes to files of its shard, for later stages to
read. A runner is nothing but a `map` with the summaries in the order of the shards, so sums are merged
in that order whoever made them, and an answer depends on the runner in no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from .shard import Shard

Summary = dict[str, np.ndarray]
"""What a stage says of one shard: named arrays, small enough to travel."""
Do = Callable[..., Summary]
"""A module-level function of a shard and of constants, which are the same for all shards."""


MEMORY = "4GB"


class Runner(Protocol):
    """Does the same to every shard."""

    def each(self, do: Do, shards: Sequence[Shard], *constants: Any) -> Iterator[Summary]:
        """The summaries in the order of the shards, each as soon as it and those before it are there.

        Shards and constants may be pickled to travel; files of a shard lie where every worker sees them.
        """

    def memory(self, asked: str | int | None) -> str | int:
        """What one of its processes may take, where so much was asked for."""

    def rows_per_shard(self, n_rows: int) -> int | None:
        """Rows of a shard at most, so that work can be shared out; None where memory alone decides."""


class Serial:
    """Everything in this process, one shard in memory at a time."""

    def each(self, do: Do, shards: Sequence[Shard], *constants: Any) -> Iterator[Summary]:
        """One after the other."""
        for shard in shards:
            yield do(shard, *constants)

    def memory(self, asked: str | int | None) -> str | int:
        """As asked."""
        return MEMORY if asked is None else asked

    def rows_per_shard(self, n_rows: int) -> None:
        """One after the other, there is nothing to share out."""
