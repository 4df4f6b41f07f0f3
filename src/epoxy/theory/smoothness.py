"""How smooth labels and supports are in the embedding: (L, M)-Lipschitzness, measured.

The paper gives L for a source twice. Its Definition 1 is the share of near pairs of which *one*
votes and the other abstains; its glossary, and every proof that uses L, is the share of near pairs
whose *first* row abstains and whose second votes. Pairs are exchangeable, so the first is exactly
twice the second. We use the glossary's because the proofs need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import AlignmentError, LabelError, ParameterError, VectorError
from ..neighbors.workers import single_threaded_blas
from ..votes import ABSTAIN, Split
from .bounds import inherited_smoothness
from .pairs import DEFAULT, Curve, Event, Scan, as_radii, blocks, differs, prepared, scan_pairs


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
    known, ready = _labelled(labels, vectors)
    grid = default_radii(ready, scan) if radii is None else radii
    return scan_pairs(ready, [differs(known)], grid, scan).share(0)


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """All that the bounds need to know about one source's surroundings, per radius.

    `crossing` is the glossary's L. `support_near` is Pr(X' ∈ supp λ | d(X, X') ≤ r), the
    denominator of the bound on h(r) before the paper relaxes it to p_i² (1 + L p_d). `reached` is
    Pr(X ∈ B_r): the share of rows the extension newly covers.
    """

    radii: np.ndarray  # (n_radii,)
    near: np.ndarray  # (n_radii,) p_d(r)
    crossing: np.ndarray  # (n_radii,) L_λ'(r), 0 where no pair is near
    support_near: np.ndarray  # (n_radii,)
    reached: np.ndarray  # (n_radii,)
    support: float  # p_i


def neighbourhoods(split: Split, radii: Any, scan: Scan = DEFAULT) -> dict[str, Neighbourhood]:
    """Measure every source's surroundings in one pass over the pairs."""
    grid, cast = as_radii(radii), split.votes.cast
    events = [e for index in range(cast.shape[1]) for e in _support_events(cast[:, index])]
    sums = scan_pairs(_vectors(split), events, grid, scan)
    near = np.where(sums.near > 0, sums.near, 1)
    found = {}
    for index, name in enumerate(split.votes.sources):
        crossing, inside = sums.hits[2 * index : 2 * index + 2] / near
        reached = sums.touched[2 * index] / sums.n_anchors
        support = float(split.votes.coverage[index])
        nearness = sums.nearness().value
        found[name] = Neighbourhood(grid, nearness, crossing, inside, reached, support)
    return found


def _support_events(cast: np.ndarray) -> tuple[Event, Event]:
    return (lambda row, other: ~cast[row] & cast[other], lambda row, other: np.asarray(cast[other]))


def model_smoothness(
    labels: Any, vectors: Any, radii: Any, scan: Scan = DEFAULT
) -> tuple[Curve, float, np.ndarray]:
    """A simple model on the vectors: its smoothness M_f(r), its risk R(f), Proposition 2's bound.

    The model is logistic regression, applied to rows it was not fitted on (5 folds), so its risk is
    honest about the labels it was given. Given a label model's labels instead
    of true ones, the risk is the disagreement with them, not the true one.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    known, ready = _labelled(labels, vectors)
    fewest = int(np.unique(known, return_counts=True)[1].min())
    if len(np.unique(known)) < 2 or fewest < 2:
        raise LabelError(
            "a model on the vectors needs at least 2 rows of 2 classes; label more rows of each"
        )
    model = LogisticRegression(max_iter=500, C=10.0)
    with (
        single_threaded_blas()
    ):  # a second thread costs the small steps of L-BFGS more than it gains
        guess = cross_val_predict(model, ready, known, cv=min(5, fewest))
    curve = scan_pairs(ready, [differs(guess)], radii, scan).share(0)
    risk = float((guess != known).mean())
    return curve, risk, inherited_smoothness(curve.value, risk)


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


def default_radii(vectors: np.ndarray, scan: Scan, count: int = 24) -> np.ndarray:
    """Radii that 0.1 % to 20 % of the pairs lie within, evenly on a log scale of nearness."""
    shares = np.geomspace(0.001, 0.2, count)
    return np.unique(_pair_quantiles(vectors, shares, scan))


def _pair_quantiles(vectors: np.ndarray, shares: np.ndarray, scan: Scan) -> np.ndarray:
    """Radii that shares of the pairs lie within, from at most 2,000 sampled anchors."""
    ready = prepared(vectors, scan.metric)
    few = min(len(ready), scan.anchors or 2000, max(2, 4_000_000 // len(ready)))
    anchors = replace(scan, anchors=max(2, few)).choose(len(ready))
    distances = [d[np.isfinite(d)] for _, d in blocks(ready, anchors, scan.metric)]
    found = np.quantile(np.concatenate(distances), shares, method="higher")
    return np.asarray(found, dtype=np.float64)


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
