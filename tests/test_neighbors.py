"""The neighbour graph and who lends, against all distances in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy import Epoxy, Fusion, Session, Split, Votes, loans
from epoxy.errors import (
    AlignmentError,
    ParameterError,
    RadiusError,
    StoreError,
    UnknownName,
    VectorError,
)
from epoxy.neighbors import Graph, Settings, Space, graph, ivf, lenders, nearest_lenders, within
from epoxy.project.settings import Project

METRICS = pytest.mark.parametrize("metric", ["cosine", "euclidean"])


def all_distances(metric: str, queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """By the definition, rounded to float32: (n_queries, n)."""
    x, z = queries.astype(np.float64)[:, None], vectors.astype(np.float64)[None]
    if metric == "cosine":
        x = x / np.linalg.norm(x, axis=2, keepdims=True)
        z = z / np.linalg.norm(z, axis=2, keepdims=True)
    squares = np.square(x - z).sum(axis=2).round(14)
    return (np.sqrt(squares) if metric == "euclidean" else squares / 2).astype(np.float32)


def oracle(metric, space, support, onto):
    """Each row's nearest supporting row, of equals the first, and how far it is."""
    table = all_distances(metric, onto.vectors, space.vectors)
    table = np.where(support, table, np.inf)
    far = table.min(axis=1, initial=np.inf)
    first = (table <= far[:, None]).argmax(axis=1) if table.size else np.zeros(len(table), int)
    return np.where(np.isfinite(far), first, -1), far


