from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

import epoxy
from epoxy import Split, Votes
from epoxy.errors import (
    AlignmentError,
    NotFitted,
    ParameterError,
    StoreError,
    UnknownName,
    VectorError,
)
from epoxy.fusion import Echo, Fusion, Geometry, Head, Majority, Neighbours, Pupil, Reach
from epoxy.fusion.experts import default

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


# what it is for


def test_fusing_beats_every_expert_alone(model: Fusion, test: Split) -> None:
    evidence = model.evidence(test)
    alone = [
        ((np.log(model.pool_.prior) + each).argmax(axis=1) == test.y).mean() for each in evidence
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


def test_dev_labels_are_used(train: Split, dev: Split, test: Split) -> None:
    wrong = np.random.default_rng(0).permutation(dev.y)

    permuted = Fusion().fit(train, Split(dev.votes, dev.vectors, wrong))

    assert permuted.score(test) < Fusion().fit(train, dev).score(test) - 0.1


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


def test_out_of_fold_probabilities_are_honest(train: Split, test: Split) -> None:
    """Vectors that carry nothing: a model that had seen the labels would know them on dev."""
    rng = np.random.default_rng(0)
    dev = Split(Votes(np.full((60, 6), -1), classes=CLASSES), rng.normal(size=(60, 8)), [0, 1] * 30)
    silent = Split(train.votes.with_matrix(np.full((400, 6), -1)), train.vectors)

    model = Fusion().fit(silent, dev)

    assert model.dev_proba_ is not None
    right = (model.dev_proba_.argmax(axis=1) == dev.y).mean()
    assert 0.25 < right < 0.75  # 60 coin tosses, ± 4 standard deviations of 0.065


def test_a_report_on_its_own_dev_rows_is_not_flattered_by_having_seen_them(
    train: Split, dev: Split
) -> None:
    noise = np.random.default_rng(5).integers(0, 2, dev.n_rows)
    lies = Split(dev.votes, dev.vectors, noise, dev.ids)
    model = Fusion().fit(train, lies)

    report = model.report(lies)

    honest = (model.dev_proba_.argmax(axis=1) == noise).mean()
    seen = (model.predict_proba(lies).argmax(axis=1) == noise).mean()
    assert report.summary["scores"]["accuracy"] == pytest.approx(honest)
    assert seen > honest
    assert any("did not see their labels" in each for each in report.findings)
    other = Split(dev.votes, dev.vectors, noise, [f"other {at}" for at in range(dev.n_rows)])
    assert model.report(other).summary["scores"]["accuracy"] == pytest.approx(seen)


def test_unlabelled_dev_rows_are_left_out(train: Split, dev: Split, test: Split) -> None:
    y = np.where(np.arange(60) < 50, dev.y, -1)
    some = Split(dev.votes, dev.vectors, y)

    model = Fusion().fit(train, some)

    assert model.dev_proba_ is not None
    assert np.isnan(model.dev_proba_[50:]).all()
    expected = Fusion().fit(train, dev.rows(slice(0, 50))).predict_proba(test)
    np.testing.assert_allclose(model.predict_proba(test), expected)


# degraded modes


def test_without_dev_rows_typical_weights_stay(train: Split, test: Split) -> None:
    model = Fusion().fit(train)

    assert list(model.weights_) == ["majority", "reach", "pupil", "echo"]
    assert model.dev_proba_ is None
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

    assert list(model.weights_) == ["majority", "reach", "head"]
    assert model.score(bare[2]) > 0.7
    assert "no vectors" in str(model.report(bare[2]))


def test_without_vectors_and_dev_it_is_a_vote(train: Split, test: Split) -> None:
    model = Fusion().fit(Split(train.votes))

    assert list(model.weights_) == ["majority", "reach"]
    assert model.score(Split(test.votes, y=test.y)) > 0.7


def test_a_split_without_vectors_can_still_be_labelled(model: Fusion, test: Split) -> None:
    proba = model.predict_proba(Split(test.votes))

    assert np.isfinite(proba).all()
    known = model.known(Split(test.votes))
    np.testing.assert_array_equal(known[test.votes.covered], True)


def test_rows_nobody_knows_have_the_prior_and_may_be_left_open(train: Split) -> None:
    votes = Split(train.votes)
    nobody = Split(Votes([[-1] * 6, [1] + [-1] * 5], classes=CLASSES))

    model = Fusion(abstain="?").fit(votes)

    assert model.known(nobody).tolist() == [False, True]
    np.testing.assert_allclose(model.predict_proba(nobody)[0], model.pool_.prior)
    assert model.predict(nobody).tolist() == ["?", "spam"]
    assert "nothing is known about 1 rows" in str(model.report(nobody))
    assert "nothing is known" in str(model.explain(nobody, 0))


# robustness


@pytest.mark.parametrize("n_dev", [1, 2, 3, 10])
def test_a_handful_of_dev_rows_does_no_harm(
    n_dev: int, train: Split, dev: Split, test: Split
) -> None:
    model = Fusion().fit(train, dev.rows(slice(0, n_dev)))

    assert model.score(test) > Fusion().fit(train).score(test) - 0.12


def test_one_class_missing_in_dev(train: Split, dev: Split, test: Split) -> None:
    model = Fusion().fit(train, dev.rows(dev.y == 0))

    assert np.isfinite(model.predict_proba(test)).all()
    assert "no dev row is labelled ['spam']" in str(model.report(test))


def test_a_class_missing_in_dev_can_still_be_predicted() -> None:
    train, dev, test = (draw(n, s, 9, 3) for n, s in [(400, 1), (90, 2), (300, 3)])

    model = Fusion().fit(unlabelled(train), dev.rows(dev.y != 2))

    assert (model.predict(test) == "class_2").any()


def test_vectors_that_carry_nothing_do_little_harm(train: Split, dev: Split, test: Split) -> None:
    rng = np.random.default_rng(5)
    noisy = [Split(s.votes, rng.normal(size=s.vectors.shape), s.y) for s in (train, dev, test)]
    bare = [Split(s.votes, y=s.y) for s in (train, dev, test)]

    with_noise = Fusion().fit(*noisy[:2]).score(noisy[2])

    assert with_noise > Fusion().fit(*bare[:2]).score(bare[2]) - 0.06


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_vectors_are_silent(value: float, train: Split, dev: Split, test: Split) -> None:
    flat = [Split(s.votes, np.full((s.n_rows, 4), value), s.y) for s in (train, dev, test)]

    model = Fusion().fit(*flat[:2])

    assert np.isfinite(model.predict_proba(flat[2])).all()
    assert model.score(flat[2]) > 0.7


def test_some_rows_without_direction(train: Split, dev: Split, test: Split) -> None:
    vectors = train.vectors.copy()
    vectors[:40] = 0

    model = Fusion().fit(Split(train.votes, vectors), dev)

    assert np.isfinite(model.predict_proba(Split(train.votes, vectors))).all()
    assert model.score(test) > 0.85


def test_sources_that_never_vote(train: Split, dev: Split, test: Split) -> None:
    def widen(split: Split) -> Split:
        silent = np.full((split.n_rows, 1), -1)
        votes = Votes(np.hstack([split.votes.matrix, silent]), classes=CLASSES)
        return Split(votes, split.vectors, split.y)

    model = Fusion().fit(widen(train), widen(dev))

    assert model.score(widen(test)) > 0.85


def test_no_votes_at_all_leaves_the_hand_labels(dev: Split, train: Split, test: Split) -> None:
    def mute(split: Split) -> Split:
        matrix = np.full_like(split.votes.matrix, -1)
        return Split(split.votes.with_matrix(matrix), split.vectors, split.y)

    model = Fusion().fit(mute(train), mute(dev))

    assert list(model.weights_) == ["head", "neighbours", "echo"]
    assert model.score(mute(test)) > 0.8


def test_no_votes_no_labels_is_the_prior(train: Split) -> None:
    mute = Split(train.votes.with_matrix(np.full((400, 6), -1)))

    model = Fusion().fit(mute)

    np.testing.assert_allclose(model.predict_proba(mute), 0.5)
    assert not model.known(mute).any()


def test_a_thousand_sources() -> None:
    train, dev, test = (draw(n, s, 1000) for n, s in [(150, 1), (40, 2), (100, 3)])

    model = Fusion().fit(unlabelled(train), dev)

    assert model.score(test) > 0.95


def test_duplicates_between_dev_and_train(train: Split, dev: Split, test: Split) -> None:
    votes = Votes(np.vstack([train.votes.matrix, dev.votes.matrix]), classes=CLASSES)
    both = Split(votes, np.vstack([train.vectors, dev.vectors]))

    assert Fusion().fit(both, dev).score(test) > 0.88


def test_dev_rows_in_copies_do_not_inflate_memory() -> None:
    """Each dev row five times, vectors that carry nothing: folds must not separate the copies."""
    rng = np.random.default_rng(0)
    train = Split(draw(400, 1).votes, rng.normal(size=(400, 8)))
    one = Split(draw(30, 2).votes, rng.normal(size=(30, 8)), draw(30, 2).y)
    copies = one.rows(np.repeat(np.arange(30), 5))

    weights = Fusion().fit(train, copies).weights_

    assert weights["neighbours"] < weights["majority"] + weights["reach"]


def test_a_dev_set_from_one_corner_is_held_out_in_groups(train: Split) -> None:
    from epoxy.fusion.folds import match_groups

    rng = np.random.default_rng(0)
    knots = rng.normal(size=(15, 8))
    corner = np.repeat(knots, 8, axis=0) + 0.01 * rng.normal(size=(120, 8))

    groups = match_groups(corner, rng.normal(size=(500, 8)))

    assert len(np.unique(groups)) <= 30
    assert all(len(set(groups[at : at + 8])) == 1 for at in range(0, 120, 8))


def test_matched_dev_rows_are_not_grouped(train: Split, dev: Split) -> None:
    from epoxy.fusion.folds import match_groups

    assert len(np.unique(match_groups(dev.vectors, train.vectors))) == 60


# laws


def test_the_order_of_rows_changes_nothing(train: Split, dev: Split, test: Split) -> None:
    rng = np.random.default_rng(0)
    mixed = train.rows(rng.permutation(400)), dev.rows(rng.permutation(60))
    order = rng.permutation(500)

    expected = Fusion().fit(train, dev).predict_proba(test)[order]
    found = Fusion().fit(*mixed).predict_proba(test.rows(order))

    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_the_order_of_sources_changes_nothing(train: Split, dev: Split, test: Split) -> None:
    order = [f"source_{at}" for at in (3, 1, 5, 0, 2, 4)]

    turned = [Split(s.votes.only(order), s.vectors, s.y) for s in (train, dev, test)]

    expected = Fusion().fit(train, dev).predict_proba(test)
    np.testing.assert_allclose(
        Fusion().fit(*turned[:2]).predict_proba(turned[2]), expected, atol=1e-4
    )


def test_a_row_is_judged_alone(model: Fusion, test: Split) -> None:
    together = model.predict_proba(test)[:5]

    alone = [model.predict_proba(test.rows([at]))[0] for at in range(5)]

    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_scale_and_place_of_vectors_do_not_matter_to_features(train: Split) -> None:
    features = Geometry.over(train.vectors).smoother.features

    moved = Geometry.over(train.vectors * 7 + 3).smoother.features

    np.testing.assert_allclose(moved @ moved.T, features @ features.T, atol=1e-3)


def principal_axes(seed: int, n_rows: int = 600) -> np.ndarray:
    """Vectors as PCA leaves them: uncorrelated coordinates, the largest variance first."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n_rows, 30)) * np.geomspace(1, 0.1, 30) @ rng.normal(size=(30, 30))
    _, _, axes = np.linalg.svd(mixed - mixed.mean(axis=0), full_matrices=False)
    return mixed @ axes.T


def test_units_of_measurement_are_evened_out() -> None:
    units = np.geomspace(1e-3, 1e4, 30)
    columns = principal_axes(0) @ np.random.default_rng(1).normal(size=(30, 30)) * units

    scale = Geometry.over(columns.astype(np.float32)).scale

    np.testing.assert_allclose(scale * columns.std(axis=0), 1, rtol=1e-4)


def test_principal_axes_keep_their_proportions() -> None:
    """Evening them out would be whitening: noise would count as much as what the data say."""
    scale = Geometry.over(principal_axes(0).astype(np.float32)).scale

    np.testing.assert_allclose(scale, scale[0])


def test_principal_axes_in_another_order_are_columns_like_any_other() -> None:
    shuffled = np.random.default_rng(2).permutation(30)

    scale = Geometry.over(principal_axes(0)[:, shuffled].astype(np.float32)).scale

    assert np.ptp(scale) > 0


def test_a_refit_takes_up_its_geometry_and_changes_nothing(
    train: Split, dev: Split, test: Split
) -> None:
    model = Fusion().fit(train, dev)
    geometry = model.geometry_
    matrix = train.votes.matrix.copy()
    matrix[:, 0] = -1
    edited = Split(train.votes.with_matrix(matrix), train.vectors)

    again = model.fit(edited, dev)

    assert again.geometry_ is geometry
    fresh = Fusion().fit(edited, dev).predict_proba(test)
    np.testing.assert_array_equal(again.predict_proba(test), fresh)


def test_other_vectors_get_their_own_geometry(train: Split, dev: Split) -> None:
    model = Fusion().fit(train, dev)
    geometry = model.geometry_

    model.fit(Split(train.votes, train.vectors[::-1]), dev)

    assert model.geometry_ is not geometry


# decision


def test_f1_moves_the_threshold_and_no_probability(train: Split, dev: Split, test: Split) -> None:
    plain = Fusion().fit(train, dev)
    f1 = Fusion(metric="f1", positive="spam").fit(train, dev)

    np.testing.assert_array_equal(f1.predict_proba(test), plain.predict_proba(test))
    assert f1.threshold_ is not None
    expected = np.where(f1.predict_proba(test)[:, 1] >= f1.threshold_, "spam", "ham")
    np.testing.assert_array_equal(f1.predict(test), expected)


def test_the_threshold_with_the_best_f1_by_eye() -> None:
    from epoxy.fusion.decision import f1_threshold

    # calling 2 rows positive: 2·1.8 / (2 + 2.0); 1 row: 2·0.9 / (1 + 2.0); 3 rows: 2·1.9 / 5
    assert f1_threshold(np.array([0.9, 0.9, 0.1, 0.1])) == pytest.approx(0.5)
    assert f1_threshold(np.array([])) == 0.5


def test_many_dev_rows_correct_a_threshold_that_few_do_not() -> None:
    """The probabilities are far too low: on dev, rows from 0.2 on are positive."""
    from epoxy.fusion.decision import f1_threshold

    promised = np.repeat([0.9, 0.2, 0.01], [50, 100, 850])
    shown, right = np.array([0.9, 0.2, 0.2, 0.01]), np.array([True, True, True, False])

    few = f1_threshold(promised, shown, right)
    many = f1_threshold(promised, np.repeat(shown, 300), np.repeat(right, 300))

    assert few == pytest.approx((0.2 + 0.9) / 2)
    assert many == pytest.approx((0.01 + 0.2) / 2)


def test_a_given_class_balance_is_where_the_posterior_starts(train: Split, dev: Split) -> None:
    model = Fusion(class_balance={"ham": 3.0, "spam": 1.0}).fit(train, dev)

    np.testing.assert_allclose(model.pool_.prior, [0.75, 0.25])


# explanations


@pytest.mark.parametrize("row", range(6))
def test_voices_and_experts_add_up_to_the_log_odds(row: int, model: Fusion, test: Split) -> None:
    said = model.explain(test, row)

    assert said.start + sum(voice.weight for voice in said.voices) == pytest.approx(said.log_odds)
    assert said.start + sum(said.experts.values()) == pytest.approx(said.log_odds)
    odds = np.log(said.probabilities[said.label] / said.probabilities[said.against])
    assert odds == pytest.approx(said.log_odds)


def test_an_explanation_names_votes_loans_and_hand_labels(model: Fusion, test: Split) -> None:
    row = int(np.flatnonzero(test.votes.covered)[0])

    said = model.explain(test, row)

    kinds = {voice.origin for voice in said.voices}
    assert {"own", "lent", "hand", "row"} <= kinds
    lent = next(voice for voice in said.voices if voice.origin == "lent")
    assert lent.distance is not None
    assert lent.distance >= 0
    text = str(said)
    assert "hand-labelled row" in text
    assert "lent by row" in text
    assert "by expert: majority" in text
    json.dumps(said.to_dict())


def test_a_loan_is_the_one_reach_finds(model: Fusion, train: Split, test: Split) -> None:
    found = epoxy.reach(train, test)
    said = model.explain(test, 4)

    for voice in said.voices:
        if voice.origin == "lent":
            source = train.votes.index_of(voice.source)
            assert voice.lender == found.lender[4, source]
            assert voice.distance == pytest.approx(found.distance[4, source], abs=1e-6)


# report


def test_the_report_has_a_reliability_curve_and_a_line_per_expert(
    model: Fusion, test: Split
) -> None:
    report = model.report(test)

    assert [row["expert"] for row in report.rows] == list(model.weights_)
    curve = report.summary["reliability"]
    assert sum(point["rows"] for point in curve) == 500
    assert report.summary["hand labels"] == 60
    json.dumps(report.to_dict())


def test_the_report_of_an_f1_model_scores_its_decisions(
    train: Split, dev: Split, test: Split
) -> None:
    model = Fusion(metric="f1", positive="spam").fit(train, dev)
    said, truth = model.predict(test) == "spam", test.y == 1

    found = model.report(test).summary["at threshold"]

    assert found["threshold"] == model.threshold_
    assert found["f1"] == pytest.approx(2 * (said & truth).sum() / (said.sum() + truth.sum()))


def test_a_report_needs_no_labels(model: Fusion, test: Split) -> None:
    assert "scores" not in model.report(unlabelled(test)).summary


# storage and scikit-learn


@pytest.mark.parametrize("with_dev", [True, False])
def test_a_saved_model_answers_bit_for_bit(
    with_dev: bool, tmp_path, train: Split, dev: Split, test: Split
) -> None:
    model = Fusion(metric="f1", abstain="?").fit(train, dev if with_dev else None)

    loaded = epoxy.load(model.save(tmp_path / "model"))

    np.testing.assert_array_equal(loaded.predict_proba(test), model.predict_proba(test))
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert str(loaded.explain(test, 3)) == str(model.explain(test, 3))
    assert loaded.get_params() == model.get_params()


def test_chosen_experts_survive_storage(tmp_path, train: Split, dev: Split, test: Split) -> None:
    model = Fusion([Majority(), Neighbours(k=3)], class_balance=[0.5, 0.5])

    loaded = epoxy.load(model.fit(train, dev).save(tmp_path / "model"))

    assert loaded.experts == model.experts
    np.testing.assert_array_equal(loaded.predict_proba(test), model.predict_proba(test))


def test_saved_folders_hold_no_train_labels(tmp_path, dev: Split) -> None:
    model = Fusion().fit(draw(400, 1), dev)

    model.save(tmp_path / "model")

    names = json.loads((tmp_path / "model" / "model.json").read_text())["arrays"]
    assert "dev/y" in names
    assert "train/y" not in names


def test_clones_have_the_same_parameters_and_no_memory(model: Fusion, test: Split) -> None:
    copy = clone(Fusion(metric="f1", positive="spam", seed=3))

    assert copy.get_params() == Fusion(metric="f1", positive="spam", seed=3).get_params()
    with pytest.raises(NotFitted, match="call fit first"):
        clone(model).predict_proba(test)


# experts


class Contrarian:
    """An expert in one place: always for the first class."""

    name = "contrarian"

    def fit(self, lessons):
        return [_Always(each.n_classes) for each in lessons]


class _Always:
    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def evidence(self, rows, read=None):
        return np.tile(np.where(np.arange(self.n_classes) == 0, 1.0, -1.0), (len(rows), 1))

    def reasons(self, row, material):
        return []


def test_an_added_expert_is_pooled_and_a_useless_one_is_quiet(
    tmp_path, train: Split, dev: Split, test: Split
) -> None:
    model = Fusion([*default(), Contrarian()]).fit(train, dev)

    assert model.weights_["contrarian"] < 0.3
    assert model.score(test) > 0.88
    assert model.explain(test, 0).experts["contrarian"] != 0
    with pytest.raises(StoreError, match="expert 'contrarian' cannot be saved"):
        model.save(tmp_path / "model")


@pytest.mark.parametrize("expert", default(), ids=lambda each: each.name)
def test_every_expert_can_be_left_out(expert, train: Split, dev: Split, test: Split) -> None:
    others = [each for each in default() if each != expert]

    assert Fusion(others).fit(train, dev).score(test) > 0.85


@pytest.mark.parametrize(
    "expert",
    [Majority(), Reach(), Head(), Neighbours(), Pupil()],
    ids=lambda each: each.name,
)
def test_every_expert_can_stand_alone(expert, train: Split, dev: Split, test: Split) -> None:
    model = Fusion([expert]).fit(train, dev)

    assert list(model.weights_) == [expert.name]
    np.testing.assert_allclose(model.evidence(test).mean(axis=2), 0, atol=1e-6)
    assert model.score(test) > 0.65


def test_echo_without_teachers_repeats_the_prior(train: Split, dev: Split, test: Split) -> None:
    proba = Fusion([Echo()]).fit(train, dev).predict_proba(test)

    assert np.ptp(proba, axis=0).max() < 1e-6


def test_leaving_one_row_out_in_closed_form_is_exact() -> None:
    from epoxy.fusion.experts import ridge

    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(12, 20)), rng.normal(size=(12, 2))

    def left_out(row: int, penalty: float) -> float:
        kept = np.arange(12) != row
        middle, mean = inputs[kept].mean(axis=0), targets[kept].mean(axis=0)
        found = ridge.fit(inputs[kept] - middle, targets[kept] - mean, penalty)
        answer = (inputs[row] - middle) @ found.weights + mean
        return float(((answer - targets[row]) ** 2).sum())

    centred = inputs - inputs.mean(axis=0), targets - targets.mean(axis=0)
    for penalty in (0.1, 10.0):
        loss = ridge.fit(*centred, penalty).loss
        assert loss == pytest.approx(sum(left_out(row, penalty) for row in range(12)))


# bad input


def test_a_split_is_expected(model: Fusion) -> None:
    with pytest.raises(ParameterError, match="expected a Split, got list"):
        model.predict_proba([[1, 2]])


def test_sources_must_agree(model: Fusion, test: Split) -> None:
    other = Split(test.votes.only(["source_1", "source_0"]), test.vectors)
    with pytest.raises(AlignmentError, match="same sources and classes"):
        model.predict_proba(other)


def test_dimensions_must_agree(model: Fusion, test: Split) -> None:
    with pytest.raises(VectorError, match="dimension 8, got 5"):
        model.predict_proba(Split(test.votes, test.vectors[:, :5]))


def test_scores_need_labels(model: Fusion, test: Split) -> None:
    with pytest.raises(ParameterError, match="score needs true labels"):
        model.score(unlabelled(test))


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"metric": "auc"}, UnknownName, "no metric named 'auc'"),
        ({"metric": "f1", "positive": "egg"}, UnknownName, "no class named 'egg'"),
        ({"experts": []}, ParameterError, "one at least"),
        ({"experts": [Majority(), Majority()]}, ParameterError, "different names"),
        ({"class_balance": [0.5]}, ParameterError, "class_balance must give a share"),
        ({"class_balance": {"egg": 1.0}}, UnknownName, "no class named 'egg'"),
        ({"class_balance": [1.0, 0.0]}, ParameterError, "above 0"),
    ],
)
def test_bad_parameters_say_so(parameters, error, match, train: Split, dev: Split) -> None:
    with pytest.raises(error, match=match):
        Fusion(**parameters).fit(train, dev)
