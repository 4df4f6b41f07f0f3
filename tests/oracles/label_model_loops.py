"""The inner loops of the label models in numpy: the oracle for the compiled ones, bit for bit.

Each function has the name, arguments and results of the loop in `epoxy.label_models.kernels` that it
stands in for, without the underscore it may have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epoxy.label_models import kernels


def stand_in(monkeypatch: Any) -> None:
    """Let the package run on these instead of its compiled loops."""
    for name in ("_add", "median_of_triplets"):
        monkeypatch.setattr(kernels, name, globals()[name.removeprefix("_")])


def median_of_triplets(
    moment: np.ndarray, allowed: np.ndarray, wanted: np.ndarray, order: np.ndarray, most: int
) -> np.ndarray:
    found = np.full(len(moment), np.nan)
    for unit in np.flatnonzero(wanted):
        partners = order[allowed[unit, order]][:most]
        first, second = (partners[each] for each in np.triu_indices(len(partners), 1))
        below = np.where(allowed[first, second], moment[first, second], 0.0)
        usable = below != 0
        first, second, below = first[usable], second[usable], below[usable]
        if len(below):
            found[unit] = np.median(
                np.sqrt(np.abs(moment[unit, first] * moment[unit, second] / below))
            )
    return found


def add(columns: np.ndarray, tables: np.ndarray, odds: np.ndarray) -> None:
    for column, table in zip(columns, tables):
        odds += table.take(column.astype(np.intp) + 1)
