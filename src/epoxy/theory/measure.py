"""How smooth labels and supports are in the embedding: shares of near pairs, measured.

Everything the theory measures about nearness is a share: "of the pairs within r, how many differ?".
A block of anchor rows is compared with all rows by one matrix product, and for every radius the near
rows of each anchor are counted. With every row as an anchor the shares are exact; with a sample of
anchors they carry a stated error. Anchors are sampled rather than pairs because small radii matter
most and a random pair is almost never near.

The paper gives L for a source twice. Its Definition 1 is the share of near pairs of which *one*
votes and the other abstains; its glossary, and every proof that uses L, is the share of near pairs
whose *first* row abstains and whose second votes. Pairs are exchangeable, so the first is exactly
twice the second. We use the glossary's because the proofs need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..errors import AlignmentError, LabelError, ParameterError, RadiusError, VectorError
from ..neighbors.space import Space, metric_named
from ..numerics import wilson
from ..votes import ABSTAIN, Split

_EXACT_PAIRS = 100_000_000  # about a second of one core per 384 dimensions; above it, sample
_MEMORY = 16  # MB of distances held at once


@dataclass(frozen=True)
class Scan:
    """How pairs are looked at.

    Parameters
    ----------
    metric
        `"cosine"` (1 − cosine similarity) or `"euclidean"`.
    anchors
        Rows compared with all others; None takes all of them up to 10,000 rows and otherwise as
        many as make 10⁸ pairs. A sample is drawn without replacement.
    confidence
        Of the bands, simultaneously over all radii asked for (Bonferroni).
    seed
        Of the sample of anchors.
    """

    metric: Literal["cosine", "euclidean"] = "cosine"
    anchors: int | None = None
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        metric_named(self.metric)
        if not 0 < self.confidence < 1:
            raise ParameterError(
                f"confidence lies between 0 and 1, got {self.confidence}; write 0.95 for 95 %"
            )
        if self.anchors is not None and self.anchors < 2:
            raise ParameterError(
                f"a band needs at least 2 anchor rows, got {self.anchors}; "
                "raise anchors or leave it out"
            )

    def choose(self, n_rows: int) -> np.ndarray:
        """The anchor rows among `n_rows`, ascending."""
        count = max(2, _EXACT_PAIRS // max(1, n_rows)) if self.anchors is None else self.anchors
        if count >= n_rows:
            return np.arange(n_rows)
        return np.sort(np.random.default_rng(self.seed).choice(n_rows, count, replace=False))


DEFAULT = Scan()


@dataclass(frozen=True, eq=False)
class Curve:
    """A share as a function of the radius, with a confidence band.

    `value` is NaN where no pair is that near; the band is then [0, 1].
    """

    radii: np.ndarray  # (n_radii,) increasing
    value: np.ndarray  # (n_radii,)
    low: np.ndarray  # (n_radii,)
    high: np.ndarray  # (n_radii,)

    @classmethod
    def of(
        cls, hits: np.ndarray, near: np.ndarray, radii: np.ndarray, n_rows: int, confidence: float
    ) -> Curve:
        """Σ hits / Σ near over anchors, (n_anchors, n_radii) each, with its band.

        A ratio of two U-statistics. Its variance follows from the spread of hits − share · near over
        anchors, is turned into a number of independent pairs, and never counted as more than the
        disjoint pairs the near anchors can form; the band is Wilson's with that number. So it does
        not collapse when no near pair differs.
        """
        from scipy.special import ndtri

        count, total = len(near), near.sum(axis=0)
        z = float(-ndtri((1 - confidence) / (2 * len(radii))))
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(total > 0, hits.sum(axis=0) / total, np.nan)
            spread = (hits - value * near).var(axis=0, ddof=1) * (count / total) ** 2
            variance = spread * (1 / count + 3 / n_rows)
            disjoint = total**2 / (near**2).sum(axis=0) / (1 + count / n_rows)
            independent = np.fmin(value * (1 - value) / variance, disjoint)
            low, high = wilson(value, np.where(independent > 0, independent, disjoint), z)
        unseen = np.isnan(value)
        low, high = np.where(unseen, 0.0, low), np.where(unseen, 1.0, high)
        return cls(radii, value, low, high)


def smoothness(labels: Any, vectors: Any = None, radii: Any = None, scan: Scan = DEFAULT) -> Curve:
    """M_Y(r) = Pr(Y₁ ≠ Y₂ | d(X₁, X₂) ≤ r), for any number of classes.

    Parameters
    ----------
    labels
        One label per row, −1 unknown, or a `Split` whose `y` and vectors are used. Labels may be
        true (dev) or a model's own; what is measured is the smoothness of what is given.
    vectors
        One per row; None when `labels` is a Split.
    radii
        Increasing; None takes those that 0.1 % to 20 % of the pairs lie within.

    Assumes rows drawn independently. Smaller is smoother; the share of unequal pairs overall
    (½ for two even classes) means that the vectors know nothing about the label.
    """
    known, vectors = _labelled(labels, vectors)
    if radii is None:
        radii = np.unique(_pair_quantiles(vectors, np.geomspace(0.001, 0.2, 24), scan))
    grid, ready = as_radii(radii), _prepared(vectors, scan.metric)
    anchors = scan.choose(len(ready))
    classes, code = np.unique(known, return_inverse=True)
    alike = _near_sums(ready, np.eye(len(classes))[code], grid, scan, anchors)
    near = alike.sum(axis=2)
    hits = near - alike[np.arange(len(anchors)), :, code[anchors]]
    return Curve.of(hits, near, grid, len(ready), scan.confidence)


@dataclass(frozen=True, eq=False)
class NearShares:
    """All that the bounds need to know about one source's surroundings, per radius."""

    radii: np.ndarray  # (n_radii,)
    near: np.ndarray  # (n_radii,) p_d(r)
    crossing: np.ndarray  # (n_radii,) the glossary's L, 0 where no pair is near
    support_near: np.ndarray  # (n_radii,) Pr(X' ∈ supp λ | d(X, X') ≤ r)
    reached: np.ndarray  # (n_radii,) Pr(X ∈ B_r), the share an extension newly covers
    support: float  # p_i


