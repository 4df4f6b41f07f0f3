"""Evidence: what an expert adds to the log-odds of the classes, on top of the prior.

An expert never returns a posterior. It returns evidence, an (n_rows, n_classes) matrix whose rows
have mean zero, so that the prior enters once, however many experts speak. The experts here learn
from no hand label: each is a fixed function of votes and vectors, so labelled rows may judge them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..compiling import compiled
from ..numerics import row_sums, softmax

LOUDEST = 4.0
"""No expert may say more than this many nats for or against a class."""
FAINTEST = 0.02
"""Regressions answer with numbers below zero; shares are read as at least this."""
LIFT = 1.0
"""A vote for a class multiplies its odds by exp of this."""
GRADES = (0.8, 0.4, 0.1, 0.0)
"""Lifts of lent votes, by quarters of the distances to the lender: beyond the third nothing is lent."""
ROWS = 64
"""Rows whose loans are counted together: what is read of each source is then whole cache lines."""
LENDS = "a lent vote counts {:g}, {:g} or {:g} of an own one, the nearer the more".format(
    *(grade / LIFT for grade in GRADES if grade)
)


def centred(scores: np.ndarray) -> np.ndarray:
    """Subtract each row's mean: only differences between classes mean anything."""
    return np.asarray(scores - (row_sums(scores) / scores.shape[1])[:, None])


def loudness(scores: np.ndarray) -> np.ndarray:
    """Centre, and keep one sure expert from silencing all others."""
    return centred(np.clip(centred(scores), -LOUDEST, LOUDEST))


