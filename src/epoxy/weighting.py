"""Who may speak for a row: weighting rules, behind one protocol.

Algorithm 1 leaves the rule W open. Here a rule looks at the supporting rows within the radius and
picks the one that lends its vote (or none), so that whatever the rule, an extended vote can name the
row it came from. Ties are broken the same way everywhere: the nearer row wins, then the row that
comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from .errors import ParameterError, UnknownName

__all__ = [
    "DistanceWeighted",
    "KNearest",
    "Nearest",
    "Pairs",
    "RandomNeighbor",
    "Weighting",
    "resolve_weighting",
]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows that ask, and the supporting rows within their radius; sorted by (asks, distance, lends)."""

    asks: np.ndarray  # (n_pairs,) the row that asks
    lends: np.ndarray  # (n_pairs,) the supporting train row
    distance: np.ndarray  # (n_pairs,)
    vote: np.ndarray  # (n_pairs,) what the supporting row says
    start: np.ndarray  # (n_asking,) first pair of each asking row
    n_classes: int

    @classmethod
    def sort(
        cls,
        asks: np.ndarray,
        lends: np.ndarray,
        distance: np.ndarray,
        vote: np.ndarray,
        n_classes: int,
    ) -> Pairs:
        """Bring pairs into order."""
        order = np.lexsort((lends, distance, asks))
        asks = asks[order]
        start = np.flatnonzero(np.r_[True, asks[1:] != asks[:-1]]) if len(asks) else order
        return cls(asks, lends[order], distance[order], vote[order], start, n_classes)

    @property
    def group(self) -> np.ndarray:
        """Which asking row, counted from 0, each pair belongs to; (n_pairs,)."""
        mark = np.zeros(len(self.asks), dtype=np.int64)
        mark[self.start[1:]] = 1
        return np.cumsum(mark)

    @property
    def rank(self) -> np.ndarray:
        """Place of each pair among its row's, the nearest 0; (n_pairs,)."""
        return np.asarray(np.arange(len(self.asks)) - self.start[self.group])

    def heaviest(self, weight: np.ndarray, margin: float = 0.0) -> np.ndarray:
        """For each asking row, the first pair of the class with most weight; −1 below the margin.

        Classes of equal weight: the one whose first pair comes first.
        """
        group = self.group
        cell = group * self.n_classes + self.vote
        total = np.bincount(cell, weight, minlength=len(self.start) * self.n_classes)
        total = total.reshape(len(self.start), self.n_classes)
        ordered = np.sort(total, axis=1)
        best = ordered[:, -1]
        # sums of the same weights in another order differ in the last digits
        ties = total >= best[:, None] * (1 - 1e-12)
        eligible = np.flatnonzero(ties.ravel()[cell] & (weight > 0))
        first = np.full(len(self.start), -1, dtype=np.int64)
        first[group[eligible][::-1]] = eligible[::-1]
        lead = (best - ordered[:, -2]) / np.maximum(total.sum(axis=1), np.finfo(float).tiny)
        return np.where((margin > 0) & (lead <= margin), -1, first)


class Weighting(Protocol):
    """A rule that picks, for each asking row, the pair that lends its vote."""

    name: ClassVar[str]

    def choose(self, pairs: Pairs) -> np.ndarray:
        """Return the index of one pair per asking row, −1 to abstain; (n_asking,)."""


@dataclass(frozen=True)
class Nearest:
    """The nearest supporting row (the paper's choice, and the default)."""

    name: ClassVar[str] = "nearest"

    def choose(self, pairs: Pairs) -> np.ndarray:
        """Return each row's first pair."""
        return pairs.start


@dataclass(frozen=True)
class KNearest:
    """The majority of the k nearest supporting rows within the radius."""

    k: int = 5
    name: ClassVar[str] = "k-nearest"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ParameterError(f"KNearest got k={self.k}; expected at least 1")

    def choose(self, pairs: Pairs) -> np.ndarray:
        """Count one vote for each of the k nearest."""
        return pairs.heaviest((pairs.rank < self.k).astype(float))


@dataclass(frozen=True)
class DistanceWeighted:
    """The sign of Σ wₖ·λ(Xₖ) over all supporting rows within the radius, wₖ = distance^(−power).

    A supporting row at distance 0 outweighs all that are farther. `margin` is the threshold: the
    winning class must lead by more than this share of the whole weight, or the row still abstains.
    """

    power: float = 1.0
    margin: float = 0.0
    name: ClassVar[str] = "distance-weighted"

    def __post_init__(self) -> None:
        if not self.power >= 0 or not 0 <= self.margin < 1:
            raise ParameterError(
                f"DistanceWeighted got power={self.power}, margin={self.margin}; "
                "expected power ≥ 0 and 0 ≤ margin < 1"
            )

    def choose(self, pairs: Pairs) -> np.ndarray:
        """Sum the weights of each class."""
        nearest = pairs.distance[pairs.start][pairs.group]
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = (nearest / pairs.distance) ** self.power  # scaled so that sums stay finite
        on_the_spot = pairs.distance == 0
        weight = np.where(nearest == 0, on_the_spot.astype(float), relative)
        return pairs.heaviest(weight, self.margin)


@dataclass(frozen=True)
class RandomNeighbor:
    """One supporting row within the radius, drawn in proportion to the density of the data.

    The rule Proposition 1 assumes. Rows are themselves drawn from the density, so every supporting
    row in the ball is equally likely. The draw depends only on the seed and the two rows, not on the
    order of work, and a larger radius keeps earlier draws where it can.
    """

    seed: int = 0
    name: ClassVar[str] = "random-neighbor"

    def choose(self, pairs: Pairs) -> np.ndarray:
        """Give every pair a random key and take the smallest of each row."""
        key = _mix(_mix(pairs.asks.astype(np.uint64), self.seed) ^ pairs.lends.astype(np.uint64), 1)
        order = np.lexsort((key, pairs.asks))
        return np.asarray(order[pairs.start])


def _mix(value: np.ndarray, seed: int) -> np.ndarray:
    """A counter-based random number per value: SplitMix64's finaliser."""
    with np.errstate(over="ignore"):
        z = value + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) & 0xFFFFFFFFFFFFFFFF)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


_RULES: dict[str, type[Weighting]] = {
    rule.name: rule for rule in (Nearest, KNearest, DistanceWeighted, RandomNeighbor)
}


def resolve_weighting(rule: str | Weighting | None) -> Weighting:
    """A rule from its name, None for the default, or the rule itself."""
    if rule is None:
        return Nearest()
    if isinstance(rule, str):
        if rule not in _RULES:
            raise UnknownName.of("weighting rule", rule, _RULES)
        return _RULES[rule]()
    return rule
