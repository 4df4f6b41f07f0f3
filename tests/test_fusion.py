"""Fusion equals its formulas, obeys its laws, and says what it did; the oracle is plain numpy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

import epoxy
from epoxy import Fusion, Split, Votes
from epoxy.errors import (
    AlignmentError,
    NotFitted,
    ParameterError,
    RadiusError,
    UnknownName,
    VectorError,
)
from epoxy.fusion import teaching
from epoxy.fusion.calibration import VOICES, VOICES_WITHOUT_VECTORS, fit_scales
from epoxy.fusion.correction import believed
from epoxy.fusion.fallible import evenly
from epoxy.fusion.features import Features
from epoxy.fusion.groups import Likest, Spacing
from oracles.fusion import Oracle

CLASSES = ["ham", "spam"]


def draw(n_rows: int, seed: int, n_sources: int = 6, n_classes: int = 2, dimension: int = 8):
    """Rows whose class is a direction; one-sided sources, right on five of six rows they vote on."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    means = 1.2 * np.eye(dimension)[:n_classes]
    vectors = means[y] + 0.6 * rng.normal(size=(n_rows, dimension))
    names = np.arange(n_sources) % n_classes
    right = y[:, None] == names
    speaks = rng.random((n_rows, n_sources)) < np.where(right, 0.3, 0.06)
    votes = np.where(speaks, names, -1)
    classes = CLASSES if n_classes == 2 else [f"class_{k}" for k in range(n_classes)]
    return Split(Votes(votes, classes=classes), vectors, y)


def unlabelled(split: Split) -> Split:
    return Split(split.votes, split.vectors)


def with_votes(split: Split, matrix: np.ndarray, sources: Any = None) -> Split:
    votes = Votes(matrix, split.votes.sources if sources is None else sources, split.classes)
    return Split(votes, split.vectors, split.y, split.ids, split.chosen)


def with_vectors(split: Split, vectors: Any) -> Split:
    return Split(split.votes, vectors, split.y, split.ids, split.chosen)


@pytest.fixture(scope="module")
def train() -> Split:
    return unlabelled(draw(400, 1))


@pytest.fixture(scope="module")
def dev() -> Split:
    return draw(60, 2)


@pytest.fixture(scope="module")
def test() -> Split:
    return draw(500, 3)


@pytest.fixture(scope="module")
def model(train: Split, dev: Split) -> Fusion:
    return Fusion().fit(train, dev)


# the formulas


def assert_follows_the_formulas(
    splits: tuple[Split, Split, Split], radius: dict[str, float | None] | None = None, **options
) -> tuple[Fusion, Oracle]:
    """Probabilities of train rows, of other rows, and of labelled rows held out are the oracle's."""
    train, hand, other = splits
    model = Fusion(radius="auto" if radius is None else radius, **options).fit(train, hand)
    far = [(radius or {}).get(name, np.inf) for name in train.votes.sources]
    options.pop("positive", None)
    oracle = Oracle(train, hand, radii=[np.nan if r is None else r for r in far], **options)
    within = 1e-6 if np.isscalar(oracle.loud) else 1e-5  # features are float32, and louder
    for split in (train, other):
        np.testing.assert_allclose(model.predict_proba(split), oracle.proba(split), atol=within)
        if oracle.cut is None and oracle.divisors is None:
            proba = model.predict_proba(split)
            np.testing.assert_array_equal(model.decide(proba), proba.argmax(axis=1))
    if hand is None or not hand.labelled.any():
        assert len(model.held_out_) == 0
    else:
        np.testing.assert_allclose(model.held_out_, oracle.held, atol=within)
    return model, oracle


def three(n_labels: int = 20, n_classes: int = 2, n_sources: int = 8):
    """Train, hand labels and other rows, of a size the oracle can bear."""
    make = [(220, 1), (max(1, n_labels), 2), (90, 3)]
    train, hand, other = (draw(n, seed, n_sources, n_classes) for n, seed in make)
    return unlabelled(train), (hand if n_labels else None), other


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_labels", [0, 1, 3, 5, 9, 60])
def test_any_number_of_labels_follows_the_formulas(n_labels: int, n_classes: int) -> None:
    assert_follows_the_formulas(three(n_labels, n_classes))


def test_votes_without_vectors_follow_the_formulas() -> None:
    bare = tuple(with_vectors(each, None) for each in three())

    model, _ = assert_follows_the_formulas(bare)

    assert list(model.weights_) == ["majority", "reach", "agreement"]


def test_a_source_that_never_votes_follows_the_formulas() -> None:
    silent = [each.votes.matrix.copy() for each in three()]
    for matrix in silent:
        matrix[:, 3] = -1

    assert_follows_the_formulas(tuple(map(with_votes, three(), silent)))


def test_a_source_that_votes_on_every_train_row_lends_nothing_elsewhere() -> None:
    splits = three()
    matrices = [each.votes.matrix.copy() for each in splits]
    matrices[0][:, 2] = np.arange(220) % 2

    model, _ = assert_follows_the_formulas(tuple(map(with_votes, splits, matrices)))

    rows = model.rows_of(with_votes(splits[2], matrices[2]))
    assert np.isinf(rows.distance[2]).all()
    assert np.isfinite(rows.distance[1]).any()


def test_vectors_of_zeros_follow_the_formulas() -> None:
    """They have no direction: they borrow nothing, and are like the average row."""
    splits = []
    for each, count in zip(three(), (40, 3, 10)):
        vectors = each.vectors.copy()
        vectors[:count] = 0
        splits.append(with_vectors(each, vectors))

    assert_follows_the_formulas(tuple(splits))


def test_labels_of_one_class_follow_the_formulas() -> None:
    train, hand, other = three(40)

    assert_follows_the_formulas((train, hand.rows(hand.y == 0), other))


def test_radii_of_sources_follow_the_formulas() -> None:
    radius = {"source_0": 0.1, "source_1": None, "source_2": 0.0, "source_3": 0.4}

    model, _ = assert_follows_the_formulas(three(), radius)

    free = Fusion().fit(*three()[:2]).predict_proba(three()[2])
    assert np.abs(model.predict_proba(three()[2]) - free).max() > 0.01


def test_a_radius_lends_as_far_as_it_says() -> None:
    train, hand, other = three()
    rows = Fusion().fit(train).rows_of(other)
    near = np.sort(rows.distance[0][rows.votes[0] < 0])[10]

    assert_follows_the_formulas((train, hand, other), {"source_0": float(near) * (1 + 1e-5)})
    assert_follows_the_formulas((train, hand, other), {"source_0": float(near) * (1 - 1e-5)})


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"metric": "euclidean"}, id="euclidean"),
        pytest.param({"class_balance": [0.3, 0.7]}, id="class balance given"),
        pytest.param({"noise": 0.3}, id="labels wrong at times"),
        pytest.param({"noise": 0.9}, id="labels mostly wrong"),
        pytest.param({"seed": 5}, id="other random features"),
    ],
)
def test_parameters_follow_the_formulas(options: dict[str, Any]) -> None:
    model, _ = assert_follows_the_formulas(three(), **options)

    plain = Fusion().fit(*three()[:2]).predict_proba(three()[2])
    assert np.abs(model.predict_proba(three()[2]) - plain).max() > 1e-4


