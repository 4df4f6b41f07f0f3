"""What depends on which rows are labelled, and on their vectors, but on no vote and no label.

The labelled rows' features, and for every train row its likest labelled rows, are kept while votes
change, and one more label costs one more row. No table of labelled rows against each other is kept:
of thousands of them it is the largest table there is, and every label would copy it. Rows are kept in
the order in which they came; where order matters, they are ranked by their place, so that the way
there plays no part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from ..compiling import compiled, reordered
from .features import MADE, Features, in_blocks
from .groups import DIGITS

MOST_NEAR = 1000
"""Labelled rows kept at most as neighbours: those whose vectors have the least hashes, whoever they are."""
NEAR = 5
FEW = 8  # labels that come or go at a time up to which lists are brought in step, not made anew

Place = tuple[int, int]
"""Order of the split among those with labelled rows, and row in it."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled rows' features."""

    places: tuple[Place, ...]
    features: np.ndarray  # (m, n_features) float32
    lengths: np.ndarray  # (m,) float64, never zero
    hashes: tuple[bytes, ...]  # of their vectors

    @classmethod
    def of(cls, places: Sequence[Place], features: np.ndarray, vectors: np.ndarray) -> Labelled:
        """From features and vectors of the labelled rows."""
        return cls(tuple(places), features, Features(features).lengths, tuple(map(_hash, vectors)))

    def changed(
        self, places: Sequence[Place], features: np.ndarray, vectors: np.ndarray
    ) -> tuple[Labelled, np.ndarray]:
        """The same for other places, and where each former row is now, −1 for nowhere.

        Rows that stay keep their order, and those that are new come after them.
        """
        wanted, known = set(places), set(self.places)
        stays = np.array([place in wanted for place in self.places], dtype=bool)
        new = [at for at, place in enumerate(places) if place not in known]
        moved = np.where(stays, np.cumsum(stays) - 1, -1)
        more = Labelled.of([places[at] for at in new], features[new], vectors[new])
        found = Labelled(
            (*compress(self.places, stays), *more.places),
            np.concatenate([self.features[stays], more.features]),
            np.concatenate([self.lengths[stays], more.lengths]),
            (*compress(self.hashes, stays), *more.hashes),
        )
        return found, moved

    def only(self, rows: np.ndarray) -> Labelled:
        """Some of the rows; (m,) bool."""
        kept = rows.tolist()
        places, hashes = compress(self.places, kept), compress(self.hashes, kept)
        return Labelled(tuple(places), self.features[rows], self.lengths[rows], tuple(hashes))

    @property
    def units(self) -> np.ndarray:
        """The features at length one; (m, n_features) float64."""
        return np.asarray(self.features / self.lengths[:, None])

    def products(self, loudness: np.ndarray) -> np.ndarray:
        """Inner products of features that are so loud; (m, m) float64, asked for where rows are few."""
        key = loudness.tobytes()
        if key not in self._products:
            exact = loudness * self.features.astype(np.float64)
            self._products[key] = np.asarray(exact @ exact.T)
        return self._products[key]

    @cached_property
    def _products(self) -> dict[bytes, np.ndarray]:
        return {}

    @cached_property
    def twins(self) -> np.ndarray:
        """For each row the first with the same vector; (m,)."""
        same = {name: at for at, name in reversed(list(enumerate(self.hashes)))}
        return np.array([same[name] for name in self.hashes], dtype=np.intp)

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def order(self) -> np.ndarray:
        """The rows by their places; (m,)."""
        return np.array(sorted(range(len(self)), key=self.places.__getitem__), dtype=np.intp)

    @cached_property
    def rank(self) -> np.ndarray:
        """Where each row stands in that order; (m,)."""
        found = np.empty(len(self), dtype=np.intp)
        found[self.order] = np.arange(len(self))
        return found

    @cached_property
    def kept(self) -> np.ndarray:
        """Which of them may be neighbours, in the order of their places; (n_kept,)."""
        if len(self) <= MOST_NEAR:
            return self.order
        least = sorted(range(len(self)), key=lambda at: (self.hashes[at], self.places[at]))
        return np.array(sorted(least[:MOST_NEAR], key=self.places.__getitem__), dtype=np.intp)


def _hash(vector: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(vector).tobytes(), digest_size=8).digest()


