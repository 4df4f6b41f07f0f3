"""How labels follow each other: from true labels, from a given balance, or from the votes alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import LabelError
from ..votes import Split, Votes
from .inference import ChainPrior
from .layout import Layout, layout_of

_ROUNDS = 300
_HALVINGS = 40
_BLOCK = 1 << 17  # rows per product: bounds memory, and float32 counts stay exact below 2**24


def pair_balance(y: Any, *, n_classes: int, sequences: Any = None) -> np.ndarray:
    """Share of each two neighbouring true labels, with one pseudo-pair per cell; (K, K).

    Labels are class indices in row order, −1 where unknown; `sequences` as in `Votes`.

    Examples
    --------
    >>> pair_balance([0, 0, 0, 1, 1, 1, 1], n_classes=2).round(2).tolist()
    [[0.3, 0.2], [0.1, 0.4]]
    """
    labels, layout = _labels(y, n_classes, sequences, None)
    before, after = (labels[rows] for rows in layout.neighbours())
    known = (before >= 0) & (after >= 0)
    counts = np.ones((n_classes, n_classes))
    np.add.at(counts, (before[known], after[known]), 1)
    return np.asarray(counts / counts.sum())


def joint_balance(y: Any, length: int, *, n_classes: int, sequences: Any = None) -> np.ndarray:
    """Share of each joint labelling among the whole windows of `length`; (K ** length,).

    Entries are in lexicographic order, the first element most significant. Windows that are shorter
    or hold an unknown label are left out.

    Examples
    --------
    >>> joint_balance([0, 0, 0, 1, 1, 1], 2, n_classes=2).round(2).tolist()
    [0.33, 0.33, 0.0, 0.33]
    """
    labels, layout = _labels(y, n_classes, sequences, length)
    rows = labels[layout.only_whole(length).starts[:, None] + np.arange(length)]
    rows = rows[(rows >= 0).all(axis=1)]
    if not len(rows):
        raise LabelError(
            f"no window of {length} rows has all its labels, so their joint balance is unknown; "
            "give more labels or a shorter length"
        )
    state = rows @ n_classes ** np.arange(length - 1, -1, -1)
    return np.asarray(np.bincount(state, minlength=n_classes**length) / len(rows))


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
    said = matrix[:, :, None] == np.arange(-1, n_classes)
    return np.asarray(said.reshape(len(matrix), -1), dtype=np.float32)


def shares_said(counts: np.ndarray) -> np.ndarray:
    """How often each source says what, of votes counted on one row; (n_sources, 1 + n_classes)."""
    return np.asarray(np.einsum("ivjw->iv", counts) / len(counts))


def learn_pairs(
    counts: np.ndarray,
    tables: tuple[np.ndarray, np.ndarray],
    share: np.ndarray | None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Pr(Y^s, Y^t) from how votes on neighbouring elements meet, given Pr(vote | class).

    Maximises Σ counts[i,v,j,w]·log Σ_ab J_ab Pr(i says v | a) Pr(j says w | b), the likelihood of all
    pairs of votes, by expectation-maximisation on the K² entries of J alone. Inverting the vote
    tables gives the same answer with infinite data, and negative probabilities before.

    Parameters
    ----------
    counts
        Votes on neighbouring elements; (n_sources, 1 + K, n_sources, 1 + K).
    tables
        Pr(vote | class) on the first and on the second element; (n_sources, 1 + K, K) each.
    share
        Pr(Y), kept on both sides if given; an empty array only makes both sides equal, as they are
        in a stationary chain.
    start
        Where to begin; equal shares of all pairs where None. Where sources are mostly silent the way
        from there to the maximum is longer than the rounds: see `staying_pairs`.
    """
    left, right = (table.reshape(-1, table.shape[2]) for table in tables)
    n_classes = left.shape[1]
    weight = _without_own(counts).reshape(len(left), len(right))
    J = np.full((n_classes, n_classes), 1 / n_classes**2) if start is None else start
    for _ in range(_ROUNDS):
        update = J * (left.T @ ratio(weight, left @ J @ right.T) @ right)
        update = update / update.sum()
        if share is not None:
            side = share if len(share) else _sides(update)
            # one turn of raking; the rounds to come refine it
            update = _scaled(_scaled(update, side, axis=1), side, axis=0)
        change = np.abs(update - J).max()
        J = update
        if change < 1e-7:
            break
    if share is None:
        return J
    side = share if len(share) else _sides(J)
    return rake(J, side, side)


