"""What a process of its own does for the map: the better picture, and the words of its regions."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import MissingExtra
from .replies import Region

MOST_REGIONS, FEWEST_ROWS, WORDS, EPOCHS = 12, 60, 3, 200
NICE, FAR, BORDER = 10, 2.5, 0.1
"""Of the process; percent of the rows that are far at either end; of the picture that is theirs."""


def begin() -> None:
    """Let whoever edits come first, and end when nobody waits for the picture any more."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def better(asked: dict[str, Any]) -> np.ndarray:
    """UMAP of all nodes from where they start, turned as they lay."""
    lists, far = asked["lists"]
    return aligned(_umap(lists, far, asked["start"], asked["seed"]), asked["start"])


def _umap(lists: np.ndarray, far: np.ndarray, start: np.ndarray, seed: int) -> np.ndarray:
    try:
        import umap
    except ImportError as error:
        raise MissingExtra.of("UMAP", "umap-learn", "studio") from error
    noise = np.random.default_rng(seed).normal(scale=1e-4, size=start.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the seed, which makes it the same every time
        model = umap.UMAP(
            n_neighbors=lists.shape[1],
            n_epochs=EPOCHS,
            init=(10 * start + noise).astype(np.float32),
            precomputed_knn=(lists, far.astype(np.float32)),
            random_state=seed,
            force_approximation_algorithm=True,  # or it would look for the neighbours of few rows itself
        )
        return np.asarray(model.fit_transform(start), dtype=np.float64)


def mean_of(
    points: np.ndarray, known: np.ndarray, near: np.ndarray, far: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the near points that are known, nearer ones counting more; whether there is one."""
    scale = np.maximum(np.where(known, far, 0).max(axis=1, keepdims=True), 1e-12)
    weight = np.where(known, 1 / (far / scale + 1e-3), 0)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    mean = np.einsum("ij,ijk->ik", weight / total, points[near])
    return mean.astype(np.float32), np.asarray(known.any(axis=1))


def with_self_first(
    neighbour: np.ndarray, distance: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest nodes of each node with itself in front, where equal distances put it elsewhere."""
    rows = np.arange(len(neighbour))[:, None]
    order = np.argsort(neighbour[:, :width] != rows, axis=1, kind="stable")
    near = np.take_along_axis(neighbour[:, :width], order, axis=1)
    far = np.take_along_axis(distance[:, :width], order, axis=1)
    near[:, :1], far[:, 0] = rows, 0.0
    return near, far


def aligned(points: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Points turned and mirrored so that they lie on others as well as they can, within [−1, 1]."""
    centred = points - points.mean(axis=0)
    left, _, right = np.linalg.svd(centred.T @ (onto - onto.mean(axis=0)))
    return scaled(centred @ (left @ right))


def scaled(points: np.ndarray) -> np.ndarray:
    """Points within [−1, 1], both axes alike; rows far from all others are drawn in to the border.

    Else a few of them would push all others together.
    """
    if not len(points):
        return points.astype(np.float32)
    far, border = (FAR, BORDER) if len(points) > 100 else (0, 0)
    low, high = np.percentile(points, [far, 100 - far], axis=0)
    spread = float((high - low).max()) / 2 or 1.0
    half = (high - low) / 2 / spread
    at = (points - (low + high) / 2) / spread
    beyond = np.maximum(np.abs(at) - half, 0)
    at = np.clip(at, -half, half) + np.sign(at) * border * beyond / (beyond + (border or 1))
    return np.asarray(at / (1 + border), dtype=np.float32)


def regions(points: np.ndarray, texts: Sequence[str] | None, step: int) -> list[Region]:
    """Parts of a picture: where each is, how many rows it has, and the words that set it apart."""
    from sklearn.cluster import KMeans

    n_regions = min(MOST_REGIONS, len(points) // FEWEST_ROWS)
    if n_regions < 2:
        return []
    sample = points[:: max(1, len(points) // 20_000)]
    found = KMeans(n_regions, n_init=1, random_state=0).fit(sample)
    part = found.predict(points)
    words = _words(texts, part[::step], n_regions)
    told = []
    for at in range(n_regions):
        x, y = np.median(points[part == at], axis=0).tolist()
        told.append(Region(x, y, words[at], int((part == at).sum())))
    return sorted(told, key=lambda each: -each.rows)


def _words(texts: Sequence[str] | None, part: np.ndarray, n_regions: int) -> list[str]:
    """The words that occur in a part more than elsewhere, by term frequency and rarity over parts."""
    from sklearn.feature_extraction.text import CountVectorizer

    if texts is None:
        return [""] * n_regions
    counter = CountVectorizer(
        binary=True,
        stop_words="english",
        max_features=20_000,
        token_pattern=r"(?u)\b[^\W\d_]{3,}\b",
    )
    try:
        counts = counter.fit_transform(list(texts))
    except ValueError:  # no words in any text
        return [""] * n_regions
    rows = np.array([(part == at).sum() for at in range(n_regions)])
    inside = np.stack([np.asarray(counts[part == at].sum(axis=0))[0] for at in range(n_regions)])
    share = inside / np.maximum(rows[:, None], 1)
    everywhere = (inside.sum(axis=0) + 1) / (rows.sum() + 1)
    score = share * np.log(np.maximum(share, 1e-12) / everywhere)
    score[inside < 2] = 0
    names = counter.get_feature_names_out()
    best = np.argsort(-score, axis=1, kind="stable")[:, :WORDS]
    return [
        ", ".join(str(names[each]) for each in chosen if score[at, each] > 0)
        for at, chosen in enumerate(best)
    ]
