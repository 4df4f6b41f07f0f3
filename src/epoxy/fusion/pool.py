"""The pool: one weight per expert, shared by all classes, learned from evidence given out of fold.

    logit(row) = log prior + bias + Σ_e weight_e · evidence_e(row)

With S experts and K classes these are S + K numbers, few enough for a hundred dev rows. Weights are
never negative, and a ridge draws them towards the weights that were typical; the bias is drawn to zero.
Class-wise weights, a free bias and one regression on all inputs together were tried and are worse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .evidence import softmax

__all__ = ["Pool", "fit"]

RIDGE = 2.0
RIDGE_BIAS = 3.0


@dataclass(frozen=True, eq=False)
class Pool:
    """How loud each expert is."""

    weights: np.ndarray  # (n_experts,)
    bias: np.ndarray  # (n_classes,)
    prior: np.ndarray  # (n_classes,)

    @property
    def start(self) -> np.ndarray:
        """Logits before any expert speaks; (n_classes,)."""
        return np.asarray(np.log(self.prior) + self.bias)

    def logits(self, evidence: np.ndarray) -> np.ndarray:
        """Pool the evidence (n_experts, n_rows, n_classes) of all experts."""
        return np.asarray(self.start + np.tensordot(self.weights, evidence, axes=1))

    def probabilities(self, evidence: np.ndarray) -> np.ndarray:
        """Return one row of class probabilities per row."""
        return softmax(self.logits(evidence))


def fit(
    evidence: np.ndarray,
    y: np.ndarray,
    prior: np.ndarray,
    typical: np.ndarray,
    *,
    independent: float = 1.0,
) -> Pool:
    """Learn the weights from evidence (n_experts, n_rows, n_classes) about rows not learned from.

    `independent` is the share of rows that are witnesses of their own: rows that lie close together
    repeat each other, and a few such groups must not move the weights far.
    """
    from scipy.optimize import minimize

    n_experts, n_rows, n_classes = evidence.shape
    if not n_rows or not n_experts:
        return Pool(typical, np.zeros(n_classes), prior)
    flat = evidence.reshape(n_experts, -1)
    truth = np.eye(n_classes)[y]
    ridge = RIDGE * n_experts

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        off, bias = point[:n_experts] - typical, point[n_experts:]
        logits = np.log(prior) + bias + (point[:n_experts] @ flat).reshape(n_rows, n_classes)
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        excess = np.exp(logits - total[:, None]) - truth
        excess *= independent
        value = independent * float((total - logits[np.arange(n_rows), y]).sum())
        value += 0.5 * ridge * float(off @ off) + 0.5 * RIDGE_BIAS * float(bias @ bias)
        slope = np.r_[flat @ excess.ravel() + ridge * off, excess.sum(axis=0) + RIDGE_BIAS * bias]
        return value, slope

    bounds = [(0.0, None)] * n_experts + [(None, None)] * n_classes
    found = minimize(
        loss,
        np.r_[typical, np.zeros(n_classes)],
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-12, "gtol": 1e-8, "maxiter": 500},
    )
    return Pool(found.x[:n_experts], found.x[n_experts:], prior)
