"""The correction for two classes: one column of log-odds, and two ways to its optimum.

With two classes everything learned is for one class what it is against the other, so the problem has
one column f = L₁ − L₀ and, all parameters scaled to ridge one,

    f = f₀ + ψ z,    ψ = [√2 φ, (E₁ − E₀) / √ridge, √(2/3)],    min  c Σ log(1 + e^f) − q f + ½ |z|²

With fewer labelled rows than parameters it is solved for the rows (Newton on g = ψz through the kernel
ψψᵀ, one Cholesky factor of m × m a step), with more for the parameters (Newton steps by conjugate
gradients, preconditioned by the Hessian of the last fit). Both end at the same, only, optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, get_lapack_funcs, solve_triangular
from scipy.linalg.blas import ssyrk

from ..neighbors.workers import many_threaded_blas

TOLERANCE = 1e-8
STEPS = 50


@dataclass(frozen=True, eq=False)
class Hessian:
    """The Cholesky factor of I + ψᵀWψ, in float32: a preconditioner of this and of similar problems."""

    factor: np.ndarray  # (r, r) lower

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Its inverse times a vector."""
        (multiply,) = get_lapack_funcs(("potrs",), (self.factor,))
        return np.asarray(multiply(self.factor, right.astype(np.float32), lower=1)[0], dtype=float)


@dataclass(frozen=True, eq=False)
class Solution:
    """The log-odds of the labelled rows at the optimum, and the parameters where they were solved for."""

    odds: np.ndarray  # (m,)
    point: np.ndarray | None = None  # (r,)


def solve(
    start: np.ndarray,
    psi: tuple[np.ndarray, np.ndarray] | None,
    kernel: np.ndarray | None,
    targets: np.ndarray,
    weight: float,
    near: Solution | None,
    hessian: Hessian | None,
) -> Solution:
    """The optimum for soft targets; `psi` in float64 and in float32.

    `kernel` is ψψᵀ where the rows are fewer than the parameters.
    """
    if kernel is not None:
        return _by_rows(start, kernel, targets, weight)
    assert psi is not None  # one or the other is given
    return _by_parameters(start, *psi, targets, weight, near, hessian)


def _by_rows(start: np.ndarray, kernel: np.ndarray, targets: np.ndarray, weight: float) -> Solution:
    """Newton's method for g = f − f₀: g = A a with a = c (q − p) at the optimum."""
    odds = start.copy()
    dual = np.zeros(len(start))
    value = _loss(odds, targets, weight)
    for _ in range(STEPS):
        proba = _logistic(odds)
        pull = weight * (targets - proba)
        if float(np.abs(dual - pull).max(initial=0.0)) <= TOLERANCE:
            break
        bend = np.maximum(weight * proba * (1 - proba), 1e-12)
        root = np.sqrt(bend)
        inner = root[:, None] * kernel * root
        inner[np.diag_indices_from(inner)] += 1.0
        factor = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        right = bend * (odds - start) + pull
        half = solve_triangular(factor, root * (kernel @ right), lower=True, check_finite=False)
        back = solve_triangular(factor, half, lower=True, trans=1, check_finite=False)
        step = right - root * back - dual
        length = 1.0
        while True:
            made = dual + length * step
            moved = kernel @ made
            fresh = _loss(start + moved, targets, weight) + 0.5 * float(made @ moved)
            if fresh <= value + 1e-12 * abs(value) or length < 1e-6:
                break
            length /= 2
        dual, odds, value = made, start + moved, fresh
    return Solution(odds)


def _by_parameters(
    start: np.ndarray,
    psi: np.ndarray,
    rough: np.ndarray,
    targets: np.ndarray,
    weight: float,
    near: Solution | None,
    hessian: Hessian | None,
) -> Solution:
    point = np.zeros(psi.shape[1])
    if near is not None and near.point is not None and len(near.point) == len(point):
        point = near.point
    odds = start + psi @ point
    value = _loss(odds, targets, weight) + 0.5 * float(point @ point)
    if hessian is None or len(hessian.factor) != len(point):
        hessian = hessian_at(odds, rough, weight)
    for _ in range(STEPS):
        proba = _logistic(odds)
        slope = weight * (psi.T @ (proba - targets)) + point
        size = float(np.sqrt(slope @ slope))
        if size <= TOLERANCE:
            break
        bend = (weight * proba * (1 - proba)).astype(np.float32)
        step = _conjugate_gradients(rough, bend, -slope, hessian, max(min(0.1, size) * size, 1e-9))
        moved = psi @ step
        length = 1.0
        while True:
            made = point + length * step
            fresh = _loss(odds + length * moved, targets, weight) + 0.5 * float(made @ made)
            if fresh <= value + 1e-4 * length * float(slope @ step) or size < 1e-5 or length < 1e-6:
                break
            length /= 2
        point, odds, value = made, odds + length * moved, fresh
    return Solution(start + psi @ point, point)


