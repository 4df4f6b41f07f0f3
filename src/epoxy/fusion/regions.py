"""Regions of the data: what is thought of the rows around a row, without a line through all of them.

A ridge regression over all rows says of a region what its straight line says there. Here a row hears of
its surroundings instead. *Landmarks* are train rows evenly apart; with s the likeness of a row to the
nine likest, it belongs to the first eight by shares proportional to s_j − s_9. So a row that moves loses
a landmark smoothly, and rounding never decides who is heard. A landmark thinks what the rows that belong
to it are thought to be, in the mean, and a row hears its landmarks.

Which rows belong to which landmark depends on vectors alone and is found once; what landmarks think is
a sum over rows, and sums of shards add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..compiling import compiled
from .features import MADE, NEAREST, in_blocks

VOICES = 2.0
"""What all rows are thought to be takes part in each landmark's mean as so many rows."""


@dataclass(frozen=True, eq=False)
class Regions:
    """The landmarks of each of some rows."""

    number: np.ndarray  # (n_rows, 8) int16, the likest first
    share: np.ndarray  # (n_rows, 8) float32; sums to 1, or to 0 for a row without a direction

    @classmethod
    def of(cls, matrix: np.ndarray, landmarks: np.ndarray) -> Self:
        """Where rows lie, by their features; there must be more than eight landmarks."""
        number = np.empty((len(matrix), NEAREST), dtype=np.int16)
        share = np.empty((len(matrix), NEAREST), dtype=np.float32)
        across = np.ascontiguousarray(landmarks.T)

        def look(part: slice) -> None:
            block = np.zeros((MADE, matrix.shape[1]), dtype=np.float32)
            rows = matrix[part]
            block[: len(rows)] = rows
            _belong((block @ across)[: len(rows)], number[part], share[part])

        in_blocks(len(matrix), look, MADE)
        return cls(number, share)

    def take(self, rows: Any) -> Self:
        """A selection of rows."""
        return type(self)(self.number[rows], self.share[rows])

    def followed_by(self, more: Regions) -> Self:
        """These rows and then others."""
        both = ((self.number, more.number), (self.share, more.share))
        return type(self)(*(np.concatenate(each) for each in both))

    def sums(self, target: np.ndarray, n_landmarks: int) -> tuple[np.ndarray, np.ndarray]:
        """`target` (n_rows, n_classes) summed over the rows of each landmark, and how many these are."""
        found, count = np.zeros((n_landmarks, target.shape[1])), np.zeros(n_landmarks)
        _add(self.number, self.share, target, found, count)
        return found, count

    def read(self, weights: np.ndarray) -> np.ndarray:
        """What rows hear where landmarks say `weights` (n_landmarks, n_classes)."""
        found = np.zeros((len(self.number), weights.shape[1]))
        _hear(self.number, self.share, weights, found)
        return found


def thought(sums: np.ndarray, count: np.ndarray) -> np.ndarray:
    """What landmarks think beyond what all rows are thought to be, from sums of what exceeds that."""
    return np.asarray(sums / (count + VOICES)[:, None])


@compiled
def _belong(like: Any, number: Any, share: Any) -> None:
    most = number.shape[1]
    value, name = np.empty(most + 1), np.empty(most + 1, dtype=np.int16)
    for row in range(like.shape[0]):
        value[:] = -np.inf
        name[:] = 0
        for at in range(like.shape[1]):
            new = like[row, at]
            if new <= value[most]:
                continue
            place = most
            while place > 0 and value[place - 1] < new:
                value[place], name[place] = value[place - 1], name[place - 1]
                place -= 1
            value[place], name[place] = new, at
        total = 0.0
        for at in range(most):
            total += value[at] - value[most]
        for at in range(most):
            number[row, at] = name[at]
            share[row, at] = (value[at] - value[most]) / total if total > 0 else 0.0


@compiled
def _add(number: Any, share: Any, target: Any, found: Any, count: Any) -> None:
    for row in range(number.shape[0]):
        for at in range(number.shape[1]):
            who, part = number[row, at], share[row, at]
            count[who] += part
            for label in range(target.shape[1]):
                found[who, label] += part * target[row, label]


@compiled
def _hear(number: Any, share: Any, weights: Any, found: Any) -> None:
    for row in range(number.shape[0]):
        for at in range(number.shape[1]):
            who, part = number[row, at], share[row, at]
            for label in range(weights.shape[1]):
                found[row, label] += part * weights[who, label]
