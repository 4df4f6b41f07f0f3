"""Labels that belong together: sequences, task graphs, and sources that err together."""

from __future__ import annotations

from .balance import joint_balance, pair_balance, pairs_from_transitions
from .chain import Chain
from .dependencies import Dependencies, learn_dependencies
from .graph import TaskGraph
from .layout import sequence_ids
from .tasks import Tasks

__all__ = [
    "Chain",
    "Dependencies",
    "TaskGraph",
    "Tasks",
    "joint_balance",
    "learn_dependencies",
    "pair_balance",
    "pairs_from_transitions",
    "sequence_ids",
]