@dataclass(frozen=True, eq=False)
class Nearby:
    """The likest labelled rows of each row, by number in `Labelled`, likest first; −1 for none."""

    labelled: Labelled
    number: np.ndarray  # (n_rows, NEAR) int32
    likeness: np.ndarray  # (n_rows, NEAR) float64, −inf for none

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        lengths: np.ndarray,
        labelled: Labelled,
        groups: np.ndarray | None = None,
    ) -> Nearby:
        """Ranked by rounded likeness, equals by place.

        With `groups`, the rows are the labelled rows, and nobody of a row's own group is asked.
        """
        kept = labelled.kept
        units = labelled.units[kept]
        number = np.full((len(matrix), NEAR), -1, dtype=np.int32)
        likeness = np.full((len(matrix), NEAR), -np.inf)

        def look(part: slice) -> None:
            exact = matrix[part].astype(np.float64) @ units.T
            exact /= lengths[part, None]
            np.round(exact, DIGITS, out=exact)
            if groups is not None:
                exact[groups[part, None] == groups[kept]] = -np.inf
            _likest(exact, kept.astype(np.int32), number[part], likeness[part])

        in_blocks(len(matrix), look, MADE)
        return cls(labelled, number, likeness)

    def resized(self, matrix: np.ndarray, lengths: np.ndarray) -> Nearby:
        """The same for rows that begin as these do: only those behind are looked at."""
        known = min(len(self.number), len(matrix))
        more = Nearby.of(matrix[known:], lengths[known:], self.labelled)
        return Nearby(
            self.labelled,
            np.concatenate([self.number[:known], more.number]),
            np.concatenate([self.likeness[:known], more.likeness]),
        )

    def changed(self, matrix: np.ndarray, lengths: np.ndarray, labelled: Labelled) -> Nearby:
        """The same for other labelled rows, looked at again only where it must be."""
        before = {self.labelled.places[at]: at for at in self.labelled.kept.tolist()}
        now = {labelled.places[at]: at for at in labelled.kept.tolist()}
        new = [at for place, at in now.items() if place not in before]
        gone = [at for place, at in before.items() if place not in now]
        if len(new) + len(gone) > FEW:
            return Nearby.of(matrix, lengths, labelled)
        renamed = np.full(len(self.labelled) + 1, -1, dtype=np.int32)  # the last one stays −1
        for place, at in before.items():
            renamed[at] = now.get(place, -1)
        number, likeness = renamed[self.number], self.likeness.copy()
        lost = np.flatnonzero(np.isin(self.number, gone).any(axis=1)) if gone else np.empty(0, int)
        for at in new:
            unit = labelled.features[at] / labelled.lengths[at]
            column = np.round(_against(matrix, unit) / lengths, DIGITS)
            _insert(column, at, labelled.rank, number, likeness)
        if len(lost):
            again = Nearby.of(matrix[lost], lengths[lost], labelled)
            number[lost], likeness[lost] = again.number, again.likeness
        return Nearby(labelled, number, likeness)


def _against(matrix: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Inner products with one vector, in float64."""
    found = np.empty(len(matrix))

    def multiply(part: slice) -> None:
        _dot(matrix[part], unit, found[part])

    in_blocks(len(matrix), multiply)
    return found


@reordered
def _dot(matrix: Any, unit: Any, found: Any) -> None:
    for row in range(matrix.shape[0]):
        total = 0.0
        for at in range(matrix.shape[1]):
            total += np.float64(matrix[row, at]) * unit[at]
        found[row] = total


@compiled
def _likest(exact: Any, names: Any, number: Any, likeness: Any) -> None:
    most = number.shape[1]
    for row in range(exact.shape[0]):
        for at in range(exact.shape[1]):
            value = exact[row, at]
            if value <= likeness[row, most - 1]:
                continue
            place = most - 1
            while place > 0 and likeness[row, place - 1] < value:
                likeness[row, place] = likeness[row, place - 1]
                number[row, place] = number[row, place - 1]
                place -= 1
            likeness[row, place] = value
            number[row, place] = names[at]


@compiled
def _insert(column: Any, name: Any, rank: Any, number: Any, likeness: Any) -> None:
    most = number.shape[1]
    for row in range(column.shape[0]):
        value = column[row]
        place = most
        while place > 0:
            above, who = likeness[row, place - 1], number[row, place - 1]
            if above > value or (above == value and who >= 0 and rank[who] < rank[name]):
                break
            place -= 1
        if place == most:
            continue
        for at in range(most - 1, place, -1):
            likeness[row, at] = likeness[row, at - 1]
            number[row, at] = number[row, at - 1]
        likeness[row, place] = value
        number[row, place] = name