def test_labelled_rows_of_one_corner_follow_the_formulas() -> None:
    """Rows around a few knots are left out together, and count as fewer witnesses."""
    train, hand, other = three(48)
    knots = np.repeat(hand.vectors[:12], 4, axis=0)
    near = knots + 0.01 * np.random.default_rng(0).normal(size=knots.shape)
    corner = with_vectors(hand, near)

    _, oracle = assert_follows_the_formulas((train, corner, other))

    alone = Oracle(train, hand)
    assert np.abs(oracle.held - alone.held).max() > 0.01


def test_twins_among_labelled_rows_follow_the_formulas() -> None:
    train, hand, other = three(30)

    assert_follows_the_formulas((train, hand.rows(np.repeat(np.arange(30), 3)), other))
    assert_follows_the_formulas((train, hand.rows(np.repeat([0, 1], 8)), other))


def test_copies_of_a_source_follow_the_formulas() -> None:
    splits = three()
    names = [*splits[0].votes.sources, "near copy", "exact copy"]
    twice = []
    for each in splits:
        matrix = np.hstack([each.votes.matrix, each.votes.matrix[:, :2]])
        matrix[::9, 8] = -1
        twice.append(with_votes(each, matrix, names))

    model, _ = assert_follows_the_formulas(tuple(twice))

    assert len(model.fitted_.columns) == 8


def test_a_silenced_copy_is_shown_with_its_vote_and_whose_copy_it_is() -> None:
    """Where the copy alone votes, nobody else says anything: the vote stands beside the prior."""
    train, hand, other = (with_vectors(each, None) for each in three())
    names = [*train.votes.sources[:2], "twin"]  # of two sources silence says nothing

    def copied(split, lone=False):
        matrix = split.votes.matrix[:, [0, 1, 0]]
        if lone:
            matrix[0] = -1
            matrix[0, -1] = 1
        return with_votes(split, matrix, names)

    model = Fusion().fit(copied(train), copied(hand))
    said = model.explain(copied(other, lone=True), 0)

    first = train.votes.sources[0]
    (voice,) = [each for each in said.voices if each.origin == "copy"]
    assert (voice.source, voice.vote, voice.weight) == ("twin", other.classes[1], 0.0)
    assert f"twin: votes {other.classes[1]!r}, and is silenced as a copy of {first}" in str(said)
    assert "nothing is known about this row but votes of sources that do not count" in str(said)
    assert f"silenced as copies: 'twin' of {first!r}" in str(model.report(copied(other)))


def test_what_hand_labels_add_to_every_row_is_theirs_and_no_class_balance() -> None:
    train, hand, other = three(60)
    model = Fusion(class_balance=[0.5, 0.5]).fit(train, hand)
    bias = model.fitted_.corrected.bias
    scale = model.fitted_.scales[2 if other.votes.covered[3] else 1]

    said = model.explain(other, 3)

    label, against = map(other.classes.index, (said.label, said.against))
    (everywhere,) = [each for each in said.voices if "to every row" in each.detail]
    assert said.start == pytest.approx(0.0, abs=1e-4)
    assert abs(everywhere.weight) > 1e-3
    assert everywhere.weight == pytest.approx(scale * (bias[label] - bias[against]))
    assert "class balance, before any source speaks" in str(said)


def test_what_experts_say_beyond_single_voices_is_named() -> None:
    train, hand, other = three(60, n_classes=4)

    said = "".join(str(Fusion().fit(train, hand).explain(other, row)) for row in range(20))

    assert "what these say together, beyond each alone" in said
    assert "the rest" not in said


def test_copies_of_a_rare_source_with_ten_votes_count_once() -> None:
    """Ten votes alike are no chance, however many rows there are."""
    train = draw(600, 1)
    rare = np.full((600, 3), -1)
    rare[::60] = 1
    rare[:2, 2] = -1, 1  # ten as well, nine of them the same
    names = [*train.votes.sources, "equal", "one", "nearly"]
    train = with_votes(train, np.hstack([train.votes.matrix, rare]), names)

    model = Fusion().fit(unlabelled(train))

    assert {names[at] for at in model.fitted_.columns} == {*names} - {"one", "nearly"}


def test_copies_of_a_source_that_hardly_votes_count_twice() -> None:
    """Two of fewer than ten votes may be equal by chance; a source without a vote is nobody's copy."""
    splits = three()
    names = [*splits[0].votes.sources, *"abcde", "nearly equal", "mute", "mute too", "mute as well"]
    more = []
    for each in splits:
        rare = np.full((each.n_rows, 9), -1)
        rare[::60, :6] = 1
        rare[0, 5] = -1
        more.append(with_votes(each, np.hstack([each.votes.matrix, rare]), names))

    model, _ = assert_follows_the_formulas(tuple(more))

    assert {names[at] for at in model.fitted_.columns} == {*names} - {*"cde"}


def test_scales_change_how_sure_the_model_is_and_no_label(train: Split, test: Split) -> None:
    model = Fusion().fit(train)
    scaled = model.predict_proba(test)
    model.fitted_ = replace(model.fitted_, scales=np.ones(3))

    plain = model.predict_proba(test)

    covered = test.votes.covered
    assert (scaled.argmax(axis=1) == plain.argmax(axis=1)).all()
    assert (scaled.max(axis=1) < plain.max(axis=1))[covered].all()
    assert (scaled.max(axis=1) > plain.max(axis=1))[~covered].all()


def test_a_row_of_which_nothing_is_known_has_the_class_balance(train: Split, dev: Split) -> None:
    """However sure labels make the model of rows without votes."""
    silent = Split(Votes(np.full((1, 6), -1), classes=CLASSES), np.zeros((1, 8)))

    for hand in (None, dev):
        model = Fusion().fit(train, hand)

        start = np.exp(model.fitted_.start)
        votes = np.exp(model.fitted_.correction(np.full((6, 1), -1))[0])
        expected = start * votes / (start * votes).sum()
        np.testing.assert_allclose(model.predict_proba(silent)[0], expected, atol=1e-7)


def test_labels_say_how_sure_the_model_may_be() -> None:
    """Three rows in ten are labelled otherwise than the logits say; told so, the labels may be wrong."""
    rng = np.random.default_rng(0)
    logits = np.outer(rng.choice([-1.0, 1.0], size=400), [-1.0, 1.0])
    y = np.where(rng.random(400) < 0.3, logits.argmin(axis=1), logits.argmax(axis=1))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    def scale(count: int, noise: float) -> float:
        like = evenly(y[:count], np.full(count, noise), proba.shape[1])
        q = believed(proba[:count], like)
        return fit_scales(np.ones(3), logits[:count], q, np.full(count, 2), 40.0)[2]

    assert scale(400, 0.0) < scale(40, 0.0) < 1.0
    assert scale(400, 0.0) + 0.1 < scale(400, 0.3) < 1.1


def test_a_scale_that_is_well_known_moves_less() -> None:
    logits = np.tile([-1.0, 1.0], (100, 1))
    targets = np.tile([0.3, 0.7], (100, 1))

    little, well = (
        fit_scales(np.ones(3), logits, targets, np.full(100, 2), voices)[2]
        for voices in (40.0, 300.0)
    )

    assert little < 0.65
    assert 0.75 < well < 1.0