def neighbourhoods(split: Split, radii: Any, scan: Scan = DEFAULT) -> dict[str, NearShares]:
    """Measure every source's surroundings in one pass over the pairs."""
    grid, cast, ready = as_radii(radii), split.votes.cast, _prepared(_vectors(split), scan.metric)
    anchors = scan.choose(len(ready))
    sums = _near_sums(ready, np.column_stack([np.ones(len(cast)), cast]), grid, scan, anchors)
    near, voting = sums[:, :, 0], sums[:, :, 1:]  # (n_anchors, n_radii), with sources behind
    total = near.sum(axis=0)
    pairs = np.maximum(total, 1)[:, None]
    silent = voting * ~cast[anchors][:, None, :]
    inside, crossing = voting.sum(axis=0) / pairs, silent.sum(axis=0) / pairs
    reached, p_d = (silent > 0).mean(axis=0), total / (len(anchors) * (len(ready) - 1))
    support = split.votes.coverage
    return {
        name: NearShares(
            grid, p_d, crossing[:, at], inside[:, at], reached[:, at], float(support[at])
        )
        for at, name in enumerate(split.votes.sources)
    }


@dataclass(frozen=True)
class EmbeddingRank:
    """One embedding's place: unequal labels among the nearest pairs, against chance."""

    name: str
    roughness: float
    low: float
    high: float
    chance: float

    @property
    def explained(self) -> float:
        """1 − roughness / chance: 0 knows nothing about the label, 1 is perfectly smooth."""
        return 1 - self.roughness / self.chance if self.chance > 0 else 0.0


def compare_embeddings(
    embeddings: Mapping[str, Any], labels: Any, *, share: float = 0.01, scan: Scan = DEFAULT
) -> tuple[EmbeddingRank, ...]:
    """Rank embeddings of the same rows by M_Y, smoothest first.

    Distances of different embeddings have different scales, so they are compared at the same
    nearness, p_d(r) = `share`, not at the same radius. `labels` are true labels (dev) or, where
    there are none, a label model's own; `Split` is accepted for its `y`.
    """
    if not embeddings:
        raise ParameterError("nothing to compare: no embedding given; pass {name: vectors}")
    if not 0 < share <= 1:
        raise ParameterError(f"share of near pairs lies in (0, 1], got {share}; 0.01 is usual")
    ranks = []
    for name, vectors in embeddings.items():
        known, ready = _labelled(labels.y if isinstance(labels, Split) else labels, vectors)
        curve = smoothness(known, ready, _pair_quantiles(ready, np.array([share]), scan), scan)
        _, counts = np.unique(known, return_counts=True)
        chance = 1 - float((counts * (counts - 1)).sum() / (len(known) * (len(known) - 1)))
        value, low, high = (float(each[0]) for each in (curve.value, curve.low, curve.high))
        ranks.append(EmbeddingRank(name, value, low, high, chance))
    return tuple(sorted(ranks, key=lambda rank: (rank.roughness, rank.name)))


