"""Labels that belong together: sequences, task graphs, and sources that err together."""

from __future__ import annotations

from .chain import Chain
from .dependencies import Dependencies, learn_dependencies
from .layout import sequence_ids
from .movement import joint_balance, pair_balance
from .tasks import TaskGraph, Tasks

__all__ = [
    "Chain",
    "Dependencies",
    "TaskGraph",
    "Tasks",
    "joint_balance",
    "learn_dependencies",
    "pair_balance",
    "sequence_ids",
]
