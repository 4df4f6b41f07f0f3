"""The reference implementation's arithmetic for one binary task, re-derived, in closed form.

It differs from the paper in ways that change numbers, and is kept so that published ones can be
checked:

* moments are unconditional, Mᵢⱼ = (1/n)·Σλᵢλⱼ with 0 for abstain, and all E[λY] are taken ≥ 0;
* a triplet whose denominator is zero counts as the estimate 0;
* with E = E[λY] and q = (1 + E − Pr(λ=0))/2 = Pr(λ = Y), the table solves to
  Pr(+,+) = (Pr(λ=+) + Pr(Y=+)·(1 − Pr(λ=0)) + q − (1 − Pr(λ=0)))/2, the rest by subtraction, with
  Pr(λ=0, y) = Pr(λ=0)·Pr(y); negative entries are replaced by their absolute value and the table is
  rescaled to sum to 1;
* the posterior is ∏ Pr(λᵢ, y) / Pr(y)^(m−2), one factor of the prior too many.
"""

from __future__ import annotations

import numpy as np

from ..errors import NotIdentifiable, ParameterError, UnknownName
from .moments import Moments

_TINY = 1e-300  # log of an exact zero; far below anything a table of counts can hold


def fit(summary: Moments, balance: np.ndarray, solve: str) -> tuple[np.ndarray, np.ndarray]:
    """log Pr(vote, class) − log Pr(class) per source, and E[λY] as a probability of being right."""
    if len(summary.classes) != 2:
        raise ParameterError(
            f"compat='flyingsquid' knows two classes, got {len(summary.classes)}; use compat=None"
        )
    if len(summary.sources) < 3:
        raise NotIdentifiable(
            f"Triplet needs at least 3 sources, got {len(summary.sources)} {list(summary.sources)}; "
            "add a labeling function or use Fusion or MajorityVote"
        )
    n = max(1, summary.n_rows)
    signed = np.where(summary.named == 1, 1.0, -1.0)
    moment = np.zeros((len(summary.sources),) * 2)
    at = (summary.source[:, None], summary.source[None, :])
    np.add.at(
        moment, at, np.outer(signed, signed) * summary.joint
    )  # whole numbers: zeros stay zero
    accuracy = _expectations(moment / n, solve)
    table = _tables(summary.counts / n, accuracy, balance)
    return np.log(np.maximum(table, _TINY)) - np.log(balance), (1 + accuracy) / 2


def log_prior(balance: np.ndarray) -> np.ndarray:
    """Twice the prior: tables are divided by Pr(y) once each, the reference by m − 2 of them."""
    return np.asarray(2 * np.log(balance))


def _expectations(moment: np.ndarray, solve: str) -> np.ndarray:
    """E[λᵢY] per source: triplets aggregated, zero denominators counted as zero estimates."""
    m = len(moment)
    first, second = np.triu_indices(m, 1)
    below = moment[first, second]
    found = np.empty(m)
    for source in range(m):
        pair = (first != source) & (second != source)
        above = moment[source, first[pair]] * moment[source, second[pair]]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.sqrt(np.abs(above / below[pair]))
        value[below[pair] == 0] = 0.0
        if solve == "median":
            found[source] = np.median(value)
        elif solve == "mean":
            found[source] = value.mean()
        else:
            raise UnknownName.of("solve", solve, ["median", "mean"])
    return found


def _tables(shares: np.ndarray, accuracy: np.ndarray, balance: np.ndarray) -> np.ndarray:
    """Pr(vote, class) for each source; (n_sources, 3, 2), vote order abstain, class 0, class 1."""
    positive = balance[1]
    votes = shares.sum(axis=1)
    right = (accuracy + votes) / 2
    both = (shares[:, 1] + positive * votes + right - votes) / 2
    table = np.empty((len(accuracy), 3, 2))
    table[:, 0] = (1 - votes)[:, None] * balance
    table[:, 1, 0], table[:, 1, 1] = right - both, positive * votes - both
    table[:, 2, 0], table[:, 2, 1] = shares[:, 1] - both, both
    table = np.abs(table)
    return np.asarray(table / table.sum(axis=(1, 2), keepdims=True))
