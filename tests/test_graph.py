"""The neighbour graph against a naive float64 oracle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epoxy.errors import AlignmentError, ParameterError, RadiusError, VectorError
from epoxy.neighbors import (
    Column,
    Graph,
    Settings,
    Space,
    build,
    cells,
    nearest,
    search_cells,
    store,
    workers,
)
from epoxy.neighbors import column as column_module
from epoxy.neighbors import graph as graph_module
from epoxy.neighbors.workers import Work
from epoxy.storage import beside
from test_neighbors import all_distances

METRICS = pytest.mark.parametrize("metric", ["cosine", "euclidean"])
LAW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["without cells", "with cells"])
def small_tiles(request, monkeypatch):
    """Several blocks already for a few dozen nodes, and cells where they could not pay."""
    monkeypatch.setattr(build, "TILE", 16)
    if request.param == "with cells":
        monkeypatch.setattr(cells, "FROM", 1)
        monkeypatch.setattr(cells, "SIZE", 6)
        monkeypatch.setattr(search_cells, "WORTH", 0)
        monkeypatch.setattr(search_cells, "ROUNDS", (1, 2, 0))


def naive_lists(metric, space, k, onto=None):
    table = all_distances(metric, (onto or space).vectors, space.vectors)
    table = table[(onto or space).first][:, space.first]
    order = np.argsort(table, axis=1, kind="stable")[:, :k]  # equals by node
    return order.tolist(), np.take_along_axis(table, order, axis=1).tolist()


def lists_of(graph):
    neighbour, distance = graph.listed()
    return neighbour.tolist(), distance.tolist()


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


def test_a_graph_is_what_it_was_after_another_has_grown_from_it(small_tiles):
    rng = np.random.default_rng(6)
    vectors = rng.normal(size=(120, 3))
    support, radius = rng.random(120) < 0.1, 0.4
    graph = Graph.build(Space(vectors[:80]), 4)
    before, lists = Column.of(graph, support[:80], radius=radius), lists_of(graph)

    grown = graph.append(vectors[80:100])
    other = graph.append(vectors[100:])

    assert lists_of(graph) == lists
    assert cut(Column.of(graph, support[:80], radius=radius), radius) == cut(before, radius)
    assert np.shares_memory(graph.distance, grown.distance)
    assert np.shares_memory(graph.train.left, grown.train.left)
    assert np.shares_memory(graph.train.right, grown.train.right)
    for rows, each in (([*range(100)], grown), ([*range(80), *range(100, 120)], other)):
        expected = truth(Space(vectors[rows]), support[rows], radius)
        assert cut(Column.of(each, support[rows], radius=radius), radius) == expected


def test_a_graph_that_has_grown_is_found_again(tmp_path, small_tiles):
    vectors = np.random.default_rng(6).normal(size=(120, 3))
    graph = Graph.build(Space(vectors[:80]), 4, cache=tmp_path)
    grown = graph.append(vectors[80:100], cache=tmp_path).append(vectors[100:], cache=tmp_path)
    sizes = sorted(each.stat().st_size for each in tmp_path.iterdir())

    again = Graph.build(Space(vectors), 4, cache=tmp_path, progress=lambda done, total: None)

    assert len(again.later.node) > 0  # it has grown, and was not built anew
    assert again.root == grown.root
    assert lists_of(again) == lists_of(grown) == lists_of(Graph.build(Space(vectors), 4))
    assert len(sizes) == 3
    assert max(sizes[:2]) < 1000  # of what has grown, only from what
    (tmp_path / again.root[0]).write_bytes(b"damaged")
    assert lists_of(Graph.build(Space(vectors), 4, cache=tmp_path)) == lists_of(grown)


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


@pytest.mark.parametrize("few", [0, 16, 10**9], ids=["backward", "both ways", "forward"])
@METRICS
@LAW
@given(data=st.data())
def test_any_sequence_of_edits_and_radii_equals_a_fresh_search(
    metric, few, data, small_tiles, monkeypatch
):
    monkeypatch.setattr(column_module, "FEW", few)
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

        expected = truth(space, column.support.mask, column.radius, asking)
        assert cut(column, column.radius) == expected


@METRICS
def test_all_rows_equal_is_one_node_that_everybody_shares(metric):
    graph = Graph.build(Space(np.ones((9, 3)), metric), k=2)
    support = np.arange(9) == 4

    column = Column.of(graph, support, radius=0.0)

    assert graph.neighbour.tolist() == [[0]]
    assert column.row.tolist() == [4] * 9
    assert column.voting(support | (np.arange(9) == 2)).row.tolist() == [2] * 9


def test_a_tie_group_larger_than_k_is_searched_and_the_lowest_row_wins():
    angles = np.linspace(0.1, 3.0, 12)
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    space = Space(np.concatenate([np.zeros((1, 2)), around.round(1)]), "euclidean")
    graph = Graph.build(space, k=3)
    support = np.ones(13, bool)
    support[0] = False

    column = Column.of(graph, support, radius=2.0)

    assert cut(column, 2.0) == truth(space, support, 2.0)


def test_a_column_reports_how_many_rows_were_searched_directly():
    space = Space(np.random.default_rng(0).normal(size=(60, 4)))
    support = np.arange(60) < 2

    short, whole = Graph.build(space, k=3), Graph.build(space)

    assert Column.of(short, support, radius=2.0).n_searched > 20
    assert Column.of(short, support, radius=0.0).n_searched == 0
    assert Column.of(whole, support, radius=2.0).n_searched == 0


def test_a_smaller_radius_needs_nothing_new():
    graph = Graph.build(Space(np.eye(4)))
    column = Column.of(graph, np.arange(4) == 0, radius=0.5)

    assert column.reaching(0.4) is column


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ParameterError, "k must be at least 1, got 0", lambda: Graph.build(Space(np.eye(3)), 0)),
        (VectorError, "at least one train row", lambda: Graph.build(Space(np.empty((0, 2))))),
        (
            ParameterError,
            "append there and ask it for the queries again",
            lambda: Graph.build(Space(np.eye(3))).queries(Space(np.eye(3))).append(np.eye(3)),
        ),
        (
            AlignmentError,
            r"support is True or False per train row, got shape \(2,\)",
            lambda: Column.of(Graph.build(Space(np.eye(3))), [True, False], radius=1),
        ),
        (
            RadiusError,
            "at least 0, got nan",
            lambda: Column.of(Graph.build(Space(np.eye(3))), [True] * 3, radius=np.nan),
        ),
    ],
)
def test_bad_input_is_refused_with_a_cure(error, match, call):
    with pytest.raises(error, match=match):
        call()


def test_a_graph_too_large_for_its_budget_says_how_many_neighbours_fit():
    space = Space(np.random.default_rng(0).normal(size=(70, 4)))

    with pytest.raises(ParameterError, match=r"k = 60 for 70 distinct vectors.*or k = 20"):
        Graph.build(space, 60, budget=40_000)
    with pytest.raises(ParameterError, match=r"k = 16 for 70 .*give a budget of more bytes"):
        Graph.build(space, budget=1_000)


def test_without_a_k_as_many_neighbours_are_kept_as_the_budget_allows():
    space = Space(np.random.default_rng(0).normal(size=(70, 4)))

    assert Graph.build(space, budget=40_000).width == 20
    assert Graph.build(space).width == 70


@pytest.fixture
def vectors():
    return np.random.default_rng(8).normal(size=(120, 8)).astype(np.float32)


def test_a_graph_built_before_is_read_from_the_cache(vectors, tmp_path, monkeypatch):
    built = Graph.build(Space(vectors), 5, cache=tmp_path)
    monkeypatch.setattr(graph_module, "symmetric", None)  # building again would fail

    read = Graph.build(Space(vectors), 5, cache=tmp_path)

    assert lists_of(read) == lists_of(built)


def test_a_changed_vector_is_never_served_from_the_cache(vectors, tmp_path):
    Graph.build(Space(vectors), 5, cache=tmp_path)
    vectors[7] *= -1

    graph = Graph.build(Space(vectors), 5, cache=tmp_path)

    assert lists_of(graph) == lists_of(Graph.build(Space(vectors), 5))


@pytest.mark.parametrize("damage", ["cut short", "one byte changed", "not a zip"])
def test_a_damaged_cache_is_built_again(vectors, tmp_path, damage):
    expected = Graph.build(Space(vectors), 5, cache=tmp_path)
    [file] = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    if damage == "cut short":
        content = content[: len(content) // 2]
    elif damage == "one byte changed":
        content[len(content) // 2] ^= 1
    else:
        content = bytearray(b"nothing")
    file.write_bytes(content)

    again = Graph.build(Space(vectors), 5, cache=tmp_path)

    assert lists_of(again) == lists_of(expected)


def test_ctrl_c_keeps_what_is_done_and_the_next_build_goes_on(vectors, tmp_path, small_tiles):
    def interrupt(done, total):
        if done > total // 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Graph.build(Space(vectors), 5, cache=tmp_path, checkpoint_seconds=0, progress=interrupt)
    seen = []
    graph = Graph.build(
        Space(vectors), 5, cache=tmp_path, progress=lambda done, total: seen.append(done / total)
    )

    assert min(seen) > 0.3
    assert lists_of(graph) == lists_of(Graph.build(Space(vectors), 5))
    assert [file.suffixes for file in tmp_path.iterdir()] == [[".npz"]]


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from epoxy import storage
from epoxy.neighbors import Graph, Space, build, cells, store

build.TILE = 16
cells.FROM, cells.SIZE = int(sys.argv[3]), int(sys.argv[4])
kept = 0
save = store.save

def save_and_die(path, arrays):
    global kept
    save(path, arrays)
    kept += 1
    if kept == 5:
        storage.beside(path, process=999999999).write_bytes(b"half a checkpoint")
        os.kill(os.getpid(), signal.SIGKILL)

store.save = save_and_die
vectors = np.load(sys.argv[1])
Graph.build(Space(vectors), 5, cache=Path(sys.argv[2]), checkpoint_seconds=0.0)
"""


