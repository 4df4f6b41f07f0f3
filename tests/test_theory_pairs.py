"""Quantities over pairs: blocks against all pairs at once, samples against their stated error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from epoxy import Split, Votes, theory
from epoxy.errors import (
    AlignmentError,
    LabelError,
    ParameterError,
    RadiusError,
    UnknownName,
    VectorError,
)
from epoxy.theory import Scan
from epoxy.theory.synthetics import checkerboard

EUCLID = Scan(metric="euclidean")


def naive(points, labels, radii, metric="euclidean"):
    distance = cdist(points, points, metric)
    np.fill_diagonal(distance, np.inf)
    unequal = labels[:, None] != labels[None, :]
    near = [distance <= r for r in radii]
    share = [(n & unequal).sum() / n.sum() if n.any() else np.nan for n in near]
    return np.array(share), np.array([n.sum() for n in near]) / (len(points) * (len(points) - 1))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dimension", [2, 40])
def test_blocks_count_what_all_pairs_at_once_count(metric, dimension):
    generator = np.random.default_rng(3)
    points = generator.normal(size=(73, dimension)).astype(np.float32)
    labels = generator.integers(0, 3, 73)
    far = cdist(points, points, metric)[np.triu_indices(73, 1)]
    radii = np.quantile(far, [0.05, 0.2, 0.5]) + 1e-5  # off any distance: float32 may round a tie

    rough = theory.smoothness(labels, points, radii, Scan(metric=metric))
    split = Split(Votes(labels[:, None]), points)
    near = theory.neighbourhoods(split, radii, Scan(metric=metric))["source_0"].near

    share, nearness = naive(points, labels, radii, metric)
    np.testing.assert_allclose(rough.value, share)
    np.testing.assert_allclose(near, nearness)


def test_smoothness_of_four_points_by_eye():
    points, labels = np.array([[0.0], [1.0], [2.0], [10.0]]), np.array([0, 0, 1, 1])

    curve = theory.smoothness(labels, points, [1, 2, 10], EUCLID)

    # within 1: {01, 12}, one differs; within 2: {01, 12, 02}, two; within 10: all six, four
    np.testing.assert_allclose(curve.value, [1 / 2, 2 / 3, 4 / 6])


def test_the_band_holds_the_truth_in_the_stated_share_of_draws():
    """95 % over all radii at once; 60 draws, so at least 52 with probability above 0.99."""
    r = np.array([0.03, 0.1, 0.3])
    truth = r**2 / (2 * r - r**2)
    held = 0
    for seed in range(60):
        x = np.random.default_rng(seed).random((300, 1))
        curve = theory.smoothness((x[:, 0] > 0.5).astype(int), x, r, EUCLID)
        held += bool(((curve.low <= truth) & (truth <= curve.high)).all())

    assert held >= 52


def test_the_band_of_sampled_anchors_holds_what_all_pairs_show():
    points = np.random.default_rng(5).random((1500, 2))
    labels, radii = checkerboard(points, 4), [0.03, 0.1, 0.3]
    whole = theory.smoothness(labels, points, radii, EUCLID)
    within = 0
    for seed in range(30):
        part = theory.smoothness(labels, points, radii, Scan("euclidean", anchors=200, seed=seed))
        within += bool(((part.low <= whole.value) & (whole.value <= part.high)).all())

    assert within >= 25  # 95 % stated; 25 of 30 with probability above 0.99


def test_no_near_pair_gives_no_number_and_an_honest_band():
    curve = theory.smoothness([0, 1], np.array([[0.0], [9.0]]), [1.0], EUCLID)

    assert np.isnan(curve.value[0])
    assert (curve.low[0], curve.high[0]) == (0, 1)


def test_the_band_does_not_collapse_when_no_near_pair_differs():
    points = np.random.default_rng(0).random((50, 2))

    curve = theory.smoothness(np.zeros(50, int), points, [0.2], EUCLID)

    assert curve.value[0] == 0
    assert curve.high[0] > 0.02


def test_surroundings_of_a_scattered_source_are_those_of_a_coin():
    """Support by independent coins of chance p: L = p(1 − p), Pr(X' ∈ supp | near) = p."""
    generator = np.random.default_rng(4)
    points, cast = generator.random((3000, 2)), generator.random((3000, 1)) < 0.3
    split = Split(Votes(np.where(cast, 1, -1)), points)

    place = theory.neighbourhoods(split, [0.05, 0.2], EUCLID)["source_0"]

    # the coins' own mean has s.d. √(0.21/3000) = 0.008; 4 s.d.
    np.testing.assert_allclose(place.support_near, 0.3, atol=0.034)
    np.testing.assert_allclose(place.crossing, 0.21, atol=0.034)


def test_embeddings_are_ranked_by_how_well_they_keep_labels_together():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 60)
    clear = np.eye(3)[labels] + 0.2 * generator.normal(size=(180, 3))
    blurred = np.eye(3)[labels] + 1.0 * generator.normal(size=(180, 3))
    noise = generator.normal(size=(180, 3))

    ranks = theory.compare_embeddings({"noise": noise, "clear": clear, "blurred": blurred}, labels)

    assert [rank.name for rank in ranks] == ["clear", "blurred", "noise"]
    assert ranks[0].explained > 0.9
    assert abs(ranks[-1].explained) < 0.2


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (
            lambda: theory.smoothness([0, 1], [[0.0], [1.0]], [0.2, 0.1]),
            RadiusError,
            "radii must increase",
        ),
        (lambda: theory.smoothness([0, 1], [[0.0], [1.0]], [-1.0]), RadiusError, "at least 0"),
        (
            lambda: theory.smoothness([0, 1], [[0.0], [1.0]], [1.0]),
            VectorError,
            "zeros",
        ),
        (lambda: theory.smoothness([0], [[1.0], [2.0]], [1.0]), AlignmentError, "row-aligned"),
        (lambda: theory.smoothness([0, -1], [[1.0], [2.0]], [1.0]), LabelError, "2 labelled rows"),
        (lambda: theory.smoothness(None, [[1.0]], [1.0]), LabelError, "needs labels"),
        (lambda: theory.smoothness([0, 1], None, [1.0]), VectorError, "needs vectors"),
        (lambda: theory.smoothness(Split(Votes([[0], [1]]), y=[0, 1])), VectorError, "no vectors"),
        (lambda: Scan(metric="hamming"), UnknownName, "no metric named 'hamming'"),
        (lambda: Scan(confidence=95), ParameterError, "write 0.95"),
        (lambda: Scan(anchors=1), ParameterError, "at least 2 anchor rows"),
        (lambda: theory.compare_embeddings({}, [0, 1]), ParameterError, "nothing to compare"),
        (
            lambda: theory.compare_embeddings({"a": 1}, [0], share=2),
            ParameterError,
            "share of near",
        ),
    ],
)
def test_input_that_has_no_pairs_is_refused(call, error, named):
    with pytest.raises(error) as caught:
        call()

    assert named in str(caught.value)
