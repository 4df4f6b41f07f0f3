"""What a session holds at one moment, as values: sources, versions, and the change between two."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Change", "Source", "Version"]


@dataclass(frozen=True, eq=False)
class Source:
    """One source over all rows, and everything that depends on it alone."""

    name: str
    own: tuple[np.ndarray, ...]  # its votes on each split, train first
    reach: tuple[Any, ...]  # who is nearest, for each split
    extended: tuple[np.ndarray, ...]  # its votes after extension, for each split
    radius: float  # NaN: not extended
    is_on: bool = True
    said: tuple[np.ndarray, ...] = ()  # the nearest row's vote, for each split; empty before asked


@dataclass(frozen=True, eq=False)
class Version:
    """A session's state after some edit; every later version leaves it as it is."""

    number: int
    sources: tuple[Source, ...]
    truth: tuple[np.ndarray, ...]  # true labels of each split, −1 unknown
    splits: tuple[Any, ...]  # the splits, for vectors and ids
    index: Any  # answers who is nearest
    label_model: Any = None  # fitted, or None where the votes cannot be combined yet
    probabilities: tuple[np.ndarray, ...] = ()
    labels: tuple[np.ndarray, ...] = ()  # most probable class of each row, by index
    scores: dict[str, float] = field(default_factory=dict)
    problem: str = ""  # why there is no label model

    @property
    def active(self) -> tuple[Source, ...]:
        """The sources that are switched on."""
        return tuple(source for source in self.sources if source.is_on)

    def decided(self, sources: tuple[Source, ...] | None = None) -> Version:
        """What a person decided (about other sources if given), without what follows from it.

        It is all that undo needs, and a tenth as large.
        """
        used = self.sources if sources is None else sources
        return Version(self.number, used, self.truth, self.splits, self.index)

    def combined(
        self,
        number: int,
        label_model: Any,
        probabilities: tuple[np.ndarray, ...],
        labels: tuple[np.ndarray, ...],
        scores: dict[str, float],
        problem: str = "",
    ) -> Version:
        """The same sources with what the label model makes of them."""
        return Version(
            number,
            self.sources,
            self.truth,
            self.splits,
            self.index,
            label_model,
            probabilities,
            labels,
            scores,
            problem,
        )

    def source(self, name: str) -> Source | None:
        """A source by name, None if there is none."""
        return next((source for source in self.sources if source.name == name), None)


@dataclass(frozen=True, eq=False)
class Change:
    """The difference one edit made."""

    version: int
    what: str
    source: str | None
    flipped: np.ndarray  # train rows whose label changed
    before: dict[str, float]  # scores
    after: dict[str, float]
    coverage: tuple[float, float] | None  # of the source after extension, before and after
    seconds: float
    searched: float  # share of rows that had to be searched directly
    problem: str = ""

    def __str__(self) -> str:
        parts = [f"{self.what}: {len(self.flipped)} labels changed"]
        if self.coverage is not None:
            parts.append(f"coverage {self.coverage[0]:.1%} → {self.coverage[1]:.1%}")
        for name in ("accuracy", "f1"):
            if name in self.after:
                parts.append(
                    f"dev {name} {self.before.get(name, float('nan')):.3f} → {self.after[name]:.3f}"
                )
        parts.append(f"{1000 * self.seconds:.1f} ms")
        return ", ".join(parts) + (f"; {self.problem}" if self.problem else "")
