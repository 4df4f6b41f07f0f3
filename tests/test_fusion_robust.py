"""Fusion where data are awkward: tables, sources near chance, many classes, dev rows from a corner."""

from __future__ import annotations

import numpy as np
import pytest

from epoxy import Split, Votes
from epoxy.fusion import Fusion, Majority, Reach


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


def near_chance(seed: int, n_rows: int) -> Split:
    rng, y, vectors = rows(seed, n_rows)
    return split(one_sided(rng, y, np.arange(30) % 3, 0.2, 0.2), vectors, y, 3)


def test_sources_at_chance_are_shut_out() -> None:
    train, dev, test = three(near_chance)
    mute = [
        Split(s.votes.with_matrix(np.full_like(s.votes.matrix, -1)), s.vectors, s.y)
        for s in (train, dev, test)
    ]

    model = Fusion().fit(train, dev)

    assert model.score(test) > Fusion().fit(*mute[:2]).score(mute[2]) - 0.03


def many_narrow(seed: int, n_rows: int) -> Split:
    """Nine classes of unequal size, 164 sources that each know one row in twenty of their class."""
    rng = np.random.default_rng(seed)
    means = 1.5 * np.random.default_rng(99).normal(size=(9, 14))
    y = rng.choice(9, size=n_rows, p=np.geomspace(1, 0.05, 9) / np.geomspace(1, 0.05, 9).sum())
    vectors = means[y] + 2 * rng.normal(size=(n_rows, 14))
    return split(one_sided(rng, y, np.arange(164) % 9, 0.05, 0.002), vectors, y, 9)


def test_many_narrow_sources_and_classes_with_a_row_or_two() -> None:
    train, dev, test = three(many_narrow, (1000, 100, 800))
    assert np.bincount(dev.y, minlength=9).min() <= 2

    fused, votes = Fusion().fit(train, dev), Fusion([Majority()]).fit(train, dev)
    vectors = Fusion().fit(
        *(
            Split(s.votes.with_matrix(np.full_like(s.votes.matrix, -1)), s.vectors, s.y)
            for s in (train, dev)
        )
    )

    assert fused.score(test) > votes.score(test) + 0.05
    assert fused.score(test) > vectors.score(test) + 0.05


def noise_for_vectors(seed: int, n_rows: int) -> Split:
    """Sources that mean something beside each other, and vectors that mean nothing."""
    rng, y, _ = rows(seed, n_rows, 2)
    votes = one_sided(rng, y, np.arange(8) % 2, 0.5, 0.15)
    votes[:, 1] = np.where(rng.random(n_rows) < 0.5, 1 - y, -1)  # a source that is always wrong
    return split(votes, 10 * rng.normal(size=(n_rows, 14)), y, 2)


def test_vectors_that_carry_nothing_do_not_drown_the_votes() -> None:
    train, dev, test = three(noise_for_vectors)
    bare = [Split(s.votes, y=s.y) for s in (train, dev, test)]

    model = Fusion().fit(train, dev)

    assert model.speakers_["head"].share == 0
    assert model.score(test) > Fusion().fit(*bare[:2]).score(bare[2]) - 0.02


# dev rows


def test_dev_rows_from_one_corner_do_little_harm() -> None:
    """All dev rows lie around six of the rows; elsewhere their neighbours know nothing."""
    train, _, test = three(table(lambda vectors: vectors))
    pool = table(lambda vectors: vectors)(5, 3000)
    knots = pool.vectors[:6]
    near = ((pool.vectors[:, None] - knots) ** 2).sum(axis=2).min(axis=1)

    corner = pool.rows(np.argsort(near)[:100])

    assert Fusion().fit(train, corner).score(test) > Fusion().fit(train).score(test) - 0.03


def test_permuted_dev_labels_destroy_the_gain() -> None:
    train, dev, test = three(table(lambda vectors: vectors))
    wrong = np.random.default_rng(0).permutation(dev.y)

    gain = Fusion().fit(train, dev).score(test) - Fusion().fit(train).score(test)
    permuted = Fusion().fit(train, Split(dev.votes, dev.vectors, wrong))

    assert gain > 0.02
    assert permuted.score(test) < Fusion().fit(train).score(test)


def test_ten_dev_rows_of_three_classes() -> None:
    train, dev, test = three(table(lambda vectors: vectors))

    model = Fusion().fit(train, dev.rows(slice(0, 10)))

    assert model.dev_proba_ is not None
    assert model.score(test) > Fusion().fit(train).score(test) - 0.05


# loans


def test_reach_pays_where_sources_are_narrow_and_nothing_is_labelled() -> None:
    train, _, test = three(many_narrow, (1000, 100, 800))

    with_loans = Fusion([Majority(), Reach()]).fit(train).score(test)

    assert with_loans > Fusion([Majority()]).fit(train).score(test) + 0.05
