"""Cells: what they promise about every node, and that a search which trusts them misses nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epoxy.neighbors import Column, Graph, Space, build, cells, nearest
from epoxy.neighbors import search_cells as by_cells
from epoxy.neighbors.search import Query
from epoxy.neighbors.search_cells import search_cells

METRICS = pytest.mark.parametrize("metric", ["cosine", "euclidean"])


@pytest.fixture(autouse=True)
def cells_for_few_nodes(monkeypatch):
    """Cells for a few hundred nodes, and used whenever somebody is searched directly."""
    monkeypatch.setattr(build, "TILE", 64)
    monkeypatch.setattr(cells, "FROM", 1)
    monkeypatch.setattr(cells, "SIZE", 20)
    monkeypatch.setattr(by_cells, "WORTH", 0)


def clusters(seed, n=400, dimension=37, count=12):
    """Rows around a few centres, as embeddings are; some rows twice."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(count, dimension)) + 0.5
    vectors = centre[rng.integers(count, size=n)] + 0.4 * rng.normal(size=(n, dimension))
    vectors[-9:] = vectors[:9]
    return vectors.astype(np.float32)


def assert_peaks_cover(graph):
    """No node scores more with any node of a cell than the cell's code allows."""
    train, onto, grouping = graph.train, graph.onto, graph.cells.grouping
    low, per_step = grouping.scale.astype(np.float64)
    pairs = np.indices((onto.n_nodes, train.n_nodes)).reshape(2, -1)
    score = train.metric.score_of(onto.node_distances(pairs[0], train, pairs[1]))
    score = score.reshape(onto.n_nodes, train.n_nodes)
    assert len(grouping.cell) == train.n_nodes
    assert graph.cells.peak.shape == (onto.n_nodes, len(grouping.centre))
    for cell in np.unique(grouping.cell):
        best = score[:, grouping.cell == cell].max(axis=1)
        code = graph.cells.peak[:, cell].astype(np.float64)
        bounded = code < 255
        assert (best[bounded] <= low + (code[bounded] + 0.01) / per_step).all()
        tight = bounded & (code > 0)
        assert (best[tight] >= low + (code[tight] - 1.01) / per_step).all()


@METRICS
def test_a_cell_is_as_near_as_its_nearest_node(metric):
    graph = Graph.build(Space(clusters(0), metric), 5)

    assert_peaks_cover(graph)
    assert len(np.unique(graph.cells.grouping.cell)) > 10


@METRICS
def test_another_split_knows_how_near_the_cells_come(metric):
    graph = Graph.build(Space(clusters(1), metric), 5)

    asking = graph.queries(Space(clusters(2, n=90), metric))

    assert_peaks_cover(asking)
    assert asking.cells.grouping is graph.cells.grouping


@METRICS
def test_appended_rows_join_the_cells(metric):
    vectors = clusters(3)
    graph = Graph.build(Space(vectors[:250], metric), 5)

    grown = graph.append(vectors[250:380]).append(vectors[380:])

    assert_peaks_cover(grown)


@METRICS
@pytest.mark.parametrize("confined", [False, True], ids=["anywhere", "in two clusters"])
@pytest.mark.parametrize("dimension", [37, 100])
@pytest.mark.parametrize("rounds", [(0,), (1, 2, 0), (2, 4, 14, 0)])
def test_a_search_by_cells_finds_who_is_nearest(metric, confined, dimension, rounds, monkeypatch):
    monkeypatch.setattr(by_cells, "ROUNDS", rounds)
    space = Space(clusters(4, dimension=dimension), metric)
    graph = Graph.build(space, 5)
    rng = np.random.default_rng(5)
    mask = rng.random(len(space)) < 0.3
    if confined:
        mask &= np.isin(graph.cells.grouping.cell[space.node], [0, 1, 2])
    expected = nearest(space, mask[:, None])
    query = Query.of(space, mask, np.arange(space.n_nodes))

    found = search_cells(space, space, query, graph.cells)

    assert found.row.tolist() == expected.row[space.first, 0].tolist()
    assert found.distance.tolist() == expected.distance[space.first, 0].tolist()


@METRICS
def test_what_lies_beyond_what_is_asked_for_may_stay_open_but_nothing_within(metric):
    space = Space(clusters(6, dimension=70), metric)
    graph = Graph.build(space, 5)
    mask = np.random.default_rng(7).random(len(space)) < 0.2
    expected = nearest(space, mask[:, None]).distance[space.first, 0]
    within = expected * np.random.default_rng(8).choice([0.9, 1.0, 1.1], len(expected))
    query = replace(Query.of(space, mask, np.arange(space.n_nodes)), within=within)

    found = search_cells(space, space, query, graph.cells)

    inside = expected <= within
    assert found.distance[inside].tolist() == expected[inside].tolist()
    assert (np.isinf(found.distance) | (found.distance == expected)).all()
    assert np.isinf(found.distance).any()


def test_equally_near_rows_of_different_cells_are_decided_by_the_lowest_row():
    corners = np.eye(20, dtype=np.float32).repeat(6, axis=0) + 0.0
    corners[:, -1] += np.tile(np.arange(6) / 50, 20).astype(np.float32)
    middle = np.ones((1, 20), np.float32)
    space = Space(np.concatenate([corners, middle]))
    graph = Graph.build(space, 2)
    mask = np.zeros(len(space), bool)
    mask[np.arange(0, 114, 6)[::-1]] = True  # all as far from the middle

    column = Column.of(graph, mask, radius=2.0)

    assert column.row[-1] == 0
    assert column.row.tolist() == nearest(space, mask[:, None]).row[:, 0].tolist()


