"""What hand labels add: they correct the model without labels, they do not replace it.

    logit(x) = log π0 + b + Σ_e w_e E_e(x) + θᵀφ(x)

The experts E_e are fixed; w, b and θ are drawn to the model without labels (w0, 0, 0) by ridges. Rows
a person chose by what the model says of them are chosen by x, and Pr(y | x) does not mind that: with
the whole logit as offset such rows say which part of it deserves more, where every part fitted on
them alone would be learned with the wrong sign.

A label may be wrong, at a rate ρ. In two rounds the labels are first *believed*,

    q_i(k) ∝ Pr(label_i | k) · p_i(k),      Pr(label | k) = 1 − ρ for k = label, else ρ / (K − 1)

with p of the model so far, and then the convex problem with soft targets q is solved to its optimum.
So a sure-but-wrong row does not bend its surroundings, and yet no two routes to the same labels give
different answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..numerics import softmax
from . import binary

RIDGE_BIAS = 3.0
ROUNDS = 2
TOLERANCE = 1e-8
"""On the gradient; the loss is convex with modulus 1, so parameters are at least as exact."""
LARGE = 512
"""Rows from which curvature is multiplied in float32; gradients never are."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Labelled rows as the fit sees them."""

    offset: np.ndarray  # (m, K) logits at w0
    evidence: np.ndarray  # (e, m, K) of the experts
    features: np.ndarray | None  # (m, n_features) of φ, scaled; None without vectors
    products: np.ndarray | None  # (m, m) their inner products, where rows are fewer than parameters
    votes: np.ndarray  # (m, n_classes · n_sources) of φ, scaled
    y: np.ndarray  # (m,)
    noise: np.ndarray  # (m,) how often such a label is wrong
    weight: float  # share of rows that are witnesses of their own
    ridges: np.ndarray  # (e,) of the experts' weights

    @property
    def kernel(self) -> np.ndarray | None:
        """φφᵀ, where rows are fewer than the entries of φ; a little is added for rows that are twins."""
        if self.features is None or self.products is None:
            return None
        found: np.ndarray = self.products + self.votes @ self.votes.T
        found[np.diag_indices_from(found)] += 1e-9 * max(float(np.trace(found)) / len(found), 1e-12)
        return found

    @cached_property
    def root(self) -> np.ndarray:
        """Any matrix whose rows have the inner products of φ: φ itself, or a smaller square root."""
        kernel = self.kernel
        if kernel is not None:
            return np.linalg.cholesky(kernel)
        return self.votes if self.features is None else np.hstack([self.features, self.votes])


@dataclass(frozen=True, eq=False)
class Correction:
    """The fitted correction; θ = φᵀ dual, a sum over labelled rows, as explanations need."""

    off: np.ndarray  # (e,) w − w0
    bias: np.ndarray  # (K,)
    dual: np.ndarray  # (m, K)
    held_out: np.ndarray  # (m, K) logits of the labelled rows as if their group were not labelled
    memory: Any = None  # what makes a similar problem quick


def correct(problem: Problem, groups: np.ndarray, memory: Any = None) -> Correction:
    """Believe the labels, fit, believe again, fit again; then leave every group out in turn."""
    if problem.offset.shape[1] == 2:
        return _correct_two(problem, groups, memory)
    logits, point = problem.offset, _origin(problem)
    precondition = _preconditioner(problem)
    for _ in range(ROUNDS):
        taken = believed(softmax(logits), problem.y, problem.noise)
        point, logits = _solve(problem, taken, point, precondition)
    dual = problem.weight * (taken - softmax(logits))
    held = _left_out(problem, logits, taken, groups)
    return Correction(*_learned(problem, dual), dual, held)


