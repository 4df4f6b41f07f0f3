"""How votes meet, on one row and on neighbouring rows; counts add, so shards can be summed."""

from __future__ import annotations

import numpy as np

_BLOCK = 1 << 17  # rows per product: bounds memory, and float32 counts stay exact below 2**24


def vote_counts(
    matrix: np.ndarray, left: np.ndarray, right: np.ndarray, n_classes: int
) -> np.ndarray:
    """How often source i says v on row `left` while source j says w on row `right`.

    Returns (n_sources, 1 + n_classes, n_sources, 1 + n_classes); entry 0 is abstain.
    """
    n_sources, n_states = matrix.shape[1], 1 + n_classes
    total = np.zeros((n_sources * n_states,) * 2)
    for start in range(0, len(left), _BLOCK):
        part = slice(start, start + _BLOCK)
        here, there = (one_hot(matrix[rows[part]], n_classes) for rows in (left, right))
        total += here.T @ there
    return total.reshape(n_sources, n_states, n_sources, n_states)


def one_hot(matrix: np.ndarray, n_classes: int) -> np.ndarray:
    """One column per source and vote, abstain included; (n_rows, n_sources · (1 + n_classes))."""
    states = np.arange(-1, n_classes)
    said = matrix[:, :, None] == states
    return np.asarray(said.reshape(len(matrix), -1), dtype=np.float32)


def agreement(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M = (K·Pr(agree | both vote) − 1)/(K − 1), zero without overlap; and the overlap in rows."""
    cast = counts[:, 1:, :, 1:]
    n_classes = cast.shape[1]
    overlap = cast.sum(axis=(1, 3))
    same = np.einsum("ikjk->ij", cast)
    share = np.divide(same, overlap, out=np.full_like(same, 1 / n_classes), where=overlap > 0)
    return (n_classes * share - 1) / (n_classes - 1), overlap