def _conjugate_gradients(
    psi: np.ndarray, bend: np.ndarray, right: np.ndarray, hessian: Hessian, enough: float
) -> np.ndarray:
    found = np.zeros_like(right)
    residual = right.copy()
    scaled = hessian.solve(residual)
    step, both = scaled, float(residual @ scaled)
    for _ in range(500):
        moved = psi @ step.astype(np.float32)
        bent = psi.T @ (bend * moved) + step
        length = both / float(step @ bent)
        found += length * step
        residual -= length * bent
        if float(np.sqrt(residual @ residual)) <= enough:
            break
        scaled = hessian.solve(residual)
        fresh = float(residual @ scaled)
        step, both = scaled + (fresh / both) * step, fresh
    return found


def hessian_at(odds: np.ndarray, psi: np.ndarray, weight: float) -> Hessian:
    """I + ψᵀWψ at some log-odds, factorised; ψ in float32."""
    proba = _logistic(odds)
    root = np.sqrt(weight * proba * (1 - proba)).astype(np.float32)
    inner = ssyrk(1.0, (psi * root[:, None]).T, lower=1)  # half of the work of a full product
    inner[np.diag_indices_from(inner)] += 1.0
    return Hessian(cholesky(inner, lower=True, overwrite_a=True, check_finite=False))


def leave_groups_out(
    odds: np.ndarray,
    rough: np.ndarray | None,
    kernel: np.ndarray | None,
    targets: np.ndarray,
    weight: float,
    groups: np.ndarray,
) -> tuple[np.ndarray, Hessian | None]:
    """Log-odds of labelled rows as if their group had not been labelled, by one Newton step.

    With S = (A⁻¹ + W)⁻¹ for the kernel A and the curvature W at the optimum, a group g has
    f_g + (I − S_gg W_g)⁻¹ S_gg c (p − q)_g. Also the Hessian, where it was made. `rough` is ψ in
    float32, read only without a kernel.
    """
    proba = _logistic(odds)
    bend = np.maximum(weight * proba * (1 - proba), 1e-12)
    excess = weight * (proba - targets)
    hessian = None
    if kernel is not None:
        root = np.sqrt(bend)
        inner = root[:, None] * kernel * root
        inner[np.diag_indices_from(inner)] += 1.0
        factor = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        half = solve_triangular(factor, root[:, None] * kernel, lower=True, check_finite=False)
        alone = np.diagonal(kernel) - np.einsum("ij,ij->j", half, half)
    else:
        assert rough is not None
        with many_threaded_blas():
            hessian = hessian_at(odds, rough, weight)
            half = solve_triangular(hessian.factor, rough.T, lower=True, check_finite=False)
        alone = np.einsum("ij,ij->j", half, half, dtype=np.float64)
    found = odds + alone / (1 - alone * bend) * excess
    order = np.argsort(groups, kind="stable")
    sizes = np.unique(groups, return_counts=True)[1]
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if len(rows) > 1:
            part = half[:, rows]
            own = (part.T @ part).astype(np.float64)
            if kernel is not None:
                own = kernel[np.ix_(rows, rows)] - own
            left = np.eye(len(rows)) - own * bend[rows]
            found[rows] = odds[rows] + np.linalg.solve(left, own @ excess[rows])
    return found, hessian


def _loss(odds: np.ndarray, targets: np.ndarray, weight: float) -> float:
    return weight * float((np.logaddexp(0.0, odds) - targets * odds).sum())


def _logistic(odds: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(odds))
    ahead = 1 / (1 + small)
    return np.asarray(np.where(odds >= 0, ahead, small * ahead))
