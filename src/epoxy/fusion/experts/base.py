"""What an expert is: it learns from a lesson and returns a speaker, who gives evidence about rows.

To add an expert, write one file with a frozen dataclass that has a `name` and `fit`, and a frozen
dataclass of arrays that has `evidence` and `reasons`; then hand it to `Fusion(experts=[...])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..geometry import Smoother
from ..rows import Rows

__all__ = ["Expert", "Lesson", "Reason", "Speaker"]


@dataclass(frozen=True, eq=False)
class Lesson:
    """Everything an expert may learn from; dev rows held out of a fold are not in it."""

    train: Rows
    prior: np.ndarray  # (n_classes,) class balance, never zero
    dev: Rows | None = None
    y: np.ndarray | None = None  # (n_dev,) true labels of the dev rows, none unknown
    smoother: Smoother | None = None  # None without vectors
    taught: np.ndarray | None = None  # (n_train, n_classes) what the experts before this one think

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.prior)


@dataclass(frozen=True)
class Reason:
    """One part of an expert's evidence about one row, and who it came from."""

    weights: np.ndarray  # (n_classes,) its part of the evidence
    source: int | None = None
    """Index of the source that votes."""
    vote: int | None = None
    """The class it names."""
    lender: int | None = None
    """The train row that lends the vote."""
    distance: float | None = None
    """How far away the lender is."""
    hand: int | None = None
    """A hand-labelled dev row."""
    row: int | None = None
    """An unlabelled train row."""


class Speaker(Protocol):
    """A fitted expert: a dataclass of arrays."""

    def evidence(self, rows: Rows, read: np.ndarray | None = None, /) -> np.ndarray:
        """Return what it adds to the log-odds of each class; (n_rows, n_classes).

        A speaker that reads features linearly has a `readout` (n_features, n_classes) and takes
        the product `rows.features @ readout` as `read`, where it was computed for many at once.
        """

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """Say where the evidence about one row comes from; what is left out is the rest."""


@runtime_checkable
class Expert(Protocol):
    """Something with an opinion.

    Two class attributes may say more: `is_taught = True` asks for `Lesson.taught`, and `teaches =
    False` keeps an expert that is slow on all train rows from teaching others.
    """

    @property
    def name(self) -> str:
        """What it is called in weights, reports and explanations."""

    def fit(self, lessons: Sequence[Lesson]) -> Sequence[Speaker | None]:
        """Learn each lesson; None where it holds nothing this expert could learn from.

        The lessons differ in their dev rows (one lesson for each fold, the last one with all dev rows), so
        that work on the train rows can be shared between them.
        """
