"""What votes say of a row, what they teach, and which class shares the sum starts from.

v(x) = log(C(x) + 2π) − log π        C: votes for each class, own and lent
T(x) = (C(x) + 2π) / (n(x) + 2)      of own votes alone: what votes make of a train row
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiling import compiled
from ..errors import NotIdentifiable
from ..label_models import Triplet
from ..label_models.moments import Moments
from ..numerics import softmax
from ..votes import Votes
from .constants import CHANCE, COPY, LEAST_SHARE, VOICES, VOTER_POWER


def counted(votes: np.ndarray, n_classes: int) -> np.ndarray:
    """C, from votes (n_sources, n_rows), −1 for none; (n_rows, n_classes)."""
    every = np.broadcast_to(np.eye(n_classes), (len(votes), n_classes, n_classes))
    return added_up(votes, every)


def added_up(votes: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """What votes (n_sources, n_rows) say of rows by `tables` (n_sources, vote, n_classes)."""
    found = np.zeros((votes.shape[1], tables.shape[2]))
    _add(votes, np.ascontiguousarray(tables), found)
    return found


def evidence(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """v, of mean zero over classes; (n_rows, n_classes)."""
    found = np.log(counts + VOICES * prior) - np.log(prior)
    return np.asarray(found - found.mean(axis=1, keepdims=True))


def taught(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """T; (n_rows, n_classes)."""
    total = counts.sum(axis=1, keepdims=True) + VOICES
    return np.asarray((counts + VOICES * prior) / total)


def distinct(found: Moments) -> np.ndarray:
    """Sources that are no copy of one with more votes: `COPY` of the (row, vote) pairs of both are the same.

    Few votes overlap by chance: below ten only the third of equals goes.
    """
    names = found.sources
    same = np.zeros((len(names), len(names)))
    for named in range(len(found.classes)):
        rows = np.flatnonzero(found.named == named)
        who = found.source[rows]
        same[np.ix_(who, who)] += found.joint[np.ix_(rows, rows)]
    total, kept = np.diagonal(same), list[int]()
    for at in sorted(range(len(names)), key=lambda each: (-total[each], names[each])):
        own, rivals = total[at], same[at, kept]
        share, most = (COPY, 0) if own >= CHANCE else (1.0, 1)
        if not own or (rivals >= share * (own + total[kept] - rivals)).sum() <= most:
            kept.append(at)
    return np.sort(np.array(kept, dtype=np.intp))


@dataclass(frozen=True, eq=False)
class Balance:
    """The class shares π that the sum starts from, and the least and the most each may be."""

    shares: np.ndarray  # (n_classes,)
    low: np.ndarray
    high: np.ndarray
    kept: bool = (
        False  # rows together are called so: the shares are told, or sources name several classes
    )
    agreed: np.ndarray | None = None  # shares by how sources agree, where they can tell

    @classmethod
    def told(cls, shares: np.ndarray) -> Balance:
        """Shares that somebody knows."""
        return cls(shares, shares, shares, True, shares)

    @classmethod
    def guessed(cls, votes: Votes, counts: np.ndarray) -> Balance:
        """Of rows of which no true label is known.

        Equal shares, shares of votes, and what the triplet model learns from how sources agree: each
        alone is far off somewhere, and together, their log-odds averaged, they are less so. Where most
        votes are of sources that name several classes, shares of votes are all there is.
        """
        n_classes, cast = votes.n_classes, counts.sum(axis=1)
        equal = np.full(n_classes, 1 / n_classes)
        if not cast.any():
            return cls(equal, np.zeros(n_classes), np.ones(n_classes))
        weight = np.divide(1.0, cast, out=np.zeros_like(cast), where=cast > 0)
        share = weight @ counts / np.count_nonzero(cast)
        found = np.maximum(share, LEAST_SHARE / n_classes)
        several = np.array([len(each) > 1 for each in votes.polarity], dtype=bool)
        number = np.asarray(votes.cast.sum(axis=0))
        if number[several].sum() > number.sum() / 2:
            found = found**VOTER_POWER
            both = np.stack([equal, share])
            return cls(found / found.sum(), both.min(axis=0), both.max(axis=0), kept=True)
        witnesses, learned = [equal, share], None
        with warnings.catch_warnings(), suppress(NotIdentifiable):
            warnings.simplefilter("ignore")
            learned = np.asarray(Triplet(class_balance="learn").fit(votes).class_balance_)
            witnesses.append(learned)
        pooled = np.exp(np.log(np.maximum(witnesses, LEAST_SHARE / n_classes)).mean(axis=0))
        low, high = np.min(witnesses, axis=0), np.max(witnesses, axis=0)
        return cls(pooled / pooled.sum(), low, high, agreed=learned)


def agreement(votes: Votes, prior: np.ndarray) -> np.ndarray | None:
    """Log-likelihoods of each vote, (n_sources, 1 + n_classes, n_classes), by how sources agree.

    None where the triplet model cannot tell.
    """
    with warnings.catch_warnings(), suppress(NotIdentifiable):
        warnings.simplefilter("ignore")
        return np.asarray(Triplet(class_balance=prior).fit(votes).log_likelihood_)
    return None


def lean(logits: np.ndarray, scale: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """What to add to logits so that the mean posterior is `shares`; by Newton steps, (n_classes,).

    Sources that err more often one way lean that way on every row, and π as a start does not undo it.
    """
    found, every = np.zeros(len(shares)), np.full((len(shares),) * 2, 1 / len(shares))
    for _ in range(100 if len(logits) else 0):
        proba = softmax(scale[:, None] * (logits + found))
        excess = proba.mean(axis=0) - shares
        if np.abs(excess).max() < 1e-12:
            break
        bent = scale[:, None] * proba
        curvature = (np.diag(bent.sum(axis=0)) - bent.T @ proba) / len(proba)
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(shares)) + every, -excess)
        found += step * min(1.0, 1 / max(float(np.abs(step).max()), 1e-300))
    return np.asarray(found - found.mean())


@compiled
def _add(votes: Any, tables: Any, found: Any) -> None:
    for source in range(votes.shape[0]):
        for row in range(votes.shape[1]):
            said = votes[source, row]
            if said >= 0:
                for label in range(found.shape[1]):
                    found[row, label] += tables[source, said, label]