def as_radii(radii: Any) -> np.ndarray:
    """One radius or increasing radii, as float64."""
    grid = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or grid[0] < 0:
        raise RadiusError(
            f"radii are finite distances of at least 0, got {np.asarray(radii)!r}; "
            "give one or an increasing list"
        )
    if (np.diff(grid) <= 0).any():
        raise RadiusError(
            "radii must increase, got equal or falling ones; sort them with np.unique"
        )
    return grid


def _near_sums(
    ready: np.ndarray, values: np.ndarray, radii: np.ndarray, scan: Scan, anchors: np.ndarray
) -> np.ndarray:
    """Σ of the values of all other rows within each radius of each anchor; (anchors, radii, values)."""
    from scipy.sparse import csr_matrix

    found = np.empty((len(anchors), len(radii), values.shape[1]), dtype=np.float32)
    at = 0
    for distance in _distances(ready, anchors, scan.metric):
        row, other = np.nonzero(distance <= radii[-1])
        cell = row * len(radii) + np.searchsorted(radii, distance[row, other])
        shape = (len(distance) * len(radii), len(ready))
        rings = csr_matrix((np.ones(len(cell), np.float32), (cell, other)), shape) @ values
        found[at : at + len(distance)] = rings.reshape(len(distance), *found.shape[1:]).cumsum(1)
        at += len(distance)
    return found.astype(np.float64)


def _prepared(vectors: Any, metric: str) -> np.ndarray:
    """Checked vectors; in few dimensions float64 costs nothing and keeps small radii exact."""
    ready = Space(vectors, metric).vectors
    if len(ready) < 2:
        raise VectorError(f"pairs need at least 2 rows, got {len(ready)}; give more rows")
    return ready.astype(np.float64) if ready.shape[1] <= 32 else ready


def _distances(ready: np.ndarray, anchors: np.ndarray, metric: str) -> Iterator[np.ndarray]:
    """Distances of blocks of anchors to all rows; infinite to themselves."""
    from sklearn.metrics import pairwise_distances_chunked

    start, asked = 0, ready[anchors]
    for block in pairwise_distances_chunked(asked, ready, metric=metric, working_memory=_MEMORY):
        block[np.arange(len(block)), anchors[start : start + len(block)]] = np.inf
        start += len(block)
        yield block


def _pair_quantiles(vectors: np.ndarray, shares: np.ndarray, scan: Scan) -> np.ndarray:
    """Radii that shares of the pairs lie within, from at most 2,000 sampled anchors."""
    ready = _prepared(vectors, scan.metric)
    few = min(len(ready), scan.anchors or 2000, max(2, 4_000_000 // len(ready)))
    anchors = replace(scan, anchors=max(2, few)).choose(len(ready))
    found = np.concatenate([d[np.isfinite(d)] for d in _distances(ready, anchors, scan.metric)])
    return np.asarray(np.quantile(found, shares, method="higher"), dtype=np.float64)


def _labelled(labels: Any, vectors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose label is known, and their vectors."""
    if isinstance(labels, Split):
        vectors = _vectors(labels) if vectors is None else vectors
        labels = labels.y
    if labels is None:
        raise LabelError("smoothness needs labels, the split has none; give y or a model's labels")
    if vectors is None:
        raise VectorError("smoothness needs vectors, got None; give one vector per row")
    found, ready = np.asarray(labels), np.asarray(vectors)
    if len(ready) != len(found):
        raise AlignmentError(
            f"labels and vectors must be row-aligned, got {len(found)} and {len(ready)}; "
            "join them by row id"
        )
    known = found != ABSTAIN
    if known.sum() < 2:
        raise LabelError(f"pairs need at least 2 labelled rows, got {known.sum()}; label more rows")
    return found[known], ready[known]


def _vectors(split: Split) -> np.ndarray:
    if split.vectors is None:
        raise VectorError("the split has no vectors; embed its rows first: Split(votes, vectors)")
    return split.vectors
