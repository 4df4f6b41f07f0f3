"""The inner loops behind every edit.

They number combinations of votes, count who votes with whom, sum evidence, take medians of triplets:
numba's where it can be imported, numpy's otherwise (or by `EPOXY_KERNELS=numpy`); both give the same
bits, because sums run in the order of the sources. With numba an edit at 22,070 × 9 is four times as
fast, a radius three times (`benchmarks/speed.py`, both ways); the first call compiles, once per machine.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "borrow",
    "either",
    "encode",
    "from_log_odds",
    "look_up_pairs",
    "median_of_triplets",
    "meet",
    "meet_one",
    "sum_log_odds",
    "swap",
    "warm",
]


def sum_log_odds(columns: np.ndarray, tables: np.ndarray, start: float) -> np.ndarray:
    """start + Σⱼ tables[j, columns[j, i] + 1] for every row i; columns is (n_sources, n_rows)."""
    odds = np.full(columns.shape[1], start)
    either(_add_loop, _add_numpy)(columns, np.ascontiguousarray(tables), odds)
    return odds


def encode(
    columns: np.ndarray, steps: np.ndarray, n_codes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number each row's combination of votes: Σⱼ (columns[j, i] + 1)·steps[j].

    Returns the numbers, (n_rows,) int32; how many rows have each, and one such row, (n_codes,).
    """
    codes = np.zeros(columns.shape[1], dtype=np.int32)
    counts = np.zeros(n_codes, dtype=np.int32)
    seen = np.empty(n_codes, dtype=np.int32)
    either(_encode_loop, _encode_numpy)(columns, steps, codes, counts, seen)
    return codes, counts, seen


def meet(counts: np.ndarray, n_sources: int, n_classes: int) -> np.ndarray:
    """How often each two (source, class) pairs occur together; `counts` are rows by code.

    Returns (m·k, m·k) int64; entry (j·k + a, l·k + b) counts rows with vote a of j and b of l.
    """
    size = n_sources * n_classes
    joint = np.zeros((size, size), dtype=np.int64)
    either(_meet_loop, _meet_numpy)(counts, n_sources, n_classes, joint)
    return joint


def meet_one(votes: np.ndarray, weight: np.ndarray, at: int, n_classes: int) -> np.ndarray:
    """How often each vote of one source meets each vote of every source.

    `votes` (n_sources, n_patterns) occur on `weight` rows each; (n_sources, n_classes, n_classes).
    """
    cross = np.zeros((len(votes), n_classes, n_classes), dtype=np.int64)
    either(_meet_one_loop, _meet_one_numpy)(votes, weight, at, cross)
    return cross


