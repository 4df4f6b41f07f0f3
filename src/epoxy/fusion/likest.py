"""The likest labelled rows of each row, by the cosine of features, and what their labels say.

    share(x) = (Σ_i w_i [y_i = k] + 2 π) / (Σ_i w_i + 2)        w = s² / (1.02 − s)

so an equal row says almost all, and far ones little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiling import compiled
from ..mapped import blocks
from ..neighbors.workers import spread
from .around import against
from .constants import LIKEST, TWIN, VOICES

MOST = 1000
"""Labelled rows asked at most: of more, those whose places a fixed shuffle puts first."""
TIES = 1e-5
"""Candidates whose likenesses are nearer than this are one: products in float32 differ with their blocks."""


def weights(likeness: np.ndarray) -> np.ndarray:
    """How much a labelled row so like counts."""
    like = np.clip(likeness, 0.0, 1.0)
    return np.asarray(like**2 / (1 + TWIN - like))


def units_of(features: np.ndarray) -> np.ndarray:
    """Rows at length one; zeros stay."""
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(length, np.float32(1e-9)), np.float32)


@dataclass(frozen=True, eq=False)
class Likest:
    """For each row the numbers of its likest labelled rows, the likest first; −1 for none."""

    number: np.ndarray  # (n_rows, LIKEST) int32
    likeness: np.ndarray  # (n_rows, LIKEST) float32, 0 for none

    @classmethod
    def of(
        cls,
        features: Any,
        units: np.ndarray,
        asked: np.ndarray,
        groups: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Likest:
        """Of rows with these features, among the labelled rows `asked` of those with these `units`.

        Equally like rows: the first. `groups` of the rows and of the labelled rows: nobody of a row's own
        group is asked.
        """
        n_rows, kept = len(features), min(2 * LIKEST, len(asked))
        number = np.full((n_rows, LIKEST), -1, np.int32)
        likeness = np.zeros((n_rows, LIKEST), np.float32)
        others = np.ascontiguousarray(units[asked])

        def look(part: slice) -> None:
            mine = units_of(np.asarray(features[part]))
            like = np.round((mine @ others.T) / TIES).astype(np.float32)
            if groups is not None:
                like[groups[0][part, None] == groups[1][asked]] = -1.0
            best = np.zeros((len(mine), kept), np.float32)
            place = np.full((len(mine), kept), -1, np.int32)
            _largest(like, kept, place, best)
            _compare(mine, others, place, best)
            place = np.where(place >= 0, asked[np.maximum(place, 0)], -1)
            number[part], likeness[part] = _first(place, best)

        spread(look, blocks(n_rows, 1024))
        return cls(number, likeness)

    def take(self, rows: np.ndarray | slice) -> Likest:
        """Those of some rows."""
        return Likest(self.number[rows], self.likeness[rows])

    def joined_by(self, more: Likest, renamed: np.ndarray) -> Likest:
        """These under new numbers, and what was found among further labelled rows."""
        number = np.hstack([np.append(renamed, -1)[self.number], more.number]).astype(np.int32)
        likeness = np.hstack([self.likeness, more.likeness])
        return Likest(*_first(number, likeness))

    def evidence(self, y: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """What their labels say, of mean zero over classes; (n_rows, n_classes)."""
        heavy = np.where(self.number >= 0, weights(self.likeness), 0.0)
        label = y[np.maximum(self.number, 0)]
        shares = np.tile(VOICES * prior, (len(heavy), 1))
        for kind in range(len(prior)):
            shares[:, kind] += np.where(label == kind, heavy, 0.0).sum(axis=1)
        shares /= heavy.sum(axis=1, keepdims=True) + VOICES
        return against(shares, prior)


def asked_of(places: Sequence[tuple[int, int]]) -> np.ndarray:
    """Which labelled rows are asked, ascending; all up to `MOST`."""
    if len(places) <= MOST:
        return np.arange(len(places))
    shuffled = [((row * 2654435761 + split * 97) % 2**32, split, row) for split, row in places]
    return np.sort(np.array(sorted(range(len(places)), key=shuffled.__getitem__)[:MOST]))


def _first(number: np.ndarray, likeness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The likest of each row, of equals the first; as many as are asked."""
    last, missing = np.iinfo(np.int32).max, max(0, LIKEST - number.shape[1])
    number = np.pad(number, ((0, 0), (0, missing)), constant_values=-1)
    likeness = np.pad(likeness, ((0, 0), (0, missing)))
    order = np.lexsort((np.where(number < 0, last, number), -likeness), axis=1)[:, :LIKEST]
    found = (np.take_along_axis(each, order, axis=1) for each in (number, likeness))
    return next(found), next(found)


@compiled
def _compare(mine: Any, others: Any, place: Any, best: Any) -> None:
    """Likenesses of candidates, each summed the same way whoever else is asked."""
    for row in range(place.shape[0]):
        for at in range(place.shape[1]):
            total, other = np.float32(0), place[row, at]
            if other >= 0:
                for each in range(others.shape[1]):
                    total += mine[row, each] * others[other, each]
            best[row, at] = max(total, np.float32(0))


@compiled
def _largest(like: Any, kept: int, place: Any, best: Any) -> None:
    """The largest of each row that are above zero, of equals the first."""
    for row in range(like.shape[0]):
        for at in range(like.shape[1]):
            value = like[row, at]
            if value <= best[row, kept - 1]:
                continue
            put = kept - 1
            while put > 0 and best[row, put - 1] < value:
                best[row, put] = best[row, put - 1]
                place[row, put] = place[row, put - 1]
                put -= 1
            best[row, put] = value
            place[row, put] = at
