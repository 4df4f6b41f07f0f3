"""What two dependent sources say together, Pr(λᵢ, λⱼ | Y), and its correction to the evidence.

Independent evidence counts a copied vote twice. For a dependent pair the evidence is corrected by
log Pr(v, w | y) − log Pr(v | y) − log Pr(w | y), where the joint is the least committed one (the
paper's exponential family with one more edge) that keeps both sources' own tables and matches how
often they both vote, and both vote alike. If given dependencies form cycles, the strongest edges that
form a forest are used: the product is then a proper distribution, as on a junction tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .graph import forest

_ROUNDS = 500


@dataclass(frozen=True, eq=False)
class Linked:
    """Corrections for the pairs in use."""

    pairs: np.ndarray  # (n_pairs, 2) source indices
    terms: np.ndarray  # (n_pairs, 1 + K, 1 + K, K) log ratio of joint to product

    @classmethod
    def nothing(cls, n_classes: int) -> Linked:
        """No pair depends on each other."""
        states = 1 + n_classes
        return cls(np.empty((0, 2), dtype=np.intp), np.empty((0, states, states, n_classes)))

    def evidence(self, matrix: np.ndarray) -> np.ndarray:
        """The correction each pair makes on each row; (n_rows, n_pairs, n_classes)."""
        said = matrix.astype(np.intp) + 1
        first, second = said[:, self.pairs[:, 0]], said[:, self.pairs[:, 1]]
        return np.asarray(self.terms[np.arange(len(self.pairs)), first, second])


def link(barred: np.ndarray, same: np.ndarray, tables: np.ndarray, share: np.ndarray) -> Linked:
    """Corrections for dependent pairs.

    Parameters
    ----------
    barred
        Which sources depend on each other; (m, m).
    same
        How votes meet on one row; (m, 1 + K, m, 1 + K).
    tables
        Pr(vote | class); (m, 1 + K, K).
    share
        Pr(Y); (K,).
    """
    found: dict[tuple[int, int], tuple[float, np.ndarray]] = {}
    for a, b in np.argwhere(np.triu(barred, 1)):
        joint = _joint(same[a, :, b, :], tables[a], tables[b], share)
        product = tables[a][:, None, :] * tables[b][None, :, :]
        term = np.zeros_like(joint)
        np.log(np.divide(joint, product, out=np.ones_like(joint), where=product > 0), out=term)
        gain = float((share * joint * term).sum())  # mutual information given the class
        found[int(a), int(b)] = gain, term
    kept = forest(sorted(found, key=lambda pair: (-found[pair][0], pair)), len(tables))
    if not kept:
        return Linked.nothing(len(share))
    return Linked(np.array(kept, dtype=np.intp), np.array([found[pair][1] for pair in kept]))


def _joint(
    counts: np.ndarray, first: np.ndarray, second: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Pr(v, w | y), (1 + K, 1 + K, K), by iterative proportional fitting."""
    n_states = len(counts)
    both = np.zeros((n_states, n_states), dtype=bool)
    both[1:, 1:] = True
    alike = both & np.eye(n_states, dtype=bool)
    parts = (~both, alike, both & ~alike)
    observed = [(counts[part].sum() + 0.5) / (counts.sum() + 1.5) for part in parts]
    a, b = first[:, None, :], second[None, :, :]
    joint = a * b
    for _ in range(_ROUNDS):
        before = joint
        joint = joint.copy()
        for part, target in zip(parts, observed, strict=True):
            now = (joint[part] * share).sum()
            if now > 0:
                joint[part] *= target / now
        joint = _rescale(joint, a, axis=1)
        joint = _rescale(joint, b, axis=0)
        if np.abs(joint - before).max() < 1e-12:
            break
    return np.asarray(np.maximum(joint, 1e-12))


def _rescale(joint: np.ndarray, target: np.ndarray, axis: int) -> np.ndarray:
    now = joint.sum(axis=axis, keepdims=True)
    return np.asarray(joint * np.divide(target, now, out=np.ones_like(now), where=now > 0))
