"""Regions: which landmarks a row hears, and what these think."""

from __future__ import annotations

import numpy as np
import pytest

from epoxy import Fusion, Split, Votes
from epoxy.errors import StoreError
from epoxy.fusion.features import View
from epoxy.fusion.regions import Regions, thought


def corners(seed: int, n_rows: int) -> Split:
    """Two classes in opposite corners of a square that lies askew in 130 dimensions.

    A line tells apart the two corners where most rows are, and gets the other two wrong. Each of four
    sources votes on a tenth of a corner.
    """
    rng = np.random.default_rng(seed)
    corner = rng.choice(4, n_rows, p=[0.4, 0.4, 0.1, 0.1])
    square = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]])[corner] + rng.normal(
        0, 0.3, (n_rows, 2)
    )
    across = np.random.default_rng(0).normal(size=(2, 130))
    vectors = square @ across + rng.normal(0, 0.2, (n_rows, 130))
    votes = np.where(
        rng.random((n_rows, 1)) < 0.1, np.where(corner[:, None] == range(4), 1, -1), -1
    )
    votes = np.where(votes > 0, np.arange(4) % 2, -1)
    return Split(Votes(votes, list("abcd"), ["even", "odd"]), vectors, corner % 2)


def test_a_row_belongs_to_landmarks_by_how_much_liker_it_is_than_to_the_next_one() -> None:
    marks = np.eye(10, dtype=np.float32)
    row = np.array([[0.9, 0.5, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0]], dtype=np.float32)

    at = Regions.of(row, marks)

    assert at.number[0, :3].tolist() == [0, 1, 2]
    assert at.share[0] == pytest.approx([8 / 15, 4 / 15, 3 / 15, 0, 0, 0, 0, 0], abs=1e-6)


def test_a_row_that_passes_the_middle_of_two_landmarks_is_heard_smoothly() -> None:
    rng = np.random.default_rng(0)
    marks = rng.normal(size=(30, 6)).astype(np.float32)
    marks /= np.linalg.norm(marks, axis=1, keepdims=True)
    weights = rng.normal(size=(30, 2))
    ends = rng.normal(size=(2, 6))
    path = np.linspace(0, 1, 20_001)[:, None]
    rows = ((1 - path) * ends[0] + path * ends[1]).astype(np.float32)

    heard = Regions.of(rows, marks).read(weights)

    assert np.abs(np.diff(heard, axis=0)).max() < 0.005
    assert np.ptp(heard, axis=0).min() > 0.2


def test_a_row_without_a_direction_hears_nobody() -> None:
    at = Regions.of(np.zeros((1, 3), dtype=np.float32), np.eye(12, 3, dtype=np.float32))

    assert at.share.sum() == 0
    assert at.read(np.ones((12, 2))).tolist() == [[0, 0]]


def test_a_landmark_thinks_the_mean_of_its_rows_drawn_to_that_of_all() -> None:
    at = Regions(np.array([[0, 1], [0, 1]], np.int16), np.array([[1, 0], [0.5, 0.5]], np.float32))

    sums, count = at.sums(np.array([[3.0], [1.0]]), 2)

    assert count.tolist() == [1.5, 0.5]
    assert sums.tolist() == [[3.5], [0.5]]
    assert thought(sums, count).tolist() == [[1.0], [0.2]]


def test_sums_of_shards_add() -> None:
    rng = np.random.default_rng(1)
    at = Regions(rng.integers(0, 20, (50, 8)).astype(np.int16), rng.random((50, 8), np.float32))
    target = rng.normal(size=(50, 3))

    whole = at.sums(target, 20)
    parts = [at.take(part).sums(target[part], 20) for part in (slice(17), slice(17, 50))]

    for one, first, second in zip(whole, *parts):
        assert np.allclose(one, first + second, rtol=0, atol=1e-12)


def test_landmarks_do_not_depend_on_the_order_of_rows_and_are_no_twins() -> None:
    vectors = np.random.default_rng(2).normal(size=(120, 5)).astype(np.float32)
    vectors[60:] = vectors[:60]

    view = View.over(vectors)[0]
    turned = view.with_landmarks(vectors[::-1], 120)

    assert len(view.landmarks) == 20
    assert len(np.unique(view.landmarks, axis=0)) == 20
    assert np.array_equal(view.landmarks, turned.landmarks)


@pytest.mark.parametrize(("n_rows", "speaks"), [(53, False), (600, True)])
def test_regions_speak_where_there_are_rows_enough(n_rows: int, speaks: bool) -> None:
    model = Fusion().fit(corners(0, n_rows))

    assert ("regions" in model.weights_) == speaks


def test_regions_find_what_no_line_through_the_vectors_tells() -> None:
    train, test = corners(0, 1500), corners(1, 500)

    said = Fusion().fit(train).evidence(test)

    right = {name: float((each.argmax(axis=1) == test.y).mean()) for name, each in said.items()}
    assert right["regions"] > 0.9
    assert right["echo"] < 0.85


def test_a_saved_model_hears_its_regions_and_one_without_landmarks_is_refused(tmp_path) -> None:
    import epoxy

    train, test = corners(0, 1500), corners(1, 100)
    model = Fusion().fit(train)
    state = model.to_state()

    model.save(tmp_path / "model")
    again = epoxy.load(tmp_path / "model")
    del state.arrays["view/landmarks"]

    assert np.array_equal(again.predict_proba(test), model.predict_proba(test))
    with pytest.raises(StoreError, match="landmarks"):
        Fusion.from_state(state)


def test_a_stored_model_with_too_few_landmarks_is_refused() -> None:
    state = Fusion().fit(corners(0, 1500)).to_state()
    for name in ("view/landmarks", "regions/weights"):
        state.arrays[name] = state.arrays[name][:8]

    with pytest.raises(StoreError, match="its landmarks do not fit the rest"):
        Fusion.from_state(state)
