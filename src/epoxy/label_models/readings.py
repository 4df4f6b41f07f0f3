"""How sources are read before triplets are solved: as voters, or class by class.

Lemma 1 of the paper gives a source one accuracy whatever the class. That is right for a source that
names every class (a *voter*), and meaningless for one that only ever says "spam": on the rows where
two such sources both vote they always agree, so conditional agreement is ±1 whatever their quality.
A source that (nearly) never names some class is therefore read as *detectors*, one per class it
names, whose silence counts too:

* two voters            M = (K·Pr(agree | both vote) − 1)/(K − 1) = θᵢθⱼ, with θ = (K·accuracy − 1)/(K − 1);
                        for K = 2 this is the paper's E[λᵢλⱼ | λᵢ, λⱼ ≠ 0]
* two detectors         Cov(uᵢ, uⱼ) = αᵢαⱼ·Cov(1{Y=c}, 1{Y=d}), with α = Pr(u | Y=c) − Pr(u | Y≠c)
* a voter, a detector   Cov(1{λᵢ=c}, uⱼ | λᵢ ≠ 0) = θᵢαⱼ·Var(1{Y=c})

With θ = α·sd(1{Y=c}) for detectors all three become one matrix with M = θθᵀ off the diagonal, which
is all a triplet needs. The assumption is the paper's: independence given the class, and errors that
do not depend on which other class is true.

Rejected: the reference implementation's unconditional moments. They mix quality with coverage, so a
95 % precise one-sided source is read half-way to the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .moments import Moments

VOTER = -1
"""In `Readings.named`: the unit is a whole source, not one class of it."""

# a class named in under a tenth of an even share of a source's votes counts as not named
_RARE = 0.1


@dataclass(frozen=True, eq=False)
class Readings:
    """One rank-one matrix over all units, with what is needed to judge its entries."""

    source: np.ndarray  # (n_units,) index of the source
    named: np.ndarray  # (n_units,) class of a detector, VOTER for a voter
    moment: np.ndarray  # (n_units, n_units) M, zero where not observed
    observed: np.ndarray  # (n_units, n_units) bool: two sources that can be compared
    overlap: np.ndarray  # (n_units, n_units) rows that carry the comparison
    spread: np.ndarray  # (n_units, n_units) standard error of `moment`, inf where not observed
    rate: np.ndarray  # (n_units,) how often a unit fires, as a share of all rows
    votes: np.ndarray  # (n_units,) how often it fires

    def without(self, pairs: set[tuple[int, int]]) -> Readings:
        """The same readings with some pairs of sources not compared (they depend on each other)."""
        if not pairs:
            return self
        linked = np.zeros((self.source.max() + 1,) * 2, dtype=bool)
        for a, b in pairs:
            linked[a, b] = linked[b, a] = True
        keep = self.observed & ~linked[np.ix_(self.source, self.source)]
        return replace(
            self,
            moment=np.where(keep, self.moment, 0.0),
            observed=keep,
            overlap=np.where(keep, self.overlap, 0.0),
            spread=np.where(keep, self.spread, np.inf),
        )


def read(moments: Moments, balance: np.ndarray) -> Readings:
    """Choose a reading for each source and fill the matrix for the given class balance."""
    source, named, first = _units(moments)
    detector = named != VOTER
    by_voter = ~detector
    n = max(1, moments.n_rows)
    joint = moments.joint  # co-firing counts of units: of detectors as they are
    if not by_voter.any():  # the usual case, and an edit waits for it
        M, spread, expected = compare(joint, n, named, balance)
        fires = np.diagonal(joint).copy()
        return _observed(source, named, (M, spread, np.maximum(joint, expected)), fires / n, fires)
    unit = np.repeat(np.arange(len(first)), np.diff(first, append=len(joint)))
    joint = gathered(joint, unit, np.ones(len(unit)), len(first))

    M = np.zeros_like(joint)
    spread = np.full_like(joint, np.inf)
    overlap = joint.copy()
    fires = np.diagonal(joint).copy()

    pair = np.ix_(by_voter, by_voter)
    M[pair], spread[pair] = _agreement(moments, source[by_voter], joint[pair])
    if detector.any():
        pair = np.ix_(detector, detector)
        M[pair], spread[pair], expected = compare(joint[pair], n, named[detector], balance)
        overlap[pair] = np.maximum(overlap[pair], expected)
        pair, back = np.ix_(by_voter, detector), np.ix_(detector, by_voter)
        covariance, error, expected = _voter_with_detector(moments, joint, first, source, named)
        sd = np.sqrt(balance * (1 - balance))[named[detector]]
        M[pair], spread[pair] = covariance / sd, error / sd
        overlap[pair] = np.maximum(overlap[pair], expected)
        M[back], spread[back], overlap[back] = M[pair].T, spread[pair].T, overlap[pair].T

    return _observed(source, named, (M, spread, overlap), fires / n, fires)


def compare(
    joint: np.ndarray, n: int, named: np.ndarray, balance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M of two detectors from all rows, its error, and the co-firing expected if they knew nothing."""
    rate, together = np.diagonal(joint) / n, joint / n
    scale: Any = -1.0  # of two classes, what one is the other is not, whatever their shares
    if len(balance) > 2:
        odds = np.sqrt((1 - balance) / balance)[named]
        scale = -np.outer(odds, odds)
    scale = np.where(named[:, None] == named, 1.0, scale)
    chance = np.outer(rate, rate)
    # with few co-firings the observed count is the better guess of its own variance
    variance = np.maximum(chance * np.outer(1 - rate, 1 - rate), together / n) / n
    spread = np.where(chance > 0, np.sqrt(variance) * np.abs(scale), np.inf)
    return (together - chance) * scale, spread, chance * n


