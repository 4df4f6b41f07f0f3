"""Accuracies by triplets of votes that may sit on neighbouring elements.

With θᵢ = (K·Pr(λᵢ = Y | λᵢ ≠ 0) − 1)/(K − 1) a source's vote given its element's class is uniform
with weight 1 − θᵢ and right with weight θᵢ. For sources on elements s and t therefore

    M_ij = (K·Pr(λᵢ = λⱼ | both vote) − 1)/(K − 1) = θᵢ θⱼ ρ_st,   ρ_st = (K·Pr(Y^s = Y^t) − 1)/(K − 1)

whatever the class balance. On one element ρ = 1 and this is the plain triplet. With i and j on one
element and k on a neighbour, M_ij · M_ik / M_jk = θᵢ² because ρ cancels, so neighbours serve as
partners although nothing is known about how labels move; k may even be source i itself, one step on,
hence two sources suffice on a chain whose parameters are tied. If ρ is known (labels' joint balance
given), any two partners do, after dividing it out.

A *place* is a position whose sources share parameters: all elements together when parameters are
tied, one per element when they are not. Links join places whose labels are neighbours.

Rejected: taking all pairs of columns as if they shared one label, as the reference does. It is exact
only when no label has a preference of its own; a rare class biases it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import NotIdentifiable
from ..label_models import Triplet
from ..label_models.moments import moments
from ..label_models.readings import VOTER, read
from ..votes import Votes

SOLVE = ("median", "mean", "overlap")
_CLEAR = 2.0  # standard errors a denominator must keep from zero while better triplets exist
_SUREST = 0.98  # |θ| stays below it: a perfect source and a nearly perfect one agree alike
_BLOCK = 1 << 17  # rows per product: bounds memory, and float32 counts stay exact below 2**24


def vote_counts(
    matrix: np.ndarray, left: np.ndarray, right: np.ndarray, n_classes: int
) -> np.ndarray:
    """How often source i says v on row `left` while source j says w on row `right`.

    Returns (n_sources, 1 + n_classes, n_sources, 1 + n_classes); entry 0 is abstain.
    """
    n_sources, n_states = matrix.shape[1], 1 + n_classes
    total = np.zeros((n_sources * n_states,) * 2)
    for start in range(0, len(left), _BLOCK):
        part = slice(start, start + _BLOCK)
        here, there = (one_hot(matrix[rows[part]], n_classes) for rows in (left, right))
        total += here.T @ there
    return total.reshape(n_sources, n_states, n_sources, n_states)


def one_hot(matrix: np.ndarray, n_classes: int) -> np.ndarray:
    """One column per source and vote, abstain included; (n_rows, n_sources · (1 + n_classes))."""
    said = matrix[:, :, None] == np.arange(-1, n_classes)
    return np.asarray(said.reshape(len(matrix), -1), dtype=np.float32)


def shares_said(counts: np.ndarray) -> np.ndarray:
    """How often each source says what, of votes counted on one row; (n_sources, 1 + n_classes)."""
    return np.asarray(np.einsum("ivjw->iv", counts) / len(counts))


@dataclass(frozen=True, eq=False)
class Meetings:
    """How votes meet at each place, and across each link between places."""

    same: tuple[np.ndarray, ...]  # per place, (m, 1 + K, m, 1 + K)
    # (place, place, counts of the same shape, ρ of their labels: NaN where it is unknown)
    links: tuple[tuple[int, int, np.ndarray, float], ...]

    def around(self, place: int) -> list[tuple[int, np.ndarray, float]]:
        """Neighbouring places with the counts seen from here; a tied chain has two: before, after."""
        found = []
        for a, b, counts, rho in self.links:
            if a == place:
                found.append((b, counts, rho))
            if b == place:
                found.append((a, counts.transpose(2, 3, 0, 1), rho))
        return found


def estimate_tables(
    votes: Votes,
    meetings: Meetings,
    *,
    how: str,
    barred: np.ndarray,
    share: np.ndarray | None,
) -> tuple[np.ndarray, list[str]]:
    """Pr(vote | class) at every place, (n_places, m, 1 + K, K), and what could not be learned.

    Sources that name every class are solved by triplets across elements. One-sided ones are read
    class by class on their own rows, where agreement says nothing and silence does.
    """
    readings = read(moments(votes), np.full(votes.n_classes, 1 / votes.n_classes))
    voter = np.ones(votes.n_sources, dtype=bool)
    voter[readings.source[readings.named != VOTER]] = False
    said = np.stack([shares_said(same) for same in meetings.same])
    theta = np.stack([_place(meetings, at, how, barred, voter) for at in range(len(said))])
    findings = _fill_unknown(theta, voter & (said[:, :, 1:].sum(axis=2) > 0), votes.sources)
    rows = said.sum(axis=2)
    coverage = (said[:, :, 1:].sum(axis=2) + 0.5) / (rows + 1)  # half a row from never and always
    tables = one_coin(np.nan_to_num(theta), coverage, votes.n_classes)
    if not voter.all():
        pairs = [(votes.sources[a], votes.sources[b]) for a, b in np.argwhere(np.triu(barred, 1))]
        alone = Triplet("learn" if share is None else share, dependencies=pairs).fit(votes)
        tables[:, ~voter] = np.exp(alone.log_likelihood_)[~voter]
        names = [name for name, whole in zip(votes.sources, voter, strict=True) if not whole]
        findings.append(f"sources read class by class, as each names one class only: {names[:8]}")
    return tables, findings


def one_coin(theta: np.ndarray, coverage: np.ndarray, n_classes: int) -> np.ndarray:
    """Pr(vote | class), (…, 1 + n_classes, n_classes): abstaining says nothing (Lemma 2)."""
    # for K > 2 a vote worse than chance can at most be never right: θ ≥ −1/(K − 1)
    theta = np.clip(theta, -_SUREST / (n_classes - 1), _SUREST)[..., None, None]
    said = (1 - theta) / n_classes + theta * np.eye(n_classes)
    voting = coverage[..., None, None]
    silent = np.broadcast_to(1 - voting, (*coverage.shape, 1, n_classes))
    return np.concatenate([silent, voting * said], axis=-2)


def accuracies(tables: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Pr(the vote is right | the source votes), averaged over places; (n_sources,)."""
    joint = tables[:, :, 1:, :] * share
    right, total = np.einsum("pskk->s", joint), joint.sum(axis=(0, 2, 3))
    chance = np.full_like(right, 1 / len(share))
    return np.asarray(np.divide(right, total, out=chance, where=total > 0))


