"""The inner loops of the label models in numpy: the oracle for the compiled ones, bit for bit.

Each function has the name, arguments and results of the loop in `epoxy.label_models.kernels` or
`detectors` that it stands in for, without the underscore it may have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epoxy.label_models import detectors, kernels

KERNELS = ["_add", "_look_up", "_split", "median_of_triplets", "encode", "meet", "meet_one", "swap"]
DETECTORS = ["_compare", "tabulate"]


def stand_in(monkeypatch: Any) -> None:
    """Let the package run on these instead of its compiled loops."""
    for module, names in ((kernels, KERNELS), (detectors, DETECTORS)):
        for name in names:
            monkeypatch.setattr(module, name, globals()[name.removeprefix("_")])


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


def encode(
    columns: np.ndarray, steps: np.ndarray, n_codes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes = np.zeros(columns.shape[1], dtype=np.int32)
    seen = np.empty(n_codes, dtype=np.int32)
    for column, step in zip(columns, steps):
        codes += (column.astype(np.int32) + 1) * step
    counts = np.bincount(codes, minlength=n_codes).astype(np.int32)
    seen[codes] = np.arange(len(codes), dtype=np.int32)
    return codes, counts, seen


def meet(counts: np.ndarray, n_sources: int, n_classes: int) -> np.ndarray:
    code = np.flatnonzero(counts)
    base = n_classes + 1
    digits = code // base ** np.arange(n_sources)[:, None] % base  # (n_sources, n_patterns)
    named = np.arange(1, base)[:, None]
    fires = (digits[:, None, :] == named).reshape(n_sources * n_classes, -1).astype(float)
    return ((fires * counts[code]) @ fires.T).astype(np.int64)  # below 2⁵³: exact


def meet_one(votes: np.ndarray, weight: np.ndarray, at: int, n_classes: int) -> np.ndarray:
    return _met(votes, votes[at], n_classes, weight)


def look_up(table: np.ndarray, codes: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    second[:] = table.take(codes)
    np.subtract(1, second, out=first)


def split(odds: np.ndarray, small: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    ahead = 1 / (1 + small)
    second[:] = np.where(odds >= 0, ahead, small * ahead)
    np.subtract(1, second, out=first)


def swap(
    columns: np.ndarray, at: int, column: np.ndarray, cross: np.ndarray, coded_as: Any
) -> None:
    codes, counts, step = coded_as
    rows = np.flatnonzero(columns[at] != column)
    old, new = columns[at, rows], column[rows]
    columns[at, rows] = new
    if len(counts):
        was = codes[rows]
        codes[rows] += (new.astype(np.int32) - old) * step
        counts -= np.bincount(was, minlength=len(counts)).astype(np.int32)
        counts += np.bincount(codes[rows], minlength=len(counts)).astype(np.int32)
    if len(cross):
        others = columns[:, rows]
        for votes, sign in ((old, -1), (new, 1)):
            others[at] = votes
            cross += sign * _met(others, votes, cross.shape[1])


def _met(
    columns: np.ndarray, votes: np.ndarray, n_classes: int, weight: np.ndarray | None = None
) -> np.ndarray:
    """How often each of `votes` meets each vote of every column; (n_sources, n_classes, n_classes)."""
    found = np.zeros((len(columns), n_classes, n_classes), dtype=np.int64)
    for cells, column in zip(found, columns):
        seen = (votes >= 0) & (column >= 0)
        pair = votes[seen].astype(np.intp) * n_classes + column[seen]
        times = np.bincount(pair, None if weight is None else weight[seen], n_classes**2)
        cells += times.reshape(n_classes, n_classes).astype(np.int64)  # below 2⁵³: exact
    return found


def compare(joint: Any, n: int, balance: Any, named: Any, found: Any) -> None:
    moment, spread, expected = found
    rate, odds = np.diagonal(joint) / n, np.sqrt((1 - balance) / balance)[named]
    unlike = -1.0 if len(balance) == 2 else -np.outer(odds, odds)
    scale = np.where(named[:, None] == named, 1.0, unlike)
    chance, together = np.outer(rate, rate), joint / n
    variance = np.maximum(chance * np.outer(1 - rate, 1 - rate), together / n) / n
    moment[:] = (together - chance) * scale
    spread[:] = np.where(chance > 0, np.sqrt(variance) * np.abs(scale), np.inf)
    expected[:] = chance * n


def tabulate(units: Any, seen: Any, balance: Any, n: int, found: Any) -> None:
    (source, named), (theta, rate, fires), (prob, right) = units, seen, found
    edge = 0.5 / (n + 1)
    share = balance[named]
    alpha = theta / np.sqrt(share * (1 - share))
    alpha = np.minimum(alpha, np.minimum(rate / share, (1 - rate) / (1 - share)))
    hit = np.minimum(np.maximum(rate + (1 - share) * alpha, edge), 1 - edge)
    false = np.minimum(np.maximum(rate - share * alpha, np.minimum(edge, rate / 2)), 1 - edge)
    said = np.zeros((len(prob), len(balance), len(balance)))
    said[source, named] = false[:, None]
    said[source, named, named] = hit
    prob[source, 1 + named] = said[source, named]
    prob[:, 0] = np.maximum(1 - said.sum(axis=1), 1 / (n + 2))
    precision = hit * share / (hit * share + false * (1 - share))
    total = np.bincount(source, fires, len(prob))
    mean = np.bincount(source, precision * fires, len(prob))
    right[:] = np.where(total > 0, mean / np.maximum(total, 1), right)
