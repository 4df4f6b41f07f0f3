"""One split as the experts see it: votes, features, and votes lent by near rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..votes import ABSTAIN

__all__ = ["NO_ROW", "Lent", "Rows"]

NO_ROW = -1


@dataclass(frozen=True, eq=False)
class Lent:
    """For each abstention, what the source says on the nearest train row it votes on."""

    vote: np.ndarray  # (n_rows, n_sources) −1 where nobody lends
    distance: np.ndarray  # (n_rows, n_sources) inf where nobody lends
    lender: np.ndarray  # (n_rows, n_sources) train row, −1 where nobody lends

    @classmethod
    def nobody(cls, shape: tuple[int, ...]) -> Self:
        """No vectors, no loans."""
        return cls(np.full(shape, ABSTAIN), np.full(shape, np.inf), np.full(shape, NO_ROW))

    def take(self, index: Any) -> Self:
        """A selection of rows."""
        return type(self)(self.vote[index], self.distance[index], self.lender[index])


class Rows:
    """Votes and features of some rows, with the search for lenders put off until it is needed."""

    def __init__(
        self, votes: np.ndarray, features: np.ndarray | None, find: Callable[[], Lent]
    ) -> None:
        self.votes = votes  # (n_rows, n_sources) −1 abstains
        self.features = features  # (n_rows, n_features) or None without vectors
        self._find = find

    @cached_property
    def lent(self) -> Lent:
        """The votes that near train rows lend to these."""
        return self._find()

    @cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the feature rows, never zero; (n_rows,)."""
        assert self.features is not None  # asked only where there are features
        squares = np.einsum("ij,ij->i", self.features, self.features)
        return np.asarray(np.sqrt(np.maximum(squares, 1e-24)))

    @cached_property
    def has_votes(self) -> bool:
        """Whether any source votes on any of these rows."""
        return bool((self.votes != ABSTAIN).any())

    def __len__(self) -> int:
        return len(self.votes)

    def take(self, index: Any) -> Rows:
        """A selection of rows (a mask, a slice or indices)."""
        features = None if self.features is None else self.features[index]
        return Rows(self.votes[index], features, lambda: self.lent.take(index))
