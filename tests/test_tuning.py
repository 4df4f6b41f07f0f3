from __future__ import annotations

import numpy as np
import pytest

import epoxy
from epoxy.datasets import digits_lfs, read_folder
from epoxy.diagnostics import scores
from epoxy.errors import LabelError, NotIdentifiable, ParameterError, UnknownName
from epoxy.scoring import ONE_BY_ONE, SUMS, score_named
from epoxy.tuning import standard_error


def make(n_rows=400, seed=0, n_sources=4, smooth=True, seen=0.1) -> epoxy.Split:
    """Two bands per class; a source sees a tenth of the rows and is right nine times in ten."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, np.pi, n_rows)
    y = (np.floor(angle / np.pi * 4) % 2).astype(int)
    if not smooth:
        y = rng.integers(0, 2, n_rows)
    matrix = np.where(rng.random((n_rows, n_sources)) < 0.9, y[:, None], 1 - y[:, None])
    matrix[rng.random((n_rows, n_sources)) > seen] = -1
    return epoxy.Split(
        epoxy.Votes(matrix, classes=["no", "yes"]), np.stack([np.cos(angle), np.sin(angle)], 1), y=y
    )


TRAIN, DEV = make(), make(150, seed=1)


def test_tuning_beats_no_extension_and_says_by_how_much():
    model = epoxy.tune(TRAIN, DEV)
    test = make(500, seed=2)

    assert model.search_.best.score > model.search_.without + 0.1
    assert model.score(test) > 0.9
    assert model.search_.expected == pytest.approx(model.score(test), abs=3 * model.search_.spread)
    assert "expected after choosing among" in str(model.search_)


def test_where_nearness_means_nothing_nothing_is_extended_far():
    train, dev = make(smooth=False), make(150, seed=1, smooth=False)

    model = epoxy.tune(train, dev, shared=True)

    assert model.votes_.coverage.mean() < 0.25  # of 1.0 that the largest radius would give


def test_where_rows_have_a_vote_already_luck_on_a_few_rows_extends_nothing():
    for seed in range(10):
        train = make(seed=seed, n_sources=6, smooth=False, seen=0.5)
        dev = make(50, seed=100 + seed, n_sources=6, smooth=False, seen=0.5)

        model = epoxy.tune(train, dev, shared=True)

        assert train.votes.covered.mean() > 0.95
        assert np.isnan(model.radius_).all()


def test_every_setting_scores_what_fitting_it_from_nothing_scores():
    model = epoxy.tune(TRAIN, DEV, "f1")

    for trial in model.search_.trials[::7]:
        label_model = epoxy.Triplet(epoxy.label_models.balance_of(DEV).tolist())
        if trial.balance is not None:
            label_model.set_params(class_balance=list(trial.balance))
        slow = epoxy.Epoxy(label_model, trial.radii).fit(TRAIN)
        found = scores(slow.predict_proba(DEV), DEV.y, DEV.classes)
        assert trial.score == pytest.approx(found["f1"], abs=1e-12)
        assert (slow.predict_proba(DEV) == trial.proba).all()


@pytest.mark.parametrize("scoring", ["f1", "precision", "recall", "jaccard", "average_precision"])
def test_a_score_of_a_class_that_no_dev_row_has_is_refused(scoring):
    dev = DEV.rows(DEV.y == 0)

    with pytest.raises(LabelError, match=f"tuning by {scoring} needs rows that are 'yes'"):
        epoxy.tune(TRAIN, dev, scoring)


def test_resamples_without_a_positive_row_do_not_count_as_an_f1_of_zero():
    y = np.repeat([1, 0], [2, 18])
    right = np.eye(2)[y]

    score = score_named("f1", y, ["no", "yes"])

    missing = ~score.weights[:2].any(axis=0)
    assert missing.any()
    assert (score.scores(right)[~missing] == 1).all()
    assert score.after_choosing([right, right]) == (1, 0)
    assert standard_error(score, right, np.eye(2)[1 - y]) == pytest.approx(
        np.hypot((score.scores(right) - score.scores(np.eye(2)[1 - y]))[~missing].std(), 2 / 20)
    )


def test_more_caution_changes_fewer_radii():
    shared = epoxy.tune(TRAIN, DEV, shared=True).radius_
    bold = epoxy.tune(TRAIN, DEV, caution=0.0)
    careful = epoxy.tune(TRAIN, DEV, caution=100.0)

    assert bold.search_.best.score >= careful.search_.best.score
    np.testing.assert_array_equal(careful.radius_, shared)
    with pytest.raises(ParameterError, match="caution=-1"):
        epoxy.tune(TRAIN, DEV, caution=-1)


def test_train_truth_is_never_read():
    poisoned = epoxy.Split(TRAIN.votes, TRAIN.vectors, y=1 - TRAIN.y)

    np.testing.assert_array_equal(epoxy.tune(TRAIN, DEV).radius_, epoxy.tune(poisoned, DEV).radius_)


def test_a_score_may_be_a_function_of_truth_and_probabilities():
    def agreement(y, proba):
        return float((proba.argmax(axis=1) == y).mean())

    mine = epoxy.tune(TRAIN, DEV, agreement, epoxy.Triplet(), shared=True)
    usual = epoxy.tune(TRAIN, DEV, "accuracy", epoxy.Triplet(), shared=True)

    np.testing.assert_array_equal(mine.radius_, usual.radius_)


def _biased(n_rows, seed):
    """Three sources that say "yes" too readily: a no is called yes three times in ten."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    wrong = rng.random((n_rows, 3)) < np.where(y == 1, 0.02, 0.3)[:, None]
    return epoxy.Split(epoxy.Votes(np.where(wrong, 1 - y[:, None], y[:, None])), y=y)


