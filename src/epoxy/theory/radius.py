"""How far each source may speak when no row has a true label.

Four criteria give the lift of extending one source as a function of its radius; the radius chosen
is the one with the largest lift, the smaller one of equals, and none where no lift is positive.

`"theorem"`
    The lower bound of Theorem 1 as the paper sketches it. Proposition 1 divides by p_i², so with
    the coverages of real sources (a few per cent) it is almost always negative and says "none".
`"tight"`
    The same proof without the relaxations that can be measured: Pr(X' ∈ supp λ | d ≤ r) and L(r)
    instead of p_i² (1 + L p_d), the newly covered share itself instead of its lower bound, and the
    exact expectation over what the other sources say instead of ½ (C + 1).
`"smooth"`
    No bound but an estimate: where a source votes is taken to be independent of where labels change
    (the paper's coverage lemma assumes as much), so a lender at distance d disagrees with
    probability m_Y(d) = Pr(Y ≠ Y' | distance d), read off M_Y at each row's own nearest distance.
`"agreement"`
    Ours. Extended votes are compared with what the *other* sources say about the same rows. Given Y
    the two are independent, so their agreement, corrected for how unsure the others are, is an
    estimate of ã(r) itself rather than a bound on it. It needs no smoothness, no pairs, works for
    any number of classes, and counts what a diluted accuracy costs on the source's own rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import AlignmentError, ParameterError
from ..extension import Reach
from ..numerics import softmax
from ..votes import Split, Votes
from .bounds import (
    binary,
    coverage_gain,
    extended_accuracy,
    extended_accuracy_tight,
    new_accuracy,
    new_accuracy_tight,
)
from .lift import Others, class_prior, lift_bound, others_without, posterior, single_lift
from .pairs import DEFAULT, Curve, Scan, as_radii
from .smoothness import Neighbourhood, default_radii, neighbourhoods, smoothness

Criterion = Literal["agreement", "smooth", "tight", "theorem"]

_GRID = 32  # candidate radii per source: finer ones differ by less than the estimate's error


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Pair statistics of a data set on one grid of radii: what the two bounds are made of."""

    radii: np.ndarray  # (n_radii,)
    smoothness: np.ndarray  # (n_radii,) M_Y(r)
    origin: str  # where M_Y comes from
    sources: Mapping[str, Neighbourhood]


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
    criterion: Criterion
    origin: str

    def __repr__(self) -> str:
        extended = sum(radius is not None for radius in self.radius.values())
        return f"RadiusChoice({extended} of {len(self.radius)} sources, by {self.criterion})"


def surroundings(
    train: Split,
    labels: Any,
    *,
    radii: Any = None,
    scan: Scan = DEFAULT,
) -> Surroundings:
    """Measure what the bounds need on `train`.

    Parameters
    ----------
    labels
        M_Y(r) as a `Curve` (measured on dev rows), or one label per row, −1 unknown: a label
        model's own labels of the rows it covers.
    """
    if train.vectors is None:
        raise AlignmentError("surroundings need vectors; build the split as Split(votes, vectors)")
    if isinstance(labels, Curve):
        grid = labels.radii if radii is None else as_radii(radii)
        rough, origin = labels.at(grid), "given curve"
    else:
        grid = default_radii(train.vectors, scan) if radii is None else as_radii(radii)
        rough, origin = smoothness(labels, train.vectors, grid, scan).value, "given labels"
    return Surroundings(grid, rough, origin, neighbourhoods(train, grid, scan))


def choose_radius(
    reach: Reach,
    accuracies: Any,
    *,
    criterion: Criterion = "agreement",
    balance: Any = None,
    radii: Any = None,
    around: Surroundings | None = None,
) -> RadiusChoice:
    """The radius of each source with the largest expected lift, without any true label.

    Parameters
    ----------
    reach
        Each row's nearest vote per source, on the train rows themselves.
    accuracies
        Of the original sources, as a label model estimates them.
    criterion
        `"agreement"`, `"smooth"`, `"tight"` or `"theorem"`; see the module.
    balance
        Class prior; even when None. The two bounds are stated for even classes.
    radii
        Candidates; None takes 32 quantiles of the distances at which some vote changes
        (`"agreement"`) or the grid of `around`.
    around
        `surroundings(...)` of the train split, for every criterion but `"agreement"`.
    """
    votes = reach.votes
    known = np.asarray(accuracies, dtype=np.float64)
    if known.shape != (votes.n_sources,):
        raise AlignmentError(
            f"one accuracy per source: got shape {known.shape} for {votes.n_sources} sources"
        )
    curves = {}
    for index, name in enumerate(votes.sources):
        if criterion == "agreement":
            curves[name] = _by_agreement(reach, index, known, balance, radii)
        else:
            curves[name] = _by_bound(reach, index, known, around, criterion)
    radius: dict[str, float | None] = {}
    for name, curve in curves.items():
        best = curve.best
        radius[name] = None if best is None else float(curve.radii[best])
    origin = "other sources" if around is None else f"M_Y from {around.origin}"
    return RadiusChoice(radius, curves, criterion, origin)


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


def _without(votes: Votes, source: int) -> Votes:
    keep = [name for index, name in enumerate(votes.sources) if index != source]
    if not keep:
        raise ParameterError(
            "agreement needs at least 2 sources, got 1; add a labeling function or give dev labels"
        )
    return votes.only(keep)


