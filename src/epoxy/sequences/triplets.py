"""Accuracies by triplets whose members may sit on different elements.

With θᵢ = (K·Pr(λᵢ = Y | λᵢ ≠ 0) − 1)/(K − 1) a source's vote given its element's class is uniform
with weight 1 − θᵢ and right with weight θᵢ. For sources on elements s and t therefore

    M_ij = (K·Pr(λᵢ = λⱼ | both vote) − 1)/(K − 1) = θᵢ θⱼ ρ_st,   ρ_st = (K·Pr(Y^s = Y^t) − 1)/(K − 1)

whatever the class balance, because Σ_k Pr(k | y) Pr(k | y') = 1/K + θᵢθⱼ(1{y = y'} − 1/K). On one
element ρ = 1 and this is the plain triplet. With i and j on one element and k on a neighbour

    M_ij · M_ik / M_jk = θᵢ²   because ρ_st cancels,

so neighbours serve as partners although nothing is known about how labels move; k may even be source
i itself, one step on, hence two sources suffice on a chain whose parameters are tied. If ρ is known
(labels' joint balance given), any two partners do, after dividing it out.

Rejected: taking all pairs of columns as if they shared one label, as the reference does. It is exact
only when no label has a preference of its own; a rare class biases it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SOLVE = ("median", "mean", "overlap")
_CLEAR = 2.0  # standard errors a denominator must keep from zero while better triplets exist
_SUREST = (
    0.98  # |θ| stays below it: agreement cannot tell a perfect source from a nearly perfect one
)


@dataclass(frozen=True, eq=False)
class Partners:
    """Agreements among the sources of one element (the first `n_here` columns) and its neighbours."""

    moment: np.ndarray  # (n_columns, n_columns) M, only read where overlap > 0
    overlap: np.ndarray  # (n_columns, n_columns) rows behind each M
    barred: np.ndarray  # (n_columns, n_columns) bool: pairs that depend on each other beyond labels
    alike: np.ndarray  # (n_columns, n_columns) ρ between their elements, NaN where unknown
    n_here: int


def solve(partners: Partners, how: str) -> np.ndarray:
    """|θ| of every source of the element, NaN where no triplet answers; (n_here,)."""
    return np.array([_solve_one(partners, source, how) for source in range(partners.n_here)])


def _solve_one(partners: Partners, source: int, how: str) -> float:
    M, overlap, alike = partners.moment, partners.overlap, partners.alike
    first, second = np.triu_indices(len(M), 1)
    usable = ~partners.barred & (overlap > 0)
    keep = usable[source, first] & usable[source, second] & usable[first, second]
    # one partner beside the source makes ρ cancel; otherwise it must be known
    beside = first < partners.n_here
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = alike[first, second] / (alike[source, first] * alike[source, second])
        squared = M[source, first] * M[source, second] / M[first, second]
        squared = squared * np.where(beside, 1.0, factor)
    keep &= np.isfinite(squared)
    clear = keep & (
        np.abs(M[first, second]) > _CLEAR / np.sqrt(np.maximum(overlap[first, second], 1))
    )
    keep = clear if clear.any() else keep
    if not keep.any():
        return float("nan")
    value = np.sqrt(np.abs(squared[keep]))
    if how == "overlap":
        least = np.minimum(overlap[source, first], overlap[source, second])
        return float(value[np.minimum(least, overlap[first, second])[keep].argmax()])
    return float(np.median(value) if how == "median" else value.mean())


def signs(moment: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """+1, or −1 for a source that contradicts the rest: the side the leading eigenvector puts it on.

    On the whole sources are taken to know better than chance.
    """
    known = np.where(weight > 0, moment, 0.0)
    np.fill_diagonal(known, 0.0)
    leading = np.linalg.eigh(known)[1][:, -1]
    leading = leading if leading.sum() >= 0 else -leading
    return np.where(leading < -1e-9, -1.0, 1.0)


def one_coin(theta: np.ndarray, coverage: np.ndarray, n_classes: int) -> np.ndarray:
    """Pr(vote | class), (n_sources, 1 + n_classes, n_classes): abstaining says nothing (Lemma 2)."""
    theta = np.clip(theta, -_SUREST, _SUREST)
    # for K > 2 a vote worse than chance can at most be never right: θ ≥ −1/(K − 1)
    theta = np.maximum(theta, -_SUREST / (n_classes - 1))[:, None, None]
    said = (1 - theta) / n_classes + theta * np.eye(n_classes)
    table = np.empty((len(coverage), 1 + n_classes, n_classes))
    table[:, 0] = (1 - coverage)[:, None]
    table[:, 1:] = coverage[:, None, None] * said
    return table
