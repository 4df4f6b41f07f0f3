"""Approximate neighbour lists against exact ones, and what must not change a bit of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from epoxy.errors import ParameterError, StoreError, VectorError
from epoxy.neighbors import Graph, Space, approximate, probing
from epoxy.neighbors.approximate import NeighbourLists, Settings, approximate_lists
from epoxy.neighbors.points import Points

METRICS = pytest.mark.parametrize("metric", ["cosine", "euclidean"])
ALL = 10**6


def clustered(n, dimension=16, seed=0, clusters=20):
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(clusters, dimension))
    return (centre[rng.integers(clusters, size=n)] + 0.4 * rng.normal(size=(n, dimension))).astype(
        np.float32
    )


def lists_of(found):
    return found.neighbour.tolist(), found.distance.tolist()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(approximate, "BLOCK", 64)
    monkeypatch.setattr(probing, "TILE", 16)
    monkeypatch.setattr(probing, "MEASURED", 24)


@METRICS
def test_lists_are_the_exact_ones_where_every_cell_is_asked(metric, small_blocks):
    vectors = clustered(500)

    found = approximate_lists(vectors, metric, settings=Settings(k=9, probes=ALL))

    assert lists_of(found) == lists_of(Graph.build(Space(vectors, metric), 9))
    assert (found.recall.value, found.recall.high) == (1.0, 1.0)


@METRICS
def test_many_equal_distances_are_settled_by_row(metric, small_blocks):
    rng = np.random.default_rng(1)
    vectors = rng.integers(-2, 3, size=(400, 3)).astype(np.float32)
    vectors[~vectors.any(axis=1)] = 1

    found = approximate_lists(vectors, metric, settings=Settings(k=7, probes=ALL))

    assert lists_of(found) == lists_of(Graph.build(Space(vectors, metric), 7))


@METRICS
def test_a_list_holds_the_nearest_of_the_cells_that_were_asked(metric):
    vectors = clustered(300)
    found = approximate_lists(vectors, metric, settings=Settings(k=5, probes=3, cells=12))
    cell, space = found.partition.cell, Space(vectors, metric)

    for node in range(0, 300, 7):
        near = np.flatnonzero(np.isin(cell, found.partition.top[node]))
        far = space.node_distances(np.full(len(near), node), space, near)
        best = np.lexsort((near, far))[:5]

        assert found.neighbour[node].tolist() == near[best].tolist()
        assert found.distance[node].tolist() == far[best].tolist()
