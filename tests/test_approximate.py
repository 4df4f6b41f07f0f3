"""Approximate neighbour lists against exact ones, and what must not change a bit of them."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from epoxy import Epoxy, Fusion, Session, Split, Votes, loans
from epoxy.errors import ParameterError, StoreError, UnknownName, VectorError
from epoxy.neighbors import Column, Graph, Space, approximate, lists_folder, probing
from epoxy.neighbors.approximate import Settings, approximate_lists
from epoxy.neighbors.points import Points
from epoxy.project.settings import Project

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


def test_an_appended_graph_lists_what_the_same_centres_would(small_blocks):
    vectors = clustered(420)
    graph = Graph.approximate(Space(vectors[:350]), Settings(k=6, probes=3, cells=15))

    grown = graph.append(vectors[350:400]).append(vectors[400:])

    points, centre = Points.over(vectors), graph.lists.partition.centre
    partition = probing.Partition.over(points, centre, 3)
    members = probing.Members(points, partition, 1 << 20)
    asking = probing.Asking(points, np.arange(420), partition.top)
    whole = probing.nearest_in_cells(members, asking, 6)
    assert grown.neighbour.tolist() == whole[0].tolist()
    assert grown.distance.tolist() == whole[1].tolist()


def test_other_rows_ask_the_cells_that_train_rows_like_them_ask():
    vectors = clustered(400)
    graph = Graph.approximate(Space(vectors), Settings(k=6, probes=3, cells=15))

    asked = graph.queries(Space(vectors[100:200]))

    assert asked.neighbour.tolist() == graph.neighbour[100:200].tolist()
    assert asked.recall is graph.recall


def test_lists_depend_on_the_seed_and_on_nothing_else(tmp_path, monkeypatch):
    vectors = clustered(700)
    chosen = Settings(k=6, recall=0.8, cells=30)
    plain = approximate_lists(vectors, settings=chosen)

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = approximate_lists(vectors, settings=chosen, memory=1 << 26)
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(approximate, "BLOCK", 100)
    monkeypatch.setattr(probing, "TILE", 50)
    monkeypatch.setattr(probing, "MEASURED", 33)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    kept = approximate_lists(mapped, settings=chosen, folder=tmp_path / "lists")
    other = approximate_lists(vectors, settings=Settings(k=6, recall=0.8, cells=30, seed=1))

    for found in (alone, kept):
        assert lists_of(found) == lists_of(plain)
        assert found.recall == plain.recall
    assert other.partition.centre.tolist() != plain.partition.centre.tolist()


def test_recall_is_what_the_sample_says_and_what_was_wanted():
    vectors = clustered(900, clusters=6)
    exact = Graph.build(Space(vectors), 12).neighbour

    found = approximate_lists(vectors, settings=Settings(k=12, recall=0.9, cells=60))

    listed = [np.isin(mine, known).mean() for mine, known in zip(exact, found.neighbour)]
    assert found.recall.value == pytest.approx(np.mean(listed), abs=1e-12)  # all 900 were sampled
    assert 0.9 <= found.recall.value < 0.99
    assert found.recall.low < found.recall.value < found.recall.high
    fewer = Settings(k=12, probes=found.partition.probes - 1, cells=60)
    assert approximate_lists(vectors, settings=fewer).recall.value < 0.9
    assert str(found.recall) == f"recall {found.recall.value:.3f} of 12, measured on 900 rows"


def test_equal_rows_share_a_list_and_rows_of_zeros_have_none():
    vectors = clustered(60)
    vectors[7], vectors[9] = vectors[3], 0

    found = approximate_lists(vectors, settings=Settings(k=4, probes=ALL))
    rows, far = found.rows(0, 10)

    assert found.points.node[[3, 7, 9]].tolist() == [3, 3, -1]
    assert rows[3].tolist() == rows[7].tolist()
    assert rows[3, 0] == 3
    assert (rows[9] == -1).all()
    assert np.isinf(far[9]).all()
    assert 9 not in found.rows(0, 60)[0]


def test_float16_means_the_float32_numbers_it_is_equal_to():
    half = clustered(80).astype(np.float16)

    found = approximate_lists(half, settings=Settings(k=5, probes=ALL))

    assert lists_of(found) == lists_of(Graph.build(Space(half.astype(np.float32)), 5))


BUILD = """
import os, signal, sys
import numpy as np
from epoxy.neighbors import approximate, lists_folder
approximate.BLOCK = 50
write, left = lists_folder._Kept.write, [int(sys.argv[2])]
def dies(self, *block):
    write(self, *block)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
