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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, helmert, solve_triangular

from ..numerics import softmax
from .constants import LOUD_FEATURES, LOUD_VOTES, RIDGE_BIAS, RIDGE_LIKEST, RIDGE_PARTS, SLIPS

STEPS, TOLERANCE = 50, 1e-8
LARGE = 512
"""Rows from which curvature is multiplied in float32; gradients never are."""
RIDGES = {"votes": RIDGE_PARTS, "vectors": RIDGE_PARTS, "likest": RIDGE_LIKEST}


@dataclass(frozen=True, eq=False)
class Problem:
    """Labelled rows as the correction sees them."""

    offset: np.ndarray  # (m, K) logits before
    sides: dict[str, np.ndarray]  # (m, K) each: parts whose weights may move
    features: np.ndarray | None  # (m, n_features); None without vectors
    votes: np.ndarray  # (m, K · n_sources) one-hot, centred
    believed: np.ndarray  # (m, K) q
    groups: np.ndarray  # (m,) rows that are left out together

    @property
    def weight(self) -> float:
        """The share of rows that are witnesses of their own."""
        return len(np.unique(self.groups)) / max(1, len(self.groups))

    @cached_property
    def differences(self) -> np.ndarray:
        """U; (K − 1, K)."""
        return np.asarray(helmert(self.offset.shape[1]))

    @cached_property
    def scaled(self) -> np.ndarray:
        """S at ridge one; (e, m, K − 1)."""
        width = len(self.differences)
        found = [
            each @ self.differences.T / np.sqrt(RIDGES[name]) for name, each in self.sides.items()
        ]
        return np.asarray(found) if found else np.zeros((0, len(self.offset), width))

    @cached_property
    def psi(self) -> np.ndarray:
        """[ψ, 1/√3], or where rows are fewer a root of its kernel: other columns with the same products."""
        votes: np.ndarray = LOUD_VOTES * self.votes
        found = votes
        if self.features is not None:
            found = np.hstack([LOUD_FEATURES * self.features.astype(np.float64), votes])
        if len(found) < found.shape[1]:
            kernel = found @ found.T
            size = max(float(kernel.trace()) / len(kernel), 1e-12)
            found = np.linalg.cholesky(kernel + 1e-9 * size * np.eye(len(kernel)))
        return np.hstack([found, np.full((len(found), 1), RIDGE_BIAS**-0.5)])

    @cached_property
    def rough(self) -> np.ndarray:
        """The same for curvature."""
        return self.psi.astype(np.float32) if len(self.psi) > LARGE else self.psi

    def forward(self, point: np.ndarray, psi: np.ndarray) -> np.ndarray:
        """How parameters move the logits; (m, K)."""
        width, at = len(self.differences), psi.shape[1] * len(self.differences)
        part = psi @ point[:at].reshape(-1, width).astype(psi.dtype)
        part = part + np.tensordot(point[at:], self.scaled, 1)
        return np.asarray(part @ self.differences)

    def back(self, pull: np.ndarray, psi: np.ndarray) -> np.ndarray:
        """How logits (m, K) pull at the parameters."""
        pull = pull @ self.differences.T
        part = psi.T @ pull.astype(psi.dtype)
        return np.concatenate([part.ravel(), (self.scaled * pull).sum(axis=(1, 2))])

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


def correct(problem: Problem) -> Correction:
    """Solve it, and leave every group out in turn."""
    offset, q, weight = problem.offset, problem.believed, problem.weight
    width = len(problem.differences)
    point = np.zeros(problem.psi.shape[1] * width + len(problem.scaled))
    precondition = _preconditioner(problem)
    logits = offset
    value, proba = _loss(problem, logits, point)
    for _ in range(STEPS):
        slope = weight * problem.back(proba - q, problem.psi) + point
        size = float(np.sqrt(slope @ slope))
        if size <= TOLERANCE:
            break

        def curve(step: np.ndarray, proba: np.ndarray = proba) -> np.ndarray:
            moved = problem.forward(step, problem.rough)
            moved = proba * (moved - (proba * moved).sum(axis=1, keepdims=True))
            return np.asarray(weight * problem.back(moved, problem.rough) + step)

        enough = max(min(0.1, size) * size, 0.1 * TOLERANCE)
        step = _conjugate_gradients(curve, -slope, precondition, enough)
        moved, length = problem.forward(step, problem.psi), 1.0
        while True:
            made = _loss(problem, logits + length * moved, point + length * step)
            falls = made[0] <= value + 1e-4 * length * float(slope @ step)
            if falls or size < 1e-5 or length < 1e-10:
                break
            length /= 2
        point, logits = point + length * step, logits + length * moved
        value, proba = made
    dual = weight * (q - softmax(logits))
    moved_weights = {
        name: float((each * dual).sum()) / RIDGES[name] for name, each in problem.sides.items()
    }
    return Correction(
        dual, moved_weights, dual.sum(axis=0) / RIDGE_BIAS, _left_out(problem, logits)
    )


def _loss(problem: Problem, logits: np.ndarray, point: np.ndarray) -> tuple[float, np.ndarray]:
    top = logits.max(axis=1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    value = problem.weight * float(total.sum() - (problem.believed * logits).sum())
    return value + 0.5 * float(point @ point), np.exp(logits - total[:, None])


Operator = Callable[[np.ndarray], np.ndarray]


def _preconditioner(problem: Problem) -> Operator:
    """The curvature before anything is learned; of the parts beside ψ its diagonal."""
    bend, width = problem.bend(softmax(problem.offset)), len(problem.differences)
    scaled = problem.rough * np.sqrt(bend)[:, None].astype(problem.rough.dtype)
    inner = scaled.T @ scaled
    inner[np.diag_indices_from(inner)] += 1
    factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
    rank = problem.psi.shape[1]
    diagonal = 1 + float(bend.mean()) * np.square(problem.scaled).sum(axis=(1, 2))

    def apply(residual: np.ndarray) -> np.ndarray:
        right = residual[: rank * width].reshape(rank, width).astype(inner.dtype)
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


def _left_out(problem: Problem, logits: np.ndarray) -> np.ndarray:
    """Logits of labelled rows as if their group had not been labelled, (m, K).

    One Newton step from the fitted point, in closed form: with W the curvatures (`bend`), the kernel A of
    all that is learned and S = (A⁻¹ + W)⁻¹, a group g has  L_g + (I − S_gg W_g)⁻¹ S_gg (weight (P − q))_g.
    """
    proba, width = softmax(logits), len(problem.differences)
    bend, excess = problem.bend(proba), problem.weight * (proba - problem.believed)
    sides = problem.scaled.transpose(1, 0, 2).reshape(len(logits), -1) / np.sqrt(width)
    table = np.hstack([problem.rough, sides.astype(problem.rough.dtype)])
    scaled = table * np.sqrt(bend)[:, None].astype(table.dtype)
    inner = scaled.T @ scaled
    inner[np.diag_indices_from(inner)] += 1
    half = solve_triangular(
        cholesky(inner, lower=True, overwrite_a=True), table.T, lower=True, check_finite=False
    )
    alone = np.einsum("ij,ij->j", half, half, dtype=np.float64)
    found = logits + (alone / (1 - alone * bend))[:, None] * excess
    sizes = np.unique(problem.groups, return_counts=True)[1]
    order = np.argsort(problem.groups, kind="stable")
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if len(rows) > 1:
            own = (half[:, rows].T @ half[:, rows]).astype(np.float64)
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