def test_cells_are_kept_with_the_graph_and_read_back(tmp_path):
    vectors = clusters(9)
    built = Graph.build(Space(vectors), 5, cache=tmp_path)

    again = Graph.build(Space(vectors), 5, cache=tmp_path)

    for name, array in built.cells.arrays().items():
        assert again.cells.arrays()[name].tolist() == array.tolist()


def test_a_graph_kept_without_cells_is_built_again(tmp_path, monkeypatch):
    vectors = clusters(10)
    monkeypatch.setattr(cells, "FROM", 10**6)
    assert Graph.build(Space(vectors), 5, cache=tmp_path).cells is None
    monkeypatch.setattr(cells, "FROM", 1)

    graph = Graph.build(Space(vectors), 5, cache=tmp_path)

    assert_peaks_cover(graph)


def test_an_interrupted_build_goes_on_with_its_cells(tmp_path, monkeypatch):
    vectors = clusters(11)
    expected = Graph.build(Space(vectors), 5)
    begun, resume = [], build._HalfMatrix.resume

    def interrupt(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    def seen(self, checkpoint):
        begun.append(resume(self, checkpoint))
        return begun[-1]

    monkeypatch.setattr(build._HalfMatrix, "resume", seen)
    with pytest.raises(KeyboardInterrupt):
        Graph.build(Space(vectors), 5, cache=tmp_path, checkpoint_seconds=0, progress=interrupt)

    graph = Graph.build(Space(vectors), 5, cache=tmp_path)

    assert begun[0] == 0
    assert begun[1] > 10
    assert graph.cells.peak.tolist() == expected.cells.peak.tolist()
    assert graph.neighbour.tolist() == expected.neighbour.tolist()


def test_a_tile_that_ctrl_c_left_half_done_is_not_kept(tmp_path, monkeypatch):
    vectors = clusters(12)
    expected = Graph.build(Space(vectors), 5)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the only thread is the one that is interrupted
    offer, offered = cells.Peaks.offer, []

    def interrupted(self, tile, cell):
        offered.append(len(cell))
        if len(offered) == 24:
            raise KeyboardInterrupt
        offer(self, tile, cell)

    with monkeypatch.context() as patch:
        patch.setattr(cells.Peaks, "offer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Graph.build(Space(vectors), 5, cache=tmp_path)

    graph = Graph.build(Space(vectors), 5, cache=tmp_path)

    assert graph.cells.peak.tolist() == expected.cells.peak.tolist()
    assert graph.neighbour.tolist() == expected.neighbour.tolist()


def test_an_interrupted_build_with_other_cells_is_begun_again(tmp_path):
    space, checkpoint = Space(clusters(13)), build.Checkpoint(tmp_path / "begun.npz", 0.0)
    grouping = cells.Grouping.of(space)
    begun = build._HalfMatrix(space, 5, grouping)
    begun.worker()(begun.tasks[0])
    begun.keep(checkpoint, 1)
    scale = grouping.scale * np.float32(1.5)
    regrouped = cells.Grouping(grouping.cell, grouping.centre, scale)

    assert build._HalfMatrix(space, 5, grouping).resume(checkpoint) == 1
    assert build._HalfMatrix(space, 5, regrouped).resume(checkpoint) == 0


@pytest.mark.parametrize("scale", [1e-19, 1e-21, 1e-30, 1e17])
def test_vectors_of_any_length_are_found(scale):
    space = Space(clusters(14, dimension=5) * np.float32(scale), "euclidean")
    graph = Graph.build(space, 5)
    mask = np.random.default_rng(15).random(len(space)) < 0.1
    expected = nearest(space, mask[:, None])

    column = Column.of(graph, mask, radius=np.inf)

    assert np.isfinite(graph.cells.grouping.scale).all()
    assert column.row.tolist() == expected.row[:, 0].tolist()


def test_a_radius_that_cannot_be_squared_is_like_any_large_one():
    space = Space(clusters(16), "euclidean")
    graph = Graph.build(space, 5)
    mask = np.random.default_rng(17).random(len(space)) < 0.1

    column = Column.of(graph, mask, radius=1e200)

    assert column.row.tolist() == nearest(space, mask[:, None]).row[:, 0].tolist()


def test_another_split_may_be_longer_than_any_train_vector():
    train = Space(clusters(18) * np.float32(1e-17), "euclidean")
    onto = Space(clusters(19) * np.float32(1e17), "euclidean")
    mask = np.random.default_rng(20).random(len(train)) < 0.1

    column = Column.of(Graph.build(train, 5).queries(onto), mask, radius=np.inf)

    assert column.row.tolist() == nearest(train, mask[:, None], onto).row[:, 0].tolist()


@METRICS
@pytest.mark.parametrize("crowded", [0, 10**6], ids=["cell by cell", "all at once"])
def test_masses_of_equally_near_rows_are_decided_either_way(metric, crowded, monkeypatch):
    monkeypatch.setattr(by_cells, "CROWDED", crowded)
    lattice = np.random.default_rng(21).integers(1, 4, (400, 5)).astype(np.float32)
    space = Space(lattice, metric)
    graph = Graph.build(space, 2)
    mask = np.random.default_rng(22).random(len(space)) < 0.4
    expected = nearest(space, mask[:, None])

    column = Column.of(graph, mask, radius=np.inf)

    assert column.row.tolist() == expected.row[:, 0].tolist()
    assert column.distance.tolist() == expected.distance[:, 0].tolist()