@pytest.mark.parametrize("sighted", [True, False])
def test_the_scales_are_better_known_where_vectors_speak(monkeypatch, train, dev, sighted) -> None:
    seen, fitted = [], teaching.fit_scales
    monkeypatch.setattr(
        teaching, "fit_scales", lambda *given: seen.append(given[-1]) or fitted(*given)
    )

    Fusion().fit(*((train, dev) if sighted else (with_vectors(x, None) for x in (train, dev))))

    assert set(seen) == {VOICES if sighted else VOICES_WITHOUT_VECTORS}


def test_rows_that_say_nothing_leave_the_scale_alone() -> None:
    equal = np.zeros((5, 2))

    assert fit_scales(np.ones(3), equal, np.eye(2)[[0, 1, 0, 1, 1]], np.full(5, 2), 40.0)[2] == 1.0


@pytest.mark.parametrize(("right", "end"), [(0.0, 0.25), (1.0, 4.0)])
def test_a_scale_stays_within_its_bounds(right: float, end: float) -> None:
    logits = np.tile([-1.0, 1.0], (50, 1))
    targets = np.tile([1 - right, right], (50, 1))

    assert fit_scales(np.ones(3), logits, targets, np.full(50, 1), 1e-3)[1] == end


def test_vectors_of_noise_follow_the_formulas() -> None:
    rng = np.random.default_rng(4)

    model, _ = assert_follows_the_formulas(
        tuple(with_vectors(each, rng.normal(size=each.vectors.shape)) for each in three())
    )

    assert list(model.weights_) == ["majority", "reach", "agreement"]


def test_labels_without_a_single_vote_follow_the_formulas() -> None:
    mute = tuple(with_votes(each, np.full_like(each.votes.matrix, -1)) for each in three())

    model, _ = assert_follows_the_formulas(mute)

    np.testing.assert_allclose(model.class_balance_, 0.5)


def test_more_labels_than_features_follow_the_formulas(monkeypatch) -> None:
    """Of 1,100 labelled rows 1,000 are asked as neighbours: those with the least hashes."""
    monkeypatch.setattr("epoxy.fusion.features.WAVES", 32)

    assert_follows_the_formulas(three(1100))


WORDS = np.array(["random", None, "least sure"], dtype=object)


def voting(n_rows: int, seed: int, n_classes: int, n_sources: int = 6) -> Split:
    """Rows of which sources name every class, the first one twice as often by mistake."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    vectors = 1.2 * np.eye(8)[y] + rng.normal(size=(n_rows, 8))
    wrong = np.where(
        rng.random((n_rows, n_sources)) < 0.5, 0, rng.integers(n_classes, size=(n_rows, n_sources))
    )
    said = np.where(rng.random((n_rows, n_sources)) < 0.6, y[:, None], wrong)
    votes = np.where(rng.random((n_rows, n_sources)) < 0.4, said, -1)
    votes[rng.random(n_rows) < 0.1] = -1
    classes = CLASSES if n_classes == 2 else [f"class_{k}" for k in range(n_classes)]
    return Split(Votes(votes, classes=classes), vectors, y)


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("n_labels", [0, 3, 30])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sources_that_name_every_class_follow_the_formulas(
    n_classes: int, n_labels: int, vectors: bool
) -> None:
    make = [(400, 1), (max(1, n_labels), 2), (90, 3)]
    train, hand, other = (voting(*each, n_classes) for each in make)
    if not vectors:
        train, hand, other = (with_vectors(each, None) for each in (train, hand, other))
    hand = hand if n_labels else None

    model, oracle = assert_follows_the_formulas((unlabelled(train), hand, other))

    assert oracle.trust > 0.1
    np.testing.assert_allclose(model.fitted_.lean, oracle.lean, atol=1e-6)


def test_f1_without_labels_follows_the_formulas() -> None:
    for train, _, other in (three(0), (voting(300, 1, 2), None, voting(90, 3, 2))):
        splits = (unlabelled(train), None, other)
        model, oracle = assert_follows_the_formulas(splits, scoring="f1", positive="spam")

        assert model.fitted_.rule.threshold == pytest.approx(oracle.cut, abs=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("words", ["unknown", "mixed", "chosen"])
@pytest.mark.parametrize("n_labels", [20, pytest.param(240, marks=pytest.mark.slow)])
def test_the_threshold_of_f1_follows_the_formulas(
    n_labels: int, words: str, n_classes: int
) -> None:
    train, hand, other = three(n_labels, n_classes)
    told = {"unknown": None, "mixed": WORDS[np.arange(n_labels) % 3], "chosen": "surest"}[words]
    hand = Split(hand.votes, hand.vectors, hand.y, chosen=told)

    model, oracle = assert_follows_the_formulas(
        (train, hand, other), scoring="f1", positive=train.classes[1]
    )

    rule = model.fitted_.rule
    assert rule.positive == 1
    assert rule.threshold == pytest.approx(oracle.cut, abs=1e-6)
    proba = model.predict_proba(other)
    sure = np.abs(proba[:, 1] - rule.threshold) > 2e-6
    np.testing.assert_array_equal(model.decide(proba)[sure], oracle.labels(proba)[sure])


@pytest.mark.parametrize("n_labels", [20, 60])
def test_macro_f1_follows_the_formulas(n_labels: int) -> None:
    model, oracle = assert_follows_the_formulas(three(n_labels, 4), scoring="f1_macro")

    np.testing.assert_allclose(model.fitted_.rule.divisors, oracle.divisors, atol=1e-6)


# what it is for


def test_fusing_beats_every_expert_alone(model: Fusion, test: Split) -> None:
    alone = [
        ((np.log(model.class_balance_) + each).argmax(axis=1) == test.y).mean()
        for each in model.evidence(test).values()
    ]

    assert model.score(test) > max(alone) - 0.005
    assert model.score(test) > 0.9


def test_probabilities_are_distributions_and_calibrated(model: Fusion, test: Split) -> None:
    proba = model.predict_proba(test)

    assert proba.shape == (500, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.report(test).summary["scores"]["calibration_error"] < 0.06


def test_predictions_are_class_names(model: Fusion, test: Split) -> None:
    assert set(model.predict(test)) == {"ham", "spam"}
    assert model.classes_.tolist() == CLASSES


def test_hand_labels_are_used(train: Split, dev: Split, test: Split) -> None:
    wrong = Split(dev.votes, dev.vectors, 1 - dev.y)

    bare, taught, mistaught = (Fusion().fit(train, hand) for hand in (None, dev, wrong))

    losses = [log_loss(test.y, each.predict_proba(test)) for each in (taught, bare)]
    assert losses[0] < 0.9 * losses[1]
    assert mistaught.score(test) < bare.score(test) - 0.1


def test_a_hand_label_teaches_rows_like_it(train: Split, dev: Split, test: Split) -> None:
    few = dev.rows(slice(0, 5))
    twins = with_votes(few, np.full_like(few.votes.matrix, -1))

    gain = Fusion().fit(train, few).predict_proba(twins) - Fusion().fit(train).predict_proba(twins)

    assert (gain[np.arange(5), few.y] > 0.03).all()


@pytest.mark.parametrize("n_classes", [3, 5])
def test_more_than_two_classes(n_classes: int) -> None:
    train, dev, test = (draw(n, s, 10, n_classes) for n, s in [(400, 1), (80, 2), (400, 3)])

    model = Fusion().fit(unlabelled(train), dev)

    assert model.predict_proba(test).shape == (400, n_classes)
    assert model.score(test) > 0.75


# no leakage


def test_no_fitted_number_depends_on_train_or_test_labels(dev: Split, test: Split) -> None:
    train = draw(400, 1)
    poisoned = Split(train.votes, train.vectors, 1 - train.y)
    upside_down = Split(test.votes, test.vectors, 1 - test.y)

    clean, other = Fusion().fit(unlabelled(train), dev), Fusion().fit(poisoned, dev)

    assert clean.weights_ == other.weights_
    np.testing.assert_array_equal(clean.predict_proba(test), other.predict_proba(upside_down))


def test_labels_do_not_touch_the_experts_that_need_none(model: Fusion, test: Split) -> None:
    before = Fusion().fit(model.train_).evidence(test)

    after = model.evidence(test)

    assert list(after) == [*before, "neighbours"]
    for name, each in before.items():
        np.testing.assert_array_equal(after[name], each)


@pytest.mark.parametrize("seed", range(3))
def test_held_out_probabilities_of_random_labels_are_at_chance(seed: int) -> None:
    """Votes and labels are tosses of a coin: who had seen the labels would know them."""
    rng = np.random.default_rng(seed)

    def tossed(n_rows: int) -> Split:
        votes = np.where(rng.random((n_rows, 60)) < 0.5, rng.integers(0, 2, (n_rows, 60)), -1)
        return Split(Votes(votes, classes=CLASSES), y=rng.integers(0, 2, n_rows))

    train, dev = tossed(400), tossed(200)
    model = Fusion().fit(train, dev)

    held = (model.held_out_.argmax(axis=1) == dev.y).mean()
    seen = (model.predict_proba(dev).argmax(axis=1) == dev.y).mean()
    assert 0.36 < held < 0.64  # ± 4 standard deviations
    assert seen > 0.8
    assert epoxy.Session(train, dev).scores["accuracy"] == held


def test_held_out_probabilities_of_random_labels_beside_vectors_are_at_chance() -> None:
    train, right = unlabelled(draw(150, 1)), []
    for seed in range(10):
        rows = draw(100, 50 + seed)
        mute = with_votes(rows, np.full_like(rows.votes.matrix, -1))
        lies = Split(mute.votes, mute.vectors, np.random.default_rng(seed).integers(0, 2, 100))
        right += (Fusion().fit(train, lies).held_out_.argmax(axis=1) == lies.y).tolist()

    assert np.mean(right) < 0.55  # 3 standard deviations of 1,000 tosses


def test_held_out_probabilities_are_near_those_of_a_model_without_the_row(
    train: Split, dev: Split
) -> None:
    """The closed form is one Newton step; labels are believed without the row's own, too."""
    few = dev.rows(slice(0, 30))
    held = Fusion().fit(train, few).held_out_

    exact = []
    for row in range(30):
        rest = np.arange(30) != row
        left = Fusion().fit(train, few.rows(rest))
        exact.append(left.predict_proba(few.rows([row]))[0])

    assert np.abs(held - np.array(exact)).max() < 0.12
    assert np.abs(held - np.array(exact)).mean() < 0.03


