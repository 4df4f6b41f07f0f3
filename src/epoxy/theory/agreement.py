"""How far each source may speak when no row has a true label.

Extended votes are compared with what the *other* sources say about the same rows. Given Y the two
are independent, so their agreement, corrected for how unsure the others are, is an estimate of ã(r),
the accuracy of lent votes. It needs no pairs of rows, works for any number of classes, and counts
what a diluted accuracy costs on the source's own rows. The radius chosen is the one with the largest
lift, the smaller one of equals, and none where no lift is positive.

Rejected: maximising the lower bound of Theorem 1, as the paper sketches it. Proposition 1 divides by
p_i², so with the coverages of real sources (a few per cent) it promises nothing; with every
relaxation of its proof measured instead it extends 19 of 245 sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import AlignmentError, ParameterError
from ..extension import Reach
from ..numerics import softmax
from ..votes import Votes
from .bounds import class_prior, posterior
from .measure import as_radii

_GRID = 32  # candidate radii per source: finer ones differ by less than the estimate's error


@dataclass(frozen=True, eq=False)
class LiftCurve:
    """What extending one source is expected to do, per radius."""

    radii: np.ndarray  # (n_radii,)
    reached: np.ndarray  # (n_radii,) newly covered share
    extended: np.ndarray  # (n_radii,) ā
    new: np.ndarray  # (n_radii,) ã
    lift: np.ndarray  # (n_radii,)

    @property
    def best(self) -> int | None:
        """Position of the largest positive lift, the smaller radius of equals; None if none is."""
        found = int(np.argmax(np.nan_to_num(self.lift, nan=-np.inf))) if len(self.lift) else 0
        return found if len(self.lift) and self.lift[found] > 0 else None


@dataclass(frozen=True, eq=False)
class RadiusChoice:
    """The radius chosen per source, None where extension promises nothing, and why."""

    radius: Mapping[str, float | None]
    curves: Mapping[str, LiftCurve]


def choose_radius(
    reach: Reach, accuracies: Any, *, balance: Any = None, radii: Any = None
) -> RadiusChoice:
    """The radius of each source with the largest expected lift, without any true label.

    Parameters
    ----------
    reach
        Each row's nearest vote per source, on the train rows themselves.
    accuracies
        Of the original sources, as a label model estimates them.
    balance
        Class prior; even when None.
    radii
        Candidates; None takes 32 quantiles of the distances at which some vote changes.
    """
    votes = reach.votes
    known = np.asarray(accuracies, dtype=np.float64)
    if known.shape != (votes.n_sources,):
        raise AlignmentError(
            f"one accuracy per source: got shape {known.shape} for {votes.n_sources} sources"
        )
    radius: dict[str, float | None] = {}
    curves = {}
    for index, name in enumerate(votes.sources):
        curve = curves[name] = lift_curve(reach, index, known, balance=balance, radii=radii)
        radius[name] = None if curve.best is None else float(curve.radii[curve.best])
    return RadiusChoice(radius, curves)


def new_accuracy_by_agreement(
    reach: Reach, source: int, accuracies: Any, radii: Any, balance: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """An estimate of ã(r), accuracy on newly covered rows, and its standard error; no labels.

    Over rows newly covered within r that other sources vote on, let q be the others' posterior under
    even classes and v the extended vote. Given Y, q does not depend on where the row lies, so E[q_v]
    is linear in the share of rows where v is right, with slope E[Σ q_k² − Σ q_k(1 − q_k)/(K − 1)];
    and over *all* rows, where that share is the class balance π_v, it is the mean q̄_v. Hence

        ã = E[π_v] + E[q_v − q̄_v] / slope.

    Anchoring at q̄ matters: where most sources name the same class, the others favour it everywhere.
    Assumes that the others' votes are independent of the extended one given Y, and their accuracies
    and the class balance known. NaN where no other source says anything about the rows.
    """
    votes, grid = reach.votes, as_radii(radii)
    rest, prior = _without(votes, source), class_prior(balance, votes.n_classes)
    q = posterior(rest, np.delete(np.asarray(accuracies, dtype=np.float64), source))
    distance = reach.distance[:, source]
    rows = np.flatnonzero(~votes.cast[:, source] & np.isfinite(distance) & rest.covered)
    if not len(rows):
        return np.full(len(grid), np.nan), np.full(len(grid), np.nan)
    order = rows[np.argsort(distance[rows], kind="stable")]
    vote = reach.nearest[order, source].astype(np.intp)
    right = (q[order] ** 2).sum(axis=1)
    span = right - (1 - right) / (votes.n_classes - 1)
    more = q[order, vote] - q[rest.covered].mean(axis=0)[vote]
    upto = np.searchsorted(distance[order], grid, side="right")
    gain, slope, gains, both, slopes, base = (
        np.concatenate([[0.0], np.cumsum(each)])[upto]
        for each in (more, span, more**2, more * span, span**2, prior[vote])
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(slope > 1e-9, gain / slope, np.nan)
        error = np.sqrt(np.maximum(gains - 2 * ratio * both + ratio**2 * slopes, 0)) / slope
        return np.clip(base / upto + ratio, 0, 1), error


def lift_curve(
    reach: Reach, source: int, accuracies: np.ndarray, *, balance: Any = None, radii: Any = None
) -> LiftCurve:
    """What extending one source is expected to do; parameters as for `choose_radius`."""
    votes, a = reach.votes, float(accuracies[source])
    own = votes.cast[:, source]
    distance = np.where(own, np.inf, reach.distance[:, source])
    silent = distance[np.isfinite(distance)]
    if radii is not None:
        grid = as_radii(radii)
    elif len(silent):
        shares = np.linspace(1 / _GRID, 1, _GRID)
        grid = np.unique(np.quantile(silent, shares, method="higher").astype(np.float64))
    else:
        grid = np.empty(0)
    if not len(silent) or votes.n_sources < 2:
        still = np.zeros(len(grid))
        return LiftCurve(grid, still, still + a, still + a, still)
    estimate, error = new_accuracy_by_agreement(reach, source, accuracies, grid, balance)
    # one standard error below: a few agreeing rows should not buy a large radius
    new = np.clip(estimate - np.nan_to_num(error), 0, 1)
    reached = (distance[:, None] <= grid).mean(axis=0)
    support = float(own.mean())
    extended = (support * a + reached * new) / np.maximum(support + reached, 1e-12)
    rest, others = _without(votes, source), np.delete(accuracies, source)
    q, even = posterior(rest, others, balance), posterior(rest, others)
    kept = _Rows(q[own], even[own], votes.matrix[own, source].astype(np.intp))
    lift, chance = np.full(len(grid), np.nan), 1 / votes.n_classes
    for at in np.flatnonzero(np.isfinite(new)):
        # a source worse than guessing is ignored by the model, never read backwards
        weight = max(float(extended[at]), chance)
        rows = np.flatnonzero(distance <= grid[at])
        fresh = _Rows(q[rows], even[rows], reach.nearest[rows, source].astype(np.intp))
        lift[at] = fresh.gain(chance, weight, float(new[at])) + kept.gain(a, weight, a)
    return LiftCurve(grid, reached, extended, new, lift / votes.n_rows)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows one source votes on: what the others make of them, and its vote."""

    others: np.ndarray  # (n_rows, n_classes) their posterior
    evidence: np.ndarray  # (n_rows, n_classes) the same under even classes
    vote: np.ndarray  # (n_rows,)

    def gain(self, before: float, after: float, true: float) -> float:
        """Gain in probability of the truth when the votes' weight changes from `before` to `after`.

        The truth itself is as likely as the votes' true accuracy and the others' evidence make it.
        """
        change = _updated(self.others, self.vote, after) - _updated(self.others, self.vote, before)
        return float((_updated(self.evidence, self.vote, true) * change).sum())


def _updated(before: np.ndarray, vote: np.ndarray, accuracy: float) -> np.ndarray:
    a = min(max(accuracy, 1e-6), 1 - 1e-6)
    score = np.log(np.maximum(before, 1e-300))
    score[np.arange(len(vote)), vote] += np.log(a) - np.log((1 - a) / (before.shape[1] - 1))
    return softmax(score)


def _without(votes: Votes, source: int) -> Votes:
    keep = [name for index, name in enumerate(votes.sources) if index != source]
    if not keep:
        raise ParameterError(
            "agreement needs at least 2 sources, got 1; add a labeling function or give dev labels"
        )
    return votes.only(keep)
