"""From triplets on to maximum likelihood: Baum-Welch with one vote table per source.

Triplets give every source one accuracy and silence no meaning. Starting there, expectation-
maximisation frees both: Pr(vote | class), abstaining included, and how labels move become the expected
counts under forward-backward.
"""

from __future__ import annotations

import numpy as np

from ..votes import Votes
from .balance import stationary_chain
from .counts import one_hot
from .forward_backward import ChainPrior, smooth
from .layout import Layout

_ROUNDS = 50
_LONGEST = 500  # rows learned from at once: a cut loses one link in so many, and saves Python steps
_WEIGHT = 2.0  # rows the starting table counts for: a source with few votes stays near its start


def refine(
    votes: Votes,
    layout: Layout,
    tables: np.ndarray,
    prior: ChainPrior,
    *,
    fixed: bool,
    share: np.ndarray | None,
) -> tuple[np.ndarray, ChainPrior]:
    """Tables and prior of (locally) greatest likelihood.

    Parameters
    ----------
    tables
        Where to start: Pr(vote | class); (n_places, m, 1 + K, K).
    fixed
        Keep the prior as it is.
    share
        Class shares to keep while the prior is learned, or None to learn them too.
    """
    start = tables
    if len(tables) == 1 and prior.stationary and layout.longest > _LONGEST:
        layout = layout.cut(_LONGEST)
    said = one_hot(votes.matrix, votes.n_classes)
    tied = len(tables) == 1
    place = np.zeros(votes.n_rows, dtype=np.intp) if tied else layout.position
    last = -np.inf
    for _ in range(_ROUNDS):
        found = smooth(_evidence(said, place, tables), layout, prior)
        tables = _tables(said, place, found.marginals, start)
        if not fixed and layout.longest > 1 and prior.stationary:
            prior = stationary_chain(found.pairs / found.pairs.sum(), share)
        elif not fixed and prior.stationary and share is None:
            mean = found.marginals.mean(axis=0)
            prior = ChainPrior.independent(mean)
        if found.log_likelihood - last < 1e-6 * votes.n_rows:
            break
        last = found.log_likelihood
    return tables, prior


def _evidence(said: np.ndarray, place: np.ndarray, tables: np.ndarray) -> np.ndarray:
    n_classes = tables.shape[-1]
    flat = np.log(np.maximum(tables, 1e-300)).reshape(len(tables), -1, n_classes)
    if len(tables) == 1:
        return np.asarray(said @ flat[0])
    out = np.empty((len(said), n_classes))
    for index, table in enumerate(flat):
        out[place == index] = said[place == index] @ table
    return out


def _tables(
    said: np.ndarray, place: np.ndarray, marginals: np.ndarray, start: np.ndarray
) -> np.ndarray:
    fresh = np.empty_like(start)
    for index in range(len(start)):
        at = slice(None) if len(start) == 1 else place == index
        counts = (said[at].T @ marginals[at]).reshape(start.shape[1:]) + _WEIGHT * start[index]
        fresh[index] = counts / counts.sum(axis=1, keepdims=True)
    return fresh