def test_rows_without_a_label_teach_nothing(train: Split, dev: Split, test: Split) -> None:
    some = Split(dev.votes, dev.vectors, np.where(np.arange(60) < 50, dev.y, -1))

    model = Fusion().fit(train, some)

    assert model.held_out_.shape == (50, 2)
    expected = Fusion().fit(train, dev.rows(slice(0, 50))).predict_proba(test)
    np.testing.assert_allclose(model.predict_proba(test), expected, atol=1e-6)


def test_chosen_labels_teach_and_move_no_threshold() -> None:
    """With labels that were chosen as many rows are positive as without labels."""
    train, hand, _ = three(240)
    chosen = Split(hand.votes, hand.vectors, hand.y, chosen="least sure")

    random = Fusion(scoring="f1").fit(train, hand)
    told = Fusion(scoring="f1").fit(train, chosen)

    np.testing.assert_array_equal(random.predict_proba(train), told.predict_proba(train))
    assert random.fitted_.rule.threshold != told.fitted_.rule.threshold
    bare = Fusion(scoring="f1").fit(train)
    calls = [(each.decide(each.predict_proba(train)) == 1).sum() for each in (told, bare)]
    assert calls[0] == calls[1]


# when something is missing


def test_without_hand_labels_typical_weights_stay(train: Split, test: Split) -> None:
    model = Fusion().fit(train)

    typical = {"majority": 0.51, "reach": 0.425, "pupil": 0.34, "regions": 0.6, "echo": 0.65}
    assert model.weights_ == typical
    assert model.hand_ is None
    assert len(model.held_out_) == 0
    assert model.score(test) > 0.8
    assert "no hand labels" in str(model.report(test))


def test_a_dev_split_without_labels_is_no_dev_split(train: Split, dev: Split, test: Split) -> None:
    model = Fusion().fit(train, unlabelled(dev))

    np.testing.assert_array_equal(
        model.predict_proba(test), Fusion().fit(train).predict_proba(test)
    )


def test_without_vectors_only_votes_speak(train: Split, dev: Split, test: Split) -> None:
    bare = [Split(each.votes, y=each.y) for each in (train, dev, test)]

    model = Fusion().fit(bare[0], bare[1])

    assert list(model.weights_) == ["majority", "reach", "agreement"]
    assert model.score(bare[2]) > 0.7
    assert "no vectors" in str(model.report(bare[2]))


def test_a_model_of_vectors_refuses_rows_without_them(
    train: Split, dev: Split, test: Split
) -> None:
    bare = Split(test.votes)
    model = Fusion().fit(train, dev)
    of_votes = Fusion().fit(Split(train.votes), Split(dev.votes, y=dev.y))

    for ask in (model.predict_proba, model.predict, model.report, model.extend, model.evidence):
        with pytest.raises(
            VectorError, match=r"fitted with vectors, and this split has none; embed"
        ):
            ask(bare)
    with pytest.raises(VectorError, match="fitted with vectors"):
        model.explain(bare, 0)
    # a model that never saw any does not read them
    np.testing.assert_array_equal(of_votes.predict_proba(test), of_votes.predict_proba(bare))


@pytest.mark.parametrize("without", [0, 1])
def test_vectors_of_train_or_dev_alone_are_refused(train: Split, dev: Split, without: int) -> None:
    given = [train, dev]
    given[without] = Split(given[without].votes, y=given[without].y)

    for made in (lambda: Fusion().fit(*given), lambda: epoxy.Session(*given, epoxy.Epoxy())):
        with pytest.raises(VectorError, match=r"other has none.*; embed the rows of both"):
            made()


def test_rows_nobody_knows_have_the_prior(train: Split) -> None:
    nobody = Split(Votes([[-1] * 6, [1] + [-1] * 5], classes=CLASSES))

    votes = train.votes.matrix.copy()
    votes[::2] = np.where(votes[::2] >= 0, 1 - votes[::2], -1)  # sources that name both classes

    model = Fusion().fit(Split(train.votes.with_matrix(votes)))

    assert model.known(nobody).tolist() == [False, True]
    np.testing.assert_allclose(model.predict_proba(nobody)[0], model.class_balance_)
    assert "nothing is known about 1 rows" in str(model.report(nobody))
    assert "nothing is known" in str(model.explain(nobody, 0))


