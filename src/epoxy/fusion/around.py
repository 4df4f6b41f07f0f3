"""The rows around a row: its nearest train rows in the graph that lending uses, and what votes make of them.

Rows with equal vectors are one node. What is thought of a node is the mean of T over those of its rows that
have votes; what is thought around a row is the mean over its nearest nodes that have votes, and `VOICES`
rows that are thought to be as the average:

    share(x) = (Σ T_j + VOICES · T̄) / (n + VOICES)        over the n of the 30 nearest nodes that have votes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import mapped
from ..compiling import compiled
from ..loans import NOBODY, Neighbourhood
from ..mapped import blocks
from ..workspace import TRAIN
from .constants import FAINT, NEAREST, VOICES
from .view import View, gram, inverse_of, spaced


def against(share: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Log-odds of shares against those of `base`, of mean zero over classes."""
    inside, mean = np.clip(share, FAINT, 1 - FAINT), np.clip(base, FAINT, 1 - FAINT)
    found = np.log(inside / (1 - inside)) - np.log(mean / (1 - mean))
    return np.asarray(found - found.mean(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Lists:
    """The nearest train nodes of each asking node, with other vectors than its own."""

    at: np.ndarray  # (n_rows,) int32 the asking node of each row, −1 for a row that is near nobody
    node: np.ndarray  # (n_nodes, NEAREST) int32, −1 for none

    @classmethod
    def of(cls, near: Neighbourhood, at: int) -> Lists:
        """Of the rows of split `at`."""
        assert near.graphs is not None
        graph, away = near.graphs[at], near.places[at]
        near_by, far = graph.listed(NEAREST + 1)
        listed = mapped.empty((len(near_by), min(NEAREST, near_by.shape[1])), np.int32)
        for part in blocks(len(listed)):
            both = np.ascontiguousarray(near_by[part]), np.ascontiguousarray(far[part])
            listed[part] = _others(*both, NEAREST)
        number = graph.onto.node
        if away is not None:
            number = np.full(near.sizes[at], NOBODY, np.int32)
            number[away] = graph.onto.node
        return cls(number, listed)

    def take(self, rows: np.ndarray | slice) -> Lists:
        """Those of some rows."""
        return Lists(self.at[rows], self.node)

    def mean(self, thought: Thought, nodes: np.ndarray | None = None) -> np.ndarray:
        """Shares around asking nodes (None: all) less the base; (n_asking, n_classes)."""
        node = self.node if nodes is None else self.node[nodes]
        found = np.empty((len(node), len(thought.base)))
        _mean(node, thought.table, found)
        mapped.let_go()
        return found

    def by_row(self, of_nodes: np.ndarray) -> np.ndarray:
        """What nodes have, for each row; zero for rows that are near nobody."""
        if len(self.at) and self.at.min() < 0:
            of_nodes = np.vstack([of_nodes, np.zeros((1, of_nodes.shape[1]))])
        return np.asarray(of_nodes[self.at])


@dataclass(frozen=True, eq=False)
class Thought:
    """What votes make of each train node."""

    total: np.ndarray  # (n_nodes, n_classes) sum of T over its rows that have votes
    count: np.ndarray  # (n_nodes,) how many these are

    @classmethod
    def of(cls, node: np.ndarray, n_nodes: int, taught: np.ndarray, voted: np.ndarray) -> Thought:
        """From T of every train row, (n_train, n_classes), and whether it has votes."""
        rows = np.flatnonzero(voted & (node >= 0))
        total = np.zeros((n_nodes, taught.shape[1]))  # bincount of nothing is of whole numbers
        for label, each in enumerate(taught.T):
            total[:, label] = np.bincount(node[rows], each[rows], minlength=n_nodes)
        return cls(total, np.bincount(node[rows], minlength=n_nodes).astype(float))

    def without(
        self, node: np.ndarray, was: np.ndarray, now: np.ndarray, voted: np.ndarray
    ) -> Thought:
        """Where rows at some nodes were taught `was`, and are taught `now` if they still have votes."""
        total, count, here = self.total.copy(), self.count.copy(), node >= 0
        np.subtract.at(total, node[here], was[here])
        np.subtract.at(count, node[here], 1.0)
        here = here & voted
        np.add.at(total, node[here], now[here])
        np.add.at(count, node[here], 1.0)
        return Thought(total, count)

    @cached_property
    def base(self) -> np.ndarray:
        """T̄, the mean over rows that have votes; (n_classes,)."""
        number = float(self.count.sum())
        equal = np.full(self.total.shape[1], 1 / self.total.shape[1])
        return np.asarray(self.total.sum(axis=0) / number) if number else equal

    @cached_property
    def table(self) -> np.ndarray:
        """m (T − T̄) and m of each node; (n_nodes, n_classes + 1)."""
        has = self.count > 0
        mean = self.total / np.maximum(self.count, 1.0)[:, None] - self.base
        return np.hstack([mean * has[:, None], has[:, None].astype(float)])


@dataclass(frozen=True, eq=False)
class Vectors:
    """Everything that depends on vectors alone; train first."""

    near: Neighbourhood
    given: tuple[Any, ...]
    view: View
    features: tuple[Any, ...]  # of each split, (n_rows, n_features) float32
    lists: tuple[Lists, ...]

    @classmethod
    def of(cls, near: Neighbourhood, given: Sequence[Any], seed: int, *, apart: bool) -> Vectors:
        """From the vectors of every split and the neighbours among them."""
        view, own = View.over(given[TRAIN], seed, apart=apart)
        features = (own, *map(view.of, given[1:]))
        lists = tuple(Lists.of(near, at) for at in range(len(given)))
        return cls(near, tuple(given), view, features, lists)

    @property
    def n_nodes(self) -> int:
        """Train nodes."""
        assert self.near.spaces is not None
        return self.near.spaces[TRAIN].n_nodes

    @cached_property
    def gram(self) -> np.ndarray:
        """ΦᵀΦ over the train rows."""
        return gram(self.features[TRAIN])

    @cached_property
    def inverse(self) -> np.ndarray:
        """(ΦᵀΦ + ridge)⁻¹."""
        return inverse_of(self.gram)

    @cached_property
    def some(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Train rows that say whether vectors tell anything, their features, and their leverage."""
        rows = spaced(len(self.features[TRAIN]))
        few = mapped.take(self.features[TRAIN], rows)
        own = few.astype(np.float64)
        leverage = np.einsum("ij,ij->i", own @ self.inverse, own) + 1 / len(self.features[TRAIN])
        return rows, few, leverage


@compiled
def _others(listed: Any, distance: Any, count: int) -> Any:
    """Lists without nodes that have the asking vector."""
    found = np.full((listed.shape[0], min(count, listed.shape[1])), np.int32(-1))
    for row in range(listed.shape[0]):
        place = 0
        for at in range(listed.shape[1]):
            if distance[row, at] > 0 and listed[row, at] >= 0 and place < found.shape[1]:
                found[row, place] = listed[row, at]
                place += 1
    return found


@compiled
def _mean(listed: Any, table: Any, found: Any) -> None:
    n_classes = found.shape[1]
    for row in range(listed.shape[0]):
        found[row, :] = 0.0
        heard = VOICES
        for at in range(listed.shape[1]):
            node = listed[row, at]
            if node < 0 or table[node, n_classes] == 0:
                continue
            heard += 1.0
            for label in range(n_classes):
                found[row, label] += table[node, label]
        for label in range(n_classes):
            found[row, label] /= heard
