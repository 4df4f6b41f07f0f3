"""Past memory: the rows of a project in shards, summarised apart, merged, and labelled as in memory.

Every stage is `summarise(shard)`, a merge, and a `finish`; the driver holds merged sums and the rows
that people labelled, never all rows. Where shards are worked on is a `Runner`'s business.
"""

from __future__ import annotations

from ..session.export import Labelled
from .labelling import label
from .run import Run, Stage
from .runner import Runner, Serial, Summary
from .shard import Kept, Piece, Shard

__all__ = [
    "Kept",
    "Labelled",
    "Piece",
    "Run",
    "Runner",
    "Serial",
    "Shard",
    "Stage",
    "Summary",
    "label",
]