def test_a_build_killed_in_the_middle_goes_on_from_its_checkpoint(
    vectors, tmp_path, small_tiles, monkeypatch
):
    np.save(tmp_path / "vectors.npy", vectors)
    cache = tmp_path / "cache"
    settings = [str(cells.FROM), str(cells.SIZE)]
    command = [sys.executable, "-c", KILLED, tmp_path / "vectors.npy", cache, *settings]
    killed = subprocess.run(command, timeout=60, check=False)
    begun, resume = [], build._HalfMatrix.resume

    def seen(self, checkpoint):
        begun.append(resume(self, checkpoint))
        return begun[-1]

    monkeypatch.setattr(build._HalfMatrix, "resume", seen)
    graph = Graph.build(Space(vectors), 5, cache=cache)

    assert killed.returncode == -signal.SIGKILL
    assert begun[0] >= 5
    assert lists_of(graph) == lists_of(Graph.build(Space(vectors), 5))
    assert len(list(cache.iterdir())) == 1


def test_what_another_process_is_writing_is_left_to_it(tmp_path):
    path = tmp_path / "graph.npz"
    theirs, left = (beside(path, process=number) for number in (os.getppid(), 999999999))
    for file in (theirs, left):
        file.write_bytes(b"half a graph")

    store.save(path, {"row": np.arange(3)})
    store.remove(path)

    assert list(tmp_path.iterdir()) == [theirs]


