"""Ridge regression with its penalty chosen by leave-one-out, in closed form.

With fewer rows than inputs the dual form is solved, and the leave-one-out error is exact: for
α = (K + λ)⁻¹ y the error of row i left out is αᵢ / ([(K + λ)⁻¹]ᵢᵢ − 1/(λn)), where the second term leaves
the row out of the means of inputs and targets too. With more rows the primal form is
solved, and the leverages are replaced by their mean (generalised cross-validation), so that the cost
stays linear in the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    loss: float  # summed squared error of rows left out


def fit(inputs: np.ndarray, targets: np.ndarray, penalty: float | None = None) -> Ridge:
    """Fit centred inputs to centred targets, with the penalty that predicts left-out rows best."""
    solve = _dual if len(inputs) <= inputs.shape[1] else _primal
    penalties = PENALTIES if penalty is None else (penalty,)
    return min(solve(inputs, targets, penalties), key=lambda each: each.loss)


def _dual(inputs: np.ndarray, targets: np.ndarray, penalties: Sequence[float]) -> Iterator[Ridge]:
    gram = (inputs @ inputs.T).astype(np.float64)
    for penalty in penalties:
        half = _inverse_factor(gram, penalty)
        dual = half.T @ (half @ targets)
        own = np.einsum("ij,ij->j", half, half) - 1 / (penalty * len(inputs))
        missed = dual / np.maximum(own, 1e-12)[:, None]
        yield Ridge(inputs.T @ dual, dual, penalty, float((missed**2).sum()))


def _primal(inputs: np.ndarray, targets: np.ndarray, penalties: Sequence[float]) -> Iterator[Ridge]:
    gram = (inputs.T @ inputs).astype(np.float64)
    right = inputs.T @ targets
    for penalty in penalties:
        half = _inverse_factor(gram, penalty)
        weights = half.T @ (half @ right)
        leverage = (len(gram) - penalty * float((half**2).sum())) / len(inputs)
        missed = targets - inputs @ weights.astype(inputs.dtype)
        loss = float((missed**2).sum()) / max(1 - leverage, 1e-9) ** 2
        yield Ridge(weights, missed / penalty, penalty, loss)


def _inverse_factor(gram: np.ndarray, penalty: float) -> np.ndarray:
    """L⁻¹ for L Lᵀ = gram + penalty."""
    from scipy.linalg import cholesky
    from scipy.linalg.lapack import dtrtri

    shifted = gram + penalty * np.eye(len(gram))
    lower = cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(dtrtri(lower, lower=1, overwrite_c=1)[0])
