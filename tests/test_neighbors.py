"""Exact search against a naive float64 oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.errors import AlignmentError, RadiusError, UnknownName, VectorError
from epoxy.neighbors import Found, Space, kernels, nearest, nearest_both, within
from epoxy.neighbors.search import Query, search


def pair_distance(metric, x, z):
    """The definition, one pair at a time: 32 running float64 sums, folded in halves."""
    x, z = x.astype(np.float64), z.astype(np.float64)

    def total(terms):
        sums = [0.0] * 32
        for at, term in enumerate(terms.tolist()):
            sums[at % 32] += term
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [a + b for a, b in zip(sums[:half], sums[half:], strict=True)]
        return sums[0]

    if metric == "euclidean":
        return float(np.sqrt(total((x - z) * (x - z))))
    return max(0.0, float(1.0 - total(x * z) / np.sqrt(total(x * x) * total(z * z))))


def all_distances(metric, queries, vectors):
    queries, vectors = np.asarray(queries, np.float32), np.asarray(vectors, np.float32)
    return np.array([[pair_distance(metric, x, z) for z in vectors] for x in queries]).reshape(
        len(queries), len(vectors)
    )


def naive_nearest(metric, vectors, support, queries=None):
    table = all_distances(metric, vectors if queries is None else queries, vectors)
    row = np.full((len(table), support.shape[1]), -1, np.int32)
    distance = np.full(row.shape, np.inf)
    for source in range(support.shape[1]):
        backing = np.flatnonzero(support[:, source])
        if len(backing):
            best = table[:, backing].argmin(axis=1)  # the first of equals: the lowest row
            row[:, source] = backing[best]
            distance[:, source] = table[np.arange(len(table)), backing[best]]
    return Found(row, distance)


def assert_same(found, expected):
    assert found.row.tolist() == expected.row.tolist()
    assert found.distance.tolist() == expected.distance.tolist()


METRICS = pytest.mark.parametrize("metric", ["cosine", "euclidean"])


@METRICS
@pytest.mark.parametrize("dimension", [1, 7, 32, 33, 64, 100])
def test_nearest_equals_the_naive_oracle_bit_for_bit(metric, dimension):
    rng = np.random.default_rng(dimension)
    vectors = rng.normal(size=(40, dimension)).astype(np.float32)
    support = rng.random((40, 4)) < [0.05, 0.2, 0.9, 0.0]

    found = nearest(Space(vectors, metric), support)

    assert_same(found, naive_nearest(metric, vectors, support))


@METRICS
def test_another_split_asks_the_train_split(metric):
    rng = np.random.default_rng(3)
    vectors, queries = rng.normal(size=(50, 12)), rng.normal(size=(17, 12))
    support = rng.random((50, 3)) < 0.3

    found = nearest(Space(vectors, metric), support, Space(queries, metric))

    assert_same(found, naive_nearest(metric, vectors, support, queries))


@METRICS
@pytest.mark.parametrize("votes", [0.0, 0.1, 0.9])
def test_two_spaces_that_ask_each_other_are_told_what_each_would_be_told_alone(metric, votes):
    rng = np.random.default_rng(3)
    drawn = np.round(rng.normal(size=(70, 5)), 1).astype(np.float32)  # some are equal
    one, two = drawn[:40], drawn[rng.integers(70, size=1100)]
    support = rng.random((40, 3)) < 0.4, rng.random((1100, 3)) < votes
    wanted = ~support[0], ~support[1]

    spaces = Space(one, metric), Space(two, metric)
    here, there = nearest_both(spaces[0], support[0], spaces[1], support[1], wanted=wanted)

    assert_same(here, nearest(spaces[1], support[1], spaces[0], wanted=wanted[0]))
    assert_same(there, nearest(spaces[0], support[0], spaces[1], wanted=wanted[1]))


@METRICS
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_ties_go_to_the_lowest_row_on_integer_grids(metric, data):
    n, dimension = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 3))
    cells = st.lists(st.integers(-1, 1), min_size=dimension, max_size=dimension)
    vectors = np.array(data.draw(st.lists(cells, min_size=n, max_size=n)), np.float32)
    if metric == "cosine":
        vectors[~vectors.any(axis=1)] = 1
    support = np.array(data.draw(st.lists(st.booleans(), min_size=2 * n, max_size=2 * n)))
    support = support.reshape(n, 2)

    found = nearest(Space(vectors, metric), support)

    assert_same(found, naive_nearest(metric, vectors, support))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_ties_in_many_dimensions_go_to_the_lowest_row(data):
    n = data.draw(st.integers(1, 20))
    cells = st.lists(st.integers(-1, 1), min_size=3, max_size=3)
    vectors = np.zeros((n, 70), np.float32)
    vectors[:, :3] = data.draw(st.lists(cells, min_size=n, max_size=n))
    vectors[~vectors.any(axis=1)] = 1
    support = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))[:, None]

    found = nearest(Space(vectors), support)

    assert_same(found, naive_nearest("cosine", vectors, support))


def test_a_crowd_of_vectors_that_point_almost_the_same_way_is_still_ranked():
    rng = np.random.default_rng(11)
    vectors = 1 + 1e-3 * rng.normal(size=(75, 64)).astype(np.float32)
    support = np.arange(75)[:, None] >= 5

    found = nearest(Space(vectors), support)

    assert_same(found, naive_nearest("cosine", vectors, support))


@METRICS
@pytest.mark.parametrize("dimension", [7, 64])
def test_what_is_known_spares_a_search_and_changes_no_answer_within_it(metric, dimension):
    rng = np.random.default_rng(21)
    vectors = rng.normal(size=(300, dimension)).astype(np.float32)
    vectors[200:] = vectors[:100] + 1e-6 * rng.normal(size=(100, dimension))  # nearly ties
    space = Space(vectors, metric)
    queries = np.arange(space.n_nodes)
    query = Query.of(space, rng.random(300) < 0.4, queries)
    free = search(space, space, [query])[0]

    # some ask for no more than they have, to the bit, some for less, some for anything
    known = np.where(queries % 3 == 0, free.distance, rng.uniform(0, 2, len(queries)))
    known[queries % 7 == 0] = np.inf
    spared = search(space, space, [replace(query, within=known)])[0]

    useful = free.distance <= known
    assert useful.any()
    assert not useful.all()
    assert spared.row[useful].tolist() == free.row[useful].tolist()
    assert spared.distance[useful].tolist() == free.distance[useful].tolist()


@METRICS
def test_equal_rows_are_one_node_and_the_lowest_supporting_row_answers(metric):
    vectors = np.ones((6, 5), np.float32)
    support = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [0, 0]], bool)
    space = Space(vectors, metric)

    found = nearest(space, support)

    assert (space.n_nodes, len(space)) == (1, 6)
    assert found.row.tolist() == [[2, 1]] * 6
    assert found.distance.tolist() == [[0.0, 0.0]] * 6


@METRICS
def test_a_source_that_never_votes_is_infinitely_far(metric):
    found = nearest(Space([[1.0, 2.0], [2.0, 1.0]], metric), np.zeros((2, 1), bool))

    assert found.row.tolist() == [[-1], [-1]]
    assert found.distance.tolist() == [[np.inf], [np.inf]]


def test_a_single_row_finds_itself():
    found = nearest(Space([[3.0, 4.0]]), np.ones((1, 1), bool))

    assert (found.row.item(), found.distance.item()) == (0, 0.0)


def test_opposite_vectors_are_at_distance_two():
    found = nearest(Space([[1.0, 0.0], [-5.0, 0.0]]), np.array([[True], [False]]))

    assert found.distance.ravel().tolist() == [0.0, 2.0]


def test_pairs_nobody_wants_are_left_out():
    rng = np.random.default_rng(0)
    vectors, support = rng.normal(size=(30, 4)), rng.random((30, 3)) < 0.4
    space = Space(vectors)

    found = nearest(space, support, wanted=~support)

    whole = nearest(space, support)
    assert found.row.tolist() == np.where(support, -1, whole.row).tolist()
    assert found.distance.tolist() == np.where(support, np.inf, whole.distance).tolist()


def test_vectors_from_float16_keep_the_definition():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(50, 40)).astype(np.float16)
    support = rng.random((50, 2)) < 0.2

    found = nearest(Space(vectors), support)

    assert_same(found, naive_nearest("cosine", vectors.astype(np.float32), support))


def test_nearly_equal_vectors_are_ranked_beyond_float32():
    base = np.random.default_rng(2).normal(size=64).astype(np.float32)
    vectors = np.stack([base] + [base + np.float32(2**-21) * step for step in range(1, 9)])
    support = np.zeros((9, 1), bool)
    support[1:] = True

    found = nearest(Space(vectors), support)

    assert_same(found, naive_nearest("cosine", vectors, support))


@METRICS
@pytest.mark.parametrize("budget", [1, 1000, 1 << 20])
def test_within_lists_every_pair_of_the_ball_including_its_surface(metric, budget):
    rng = np.random.default_rng(4)
    vectors = rng.integers(-2, 3, size=(40, 3)).astype(np.float32)
    vectors[~vectors.any(axis=1)] = 1
    table = all_distances(metric, vectors, vectors)
    radius = float(np.quantile(table, 0.3))  # the distance of some pair
    support, rows = np.flatnonzero(rng.random(40) < 0.5), np.arange(5, 35)

    chunks = list(within(Space(vectors, metric), support, None, rows, radius=radius, budget=budget))

    asking, backing, distance = (np.concatenate(part) for part in zip(*chunks, strict=True))
    expected = [(i, j, table[i, j]) for i in rows for j in support if table[i, j] <= radius]
    assert list(zip(asking, backing, distance, strict=True)) == expected
    assert sum(len(np.unique(chunk[0])) for chunk in chunks) == len(np.unique(asking))


def test_within_an_empty_support_there_is_nothing():
    assert list(within(Space(np.eye(3)), np.zeros(3, bool), radius=2.0)) == []


TWO = Space(np.eye(2))
ALL = np.ones((2, 1), bool)


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (
            VectorError,
            r"2 rows have a vector of zeros.*first rows \[1, 2\].*metric='euclidean'",
            lambda: Space([[1, 0], [0, 0], [0, 0]]),
        ),
        (VectorError, "must be finite.*first row 1", lambda: Space([[1.0], [np.nan]])),
        (VectorError, "rows × dimension, got shape", lambda: Space([1.0, 2.0])),
        (VectorError, "too long.*divide", lambda: Space([[9e17, 9e17], [0, 1]], "euclidean")),
        (UnknownName, "did you mean 'euclidean'", lambda: Space([[1.0]], "euclidian")),
        (
            VectorError,
            "dimension 2 cannot be compared with vectors of dimension 3",
            lambda: nearest(TWO, ALL, Space(np.eye(3))),
        ),
        (
            VectorError,
            "cosine distance and the other euclidean",
            lambda: TWO.check_same_dimension(Space(np.eye(2), "euclidean")),
        ),
        (VectorError, "appended vectors have dimension 3", lambda: TWO.append(np.eye(3))),
        (
            AlignmentError,
            "support is True or False per train row",
            lambda: nearest(TWO, np.ones((3, 1), bool)),
        ),
        (
            AlignmentError,
            "wanted has 2 columns and support 1",
            lambda: nearest(TWO, ALL, wanted=np.ones((2, 2), bool)),
        ),
        (RadiusError, "at least 0, got -1", lambda: within(TWO, [0], radius=-1)),
        (AlignmentError, "from 0 to 5 for 2 rows", lambda: within(TWO, [0, 5], radius=1)),
        (
            AlignmentError,
            r"mask of rows has shape \(3,\) for 2 rows",
            lambda: within(TWO, np.ones(3, bool), radius=1),
        ),
    ],
)
def test_bad_input_is_refused_with_a_cure(error, match, call):
    with pytest.raises(error, match=match):
        call()


def test_appended_rows_keep_the_numbers_of_the_old_ones():
    space = Space([[1, 0], [0, 1], [1, 0]])

    grown = space.append([[0, 1], [1, 1]])

    assert grown.node.tolist() == [0, 1, 0, 1, 2]
    assert grown.first.tolist() == [0, 1, 4]


def test_the_fingerprint_depends_on_values_and_metric():
    prints = {
        Space([[1.0, 2.0]]).fingerprint,
        Space([[1.0], [2.0]]).fingerprint,
        Space([[1.0, 2.0]], "euclidean").fingerprint,
        Space([[2.0, 1.0]]).fingerprint,
    }

    assert len(prints) == 4
    assert Space([[1.0, 2.0]]).fingerprint in prints


@pytest.mark.parametrize("name", ["spam", "weather", "sms"])
def test_nearest_is_exact_on_real_vectors(shared_data, name):
    folder = shared_data / name
    if not (folder / "vectors-train.npy").exists():
        pytest.skip(f"no vectors of {name} on this machine")
    vectors = np.load(folder / "vectors-train.npy").astype(np.float32)
    support = np.load(folder / "votes-train.npy")[:, :6] != -1

    found = nearest(Space(vectors), support)

    norm = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1))
    for source in range(support.shape[1]):
        backing = np.flatnonzero(support[:, source])
        if not len(backing):
            assert np.isinf(found.distance[:, source]).all()
            continue
        table = 1 - vectors.astype(np.float64) @ vectors[backing].T.astype(np.float64) / np.outer(
            norm, norm[backing]
        )
        np.testing.assert_allclose(found.distance[:, source], table.min(axis=1), atol=1e-14)
        rows = found.row[:, source]
        near = table <= table.min(axis=1, keepdims=True) + 1e-14
        assert (rows[:, None] == backing)[near].sum() == len(rows)


@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (33, 70), (70, 15), (40, 1024)])
def test_a_tile_turned_is_its_transpose(shape):
    room = np.random.default_rng(0).random((shape[0], shape[1] + 5), dtype=np.float32)
    for tile in (np.ascontiguousarray(room[:, 5:]), room[:, 5:]):
        buffer = np.full(tile.size + 3, np.nan, np.float32)

        turned = kernels.turned(tile, buffer)

        assert (turned == tile.T).all()
        assert np.shares_memory(turned, buffer)
