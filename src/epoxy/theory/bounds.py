"""The paper's propositions, lemmas and theorems as formulas: numbers or arrays in, numbers out.

Two classes; accuracies are Pr(vote = Y | votes). Every docstring holds the equation and what it
assumes. `docs/research/paper.md` lists where the printed text and its proof differ and which one is used.

Risk is the expected ½|Y − f(X)| = 1 − Pr(true class), so lift is the gain in probability given to
the truth. The label model is the paper's Algorithm 2: sources independent given Y, an abstention
says nothing, a wrong vote is equally likely for every wrong class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import AlignmentError, NotIdentifiable, ParameterError, VoteError
from ..numerics import softmax
from ..shares import checked_shares
from ..votes import Votes

_CERTAIN = 1e-6  # accuracies of exactly 0 or 1 would let one vote overrule all others for ever


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
        if votes.n_classes != 2:
            raise VoteError(
                f"Theorem 1 is a statement about 2 classes, these votes have {votes.n_classes}; "
                "take one class against the rest"
            )
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


def posterior(votes: Votes, accuracies: Any, balance: Any = None) -> np.ndarray:
    """Pr(Y = k | votes) of each row by Algorithm 2, given accuracies; (n_rows, n_classes).

    Pr(λ_i = v | Y = k) ∝ a_i for v = k and (1 − a_i)/(K − 1) otherwise. `balance` is the class
    prior, even when None.
    """
    known = np.clip(np.asarray(accuracies, dtype=np.float64), _CERTAIN, 1 - _CERTAIN)
    if np.isnan(known).any():
        raise ParameterError("accuracies must be numbers, got NaN; leave out sources without one")
    if len(known) != votes.n_sources:
        raise AlignmentError(
            f"one accuracy per source: got {len(known)} accuracies for {votes.n_sources} sources"
        )
    score = np.tile(np.log(class_prior(balance, votes.n_classes)), (votes.n_rows, 1))
    gains = np.log(known) - np.log((1 - known) / (votes.n_classes - 1))
    for column, gain in zip(votes.matrix.T, gains, strict=True):
        rows = np.flatnonzero(column >= 0)
        score[rows, column[rows]] += gain
    return softmax(score)


def class_prior(balance: Any, n_classes: int) -> np.ndarray:
    """A class prior as an array: even, from Pr(Y = 1), or one probability per class."""
    if balance is None:
        return np.full(n_classes, 1 / n_classes)
    given = np.atleast_1d(np.asarray(balance, dtype=np.float64))
    prior = np.array([1 - given[0], given[0]]) if given.size == 1 and n_classes == 2 else given
    return checked_shares(prior, n_classes, "the posterior")


@dataclass(frozen=True)
class Others:
    """What the other sources already achieve without the one that is extended.

    `performance` is C = E[p(X) | p(X) ≥ ½, Y = 1] and `mostly_right` is Pr(p(X) ≥ ½ | Y = 1), which
    the theorem replaces by its least value ½.
    """

    performance: float
    mostly_right: float = 0.5

    @classmethod
    def without(cls, probabilities: Any) -> Others:
        """From p(X) = Pr(Y = 1 | λ_{−i}) of each row.

        Assumes it is calibrated: rows are weighted by p for Y = 1 and by 1 − p for Y = −1, and the
        two classes are alike.
        """
        p = np.asarray(probabilities, dtype=np.float64)
        truth = np.concatenate([p, 1 - p])  # probability given to the true class, and its weight
        sure = truth[truth >= 0.5]
        mass = float(sure.sum())
        performance = float((sure**2).sum() / mass) if mass else 0.5
        return cls(performance, mass / float(truth.sum()))


def agreement_floor(extended: Any, new: Any) -> np.ndarray:
    """The least ã ā + (1 − ã)(1 − ā) that lower bounds on ã and ā allow.

    The expression falls and then *rises* again as both accuracies sink below ½, so putting lower
    bounds into it, as printed, can overstate: with both at −5 it is 61. Its least value over the
    box [bound, 1]² lies on a corner. Equal to the printed one where both bounds are at least ½.
    """
    whole = np.clip(np.asarray(extended, dtype=np.float64), 0, 1)
    fresh = np.clip(np.asarray(new, dtype=np.float64), 0, 1)
    both = fresh * whole + (1 - fresh) * (1 - whole)
    return np.minimum(np.minimum(both, whole), fresh)


def lift_bound(extended: Any, new: Any, *, reached: Any, others: Others) -> np.ndarray:
    """R(f_WS) − R(f_E) ≥ Pr(B_r) ((h + C (1 − h)) (ã ā + (1 − ã)(1 − ā)) − C), Theorem 1.

    Parameters
    ----------
    extended, new
        Lower bounds on ā and ã (or measured values).
    reached
        Pr(X ∈ B_r): `coverage_gain(...)` for the theorem as printed, or measured.
    others
        C, and h = Pr(p(X) ≥ ½ | Y = 1). The theorem prints h = ½, which gives ½ (C + 1).

    Assumes two even classes and one source extended. Where the bracket is negative the theorem
    promises nothing: a lower bound times a lower bound of a negative factor is no bound.
    """
    half, performance = others.mostly_right, others.performance
    factor = half + performance * (1 - half)
    return np.asarray(reached * (factor * agreement_floor(extended, new) - performance))


def single_lift(probability: Any, extended: Any, new: Any) -> np.ndarray:
    """Exact expected lift on newly covered rows when one source is extended, two classes.

    For p = p(X) from the other sources, u₊ = āp/(āp + (1 − ā)(1 − p)), u₋ likewise with 1 − ā:
    p (ã u₊ + (1 − ã) u₋ − p) + (1 − p) (p − ã u₋ − (1 − ã) u₊). This is the line of Theorem 1's
    proof before the denominators are bounded. Multiply by Pr(B_r) for the lift of all rows.
    """
    p = np.asarray(probability, dtype=np.float64)
    up = extended * p / np.maximum(extended * p + (1 - extended) * (1 - p), 1e-300)
    down = (1 - extended) * p / np.maximum((1 - extended) * p + extended * (1 - p), 1e-300)
    right = new * up + (1 - new) * down - p
    wrong = p - new * down - (1 - new) * up
    return np.asarray(p * right + (1 - p) * wrong)


def _edge(accuracy: Any) -> Any:
    """2a − 1, what disagreement costs; nothing for a source worse than guessing."""
    return np.maximum(2 * np.asarray(accuracy) - 1, 0.0)
