"""The data of the speed benchmark: real vectors and votes where they exist, calibrated ones else.

Synthetic vectors are mixtures on the sphere: unequal clusters, a low-dimensional spread inside each,
a common direction as real embeddings have it. Synthetic sources vote like keyword rules: on rows
near a direction, with noise; the last of them votes inside a few clusters only, which is the hardest
case for a neighbour graph.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SHARED = Path(
    os.environ.get("EPOXY_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


@dataclass(frozen=True)
class Size:
    """One row of the tables: how many rows, dimensions and sources, and where they come from."""

    name: str
    n: int
    dimension: int
    sources: int
    votes_of: str = ""  # a data set whose votes are real
    vectors_of: str = ""  # a data set whose vectors are real
    k: int = 256

    @property
    def label(self) -> str:
        return f"{self.name} {self.n:,} x {self.dimension} x {self.sources}"


SIZES = {
    size.name: size
    for size in [
        Size("weather", 187, 384, 105, "weather", "weather"),
        Size("spam", 1_586, 768, 10, "spam"),
        Size("spouse", 22_070, 384, 9, "spouse", "spouse"),
        Size("paper", 22_254, 768, 9, "spouse_paper_L"),
        Size("video", 64_130, 2_048, 4, k=64),
        Size("large", 200_000, 384, 10),
    ]
}


def load(size: Size, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Vectors (float32), votes (int8, −1 abstains), and notes on what is synthetic."""
    notes = []
    vectors, cluster = mixture(size.n, size.dimension, seed)
    if size.vectors_of and (SHARED / size.vectors_of / "vectors-train.npy").exists():
        vectors = np.load(SHARED / size.vectors_of / "vectors-train.npy").astype(np.float32)
    else:
        notes.append("vectors synthetic")
    if size.votes_of and (SHARED / size.votes_of / "votes-train.npy").exists():
        votes = np.load(SHARED / size.votes_of / "votes-train.npy")
    else:
        coverage = (0.5, 0.6) if size.name == "video" else (0.02, 0.1)
        votes = rules(vectors, cluster, size.sources, coverage, seed)
        notes.append("votes synthetic")
    return np.ascontiguousarray(vectors), votes.astype(np.int8), notes


def mixture(
    n: int, dimension: int, seed: int, clusters: int = 200
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around unequal centres, with the centre of each."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(clusters, dimension)).astype(np.float32)
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    spread = rng.normal(size=(clusters, 12, dimension)).astype(np.float32) / np.sqrt(dimension)
    cluster = rng.choice(clusters, n, p=rng.dirichlet(np.full(clusters, 0.5)))
    vectors = np.empty((n, dimension), dtype=np.float32)
    for start in range(0, n, 4096):
        mine = cluster[start : start + 4096]
        inside = rng.normal(size=(len(mine), 12)).astype(np.float32) * 0.25
        noise = rng.normal(size=(len(mine), dimension)).astype(np.float32)
        part = 0.8 * centre[mine] + np.einsum("ij,ijd->id", inside, spread[mine])
        part += 0.35 / np.sqrt(dimension) * noise + 0.5 * centre[0]
        vectors[start : start + 4096] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return vectors, cluster


def rules(
    vectors: np.ndarray, cluster: np.ndarray, count: int, coverage: tuple[float, float], seed: int
) -> np.ndarray:
    """Votes of keyword-like sources, one class each in turn."""
    rng = np.random.default_rng(seed + 1)
    votes = np.full((len(vectors), count), -1, dtype=np.int8)
    for source in range(count):
        near = vectors @ vectors[rng.integers(len(vectors))]
        near += 0.3 * rng.normal(size=len(vectors)).astype(np.float32)
        says = near > np.quantile(near, 1 - rng.uniform(*coverage))
        if source == count - 1 and count > 4:
            says = np.isin(cluster, rng.choice(cluster, 6)) & (rng.random(len(vectors)) < 0.5)
        votes[says, source] = source % 2
    return votes


def edited(
    support: np.ndarray, distance: np.ndarray, share: float, rng: np.random.Generator
) -> np.ndarray:
    """The support after an edit: half of `share` leaves, as much comes from rows near the rest."""
    voting, silent = np.flatnonzero(support), np.flatnonzero(~support)
    count = min(len(silent), max(1, round(share * len(voting) / 2)))
    new = support.copy()
    if len(voting):
        new[rng.choice(voting, min(count, len(voting)), replace=False)] = False
    order = np.argsort(np.minimum(distance[silent], 9.0) + 0.2 * rng.random(len(silent)))
    new[silent[order[:count]]] = True
    return new