def _by_agreement(
    reach: Reach, source: int, accuracies: np.ndarray, balance: Any, radii: Any
) -> LiftCurve:
    votes, a = reach.votes, float(accuracies[source])
    own = votes.cast[:, source]
    distance = np.where(own, np.inf, reach.distance[:, source])
    silent = np.isfinite(distance)
    grid = _candidates(distance[silent]) if radii is None else as_radii(radii)
    if not silent.any() or votes.n_sources < 2:
        return _flat(grid, a)
    estimate, error = new_accuracy_by_agreement(reach, source, accuracies, grid, balance)
    # one standard error below: a few agreeing rows should not buy a large radius
    new = np.clip(estimate - np.nan_to_num(error), 0, 1)
    reached = (distance[:, None] <= grid).mean(axis=0)
    support = float(own.mean())
    extended = (support * a + reached * new) / np.maximum(support + reached, 1e-12)
    rest = _without(votes, source)
    q = posterior(rest, np.delete(accuracies, source), balance)
    even = posterior(rest, np.delete(accuracies, source))
    kept = _Rows(q[own], even[own], votes.matrix[own, source].astype(np.intp))
    lift = np.full(len(grid), np.nan)
    for at in np.flatnonzero(np.isfinite(new)):
        # a source worse than guessing is ignored by the model, never read backwards
        weight = max(float(extended[at]), 1 / votes.n_classes)
        rows = np.flatnonzero(distance <= grid[at])
        fresh = _Rows(q[rows], even[rows], reach.nearest[rows, source].astype(np.intp))
        lift[at] = fresh.gain(1 / votes.n_classes, weight, float(new[at])) + kept.gain(a, weight, a)
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
    n_classes = before.shape[1]
    a = min(max(accuracy, 1e-6), 1 - 1e-6)
    score = np.log(np.maximum(before, 1e-300))
    score[np.arange(len(vote)), vote] += np.log(a) - np.log((1 - a) / (n_classes - 1))
    return softmax(score)


def _by_bound(
    reach: Reach,
    source: int,
    accuracies: np.ndarray,
    around: Surroundings | None,
    criterion: Criterion,
) -> LiftCurve:
    votes = reach.votes
    if around is None:
        raise ParameterError(
            f"criterion {criterion!r} needs pair statistics; pass around=theory.surroundings(...)"
        )
    binary(votes, "Theorem 1")
    place = around.sources[votes.sources[source]]
    a, rough = float(accuracies[source]), np.nan_to_num(around.smoothness, nan=0.5)
    p = posterior(_without(votes, source), np.delete(accuracies, source))[:, 1]
    if criterion == "theorem":
        args = (rough, place.support, place.crossing, place.near)
        extended, new = extended_accuracy(a, *args), new_accuracy(a, *args)
        reached = coverage_gain(place.crossing, place.near, place.support)
        others = Others(others_without(p).performance)
        lift = lift_bound(extended, new, reached=reached, others=others)
        return LiftCurve(around.radii, reached, extended, new, lift)
    silent = ~votes.cast[:, source]
    distance = np.where(silent, reach.distance[:, source], np.inf)
    reached = (distance[:, None] <= around.radii).mean(axis=0)
    if criterion == "tight":
        extended = extended_accuracy_tight(a, rough, place.support_near)
        new = new_accuracy_tight(a, rough, place.crossing)
    else:
        new = _smooth_accuracy(a, rough, place, distance)
        extended = (place.support * a + reached * new) / np.maximum(place.support + reached, 1e-12)
    gains = []
    for radius, whole, fresh in zip(around.radii, extended, new, strict=True):
        rest = p[distance <= radius]
        # a bound on ā leaves open which weight the model learns: take the worst it may be
        most = max(a, 0.5) if criterion == "tight" else max(whole, 0.5)
        weights = np.linspace(max(whole, 0.5), most, 5)
        gains.append(min(single_lift(rest, w, fresh).sum() for w in weights) / votes.n_rows)
    return LiftCurve(around.radii, reached, extended, new, np.array(gains))


def _smooth_accuracy(
    accuracy: float, rough: np.ndarray, place: Neighbourhood, distance: np.ndarray
) -> np.ndarray:
    """ã(r) = mean over B_r of a − (2a − 1) m_Y(d), m_Y read from the rings between the radii."""
    pairs = np.diff(place.near, prepend=0.0)
    differ = np.diff(rough * place.near, prepend=0.0)
    ring = np.where(pairs > 0, differ / np.maximum(pairs, 1e-300), rough)  # (n_radii,)
    fresh = np.sort(distance[np.isfinite(distance)])
    at = np.minimum(np.searchsorted(place.radii, fresh), len(ring) - 1)
    total = np.concatenate([[0.0], np.cumsum(np.clip(ring, 0, 1)[at])])
    upto = np.searchsorted(fresh, place.radii, side="right")
    return accuracy - (2 * accuracy - 1) * total[upto] / np.maximum(upto, 1)


def _candidates(distances: np.ndarray) -> np.ndarray:
    if not len(distances):
        return np.empty(0)
    found = np.quantile(distances, np.linspace(1 / _GRID, 1, _GRID), method="higher")
    return np.unique(found.astype(np.float64))


def _flat(grid: np.ndarray, accuracy: float) -> LiftCurve:
    still = np.zeros(len(grid))
    return LiftCurve(grid, still, still + accuracy, still + accuracy, still)