def look_up_pairs(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Pr(class 1) by code, as both columns by row; (n_rows, 2), each column contiguous."""
    proba = np.empty((len(codes), 2), order="F")
    either(_look_up_loop, _look_up_numpy)(table, codes, proba[:, 0], proba[:, 1])
    return proba


def from_log_odds(odds: np.ndarray) -> np.ndarray:
    """Both classes' probabilities, without overflow; (n_rows, 2), each column contiguous."""
    small = np.abs(odds)
    np.negative(small, out=small)
    np.exp(small, out=small)  # numpy's, in both sets: compilers round it differently
    proba = np.empty((len(odds), 2), order="F")
    either(_split_loop, _split_numpy)(odds, small, proba[:, 0], proba[:, 1])
    return proba


def borrow(own: np.ndarray, said: np.ndarray, distance: np.ndarray, radius: float) -> np.ndarray:
    """Own votes, and where there is none what the nearest lender said, if it is within the radius.

    Returns `own` itself where nobody borrows; nobody is within a radius of NaN.
    """
    column = np.empty_like(own)
    borrowed: bool = either(_borrow_loop, _borrow_numpy)(own, said, distance, radius, column)
    return column if borrowed else own


def swap(
    columns: np.ndarray,
    at: int,
    column: np.ndarray,
    cross: np.ndarray,
    coded: tuple[np.ndarray, np.ndarray, int],
) -> None:
    """Replace one column in place and bring what was counted of it in step.

    `cross` (n_sources, n_classes, n_classes) counts how often each vote of the column meets each
    vote of every source; `coded` is (codes, counts by code, step of the column). Either may be
    empty: it is then left alone.
    """
    either(_swap_loop, _swap_numpy)(columns, at, column, cross, *coded)


def median_of_triplets(moment: np.ndarray, allowed: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each wanted unit the median of √|MᵢⱼMᵢₖ/Mⱼₖ| over its allowed triplets, NaN for none."""
    found = np.full(len(moment), np.nan)
    either(_median_loop, _median_numpy)(moment, allowed, np.flatnonzero(wanted), found)
    return found


def warm() -> None:
    """Compile now, so that the first edit does not wait for it."""
    from . import detectors  # which is made of what is here

    detectors.warm()
    columns = np.zeros((1, 1), dtype=np.int8)
    steps = np.ones(1, dtype=np.int32)
    sum_log_odds(columns, np.zeros((1, 3)), 0.0)
    codes, counts, _ = encode(columns, steps, 3)
    meet(counts, 1, 2)
    meet_one(columns, codes, 0, 2)
    look_up_pairs(np.zeros(3), codes)
    distance = np.zeros(1)
    borrow(columns[0], columns[0], distance, 0.0)
    distance.flags.writeable = False  # a type of its own to the compiler
    borrow(columns[0], columns[0], distance, 0.0)
    from_log_odds(np.zeros(1))
    swap(columns, 0, columns[0], np.zeros((1, 2, 2), dtype=np.int64), (codes, counts, 1))
    median_of_triplets(np.ones((3, 3)), np.ones((3, 3), dtype=bool), np.ones(3, dtype=bool))


def either(loop: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """`loop`, compiled, where numba is in use, else `plain`; both do the same."""
    return _compiled(loop) if _with_numba(os.environ.get("EPOXY_KERNELS", "")) else plain


@functools.cache
def _with_numba(kind: str) -> bool:
    return kind != "numpy" and importlib.util.find_spec("numba") is not None


@functools.cache
def _compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    made: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy")(loop)
    return made


def _add_loop(columns: Any, tables: Any, odds: Any) -> None:
    for source in range(columns.shape[0]):
        table, column = tables[source], columns[source]
        for row in range(columns.shape[1]):
            odds[row] += table[column[row] + 1]


def _encode_loop(columns: Any, steps: Any, codes: Any, counts: Any, seen: Any) -> None:
    for source in range(columns.shape[0]):
        column, step = columns[source], steps[source]
        for row in range(columns.shape[1]):
            codes[row] += (np.int32(column[row]) + np.int32(1)) * step
    for row in range(codes.shape[0]):
        counts[codes[row]] += 1
        seen[codes[row]] = row


def _meet_loop(counts: Any, n_sources: int, n_classes: int, joint: Any) -> None:
    """Sum one digit after the other out of the table: six steps per code, whatever the rows say."""
    base = n_classes + 1
    table = counts.astype(np.int64)
    size = table.shape[0]
    for source in range(n_sources - 1, -1, -1):
        size //= base  # codes of the sources before this one
        for named in range(n_classes):
            mine = source * n_classes + named
            part = table[(named + 1) * size : (named + 2) * size].copy()
            joint[mine, mine] = part.sum()
            width = size
            for other in range(source - 1, -1, -1):
                width //= base
                for said in range(n_classes):
                    theirs = other * n_classes + said
                    block = part[(said + 1) * width : (said + 2) * width]
                    joint[mine, theirs] = joint[theirs, mine] = block.sum()
                    part[:width] += block
        for named in range(n_classes):
            table[:size] += table[(named + 1) * size : (named + 2) * size]


def _meet_one_loop(votes: Any, weight: Any, at: int, cross: Any) -> None:
    for pattern in range(votes.shape[1]):
        said = votes[at, pattern]
        if said < 0:
            continue
        for source in range(votes.shape[0]):
            other = votes[source, pattern]
            if other >= 0:
                cross[source, said, other] += weight[pattern]


def _look_up_loop(table: Any, codes: Any, first: Any, second: Any) -> None:
    for row in range(codes.shape[0]):
        value = table[codes[row]]
        second[row] = value
        first[row] = 1 - value


def _split_loop(odds: Any, small: Any, first: Any, second: Any) -> None:
    for row in range(odds.shape[0]):
        ahead = 1 / (1 + small[row])
        value = ahead if odds[row] >= 0 else small[row] * ahead
        second[row] = value
        first[row] = 1 - value


def _borrow_loop(own: Any, said: Any, distance: Any, radius: float, column: Any) -> bool:
    borrowed = False
    for at in range(own.shape[0]):  # no branch inside: a compiler makes vectors of it
        lent = (own[at] < 0) & (distance[at] <= radius)
        column[at] = said[at] if lent else own[at]
        borrowed |= lent
    return borrowed


def _swap_loop(
    columns: Any, at: int, column: Any, cross: Any, codes: Any, counts: Any, step: int
) -> None:
    now = columns[at]
    counted, coded = cross.shape[0] > 0, counts.shape[0] > 0
    # first who changed, without a branch: nobody can foresee them
    changed, many = np.empty(now.shape[0], np.int32), 0
    for row in range(now.shape[0]):
        changed[many] = row
        many += now[row] != column[row]
    for row in changed[:many]:
        old, new = now[row], column[row]
        now[row] = new
        if coded:
            code = codes[row]
            counts[code] -= 1
            code += (np.int32(new) - np.int32(old)) * step
            codes[row] = code
            counts[code] += 1
        if not counted:
            continue
        for source in range(columns.shape[0]):
            other = columns[source, row]
            if source == at:
                if old >= 0:
                    cross[at, old, old] -= 1
                if new >= 0:
                    cross[at, new, new] += 1
            elif other >= 0:
                if old >= 0:
                    cross[source, old, other] -= 1
                if new >= 0:
                    cross[source, new, other] += 1


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


def _encode_numpy(
    columns: np.ndarray, steps: np.ndarray, codes: np.ndarray, counts: np.ndarray, seen: np.ndarray
) -> None:
    for column, step in zip(columns, steps):
        codes += (column.astype(np.int32) + 1) * step
    counts += np.bincount(codes, minlength=len(counts)).astype(np.int32)
    seen[codes] = np.arange(len(codes), dtype=np.int32)


def _meet_numpy(counts: np.ndarray, n_sources: int, n_classes: int, joint: np.ndarray) -> None:
    code = np.flatnonzero(counts)
    base = n_classes + 1
    digits = code // base ** np.arange(n_sources)[:, None] % base  # (n_sources, n_patterns)
    named = np.arange(1, base)[:, None]
    fires = (digits[:, None, :] == named).reshape(len(joint), -1).astype(float)
    joint += ((fires * counts[code]) @ fires.T).astype(np.int64)  # below 2⁵³: exact


def _meet_one_numpy(votes: np.ndarray, weight: np.ndarray, at: int, cross: np.ndarray) -> None:
    cross += _met(votes, votes[at], cross.shape[1], weight)


def _look_up_numpy(
    table: np.ndarray, codes: np.ndarray, first: np.ndarray, second: np.ndarray
) -> None:
    second[:] = table.take(codes)
    np.subtract(1, second, out=first)


def _split_numpy(
    odds: np.ndarray, small: np.ndarray, first: np.ndarray, second: np.ndarray
) -> None:
    ahead = 1 / (1 + small)
    second[:] = np.where(odds >= 0, ahead, small * ahead)
    np.subtract(1, second, out=first)


def _borrow_numpy(
    own: np.ndarray, said: np.ndarray, distance: np.ndarray, radius: float, column: np.ndarray
) -> bool:
    with np.errstate(invalid="ignore"):
        lent = (own < 0) & (distance <= radius)
    column[:] = np.where(lent, said, own)
    return bool(lent.any())


def _swap_numpy(
    columns: np.ndarray,
    at: int,
    column: np.ndarray,
    cross: np.ndarray,
    codes: np.ndarray,
    counts: np.ndarray,
    step: int,
) -> None:
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
