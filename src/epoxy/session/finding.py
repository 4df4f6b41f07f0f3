"""Candidate functions, found on one half of the rows: words, patterns and example rows that tell a class.

Columns that say "this row holds that" are ranked by how many rows of a class they would newly reach and
how much likelier the class is there. The best are bundled: words with words into one function, example
rows with example rows. Classes take turns, the one with most rows left to reach first, because functions
for one class alone tilt every label towards it; each bundle counts only what the ones before leave over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loans import Neighbourhood
from ..neighbors import Graph
from ..numerics import log_odds
from ..votes import ABSTAIN
from ..workspace import TRAIN
from .evidence import Evidence
from .wording import Wording

LIKELIER, OFTEN, PART = 0.3, 0.5, 0.4
"""A column tells a class whose log-odds it raises by so much and that is right so often, both with a standard
error to spare, and that raises them by this part of what the functions there are do in the middle."""
FEWEST, SHRINK = 8, 4.0
"""Rows of the half that it must hold, and rows' worth of the class's share that its own is drawn to."""
SEEN, TOLD = 0.5, 0.3
"""What a row is still worth after one more vote for its class, and after a suggestion."""
ENOUGH, TAIL = 0.6, 0.02
"""A bundle is complete when it votes on this share of the class's rows, or the next part adds that little."""
NEW = 0.1
"""A column is in question for a class that nobody votes on this share of its rows."""
EXAMPLES, REACHES = 400, (8, 32, 128)
"""Rows tried as examples, and how many rows one of them reaches at the radii that are tried."""
HARDER = 0.5
"""What example rows count beside words, which a person can read."""
MOST = {"keywords": 20, "regex": 1, "like": 8}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that may be bundled into one function."""

    kind: str
    holds: Any  # (n, n_columns) sparse by columns
    rows: np.ndarray  # (n,) row numbers
    names: Sequence[Any]  # a word, a `Pattern`, or a train row
    radius: float = 0.0


@dataclass(frozen=True)
class Bundle:
    """A candidate: a class, a kind, and the columns that make it."""

    label: int
    kind: str
    parts: tuple[Any, ...]
    radius: float = 0.0


@dataclass(eq=False)
class Group:
    """Columns with what the half for finding says of each."""

    columns: Columns
    lift: np.ndarray  # (n_columns, n_classes) how much likelier the class is
    tells: np.ndarray  # (n_columns, n_classes) bool
    taken: np.ndarray  # (n_columns,) bool: part of a bundle


def word_columns(wording: Wording | None) -> list[Columns]:
    """Columns of words and of patterns."""
    if wording is None:
        return []
    n_words = len(wording.words)
    parts = (
        ("keywords", slice(None, n_words), wording.words),
        (
            "regex",
            slice(n_words, None),
            wording.patterns,
        ),
    )
    return [
        Columns(kind, wording.holds[:, which], wording.rows, names) for kind, which, names in parts
    ]


def example_columns(near: Neighbourhood, find: np.ndarray, first: np.ndarray) -> list[Columns]:
    """Columns of rows near an example, at a few radii; the examples are of the half for finding."""
    from scipy import sparse

    if near.graphs is None:
        return []
    graph, placed = near.graphs[TRAIN], near.places[TRAIN]
    rows = np.arange(near.sizes[TRAIN]) if placed is None else placed
    order = np.argsort(first[rows], kind="stable")
    inside = order[find[rows[order]]][:EXAMPLES]
    found: dict[float, Columns] = {}
    for reach in REACHES:
        far = np.median(graph.listed(reach)[1][:, -1])
        radius = float(f"{far:.3g}")
        columns = [_around(graph, each, radius) for each in inside]
        starts = np.concatenate([[0], np.cumsum([len(each) for each in columns])])
        held = sparse.csc_matrix(
            (np.ones(starts[-1], dtype=np.float32), np.concatenate([*columns, []]), starts),
            shape=(len(rows), len(columns)),
        )
        found[radius] = Columns("like", held, rows, rows[inside].tolist(), radius)
    return list(found.values())


def _around(graph: Graph, row: int, radius: float) -> np.ndarray:
    """The rows within a radius of one, as far as its list of neighbours goes, ascending."""
    node = graph.train.node[row]
    members, start = graph.train.members
    [near], [far] = graph.listed(nodes=np.array([node]))
    close = near[far <= radius].tolist()
    parts = [members[start[each] : start[each + 1]] for each in {int(node), *close}]
    return np.sort(np.concatenate(parts))


class Finder:
    """One search for functions; what it reads is the half for finding, and nothing else."""

    def __init__(
        self,
        evidence: Evidence,
        columns: Sequence[Columns],
        sources: Sequence[np.ndarray],
        lent: Any,
    ) -> None:
        own = votes_for(sources, *evidence.belief.shape)
        lent = votes_for(lent, *evidence.belief.shape)
        used = evidence.find & evidence.known
        belief = np.where(used[:, None], np.nan_to_num(evidence.belief), 0.0)
        self.used = used
        self.shares = np.clip(belief.sum(axis=0) / max(used.sum(), 1), 0.002, 0.998)
        usual = self._usual(belief, sources)
        self.groups = [_group(each, belief, used, self.shares, usual) for each in columns]
        self.size = belief.sum(axis=0)
        # what a vote for a class on a row is worth, (n_rows, n_classes), to words and to example rows:
        # near rows lend each other votes already
        self.left: dict[bool, np.ndarray] = {False: belief * SEEN**own, True: belief * SEEN**lent}
        for group in self.groups:
            group.tells &= self._new(group.columns, own) >= NEW
        self.turns = np.zeros(len(self.shares), dtype=int)

    def _usual(self, belief: np.ndarray, sources: Sequence[np.ndarray]) -> float:
        """How much the functions there are raise the log-odds of what they vote, in the middle."""
        found = []
        for said in sources:
            for label in np.unique(said[self.used & (said != ABSTAIN)]).tolist():
                rows = np.flatnonzero(self.used & (said == label))
                right = (belief[rows, label].sum() + SHRINK * self.shares[label]) / (
                    len(rows) + SHRINK
                )
                found.append(float(log_odds(min(right, 0.999)) - log_odds(self.shares[label])))
        return float(np.median(found)) if found else 0.0

    def restrict(self, region: np.ndarray) -> None:
        """Count rows of a region alone; (n_rows,) bool."""
        for left in self.left.values():
            left[~region] = 0.0

    def next(self, labels: Sequence[int]) -> Bundle | None:
        """The best bundle of the class whose turn it is, or of the next that has any.

        No class is two bundles ahead of another: where nothing tells one, there are fewer; and where
        something tells one class of several only, there are none.
        """
        told = [each for each in labels if any(group.tells[:, each].any() for group in self.groups)]
        if len(told) < min(len(labels), 2):
            return None
        need, last = self.left[False].sum(axis=0), min(self.turns[each] for each in labels)
        turn = [each for each in labels if self.turns[each] == last]
        for label in sorted(turn, key=lambda each: -need[each]):
            made = [self._bundled(group, label) for group in self.groups]
            best = max((each for each in made if each), key=lambda each: each[0], default=None)
            if best is not None:
                _, bundle, group, chosen = best
                self.turns[label] += 1
                group.taken[chosen] = True
                return bundle
        return None

    def told(self, label: int, voted: np.ndarray) -> None:
        """A function of this class votes on these rows now; (n_rows,) bool."""
        for left in self.left.values():
            left[voted, label] *= TOLD

    def _new(self, columns: Columns, own: np.ndarray) -> np.ndarray:
        """The share of a column's rows that nobody votes each class on; (n_columns, n_classes)."""
        count = np.diff(columns.holds.indptr)[:, None]
        return np.asarray(columns.holds.T @ (own[columns.rows] == 0) / np.maximum(count, 1))

    def candidates(self, most: int) -> list[tuple[int, np.ndarray]]:
        """Classes and rows of the columns that were in question, those reaching most first."""
        found: list[tuple[float, int, np.ndarray]] = []
        for group in self.groups:
            rows = group.columns.rows
            gain = (group.columns.holds.T @ self._left(group)[rows]) * group.lift
            gain = np.where(group.tells, gain, 0.0)
            top = np.argsort(-gain, axis=None, kind="stable")[:most]
            for column, label in zip(*np.unravel_index(top, gain.shape)):
                if gain[column, label] > 0:
                    held = group.columns.holds[:, column].indices
                    found.append((float(gain[column, label]), int(label), rows[held]))
        found.sort(key=lambda each: -each[0])
        return [(label, rows) for _, label, rows in found[:most]]

    def _left(self, group: Group) -> np.ndarray:
        return self.left[group.columns.kind == "like"]

    def _bundled(self, group: Group, label: int) -> tuple[float, Bundle, Group, np.ndarray] | None:
        """Parts one after the other by what each adds; with the worth of all."""
        open_ = np.flatnonzero(group.tells[:, label] & ~group.taken)
        if not len(open_):
            return None
        columns, rows = group.columns, group.columns.rows
        holds, lift = columns.holds[:, open_], group.lift[open_, label]
        left = self._left(group)[rows, label].copy()
        most = ENOUGH * self.size[label]
        gain = (holds.T @ left) * lift
        chosen: list[int] = []
        worth, first, voted = 0.0, 0.0, np.zeros(len(rows), dtype=bool)
        while len(chosen) < MOST[columns.kind] and voted[self.used[rows]].sum() <= most:
            at = int(gain.argmax())
            if gain[at] <= TAIL * first:
                break
            first = max(first, float(gain[at]))
            chosen.append(int(open_[at]))
            held = holds.indices[holds.indptr[at] : holds.indptr[at + 1]]
            new = held[~voted[held]]
            worth += float(left[new].sum() * lift[at])
            gone = np.zeros(len(rows))
            gone[new], voted[new] = left[new], True
            left[new] = 0.0
            gain -= (holds.T @ gone) * lift
            gain[at] = 0.0
        if not chosen:
            return None
        worth *= HARDER if columns.kind == "like" else 1.0
        parts = tuple(columns.names[each] for each in chosen)
        bundle = Bundle(label, columns.kind, parts, columns.radius)
        return worth, bundle, group, np.array(chosen)


def votes_for(columns: Sequence[np.ndarray], n_rows: int, n_classes: int) -> np.ndarray:
    """How many columns vote for each class on each row."""
    found = np.zeros((n_rows, n_classes), dtype=np.int32)
    for said in columns:
        rows = np.flatnonzero(said != ABSTAIN)
        found[rows, said[rows]] += 1
    return found


def _group(
    columns: Columns, belief: np.ndarray, used: np.ndarray, shares: np.ndarray, usual: float
) -> Group:
    rows = columns.rows
    count = (columns.holds.T @ used[rows].astype(np.float64))[:, None]
    right = columns.holds.T @ belief[rows]
    often = (right + SHRINK * shares) / (count + SHRINK)
    least = often - np.sqrt(often * (1 - often) / (count + SHRINK))
    base = log_odds(shares)
    likelier = log_odds(np.clip(least, 1e-6, 1 - 1e-6)) - base
    lift = np.clip(log_odds(np.clip(often, 1e-6, 1 - 1e-6)) - base, 0.0, 8.0)
    tells = (likelier > LIKELIER) & (least >= OFTEN) & (lift >= PART * usual) & (count >= FEWEST)
    return Group(columns, lift, tells, np.zeros(len(count), dtype=bool))