def test_the_balance_of_a_biased_model_is_moved_against_its_bias():
    train, dev = _biased(2000, 0), _biased(200, 1)

    model = epoxy.tune(train, dev)

    counted = epoxy.label_models.balance_of(dev)
    assert counted[1] == pytest.approx(0.5, abs=0.08)
    assert model.label_model_.class_balance_[1] < counted[1] - 0.05
    assert model.search_.unextended.balance == model.search_.best.balance


def test_f1_moves_the_threshold_through_the_balance():
    rng = np.random.default_rng(0)

    def rare(n_rows):
        y = (rng.random(n_rows) < 0.06).astype(int)
        right = rng.random((n_rows, 4)) < 0.75
        return epoxy.Split(epoxy.Votes(np.where(right, y[:, None], 1 - y[:, None])), y=y)

    train, dev, test = rare(3000), rare(600), rare(3000)
    counted = epoxy.Triplet(epoxy.label_models.balance_of(dev).tolist()).fit(train.votes)

    model = epoxy.tune(train, dev, "f1")

    before = scores(counted.predict_proba(test.votes), test.y, test.classes)["f1"]
    assert model.label_model_.class_balance_[1] > 1.4 * counted.class_balance_[1]
    assert scores(model.predict_proba(test), test.y, test.classes)["f1"] > before + 0.1


def test_three_classes_are_tuned_from_counted_towards_equal_shares():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 600, p=[0.8, 0.15, 0.05])
    matrix = np.where(rng.random((600, 4)) < 0.7, y[:, None], rng.integers(0, 3, (600, 4)))
    split = epoxy.Split(epoxy.Votes(matrix, classes=["a", "b", "c"]), y=y)

    model = epoxy.tune(split, split.rows(slice(0, 200)), "f1_macro")

    tried = [t.balance for t in model.search_.trials if t.balance is not None]
    assert any(np.allclose(balance, 1 / 3) for balance in tried)
    assert all(sum(balance) == pytest.approx(1) for balance in tried)


def test_rows_that_were_not_drawn_at_random_take_no_part_where_others_are():
    drawn = ["random"] * 100 + ["least sure"] * 50
    wrong = np.where(np.arange(150) < 100, DEV.y, 1 - DEV.y)
    mixed = epoxy.Split(DEV.votes, DEV.vectors, y=wrong, chosen=drawn)

    model, plain = epoxy.tune(TRAIN, mixed), epoxy.tune(TRAIN, DEV.rows(slice(0, 100)))

    assert model.radius_origin_ == "accuracy on 100 dev rows"
    assert model.search_.without == plain.search_.without


def test_an_interrupted_search_returns_the_best_so_far():
    def interrupt(done, total):
        if done == 5:
            raise KeyboardInterrupt

    model = epoxy.tune(TRAIN, DEV, progress=interrupt)

    assert not model.search_.complete
    assert len(model.search_.trials) == 5
    assert "interrupted" in str(model.search_)


def test_splits_without_vectors_are_tuned_to_no_extension():
    model = epoxy.tune(epoxy.Split(TRAIN.votes), epoxy.Split(DEV.votes, y=DEV.y))

    assert np.isnan(model.radius_).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: epoxy.tune(TRAIN, epoxy.Split(DEV.votes, DEV.vectors)),
            LabelError,
            "needs true labels",
        ),
        (lambda: epoxy.tune(TRAIN, DEV, "acuracy"), UnknownName, "did you mean 'accuracy'"),
        (
            lambda: epoxy.tune(TRAIN, DEV, "acc"),
            UnknownName,
            "no scoring named 'acc'; did you mean 'acc",
        ),
        (lambda: epoxy.tune(TRAIN, DEV, "r2"), UnknownName, "no scoring named 'r2'"),
        (
            lambda: epoxy.tune(TRAIN, DEV, "f1", positive="maybe"),
            UnknownName,
            "no class named 'maybe'",
        ),
        (
            lambda: epoxy.tune(make(n_sources=2), make(50, n_sources=2)),
            NotIdentifiable,
            "no setting gives votes",
        ),
        (
            lambda: epoxy.tune(epoxy.Split(TRAIN.votes.rows([])), epoxy.Split(DEV.votes, y=DEV.y)),
            NotIdentifiable,
            "no setting gives votes",
        ),
    ],
)
def test_what_cannot_be_tuned_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_score_agrees_with_scikit_learn():
    from sklearn import metrics

    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 2, 80), rng.random(80)
    proba = np.stack([1 - p, p], axis=1)

    def score(name, **more):
        return score_named(name, y, ["a", "b"], **more).score(proba)

    assert score("accuracy") == pytest.approx(metrics.accuracy_score(y, p > 0.5))
    assert score("f1") == pytest.approx(metrics.f1_score(y, p > 0.5))
    assert score("f1", positive="a") == pytest.approx(metrics.f1_score(1 - y, p <= 0.5))
    assert score("log_loss") == pytest.approx(-metrics.log_loss(y, p))
    assert score("roc_auc") == pytest.approx(metrics.roc_auc_score(y, p))
    assert score("roc_auc", positive="a") == pytest.approx(metrics.roc_auc_score(1 - y, 1 - p))
    assert score("neg_log_loss") == score("log_loss")
    assert score("precision") == pytest.approx(metrics.precision_score(y, p > 0.5))
    assert score("recall", positive="a") == pytest.approx(metrics.recall_score(1 - y, p <= 0.5))


