"""What hand labels add: they correct the model without labels, they do not replace it.

    logit(x) = log π0 + b + Σ_e w_e E_e(x) + θᵀφ(x)

The experts E_e are fixed; w, b and θ are drawn to the model without labels (w0, 0, 0) by ridges. Rows
a person chose by what the model says of them are chosen by x, and Pr(y | x) does not mind that: with
the whole logit as offset such rows say which part of it deserves more, where every part fitted on
them alone would be learned with the wrong sign.

A label may be wrong. In two rounds the labels are first *believed*,

    q_i(k) ∝ Pr(label_i | k) · p_i(k)

with p of the model so far (at first of the model without labels; for labels of people who may err, of
one that trusted labels taught), and then the convex problem with soft targets q is solved to its optimum.
So a sure-but-wrong row does not bend its surroundings, and yet no two routes to the same labels give
different answers.

Softmax minds only differences between classes, so with U an orthonormal basis of these (K − 1 of them)
and all parameters scaled to ridge one,

    L = L0 + (ψ Z + Σ_e v_e S_e) U,    ψ = [φ, 1/√3],    S_e = E_e Uᵀ / √ridge_e

With two classes an expert says one number of a row and is a column of ψ like any other. Newton steps
are found by conjugate gradients, preconditioned by the Hessian the last fit ended with.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, helmert, solve_triangular

from ..neighbors.workers import many_threaded_blas
from ..numerics import softmax

RIDGE_BIAS = 3.0
ROUNDS, STEPS = 2, 50
TOLERANCE = 1e-8
"""On the gradient; the loss is convex with modulus 1, so parameters are at least as exact."""
ROUGHLY = 0.03
"""The same where problems are compared, by evidence: it is then known to some hundredths of a nat."""
LARGE = 512
"""Rows from which curvature is multiplied in float32, gradients never, and by several threads."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Labelled rows as the fit sees them."""

    offset: np.ndarray  # (m, K) logits at w0
    evidence: np.ndarray  # (e, m, K) of the experts
    features: np.ndarray | None  # (m, n_features) of φ, scaled; None without vectors
    products: np.ndarray | None  # (m, m) their inner products, where rows are fewer than parameters
    votes: np.ndarray  # (m, n_classes · n_sources) of φ, scaled
    y: np.ndarray  # (m,)
    likelihood: np.ndarray  # (m, K) Pr(label_i | k)
    first: np.ndarray  # (m, K) logits by which labels are believed at first
    weight: float  # share of rows that are witnesses of their own
    ridges: np.ndarray  # (e,) of the experts' weights

    @property
    def root(self) -> list[np.ndarray]:
        """Any columns that give rows the inner products of φ: φ itself, or a smaller square root.

        That takes a little more on the diagonal, for rows that are twins.
        """
        if self.features is None:
            return [self.votes]
        if self.products is None:
            return [self.features, self.votes]
        kernel: np.ndarray = self.products + self.votes @ self.votes.T
        kernel[np.diag_indices_from(kernel)] += 1e-9 * max(
            float(kernel.trace()) / len(kernel), 1e-12
        )
        return [np.linalg.cholesky(kernel)]

    @cached_property
    def differences(self) -> np.ndarray:
        """U, an orthonormal basis of differences between classes; (K − 1, K)."""
        return np.asarray(helmert(self.offset.shape[1]))

    @cached_property
    def sides(self) -> np.ndarray:
        """S, what the experts say, at ridge one; (e, m, K − 1)."""
        scale = np.sqrt(self.ridges)[:, None, None]
        return np.asarray(self.evidence @ self.differences.T / scale)

    @cached_property
    def table(self) -> np.ndarray:
        """[ψ, S], the last shared out over the differences; its products are the kernel of L. (m, r)."""
        n_rows, width = len(self.y), len(self.differences)
        sides = self.sides.transpose(1, 0, 2).reshape(n_rows, -1) / np.sqrt(width)
        return np.hstack([*self.root, np.full((n_rows, 1), np.sqrt(1 / RIDGE_BIAS)), sides])

    @cached_property
    def rough(self) -> np.ndarray:
        """The same for curvature, in float32 where rows are many."""
        return self.table.astype(np.float32) if len(self.y) > LARGE else self.table

    @cached_property
    def experts(self) -> np.ndarray:
        """S where it is no part of ψ; (e, m · (K − 1))."""
        return self.sides.reshape(len(self.sides), -1)[: 0 if len(self.differences) == 1 else None]

    @property
    def rank(self) -> int:
        """Columns of ψ."""
        return int(self.table.shape[1]) - len(self.experts) * len(self.differences)

    def forward(self, point: np.ndarray, table: np.ndarray) -> np.ndarray:
        """How parameters move the logits; (m, K)."""
        width, psi = len(self.differences), table[:, : self.rank]
        at = self.rank * width
        part = psi @ point[:at].reshape(-1, width).astype(table.dtype)
        part = part + (point[at:] @ self.experts).reshape(part.shape)
        return np.asarray(part @ self.differences)

    def back(self, pull: np.ndarray, table: np.ndarray) -> np.ndarray:
        """How logits (m, K) pull at the parameters."""
        pull = pull @ self.differences.T
        part = table[:, : self.rank].T @ pull.astype(table.dtype)
        return np.concatenate([part.ravel(), self.experts @ pull.ravel()])

    def loss(
        self, logits: np.ndarray, targets: np.ndarray, point: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """What is minimised, and the probabilities."""
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        value = self.weight * float(total.sum() - (targets * logits).sum())
        return value + 0.5 * float(point @ point), np.exp(logits - total[:, None])

    def bend(self, proba: np.ndarray) -> np.ndarray:
        """One curvature per row, the same for all classes (exact for two); (m,)."""
        found = self.weight * (1 - (proba * proba).sum(axis=1)) / np.sqrt(proba.shape[1] - 1)
        return np.asarray(np.maximum(found, 1e-12))


@dataclass(frozen=True, eq=False)
class Memory:
    """What makes a similar problem quick: where each round ended, and the last Hessian's factor."""

    points: tuple[np.ndarray, ...]
    hessian: np.ndarray

    def fits(self, problem: Problem) -> bool:
        """Whether a problem has the same parameters; roots of two kernels have nothing in common."""
        return problem.products is None and self.hessian.shape[1] == problem.table.shape[1]


@dataclass(frozen=True, eq=False)
class Correction:
    """The fitted correction; θ = φᵀ dual, a sum over labelled rows, as explanations need."""

    off: np.ndarray  # (e,) w − w0
    bias: np.ndarray  # (K,)
    dual: np.ndarray  # (m, K)
    held_out: np.ndarray  # (m, K) logits of the labelled rows as if their group were not labelled
    memory: Memory


def correct(problem: Problem, groups: np.ndarray, memory: Memory | None = None) -> Correction:
    """Believe the labels, fit, believe again, fit again; then leave every group out in turn."""
    logits, points = problem.first, [np.zeros(_size(problem))]
    if memory is None or not memory.fits(problem):
        memory = Memory((), _hessian(problem, softmax(problem.offset)))
    precondition = _preconditioner(problem, memory.hessian)
    for at in range(ROUNDS):
        taken = believed(softmax(logits), problem.likelihood)
        start = memory.points[at] if memory.points else points[-1]
        point, logits = _solve(problem, taken, start, precondition)
        points.append(point)
    dual = problem.weight * (taken - softmax(logits))
    off = problem.evidence.reshape(len(problem.evidence), -1) @ dual.ravel() / problem.ridges
    held, hessian = _left_out(problem, logits, taken, groups)
    found = Memory(tuple(points[1:]), hessian)
    return Correction(off, dual.sum(axis=0) / RIDGE_BIAS, dual, held, found)


def evidence(problem: Problem) -> float:
    """The logarithm of how probable a problem makes its labels, whatever is learned, by Laplace's method.

    What is learned, at its optimum z, has the labels' likelihood, the prior's density and as much room as
    the curvature leaves it: log Pr(labels | z) − ½ |z|² − ½ log det(I + tableᵀ W table) for each of the
    K − 1 differences. Their curvatures are taken to be equal, w_i = weight (1 − Σ_k p_ik²) / (K − 1) with
    the trace of the true ones (exact for two classes); of matrices of one trace the even one has the
    largest determinant, so among many classes what is learned loudly is found a little too improbable.
    The optimum is found roughly, and from nothing, so that the way there plays no part.
    """
    logits, point = problem.first, np.zeros(_size(problem))
    precondition = _preconditioner(problem, _hessian(problem, softmax(problem.offset)))
    for _ in range(ROUNDS):
        taken = believed(softmax(logits), problem.likelihood)
        point, logits = _solve(problem, taken, point, precondition, ROUGHLY)
    width, proba = len(problem.differences), softmax(logits)
    fits = problem.weight * float(np.log((proba * problem.likelihood).sum(axis=1)).sum())
    scaled = problem.table * np.sqrt(problem.bend(proba) / np.sqrt(width))[:, None]
    wide = scaled.shape[1] > len(scaled)
    inner = scaled @ scaled.T if wide else scaled.T @ scaled
    inner[np.diag_indices_from(inner)] += 1
    factor = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    room = width * float(np.log(np.diagonal(factor)).sum())
    return fits - 0.5 * float(point @ point) - room


def _size(problem: Problem) -> int:
    return problem.rank * len(problem.differences) + len(problem.experts)


def believed(proba: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """What the true class is, given the model and labels that may be wrong; rows sum to 1."""
    found = proba * likelihood
    return np.asarray(found / found.sum(axis=1, keepdims=True))


Operator = Callable[[np.ndarray], np.ndarray]


def _solve(
    problem: Problem,
    targets: np.ndarray,
    point: np.ndarray,
    precondition: Operator,
    tolerance: float = TOLERANCE,
) -> tuple[np.ndarray, np.ndarray]:
    """The optimum and its logits, by Newton steps, halved until the loss falls."""
    logits = problem.offset + problem.forward(point, problem.table)
    value, proba = problem.loss(logits, targets, point)
    for _ in range(STEPS):
        slope = problem.weight * problem.back(proba - targets, problem.table) + point
        size = float(np.sqrt(slope @ slope))
        if size <= tolerance:
            break

        def curve(step: np.ndarray, proba: np.ndarray = proba) -> np.ndarray:
            moved = problem.forward(step, problem.rough)
            moved = proba * (moved - (proba * moved).sum(axis=1, keepdims=True))
            return np.asarray(problem.weight * problem.back(moved, problem.rough) + step)

        enough = max(min(0.1, size) * size, 0.1 * tolerance)
        step = _conjugate_gradients(curve, -slope, precondition, enough)
        moved, length = problem.forward(step, problem.table), 1.0
        while True:
            made = problem.loss(logits + length * moved, targets, point + length * step)
            falls = made[0] <= value + 1e-4 * length * float(slope @ step)
            if falls or size < 1e-5 or length < 1e-10:
                break
            length /= 2
        point, logits = point + length * step, logits + length * moved
        value, proba = made
    return point, problem.offset + problem.forward(point, problem.table)


def _hessian(problem: Problem, proba: np.ndarray) -> np.ndarray:
    """The Cholesky factor of I + tableᵀ W table, with one curvature for all classes; (r, r) lower."""
    scaled = problem.rough * np.sqrt(problem.bend(proba))[:, None].astype(problem.rough.dtype)
    inner = scaled.T @ scaled
    inner[np.diag_indices_from(inner)] += 1
    return np.asarray(cholesky(inner, lower=True, overwrite_a=True, check_finite=False))


def _preconditioner(problem: Problem, hessian: np.ndarray) -> Operator:
    """The curvature of a similar problem; of experts beside ψ the diagonal."""
    rank, width = problem.rank, len(problem.differences)
    factor = (np.asfortranarray(hessian[:rank, :rank]), True)
    mean = float(problem.bend(softmax(problem.offset)).mean())
    diagonal = 1 + mean * (problem.experts**2).sum(axis=1)

    def apply(residual: np.ndarray) -> np.ndarray:
        right = residual[: rank * width].reshape(rank, width).astype(hessian.dtype)
        rest = cho_solve(factor, right, check_finite=False)
        return np.concatenate([rest.ravel(), residual[rank * width :] / diagonal])

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
    problem: Problem, logits: np.ndarray, taken: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of labelled rows as if their group had not been labelled, (m, K), and the Hessian.

    One Newton step from the fitted point, in closed form: with curvature w_i = weight (1 − Σ_k p_ik²) /
    √(K − 1), the same for all classes (exact for two), the kernel A of all that is learned and
    S = (A⁻¹ + W)⁻¹, a group g has  L_g + (I − S_gg W_g)⁻¹ S_gg (weight (P − q))_g.
    """
    proba = softmax(logits)
    bend, excess = problem.bend(proba), problem.weight * (proba - taken)
    with many_threaded_blas() if len(logits) >= LARGE else nullcontext():
        hessian = _hessian(problem, proba)
        half = solve_triangular(hessian, problem.rough.T, lower=True, check_finite=False)
    alone = np.einsum("ij,ij->j", half, half, dtype=np.float64)
    found = logits + (alone / (1 - alone * bend))[:, None] * excess
    sizes = np.unique(groups, return_counts=True)[1]
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if len(rows) > 1:
            own = (half[:, rows].T @ half[:, rows]).astype(np.float64)
            left = np.eye(len(rows)) - own * bend[rows]
            found[rows] = logits[rows] + np.linalg.solve(left, own @ excess[rows])
    return found, hessian
