"""The neighbour graph against a naive float64 oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epoxy.neighbors import Column, Graph, Space, build, nearest
from test_neighbors import all_distances

METRICS = pytest.mark.parametrize("metric", ["cosine", "euclidean"])
LAW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True, params=["numba", "numpy"])
def kernel_set(request, monkeypatch):
    monkeypatch.setenv("EPOXY_KERNELS", request.param)


@pytest.fixture
def small_tiles(monkeypatch):
    """Several blocks already for a few dozen nodes."""
    monkeypatch.setattr(build, "TILE", 16)


def naive_lists(metric, space, k, onto=None):
    table = all_distances(metric, (onto or space).vectors, space.vectors)
    table = table[(onto or space).first][:, space.first]
    order = np.argsort(table, axis=1, kind="stable")[:, :k]  # equals by node
    return order.tolist(), np.take_along_axis(table, order, axis=1).tolist()


def lists_of(graph):
    return graph.neighbour.tolist(), graph.distance.tolist()


def grid(draw, metric, n):
    cells = st.lists(st.integers(-2, 2), min_size=2, max_size=2)
    vectors = np.array(draw(st.lists(cells, min_size=n, max_size=n)), np.float32)
    if metric == "cosine":
        vectors[~vectors.any(axis=1)] = 1
    return vectors


@METRICS
@pytest.mark.parametrize("k", [1, 3, 20, 200])
def test_a_graph_holds_the_nearest_rows_by_the_definition(metric, k, small_tiles):
    rng = np.random.default_rng(k)
    space = Space(rng.normal(size=(70, 9)), metric)

    graph = Graph.build(space, k)

    assert lists_of(graph) == naive_lists(metric, space, k)
    assert np.isinf(graph.horizon).all() == (k >= 70)


@METRICS
@LAW
@given(data=st.data())
def test_ties_and_duplicates_do_not_confuse_the_graph(metric, data, small_tiles):
    space = Space(grid(data.draw, metric, data.draw(st.integers(1, 40))), metric)
    k = data.draw(st.integers(1, 8))

    graph = Graph.build(space, k)

    assert lists_of(graph) == naive_lists(metric, space, k)


@METRICS
@pytest.mark.parametrize("k", [2, 30])
def test_another_split_gets_its_own_rows_of_the_graph(metric, k, small_tiles):
    rng = np.random.default_rng(5)
    space = Space(rng.normal(size=(50, 6)), metric)
    asking = Space(np.concatenate([rng.normal(size=(21, 6)), space.vectors[:4]]), metric)

    graph = Graph.build(space, k).queries(asking)

    assert lists_of(graph) == naive_lists(metric, space, k, asking)


@METRICS
@pytest.mark.parametrize("k", [4, 300])
def test_an_appended_graph_equals_one_built_from_scratch(metric, k, small_tiles):
    rng = np.random.default_rng(6)
    vectors = rng.integers(-3, 4, size=(80, 3)) + 0.5
    graph = Graph.build(Space(vectors[:50], metric), k)

    grown = graph.append(vectors[50:71]).append(vectors[71:])

    assert lists_of(grown) == lists_of(Graph.build(Space(vectors, metric), k))
    assert grown.train.node.tolist() == Space(vectors, metric).node.tolist()


def truth(space, support, radius, onto=None):
    """What `nearest` says, cut at the radius."""
    found = nearest(space, support[:, None], onto)
    near = found.distance[:, 0] <= radius
    row = np.where(near, found.row[:, 0], -1)
    return row.tolist(), np.where(near, found.distance[:, 0], np.inf).tolist()


def cut(column, radius):
    near = column.distance <= radius
    return np.where(near, column.row, -1).tolist(), np.where(near, column.distance, np.inf).tolist()


@METRICS
@pytest.mark.parametrize("k", [1, 4, 100])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.4, 1.0])
def test_reach_read_off_the_graph_equals_the_direct_search(metric, k, share, small_tiles):
    rng = np.random.default_rng(7)
    space = Space(rng.normal(size=(90, 5)), metric)
    support = rng.random(90) < share
    graph = Graph.build(space, k)

    for radius in [0.0, 0.2, 0.9, 5.0]:
        column = Column.of(graph, support, radius=radius)

        assert cut(column, radius) == truth(space, support, radius)


@METRICS
@LAW
@given(data=st.data())
def test_any_sequence_of_edits_and_radii_equals_a_fresh_search(metric, data, small_tiles):
    n = data.draw(st.integers(1, 30))
    space = Space(grid(data.draw, metric, n), metric)
    asking = space if data.draw(st.booleans()) else Space(grid(data.draw, metric, 7), metric)
    graph = Graph.build(space, data.draw(st.integers(1, 6)))
    graph = graph if asking is space else graph.queries(asking)
    supports = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    column = Column.of(graph, data.draw(supports), radius=data.draw(st.sampled_from([0.0, 0.5])))

    for _ in range(4):
        if data.draw(st.booleans()):
            column = column.voting(data.draw(supports))
        else:
            column = column.reaching(data.draw(st.sampled_from([0.3, 1.0, 1.5, 9.0])))

        expected = truth(space, column.support, column.radius, asking)
        assert cut(column, column.radius) == expected
