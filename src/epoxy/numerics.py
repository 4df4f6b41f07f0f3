"""Small numerical rules that many parts share, each written once."""

from __future__ import annotations

from typing import Any

import numpy as np

NARROW = 16
SURE = 1.959963984540054  # standard errors that 95 % lie within


def row_sums(table: np.ndarray) -> np.ndarray:
    """Sum of each row; column by column where rows are short, which numpy sums one by one."""
    if table.shape[1] > NARROW:
        return np.asarray(table.sum(axis=1))
    total = table[:, 0].copy()
    for column in range(1, table.shape[1]):
        total += table[:, column]
    return total


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits, row by row."""
    if logits.shape[1] > NARROW:
        top = logits.max(axis=1)
    else:
        top = logits[:, 0].copy()
        for column in range(1, logits.shape[1]):
            np.maximum(top, logits[:, column], out=top)
    found = np.asarray(logits - top[:, None])
    np.exp(found, out=found)
    found /= row_sums(found)[:, None]
    return found


def log_odds(share: Any) -> Any:
    """The logarithm of share to rest."""
    return np.log(share) - np.log1p(-np.asarray(share))


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Each row at length one; rows of zeros stay."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.asarray(vectors / np.maximum(length, np.float32(1e-12)))


def wilson(share: Any, count: Any, z: float = SURE) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's lower and upper limits of shares seen in `count` draws; 0 and 1 for no draw.

    With `z` standard errors; unlike share ± z·error they stay honest for small counts.
    """
    p, n = np.asarray(share, dtype=float), np.asarray(count, dtype=float)
    seen = n > 0
    safe = np.where(seen, n, 1.0)
    scale = 1 + z**2 / safe
    middle = (p + z**2 / (2 * safe)) / scale
    half = z / scale * np.sqrt(p * (1 - p) / safe + z**2 / (4 * safe**2))
    low, high = np.where(seen, middle - half, 0.0), np.where(seen, middle + half, 1.0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
