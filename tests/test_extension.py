from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epoxy
from epoxy.datasets import read_folder
from epoxy.errors import (
    AlignmentError,
    ParameterError,
    RadiusError,
    UnknownName,
    VectorError,
    VoteError,
)
from epoxy.extension import as_radii
from epoxy.neighbors.graph import typical_distance
from epoxy.weighting import DistanceWeighted, KNearest, Nearest, RandomNeighbor

RULES = [Nearest(), KNearest(3), DistanceWeighted(), RandomNeighbor(seed=4)]
WITH_VECTORS = [
    "agnews",
    "chemprot",
    "fmnist",
    "imdb",
    "openi",
    "sms",
    "spam",
    "spouse",
    "sst2",
    "weather",
    "yelp",
]


def fan(degrees, votes, **more) -> epoxy.Split:
    """Rows as directions in the plane: the angle between two is visible to the reader."""
    angle = np.radians(degrees)
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    matrix = np.asarray(votes)
    return epoxy.Split(epoxy.Votes(matrix.reshape(len(degrees), -1), **more), vectors)


def apart(degrees: float) -> float:
    """The cosine distance of two directions so many degrees apart, and a hair more."""
    return 1 - np.cos(np.radians(degrees)) + 1e-6


def brute_force(
    train: epoxy.Split, onto: epoxy.Split, radius: float, rows: np.ndarray
) -> np.ndarray:
    """Algorithm 1 with the 1-nearest-neighbour rule, straight from the definition, in float64."""
    unit = [
        v / np.linalg.norm(v, axis=1, keepdims=True)
        for v in (train.vectors.astype(float), onto.vectors[rows].astype(float))
    ]
    result = onto.votes.matrix[rows].copy()
    for source, column in enumerate(train.votes.matrix.T):
        support = np.flatnonzero(column != -1)
        if not len(support) or len(support) == train.n_rows:
            continue
        distance = (1 - unit[1] @ unit[0][support].T).round(12)  # equal vectors tie exactly
        nearest = distance.argmin(axis=1)  # the first of equals
        near = distance[np.arange(len(rows)), nearest] <= radius
        fill = near & (result[:, source] == -1)
        result[fill, source] = column[support[nearest[fill]]]
    return result


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(4, [0, -1, -1, -1, 1]), (10, [0, 0, -1, 1, 1]), (25, [0, 0, 0, 1, 1]), (90, [0, 0, 0, 1, 1])],
)
def test_a_source_speaks_for_rows_within_its_radius(degrees, expected):
    line = fan([0, 5, 25, 80, 89], [0, -1, -1, -1, 1])

    extended = epoxy.reach(line).extend(apart(degrees))

    assert extended.matrix.ravel().tolist() == expected


def test_a_radius_includes_what_lies_exactly_on_it():
    votes = epoxy.Votes([[0], [-1], [-1]])
    split = epoxy.Split(votes, [[0.0, 0.0], [3.0, 4.0], [3.0, 4.5]])

    extended = epoxy.reach(split, metric="euclidean").extend(5.0)

    assert extended.matrix.ravel().tolist() == [0, 0, -1]


def test_a_distance_that_is_shown_is_a_radius_that_reaches_so_far():
    vectors = np.random.default_rng(0).normal(size=(60, 5))
    matrix = np.where(np.arange(60) % 7 == 0, 1, -1)[:, None]
    found = epoxy.reach(epoxy.Split(epoxy.Votes(matrix), vectors))

    for row in np.flatnonzero(matrix[:, 0] < 0).tolist():
        shown = float(found.distance[row, 0])
        less = float(np.nextafter(np.float32(shown), np.float32(0)))
        assert found.extend(shown).matrix[row, 0] == 1
        assert found.extend(less).matrix[row, 0] == -1


