"""The inner loops behind every edit: summing evidence, counting who votes with whom, medians of triplets.

numba's where it can be imported, numpy's otherwise (or by `EPOXY_KERNELS=numpy`); both give the same
bits, because sums run in the order of the sources. At 22,070 × 9 numba is about four times as fast
(`benchmarks/speed.py`); the first call compiles, once per machine.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["count_with", "median_of_triplets", "sum_log_odds", "warm"]


def sum_log_odds(columns: np.ndarray, tables: np.ndarray, start: float) -> np.ndarray:
    """start + Σⱼ tables[j, columns[j, i] + 1] for every row i; columns is (n_sources, n_rows)."""
    odds = np.full(columns.shape[1], start)
    _compiled()[0](columns, np.ascontiguousarray(tables), odds)
    return odds


def count_with(
    columns: np.ndarray, rows: np.ndarray, votes: np.ndarray, n_classes: int
) -> np.ndarray:
    """How often `votes` (one per entry of `rows`) meets each vote of each source there.

    Returns (n_sources, n_classes, n_classes): [j, a, b] counts rows with votes a and columns[j] b.
    """
    counts = np.zeros((columns.shape[0], n_classes, n_classes), dtype=np.int64)
    _compiled()[1](columns, rows, votes, counts)
    return counts


def median_of_triplets(moment: np.ndarray, allowed: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each wanted unit the median of √|MᵢⱼMᵢₖ/Mⱼₖ| over its allowed triplets, NaN for none."""
    found = np.full(len(moment), np.nan)
    _compiled()[2](moment, allowed, np.flatnonzero(wanted), found)
    return found


def warm() -> None:
    """Compile now, so that the first edit does not wait for it."""
    columns = np.zeros((1, 1), dtype=np.int8)
    sum_log_odds(columns, np.zeros((1, 3)), 0.0)
    count_with(columns, np.zeros(1, dtype=np.int64), columns[0], 2)
    median_of_triplets(np.ones((3, 3)), np.ones((3, 3), dtype=bool), np.ones(3, dtype=bool))


def _compiled() -> tuple[Callable[..., Any], ...]:
    return _choose(os.environ.get("EPOXY_KERNELS", ""))


@functools.cache
def _choose(kind: str) -> tuple[Callable[..., Any], ...]:
    if kind == "numpy" or importlib.util.find_spec("numba") is None:
        return _add_numpy, _count_numpy, _median_numpy
    import numba

    compile_ = numba.njit(cache=True, nogil=True)
    return compile_(_add_loop), compile_(_count_loop), compile_(_median_loop)


def _add_loop(columns: Any, tables: Any, odds: Any) -> None:
    for source in range(columns.shape[0]):
        table, column = tables[source], columns[source]
        for row in range(columns.shape[1]):
            odds[row] += table[column[row] + 1]


def _count_loop(columns: Any, rows: Any, votes: Any, counts: Any) -> None:
    for source in range(columns.shape[0]):
        column, cell = columns[source], counts[source]
        for index in range(rows.shape[0]):
            vote, other = votes[index], column[rows[index]]
            if vote >= 0 and other >= 0:
                cell[vote, other] += 1


def _median_loop(moment: Any, allowed: Any, wanted: Any, found: Any) -> None:
    n_units = moment.shape[0]
    values = np.empty(n_units * (n_units - 1) // 2)
    for unit in wanted:
        partners = np.flatnonzero(allowed[unit])
        count = 0
        for first in range(partners.shape[0]):
            j = partners[first]
            for second in range(first + 1, partners.shape[0]):
                k = partners[second]
                below = moment[j, k]
                if allowed[j, k] and below != 0.0:
                    values[count] = np.sqrt(np.abs(moment[unit, j] * moment[unit, k] / below))
                    count += 1
        if count > 0:
            part = np.partition(values[:count], count // 2)
            high = part[count // 2]
            low = high if count % 2 == 1 else part[: count // 2].max()
            found[unit] = (low + high) / 2


def _median_numpy(
    moment: np.ndarray, allowed: np.ndarray, wanted: np.ndarray, found: np.ndarray
) -> None:
    for unit in wanted:
        partners = np.flatnonzero(allowed[unit])
        first, second = (partners[each] for each in np.triu_indices(len(partners), 1))
        below = np.where(allowed[first, second], moment[first, second], 0.0)
        usable = below != 0
        first, second, below = first[usable], second[usable], below[usable]
        if len(below):
            found[unit] = np.median(
                np.sqrt(np.abs(moment[unit, first] * moment[unit, second] / below))
            )


def _add_numpy(columns: np.ndarray, tables: np.ndarray, odds: np.ndarray) -> None:
    for column, table in zip(columns, tables):
        odds += table.take(column.astype(np.intp) + 1)


def _count_numpy(
    columns: np.ndarray, rows: np.ndarray, votes: np.ndarray, counts: np.ndarray
) -> None:
    n_classes = counts.shape[1]
    cast = votes >= 0
    rows, votes = rows[cast], votes[cast].astype(np.intp)
    for source, column in enumerate(columns):
        other = column[rows].astype(np.intp)
        seen = other >= 0
        cells = np.bincount(votes[seen] * n_classes + other[seen], minlength=n_classes**2)
        counts[source] += cells.reshape(n_classes, n_classes)
