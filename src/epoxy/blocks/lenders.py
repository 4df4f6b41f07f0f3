"""Who lends and who is near, block by block: each block asks each block, and the nearer is taken.

Of equals the lower row is taken. Blocks are met in the order of their rows, so nothing is merged
afterwards, and who is asked does not depend on how many work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..loans import NOBODY, Loans
from ..neighbors.knn import merge_nearest, nearest_of_each, nearest_rows
from ..progress import Progress, silent
from ..votes import ABSTAIN
from .table import Blocks

LENT = np.dtype([("row", "<i4"), ("distance", "<f4"), ("vote", "<i2")])
"""Of each row the lender, how far it is, and what it votes."""
SAMPLE = 2_000
"""Rows from which the typical distance between neighbours is read."""


def lend(
    asking: Blocks,
    train: Blocks,
    votes: Sequence[str],
    vectors: str,
    metric: str,
    *,
    home: bool = True,
    progress: Progress = silent,
) -> list[str]:
    """Find for each row the nearest train row each source votes on; what the arrays are called.

    `votes` are the arrays of sources that have something to lend. Only what is not there is searched for.
    """
    into = [_name(f"lent {each}", vectors, metric) for each in votes]
    missing = [at for at, name in enumerate(into) if not asking.has(name)]
    if missing:
        wanted = [votes[at] for at in missing]
        asking.each(
            lend_block,
            vectors,
            *wanted,
            into=[into[at] for at in missing],
            again=False,
            progress=progress,
            train=train,
            votes=wanted,
            vectors=vectors,
            metric=metric,
        )
    return into


def lend_block(
    x: np.ndarray, *own: np.ndarray, train: Blocks, votes: list[str], vectors: str, metric: str
) -> Any:
    """What the rows of all blocks lend the rows of one."""
    there, asking = with_direction(x, metric)
    found = [np.full(len(x), -1, LENT) for _ in own]
    for each in found:
        each["distance"], each["row"] = np.inf, NOBODY
    for number, start in enumerate(train.starts):
        said = [train.load(number, name) for name in votes]
        some, rows = with_direction(train.load(number, vectors), metric)
        candidates = [np.flatnonzero(each[some] != ABSTAIN) for each in said]
        if not len(there) or not sum(map(len, candidates)):
            continue
        place, far = nearest_of_each(asking, rows, candidates, metric=metric)
        for into, cast, lends, at, distance in zip(found, said, candidates, place, far):
            near = np.flatnonzero(distance < into["distance"][there])
            who = some[lends[at[near]]]
            into["row"][there[near]] = start + who
            into["distance"][there[near]] = distance[near]
            into["vote"][there[near]] = cast[who]
    return tuple(found) if len(found) > 1 else found[0]


def loans_of(own: np.ndarray, lent: np.ndarray | None) -> Loans:
    """Votes of a source on some rows, and who lends it theirs."""
    if lent is None:
        return Loans.nobody(own)
    row, distance, vote = (np.ascontiguousarray(lent[name]) for name in LENT.names or ())
    return Loans(own, row, distance, vote)


def neighbours(
    asking: Blocks,
    train: Blocks,
    vectors: str,
    metric: str,
    k: int,
    *,
    progress: Progress = silent,
) -> tuple[str, str]:
    """Find the k nearest train rows of each row; the arrays of rows and of distances.

    Where the asking table is the train table, a row is not its own neighbour.
    """
    into = [_name(f"{what} {k}", vectors, metric) for what in ("near", "far")]
    given: dict[str, Any] = {"train": train, "vectors": vectors, "metric": metric, "k": k}
    same = asking is train
    asking.each(
        near_block,
        vectors,
        into=into,
        start=True,
        again=False,
        progress=progress,
        same=same,
        **given,
    )
    return into[0], into[1]


def near_block(
    x: np.ndarray, *, train: Blocks, vectors: str, metric: str, k: int, same: bool, start: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows of all blocks for the rows of one; (n_rows, k) each, −1 and inf for nobody."""
    there, asking = with_direction(x, metric)
    found = np.full((len(there), k), NOBODY, np.int32), np.full((len(there), k), np.inf, np.float32)
    for number, first in enumerate(train.starts):
        itself = same and first == start
        some, rows = (
            (there, asking) if itself else with_direction(train.load(number, vectors), metric)
        )
        row, far = nearest_rows(asking, rows, k, same=itself, metric=metric)
        row = np.where(row >= 0, first + some[np.maximum(row, 0)], NOBODY).astype(np.int32)
        found = merge_nearest(found, (row, far), k)
    near, distance = (
        np.full((len(x), k), NOBODY, np.int32),
        np.full((len(x), k), np.inf, np.float32),
    )
    near[there], distance[there] = found
    return near, distance


def typical_distance(train: Blocks, vectors: str, metric: str) -> float:
    """The median distance from a train row to its nearest other row, from at most 2,000 rows."""
    if train.n_rows < 2:
        return 0.0
    rows = np.unique(np.linspace(0, train.n_rows - 1, min(SAMPLE, train.n_rows)).astype(int))
    sample = train.rows(vectors, rows)
    given: dict[str, Any] = {"rows": rows, "sample": sample, "metric": metric}
    near = np.min(train.list(nearest_others, vectors, start=True, **given), axis=0)
    return float(np.median(near))


def nearest_others(
    x: np.ndarray, *, rows: np.ndarray, sample: np.ndarray, metric: str, start: int
) -> np.ndarray:
    """How near any row of a block but itself comes to each row of a sample; inf where there is none."""
    there, asking = with_direction(sample, metric)
    some, train = with_direction(x, metric)
    near = np.full(len(rows), np.inf)
    if len(there) and len(some):
        row, far = nearest_rows(asking, train, 2, metric=metric)
        itself = (row >= 0) & (start + some[np.maximum(row, 0)] == rows[there][:, None])
        near[there] = np.where(itself | (row < 0), np.inf, far).min(axis=1)
    return near


def with_direction(vectors: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows that can be near somebody, and their vectors as they are compared.

    Under cosine distance a vector of zeros is near nobody, and the others are brought to length one.
    """
    if metric != "cosine":
        return np.arange(len(vectors)), vectors
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    there = np.flatnonzero((vectors != 0).any(axis=1))
    every = vectors if len(there) == len(vectors) else vectors[there]
    return there, (every / length[there, None]).astype(np.float32)


def _name(what: str, vectors: str, metric: str) -> str:
    text = f"{what} {vectors} {metric}"
    return f"{what.split()[0]}-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
