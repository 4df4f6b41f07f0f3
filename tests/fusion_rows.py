"""Rows of known classes, for tests of the default model."""

from __future__ import annotations

from typing import Any

import numpy as np

from epoxy import Split, Votes

CLASSES = ["ham", "spam"]


def classes_of(n_classes: int) -> list[str]:
    return CLASSES if n_classes == 2 else [f"class_{k}" for k in range(n_classes)]


def draw(
    n_rows: int, seed: int, n_sources: int = 6, n_classes: int = 2, dimension: int = 8
) -> Split:
    """Rows whose class is a direction; one-sided sources, right on five of six rows they vote on."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    vectors = 1.2 * np.eye(dimension)[y] + 0.6 * rng.normal(size=(n_rows, dimension))
    names = np.arange(n_sources) % n_classes
    speaks = rng.random((n_rows, n_sources)) < np.where(y[:, None] == names, 0.3, 0.06)
    return Split(Votes(np.where(speaks, names, -1), classes=classes_of(n_classes)), vectors, y)


def bare(split: Split) -> Split:
    """The same rows, none of them labelled."""
    return Split(split.votes, split.vectors)


def with_votes(split: Split, matrix: np.ndarray, sources: Any = None) -> Split:
    votes = Votes(matrix, split.votes.sources if sources is None else sources, split.classes)
    return Split(votes, split.vectors, split.y, split.ids, split.chosen)


def with_vectors(split: Split, vectors: Any) -> Split:
    return Split(split.votes, vectors, split.y, split.ids, split.chosen)


def with_source(split: Split, column: np.ndarray, name: str = "bad") -> Split:
    matrix = np.column_stack([split.votes.matrix, column])
    return with_votes(split, matrix, [*split.votes.sources, name])


def voting(n_rows: int, seed: int, n_classes: int, n_sources: int = 6) -> Split:
    """Rows of which sources name every class, the first one twice as often by mistake."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    vectors = 1.2 * np.eye(8)[y] + rng.normal(size=(n_rows, 8))
    size = (n_rows, n_sources)
    wrong = np.where(rng.random(size) < 0.5, 0, rng.integers(n_classes, size=size))
    said = np.where(rng.random(size) < 0.6, y[:, None], wrong)
    votes = np.where(rng.random(size) < 0.4, said, -1)
    votes[rng.random(n_rows) < 0.1] = -1
    return Split(Votes(votes, classes=classes_of(n_classes)), vectors, y)


def named(n_rows: int, seed: int, n_sources: int = 3) -> Split:
    """Rows of two far clouds, and sources that toss a coin."""
    rng = np.random.default_rng(seed)
    y, size = np.arange(n_rows) % 2, (n_rows, n_sources)
    votes = np.where(rng.random(size) < 0.5, rng.integers(2, size=size), -1)
    vectors = 3 * np.eye(8)[y] + 0.3 * rng.normal(size=(n_rows, 8))
    return Split(Votes(votes, classes=CLASSES), vectors, y)


def board(n_rows: int, seed: int) -> Split:
    """Rows of eight columns whose class counts how many of six are high; sources err on a third."""
    rng = np.random.default_rng(seed)
    table = rng.random((n_rows, 8)) * np.geomspace(1, 1000, 8)
    y = ((table > np.geomspace(1, 1000, 8) / 2)[:, :6].sum(axis=1) > 3).astype(int)
    names = np.arange(6) % 2
    speaks = rng.random((n_rows, 6)) < np.where(y[:, None] == names, 0.4, 0.22)
    return Split(Votes(np.where(speaks, names, -1), classes=CLASSES), table, y)


def copied(split: Split) -> Split:
    """With sources that repeat others, mostly or in all, and with some that hardly vote or never."""
    own, n_rows = split.votes.matrix, split.n_rows
    near, half = own[:, 0].copy(), own[:, 1].copy()
    near[::4], half[::2] = -1, -1
    rare, ten, mute = (np.full((n_rows, many), -1) for many in (3, 2, 1))
    rare[::18], ten[::16] = 1, 0
    more = np.column_stack([near, own[:, 1], half, rare, ten, mute])
    names = ["near copy", "the same", "half a copy", "rare 0", "rare 1", "rare 2"]
    names += ["ten 0", "ten 1", "mute"]
    return with_votes(split, np.hstack([own, more]), [*split.votes.sources, *names])


def turned(split: Split, share: float = 0.6, seed: int = 0, name: str = "bad") -> Split:
    """With a source that votes on most rows, and is wrong on eight of ten."""
    rng, k = np.random.default_rng(100 + seed + split.n_rows), len(split.classes)
    y = split.truth if split.y is not None else np.asarray(split.vectors)[:, :k].argmax(axis=1)
    wrong = (y + rng.integers(1, k, split.n_rows)) % k
    said = np.where(rng.random(split.n_rows) < 0.2, y, wrong)
    return with_source(split, np.where(rng.random(split.n_rows) < share, said, -1), name)


def film(
    n_films: int = 20,
    seed: int = 0,
    length: int = 20,
    *,
    stays: float = 0.9,
    vectors: bool = False,
) -> Split:
    """Films whose label stays for a while, and sources that are right on 70 % of their rows."""
    rng, n_rows = np.random.default_rng(seed), n_films * length
    y = rng.integers(0, 2, n_rows)
    for at in range(1, n_rows):
        if at % length and rng.random() < stays:
            y[at] = y[at - 1]
    right = rng.random((n_rows, 5)) < 0.7
    matrix = np.where(right, y[:, None], 1 - y[:, None])
    matrix[rng.random(matrix.shape) > 0.5] = -1
    looks = np.eye(8)[y] + rng.normal(size=(n_rows, 8)) if vectors else None
    names = [f"film {at // length:02}" for at in range(n_rows)]
    return Split(Votes(matrix, classes=("quiet", "event"), sequences=names), looks, y)
