"""Votes and vectors with known truth: what tests, theory and demonstrations measure against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError
from ..votes import ABSTAIN, Split, Votes
from .dataset import Dataset


@dataclass(frozen=True)
class SyntheticSource:
    """How one synthetic source votes.

    Parameters
    ----------
    accuracy
        Probability that a vote is right.
    coverage
        Probability that it votes on a row.
    label
        The one class (by index) it ever names; None for a source that may name any.
    """

    accuracy: float = 0.8
    coverage: float = 0.4
    label: int | None = None


def synthetic(
    n_rows: int = 1000,
    *,
    sources: int | Sequence[SyntheticSource] = 5,
    balance: Sequence[float] = (0.5, 0.5),
    dimension: int = 16,
    smoothness: float = 0.6,
    seed: int = 0,
) -> Dataset:
    """Draw rows, vectors and votes; votes are independent given the true class and the vector.

    With s the smoothness, g a standard normal vector and u_y a random direction per class, a row's
    vector is s·u_y + (1 − s)·g/√d. Source j votes where √s·⟨g, w_j⟩ + √(1 − s)·ε, which is standard
    normal for its random direction w_j, exceeds the quantile that gives its coverage: rows near each
    other are then voted on by the same sources. With s = 0 vectors say nothing of classes or votes.

    Parameters
    ----------
    n_rows
        Train rows; dev has a fifth and test a half as many, at least 20 each.
    sources
        How many default sources, or a `SyntheticSource` for each.
    balance
        Probability of each class, and thereby how many there are.
    smoothness
        0 to 1: how much nearness in space says about class and about who votes.

    Examples
    --------
    >>> data = synthetic(500, sources=[SyntheticSource(0.9, 0.5), SyntheticSource(0.7, 0.3, label=1)], seed=1)
    >>> data
    Dataset('synthetic', train 500, dev 100, test 250, 2 classes)
    >>> votes, truth = data.train.votes, data.truth["train"]
    """
    described = [SyntheticSource()] * sources if isinstance(sources, int) else list(sources)
    prior = np.asarray(balance, dtype=float)
    _check(n_rows, described, prior, dimension, smoothness)
    rng = np.random.default_rng(seed)
    sizes = {"train": n_rows, "dev": max(20, n_rows // 5), "test": max(20, n_rows // 2)}
    total = sum(sizes.values())
    y = rng.choice(len(prior), size=total, p=prior / prior.sum())
    local = rng.standard_normal((total, dimension))
    centers = _directions(rng, len(prior), dimension)
    vectors = smoothness * centers[y] + (1 - smoothness) * local / np.sqrt(dimension)
    columns = [_column(rng, each, y, local, prior, smoothness) for each in described]
    matrix = np.column_stack(columns) if columns else np.empty((total, 0), dtype=np.int64)
    return _cut(sizes, matrix, vectors, y, len(prior))


def _column(
    rng: np.random.Generator,
    source: SyntheticSource,
    y: np.ndarray,
    local: np.ndarray,
    prior: np.ndarray,
    smoothness: float,
) -> np.ndarray:
    """One source's votes; (n_rows,)."""
    from scipy.special import ndtri

    direction = _directions(rng, 1, local.shape[1])[0]
    noise = rng.standard_normal(len(y))
    score = np.sqrt(smoothness) * (local @ direction) + np.sqrt(1 - smoothness) * noise
    chance = _chances(source, prior)[y]
    wrong = (y + rng.integers(1, len(prior), len(y))) % len(prior)
    vote = np.where(rng.random(len(y)) < source.accuracy, y, wrong)
    if source.label is not None:
        vote = np.full(len(y), source.label)
    return np.where(score > ndtri(1 - chance), vote, ABSTAIN)


def _chances(source: SyntheticSource, prior: np.ndarray) -> np.ndarray:
    """Probability that the source votes on a row of each class; (n_classes,).

    A source that only names k is right with probability a when P(votes | y = k) = c·a/P(k) and
    P(votes | y ≠ k) = c·(1 − a)/(1 − P(k)), by Bayes' rule.
    """
    chances = np.full(len(prior), source.coverage)
    if source.label is not None:
        share = prior[source.label] / prior.sum()
        chances[:] = source.coverage * (1 - source.accuracy) / (1 - share)
        chances[source.label] = source.coverage * source.accuracy / share
    if chances.max() > 1 + 1e-12:
        raise ParameterError(
            f"{source} is impossible: it would vote on more rows of a class than there are; "
            "lower its coverage"
        )
    return np.asarray(np.clip(chances, 0, 1))


def _directions(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    raw = rng.standard_normal((count, dimension))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def _cut(
    sizes: dict[str, int], matrix: np.ndarray, vectors: np.ndarray, y: np.ndarray, n_classes: int
) -> Dataset:
    import pyarrow as pa

    classes = tuple(f"class_{index}" for index in range(n_classes))
    splits: dict[str, Split] = {}
    tables: dict[str, Any] = {}
    start = 0
    for name, size in sizes.items():
        part = slice(start, start + size)
        start += size
        ids = [f"{name}-{row}" for row in range(size)]
        splits[name] = Split(Votes(matrix[part], None, classes), vectors[part], y[part], ids)
        tables[name] = pa.table({"id": ids})
    return Dataset.sealed("synthetic", classes, splits, tables)


def _check(
    n_rows: int,
    sources: Sequence[SyntheticSource],
    prior: np.ndarray,
    dimension: int,
    smoothness: float,
) -> None:
    if n_rows < 1 or dimension < 1:
        raise ParameterError(
            f"n_rows and dimension are at least 1, got {n_rows} and {dimension}; raise them"
        )
    if prior.ndim != 1 or len(prior) < 2 or not (np.isfinite(prior).all() and prior.min() > 0):
        raise ParameterError(
            f"balance gives a positive probability for each of 2 or more classes, "
            f"got {prior.tolist()}"
        )
    if not 0 <= smoothness <= 1:
        raise ParameterError(f"smoothness lies between 0 and 1, got {smoothness}")
    for source in sources:
        if not (0 <= source.accuracy <= 1 and 0 <= source.coverage <= 1):
            raise ParameterError(f"accuracy and coverage lie between 0 and 1, got {source}")
        if source.label is not None and not 0 <= source.label < len(prior):
            raise ParameterError(
                f"{source} names a class that is not there; there are {len(prior)}, from 0"
            )