def from_shares(shares: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Evidence of class shares against the shares `base`: the gain in each class's logit.

    Regressions answer below 0 and above 1 too, so shares are first pulled inside.
    """
    return loudness(_logit(shares) - _logit(base))


def _logit(shares: np.ndarray) -> np.ndarray:
    inside = np.clip(shares, FAINTEST, 1 - FAINTEST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def vote_counts(votes: np.ndarray, n_classes: int) -> np.ndarray:
    """Votes for each class; `votes` (n_sources, n_rows) → (n_rows, n_classes) float64."""
    counts = np.zeros((votes.shape[1], n_classes))
    _count(votes, counts)
    return counts


def majority(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Shares of the votes, with one further vote cast by the prior.

    Nothing is learned, so nothing can be learned wrong: the expert of last resort.
    """
    shares = (counts + prior) / (row_sums(counts) + 1)[:, None]
    return loudness(np.log(shares) - np.log(prior))


def shares_of_votes(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """What the votes alone make of each row, every vote at the same lift: what `pupil` learns."""
    return softmax(np.log(prior) + LIFT * counts)


def reach(
    votes: np.ndarray,
    lent: np.ndarray,
    distance: np.ndarray,
    radii: np.ndarray,
    edges: np.ndarray,
    n_classes: int,
) -> np.ndarray:
    """Lifts of own votes, and of votes lent by the nearest supporting row, graded by its distance.

    Lent votes of one grade repeat each other, so their sum grows like the square root of their number.
    `votes`, `lent` and `distance` are (n_sources, n_rows); a source lends up to its radius.
    """
    raw = np.zeros((votes.shape[1], n_classes))
    _reach(votes, lent, distance, radii, edges, np.array(GRADES), raw)
    return loudness(raw)


def agreement(votes: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """What the triplet model reads off the votes, and off the silence of sources that name one class.

    `votes` (n_sources, n_rows) and log-likelihoods `tables` (n_sources, 1 + n_classes, n_classes).
    """
    raw = np.zeros((votes.shape[1], tables.shape[2]))
    for column, table in zip(votes, tables):
        raw += table.take(column.astype(np.intp) + 1, axis=0)
    return loudness(raw)


def grade_edges(ascending: Sequence[np.ndarray], unlisted: int = 0) -> np.ndarray:
    """The distances that cut all loans into grades of equal size, from each source's in order.

    `unlisted` loans are known to be farther than these, and not how far.
    """
    flat = np.concatenate([np.empty(0), *ascending])
    start = np.concatenate([[0], np.cumsum([len(each) for each in ascending])])
    ranks = edge_ranks(len(flat), unlisted)
    values = {rank: _ranked(flat, start, rank) for rank in set(ranks.values())}
    return edges_between(len(flat), unlisted, values)


def unlisted_loans(asked: np.ndarray, found: np.ndarray) -> int:
    """Loans that lists do not know, from each source's number of rows that ask and of those answered.

    A lender that is not listed is farther than those that are; a source that lends to nobody has none.
    """
    return int((asked - found)[found > 0].sum())


def edge_ranks(known: int, unlisted: int = 0) -> dict[int, int]:
    """Ranks of the loans between which the edges lie, and for each the rank among those that are known.

    What is not known stands for the farthest that is.
    """
    if not known:
        return {}
    last = known + unlisted - 1
    places = [quarter / len(GRADES) * last for quarter in range(1, len(GRADES))]
    both = {int(at) for at in places} | {int(at) + (at != int(at)) for at in places}
    return {rank: min(rank, known - 1) for rank in sorted(both)}


def edges_between(known: int, unlisted: int, ranked: Mapping[int, float]) -> np.ndarray:
    """The edges from the known distances of the ranks that `edge_ranks` asks for."""
    ranks = edge_ranks(known, unlisted)
    if not ranks:
        return np.zeros(len(GRADES) - 1)
    found = []
    for quarter in range(1, len(GRADES)):
        at = quarter / len(GRADES) * (known + unlisted - 1)
        low = int(at)
        first, second = ranked[ranks[low]], ranked[ranks[low + (at != low)]]
        found.append(first + (second - first) * (at - low))
    return np.array(found)


@compiled
def _ranked(flat: Any, start: Any, rank: int) -> float:
    """The value of that rank among stretches of numbers, each ascending, without joining them."""
    parts = len(start) - 1
    low, high = start[:-1].copy(), start[1:].copy()
    while True:
        widest = 0
        for part in range(1, parts):
            if high[part] - low[part] > high[widest] - low[widest]:
                widest = part
        pivot = flat[(low[widest] + high[widest]) // 2]
        below, within = 0, 0
        left, right = low.copy(), high.copy()
        for part in range(parts):
            stretch = flat[start[part] : start[part + 1]]
            left[part] = start[part] + np.searchsorted(stretch, pivot)
            right[part] = start[part] + np.searchsorted(stretch, pivot, "right")
            below += left[part] - start[part]
            within += right[part] - start[part]
        if below > rank:
            high = np.minimum(high, left)
        elif within <= rank:
            low = np.maximum(low, right)
        else:
            return float(pivot)


@compiled
def _count(votes: Any, counts: Any) -> None:
    for source in range(votes.shape[0]):
        for row in range(votes.shape[1]):
            said = votes[source, row]
            if said >= 0:
                counts[row, said] += 1.0


@compiled
def _reach(
    votes: Any, lent: Any, distance: Any, radii: Any, edges: Any, lifts: Any, raw: Any
) -> None:
    n_rows, n_grades, n_classes = raw.shape[0], len(lifts), raw.shape[1]
    seen = np.zeros((ROWS, n_grades, n_classes))
    for start in range(0, n_rows, ROWS):  # a stretch of each source's row of the tables at a time
        end = min(start + ROWS, n_rows)
        seen[:] = 0.0
        for source in range(votes.shape[0]):
            farthest = min(radii[source], edges[-1]) if radii[source] >= 0 else -1.0
            for row in range(start, end):
                said, far = votes[source, row], distance[source, row]
                if said >= 0:
                    raw[row, said] += LIFT
                elif far <= farthest:  # beyond the last edge nothing is lent
                    grade = 0
                    for edge in edges:
                        grade += far > edge
                    seen[row - start, grade, lent[source, row]] += 1.0
        for row in range(start, end):
            for grade in range(n_grades):
                for label in range(n_classes):
                    many = seen[row - start, grade, label]
                    if many > 0:
                        raw[row, label] += lifts[grade] * np.sqrt(many)
