"""Fusion where data are awkward: tables, sources near chance, many classes, labels from a corner."""

from __future__ import annotations

import numpy as np
import pytest

import epoxy
from epoxy import Split, Votes
from epoxy.fusion import Fusion


def split(votes: np.ndarray, vectors: np.ndarray, y: np.ndarray | None, n_classes: int) -> Split:
    return Split(Votes(votes, classes=[f"class_{k}" for k in range(n_classes)]), vectors, y)


def rows(seed: int, n_rows: int, n_classes: int = 3, dimension: int = 14):
    """Classes as clouds; means are the same for every seed."""
    means = 1.5 * np.random.default_rng(99).normal(size=(n_classes, dimension))
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    return rng, y, means[y] + rng.normal(size=(n_rows, dimension))


def one_sided(
    rng: np.random.Generator, y: np.ndarray, names: np.ndarray, found: float, wrong: float
) -> np.ndarray:
    """Source j names class names[j] on a share `found` of its rows and `wrong` of all others."""
    speaks = rng.random((len(y), len(names))) < np.where(y[:, None] == names, found, wrong)
    return np.where(speaks, names, -1)


def three(make, sizes=(600, 100, 600)):
    train, dev, test = (make(seed, n) for seed, n in zip((1, 2, 3), sizes, strict=True))
    return Split(train.votes, train.vectors), dev, test


# columns of a table


def table(columns):
    """Rows of 14 numbers, turned into other columns."""

    def make(seed: int, n_rows: int) -> Split:
        rng, y, vectors = rows(seed, n_rows)
        votes = one_sided(rng, y, np.arange(6) % 3, 0.3, 0.05)
        return split(votes, columns(vectors), y, 3)

    return make