def test_a_damaged_checkpoint_is_not_trusted(vectors, tmp_path, small_tiles):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Graph.build(Space(vectors), 5, cache=tmp_path, checkpoint_seconds=0, progress=interrupt)
    [file] = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    graph = Graph.build(Space(vectors), 5, cache=tmp_path)

    assert lists_of(graph) == lists_of(Graph.build(Space(vectors), 5))


def test_a_failing_worker_is_heard(vectors):
    def fail(task):
        raise MemoryError("no room for the tile")

    with pytest.raises(MemoryError, match="no room"):
        Work([1, 2, 3]).run(lambda: fail, threads=2)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, 3), ({"OMP_NUM_THREADS": "2"}, 2), ({"OMP_NUM_THREADS": "x"}, 3)],
)
def test_threads_are_as_many_as_the_environment_allows(environment, expected, monkeypatch):
    for name in workers.LIMITS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})

    assert workers.n_threads() == expected


@pytest.mark.parametrize("name", ["spam", "weather", "sms"])
def test_reach_is_exact_on_real_vectors(shared_data, name):
    folder = shared_data / name
    if not (folder / "vectors-train.npy").exists():
        pytest.skip(f"no vectors of {name} on this machine")
    space = Space(np.load(folder / "vectors-train.npy")[:1200])
    support = np.load(folder / "votes-train.npy")[:1200, :4] != -1
    graph = Graph.build(space, k=20)
    expected = nearest(space, support)

    for source, radius in [(0, 0.2), (1, 0.4), (2, 0.6), (3, 2.0)]:
        column = Column.of(graph, support[:, source], radius=radius)

        near = expected.distance[:, source] <= radius
        assert (column.distance <= radius).tolist() == near.tolist()
        assert column.row[near].tolist() == expected.row[near, source].tolist()
        assert column.distance[near].tolist() == expected.distance[near, source].tolist()


@METRICS
@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("radius", [0.2, np.inf])
def test_a_source_and_another_split_after_rows_were_added(metric, approximate, radius, small_tiles):
    rng = np.random.default_rng(8)
    vectors = rng.integers(-3, 4, size=(90, 3)) + 0.5
    support = rng.random(90) < 0.2
    old, onto = Space(vectors[:60], metric), Space(vectors[20:80:2], metric)
    graph = Graph.approximate(old, Settings(k=5, probes=2)) if approximate else Graph.build(old, 5)
    asking = graph.queries(onto)
    columns = [Column.of(each, support[:60], radius=radius) for each in (graph, asking)]

    grown = graph.append(vectors[60:])
    again = asking.asking(grown)

    assert lists_of(again) == lists_of(grown.queries(onto))
    for column, now in zip(columns, (grown, again), strict=True):
        fresh, made = Column.of(now, support, radius=radius), column.grown(now, support)
        near = fresh.distance <= radius

        assert (made.distance <= radius).tolist() == near.tolist()
        assert made.row[near].tolist() == fresh.row[near].tolist()
        assert made.distance[near].tolist() == fresh.distance[near].tolist()
