"""How frequent each class is: counted on true labels, or given and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .errors import ParameterError, UnknownName

OFF = 1e-3  # shares are typed by hand: 0.333, 0.333, 0.333 sums to 1


def counted_shares(y: np.ndarray, n_classes: int, *, pseudo: float) -> np.ndarray:
    """Class shares of true labels, with `pseudo` rows added in all, in equal parts.

    No class is then impossible because a small dev set lacks it. Label models add one row per class
    (`pseudo=n_classes`, Laplace's rule). Fusion adds four rows whatever the number of classes: with
    ten classes and a few dozen dev rows, one per class would flatten the shares. The figures in
    docs/research/benchmarks.md were measured with these two amounts.
    """
    return shares_of_counts(np.bincount(y, minlength=n_classes), pseudo=pseudo)


def shares_of_counts(counts: np.ndarray, *, pseudo: float) -> np.ndarray:
    """As `counted_shares`, of rows that were counted before."""
    more = counts + pseudo / len(counts)
    return np.asarray(more / more.sum())


def checked_shares(given: Any, classes: Sequence[str] | int, who: str = "the model") -> np.ndarray:
    """One share per class, above 0, that sum to 1; given in order, or by class name."""
    n_classes = classes if isinstance(classes, int) else len(classes)
    if isinstance(given, Mapping) and not isinstance(classes, int):
        for name in given:
            if name not in classes:
                raise UnknownName.of("class", name, classes)
        given = [given.get(name, 0.0) for name in classes]
    try:
        found = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (n_classes,) or not ((found > 0) & (found < np.inf)).all():
        named = f"{classes} classes" if isinstance(classes, int) else list(classes)[:10]
        raise ParameterError(
            f"class_balance must give a share above 0 to each of {named}, {who} got "
            f"{getattr(given, 'tolist', lambda: given)()}; give shares that sum to 1"
        )
    return normalised(found, who)


def normalised(shares: np.ndarray, who: str) -> np.ndarray:
    """Shares of any shape, 0 allowed, made to sum to 1 exactly; an error where they are far off."""
    if not np.isfinite(shares).all() or (shares < 0).any():
        raise ParameterError(
            f"{who} got a class_balance with negative or missing shares; give shares that sum to 1"
        )
    total = float(shares.sum())
    if abs(total - 1) > OFF:
        raise ParameterError(
            f"{who} got a class_balance that sums to {total:g}; shares must sum to 1"
        )
    return np.asarray(shares / total)