def _place(
    meetings: Meetings, place: int, how: str, barred: np.ndarray, voter: np.ndarray
) -> np.ndarray:
    """θ of the voters of a place, NaN where no triplet answers."""
    at = np.flatnonzero(voter)
    theta = np.full(len(voter), np.nan)
    if len(at):
        columns, own = _Columns.around(meetings, place, barred, at)
        size = np.array([columns.size_of(source, how) for source in range(len(at))])
        theta[at] = np.where(np.isnan(size), own, size) * columns.signs()
    return theta


@dataclass(frozen=True, eq=False)
class _Columns:
    """All columns that can serve the sources of a place, which come first: n_columns on each axis."""

    moment: np.ndarray  # M
    overlap: np.ndarray  # rows behind each M
    usable: np.ndarray  # bool: pairs that meet, and depend on each other through labels alone
    rho: np.ndarray  # of their elements, NaN where unknown
    n_here: int

    @classmethod
    def around(
        cls, meetings: Meetings, place: int, barred: np.ndarray, at: np.ndarray
    ) -> tuple[_Columns, np.ndarray]:
        """The columns of a place and its neighbours; and √(M_ii/ρ), a source against itself."""
        around = meetings.around(place)
        n = len(at)
        size = n * (1 + len(around))
        moment, overlap, usable = np.zeros((3, size, size))  # two different neighbours: not used
        rho, own = np.full((size, size), np.nan), np.full(n, np.nan)
        here, free = slice(0, n), ~(barred[np.ix_(at, at)] | np.eye(n, dtype=bool))
        # a source's mistakes persist, so it is its own partner only where there is no other
        across = ~np.eye(n, dtype=bool) if n > 2 else np.ones((n, n), dtype=bool)
        for block, (there, counts, known) in enumerate([(place, meetings.same[place], 1), *around]):
            part = slice(block * n, (block + 1) * n)
            moment[part, part], overlap[part, part] = _agreement(meetings.same[there], at)
            usable[part, part], rho[part, part] = free, 1.0
            if not block:
                continue
            moment[here, part], overlap[here, part] = agree, met = _agreement(counts, at)
            moment[part, here], overlap[part, here] = agree.T, met.T
            for pair in ((here, part), (part, here)):
                usable[pair], rho[pair] = across, known
            if np.isfinite(known) and known != 0:
                own = np.sqrt(np.abs(np.diagonal(agree) / known))
        return cls(moment, overlap, (usable > 0) & (overlap > 0), rho, n), own

    def size_of(self, source: int, how: str) -> float:
        """|θ| of a source of the place, NaN where no triplet answers."""
        M, overlap, rho = self.moment, self.overlap, self.rho
        first, second = np.triu_indices(len(M), 1)
        keep = self.usable[source, first] & self.usable[source, second] & self.usable[first, second]
        first, second = first[keep], second[keep]
        with np.errstate(divide="ignore", invalid="ignore"):
            squared = M[source, first] * M[source, second] / M[first, second]
            # one partner beside the source makes ρ cancel; otherwise it must be known
            factor = rho[first, second] / (rho[source, first] * rho[source, second])
            squared = squared * np.where(first < self.n_here, 1.0, factor)
        below, met = np.abs(M[first, second]), overlap[first, second]
        finite = np.isfinite(squared)
        clear = finite & (below > _CLEAR / np.sqrt(np.maximum(met, 1)))
        keep = clear if clear.any() else finite
        if not keep.any():
            return float("nan")
        value = np.sqrt(np.abs(squared[keep]))
        if how == "overlap":
            least = np.minimum(overlap[source, first], overlap[source, second])
            return float(value[np.minimum(least, met)[keep].argmax()])
        return float(np.median(value) if how == "median" else value.mean())

    def signs(self) -> np.ndarray:
        """+1, or −1 for a source that contradicts the rest, by the side of the leading eigenvector.

        On the whole sources are taken to know better than chance.
        """
        here = slice(0, self.n_here)
        known = np.where(self.usable[here, here], self.moment[here, here], 0.0)
        leading = np.linalg.eigh(known)[1][:, -1]
        return np.where(leading * (1 if leading.sum() >= 0 else -1) < -1e-9, -1.0, 1.0)


def _agreement(counts: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M, zero without overlap, and the overlap in rows, of some sources; (n, n) each."""
    cast = counts[at][:, 1:, at][..., 1:]
    n_classes = cast.shape[1]
    overlap, same = cast.sum(axis=(1, 3)), np.einsum("ikjk->ij", cast)
    share = np.divide(same, overlap, out=np.full_like(same, 1 / n_classes), where=overlap > 0)
    return (n_classes * share - 1) / (n_classes - 1), overlap


def _fill_unknown(theta: np.ndarray, votes: np.ndarray, names: Sequence[str]) -> list[str]:
    """Give voters no triplet answers for the others' middle value, in place, and say so."""
    missing = np.isnan(theta) & votes
    if not missing.any():
        return []
    lost = [name for name, gone in zip(names, missing.any(axis=0), strict=True) if gone]
    if np.isnan(theta).all():
        raise NotIdentifiable(
            f"no three votes meet on neighbouring elements, so agreement says nothing about the "
            f"accuracy of {lost[:5]}; add a labeling function, or give the balance of neighbouring "
            "labels (class_balance)"
        )
    theta[missing] = np.nanmedian(theta)
    return [f"no triplet answers for sources, which count as middling: {lost[:8]}"]