def test_the_silence_of_one_sided_sources_speaks_where_vectors_do_not(train: Split) -> None:
    """Nobody says spam of a row: that is known of it, and told."""
    nobody = Split(Votes([[-1] * 4], classes=CLASSES))
    spam = train.votes.matrix[:, [1, 3, 5, 0]]  # three that say spam, and one that says ham

    model = Fusion(class_balance=[0.5, 0.5]).fit(Split(Votes(spam, classes=CLASSES)))

    assert model.predict_proba(nobody)[0, 0] > 0.55
    assert model.known(nobody).all()
    assert "the silence of sources that name one class" in str(model.explain(nobody, 0))


def test_sources_that_never_disagree_are_not_asked_how_they_agree(train: Split) -> None:
    model = Fusion().fit(Split(train.votes.with_matrix(np.minimum(train.votes.matrix, 0))))

    assert list(model.weights_) == ["majority", "reach"]


def test_no_votes_and_no_labels_is_the_prior(train: Split) -> None:
    mute = Split(train.votes.with_matrix(np.full((400, 6), -1)))

    model = Fusion().fit(mute)

    np.testing.assert_allclose(model.predict_proba(mute), 0.5)
    assert not model.known(mute).any()


def test_a_class_without_labels_is_reported_and_can_still_be_predicted() -> None:
    train, dev, test = (draw(n, s, 9, 3) for n, s in [(400, 1), (90, 2), (300, 3)])

    model = Fusion().fit(unlabelled(train), dev.rows(dev.y != 2))

    assert (model.predict(test) == "class_2").any()
    assert "no row is labelled ['class_2']" in str(model.report(test))


# laws


def test_the_order_of_rows_changes_nothing(train: Split, dev: Split, test: Split) -> None:
    rng = np.random.default_rng(0)
    mixed = train.rows(rng.permutation(400)), dev.rows(rng.permutation(60))
    order = rng.permutation(500)

    expected = Fusion().fit(train, dev).predict_proba(test)[order]
    found = Fusion().fit(*mixed).predict_proba(test.rows(order))

    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_order_of_sources_changes_nothing(train: Split, dev: Split, test: Split) -> None:
    order = [f"source_{at}" for at in (3, 1, 5, 0, 2, 4)]

    turned = [Split(s.votes.only(order), s.vectors, s.y) for s in (train, dev, test)]

    expected = Fusion().fit(train, dev).predict_proba(test)
    np.testing.assert_allclose(
        Fusion().fit(*turned[:2]).predict_proba(turned[2]), expected, atol=1e-5
    )


def test_the_order_of_classes_turns_the_columns() -> None:
    splits = three(30, 4)
    order = np.array([2, 0, 3, 1])  # new class k is old class order[k]
    new = np.argsort(order)

    def turned(split: Split) -> Split:
        matrix = split.votes.matrix
        votes = np.where(matrix >= 0, new[np.maximum(matrix, 0)], -1)
        y = None if split.y is None else new[split.y]
        classes = [split.classes[at] for at in order]
        return Split(Votes(votes, split.votes.sources, classes), split.vectors, y)

    found = Fusion().fit(turned(splits[0]), turned(splits[1])).predict_proba(turned(splits[2]))

    expected = Fusion().fit(*splits[:2]).predict_proba(splits[2])
    np.testing.assert_allclose(found, expected[:, order], atol=1e-5)


@pytest.mark.parametrize("labels", [True, False])
def test_a_copied_source_counts_once(labels: bool, train: Split, dev: Split, test: Split) -> None:
    def copied(split: Split) -> Split:
        matrix = np.hstack([split.votes.matrix, split.votes.matrix[:, [0] * 20]])
        names = [*split.votes.sources, *(f"z{at}" for at in range(20))]
        return with_votes(split, matrix, names)

    hand = dev if labels else None
    model = Fusion().fit(copied(train), copied(dev) if labels else None)

    expected = Fusion().fit(train, hand).predict_proba(test)
    np.testing.assert_allclose(model.predict_proba(copied(test)), expected, atol=1e-9)
    assert "count once" in str(model.report(copied(test)))


@pytest.mark.parametrize("labels", [True, False])
def test_vectors_that_tell_nothing_are_ignored(
    labels: bool, train: Split, dev: Split, test: Split
) -> None:
    rng = np.random.default_rng(5)
    noisy = [with_vectors(s, rng.normal(size=s.vectors.shape)) for s in (train, dev, test)]
    bare = [with_vectors(each, None) for each in noisy]

    model = Fusion().fit(noisy[0], noisy[1] if labels else None)

    without = Fusion().fit(bare[0], bare[1] if labels else None)
    np.testing.assert_allclose(
        model.predict_proba(noisy[2]), without.predict_proba(bare[2]), atol=1e-9
    )
    assert "do not foretell the votes" in str(model.report(noisy[2]))


@pytest.mark.parametrize(("n_labels", "heard"), [(9, False), (10, True)])
def test_ten_labels_may_find_vectors_telling_that_votes_at_chance_do_not(n_labels, heard) -> None:
    def at_chance(n_rows: int, seed: int) -> Split:
        rng = np.random.default_rng(seed)
        y = np.arange(n_rows) % 2
        votes = np.where(rng.random((n_rows, 3)) < 0.5, rng.integers(2, size=(n_rows, 3)), -1)
        vectors = 3 * np.eye(8)[y] + 0.3 * rng.normal(size=(n_rows, 8))
        return Split(Votes(votes, classes=["no", "yes"]), vectors, y)

    model = Fusion().fit(unlabelled(at_chance(300, 1)), at_chance(n_labels, 2))

    assert model.fitted_.pupil is None
    assert (model.score(at_chance(200, 3)) > 0.8) == heard


def test_a_row_is_judged_alone(model: Fusion, test: Split) -> None:
    together = model.predict_proba(test)[:5]

    alone = [model.predict_proba(test.rows([at]))[0] for at in range(5)]

    np.testing.assert_allclose(alone, together, atol=1e-6)


def test_labelled_rows_without_direction_leave_the_experts_alone(
    train: Split, dev: Split, test: Split
) -> None:
    nowhere = with_vectors(dev, np.zeros_like(dev.vectors))

    model = Fusion().fit(train, nowhere)

    before = Fusion().fit(train).evidence(test)
    for name in before:
        np.testing.assert_array_equal(model.evidence(test)[name], before[name])


def test_a_refit_remembers_nothing(train: Split, dev: Split, test: Split) -> None:
    other = draw(300, 9)

    model = Fusion().fit(unlabelled(other), dev).fit(train, dev)

    np.testing.assert_array_equal(
        model.predict_proba(test), Fusion().fit(train, dev).predict_proba(test)
    )


def test_loans_are_searched_for_whoever_asks(model: Fusion, train: Split) -> None:
    """Rows with the very votes of train and other vectors are not the train rows."""
    kept = model.train_
    moved = Split.of_checked(kept.votes, kept.vectors[::-1].copy(), None, kept.ids)

    found = model.rows_of(moved).lender

    expected = epoxy.reach(train, moved).lender.T
    asks = moved.votes.matrix.T < 0
    np.testing.assert_array_equal(found[asks], expected[asks])


