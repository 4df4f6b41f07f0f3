"""Fusion's features over shards: mean, covariance and Gram matrix are sums, and sums of shards add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..fusion.features import (
    NEAREST,
    SAMPLE,
    Features,
    View,
    inverse_of,
    n_viewed,
    products,
    spaced,
)
from ..fusion.groups import Spacing
from ..fusion.regions import Regions
from ..fusion.vectors import SOME, leverages
from .run import Run
from .runner import Summary
from .shard import Kept, Shard
from .vectors import ShardVectors


@dataclass(frozen=True, eq=False)
class ShardFeatures:
    """Features of the train rows, shard by shard, and what every regression on them shares."""

    kept: Kept
    view: View
    gram: np.ndarray
    inverse: np.ndarray
    some: np.ndarray  # train rows, evenly apart
    sample: np.ndarray  # their features
    leverage: np.ndarray  # how much each weighs in its own prediction


@dataclass(frozen=True)
class First:
    """The train vectors that make the view: so many, from the first on."""

    vectors: ShardVectors
    count: int

    def of(self, shard: Shard) -> np.ndarray:
        """Those in a shard."""
        return self.vectors.of(shard)[: max(0, self.count - shard.train)]


def view_of(run: Run, vectors: ShardVectors, n_train: int, seed: int, *, apart: bool) -> View:
    """The view learned from train vectors, in three passes over them and a look at some."""
    first = First(vectors, n_viewed(n_train))
    (total,) = run.stage("mean", add_vectors, first).total("total")
    centre = total / first.count
    (spread,) = run.stage("covariance", add_products, first, centre).total("products")
    view = View.before(centre, spread / first.count, seed, apart=apart)
    (middle,) = run.stage("middle", add_features, first, view).total("total")
    view = view.around(middle / first.count)
    stage = run.stage("landmarks", take_some, vectors, spaced(first.count, SAMPLE))
    sample = np.concatenate([each["some"] for each in stage])
    return view.with_landmarks(sample, first.count)


def features_of(run: Run, vectors: ShardVectors, n_train: int, view: View) -> ShardFeatures:
    """Features of all train rows, and their Gram matrix."""
    some = spaced(n_train, SOME)
    stage = run.stage("features", keep_features, vectors, view, some)
    gram: np.ndarray = np.zeros(())
    sample = []
    for each in stage:
        gram = gram + each["gram"]
        sample.append(each["some"])
    inverse, known = inverse_of(gram), np.concatenate(sample)
    leverage = leverages(known, inverse, n_train)
    return ShardFeatures(stage.kept, view, gram, inverse, some, known, leverage)


def add_vectors(shard: Shard, kept: Kept, first: First) -> Summary:
    """The sum of a shard's train vectors."""
    return {"total": first.of(shard).sum(axis=0, dtype=np.float64)}


def add_products(shard: Shard, kept: Kept, first: First, centre: np.ndarray) -> Summary:
    """The sum of their products around the mean."""
    return {"products": products(first.of(shard), centre)}


def add_features(shard: Shard, kept: Kept, first: First, view: View) -> Summary:
    """The sum of their features."""
    return {"total": view.total(first.of(shard))}


def take_some(shard: Shard, kept: Kept, vectors: ShardVectors, some: np.ndarray) -> Summary:
    """Vectors of some of a shard's train rows."""
    return {"some": np.asarray(vectors.of(shard)[within(some, shard)])}


def within(some: np.ndarray, shard: Shard) -> np.ndarray:
    """Which of some train rows are a shard's, and where in it."""
    return (
        np.asarray(some[(some >= shard.train) & (some < shard.train + shard.n_train)]) - shard.train
    )


def keep_features(
    shard: Shard, kept: Kept, vectors: ShardVectors, view: View, some: np.ndarray
) -> Summary:
    """Features of a shard's train rows and where these lie, kept; their Gram matrix, and some of them."""
    matrix, at = view.of(vectors.of(shard)), {}
    if len(view.landmarks) > NEAREST:
        placed = Regions.of(matrix, view.landmarks)
        at = {"number": placed.number, "share": placed.share}
    kept.save(shard, features=matrix, **at)
    return {"gram": Features(matrix).gram, "some": matrix[within(some, shard)]}


def placed(kept: Kept, shard: Shard, view: View) -> Regions | None:
    """Where a shard's train rows lie; None without landmarks."""
    if len(view.landmarks) <= NEAREST:
        return None
    return Regions(kept.load(shard, "number"), kept.load(shard, "share"))


class FewVectors:
    """Vectors and features of the labelled rows, and what is known of all train rows."""

    def __init__(self, given: tuple[np.ndarray | None, ...], over: ShardFeatures) -> None:
        self.given, self.view, self.gram = given, over.view, over.gram
        self.matrices = tuple(over.view.of(each) for each in given if each is not None)
        self.n_known = 0
        self._sample = over.sample

    def spacing(self) -> Spacing:
        """How near train rows lie to labelled rows, before any is labelled."""
        return Spacing.of_sample(self._sample)

    def lengths(self, at: int) -> np.ndarray:
        """Lengths of a split's features; (n_rows,)."""
        return Features(self.matrices[at]).lengths
