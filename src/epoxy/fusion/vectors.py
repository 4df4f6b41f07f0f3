"""The experts that read vectors, over the train rows: features made once, two solves an edit.

Each solve is a sum over rows (a right-hand side), and a product with one inverse; sums of shards add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..neighbors.workers import Work, single_threaded_blas
from ..numerics import softmax
from ..votes import Split
from ..workspace import TRAIN
from . import evidence as ev
from .features import (
    BLOCK,
    NEAREST,
    SAMPLE,
    Features,
    View,
    for_one_pass,
    in_blocks,
    n_viewed,
    spaced,
)
from .fitted import WEIGHTS, Readout, read
from .groups import Spacing
from .regions import Regions, thought

SLOPE, SCORE, SOME = 0.25, 4.0, SAMPLE
"""Vectors tell something if targets rise with their own leave-one-out predictions, on so many rows."""


@dataclass(frozen=True, eq=False)
class Regressed:
    """What votes taught a regression over the train rows."""

    readout: Readout
    right: np.ndarray  # the right-hand side it was solved for; see `right_side`
    sums: np.ndarray  # the same over the rows of each landmark; (n_classes, n_landmarks)
    spread: np.ndarray  # (n_classes,) how far its readings deviate, on some rows
    tells: bool  # whether features foretell the votes of rows left out; else it learned noise


class Vectors:
    """Features of every split, and what is taught over those of train.

    Rows that `known` has seen already, with the view that they would be given anew, are not looked at
    again: `n_known` of train, from the first on.
    """

    def __init__(
        self, splits: Sequence[Split], seed: int, *, apart: bool, known: Vectors | None = None
    ) -> None:
        self.given = tuple(split.vectors for split in splits)
        assert all(each is not None for each in self.given)
        train = self.given[TRAIN]
        assert train is not None
        self.n_known = 0 if known is None else known._shared(train)
        self.view: View
        if known is not None and self.n_known:
            self.view, self.features = known.view, known._continued(train)
        else:
            self.view, self.features = View.over(train, seed, apart=apart)
        others = [self._viewed(at, known) for at in range(1, len(self.given))]
        self.matrices = (self.features.matrix, *others)
        self.regions = tuple(self._placed(at, known) for at in range(len(self.given)))
        some = spaced(len(train), SOME)
        sample = self.matrices[TRAIN][some]
        self._some = (some, sample, leverages(sample, self.features.inverse, len(train)))
        at = self.regions[TRAIN]
        self.near_some = None if at is None else at.take(some)

    def _shared(self, train: np.ndarray) -> int:
        """How many rows these and other train rows begin with alike; 0 where those make another view."""
        mine = self.given[TRAIN]
        assert mine is not None
        count = min(len(mine), len(train))
        if n_viewed(len(mine)) != n_viewed(len(train)) or not _alike(mine[:count], train[:count]):
            return 0
        return count

    def _continued(self, train: np.ndarray) -> Features:
        """Features of train rows that begin as these do, or end before them."""
        n_mine = len(self.features.matrix)
        if len(train) < n_mine:
            return self.features.up_to(len(train))
        return self.features.followed_by(self.view.of(train[n_mine:]))

    def _viewed(self, at: int, known: Vectors | None) -> np.ndarray:
        vectors = self.given[at]
        assert vectors is not None
        if known is not None and self.view is known.view and self.given[at] is known.given[at]:
            return known.matrices[at]
        return self.view.of(vectors)

    def _placed(self, at: int, known: Vectors | None) -> Regions | None:
        """Where the rows of a split lie; None without landmarks."""
        matrix, marks = self.matrices[at], self.view.landmarks
        if len(marks) <= NEAREST:
            return None
        before = None if known is None or self.view is not known.view else known.regions[at]
        if before is None or not (at == TRAIN or known is None or matrix is known.matrices[at]):
            return Regions.of(matrix, marks)
        n_known = min(len(before.number), len(matrix))
        return before.take(slice(n_known)).followed_by(Regions.of(matrix[n_known:], marks))

    def are_of(self, splits: Sequence[Split]) -> bool:
        """Whether these splits have the very same vectors."""
        return len(splits) == len(self.given) and all(
            split.vectors is each for split, each in zip(splits, self.given)
        )

    def spacing(self) -> Spacing:
        """How near train rows lie to labelled rows, before any is labelled."""
        return Spacing.over(self.features)

    @property
    def gram(self) -> np.ndarray:
        """ΦᵀΦ of the train rows."""
        return self.features.gram

    def lengths(self, at: int) -> np.ndarray:
        """Lengths of a split's features; (n_rows,)."""
        return self.features.lengths if at == TRAIN else Features(self.matrices[at]).lengths

    def regressed(self, votes: np.ndarray, prior: np.ndarray) -> Regressed:
        """Taught by the votes: what rows with such vectors are called by the sources that know them."""
        target = votes_as_target(votes, prior)
        base, at = target.mean(axis=0), self.regions[TRAIN]
        target -= base
        right = right_side(self.features.matrix, target)
        readout = Readout(solved(self.features.inverse, right), base)
        sums = np.zeros((0, len(prior)))
        if at is not None:
            sums = at.sums(target, len(self.view.landmarks))[0]
        some, sample, leverage = self._some
        (said,) = read(sample, readout.weights)
        tells = not (votes >= 0).any() or tell(target[some], said, leverage)
        return Regressed(readout, right, sums.T, said.std(axis=0), tells)

    def second(
        self, prior: np.ndarray, majority: np.ndarray, pupil: np.ndarray
    ) -> tuple[Readout, Readout | None]:
        """`echo` and `regions`, taught by what majority and pupil agree on.

        Their pooled opinion of the rows, made smooth by one line through all of them, and by surroundings.
        """
        taught = pooled(prior, majority, pupil)
        base = taught.mean(axis=0)
        taught -= base
        weights = solved(self.features.inverse, right_side(self.features.matrix, taught))
        echo, at = Readout(weights, base), self.regions[TRAIN]
        if at is None:
            return echo, None
        return echo, Readout(thought(*at.sums(taught, len(self.view.landmarks))), base)


