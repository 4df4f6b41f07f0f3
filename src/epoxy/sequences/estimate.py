"""From how votes meet to Pr(vote | class) at every place.

A *place* is a position whose sources share parameters: all elements together when parameters are
tied, one per element when they are not. Links join places whose labels are neighbours.
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
from .counts import agreement
from .triplets import Partners, one_coin, signs, solve


@dataclass(frozen=True, eq=False)
class Meetings:
    """How votes meet at each place, and across each link between places."""

    same: tuple[np.ndarray, ...]  # per place, (m, 1 + K, m, 1 + K)
    links: tuple[tuple[int, int, np.ndarray], ...]  # (place, place, counts of the same shape)
    alike: tuple[float, ...]  # per link ρ, NaN where how labels move is unknown

    def around(self, place: int) -> list[tuple[int, np.ndarray, float]]:
        """Neighbouring places with the counts seen from here; a tied chain has two: before, after."""
        found = []
        for (a, b, counts), rho in zip(self.links, self.alike, strict=True):
            if a == place:
                found.append((b, counts, rho))
            if b == place:
                found.append((a, counts.transpose(2, 3, 0, 1), rho))
        return found


def one_sided(votes: Votes) -> np.ndarray:
    """Sources that (nearly) never name some class: where two of them vote they cannot disagree."""
    balance = np.full(votes.n_classes, 1 / votes.n_classes)
    readings = read(moments(votes), balance)
    mask = np.zeros(votes.n_sources, dtype=bool)
    mask[readings.source[readings.named != VOTER]] = True
    return mask


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
    flat = one_sided(votes)
    found = [
        _place_theta(meetings, place, how, barred, ~flat) for place in range(len(meetings.same))
    ]
    theta = np.stack(found)
    findings = _fill_unknown(theta, meetings, ~flat, votes.sources)
    tables = np.stack(
        [
            one_coin(np.nan_to_num(each), _coverage(same), votes.n_classes)
            for each, same in zip(theta, meetings.same, strict=True)
        ]
    )
    if flat.any():
        tables[:, flat] = _class_by_class(votes, barred, share)[flat]
        names = [name for name, alone in zip(votes.sources, flat, strict=True) if alone]
        findings.append(f"sources read class by class, as each names one class only: {names[:8]}")
    return tables, findings


def accuracies(tables: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Pr(the vote is right | the source votes), averaged over places; (n_sources,)."""
    joint = tables[:, :, 1:, :] * share
    right = np.einsum("pskk->s", joint)
    total = joint.sum(axis=(0, 2, 3))
    chance = np.full_like(right, 1 / len(share))
    return np.asarray(np.divide(right, total, out=chance, where=total > 0))


def _place_theta(
    meetings: Meetings, place: int, how: str, barred: np.ndarray, voter: np.ndarray
) -> np.ndarray:
    at = np.flatnonzero(voter)
    theta = np.full(len(voter), np.nan)
    if not len(at):
        return theta
    partners, own = _partners(meetings, place, barred, at)
    size = solve(partners, how)
    size = np.where(np.isnan(size), own, size)
    n = partners.n_here
    weight = np.where(partners.barred[:n, :n], 0.0, partners.overlap[:n, :n])
    theta[at] = size * signs(partners.moment[:n, :n].copy(), weight)
    return theta


def _partners(
    meetings: Meetings, place: int, barred: np.ndarray, at: np.ndarray
) -> tuple[Partners, np.ndarray]:
    """All columns that can serve the sources of a place; and √(M_ii/ρ), a source against itself."""
    around = meetings.around(place)
    n, blocks = len(at), 1 + len(around)
    moment, overlap = np.zeros((n * blocks,) * 2), np.zeros((n * blocks,) * 2)
    closed = np.ones((n * blocks,) * 2, dtype=bool)  # columns on two different neighbours: not used
    alike = np.full((n * blocks,) * 2, np.nan)
    linked = barred[np.ix_(at, at)] | np.eye(n, dtype=bool)
    own = np.full(n, np.nan)
    for block, (there, rho) in enumerate([(place, 1.0), *((t, rho) for t, _, rho in around)]):
        inside = slice(block * n, (block + 1) * n)
        moment[inside, inside], overlap[inside, inside] = _agree(meetings.same[there], at)
        closed[inside, inside] = linked
        alike[inside, inside] = 1.0
        if block == 0:
            continue
        here = slice(0, n)
        across = _agree(around[block - 1][1], at)
        # a source's mistakes persist, so it is its own partner only where there is no other
        shut = np.eye(n, dtype=bool) if n > 2 else np.zeros((n, n), dtype=bool)
        for one, two, turn in ((here, inside, False), (inside, here, True)):
            moment[one, two] = across[0].T if turn else across[0]
            overlap[one, two] = across[1].T if turn else across[1]
            closed[one, two], alike[one, two] = shut, rho
        if np.isfinite(rho) and rho != 0:
            own = np.sqrt(np.abs(np.diagonal(across[0]) / rho))
    return Partners(moment, overlap, closed, alike, n), own


def _agree(counts: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return agreement(counts[at][:, :, at])


def _coverage(same: np.ndarray) -> np.ndarray:
    """Share of rows each source votes on, half a row away from never and always."""
    said = np.einsum("ivjw->iv", same) / same.shape[0]
    total = said.sum(axis=1)
    return np.asarray((said[:, 1:].sum(axis=1) + 0.5) / (total + 1))


def _fill_unknown(
    theta: np.ndarray, meetings: Meetings, voter: np.ndarray, names: Sequence[str]
) -> list[str]:
    """Give voters no triplet answers for the others' middle value, in place, and say so."""
    casts = np.stack([_casts(same) for same in meetings.same]) > 0
    missing = np.isnan(theta) & voter & casts
    if not missing.any():
        return []
    lost = [name for name, gone in zip(names, missing.any(axis=0), strict=True) if gone]
    if np.isnan(theta[:, voter]).all():
        raise NotIdentifiable(
            f"no three votes meet on neighbouring elements, so agreement says nothing about the "
            f"accuracy of {lost[:5]}; add a labeling function, or give the balance of neighbouring "
            "labels (class_balance)"
        )
    theta[missing] = np.nanmedian(theta[:, voter])
    return [f"no triplet answers for sources, which count as middling: {lost[:8]}"]


def _casts(same: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("iviv->i", same[:, 1:, :, 1:]))


def _class_by_class(votes: Votes, barred: np.ndarray, share: np.ndarray | None) -> np.ndarray:
    pairs = [(votes.sources[a], votes.sources[b]) for a, b in np.argwhere(np.triu(barred, 1))]
    model = Triplet("learn" if share is None else share, dependencies=pairs).fit(votes)
    return np.asarray(np.exp(model.log_likelihood_))