def draw(seed: int, count: int, dimension: int = 6, values: int = 0) -> np.ndarray:
    """Rows; with few `values` many are equal, and many equally far."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, dimension))
    if values:
        rows = rng.integers(-values, values + 1, (count, dimension))
        rows[~rows.any(axis=1)] = 1
    return rows.astype(np.float32)


def assert_lists_are_right(found: Graph, metric: str, onto: Space) -> None:
    table = all_distances(metric, onto.vectors[onto.first], found.train.vectors[found.train.first])
    near, far = found.listed()
    np.testing.assert_allclose(far, np.sort(table, axis=1)[:, : found.width], atol=1e-6)
    np.testing.assert_allclose(far, np.take_along_axis(table, near, axis=1), atol=1e-6)
    assert not ((np.diff(far, axis=1) == 0) & (np.diff(near, axis=1) < 0)).any()


@METRICS
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), k=st.integers(1, 90), values=st.sampled_from([0, 1, 2]))
def test_a_graph_holds_the_nearest_of_each_distinct_row(metric, seed, k, values):
    space = Space(draw(seed, 70, 3, values), metric)
    asking = Space(draw(seed + 1, 20, 3, values), metric)

    built = Graph.build(space, k)

    assert built.width == min(k, space.n_nodes)
    assert_lists_are_right(built, metric, space)
    assert_lists_are_right(built.queries(asking), metric, asking)


@METRICS
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 999),
    k=st.sampled_from([1, 3, 200]),
    values=st.sampled_from([0, 1, 2]),
    share=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    elsewhere=st.booleans(),
)
def test_the_nearest_row_that_votes_lends_and_of_equals_the_first(
    metric, seed, k, values, share, elsewhere
):
    space = Space(draw(seed, 90, 3, values), metric)
    onto = Space(draw(seed + 1, 30, 3, values), metric) if elsewhere else space
    rng = np.random.default_rng(seed)
    supports = [rng.random(90) < share, rng.random(90) < 0.2]
    listed = Graph.build(space, k, onto=onto if elsewhere else None)

    for found in (lenders(listed, supports), nearest_lenders(space, onto, supports)):
        for support, (row, far) in zip(supports, found, strict=True):
            expected, distance = oracle(metric, space, support, onto)
            np.testing.assert_allclose(far, distance, atol=1e-6)
            same = row == expected
            table = all_distances(metric, onto.vectors[~same], space.vectors)
            other = np.take_along_axis(table, row[~same][:, None], axis=1)[:, 0]
            np.testing.assert_allclose(other, distance[~same], atol=1e-6)
            assert same.mean() > 0.95


@METRICS
@pytest.mark.parametrize("name", ["spam", "sms"])
def test_lists_and_a_direct_search_name_the_same_lender_on_real_vectors(shared_data, name, metric):
    folder = shared_data / name
    vectors = np.load(folder / "vectors-train.npy").astype(np.float32)
    supports = list((np.load(folder / "votes-train.npy")[:, :6] != -1).T)
    space = Space(vectors, metric)

    walked = lenders(Graph.build(space, 16), supports)

    direct = nearest_lenders(space, space, supports)
    for support, mine, theirs in zip(supports, walked, direct, strict=True):
        assert (mine[0] == theirs[0]).mean() > 0.999
        np.testing.assert_allclose(mine[1], theirs[1], atol=1e-6)
        if metric == "cosine" and support.any():
            unit = vectors / np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
            table = 1 - unit @ unit[support].T
            np.testing.assert_allclose(mine[1], table.min(axis=1), atol=1e-6)


@METRICS
def test_equal_rows_lend_at_distance_0_and_the_first_of_them_that_votes(metric):
    space = Space(np.ones((6, 5)), metric)
    support = np.array([0, 0, 1, 1, 0, 0], bool)

    [(row, far)] = lenders(Graph.build(space), [support])

    assert (space.n_nodes, row.tolist(), far.tolist()) == (1, [2] * 6, [0.0] * 6)


@METRICS
@pytest.mark.parametrize("k", [4, 300])
def test_an_appended_graph_lists_whom_one_built_anew_lists(metric, k):
    vectors = draw(6, 120, 3, 4)
    other = Space(draw(7, 15, 3), metric)
    first = Graph.build(Space(vectors[:60], metric), k)
    before = first.neighbour.copy()

    grown = first.append(vectors[60:90]).append(vectors[90:], vectors)
    asking = first.queries(other).asking(grown.train)

    assert grown.train.node.tolist() == Space(vectors, metric).node.tolist()
    assert_lists_are_right(grown, metric, grown.train)
    assert_lists_are_right(asking, metric, other)
    assert (first.neighbour == before).all()


def test_rows_far_from_the_origin_or_from_all_others_do_not_hide_who_is_near():
    rows = draw(0, 300, 5)
    far = (rows + 1000).astype(np.float32)
    with_outlier = np.vstack([rows, np.full((1, 5), 1e6, np.float32)])
    for each in (far, with_outlier):
        space = Space(each, "euclidean")
        assert_lists_are_right(Graph.build(space, 5), "euclidean", space)


def test_among_rows_that_point_almost_the_same_way_one_within_rounding_is_found():
    rows = (1 + 1e-3 * draw(0, 75, 64)).astype(np.float32)
    space, support = Space(rows), np.arange(75) >= 5

    row, far = lenders(Graph.build(space, 3), [support])[0]

    table = all_distances("cosine", rows, rows)
    np.testing.assert_allclose(far, oracle("cosine", space, support, space)[1], atol=1e-6)
    np.testing.assert_allclose(far, table[np.arange(75), row], atol=1e-12)


@METRICS
def test_within_lists_every_pair_of_the_ball_and_its_surface(metric, monkeypatch):
    monkeypatch.setattr("epoxy.neighbors.walk.BUDGET", 2000)
    vectors = draw(4, 40, 3, 2)
    table = all_distances(metric, vectors, vectors)
    radius = float(np.sort(table, axis=None)[500])
    support, rows = np.arange(0, 40, 2), np.arange(5, 35)
    space = Space(vectors, metric)

    chunks = list(within(space, support, space, rows, radius))

    asking, lending, far = (np.concatenate(part) for part in zip(*chunks, strict=True))
    expected = [(i, j) for i in rows for j in support if table[i, j] <= radius]
    assert list(zip(asking, lending, strict=True)) == expected
    np.testing.assert_allclose(far, table[asking, lending], atol=1e-6)
    assert len(chunks) > 1
    assert sum(len(np.unique(each[0])) for each in chunks) == len(np.unique(asking))


def test_another_split_asks_a_neighbourhood_that_is_kept():
    vectors = draw(0, 70)
    vectors[[3, 60]] = 0  # near nobody
    votes = Votes(np.where(np.arange(70) % 5 == 0, 1, -1)[:, None])
    train, other = (Split(votes.rows(each), vectors[each]) for each in (range(50), range(50, 70)))
    own = [train.votes.matrix[:, 0], other.votes.matrix[:, 0]]

    asked = loans.Neighbourhood.over((train,), apart=True).asked_by(other, apart=True)

    expected = loans.Neighbourhood.over((train, other), apart=True).lend(own)
    for mine, theirs in zip(asked.lend(own), expected, strict=True):
        assert mine.lender.tolist() == theirs.lender.tolist()
        assert mine.distance.tolist() == theirs.distance.tolist()
    assert asked.lend(own)[1].lender[10] == -1


# the cache


@pytest.fixture
def kept(tmp_path):
    rows = draw(8, 120, 8)
    return rows, Graph.build(Space(rows), 5, cache=tmp_path), tmp_path


def test_a_graph_built_before_is_read_and_not_searched_again(kept, monkeypatch):
    rows, built, cache = kept
    monkeypatch.setattr(graph, "nearest_rows", None)

    read = Graph.build(Space(rows), 5, cache=cache)

    assert read.neighbour.tolist() == built.neighbour.tolist()
    assert read.distance.tolist() == built.distance.tolist()


def test_a_changed_vector_or_metric_is_never_served_from_the_cache(kept):
    rows, _, cache = kept
    rows = rows.copy()
    rows[7] *= -1

    for metric in ("cosine", "euclidean"):
        space = Space(rows, metric)
        assert_lists_are_right(Graph.build(space, 5, cache=cache), metric, space)


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "deleted", "other words"])
def test_a_damaged_cache_is_made_again(kept, damage):
    rows, built, cache = kept
    [file] = cache.iterdir()
    whole = file.read_bytes()
    for at in range(0, len(whole), 97) if damage == "flipped" else [len(whole) // 2]:
        content = bytearray(whole)
        content[at] ^= 1
        made = {"cut": whole[:at], "flipped": bytes(content), "emptied": b""}
        file.write_bytes(made.get(damage, b"other words"))
        if damage == "deleted":
            file.unlink()

        again = Graph.build(Space(rows), 5, cache=cache)

        assert again.neighbour.tolist() == built.neighbour.tolist()
        assert again.distance.tolist() == built.distance.tolist()
    assert len(list(cache.iterdir())) == 1


# spaces, and what is refused

TWO = Space(np.eye(2))


@pytest.mark.parametrize(
    ("error", "names", "call"),
    [
        (VectorError, r"zeros.*\[1, 2\]", lambda: Space([[1, 0], [0, 0], [0, 0]])),
        (VectorError, "finite.*row 1", lambda: Space([[1.0], [np.nan]])),
        (VectorError, "shape", lambda: Space([1.0, 2.0])),
        (VectorError, "too long.*divide", lambda: Space([[9e17, 9e17], [0, 1]], "euclidean")),
        (UnknownName, "'euclidean'", lambda: Space([[1.0]], "euclidian")),
        (VectorError, "dimension 2.*3", lambda: Graph.build(TWO, onto=Space(np.eye(3)))),
        (
            VectorError,
            "cosine.*euclidean",
            lambda: TWO.check_same_dimension(Space(np.eye(2), "euclidean")),
        ),
        (VectorError, "dimension 3", lambda: TWO.append(np.eye(3))),
        (VectorError, "at least one train row", lambda: Graph.build(Space(np.empty((0, 2))))),
        (ParameterError, "k must be at least 1", lambda: Graph.build(TWO, 0)),
        (ParameterError, "k is a whole number", lambda: Settings(k=0)),
        (ParameterError, "recall is a share", lambda: Settings(recall=1.5)),
        (
            AlignmentError,
            "per train row",
            lambda: lenders(Graph.build(TWO), [np.ones(3, bool)]),
        ),
        (RadiusError, "at least 0", lambda: list(within(TWO, [0], TWO, [0], -1))),
    ],
)
def test_bad_input_is_refused_by_name(error, names, call):
    with pytest.raises(error, match=names):
        call()


# large data


@pytest.fixture
def small(monkeypatch):
    """Large is what has some hundred rows."""
    monkeypatch.setattr(graph, "LARGE", 300)
    monkeypatch.setattr(ivf, "LARGE", 300)
    monkeypatch.setattr(ivf, "WORTH", 1.0)


def in_groups(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    middle = rng.normal(size=(20, 16))
    return (middle[rng.integers(20, size=count)] + 0.4 * rng.normal(size=(count, 16))).astype("f4")


def votes_of(vectors: np.ndarray) -> Votes:
    near = vectors @ np.random.default_rng(0).normal(size=(vectors.shape[1], 5))
    cast = near > np.quantile(near, 0.85, axis=0)
    return Votes(np.where(cast, np.arange(5) % 2, -1), classes=["no", "yes"])


def test_of_many_rows_the_share_wanted_is_listed_measured_kept_and_all_there_is(small, tmp_path):
    space = Space(in_groups(1000))
    built = Graph.build(space, approximate=Settings(k=8, recall=0.8), cache=tmp_path)
    again = Graph.build(space, approximate=Settings(k=8, recall=0.8), cache=tmp_path)
    exact = Graph.build(space, 8)
    few = np.arange(1000) == 3

    share = np.mean([np.isin(*each).mean() for each in zip(exact.neighbour, built.neighbour)])
    assert 0.78 < share < 1
    assert abs(built.recall.value - share) < 0.05
    assert "of 8, measured on 500 rows" in str(built.recall)
    assert again.recall == built.recall
    assert (again.neighbour == built.neighbour).all()
    row, _ = lenders(built, [few])[0]
    assert (row == np.where((built.neighbour == 3).any(axis=1), 3, -1)).all()


def test_rows_of_another_split_and_rows_appended_are_listed_among_many_too(small):
    vectors = in_groups(1040)
    built = Graph.build(Space(vectors[:1000]), approximate=Settings(k=8))

    grown, asked = built.append(vectors[1000:]), built.queries(Space(vectors[1000:]))

    exact = Graph.build(Space(vectors), 8).neighbour
    assert np.mean([np.isin(*each).mean() for each in zip(exact, grown.neighbour)]) > 0.9
    assert asked.recall is None  # of few rows that ask all are compared
    assert grown.neighbour.shape == (1040, 8)


@pytest.mark.parametrize("model", [Epoxy(radius=0.2), Fusion()])
def test_a_session_over_many_rows_is_as_if_made_anew_and_says_what_it_knows(small, model):
    vectors = in_groups(400)
    votes = votes_of(vectors)
    dev = Split(votes.rows(range(60)), vectors[:60], y=np.arange(60) % 2)
    column = votes.matrix[:, 0].copy()
    column[:40] = 1
    edited = Votes(np.column_stack([column, votes.matrix[:, 1:]]), classes=votes.classes)
    how = Settings(k=8, recall=0.8)

    session = Session(Split(votes, vectors), dev, model, neighbours=how)
    session.set_votes("source_0", column)
    fresh = Session(Split(edited, vectors), dev, model, neighbours=how)

    np.testing.assert_allclose(session.probabilities, fresh.probabilities, rtol=0, atol=1e-7)
    recall = session.state.workspace.near.recall
    assert session.notes[-1] == f"neighbours are approximate: {recall}"
    about = session.report().to_dict()["summary"]["approximate neighbours"]
    assert (about["recall"], about["k"], about["rows"]) == (recall.value, 8, 400)


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
    ("lines", "names"),
    [
        ('neighbours = "near"', "'near'"),
        ("recall = 0.9", "recall"),
        ('neighbours = "exact"\nrecall = 0.9', "recall"),
        ('neighbours = "approximate"\nrecall = 2', "recall"),
    ],
)
def test_a_project_refuses_settings_of_neighbours_that_are_not_read(lines, names, tmp_path):
    with pytest.raises((StoreError, UnknownName), match=names):
        Project.of(tmp_path, PROJECT + lines)
