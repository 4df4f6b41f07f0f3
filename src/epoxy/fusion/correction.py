"""What hand labels add: they correct the model without labels, they do not replace it.

    logit'(x) = logit(x) + b + θᵀψ(x) + Δ₁ votes(x) + Δ₂ (vectors(x) + neighbours(x)) + (w + Δ₃) likest(x)

ψ are features and votes; b, θ and Δ are drawn to zero by ridges, so this is one convex problem. The whole
logit stands in it as an offset: rows that a person chose by what the model says of them are chosen by x, and
Pr(y | x) does not mind. A label may be wrong, so it is first *believed* as far as the offset makes it likely,

    q_i(k) ∝ Pr(label_i | k) · softmax(offset_i)(k)

and the problem is solved for q to its optimum: no two routes to the same labels give different answers.
Softmax minds only differences between classes, so with U an orthonormal basis of these, and parameters
scaled to ridge one, logits are L = offset + ([ψ, 1/√3] Z + Σ_e v_e S_e) U. Newton steps are found by
conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, helmert, solve_triangular
from scipy.special import logsumexp

from ..numerics import softmax
from .constants import (
    LIKEST_WEIGHT,
    LOUD_FEATURES,
    LOUD_VOTES,
    RIDGE_BIAS,
    RIDGE_PART,
    SLIPS,
)

STEPS, TOLERANCE = 50, 1e-8


@dataclass(frozen=True, eq=False)
class Lesson:
    """Labelled rows as the correction sees them."""

    before: np.ndarray  # (m, K) logits without labels
    sides: dict[str, np.ndarray]  # (m, K) each: parts whose weights may move
    features: np.ndarray | None  # (m, n_features); None where vectors are not heard
    votes: np.ndarray  # (m, K · n_sources) one-hot
    groups: np.ndarray  # (m,) rows that are left out together

    def only(self, some: np.ndarray) -> Lesson:
        """Some of the rows."""
        features = None if self.features is None else self.features[some]
        sides = {name: each[some] for name, each in self.sides.items()}
        return Lesson(self.before[some], sides, features, self.votes[some], self.groups[some])

    def without(self, side: str) -> Lesson:
        """Where a part is not asked."""
        sides = {name: each for name, each in self.sides.items() if name != side}
        return replace(self, sides=sides)

    @cached_property
    def offset(self) -> np.ndarray:
        """Logits that labels correct; (m, K)."""
        likest = self.sides.get("likest")
        return self.before if likest is None else self.before + LIKEST_WEIGHT * likest

    @property
    def weight(self) -> float:
        """The share of rows that are witnesses of their own."""
        return len(np.unique(self.groups)) / max(1, len(self.groups))

    @cached_property
    def differences(self) -> np.ndarray:
        """U; (K − 1, K)."""
        return np.asarray(helmert(self.before.shape[1]))

    @cached_property
    def scaled(self) -> np.ndarray:
        """S at ridge one; (e, m, K − 1)."""
        found = [each @ self.differences.T / np.sqrt(RIDGE_PART) for each in self.sides.values()]
        return np.asarray(found)

    @cached_property
    def psi(self) -> np.ndarray:
        """[ψ, 1/√3]; (m, p)."""
        parts = [LOUD_VOTES * self.votes, np.full((len(self.votes), 1), RIDGE_BIAS**-0.5)]
        if self.features is not None:
            parts.append(LOUD_FEATURES * self.features.astype(np.float64))
        return np.hstack(parts)

    def forward(self, point: np.ndarray) -> np.ndarray:
        """How parameters move the logits; (m, K)."""
        width, at = len(self.differences), self.psi.shape[1] * len(self.differences)
        part = self.psi @ point[:at].reshape(-1, width) + np.tensordot(point[at:], self.scaled, 1)
        return np.asarray(part @ self.differences)

    def back(self, pull: np.ndarray) -> np.ndarray:
        """How logits (m, K) pull at the parameters."""
        pull = pull @ self.differences.T
        return np.concatenate([(self.psi.T @ pull).ravel(), (self.scaled * pull).sum(axis=(1, 2))])

    def bend(self, proba: np.ndarray) -> np.ndarray:
        """One curvature per row, the same for all classes (exact for two); (m,)."""
        found = self.weight * (1 - (proba * proba).sum(axis=1)) / np.sqrt(proba.shape[1] - 1)
        return np.asarray(np.maximum(found, 1e-12))


@dataclass(frozen=True, eq=False)
class Correction:
    """What was learned: a sum over labelled rows, as explanations need, and what follows from it."""

    dual: np.ndarray  # (m, K) how far each label is above what the corrected model says
    moved: dict[str, float]  # Δ
    bias: np.ndarray  # (K,)
    held_out: np.ndarray  # (m, K) logits of the labelled rows as if their group were not labelled


def correct(lesson: Lesson, believed: np.ndarray) -> Correction:
    """Solve it for labels as far as they are believed, (m, K), and leave every group out in turn."""
    weight, logits = lesson.weight, lesson.offset
    point = np.zeros(lesson.psi.shape[1] * len(lesson.differences) + len(lesson.scaled))
    precondition = _preconditioner(lesson)

    def loss(logits: np.ndarray, point: np.ndarray) -> float:
        total = logsumexp(logits, axis=1).sum() - (believed * logits).sum()
        return float(weight * total + point @ point / 2)

    for _ in range(STEPS):
        proba = softmax(logits)
        slope = weight * lesson.back(proba - believed) + point
        size = float(np.linalg.norm(slope))
        if size <= TOLERANCE:
            break

        def curve(step: np.ndarray, proba: np.ndarray = proba) -> np.ndarray:
            moved = lesson.forward(step)
            moved = proba * (moved - (proba * moved).sum(axis=1, keepdims=True))
            return np.asarray(weight * lesson.back(moved) + step)

        enough = max(min(0.1, size) * size, 0.1 * TOLERANCE)
        step = _conjugate_gradients(curve, -slope, precondition, enough)
        moved, length, value = lesson.forward(step), 1.0, loss(logits, point)
        while size >= 1e-5 and length > 1e-10:
            if loss(logits + length * moved, point + length * step) <= value:
                break
            length /= 2
        point, logits = point + length * step, logits + length * moved
    dual = weight * (believed - softmax(logits))
    told = {name: float((each * dual).sum()) / RIDGE_PART for name, each in lesson.sides.items()}
    held_out = _left_out(lesson, logits, believed)
    return Correction(dual, told, dual.sum(axis=0) / RIDGE_BIAS, held_out)


Operator = Callable[[np.ndarray], np.ndarray]


def _preconditioner(lesson: Lesson) -> Operator:
    """The curvature before anything is learned; of the parts beside ψ its diagonal."""
    bend, width = lesson.bend(softmax(lesson.offset)), len(lesson.differences)
    factor = cho_factor(_curvature(lesson.psi, bend), lower=True, check_finite=False)
    rank = lesson.psi.shape[1]
    diagonal = 1 + float(bend.mean()) * np.square(lesson.scaled).sum(axis=(1, 2))

    def apply(residual: np.ndarray) -> np.ndarray:
        right = residual[: rank * width].reshape(rank, width)
        rest = cho_solve(factor, right, check_finite=False)
        return np.concatenate([rest.ravel(), residual[rank * width :] / diagonal])

    return apply


def _conjugate_gradients(
    curve: Operator, right: np.ndarray, precondition: Operator, enough: float
) -> np.ndarray:
    found, residual = np.zeros_like(right), right.copy()
    scaled = precondition(residual)
    step, both = scaled, float(residual @ scaled)
    for _ in range(500):
        bent = curve(step)
        length = both / float(step @ bent)
        found += length * step
        residual -= length * bent
        if float(np.sqrt(residual @ residual)) <= enough:
            break
        scaled = precondition(residual)
        fresh = float(residual @ scaled)
        step, both = scaled + (fresh / both) * step, fresh
    return found


def _curvature(table: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """Of columns at ridge one: tableᵀ diag(bend) table + 1."""
    return np.asarray((table.T * bend) @ table + np.eye(table.shape[1]))


def _left_out(lesson: Lesson, logits: np.ndarray, believed: np.ndarray) -> np.ndarray:
    """Logits of labelled rows as if their group had not been labelled, (m, K).

    One Newton step from the fitted point, in closed form: with W the curvatures (`bend`), the kernel A of
    all that is learned and S = (A⁻¹ + W)⁻¹, a group g has  L_g + (I − S_gg W_g)⁻¹ S_gg (weight (P − q))_g.
    """
    proba = softmax(logits)
    bend, excess = lesson.bend(proba), lesson.weight * (proba - believed)
    sides = lesson.scaled.transpose(1, 0, 2).reshape(len(logits), -1)
    table = np.hstack([lesson.psi, sides / np.sqrt(len(lesson.differences))])
    factor = cholesky(_curvature(table, bend), lower=True)
    half = solve_triangular(factor, table.T, lower=True, check_finite=False)
    alone = np.einsum("ij,ij->j", half, half)
    found = logits + (alone / (1 - alone * bend))[:, None] * excess
    sizes = np.unique(lesson.groups, return_counts=True)[1]
    order = np.argsort(lesson.groups, kind="stable")
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if len(rows) > 1:
            own = half[:, rows].T @ half[:, rows]
            left = np.eye(len(rows)) - own * bend[rows]
            found[rows] = logits[rows] + np.linalg.solve(left, own @ excess[rows])
    return np.asarray(found)


def believed(logits: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """q: labels as far as they are believed, from Pr(label_i | k); (m, K)."""
    found = softmax(logits) * likelihood
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def slips(wrong: np.ndarray, n_classes: int) -> np.ndarray:
    """How often each label is taken to be wrong, from how often it is told to be; (m,).

    One slip among few would bend all that a sure model says. Among many the others outvote it, and where
    many contradict a sure model it is the model that errs.
    """
    most = 0.95 * (n_classes - 1) / n_classes
    least = np.clip(1 / max(1, len(wrong)), *SLIPS)
    return np.asarray(np.clip(wrong, least, max(most, least)))