def staying_pairs(counts: np.ndarray, table: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The likeliest Pr(Y^s, Y^t) under which labels stay, or else are drawn anew; (K, K).

    The likelihood of `learn_pairs` along (1 − λ)·share·shareᵀ + λ·diag(share), where it is concave, so
    that halving finds its maximum.
    """
    flat = table.reshape(-1, table.shape[2])
    weight = _without_own(counts).reshape(len(flat), len(flat))
    anew, same = np.outer(share, share), np.diag(share)
    apart = flat @ anew @ flat.T
    rise = flat @ same @ flat.T - apart
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        slope = ratio(weight * rise, apart + middle * rise).sum()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return np.asarray((1 - low) * anew + low * same)


def learn_share(said: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Pr(Y) from how often each source says what, given Pr(vote | class); (n_classes,).

    Maximises Σ said[i,v]·log Σ_y Pr(y) Pr(i says v | y), one entry of votes at a time.
    """
    table, weight = tables.reshape(-1, tables.shape[2]), said.ravel()
    share = np.full(table.shape[1], 1 / table.shape[1])
    for _ in range(_ROUNDS):
        update = share * (ratio(weight, table @ share) @ table)
        update = update / update.sum()
        change = np.abs(update - share).max()
        share = update
        if change < 1e-10:
            break
    return np.asarray(share)


def rake(table: np.ndarray, rows: np.ndarray, columns: np.ndarray, rounds: int = 200) -> np.ndarray:
    """The table nearest in relative entropy with these row and column sums, to rounding error.

    Raking converges slowly when cells are nearly empty; what is missing in the end is spread over
    rows and columns in proportion, so that neighbouring tables always agree about their shared label.
    """
    for _ in range(rounds):
        table = _scaled(table, rows, axis=1)
        table = _scaled(table, columns, axis=0)
        if np.abs(table.sum(axis=1) - rows).max() < 1e-15:
            return table
    table = table * np.minimum(1, ratio(rows, table.sum(axis=1)))[:, None]
    table = table * np.minimum(1, ratio(columns, table.sum(axis=0)))
    # rounding may leave a deficit of -1e-17, and a negative share is no share
    short = np.maximum(rows - table.sum(axis=1), 0), np.maximum(columns - table.sum(axis=0), 0)
    total = short[0].sum()
    return np.asarray(table + np.outer(*short) / total if total > 0 else table)


def stationary_chain(pairs: np.ndarray, share: np.ndarray | None = None) -> ChainPrior:
    """The chain of these pairs, with the same shares of a label on both sides."""
    side = _sides(pairs) if share is None else share
    return ChainPrior(side, rake(pairs, side, side)[None])


def _sides(pairs: np.ndarray) -> np.ndarray:
    return np.asarray((pairs.sum(axis=0) + pairs.sum(axis=1)) / 2)


def _without_own(counts: np.ndarray) -> np.ndarray:
    """Drop a source against itself: its mistakes persist from row to row, and would pass for labels."""
    kept = counts.copy()
    own = np.arange(len(counts))
    kept[own, :, own, :] = 0
    return kept if kept.sum() > 0 else counts


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """One over the other, 0 where there is nothing below."""
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def _scaled(table: np.ndarray, target: np.ndarray, axis: int) -> np.ndarray:
    scale = ratio(target, table.sum(axis=axis))
    return np.asarray(table * (scale[:, None] if axis == 1 else scale))


def _labels(
    y: Any, n_classes: int, sequences: Any, length: int | None
) -> tuple[np.ndarray, Layout]:
    names = tuple(map(str, range(n_classes)))
    rows = np.empty((len(y), 0), dtype=np.int8)
    split = Split(Votes(rows, classes=names, sequences=sequences), y=y)
    named = sequences is not None and length is not None
    layout = layout_of(split.votes, None if named else length)
    return split.truth, layout.cut(length) if named and length else layout
