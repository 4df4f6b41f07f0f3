"""Kernel ridge regression with its penalty chosen by leave-one-out, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Ridge", "fit"]

PENALTIES = (1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True, eq=False)
class Ridge:
    """Weights of a linear readout, and the dual weight of every row it learned from."""

    weights: np.ndarray  # (n_inputs, n_targets)
    dual: np.ndarray  # (n_rows, n_targets): weights = inputsᵀ dual
    penalty: float


def fit(inputs: np.ndarray, targets: np.ndarray) -> Ridge:
    """Fit centred inputs to centred targets; cost is linear in the longer side of `inputs`."""
    solve = _dual if len(inputs) <= inputs.shape[1] else _primal
    return min(solve(inputs, targets), key=lambda each: each[0])[1]


def _dual(inputs: np.ndarray, targets: np.ndarray) -> list[tuple[float, Ridge]]:
    gram = (inputs @ inputs.T).astype(np.float64)
    value, basis = np.linalg.eigh(gram)
    value = np.maximum(value, 0.0)
    turned = basis.T @ targets
    found = []
    for penalty in PENALTIES:
        dual = basis @ (turned / (value + penalty)[:, None])
        left = (basis**2) @ (penalty / (value + penalty))  # 1 − leverage
        loss = float(((penalty * dual / np.maximum(left, 1e-9)[:, None]) ** 2).sum())
        found.append((loss, Ridge(inputs.T @ dual, dual, penalty)))
    return found


def _primal(inputs: np.ndarray, targets: np.ndarray) -> list[tuple[float, Ridge]]:
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    gram = (inputs.T @ inputs).astype(np.float64)
    right = inputs.T @ targets
    found = []
    for penalty in PENALTIES:
        factor = cho_factor(gram + penalty * np.eye(len(gram)), lower=True, check_finite=False)
        weights = cho_solve(factor, right, check_finite=False)
        half = solve_triangular(
            factor[0].astype(inputs.dtype), inputs.T, lower=True, check_finite=False
        )
        left = 1 - np.einsum("ij,ij->j", half, half)
        dual = (targets - inputs @ weights) / penalty
        loss = float(((penalty * dual / np.maximum(left, 1e-9)[:, None]) ** 2).sum())
        found.append((loss, Ridge(weights, dual, penalty)))
    return found