@pytest.mark.parametrize("name", ["f1", "precision", "recall"])
def test_a_score_of_one_class_is_the_mean_over_many_unless_one_is_named(name):
    from sklearn import metrics

    rng = np.random.default_rng(1)
    y, proba, classes = rng.integers(0, 3, 90), rng.random((90, 3)), ["a", "b", "c"]
    theirs = getattr(metrics, f"{name}_score")

    each = theirs(y, proba.argmax(axis=1), average=None)

    assert score_named(name, y, classes).score(proba) == pytest.approx(each.mean())
    assert score_named(f"{name}_macro", y, classes).score(proba) == pytest.approx(each.mean())
    assert score_named(name, y, classes, positive="b").score(proba) == pytest.approx(each[1])


def test_every_score_that_is_offered_can_be_computed():
    rng = np.random.default_rng(2)
    y, p = rng.integers(0, 2, 60), rng.random(60)

    for name in (*SUMS, *ONE_BY_ONE):
        assert np.isfinite(score_named(name, y, ["a", "b"]).score(np.stack([1 - p, p], axis=1)))


def test_a_larger_resample_weight_counts_a_row_as_often_as_it_is_drawn():
    rng = np.random.default_rng(3)
    y, proba = rng.integers(0, 3, 40), rng.random((40, 3))
    scoring = score_named("f1_macro", y, ["a", "b", "c"])

    drawn = [np.repeat(np.arange(40), times.astype(int)) for times in scoring.weights.T[:5]]

    again = [score_named("f1_macro", y[r], ["a", "b", "c"]).score(proba[r]) for r in drawn]
    np.testing.assert_allclose(scoring.scores(proba)[:5], again)


def test_resampled_scores_spread_as_theory_says():
    y = np.zeros(400, dtype=int)
    proba = np.where(np.arange(400)[:, None] < 300, [[0.9, 0.1]], [[0.1, 0.9]])

    spread = score_named("accuracy", y, ["a", "b"]).scores(proba).std()

    # a share of 0.75 on 400 rows has a standard error of 0.0217; 200 resamples tell it within a tenth
    assert spread == pytest.approx(0.0217, abs=0.004)


def test_choosing_among_noise_is_expected_to_give_chance():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 100)
    guesses = [np.eye(2)[rng.integers(0, 2, 100)] for _ in range(60)]
    scoring = score_named("accuracy", y, ["a", "b"])

    expected, _ = scoring.after_choosing(guesses)

    assert max(scoring.score(each) for each in guesses) > 0.57
    assert expected == pytest.approx(0.5, abs=0.06)


def test_spam_reaches_the_papers_score_by_the_default_call(shared_data):
    data = read_folder(shared_data / "spam")

    model = epoxy.tune(data.train, data.dev, scoring="accuracy")

    assert model.score(data.test) >= 0.896


def test_without_dev_radii_come_from_agreement_and_the_report_says_so():
    model = epoxy.tune(TRAIN)
    plain = epoxy.Epoxy(radius={}).fit(TRAIN)
    test = make(500, seed=2)

    assert np.nanmax(model.radius_) > 0
    assert model.score(test) > plain.score(test)
    assert "without any true label" in model.report(test).summary["radii"]
    with pytest.raises(ParameterError, match="MajorityVote does not"):
        epoxy.tune(TRAIN, label_model=epoxy.MajorityVote())


def test_tuning_on_one_row_does_not_say_what_to_expect():
    train, dev, _ = epoxy.datasets.load("digits").prepare(
        [each for each in vars(digits_lfs).values() if hasattr(each, "vote")]
    )

    tuned = epoxy.tune(train, dev.rows([0]))

    assert "too few rows to say what to expect after choosing" in str(tuned.search_)
    verdict = epoxy.theory.verdict(tuned, dev.rows([0]))
    assert "too few rows to say what is expected after choosing" in verdict.text
    assert "nan" not in verdict.text


def test_other_label_models_and_rules_can_be_tuned():
    for label_model in (epoxy.MajorityVote(), epoxy.DawidSkene()):
        model = epoxy.tune(TRAIN, DEV, label_model=label_model, shared=True, weighting="k-nearest")
        assert model.search_.best.score > 0.8