def gathered(joint: np.ndarray, group: np.ndarray, value: np.ndarray, n_groups: int) -> np.ndarray:
    """Σ value[i]·value[j]·joint[i, j] over the members of each two groups; (n_groups, n_groups)."""
    onto = np.zeros((n_groups, len(joint)))
    onto[group, np.arange(len(joint))] = value
    return np.asarray(onto @ joint @ onto.T)


def ignores_balance(moments: Moments) -> bool:
    """Whether readings are the same whatever the class balance is.

    So they are where every source is a voter, and where there are two classes and no voter.
    """
    voter = _is_voter(moments)[moments.source]
    return bool(voter.all() or (len(moments.classes) == 2 and not voter.any()))


def _observed(
    source: np.ndarray,
    named: np.ndarray,
    matrices: tuple[np.ndarray, np.ndarray, np.ndarray],
    rate: np.ndarray,
    fires: np.ndarray,
) -> Readings:
    """Blank what two units of one source, or two that never met, cannot tell."""
    M, spread, overlap = matrices
    observed = np.isfinite(spread) & (source[:, None] != source)
    unseen = ~observed
    M[unseen] = 0.0
    spread[unseen] = np.inf
    overlap[unseen] = 0.0
    return Readings(source, named, M, observed, overlap, spread, rate, fires)


def _units(moments: Moments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources and classes of the units, and the first detector of the moments that each is made of."""
    is_voter = _is_voter(moments)
    if not is_voter.any():
        return moments.source, moments.named, np.arange(len(moments.source))
    key = np.where(is_voter[moments.source], VOTER, moments.named)
    other = (np.diff(moments.source) != 0) | (np.diff(key) != 0)  # detectors are in order
    first = np.concatenate([[0], 1 + np.flatnonzero(other)])
    return moments.source[first], key[first], first


def _is_voter(moments: Moments) -> np.ndarray:
    """The sources that name every class often enough to have one accuracy; (n_sources,) bool."""
    counts = moments.counts
    total = counts.sum(axis=1)
    even = total / len(moments.classes)
    return np.asarray((total > 0) & (counts.min(axis=1) >= _RARE * even))


def _agreement(
    moments: Moments, sources: np.ndarray, both: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """M of two voters, from the rows on which both vote."""
    k = len(moments.classes)
    agree = np.zeros_like(both)
    for named in range(k):
        at = _naming(moments, named)[sources]
        agree += moments.joint[np.ix_(at, at)]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = agree / both
        moment = (k * share - 1) / (k - 1)
    # one pseudo-row in the variance of the share, so that unanimity is not certainty
    smooth = (agree + 0.5) / (both + 1)
    error = k / (k - 1) * np.sqrt(smooth * (1 - smooth) / (both + 1))
    seen = both > 0
    return np.where(seen, moment, 0.0), np.where(seen, error, np.inf)


def _naming(moments: Moments, named: int) -> np.ndarray:
    """The detector of each source that names a class, −1 where it never does; (n_sources,)."""
    rows = np.flatnonzero(moments.named == named)
    found = np.full(len(moments.sources), -1)
    found[moments.source[rows]] = rows
    return found


def _voter_with_detector(
    moments: Moments, joint: np.ndarray, first: np.ndarray, source: np.ndarray, named: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cov(1{voter names c}, detector of c | the voter votes), its error, and expected co-firings.

    `joint` counts co-firings of units, whose first detectors are `first`.
    """
    voters, detectors = np.flatnonzero(named == VOTER), np.flatnonzero(named != VOTER)
    counts = moments.counts[source[voters]]  # (voters, classes)
    n = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    fired = joint[np.ix_(voters, detectors)] / n  # detector fires, voter votes
    by_class = np.zeros_like(fired)
    for named_class in range(len(moments.classes)):
        columns = np.flatnonzero(named[detectors] == named_class)
        at = _naming(moments, named_class)[source[voters]]  # voters name every class
        by_class[:, columns] = moments.joint[np.ix_(at, first[detectors[columns]])] / n
    names = counts[:, named[detectors]] / n
    error = np.sqrt(np.maximum(names * (1 - names) * fired * (1 - fired), 1 / n**2) / n)
    seen = (fired > 0) & (names > 0) & (names < 1)
    return by_class - names * fired, np.where(seen, error, np.inf), names * fired * n
