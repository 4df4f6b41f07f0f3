"""The paper's propositions, lemmas and theorems as formulas: numbers or arrays in, numbers out.

Two classes; accuracies are Pr(vote = Y | votes). Every docstring holds the equation and what it
assumes. `docs/theory.md` lists where the printed text and its proof differ and which one is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import NotIdentifiable, ParameterError, VoteError
from ..votes import Votes


def minimum_overlap(votes: Votes) -> float:
    """o_min = min_i max_{j≠i} Pr(X ∈ supp λ_i ∩ supp λ_j), measured.

    Give the extended votes for the overlap after extension. It never falls under extension.
    """
    if votes.n_sources < 2:
        raise NotIdentifiable(
            f"overlap needs at least 2 sources, got {votes.n_sources}; add a labeling function"
        )
    cast = votes.cast.astype(np.float64)
    overlap = cast.T @ cast / max(1, votes.n_rows)
    np.fill_diagonal(overlap, -1)
    return float(overlap.max(axis=1).min())


def coverage_gain(crossing: Any, near: Any, support: Any = 1.0) -> Any:
    """Pr(X ∈ B_r(λ_i)) ≥ L(r) p_d(r) p_i, the least share of rows an extension newly covers.

    With `support` = p_i this is the paper's lemma; it assumes that where a source votes is
    independent of how many near rows there are. With `support` left at 1 it is the same event
    before that step: L p_d = Pr(λ(X) = 0, λ(X') ≠ 0, d ≤ r) already implies X ∈ B_r, with no
    assumption and 1/p_i times as large.
    """
    return crossing * near * support


def overlap_growth(crossing: Any, near: Any) -> Any:
    """Overlap of two extended sources ≥ (1 + (2 L_min − L_min²) p_d(r_min)) o_min.

    `crossing` is the smaller L of the two at the smaller radius. Assumes that the two supports are
    independent of each other and of the density of rows.
    """
    return 1 + (2 * crossing - crossing**2) * near


def rate_improvement(crossing: Any, near: Any) -> Any:
    """√(1 + (2 L_min − L_min²) p_d(r_min)): how much faster accuracies are learned, Theorem 1."""
    return np.sqrt(overlap_growth(crossing, near))


def extended_accuracy(
    accuracy: Any, smoothness: Any, support: Any, crossing: Any, near: Any
) -> Any:
    """ā ≥ a − (2a − 1) M_Y(r) / (p_i² (1 + L(r) p_d(r))), Proposition 1 as printed.

    Assumes even accuracy over the support, a random neighbour within r as the lender, and near
    pairs no rarer inside the support than elsewhere. May be far below 0: p_i² is small. For a < ½,
    which the paper leaves out, lending cannot make a source worse, and the bound is a.
    """
    return accuracy - _edge(accuracy) * smoothness / (support**2 * (1 + crossing * near))


def extended_accuracy_tight(accuracy: Any, smoothness: Any, support_near: Any) -> Any:
    """ā ≥ a − (2a − 1) min(1, M_Y(r) / Pr(X' ∈ supp λ | d ≤ r)).

    Proposition 1's proof stopped at its first bound on h(r) = Pr(Y ≠ Y' | X' ∈ supp λ, d ≤ r): a
    row within r of the support is in the extended support by construction, so the printed
    Pr(X ∈ supp λ̄, X' ∈ supp λ | d ≤ r) is Pr(X' ∈ supp λ | d ≤ r), which is measured instead of
    being relaxed to p_i² (1 + L p_d). Never below 1 − a, because h ≤ 1.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        disagreement = np.where(support_near > 0, smoothness / np.asarray(support_near), 1.0)
    return accuracy - _edge(accuracy) * np.clip(np.nan_to_num(disagreement, nan=1.0), 0, 1)


def new_accuracy(accuracy: Any, smoothness: Any, support: Any, crossing: Any, near: Any) -> Any:
    """ã ≥ ā − (2a − 1) M_Y(r) / (L p_d p_i² (1 + L p_d)): accuracy on the newly covered rows B_r.

    ā is Proposition 1's bound; Theorem 1 as printed. Minus infinity where nothing is newly covered.
    """
    whole = extended_accuracy(accuracy, smoothness, support, crossing, near)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = (accuracy - whole) / np.asarray(crossing * near, dtype=np.float64)
    return whole - np.nan_to_num(loss, nan=np.inf, posinf=np.inf)


def new_accuracy_tight(accuracy: Any, smoothness: Any, crossing: Any) -> Any:
    """ã ≥ a − (2a − 1) min(1, M_Y(r) / L(r)).

    The argument of Proposition 1 applied to B_r itself: Pr(Y ≠ Y' | X ∉ supp λ, X' ∈ supp λ, d ≤ r)
    ≤ M_Y / Pr(X ∉ supp λ, X' ∈ supp λ | d ≤ r), and the denominator is the glossary's L. Needs
    neither p_i nor p_d. Never below 1 − a.
    """
    return extended_accuracy_tight(accuracy, smoothness, crossing)


def inherited_smoothness(model_smoothness: Any, risk: Any) -> Any:
    """M_Y(r) ≤ M_f(r) + 2 R(f), Proposition 2: labels are as smooth as a good model of them.

    R is the 0/1 risk. Assumes the model errs as often on rows with many near rows as on others; in
    general the risk that counts is that of a near pair, Pr(f(X) ≠ Y | d(X, X') ≤ r).
    """
    return model_smoothness + 2 * risk


def extended_source_risk(accuracy: Any, label_smoothness: Any, support: Any, growth: Any) -> Any:
    """R(λ̄_i) ≤ 1 − a + (2a − 1) (M_f(d_V) + 2 R(f)) / (p_i² (1 + L(d_V) p_d(d_V))).

    For one source extended until it covers every row: d_V is the radius that takes.
    `label_smoothness` is `inherited_smoothness(M_f, R)` or a measured M_Y; `growth` is L p_d.
    """
    return 1 - accuracy + _edge(accuracy) * label_smoothness / (support**2 * (1 + growth))


def epoxy_risk(source_risks: Any, shares: Any, uncovered: float, balance: float = 0.5) -> float:
    """R(f_E) ≤ 2b · E_i[risk bound of source i] + 2 Pr(X ∈ X₀) p(1 − p), Theorem 2.

    Parameters
    ----------
    source_risks
        Per source, `extended_source_risk` with its specialised model and radius.
    shares
        Per source, Pr(X ∈ X_i) of the region it alone is made to answer for; with `uncovered` they
        sum to 1.
    uncovered
        Pr(X ∈ X₀), rows no extended source reaches.
    balance
        p = Pr(Y = 1); b = max(p/(1 − p), (1 − p)/p).
    """
    weights = _regions(shares, uncovered, balance)
    odds = max(balance / (1 - balance), (1 - balance) / balance)
    covered = float((weights * np.asarray(source_risks)).sum())
    return 2 * odds * covered + 2 * uncovered * balance * (1 - balance)


def disjoint_risk(accuracies: Any, shares: Any, uncovered: float, balance: float = 0.5) -> float:
    """R(f_E) ≤ 2p(1 − p) (Σ Pr(X_i) ā(1 − ā)(1/D + 1/D') + Pr(X ∈ X₀)), Theorem 2 unrelaxed.

    D = āp + (1 − ā)(1 − p) and D' = (1 − ā)p + ā(1 − p). This is the risk itself where every row is
    left to one source, from which the proof goes on to bound the fractions, and ā by Proposition 1.
    `accuracies` are of the extended sources; the other parameters are those of `epoxy_risk`. Assumes
    two-sided sources as accurate in their regions as elsewhere.
    """
    weights = _regions(shares, uncovered, balance)
    a, p = np.asarray(accuracies, dtype=np.float64), balance
    first, second = a * p + (1 - a) * (1 - p), (1 - a) * p + a * (1 - p)
    voted = float((weights * a * (1 - a) * (1 / first + 1 / second)).sum())
    return 2 * p * (1 - p) * (voted + uncovered)


def _regions(shares: Any, uncovered: float, balance: float) -> np.ndarray:
    if not 0 < balance < 1:
        raise ParameterError(
            f"max odds need 0 < balance < 1, got {balance}; drop the empty class or check its units"
        )
    weights = np.asarray(shares, dtype=np.float64)
    total = float(weights.sum()) + uncovered
    if abs(total - 1) > 1e-6:
        raise ParameterError(
            f"regions and the uncovered share must sum to 1, got {total:.4f}; "
            "give each row to one source"
        )
    return weights


@dataclass(frozen=True)
class Constants:
    """What the estimation error depends on besides rows and overlap (Theorem 1).

    Parameters
    ----------
    rarest
        c_p, the probability of the rarest pattern of votes.
    weakest
        e_min, a lower bound on E[λ_i Y | λ_i ≠ 0] = 2a − 1.
    agreement
        c_1, a lower bound on |E[λ_i λ_j | both vote]|.
    positive
        c_2 = E[Pr(Y = 1 | votes)].
    balance
        p = Pr(Y = 1); the theorem's text sets it to ½, its proof carries it.
    """

    rarest: float
    weakest: float
    agreement: float
    positive: float = 0.5
    balance: float = 0.5

    @classmethod
    def of(cls, votes: Votes, accuracies: Any, balance: float = 0.5) -> Constants:
        """Measured on votes, with accuracies of the sources as a label model gives them."""
        binary(votes, "Theorem 1")
        signed = votes.to_signed()
        _, counts = np.unique(signed, axis=0, return_counts=True)
        both = votes.cast.T.astype(float) @ votes.cast
        with np.errstate(invalid="ignore", divide="ignore"):
            moments = np.abs(signed.T @ signed / both)
        pairs = ~np.eye(votes.n_sources, dtype=bool) & (both > 0)
        if not pairs.any():
            raise NotIdentifiable(
                "no two sources vote on the same row, so nothing can be estimated; "
                "add overlapping sources or extend them"
            )
        rarest, agreement = float(counts.min() / votes.n_rows), float(moments[pairs].min())
        weakest = float(np.abs(2 * np.asarray(accuracies) - 1).min())
        return cls(rarest, weakest, agreement, balance, balance)


def estimation_error(
    constants: Constants, *, n_rows: int, n_sources: int, overlap: float, delta: float = 0.05
) -> float:
    """E|R(f) − R(f̂)| ≤ (81 √π p m / (e_min c_1² √(n o_min)) + ε_n c_2) / (c_p − ε_n), Theorem 1.

    ε_n = √(log(2/δ) / 2n); holds with probability at least 1 − δ. For WS give the constants and
    o_min of the votes; for Epoxy those of the extended votes, or o_min times `overlap_growth`.
    Infinite where the theorem says nothing: too few rows for the rarest pattern, a zero constant.
    """
    if n_rows < 1 or not 0 < delta < 1:
        raise ParameterError(
            f"estimation_error needs rows and 0 < delta < 1, got n_rows={n_rows}, delta={delta}; "
            "write 0.05 for 95 %"
        )
    slack = math.sqrt(math.log(2 / delta) / (2 * n_rows))
    room = constants.rarest - slack
    scale = constants.weakest * constants.agreement**2 * math.sqrt(n_rows * max(overlap, 0.0))
    if room <= 0 or scale <= 0:
        return math.inf
    learning = 81 * math.sqrt(math.pi) * constants.balance * n_sources / scale
    return (learning + slack * constants.positive) / room


def _edge(accuracy: Any) -> Any:
    """2a − 1, what disagreement costs; nothing for a source worse than guessing."""
    return np.maximum(2 * np.asarray(accuracy) - 1, 0.0)


def binary(votes: Votes, who: str) -> None:
    """Refuse more than two classes where the mathematics knows two."""
    if votes.n_classes != 2:
        raise VoteError(
            f"{who} is a statement about 2 classes, these votes have {votes.n_classes}; "
            "take one class against the rest, or use criterion='agreement'"
        )