def test_equally_near_rows_are_settled_by_the_first_of_them():
    split = epoxy.Split(
        epoxy.Votes([[-1], [1], [0], [1]]), [[0.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    )

    found = epoxy.reach(split, metric="euclidean")

    assert found.lender.ravel().tolist() == [1, 1, 2, 3]
    assert found.extend(1).matrix.ravel().tolist() == [1, 1, 0, 1]


def test_new_rows_borrow_from_the_train_support_and_say_from_whom():
    train = fan([0, 30, 60], [[0], [-1], [1]])
    tomorrow = fan([5, 50, 58], [[-1], [-1], [0]])

    found = epoxy.reach(train, tomorrow).trace(apart(12))

    assert found.votes.matrix.ravel().tolist() == [0, 1, 0]
    assert found.lender.ravel().tolist() == [0, 2, -1]
    np.testing.assert_allclose(
        found.distance.ravel(),
        [1 - np.cos(np.radians(5)), 1 - np.cos(np.radians(10)), 0],
        atol=1e-6,
    )


def test_reach_holds_the_nearest_vote_its_distance_and_its_lender():
    line = fan([0, 10, 90], [[0, -1], [-1, -1], [1, -1]])

    found = epoxy.reach(line)

    assert found.nearest.tolist() == [[0, -1], [0, -1], [1, -1]]
    assert found.lender.tolist() == [[0, -1], [0, -1], [2, -1]]
    assert found.distance[:, 1].tolist() == [np.inf] * 3
    assert found.distance[[0, 2], 0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        ([apart(20), None], [0, -1]),
        ({"b": apart(20)}, [-1, 1]),
        (np.array([np.nan, apart(20)]), [-1, 1]),
        ([0.0, apart(20)], [-1, 1]),
        (np.inf, [0, 1]),
    ],
)
def test_each_source_may_have_its_own_radius(radius, expected):
    line = fan([0, 10], [[0, 1], [-1, -1]], sources=["a", "b"])

    assert epoxy.reach(line).extend(radius).matrix[1].tolist() == expected


LINE = fan([0, 1], [0, -1])
BARE = epoxy.Split(epoxy.Votes([[0], [-1]]))
WIDE = epoxy.Split(epoxy.Votes([[-1]]), [[1.0, 0.0, 0.0]])
ZERO = epoxy.Split(epoxy.Votes([[0], [-1]]), [[1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: as_radii(-0.1, ["a", "b"]), RadiusError, "source 'a' is -0.1"),
        (lambda: as_radii([0.1, -1], ["a", "b"]), RadiusError, "source 'b' is -1"),
        (lambda: as_radii(float("nan"), ["a", "b"]), RadiusError, "got nan"),
        (lambda: as_radii([0.1], ["a", "b"]), RadiusError, "1 radii for 2 sources"),
        (lambda: as_radii({"c": 0.1}, ["a", "b"]), UnknownName, "'c'"),
        (lambda: epoxy.reach(fan([0, 1], [-1, -1])), VoteError, "no support at all"),
        (lambda: epoxy.reach(BARE), VectorError, "the train split has none"),
        (lambda: epoxy.reach(LINE, BARE), VectorError, "the onto split has none"),
        (lambda: epoxy.Epoxy().fit(BARE), VectorError, "needs vectors"),
        (lambda: epoxy.reach(ZERO), VectorError, r"first rows \[1\]"),
        (lambda: epoxy.reach(LINE, WIDE), VectorError, "dimension"),
        (lambda: epoxy.reach(LINE, fan([0], [-1], sources=["x"])), AlignmentError, "same sources"),
        (lambda: epoxy.reach(LINE, metric="l3"), UnknownName, "'l3'"),
        (lambda: epoxy.reach(LINE, weighting="nearst"), UnknownName, "did you mean 'nearest'"),
        (lambda: KNearest(0), ParameterError, "k=0"),
        (lambda: DistanceWeighted(power=-1), ParameterError, "power=-1"),
        (lambda: DistanceWeighted(margin=1), ParameterError, "margin=1"),
    ],
)
def test_what_cannot_be_extended_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", WITH_VECTORS)
def test_extension_equals_the_definition_on_real_data(name, shared_data):
    data = read_folder(shared_data / name)
    rows = np.random.default_rng(0).permutation(data.dev.n_rows)[:300]
    some = data.train.rows(slice(0, 6000 if data.train.votes.n_sources < 50 else 1500))

    found = epoxy.reach(some, data.dev)

    for radius in (0.1, 0.35, 0.6):
        expected = brute_force(some, data.dev, radius, rows)
        assert (found.extend(radius).matrix[rows] == expected).all()


# weighting rules


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_extends_the_same_rows_and_lends_a_vote_that_was_cast(rule, shared_data):
    data = read_folder(shared_data / "spam")

    plain = epoxy.reach(data.train, data.dev).extend(0.5)
    found = epoxy.reach(data.train, data.dev, weighting=rule).trace(0.5)

    assert (found.votes.cast == plain.cast).all()
    lent = found.lender >= 0
    rows, sources = np.nonzero(lent)
    said = data.train.votes.matrix[found.lender[lent], sources]
    assert (said == found.votes.matrix[rows, sources]).all()
    assert (found.distance[lent] <= 0.5).all()


def two_close_one_far(**more) -> epoxy.Split:
    """One asks; a lone '1' is nearest, three '0' stand behind it."""
    return epoxy.Split(
        epoxy.Votes([[-1], [1], [0], [0], [0]]),
        [[0.0, 0], [1.0, 0], [2.0, 0], [2.1, 0], [2.2, 0]],
        **more,
    )


@pytest.mark.parametrize(
    ("rule", "radius", "expected"),
    [
        (Nearest(), 5, 1),
        (KNearest(1), 5, 1),
        (KNearest(3), 5, 0),
        (KNearest(3), 1.5, 1),
        (KNearest(2), 5, 1),  # one each: the nearer one wins
        (DistanceWeighted(), 5, 0),  # 1 against 1/2 + 1/2.1 + 1/2.2
        (DistanceWeighted(power=2), 5, 1),  # 1 against 1/4 + 1/4.41 + 1/4.84
        (DistanceWeighted(power=2, margin=0.3), 5, -1),  # leads by 0.3 of 1.7
        (DistanceWeighted(), 0.5, -1),
    ],
)
def test_rules_weigh_the_neighbours_they_are_given(rule, radius, expected):
    found = epoxy.reach(two_close_one_far(), metric="euclidean", weighting=rule)

    assert found.extend(radius).matrix[0, 0] == expected


def test_the_random_neighbour_is_drawn_evenly_and_repeats_with_its_seed():
    rng = np.random.default_rng(0)
    n, support = 3000, 4
    vectors = np.zeros((n + support, 2))
    vectors[:n] = rng.normal(scale=1e-3, size=(n, 2))
    matrix = np.full((n + support, 1), -1)
    matrix[n:, 0] = [0, 0, 0, 1]
    vectors[n:] = [[1.0, 0], [0, 1], [-1, 0], [0, -1]]
    split = epoxy.Split(epoxy.Votes(matrix), vectors)

    drawn = epoxy.reach(split, metric="euclidean", weighting=RandomNeighbor(seed=1)).extend(2)
    again = epoxy.reach(split, metric="euclidean", weighting=RandomNeighbor(seed=1)).extend(2)
    other = epoxy.reach(split, metric="euclidean", weighting=RandomNeighbor(seed=2)).extend(2)

    # 3,000 draws of a share of 1/4: four standard errors are 0.032
    assert (drawn.matrix[:n] == 1).mean() == pytest.approx(0.25, abs=0.032)
    assert (drawn.matrix == again.matrix).all()
    assert (drawn.matrix != other.matrix).any()


# laws


@st.composite
def splits(draw):
    """Small integer grids: equal distances and equal rows everywhere."""
    n = draw(st.integers(2, 12))
    cell = st.integers(0, 3)
    vectors = draw(st.lists(st.tuples(cell, cell), min_size=n, max_size=n))
    rows = st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=n, max_size=n)
    matrix = np.array(draw(rows))
    matrix[0, 0] = 1  # some support
    return epoxy.Split(epoxy.Votes(matrix, classes="abc"), np.array(vectors, dtype=float))


