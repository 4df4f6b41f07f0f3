"""The inner loops behind every edit.

They number combinations of votes, count who votes with whom, sum evidence, take medians of triplets.
Sums run in the order of the sources, so the bits do not depend on how they are vectorised. Compiled,
an edit at 22,070 × 9 is four times as fast as in numpy and a radius three times; the first call
compiles, once per machine. Slices are added and medians found by plain loops, because what the
compiler makes of numpy's slice arithmetic and `partition` takes it seconds.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..compiling import compiled, select_largest
from . import detectors


def sum_by_vote(columns: np.ndarray, tables: np.ndarray, start: float) -> np.ndarray:
    """start + Σⱼ tables[j, columns[j, i] + 1] for every row i; columns is (n_sources, n_rows)."""
    odds = np.full(columns.shape[1], start)
    _add(columns, np.ascontiguousarray(tables), odds)
    return odds


def gathered(joint: np.ndarray, group: np.ndarray, value: np.ndarray, n_groups: int) -> np.ndarray:
    """Σ value[i]·value[j]·joint[i, j] over the members of each two groups; (n_groups, n_groups)."""
    found = np.zeros((n_groups, n_groups))
    _gather(joint, group, value, found)
    return found


def look_up_pairs(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Pr(class 1) by code, as both columns by row; (n_rows, 2), each column contiguous."""
    proba = np.empty((len(codes), 2), order="F")
    _look_up(table, codes, proba[:, 0], proba[:, 1])
    return proba


def from_log_odds(odds: np.ndarray) -> np.ndarray:
    """Both classes' probabilities, without overflow; (n_rows, 2), each column contiguous."""
    small = np.abs(odds)
    np.negative(small, out=small)
    np.exp(small, out=small)  # numpy's: compilers round it differently
    proba = np.empty((len(odds), 2), order="F")
    _split(odds, small, proba[:, 0], proba[:, 1])
    return proba


@functools.cache
def warm() -> None:
    """Compile now, so that the first edit does not wait for it."""
    detectors.warm()
    columns = np.zeros((1, 1), dtype=np.int8)
    steps = np.ones(1, dtype=np.int32)
    sum_by_vote(columns, np.zeros((1, 3)), 0.0)
    gathered(np.ones((1, 1)), np.zeros(1, dtype=np.int64), np.ones(1), 1)
    codes, counts, _ = encode(columns, steps, 3)
    meet(counts, 1, 2)
    meet_one(columns, codes, 0, 2)
    look_up_pairs(np.zeros(3), codes)
    from_log_odds(np.zeros(1))
    swap(columns, 0, columns[0], np.zeros((1, 2, 2), dtype=np.int64), (codes, counts, 1))
    three = np.arange(3)
    median_of_triplets(np.ones((3, 3)), np.ones((3, 3), dtype=bool), three >= 0, three, 3)


@compiled
def _add(columns: Any, tables: Any, odds: Any) -> None:
    for source in range(columns.shape[0]):
        table, column = tables[source], columns[source]
        for row in range(columns.shape[1]):
            odds[row] += table[column[row] + 1]


@compiled
def _gather(joint: Any, group: Any, value: Any, found: Any) -> None:
    for first in range(joint.shape[0]):
        row, scale = found[group[first]], value[first]
        for second in range(joint.shape[1]):
            row[group[second]] += scale * value[second] * joint[first, second]


@compiled
def encode(columns: Any, steps: Any, n_codes: int) -> Any:
    """Number each row's combination of votes: Σⱼ (columns[j, i] + 1)·steps[j].

    Returns the numbers, (n_rows,) int32; how many rows have each, and one such row, (n_codes,).
    """
    codes = np.zeros(columns.shape[1], np.int32)
    counts, seen = np.zeros(n_codes, np.int32), np.empty(n_codes, np.int32)
    for source in range(columns.shape[0]):
        column, step = columns[source], steps[source]
        for row in range(columns.shape[1]):
            codes[row] += (np.int32(column[row]) + np.int32(1)) * step
    for row in range(codes.shape[0]):
        counts[codes[row]] += 1
        seen[codes[row]] = row
    return codes, counts, seen


