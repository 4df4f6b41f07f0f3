from __future__ import annotations

import numpy as np
import pytest

import epoxy
from epoxy.datasets import read_folder
from epoxy.diagnostics import scores
from epoxy.errors import LabelError, NotIdentifiable, ParameterError, UnknownName
from epoxy.scoring import ONE_BY_ONE, SUMS, score_named
from epoxy.tuning.search import _reaches, _score
from epoxy.tuning.trials import TrialEvaluator


def make(n_rows=400, seed=0, n_sources=4, smooth=True) -> epoxy.Split:
    """Two bands per class; a source sees a tenth of the rows and is right nine times in ten."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, np.pi, n_rows)
    y = (np.floor(angle / np.pi * 4) % 2).astype(int)
    if not smooth:
        y = rng.integers(0, 2, n_rows)
    matrix = np.where(rng.random((n_rows, n_sources)) < 0.9, y[:, None], 1 - y[:, None])
    matrix[rng.random((n_rows, n_sources)) > 0.1] = -1
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

    model = epoxy.tune(train, dev, shared=True, simplest=True)

    assert np.isnan(model.radius_).all()


def test_every_setting_scores_what_fitting_it_from_nothing_scores():
    model = epoxy.tune(TRAIN, DEV, "f1")

    for trial in model.search_.trials[::7]:
        label_model = epoxy.Triplet(epoxy.label_models.balance_of(DEV).tolist())
        slow = epoxy.Epoxy(label_model, trial.radii).fit(TRAIN)
        found = scores(slow.predict_proba(DEV), DEV.y, DEV.classes)
        assert trial.score == pytest.approx(found["f1"], abs=1e-12)
        assert (slow.predict_proba(DEV) == trial.proba).all()


def test_radii_between_which_no_vote_changes_are_one_setting():
    measure, known = _score(DEV, "accuracy", None)
    reaches = _reaches(TRAIN, DEV, "cosine", None)
    evaluator = TrialEvaluator((TRAIN, DEV), reaches, epoxy.Triplet(), measure, known)
    step = evaluator.breakpoints[0]

    middle = (step[3] + step[4]) / 2
    assert evaluator.snap(0, middle) == evaluator.snap(0, step[3]) == 4
    assert evaluator.radius(0, 4) == step[3]
    assert evaluator.snap(0, step[0] / 2) == 0
    found = epoxy.reach(TRAIN)
    assert (found.extend(middle).matrix[:, 0] == found.extend(step[3]).matrix[:, 0]).all()


def test_ties_go_to_the_smaller_radius():
    model = epoxy.tune(TRAIN, DEV, shared=True)
    equal = [t for t in model.search_.trials if t.score == model.search_.best.score]

    radii = [np.nanmax(np.nan_to_num(trial.radii, nan=0.0)) for trial in equal]
    assert np.nanmax(np.nan_to_num(model.search_.best.radii, nan=0.0)) == min(radii)


def test_the_simplest_setting_within_one_error_is_no_larger():
    best = epoxy.tune(TRAIN, DEV, shared=True)
    simple = epoxy.tune(TRAIN, DEV, shared=True, simplest=True)

    assert np.nanmax(simple.radius_) <= np.nanmax(best.radius_)


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


@pytest.mark.parametrize("scoring", ["accuracy", "f1", "log_loss", "balanced_accuracy", "roc_auc"])
def test_any_score_can_be_maximised(scoring):
    model = epoxy.tune(TRAIN, DEV, scoring, shared=True)

    assert model.search_.scoring == scoring
    assert model.search_.best.score == max(t.score for t in model.search_.trials)


def test_a_score_may_be_a_function_of_truth_and_probabilities():
    def agreement(y, proba):
        return float((proba.argmax(axis=1) == y).mean())

    mine = epoxy.tune(TRAIN, DEV, agreement, shared=True)
    usual = epoxy.tune(TRAIN, DEV, "accuracy", shared=True)

    np.testing.assert_array_equal(mine.radius_, usual.radius_)


def test_the_class_balance_can_be_tuned_too():
    model = epoxy.tune(TRAIN, DEV, class_balance="tune", label_model=epoxy.Triplet([0.95, 0.05]))

    tried = {trial.balance for trial in model.search_.trials}
    assert (0.5, 0.5) in tried
    if model.search_.best.balance is not None:
        assert model.label_model_.class_balance_.tolist() == list(model.search_.best.balance)


def test_an_interrupted_search_returns_the_best_so_far():
    def interrupt(done, total):
        if done == 5:
            raise KeyboardInterrupt

    model = epoxy.tune(TRAIN, DEV, progress=interrupt)

    assert not model.search_.complete
    assert len(model.search_.trials) == 5
    assert "interrupted" in str(model.search_)


def test_other_label_models_and_rules_can_be_tuned():
    for label_model in (epoxy.MajorityVote(), epoxy.DawidSkene()):
        model = epoxy.tune(TRAIN, DEV, label_model=label_model, shared=True, weighting="k-nearest")
        assert model.search_.best.score > 0.8


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


def test_spam_with_the_papers_balance_reaches_the_papers_score(shared_data):
    data = read_folder(shared_data / "spam")

    model = epoxy.tune(data.train, data.dev, label_model=epoxy.Triplet([0.4, 0.6]))

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


def _scripted(monkeypatch, score_of):
    """A search whose settings score what `score_of(steps)` says, whatever the data."""
    evaluate = TrialEvaluator.evaluate

    def scripted(self, steps, balance):
        right = round(score_of(tuple(steps)) * len(self.known))
        proba = evaluate(self, steps, balance)
        truth = self.score.y
        guess = np.where(np.arange(len(truth)) < right, truth, 1 - truth)
        return np.eye(proba.shape[1])[guess]

    monkeypatch.setattr(TrialEvaluator, "evaluate", scripted)


def test_of_shared_radii_that_score_the_same_the_smallest_is_taken(monkeypatch):
    _scripted(monkeypatch, lambda steps: 0.8 if any(steps) else 0.6)

    model = epoxy.tune(TRAIN, DEV, shared=True)

    extended = [t.radii for t in model.search_.trials if not np.isnan(t.radii).all()]
    smallest = np.nanmin([np.nanmax(radii) for radii in extended])
    assert len(extended) > 3
    assert np.nanmax(model.search_.best.radii) == smallest


def test_of_one_sources_radii_that_score_the_same_the_smallest_is_taken(monkeypatch):
    _scripted(monkeypatch, lambda steps: 0.9 if steps[0] and not any(steps[1:]) else 0.5)

    model = epoxy.tune(TRAIN, DEV, caution=0.0)

    alone = [
        t.radii[0]
        for t in model.search_.trials
        if not np.isnan(t.radii[0]) and np.isnan(t.radii[1:]).all()
    ]
    assert len(alone) > 3
    assert model.search_.best.score == pytest.approx(0.9, abs=0.01)
    assert model.search_.best.radii[0] == min(alone)