def _of_two_sizes(n_rows: int, seed: int) -> Split:
    """Six measurements about zero, twice as large in one class, and four sources right 3 times in 4."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    right = rng.random((n_rows, 4)) < 0.75
    votes = np.where(rng.random((n_rows, 4)) < 0.3, np.where(right, y[:, None], 1 - y[:, None]), -1)
    vectors = rng.normal(size=(n_rows, 6)) * (1 + y)[:, None]
    return split(votes, vectors, y, 2)


def test_few_measurements_are_told_apart_by_their_size_too() -> None:
    train, hand, test = (_of_two_sizes(n_rows, n_rows) for n_rows in (1500, 100, 1000))

    assert Fusion().fit(train).score(test) > 0.8
    assert Fusion().fit(train, hand).score(test) > 0.83


def test_units_of_columns_do_not_matter() -> None:
    units = 10.0 ** np.random.default_rng(0).uniform(-5, 5, 14)
    plain = three(table(lambda vectors: vectors))
    wild = three(table(lambda vectors: 3 * units + vectors * units))

    expected = Fusion().fit(*plain[:2]).score(plain[2])

    assert expected > 0.9
    assert Fusion().fit(*wild[:2]).score(wild[2]) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(lambda v: v.astype(np.float16), id="half precision"),
        pytest.param(lambda v: np.hstack([v, np.full((len(v), 3), 7.0)]), id="constant columns"),
        pytest.param(lambda v: np.hstack([v > 0.5, v < -0.5]).astype(float), id="zeros and ones"),
        pytest.param(lambda v: np.hstack([v, v, v]), id="columns in copies"),
        pytest.param(lambda v: v * (np.arange(len(v)) % 10 > 0)[:, None], id="rows of zeros"),
        pytest.param(lambda v: v[:, :3], id="three columns"),
    ],
)
def test_columns_of_every_kind_are_read(columns) -> None:
    train, dev, test = three(table(columns))

    model = Fusion().fit(train, dev)

    assert np.isfinite(model.predict_proba(test)).all()
    votes_alone = Fusion().fit(Split(train.votes), Split(dev.votes, y=dev.y))
    assert model.score(test) > votes_alone.score(Split(test.votes, y=test.y)) + 0.05


# sources


def mute(split: Split) -> Split:
    matrix = np.full_like(split.votes.matrix, -1)
    return Split(split.votes.with_matrix(matrix), split.vectors, split.y)


def test_a_class_nobody_votes_for_is_learned_from_labels() -> None:
    def make(seed: int, n_rows: int) -> Split:
        rng, y, vectors = rows(seed, n_rows)
        return split(one_sided(rng, y, np.arange(6) % 2, 0.3, 0.05), vectors, y, 3)

    train, dev, test = three(make)

    model = Fusion().fit(train, dev)

    found = (model.predict(test) == "class_2")[test.y == 2].mean()
    assert found > 0.7


def near_chance(seed: int, n_rows: int) -> Split:
    rng, y, vectors = rows(seed, n_rows)
    return split(one_sided(rng, y, np.arange(30) % 3, 0.2, 0.2), vectors, y, 3)


def test_sources_at_chance_do_little_harm() -> None:
    train, dev, test = three(near_chance)
    bare = [mute(each) for each in (train, dev, test)]

    model = Fusion().fit(train, dev)

    assert model.score(test) > Fusion().fit(*bare[:2]).score(bare[2]) - 0.1
    assert model.score(test) > Fusion().fit(train).score(test) + 0.2


def many_narrow(seed: int, n_rows: int) -> Split:
    """Nine classes of unequal size, 164 sources that each know one row in twenty of their class."""
    rng = np.random.default_rng(seed)
    means = 1.5 * np.random.default_rng(99).normal(size=(9, 14))
    y = rng.choice(9, size=n_rows, p=np.geomspace(1, 0.05, 9) / np.geomspace(1, 0.05, 9).sum())
    vectors = means[y] + 2 * rng.normal(size=(n_rows, 14))
    return split(one_sided(rng, y, np.arange(164) % 9, 0.05, 0.002), vectors, y, 9)


def majority(split: Split) -> float:
    votes = epoxy.MajorityVote().fit(split.votes)
    return float((votes.predict_proba(split.votes).argmax(axis=1) == split.y).mean())


def test_many_narrow_sources_and_classes_with_a_row_or_two() -> None:
    train, dev, test = three(many_narrow, (1000, 100, 800))
    assert np.bincount(dev.y, minlength=9).min() <= 2

    fused = Fusion().fit(train, dev)

    assert fused.score(test) > majority(test) + 0.05
    vectors = Fusion().fit(mute(train), mute(dev))
    assert fused.score(test) > vectors.score(mute(test)) + 0.05
    assert fused.score(test) > Fusion().fit(train).score(test) - 0.01


def test_loans_pay_where_sources_are_narrow_and_nothing_is_labelled() -> None:
    train, _, test = three(many_narrow, (1000, 100, 800))

    said = Fusion().fit(train).evidence(test)

    own = Fusion(radius=None).fit(train).evidence(test)["votes"]
    lent, alone = ((each.argmax(axis=1) == test.y).mean() for each in (said["votes"], own))
    assert lent > alone + 0.05


def noise_for_vectors(seed: int, n_rows: int) -> Split:
    """Sources that mean something beside each other, and vectors that mean nothing."""
    rng, y, _ = rows(seed, n_rows, 2)
    votes = one_sided(rng, y, np.arange(8) % 2, 0.5, 0.15)
    votes[:, 1] = np.where(rng.random(n_rows) < 0.5, 1 - y, -1)  # a source that is always wrong
    return split(votes, 10 * rng.normal(size=(n_rows, 14)), y, 2)


def test_labels_find_a_source_that_is_always_wrong() -> None:
    train, dev, test = (Split(s.votes, y=s.y) for s in three(noise_for_vectors))

    model = Fusion().fit(train, dev)

    assert model.score(test) > Fusion().fit(train).score(test) + 0.03


@pytest.mark.slow
def test_a_thousand_sources() -> None:
    def make(seed: int, n_rows: int) -> Split:
        rng, y, vectors = rows(seed, n_rows, 2, 8)
        return split(one_sided(rng, y, np.arange(1000) % 2, 0.3, 0.06), vectors, y, 2)

    train, dev, test = three(make, (150, 40, 100))

    assert Fusion().fit(train, dev).score(test) > 0.95


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_vectors_are_silent(value: float) -> None:
    splits = three(table(lambda vectors: vectors))
    train, dev, test = (Split(s.votes, np.full((s.n_rows, 4), value), s.y) for s in splits)
    bare = [Split(s.votes, y=s.y) for s in splits]

    model = Fusion().fit(train, dev)

    expected = Fusion().fit(*bare[:2]).predict_proba(bare[2])
    np.testing.assert_allclose(model.predict_proba(test), expected, atol=1e-9)


# hand labels


@pytest.fixture(scope="module")
def clouds():
    return three(table(lambda vectors: vectors))


@pytest.mark.parametrize("n_labels", [1, 2, 3, 5, 10, 20])
def test_a_few_labels_do_little_harm(n_labels: int, clouds) -> None:
    train, dev, test = clouds

    model = Fusion().fit(train, dev.rows(slice(0, n_labels)))

    assert model.score(test) > Fusion().fit(train).score(test) - 0.03


@pytest.mark.parametrize("how", ["least sure", "surest", "covered", "conflict"])
def test_labels_that_a_tool_chose_do_little_harm(how: str, clouds) -> None:
    train, _, test = clouds
    pool = table(lambda vectors: vectors)(5, 1500)
    top = np.sort(Fusion().fit(train).predict_proba(pool), axis=1)
    sure = np.argsort(top[:, -1] - top[:, -2])
    votes = pool.votes.matrix
    quarrel = [len(set(row[row >= 0].tolist())) > 1 for row in votes]
    picked = {
        "least sure": sure[:50],
        "surest": sure[-50:],
        "covered": np.flatnonzero(pool.votes.covered)[:50],
        "conflict": np.flatnonzero(quarrel)[:50],
    }[how]

    model = Fusion().fit(train, pool.rows(np.sort(picked)))

    assert model.score(test) > Fusion().fit(train).score(test) - 0.02


def test_labels_from_one_corner_do_little_harm(clouds) -> None:
    """All labelled rows lie around six of the rows; elsewhere their neighbours know nothing."""
    train, _, test = clouds
    pool = table(lambda vectors: vectors)(5, 3000)
    knots = pool.vectors[:6]
    near = ((pool.vectors[:, None] - knots) ** 2).sum(axis=2).min(axis=1)

    corner = pool.rows(np.argsort(near)[:100])

    assert Fusion().fit(train, corner).score(test) > Fusion().fit(train).score(test) - 0.03


def test_permuted_labels_destroy_the_gain(clouds) -> None:
    train, dev, test = clouds
    wrong = np.random.default_rng(0).permutation(dev.y)
    without, right, permuted = (
        Fusion().fit(train, known) for known in (None, dev, Split(dev.votes, dev.vectors, wrong))
    )
    loss = [
        float(-np.log(each.predict_proba(test)[np.arange(test.n_rows), test.truth]).mean())
        for each in (without, right, permuted)
    ]

    assert loss[1] < loss[0] - 0.01
    assert loss[2] > loss[0]
    assert permuted.score(test) < without.score(test)


def test_some_wrong_labels_do_little_harm(clouds) -> None:
    train, dev, test = clouds
    rng = np.random.default_rng(0)
    wrong = np.where(rng.random(dev.n_rows) < 0.15, (dev.y + 1) % 3, dev.y)

    model = Fusion(noise=0.15).fit(train, Split(dev.votes, dev.vectors, wrong))

    assert model.score(test) > Fusion().fit(train, dev).score(test) - 0.03


def test_labelled_rows_in_copies_are_one_witness_each() -> None:
    """Each row five times: copies are left out together, so memory does not look like knowledge."""
    train, dev, _ = three(table(lambda vectors: vectors), (600, 30, 30))
    rng = np.random.default_rng(0)
    lies = Split(dev.votes, dev.vectors, rng.integers(0, 3, 30))
    copies = lies.rows(np.repeat(np.arange(30), 5))

    model = Fusion().fit(train, copies)

    held = (model.held_out_.argmax(axis=1) == copies.y).mean()
    assert held < 0.7  # chance is a third; who had seen a copy would know the label


def test_rows_that_are_labelled_and_in_train_teach_alike(clouds) -> None:
    train, dev, test = clouds
    both = Split(train.votes, train.vectors).followed_by(Split(dev.votes, dev.vectors))

    assert Fusion().fit(both, dev).score(test) > Fusion().fit(train, dev).score(test) - 0.02