lists_folder._Kept.write = dies
vectors = np.load(sys.argv[1] + "/vectors.npy", mmap_mode="r")
approximate.approximate_lists(
    vectors, settings=approximate.Settings(k=5, probes=4, cells=20), folder=sys.argv[1] + "/lists"
)
"""


def test_a_killed_build_goes_on_after_its_finished_blocks(tmp_path, monkeypatch):
    vectors = clustered(400)
    np.save(tmp_path / "vectors.npy", vectors)
    chosen = Settings(k=5, probes=4, cells=20)
    killed = subprocess.run([sys.executable, "-c", BUILD, str(tmp_path), "3"], check=False)
    assert killed.returncode == -signal.SIGKILL
    with (tmp_path / "lists" / "neighbour.part").open("r+b") as file:  # the first block is damaged
        file.write(b"\0" * 8)
    log = (tmp_path / "lists" / "done.log").read_text()
    (tmp_path / "lists" / "done.log").write_text(log + "7 12")  # and half a line was written
    monkeypatch.setattr(approximate, "BLOCK", 50)
    written = []
    write = lists_folder._Kept.write
    monkeypatch.setattr(
        lists_folder._Kept,
        "write",
        lambda self, part, *found: (written.append(part.start // 50), write(self, part, *found)),
    )

    def build():
        mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
        return approximate_lists(mapped, settings=chosen, folder=tmp_path / "lists")

    found = build()
    again = build()

    done = {int(line.split()[0]) for line in log.splitlines()}
    assert len(done) >= 3
    assert sorted(written) == sorted(set(range(8)) - (done - {0}))
    for each in (found, again):
        assert lists_of(each) == lists_of(approximate_lists(vectors, settings=chosen))
        assert each.recall == found.recall
    assert sorted(path.name for path in (tmp_path / "lists").iterdir()) == [
        "about.npz",
        "distance.npy",
        "neighbour.npy",
    ]


def test_a_folder_of_other_vectors_or_settings_is_made_anew(tmp_path):
    first = approximate_lists(clustered(90), settings=Settings(k=4), folder=tmp_path)
    other = approximate_lists(clustered(90, seed=1), settings=Settings(k=4), folder=tmp_path)
    wider = approximate_lists(clustered(90, seed=1), settings=Settings(k=5), folder=tmp_path)

    assert first.neighbour.shape == other.neighbour.shape == (90, 4)
    assert lists_of(other) == lists_of(
        approximate_lists(clustered(90, seed=1), settings=Settings(k=4))
    )
    assert wider.neighbour.shape == (90, 5)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ParameterError, "k is a whole number of at least 1, got 0", lambda: Settings(k=0)),
        (ParameterError, "probes is a whole number.*got 1.5", lambda: Settings(probes=1.5)),
        (ParameterError, "recall is a share above 0.*got 1.5.*0.95", lambda: Settings(recall=1.5)),
        (ParameterError, "recall is a share.*got None", lambda: Settings(recall=None)),
        (
            ParameterError,
            r"recall of 0.99 of 9 neighbours takes \d+ of 40 cells, and 2 may be asked, which reach "
            r"0\.\d+; let more be asked",
            lambda: approximate_lists(
                clustered(600), settings=Settings(k=9, recall=0.99, most=2, cells=40)
            ),
        ),
        (
            ParameterError,
            r"lists of 64 neighbours of 300 vectors need 0.\d+ GB.*0.00 GB may be used; allow more",
            lambda: approximate_lists(clustered(300), memory=1000),
        ),
        (
            ParameterError,
            "at least one row with a direction, got 0",
            lambda: approximate_lists(np.zeros((3, 2), np.float32)),
        ),
        (
            VectorError,
            "float32 or float16 in C order, got float64; save them",
            lambda: approximate_lists(np.eye(3)),
        ),
        (
            VectorError,
            "NaN or infinity in 1 rows, first row 2",
            lambda: approximate_lists(np.diag([1, 1, np.nan]).astype(np.float32)),
        ),
    ],
)
def test_what_cannot_be_done_is_said(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match=r"cannot be made.*name a folder"):
        approximate_lists(clustered(9), folder=tmp_path / "file" / "lists")


# one source over an approximate graph, and a session


def naive_column(graph, support, radius):
    """The nearest supporting row among each node's neighbours, equals to the lowest row."""
    row, far = np.full(len(graph.neighbour), -1), np.full(len(graph.neighbour), np.inf)
    for node, (near, distance) in enumerate(zip(graph.neighbour, graph.distance)):
        hits = np.flatnonzero(support[near] & (distance <= radius))
        if len(hits):
            best = min(hits, key=lambda at: (distance[at], near[at]))
            row[node], far[node] = near[best], distance[best]
    return row, far