@compiled
def meet(counts: Any, n_sources: int, n_classes: int) -> Any:
    """How often each two (source, class) pairs occur together; `counts` are rows by code.

    Returns (m·k, m·k) int64; entry (j·k + a, l·k + b) counts rows with vote a of j and b of l. One
    digit after the other is summed out of the table: six steps per code, whatever the rows say.
    """
    joint = np.zeros((n_sources * n_classes, n_sources * n_classes), np.int64)
    base = n_classes + 1
    size = counts.shape[0]
    table, part = np.empty(size, np.int64), np.empty(size, np.int64)
    for code in range(size):
        table[code] = counts[code]
    for source in range(n_sources - 1, -1, -1):
        size //= base  # codes of the sources before this one
        for named in range(n_classes):
            mine, total = source * n_classes + named, 0
            for code in range(size):
                part[code] = table[(named + 1) * size + code]
                total += part[code]
            joint[mine, mine] = total
            width = size
            for other in range(source - 1, -1, -1):
                width //= base
                for said in range(n_classes):
                    theirs, total = other * n_classes + said, 0
                    for code in range(width):
                        met = part[(said + 1) * width + code]
                        total += met
                        part[code] += met
                    joint[mine, theirs] = joint[theirs, mine] = total
        for named in range(n_classes):
            for code in range(size):
                table[code] += table[(named + 1) * size + code]
    return joint


@compiled
def meet_one(votes: Any, weight: Any, at: int, n_classes: int) -> Any:
    """How often each vote of one source meets each vote of every source.

    `votes` (n_sources, n_patterns) occur on `weight` rows each; (n_sources, n_classes, n_classes).
    """
    cross = np.zeros((votes.shape[0], n_classes, n_classes), np.int64)
    for pattern in range(votes.shape[1]):
        said = votes[at, pattern]
        if said < 0:
            continue
        for source in range(votes.shape[0]):
            other = votes[source, pattern]
            if other >= 0:
                cross[source, said, other] += weight[pattern]
    return cross


@compiled
def _look_up(table: Any, codes: Any, first: Any, second: Any) -> None:
    for row in range(codes.shape[0]):
        value = table[codes[row]]
        second[row] = value
        first[row] = 1 - value


@compiled
def _split(odds: Any, small: Any, first: Any, second: Any) -> None:
    for row in range(odds.shape[0]):
        ahead = 1 / (1 + small[row])
        value = ahead if odds[row] >= 0 else small[row] * ahead
        second[row] = value
        first[row] = 1 - value


@compiled
def swap(columns: Any, at: int, column: Any, cross: Any, coded_as: Any) -> None:
    """Replace one column in place and bring what was counted of it in step.

    `cross` (n_sources, n_classes, n_classes) counts how often each vote of the column meets each
    vote of every source; `coded_as` is (codes, counts by code, step of the column). Either may be
    empty: it is then left alone.
    """
    codes, counts, step = coded_as
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


@compiled
def median_of_triplets(moment: Any, allowed: Any, wanted: Any, order: Any, most: int) -> Any:
    """For each wanted unit the median of √|MᵢⱼMᵢₖ/Mⱼₖ| over its allowed triplets, NaN for none.

    Its partners are the first `most` in `order` that it is allowed to be compared with.
    """
    n_units = moment.shape[0]
    found = np.full(n_units, np.nan)
    values = np.empty(min(n_units, most) * (min(n_units, most) - 1) // 2)
    for unit in np.flatnonzero(wanted):
        partners = np.flatnonzero(allowed[unit])
        many = partners.shape[0]
        if many > most:
            many = 0
            for j in order:
                if many < most and allowed[unit, j]:
                    partners[many] = j
                    many += 1
        count = 0
        for first in range(many):
            j = partners[first]
            for second in range(first + 1, many):
                k = partners[second]
                below = moment[j, k]
                if allowed[j, k] and below != 0.0:
                    values[count] = np.abs(moment[unit, j] * moment[unit, k] / below)
                    count += 1
        if count > 0:
            # from the middle one up, or from the higher of the middle two
            upper = count - count // 2
            select_largest(values, count, upper)
            high, low = values[0], values[count - 1]
            for at in range(1, upper):
                high = min(high, values[at])
            for at in range(upper, count):
                low = max(low, values[at])
            # roots keep the order, so only those in the middle are taken
            found[unit] = (np.sqrt(high if count % 2 == 1 else low) + np.sqrt(high)) / 2
    return found