@given(splits(), st.sampled_from([0, 1, 1.5, 2, 3]), st.sampled_from([0, 1, 2.5]))
@settings(max_examples=100, deadline=None)
def test_a_larger_radius_never_takes_a_vote_away(split, radius, more):
    for rule in RULES:
        found = epoxy.reach(split, metric="euclidean", weighting=rule)
        small, large = found.extend(radius), found.extend(radius + more)
        assert (small.cast <= large.cast).all()
        kept = split.votes.cast
        assert (large.matrix[kept] == split.votes.matrix[kept]).all()


@given(splits(), st.sampled_from([0, 1, 1.5, 2, 3]))
@settings(max_examples=100, deadline=None)
def test_the_nearest_rule_equals_the_definition_even_among_ties(split, radius):
    found = epoxy.reach(split, metric="euclidean").extend(radius)

    for row in range(split.n_rows):
        for source in range(2):
            column = split.votes.matrix[:, source]
            support = np.flatnonzero(column != -1)
            expected = column[row]
            if expected == -1 and len(support):
                far = np.linalg.norm(split.vectors[support] - split.vectors[row], axis=1)
                if far.min() <= radius:
                    expected = column[support[far.argmin()]]
            assert found.matrix[row, source] == expected


def test_the_typical_distance_is_the_median_to_the_nearest_other_row():
    def far(vectors):
        return typical_distance(epoxy.neighbors.Space(vectors, "euclidean"))

    assert far([[0.0], [1.0], [3.0], [6.0], [6.0]]) == 1.0
    assert far(np.ones((5, 1))) == 0.0