@pytest.mark.parametrize("radius", [0.05, 0.3, np.inf])
def test_a_source_lends_through_the_lists_and_nobody_is_searched(radius):
    rng = np.random.default_rng(2)
    vectors = clustered(500, clusters=8)
    graph = Graph.approximate(Space(vectors), Settings(k=8, probes=2, cells=20))
    support = (rng.random(500) < 0.1) & (np.arange(500) % 3 == 0)
    column = Column.of(graph, support, radius=radius)

    for _ in range(6):
        flip = rng.random(500) < 0.04
        support = support ^ flip
        column = column.voting(support)
        row, far = naive_column(graph, support, radius)
        near = column.distance <= radius

        assert np.where(near, column.row, -1).tolist() == row.tolist()
        assert np.where(near, column.distance, np.inf).tolist() == far.tolist()
        assert column.n_searched == 0


def votes_of(vectors, seed=0, sources=5):
    rng = np.random.default_rng(seed)
    near = vectors @ rng.normal(size=(vectors.shape[1], sources))
    cast = near > np.quantile(near, 0.85, axis=0)
    return Votes(np.where(cast, np.arange(sources) % 2, -1), classes=["no", "yes"])


@pytest.mark.parametrize("model", [Epoxy(radius=0.2), Epoxy(radius="auto"), Fusion()])
def test_a_session_over_approximate_neighbours_is_as_if_made_anew_and_says_so(model):
    vectors = clustered(400)
    votes = votes_of(vectors)
    dev = Split(votes.rows(range(60)), vectors[:60], y=np.arange(60) % 2)
    settings = Settings(k=8, probes=3, cells=20)
    column = votes.matrix[:, 0].copy()
    column[:40] = 1
    edited = Votes(np.column_stack([column, votes.matrix[:, 1:]]), classes=votes.classes)

    session = Session(Split(votes, vectors), dev, model, neighbours=settings)
    change = session.set_votes("source_0", column)
    session.set_radius("source_1", 0.15)
    session.set_radius("source_1", "auto" if isinstance(model, Fusion) else model.radius)
    fresh = Session(Split(edited, vectors), dev, model, neighbours=settings)

    np.testing.assert_allclose(session.probabilities, fresh.probabilities, rtol=0, atol=1e-7)
    assert change.searched == 0
    recall = session.state.workspace.near.recall
    assert session.notes[-1] == f"neighbours are approximate: {recall}"
    about = session.report().to_dict()["summary"]["approximate neighbours"]
    assert (about["recall"], about["k"], about["rows"]) == (recall.value, 8, 400)
    exact = Session(Split(votes, vectors), dev, model)
    assert not any("approximate" in note for note in exact.notes)


def test_neighbours_are_approximate_above_so_many_distinct_vectors(monkeypatch):
    monkeypatch.setattr(loans, "EXACT_UP_TO", 100)
    vectors = clustered(101)
    train = Split(votes_of(vectors), vectors)

    def is_approximate(rows, **options):
        session = Session(train.rows(range(rows)), model=Epoxy(radius=0.1), **options)
        return session.state.workspace.near.recall is not None

    assert is_approximate(101)
    assert is_approximate(101, graph=False)  # written labels are those of the session that is shown
    assert not is_approximate(100)
    assert not is_approximate(101, neighbours="exact")
    assert is_approximate(50, neighbours="approximate")
    with pytest.raises(UnknownName, match=r"no way of finding neighbours named 'exakt'.*'exact'"):
        Session(train, neighbours="exakt")


def test_neighbours_of_a_session_are_kept_in_its_cache(tmp_path, monkeypatch):
    vectors = clustered(150)
    train = Split(votes_of(vectors), vectors)
    first = Session(train, neighbours="approximate", cache=tmp_path)

    monkeypatch.setattr(approximate, "_planned", None)
    again = Session(train, neighbours="approximate", cache=tmp_path)

    assert again.probabilities.tolist() == first.probabilities.tolist()


PROJECT = '[rows]\nfile = "rows.csv"\n[classes]\nnames = ["no", "yes"]\n[vectors]\n'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", "auto"),
        ('neighbours = "exact"', "exact"),
        ('neighbours = "approximate"', "approximate"),
        ('neighbours = "approximate"\nrecall = 0.9', Settings(recall=0.9)),
    ],
)
def test_a_project_says_how_neighbours_are_found(lines, expected, tmp_path):
    assert Project.of(tmp_path, PROJECT + lines).neighbours == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('neighbours = "near"', "no way of finding neighbours named 'near'; known: auto"),
        ("recall = 0.9", 'recall under .vectors., which is read only with neighbours = "approx'),
        ('neighbours = "exact"\nrecall = 0.9', "take recall out"),
        (
            'neighbours = "approximate"\nrecall = 2',
            "recall = 2 under .vectors.; expected a number <= 1",
        ),
    ],
)
def test_a_project_refuses_settings_of_neighbours_that_are_not_read(lines, message, tmp_path):
    with pytest.raises((StoreError, UnknownName), match=message):
        Project.of(tmp_path, PROJECT + lines)