def _learned(problem: Problem, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias at the optimum, where each parameter is its gradient over its ridge."""
    n_experts = len(problem.evidence)
    off = problem.evidence.reshape(n_experts, -1) @ dual.ravel() / problem.ridges
    return off, dual.sum(axis=0) / RIDGE_BIAS


def _correct_two(problem: Problem, groups: np.ndarray, memory: Any) -> Correction:
    """The same for two classes, in one column of log-odds; see `binary`."""
    start = problem.offset[:, 1] - problem.offset[:, 0]
    side = (problem.evidence[:, :, 1] - problem.evidence[:, :, 0]) / np.sqrt(problem.ridges)[
        :, None
    ]
    few = problem.kernel
    before = memory or _Memory()
    kernel = psi = None
    if few is not None:
        kernel = 2 * few + side.T @ side + 2 / RIDGE_BIAS
    else:
        psi = before.parameters(problem, side)
    rounds: list[Any] = []
    odds = start
    for at in range(ROUNDS):
        proba = softmax(np.stack([-odds / 2, odds / 2], axis=1))
        targets = believed(proba, problem.y, problem.noise)[:, 1]
        near = before.rounds[at] if before.rounds else None
        found = binary.solve(start, psi, kernel, targets, problem.weight, near, before.hessian)
        rounds.append(found)
        odds = found.odds
    rough = None if psi is None else psi[1]
    left, made = binary.leave_groups_out(odds, rough, kernel, targets, problem.weight, groups)
    pull = problem.weight * (targets - 1 / (1 + np.exp(-odds)))
    dual = np.stack([-pull, pull], axis=1)
    held = np.stack([-left / 2, left / 2], axis=1)
    memory = _Memory(tuple(rounds), made, before.fixed, before.psi)
    return Correction(*_learned(problem, dual), dual, held, memory)


@dataclass(eq=False)
class _Memory:
    """What makes a similar problem quick: where the last one ended, its Hessian, and its table ψ."""

    rounds: tuple[Any, ...] = ()
    hessian: binary.Hessian | None = None
    fixed: np.ndarray | None = None  # the features ψ was filled with
    psi: tuple[np.ndarray, np.ndarray] | None = None  # in float64 and float32

    def parameters(self, problem: Problem, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ψ of a problem; features that are the very same stay where they are."""
        features, votes = problem.features, problem.votes
        at = 0 if features is None else features.shape[1]
        shape = (len(votes), at + votes.shape[1] + len(side) + 1)
        fresh = self.psi is None or self.psi[0].shape != shape or self.fixed is not features
        if fresh or self.psi is None:
            self.psi = (np.empty(shape), np.empty(shape, dtype=np.float32))
            self.fixed = features
        for table in self.psi:
            if fresh and features is not None:
                np.multiply(features, np.sqrt(2), out=table[:, :at], casting="same_kind")
            table[:, at : at + votes.shape[1]] = np.sqrt(2) * votes
            table[:, at + votes.shape[1] : -1] = side.T
            table[:, -1] = np.sqrt(2 / RIDGE_BIAS)
        return self.psi


def _origin(problem: Problem) -> np.ndarray:
    """The parameters of the model without labels."""
    n_classes = problem.offset.shape[1]
    return np.zeros(len(problem.evidence) + n_classes + problem.root.shape[1] * n_classes)


def believed(proba: np.ndarray, y: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """What the true class is, given the model and a label that may be wrong; rows sum to 1."""
    at = np.arange(len(y))
    found = proba * (noise / (proba.shape[1] - 1))[:, None]
    found[at, y] = proba[at, y] * (1 - noise)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


Operator = Callable[[np.ndarray], np.ndarray]


def _solve(
    problem: Problem, targets: np.ndarray, start: np.ndarray, precondition: Operator
) -> tuple[np.ndarray, np.ndarray]:
    """Newton steps by preconditioned conjugate gradients, halved until the loss falls."""
    n_rows, n_classes = problem.offset.shape
    n_experts, rank = len(problem.evidence), problem.root.shape[1]
    experts = problem.evidence.reshape(n_experts, -1)
    small = n_experts + n_classes
    ridge = np.r_[problem.ridges, np.full(n_classes, RIDGE_BIAS), np.ones(rank * n_classes)]
    exact = problem.root
    rough = exact.astype(np.float32) if n_rows > LARGE else exact

    def forward(point: np.ndarray, root: np.ndarray) -> np.ndarray:
        part = root @ point[small:].reshape(rank, n_classes).astype(root.dtype)
        fixed = (point[:n_experts] @ experts).reshape(n_rows, n_classes)
        return np.asarray(part + fixed + point[n_experts:small])

    def back(excess: np.ndarray, root: np.ndarray) -> np.ndarray:
        part = root.T @ excess.astype(root.dtype)
        return np.concatenate([experts @ excess.ravel(), excess.sum(axis=0), part.ravel()])

    def loss(point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        logits = problem.offset + forward(point, exact)
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        value = problem.weight * float(total.sum() - (targets * logits).sum())
        value += 0.5 * float(ridge @ (point * point))
        return value, logits, np.exp(logits - total[:, None])

    point = start
    value, logits, proba = loss(point)
    for _ in range(50):
        slope = problem.weight * back(proba - targets, exact) + ridge * point
        size = float(np.sqrt(slope @ slope))
        if size <= TOLERANCE:
            break

        def curve(step: np.ndarray, proba: np.ndarray = proba) -> np.ndarray:
            moved = forward(step, rough)
            moved = proba * (moved - (proba * moved).sum(axis=1, keepdims=True))
            return np.asarray(problem.weight * back(moved, rough) + ridge * step)

        enough = max(min(0.1, size) * size, 0.1 * TOLERANCE)
        step = _conjugate_gradients(curve, -slope, precondition, enough)
        length = 1.0
        while True:
            made = loss(point + length * step)
            if made[0] <= value + 1e-4 * length * float(slope @ step) or size < 1e-5:
                break
            length /= 2
            if length < 1e-10:
                break
        point = point + length * step
        value, logits, proba = made
    return point, logits


def _preconditioner(problem: Problem) -> Operator:
    """The curvature at the start with all rows alike, factorised once."""
    n_experts, n_classes = len(problem.evidence), problem.offset.shape[1]
    proba = softmax(problem.offset)
    bend = problem.weight * proba * (1 - proba)
    mean = float(bend.mean())
    gram = mean * (problem.root.T @ problem.root)
    gram[np.diag_indices_from(gram)] += 1.0
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    squares = (problem.evidence.reshape(n_experts, -1) ** 2).sum(axis=1)
    diagonal = np.r_[problem.ridges + mean * squares, RIDGE_BIAS + bend.sum(axis=0)]
    small, rank = n_experts + n_classes, problem.root.shape[1]

    def apply(residual: np.ndarray) -> np.ndarray:
        rest = cho_solve(factor, residual[small:].reshape(rank, n_classes), check_finite=False)
        return np.concatenate([residual[:small] / diagonal, rest.ravel()])

    return apply


def _conjugate_gradients(
    curve: Operator, right: np.ndarray, precondition: Operator, enough: float
) -> np.ndarray:
    found = np.zeros_like(right)
    residual = right.copy()
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


def _left_out(
    problem: Problem, logits: np.ndarray, believed: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Logits of labelled rows as if their group had not been labelled; (m, K).

    One Newton step from the fitted point, in closed form: with curvature w_i = weight (1 − Σ_k p_ik²) /
    √(K − 1), the same for all classes (exact for two), the kernel A of all that is learned and
    S = (A⁻¹ + W)⁻¹, a group g has  L_g + (I − S_gg W_g)⁻¹ S_gg (weight (P − q))_g.
    """
    proba = softmax(logits)
    n_rows, n_classes = proba.shape
    bend = problem.weight * (1 - (proba * proba).sum(axis=1)) / np.sqrt(n_classes - 1)
    bend = np.maximum(bend, 1e-12)
    scale = np.sqrt((n_classes - 1) * problem.ridges)[:, None, None]
    side = (problem.evidence / scale).transpose(1, 0, 2).reshape(n_rows, -1)
    whole = np.hstack([problem.root, side, np.full((n_rows, 1), np.sqrt(1 / RIDGE_BIAS))])
    block = _covariances(whole, bend)
    excess = problem.weight * (proba - believed)
    found = logits.copy()
    sizes = np.unique(groups, return_counts=True)[1]
    alone = block(None)
    found += (alone / (1 - alone * bend))[:, None] * excess
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if len(rows) == 1:
            continue
        own = block(rows)
        found[rows] = logits[rows]
        found[rows] += np.linalg.solve(np.eye(len(rows)) - own * bend[rows], own @ excess[rows])
    return found


def _covariances(whole: np.ndarray, bend: np.ndarray) -> Callable[[np.ndarray | None], np.ndarray]:
    """Blocks of S = (A⁻¹ + W)⁻¹ for A = whole wholeᵀ: of some rows, or with None its diagonal."""
    from scipy.linalg import cholesky, solve_triangular

    n_rows, rank = whole.shape
    if n_rows < rank:
        kernel = whole @ whole.T
        root = np.sqrt(bend)
        inner = root[:, None] * kernel * root
        inner[np.diag_indices_from(inner)] += 1.0
        factor = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        half = solve_triangular(factor, root[:, None] * kernel, lower=True, check_finite=False)

        def block(rows: np.ndarray | None) -> np.ndarray:
            if rows is None:
                return np.asarray(np.diagonal(kernel) - np.einsum("ij,ij->j", half, half))
            part = half[:, rows]
            return np.asarray(kernel[np.ix_(rows, rows)] - part.T @ part)

        return block
    outer = whole.T @ (bend[:, None] * whole)
    outer[np.diag_indices_from(outer)] += 1.0
    factor = cholesky(outer, lower=True, overwrite_a=True, check_finite=False)
    half = solve_triangular(factor, whole.T, lower=True, check_finite=False)

    def primal(rows: np.ndarray | None) -> np.ndarray:
        if rows is None:
            return np.asarray(np.einsum("ij,ij->j", half, half))
        part = half[:, rows]
        return np.asarray(part.T @ part)

    return primal