def _alike(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two tables of vectors are equal; those of a session mostly are the same memory."""
    if first.shape != second.shape:
        return False
    if first.__array_interface__ == second.__array_interface__:
        return True
    parts = (slice(at, at + BLOCK) for at in range(0, len(first), BLOCK))
    return all(np.array_equal(first[part], second[part]) for part in parts)


def votes_as_target(votes: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """What votes (n_sources, n_rows) alone make of each row; (n_rows, n_classes)."""
    return ev.shares_of_votes(ev.vote_counts(votes, len(prior)), prior)


def pooled(prior: np.ndarray, majority: np.ndarray, pupil: np.ndarray) -> np.ndarray:
    """What majority and pupil agree on; (n_rows, n_classes)."""
    both = np.log(prior) + WEIGHTS["majority"] * majority + WEIGHTS["pupil"] * pupil
    return softmax(both)


def right_side(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Σ over rows of target times features, in float64 over blocks; of two classes one is enough."""
    n_classes = target.shape[1]
    first = 1 if n_classes == 2 else 0  # the other column is its negative
    blocks = [slice(at, at + BLOCK) for at in range(0, len(matrix), BLOCK)]
    parts = np.empty((len(blocks), n_classes - first, matrix.shape[1]), dtype=np.float32)
    small = np.ascontiguousarray(target[:, first:].T, dtype=np.float32)

    def multiply(at: int) -> None:
        if first:
            parts[at, 0] = small[0, blocks[at]] @ matrix[blocks[at]]
        else:
            np.matmul(small[:, blocks[at]], matrix[blocks[at]], out=parts[at])

    Work(range(len(blocks))).run(lambda: multiply, threads=for_one_pass(len(matrix)))
    return np.asarray(parts.sum(axis=0, dtype=np.float64))


def solved(inverse: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The weights of a right-hand side, for every class; (n_features, n_classes) float32."""
    with single_threaded_blas():  # to the same bits everywhere, as `inverse_of`
        found = inverse @ right.T
    whole = np.hstack([-found, found]) if found.shape[1] == 1 else found
    return np.ascontiguousarray(whole, dtype=np.float32)


def leverages(some: np.ndarray, inverse: np.ndarray, n_train: int) -> np.ndarray:
    """How much some train rows, given by their features, weigh in their own predictions."""
    own = np.empty(len(some))

    def measure(part: slice) -> None:
        block = some[part].astype(np.float64)
        own[part] = np.einsum("ij,ij->i", block @ inverse, block)

    in_blocks(len(some), measure)
    return own + 1 / max(1, n_train)


def tell(real: np.ndarray, said: np.ndarray, leverage: np.ndarray) -> bool:
    """Slope and correlation of targets on their own leave-one-out predictions, on some rows."""
    out = real - (real - said) / np.maximum(1 - leverage, 1e-9)[:, None]
    both, own, whole = (float((a * b).sum()) for a, b in ((real, out), (out, out), (real, real)))
    if own <= 0 or whole <= 0:
        return False
    score = both / np.sqrt(own * whole) * np.sqrt(len(real))
    return both / own > SLOPE and score > SCORE
