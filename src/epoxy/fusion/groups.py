"""Groups of labelled rows that are left out together, so that rows held out are as hard as those to come.

Held-out rows say how far the model may be trusted. If labelled rows lie nearer to each other than
unlabelled rows lie to them (dev taken from one corner of the data, or twins on both sides), what
remembers labelled rows looks better than it is. So labelled rows are grouped, just enough that a row
held out with its group is as far from the rest as a typical train row is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiling import compiled
from .features import MADE, SAMPLE, Features, in_blocks, spaced

FEWEST = 10
SLACK = 0.02
DIGITS = 10  # likenesses are rounded so that twins are equal however the product is blocked


@dataclass(frozen=True, eq=False)
class Likest:
    """For each of some rows, how like it the likest labelled row is, and which one that is."""

    likeness: np.ndarray  # (n_rows,) float32, −inf for none
    number: np.ndarray  # (n_rows,) of a labelled row, −1 for none

    @classmethod
    def none(cls, n_rows: int) -> Likest:
        """Nothing is labelled."""
        return cls(np.full(n_rows, -np.inf, np.float32), np.full(n_rows, -1, np.intp))

    def changed(
        self, rows: np.ndarray, units: np.ndarray, moved: np.ndarray, *, themselves: bool
    ) -> Likest:
        """The same for other labelled rows, `units`; `moved` says where each former one is now.

        Only rows that lose their likest look at all of them, others at new ones. Where `rows` are the
        labelled rows `themselves`, none is its own likest.
        """
        found = Likest.none(len(rows))
        place = moved if themselves else np.arange(len(rows))
        stays = place >= 0
        found.number[place[stays]] = np.append(moved, -1)[self.number[stays]]
        found.likeness[place[stays]] = self.likeness[stays]
        lost = found.number < 0
        found.likeness[lost] = -np.inf
        new = np.setdiff1d(np.arange(len(units)), moved)
        found._ask(rows, units, np.flatnonzero(~lost), new, themselves)
        found._ask(rows, units, np.flatnonzero(lost), np.arange(len(units)), themselves)
        return found

    def _ask(
        self,
        rows: np.ndarray,
        units: np.ndarray,
        some: np.ndarray,
        asked: np.ndarray,
        themselves: bool,
    ) -> None:
        """Some rows look whether any of the labelled rows asked is liker than what they know."""
        others = units[asked]

        def look(part: slice) -> None:
            mine = some[part]
            like = rows[mine] @ others.T
            if themselves:
                like[mine[:, None] == asked] = -np.inf
            best = like.argmax(axis=1)
            value = like[np.arange(len(mine)), best]
            liker = value > self.likeness[mine]
            self.likeness[mine[liker]] = value[liker]
            self.number[mine[liker]] = asked[best[liker]]

        if len(asked):
            in_blocks(len(some), look, MADE)


@dataclass(frozen=True, eq=False)
class Spacing:
    """How near labelled rows lie to each other, and to train rows."""

    sample: np.ndarray  # (n_sample, n_features) float32, units
    to_train: Likest  # of the sample
    to_each_other: Likest

    @classmethod
    def over(cls, features: Features) -> Spacing:
        """Before any label, with some train rows, evenly apart."""
        return cls.of_sample(features.matrix[spaced(len(features.matrix), SAMPLE)])

    @classmethod
    def of_sample(cls, some: np.ndarray) -> Spacing:
        """The same, from the features of those rows."""
        units = some / Features(some).lengths[:, None].astype(np.float32)
        return cls(units, Likest.none(len(some)), Likest.none(0))

    def changed(self, units: np.ndarray, moved: np.ndarray) -> Spacing:
        """The same for other labelled rows; `moved` says where each former one is now."""
        small = units.astype(np.float32)
        return Spacing(
            self.sample,
            self.to_train.changed(self.sample, small, moved, themselves=False),
            self.to_each_other.changed(small, small, moved, themselves=True),
        )

    def groups(self, units: np.ndarray, twins: np.ndarray) -> np.ndarray:
        """A group number per labelled row.

        `twins` numbers the distinct vectors: rows with equal vectors have equal numbers. Where labelled
        rows are no more alike than a typical train row is to them, each is its own group: twins among
        them then have as many twins among the rows to come. Else twins stay together, and distinct
        vectors are grouped, so that the order of the rows counts only among equals.
        """
        if len(units) < FEWEST:
            return np.arange(len(units))
        enough = float(np.median(self.to_train.likeness)) + SLACK
        if float(np.median(self.to_each_other.likeness)) <= enough:
            return np.arange(len(units))
        return _grouped(units, twins, enough)


def _grouped(units: np.ndarray, twins: np.ndarray, enough: float) -> np.ndarray:
    _, first, number, times = np.unique(
        twins, return_index=True, return_inverse=True, return_counts=True
    )
    by_place = np.argsort(first)  # distinct vectors in the order in which they first occur
    first, times, number = first[by_place], times[by_place], np.argsort(by_place)[number]
    chosen = spaced(len(first), SAMPLE)
    some = units[first[chosen]]
    groups = _cut(_cosines(some, some), times[chosen], enough)
    if len(some) < len(first):
        likest = np.empty(len(first), dtype=np.intp)

        def look(part: slice) -> None:
            likest[part] = _cosines(units[first[part]], some).argmax(axis=1)

        in_blocks(len(first), look, MADE)
        groups = groups[likest]
    return np.asarray(groups[number])


def _cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    found = left @ right.T
    return np.asarray(np.round(found, DIGITS, out=found))


def _hardness(near: np.ndarray, groups: np.ndarray, times: np.ndarray) -> float:
    """How similar the most similar row of another group is, for the median row."""
    likest = np.empty(len(near))
    _likest_of_others(near, groups, likest)
    return float(np.median(np.repeat(likest, times)))


@compiled
def _likest_of_others(near: Any, groups: Any, likest: Any) -> None:
    for row in range(near.shape[0]):
        best, own = -np.inf, groups[row]
        for other in range(near.shape[1]):
            like = near[row, other] if groups[other] != own else -np.inf
            best = max(best, like)
        likest[row] = best


def _cut(near: np.ndarray, times: np.ndarray, enough: float) -> np.ndarray:
    """Average linkage, cut into the largest number of groups that is hard enough."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if len(near) < 2:
        return np.zeros(len(near), dtype=np.intp)
    apart = squareform(np.clip(1 - near, 0.0, 2.0), checks=False)
    tree = linkage(apart, "average")
    low, high = min(FEWEST, len(near)), len(near)
    while low < high:
        count = (low + high + 1) // 2
        if _hardness(near, fcluster(tree, count, "maxclust"), times) <= enough:
            low = count
        else:
            high = count - 1
    return np.asarray(fcluster(tree, low, "maxclust"))