def test_nothing_is_lent_with_a_radius_of_none(train: Split, test: Split) -> None:
    nobody = dict.fromkeys(train.votes.sources)

    lends, keeps = Fusion().fit(train), Fusion(radius=nobody).fit(train)

    bare = with_votes(test, np.full_like(test.votes.matrix, -1))
    assert np.abs(lends.evidence(bare)["reach"]).max() > 0
    assert np.abs(keeps.evidence(bare)["reach"]).max() == 0
    everybody = Fusion(radius=None).fit(train).predict_proba(test)
    np.testing.assert_array_equal(everybody, keeps.predict_proba(test))


def test_votes_are_lent_by_the_row_that_is_nearest_under_the_metric(tmp_path) -> None:
    votes = Votes([[0], [1], [-1], [-1]], classes=CLASSES)
    train = Split(votes, [[10.0, 0.5], [1.0, 0.6], [1.0, 0.1], [0.0, 0.0]])

    def lenders(model: Fusion) -> list[int]:
        return model.rows_of(train).lender[0, 2:].tolist()

    assert lenders(Fusion().fit(train)) == [0, -1]  # zeros have no direction
    euclidean = Fusion(metric="euclidean").fit(train)
    assert lenders(euclidean) == [1, 1]
    assert lenders(epoxy.load(euclidean.save(tmp_path / "model"))) == [1, 1]


# features


def features(vectors: np.ndarray):
    from epoxy.fusion.features import View

    return View.over(vectors.astype(np.float32))


def principal_axes(seed: int, n_rows: int = 600) -> np.ndarray:
    """Vectors as PCA leaves them: uncorrelated coordinates, the largest variance first."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n_rows, 30)) * np.geomspace(1, 0.1, 30) @ rng.normal(size=(30, 30))
    _, _, axes = np.linalg.svd(mixed - mixed.mean(axis=0), full_matrices=False)
    return mixed @ axes.T


def test_scale_and_place_of_vectors_do_not_matter_to_features(train: Split) -> None:
    still = features(train.vectors)[1].matrix
    moved = features(train.vectors * 7 + 3)[1].matrix

    np.testing.assert_allclose(moved @ moved.T, still @ still.T, atol=1e-3)


def test_units_of_measurement_are_evened_out() -> None:
    units = np.geomspace(1e-3, 1e4, 30)
    columns = principal_axes(0) @ np.random.default_rng(1).normal(size=(30, 30)) * units

    scale = features(columns)[0].scale

    np.testing.assert_allclose(scale * columns.std(axis=0), 1, rtol=1e-4)


def test_principal_axes_keep_their_proportions() -> None:
    """Evening them out would be whitening: noise would count as much as what the data say."""
    scale = features(principal_axes(0))[0].scale

    np.testing.assert_allclose(scale, scale[0])


def test_principal_axes_in_another_order_are_columns_like_any_other() -> None:
    shuffled = np.random.default_rng(2).permutation(30)

    assert np.ptp(features(principal_axes(0)[:, shuffled])[0].scale) > 0


def test_rows_seen_again_have_the_features_they_had(train: Split) -> None:
    view, made = features(train.vectors)

    np.testing.assert_array_equal(view.of(train.vectors), made.matrix)
    np.testing.assert_allclose(view.of(train.vectors[7:8])[0], made.matrix[7], atol=1e-7)


# groups of labelled rows


def units(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def groups_of(vectors: np.ndarray, train: np.ndarray) -> np.ndarray:
    spacing = Spacing.over(Features(train.astype(np.float32)))
    nobody = np.empty(0, dtype=np.intp)
    return spacing.changed(units(vectors), nobody).groups(units(vectors), np.arange(len(vectors)))


def test_labelled_rows_from_one_corner_are_held_out_in_groups() -> None:
    rng = np.random.default_rng(0)
    knots = rng.normal(size=(15, 8))
    corner = np.repeat(knots, 8, axis=0) + 0.01 * rng.normal(size=(120, 8))

    groups = groups_of(corner, rng.normal(size=(500, 8)))

    assert len(np.unique(groups)) <= 30
    assert all(len(set(groups[at : at + 8])) == 1 for at in range(0, 120, 8))


def test_labelled_rows_like_the_others_are_not_grouped(train: Split, dev: Split) -> None:
    groups = groups_of(dev.vectors, train.vectors)

    assert len(np.unique(groups)) == 60


def test_more_labelled_rows_than_are_clustered_join_the_group_of_their_likest(monkeypatch) -> None:
    monkeypatch.setattr("epoxy.fusion.groups.SAMPLE", 40)
    rng = np.random.default_rng(0)
    knots = rng.normal(size=(15, 8))
    corner = np.repeat(knots, 8, axis=0) + 0.01 * rng.normal(size=(120, 8))

    groups = groups_of(corner, rng.normal(size=(500, 8)))

    assert all(len(set(groups[at : at + 8])) == 1 for at in range(0, 120, 8))


def test_the_likest_labelled_rows_are_known_as_labels_come_and_go() -> None:
    rng = np.random.default_rng(0)
    vectors, others = units(rng.normal(size=(30, 6))), units(rng.normal(size=(50, 6)))
    spacing = Spacing.over(Features(others.astype(np.float32)))
    now = np.empty(0, dtype=np.intp)

    for _ in range(40):
        stays = now[rng.random(len(now)) < 0.8]
        then, now = now, np.union1d(stays, rng.integers(0, 30, 3))
        place = {row: at for at, row in enumerate(now.tolist())}
        moved = np.array([place.get(row, -1) for row in then.tolist()], dtype=np.intp)
        spacing = spacing.changed(vectors[now], moved)

        to_train = others @ vectors[now].T
        to_each_other = vectors[now] @ vectors[now].T - 9 * np.eye(len(now))
        assert_likest(spacing.to_train, to_train)
        if len(now) > 1:
            assert_likest(spacing.to_each_other, to_each_other)


def assert_likest(found: Likest, likeness: np.ndarray) -> None:
    np.testing.assert_allclose(found.likeness, likeness.max(axis=1), atol=1e-6)
    np.testing.assert_array_equal(found.number, likeness.argmax(axis=1))


# decisions


def test_f1_moves_the_threshold_and_no_probability(train: Split, dev: Split, test: Split) -> None:
    plain = Fusion().fit(train, dev)
    f1 = Fusion(scoring="f1", positive="spam").fit(train, dev)

    np.testing.assert_array_equal(f1.predict_proba(test), plain.predict_proba(test))
    threshold = f1.fitted_.rule.threshold
    assert threshold is not None
    expected = np.where(f1.predict_proba(test)[:, 1] >= threshold, "spam", "ham")
    np.testing.assert_array_equal(f1.predict(test), expected)


def test_every_score_of_labels_or_probabilities_is_taken_and_moves_no_probability() -> None:
    from sklearn.metrics import get_scorer_names

    from epoxy.fusion.decision import SCORINGS

    train, hand, other = three(60, 4)
    rules = {}
    for scoring in sorted({*SCORINGS} & {*get_scorer_names()}):
        model = Fusion(scoring=scoring, positive=train.classes[1]).fit(train, hand)
        rules[scoring] = (model.predict_proba(other), model.predict(other).tolist())
    proba, plain = rules["accuracy"]

    assert len(rules) > 25
    for each, _ in rules.values():
        np.testing.assert_array_equal(each, proba)
    assert rules["recall_macro"][1] == rules["balanced_accuracy"][1] != plain
    assert rules["jaccard"][1] == rules["f1"][1]
    assert rules["f1_weighted"][1] == rules["f1_macro"][1]
    assert rules["f1_micro"][1] == rules["neg_log_loss"][1] == plain


@pytest.mark.parametrize("n_labels", [0, 60])
def test_balanced_accuracy_finds_more_of_a_rare_class(n_labels: int) -> None:
    draws = [draw(n, seed, 9, 3) for n, seed in [(900, 1), (200, 2), (900, 3)]]
    rare = [each.rows((each.y == 0) | (np.arange(each.n_rows) % 6 == 0)) for each in draws]
    hand = rare[1].rows(slice(0, n_labels)) if n_labels else None
    truth = rare[2].y

    def recalls(scoring: str) -> np.ndarray:
        model = Fusion(scoring=scoring).fit(unlabelled(rare[0]), hand)
        guess = model.decide(model.predict_proba(rare[2]))
        return np.array([(guess[truth == k] == k).mean() for k in range(3)])

    even, plain = recalls("balanced_accuracy"), recalls("accuracy")
    assert not n_labels or even.mean() > plain.mean()
    assert (even[1:] >= plain[1:]).all()


def test_the_threshold_with_the_best_f1_by_eye() -> None:
    from epoxy.fusion.decision import f1_threshold

    # calling 2 rows positive: 2·1.8 / (2 + 2.0); 1 row: 2·0.9 / (1 + 2.0); 3 rows: 2·1.9 / 5
    nobody = np.empty(0)
    assert f1_threshold(np.array([0.9, 0.9, 0.1, 0.1]), nobody, nobody) == pytest.approx(0.5)


def test_many_labelled_rows_correct_a_threshold_that_few_do_not() -> None:
    """The probabilities are far too low: of labelled rows, those from 0.2 on are positive."""
    from epoxy.fusion.decision import f1_threshold

    promised = np.repeat([0.9, 0.2, 0.01], [50, 100, 850])
    shown, right = np.array([0.9, 0.2, 0.2, 0.01]), np.array([True, True, True, False])

    few = f1_threshold(promised, shown, right)
    many = f1_threshold(promised, np.repeat(shown, 300), np.repeat(right, 300))

    assert few == pytest.approx((0.2 + 0.9) / 2)
    assert many == pytest.approx((0.01 + 0.2) / 2)


def test_a_given_class_balance_is_where_the_posterior_starts(train: Split, dev: Split) -> None:
    model = Fusion(class_balance={"spam": 0.25, "ham": 0.75}).fit(train, dev)

    np.testing.assert_allclose(model.class_balance_, [0.75, 0.25])


# explanations


@pytest.mark.parametrize("labels", [0, 3, 60])
def test_voices_and_experts_add_up_to_the_log_odds(
    labels: int, train: Split, dev: Split, test: Split
) -> None:
    model = Fusion().fit(train, dev.rows(slice(0, labels)) if labels else None)
    proba = model.predict_proba(test)

    for row in range(0, 500, 25):
        said = model.explain(test, row)
        total = said.start + sum(voice.weight for voice in said.voices)
        assert total == pytest.approx(said.start + sum(said.parts.values()))
        assert total == pytest.approx(said.log_odds, abs=1e-8)
        assert said.start + sum(said.experts.values()) == pytest.approx(said.log_odds)
        odds = np.log(said.probabilities[said.label] / said.probabilities[said.against])
        assert odds == pytest.approx(said.log_odds)
        assert list(said.probabilities.values()) == proba[row].tolist()


def test_the_start_of_an_explanation_is_the_class_balance(model: Fusion, test: Split) -> None:
    """As loud as the row is; whatever rounding leaves is small, so nothing is hidden in it."""
    start = np.log(model.class_balance_)

    for row in range(0, 500, 25):
        said = model.explain(test, row)
        label, against = (CLASSES.index(each) for each in (said.label, said.against))
        kind = 2 if test.votes.covered[row] else 1
        known = model.fitted_.scales[kind] * (start[label] - start[against])
        assert said.start == pytest.approx(known, abs=1e-4)


def test_an_explanation_names_votes_loans_and_hand_labels(model: Fusion, test: Split) -> None:
    row = int(np.flatnonzero(test.votes.covered)[0])

    said = model.explain(test, row)

    assert {"own", "lent", "hand", "rest"} <= {voice.origin for voice in said.voices}
    lent = next(voice for voice in said.voices if voice.origin == "lent")
    assert lent.distance is not None
    assert lent.distance >= 0
    text = str(said)
    assert "hand-labelled row" in text
    assert "lent by row" in text
    assert "by expert: majority" in text
    json.dumps(said.to_dict())


def test_a_vote_never_counts_against_the_class_it_names(train: Split, test: Split) -> None:
    """Also where sources vote against each other; and all that `majority` says is said by votes."""
    model = Fusion().fit(train)
    matrix = test.votes.matrix
    quarrels = [row for row, votes in enumerate(matrix) if len(set(votes[votes >= 0])) > 1]

    assert quarrels
    for row in quarrels[:40]:
        said = model.explain(test, row)
        heard = [voice for voice in said.voices if voice.detail.endswith("(majority)")]
        for voice in heard:
            sign = (voice.vote == said.label) - (voice.vote == said.against)
            assert np.sign(voice.weight) == sign
        told = sum(voice.weight for voice in heard)
        assert told == pytest.approx(said.experts["majority"], abs=1e-6)


def test_a_loan_is_the_one_reach_finds(model: Fusion, train: Split, test: Split) -> None:
    found = epoxy.reach(train, test)
    said = model.explain(test, 4)

    lent = [voice for voice in said.voices if voice.origin == "lent"]
    assert lent
    for voice in lent:
        source = train.votes.index_of(voice.source)
        assert voice.lender == found.lender[4, source]
        assert voice.distance == found.distance[4, source]


def test_a_hand_labelled_neighbour_is_named_with_its_own_label(
    model: Fusion, dev: Split, test: Split
) -> None:
    for voice in model.explain(test, 4).voices:
        if voice.origin == "hand":
            assert voice.vote == CLASSES[dev.y[dev.position_of(voice.lender)]]


# report


def test_the_report_has_a_reliability_curve_and_a_line_per_expert(
    model: Fusion, test: Split
) -> None:
    report = model.report(test)

    experts, curve = report.tables
    assert [row["expert"] for row in experts.rows] == list(model.weights_)
    assert sum(point["right"]["n"] for point in curve.rows) == 500
    assert report.summary["hand labels"] == 60
    json.dumps(report.to_dict())


def test_the_report_of_an_f1_model_scores_its_decisions(
    train: Split, dev: Split, test: Split
) -> None:
    model = Fusion(scoring="f1", positive="spam").fit(train, dev)
    said, truth = model.predict(test) == "spam", test.y == 1

    found = model.report(test).summary["scores"]

    assert found["f1"] == pytest.approx(2 * (said & truth).sum() / (said.sum() + truth.sum()))


def test_rows_that_taught_the_model_are_scored_by_models_that_did_not_see_them(
    train: Split, dev: Split, tmp_path: Path
) -> None:
    wrong = np.random.default_rng(0).random(len(dev)) < 0.2
    tossed = Split(dev.votes, dev.vectors, y=np.where(wrong, 1 - dev.y, dev.y))
    model = Fusion().fit(train, tossed)
    seen = (model.decide(model.predict_proba(tossed)) == tossed.y).mean()
    unseen = (model.decide(model.held_out_) == tossed.y).mean()

    report = model.report(tossed)

    assert report.summary["scores"]["accuracy"] == pytest.approx(unseen)
    assert unseen < seen - 0.05
    backwards = model.report(tossed.rows(np.arange(len(dev))[::-1])).summary
    assert backwards["scores"]["accuracy"] == pytest.approx(unseen)
    model.save(tmp_path / "model")
    assert "60 of these rows taught the model" in str(epoxy.load(tmp_path / "model").report(tossed))


def test_likest_labelled_rows_are_not_judged_by_the_labels_they_repeat(
    model: Fusion, dev: Split, test: Split
) -> None:
    judged = [
        {row["expert"]: row["right"] is not None for row in model.report(each).tables[0].rows}
        for each in (dev, test)
    ]

    assert [each["neighbours"] for each in judged] == [False, True]
    assert all(each["majority"] for each in judged)


def test_a_report_needs_no_labels(model: Fusion, test: Split) -> None:
    assert "scores" not in model.report(unlabelled(test)).summary


def test_an_explanation_says_where_the_rule_overrules_the_most_probable_class(
    model: Fusion, test: Split
) -> None:
    plain = model.explain(unlabelled(test), 3)
    overruled = replace(plain, label=plain.against)

    assert "is more probable" not in str(plain)
    said = f"{plain.label!r} is more probable; the rule that serves scoring says {plain.against!r}"
    assert said in str(overruled)


# storage and scikit-learn


@pytest.mark.parametrize("n_labels", [0, 3, 60])
@pytest.mark.parametrize("vectors", [True, False])
def test_a_saved_model_answers_bit_for_bit(
    n_labels: int, vectors: bool, tmp_path, train: Split, dev: Split, test: Split
) -> None:
    splits = train, dev.rows(slice(0, n_labels)), test
    if not vectors:
        splits = tuple(with_vectors(each, None) for each in splits)
    model = Fusion(scoring="f1", radius={"source_1": 0.1}).fit(splits[0], splits[1])

    loaded = epoxy.load(model.save(tmp_path / "model"))

    np.testing.assert_array_equal(loaded.predict_proba(test), model.predict_proba(test))
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert str(loaded.explain(test, 3)) == str(model.explain(test, 3))
    assert loaded.get_params() == model.get_params()


def test_a_macro_rule_survives_storage(tmp_path) -> None:
    train, hand, other = three(60, 4)
    model = Fusion(scoring="f1_macro", class_balance=np.full(4, 0.25)).fit(train, hand)

    loaded = epoxy.load(model.save(tmp_path / "model"))

    np.testing.assert_array_equal(loaded.predict(other), model.predict(other))
    np.testing.assert_array_equal(loaded.fitted_.rule.divisors, model.fitted_.rule.divisors)


@pytest.mark.parametrize("dimension", [127, 128, 200])
def test_a_model_over_vectors_of_any_dimension_is_saved_and_answers_bit_for_bit(
    tmp_path, dimension: int
) -> None:
    """From 128 dimensions on features have no waves."""
    draw = np.random.default_rng(0)
    y = draw.integers(2, size=240)
    vectors = draw.normal(size=(240, dimension)) + 0.4 * (2 * y - 1)[:, None]
    speaks = draw.random((240, 4)) < 0.5
    votes = Votes(np.where(speaks, y[:, None], -1), classes=["ham", "spam"])
    train = Split(votes.rows(slice(40, None)), vectors[40:])
    model = Fusion().fit(train, Split(votes.rows(slice(40)), vectors[:40], y[:40]))
    assert model.fitted_.pupil is not None

    model.save(tmp_path / "model")

    again = epoxy.load(tmp_path / "model")
    assert (again.predict_proba(train) == model.predict_proba(train)).all()


def test_saved_folders_hold_no_train_labels(tmp_path, dev: Split) -> None:
    Fusion().fit(draw(400, 1), dev).save(tmp_path / "model")

    names = np.load(tmp_path / "model" / "model.npz").files
    assert "hand/y" in names
    assert "train/y" not in names


def test_clones_have_the_same_parameters_and_no_memory(model: Fusion, test: Split) -> None:
    copy = clone(Fusion(scoring="f1", positive="spam", noise=0.1, radius=0.3, seed=3))

    assert copy.get_params()["radius"] == 0.3
    assert copy.get_params()["noise"] == 0.1
    with pytest.raises(NotFitted, match="call fit first"):
        clone(model).predict_proba(test)


# bad input


def test_a_split_is_expected(model: Fusion) -> None:
    with pytest.raises(ParameterError, match="expected a Split, got list; wrap the votes"):
        model.predict_proba([[1, 2]])


def test_sources_must_agree(model: Fusion, test: Split) -> None:
    other = Split(test.votes.only(["source_1", "source_0"]), test.vectors)
    with pytest.raises(AlignmentError, match="same sources and classes"):
        model.predict_proba(other)


def test_dimensions_must_agree(model: Fusion, test: Split) -> None:
    with pytest.raises(VectorError, match=r"dimension 8.*5"):
        model.predict_proba(Split(test.votes, test.vectors[:, :5]))


def test_scores_need_labels(model: Fusion, test: Split) -> None:
    with pytest.raises(ParameterError, match="score needs true labels"):
        model.score(unlabelled(test))


def test_f1_of_many_classes_asks_which_before_it_learns() -> None:
    train, dev, _ = three(20, 4)

    with pytest.raises(ParameterError, match="'f1' is of one class, and there are 4; name it"):
        Fusion(scoring="f1").fit(train, dev)


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"scoring": "auc"}, UnknownName, "no scoring named 'auc'"),
        ({"scoring": "recall"}, ParameterError, "every row is called positive; use 'f1'"),
        ({"scoring": "precision"}, ParameterError, "hardly any row or every row"),
        ({"metric": "l3"}, UnknownName, "no metric named 'l3'"),
        ({"scoring": "f1", "positive": "egg"}, UnknownName, "no class named 'egg'"),
        ({"noise": 1.0}, ParameterError, "from 0 to below 1, got 1.0"),
        ({"noise": -0.1}, ParameterError, "from 0 to below 1, got -0.1"),
        ({"radius": -1.0}, RadiusError, "is -1; a radius is a distance of at least 0"),
        ({"radius": "far"}, RadiusError, "is 'far'; give a distance"),
        ({"radius": {"source_0": "far"}}, RadiusError, "of source 'source_0' is 'far'"),
        ({"radius": {"egg": 0.1}}, UnknownName, "no source named 'egg'"),
        ({"radius": [0.1, 0.2]}, RadiusError, "got 2 radii for 6 sources"),
        ({"class_balance": [0.5]}, ParameterError, "class_balance must give a share"),
        ({"class_balance": {"egg": 1.0}}, UnknownName, "no class named 'egg'"),
        ({"class_balance": [1.0, 0.0]}, ParameterError, "above 0"),
        ({"class_balance": [2.0, 1.0]}, ParameterError, "sums to 3; shares must sum to 1"),
    ],
)
def test_bad_parameters_say_so(parameters, error, match, train: Split, dev: Split) -> None:
    with pytest.raises(error, match=match):
        Fusion(**parameters).fit(train, dev)
