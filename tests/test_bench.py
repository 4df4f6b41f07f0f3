"""The benchmark: one protocol that cannot leak, cells that survive a kill, columns equal to hand runs."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

import epoxy
from epoxy import bench
from epoxy.bench import BenchColumn, BenchSettings, Context, Prediction, loop
from epoxy.bench.loop import Cell
from epoxy.bench.task import TaskScoring
from epoxy.errors import EpoxyError, LabelError, ParameterError, StoreError, UnknownName

CLASSES = ["ham", "spam"]
LABELS = ("WS-LM", "Triplet", "MV-LM")
JOINT = ("LR-xv", "Self-train")
LIGHT = (*LABELS, "TS-NFT", "WS-NFT", "Epoxy")


def write_folder(home, *, dev=40, test=60, vectors=True, one_class=False, meta=None, seed=0):
    """A data folder of two easy classes and five sources of 85 % accuracy."""
    rng = np.random.default_rng(seed)
    home.mkdir(parents=True)
    for name, n_rows in (("train", 120), ("dev", dev), ("test", test)):
        if not n_rows:
            continue
        y = rng.integers(0, 2, n_rows)
        if one_class and name == "dev":
            y[:] = 1
        right = rng.random((n_rows, 5)) < 0.85
        votes = np.where(right, y[:, None], 1 - y[:, None])
        votes[rng.random((n_rows, 5)) < 0.4] = -1
        np.save(home / f"votes-{name}.npy", votes.astype(np.int8))
        if vectors:
            centre = np.where(y[:, None] == 1, 1.0, -1.0) * np.ones(4)
            points = np.c_[centre + 1.2 * rng.normal(size=(n_rows, 4)), np.full(n_rows, 2.0)]
            np.save(home / f"vectors-{name}.npy", points.astype(np.float16))
        table = {
            "id": [f"{name}-{row}" for row in range(n_rows)],
            "text": [f"row {row}" for row in range(n_rows)],
            "label": [CLASSES[each] for each in y],
        }
        parquet.write_table(pa.table(table), home / f"{name}.parquet")
    about = {"name": home.name, "classes": CLASSES, "sources": list("abcde"), "metric": "accuracy"}
    (home / "meta.json").write_text(json.dumps(about | (meta or {})))
    return home


def hush(folder, n_rows):
    """Let every source abstain on the first train rows."""
    votes = np.load(folder / "votes-train.npy")
    votes[:n_rows] = -1
    np.save(folder / "votes-train.npy", votes)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "toy")


def quick(methods, **more):
    return BenchSettings(methods=methods, seeds=2, **more)


def only(monkeypatch, *columns):
    monkeypatch.setattr(loop, "COLUMNS", columns)


def column(name):
    return next(each for each in bench.COLUMNS if each.name == name)


def constant(context):
    return Prediction(np.tile([0.3, 0.7], (context.task.test.n_rows, 1)))


# the protocol


def test_a_method_sees_no_label_of_train_or_test(folder, tmp_path, monkeypatch):
    seen = []

    def spy(context):
        seen.append(context.task)
        return constant(context)

    only(monkeypatch, BenchColumn("spy", spy))
    bench.run([folder], tmp_path / "out", quick(("spy",)))

    (task,) = seen
    assert (task.train.y, task.test.y) == (None, None)
    assert task.dev.y is not None
    assert "label" not in str(task.rows)
    hidden = bench.open_task(folder)[1].truth
    arrays = [each for each in vars(task).values() if isinstance(each, np.ndarray)]
    assert not any(np.array_equal(each, hidden) for each in arrays)


def test_every_light_column_beats_chance_on_easy_data(folder, tmp_path):
    every = {*LIGHT, *JOINT, "Fusion"}
    results = bench.run([folder], tmp_path / "out", quick(tuple(every)))

    means = {each["method"]: each["mean"] for each in results["results"]}
    assert set(means) == every
    # 60 test rows, 5 sources of 85 %: 75 is three standard errors (6.5) above 50
    assert {name: mean for name, mean in means.items() if mean < 75} == {}


def test_random_columns_run_once_per_seed_and_others_once(folder, tmp_path, monkeypatch):
    def noisy(context):
        rng = np.random.default_rng(context.seed)
        return Prediction(rng.dirichlet([1, 1], context.task.test.n_rows))

    only(monkeypatch, BenchColumn("noisy", noisy, random=True), BenchColumn("constant", constant))
    results = bench.run([folder], tmp_path / "out", BenchSettings(seeds=4))

    noisy_result, constant_result = results["results"]
    assert (noisy_result["seeds"], constant_result["seeds"]) == (4, 1)
    runs = pandas.read_csv(tmp_path / "out" / "bench.csv")
    scores = runs.loc[runs["method"] == "noisy", "score"]
    assert len(runs) == 5
    assert noisy_result["mean"] == pytest.approx(np.mean(scores))
    assert noisy_result["sd"] == pytest.approx(np.std(scores, ddof=1))
    assert constant_result["sd"] == 0


def test_few_dev_rows_are_drawn_anew_with_each_seed_and_none_are_none(
    folder, tmp_path, monkeypatch
):
    seen = []

    def spy(context):
        seen.append(None if context.task.dev is None else tuple(context.task.dev.ids))
        return constant(context)

    only(monkeypatch, BenchColumn("spy", spy))
    bench.run([folder], tmp_path / "out", BenchSettings(seeds=3, dev_rows=(10, 0)))

    *drawn, nothing = seen
    assert [len(ids) for ids in drawn] == [10, 10, 10]
    assert len(set(drawn)) == 3
    assert nothing is None


# how sure a lead is


def margins_of(folder, tmp_path, monkeypatch, right, **settings):
    """Results of columns that answer right on so many of the test rows, the first ones."""
    truth = bench.open_task(folder)[1].truth

    def answering(name, count):
        def run(context):
            guess = np.where(np.arange(len(truth)) < count, truth, 1 - truth)
            return Prediction(np.eye(2)[guess])

        return BenchColumn(name, run)

    only(monkeypatch, *(answering(name, count) for name, count in right.items()))
    results = bench.run([folder], tmp_path / "out", BenchSettings(**settings))
    return {each["method"]: each["margin"] for each in results["results"]}


def test_a_lead_has_the_interval_of_a_paired_bootstrap(tmp_path, monkeypatch):
    folder = write_folder(tmp_path / "toy", test=400)

    found = margins_of(folder, tmp_path, monkeypatch, {"Fusion": 360, "other": 340})

    margin, low, high, error = found["other"]
    assert found["Fusion"] is None
    assert margin == pytest.approx(5.0)
    # twenty rows of 400 differ, all in one direction: s.e. = 100·√(p(1−p)/n) with p = 0.05
    assert error == pytest.approx(100 * np.sqrt(0.05 * 0.95 / 400), rel=0.1)
    assert low == pytest.approx(margin - 1.96 * error, abs=0.4)
    assert high == pytest.approx(margin + 1.96 * error, abs=0.4)


def test_draws_of_dev_rows_widen_the_interval(folder, tmp_path, monkeypatch):
    truth = bench.open_task(folder)[1].truth

    def lucky(context):
        count = 10 + 10 * context.seed
        return Prediction(np.eye(2)[np.where(np.arange(60) < count, truth, 1 - truth)])

    def steady(context):
        return Prediction(np.eye(2)[np.where(np.arange(60) < 30, truth, 1 - truth)])

    errors = {}
    for name, answer in (("lucky", lucky), ("steady", steady)):
        only(monkeypatch, BenchColumn("Fusion", answer), BenchColumn("other", constant))
        settings = BenchSettings(seeds=5, dev_rows=(10,))
        results = bench.run([folder], tmp_path / name, settings)
        errors[name] = results["results"][1]["margin"][3]

    assert errors["lucky"] > 1.1 * errors["steady"]


def test_one_column_is_done_again_over_the_others(folder, tmp_path, monkeypatch):
    calls = []

    def counted(name):
        def run(context):
            calls.append(name)
            return constant(context)

        return BenchColumn(name, run)

    only(monkeypatch, counted("Fusion"), counted("other"))
    bench.run([folder], tmp_path / "out")
    results = bench.run([folder], tmp_path / "out", BenchSettings(methods=("Fusion",)), fresh=True)

    assert calls == ["Fusion", "other", "Fusion"]
    assert results["results"][1]["margin"] == [0, 0, 0, 0]


# cells


def test_a_killed_benchmark_continues_where_it_was(folder, tmp_path, monkeypatch):
    calls = []

    def fragile(context):
        calls.append(context.seed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return constant(context)

    only(monkeypatch, BenchColumn("fragile", fragile, random=True))
    with pytest.raises(KeyboardInterrupt):
        bench.run([folder], tmp_path / "out", BenchSettings(seeds=4))
    results = bench.run([folder], tmp_path / "out", BenchSettings(seeds=4))

    whole = bench.run([folder], tmp_path / "whole", BenchSettings(seeds=4))
    assert calls[:5] == [0, 1, 2, 2, 3]
    assert results["results"][0]["seeds"] == 4
    assert [each["mean"] for each in results["results"]] == [
        each["mean"] for each in whole["results"]
    ]


def test_a_cell_cut_off_while_written_is_done_again(folder, tmp_path, monkeypatch):
    only(monkeypatch, BenchColumn("constant", constant))
    bench.run([folder], tmp_path / "out")
    (cell,) = (tmp_path / "out" / "cells").rglob("*.json")
    whole = cell.read_text()
    cell.write_text(whole[:40])

    bench.run([folder], tmp_path / "out")

    assert json.loads(cell.read_text())["scores"] == json.loads(whole)["scores"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"settings": BenchSettings(class_balance=(0.5, 0.5))},
        {"dev_rows": 10},
        {"column": BenchColumn("other", constant)},
    ],
)
def test_whatever_determines_a_cell_changes_its_name(folder, change):
    task, _ = bench.open_task(folder)
    plain = {
        "task": task,
        "column": BenchColumn("one", constant),
        "seed": 0,
        "settings": BenchSettings(),
    }

    assert Cell(**plain).path != Cell(**(plain | change)).path


# what cannot be done is said, and the rest is done


def reasons(results):
    return {(each["data"], each["method"]): each["reason"] for each in results["skipped"]}


def test_without_dev_the_columns_that_need_none_still_run(tmp_path):
    folder = write_folder(tmp_path / "toy", dev=0)

    results = bench.run([folder], tmp_path / "out", quick(LIGHT))

    assert {each["method"] for each in results["results"]} == {*LABELS, "WS-NFT"}
    assert "dev.parquet with labels" in reasons(results)["toy", "TS-NFT"]


def test_without_vectors_the_label_models_still_run(tmp_path):
    folder = write_folder(tmp_path / "toy", vectors=False)

    results = bench.run([folder], tmp_path / "out", quick(LIGHT))

    assert {each["method"] for each in results["results"]} == set(LABELS)
    assert "vectors-train.npy, vectors-dev.npy" in reasons(results)["toy", "WS-NFT"]


def test_where_all_hand_labels_are_of_one_class_the_heads_answer_that_class(tmp_path):
    folder = write_folder(tmp_path / "toy", one_class=True)
    truth = bench.open_task(folder)[1].truth

    results = bench.run([folder], tmp_path / "out", quick((*LABELS, "TS-NFT", *JOINT)))

    means = {each["method"]: each["mean"] for each in results["results"]}
    assert set(means) == {*LABELS, "TS-NFT", *JOINT}
    for name in ("TS-NFT", *JOINT):
        assert means[name] == pytest.approx(100 * truth.mean())


@pytest.mark.parametrize("dev", [2, 3])
def test_with_hardly_any_dev_rows_nothing_breaks(tmp_path, dev):
    folder = write_folder(tmp_path / "toy", dev=dev, seed=3)

    results = bench.run([folder], tmp_path / "out", quick(LIGHT))

    done = {each["method"] for each in results["results"]}
    assert done | {method for _, method in reasons(results)} == set(LIGHT)
    assert done >= {"WS-LM", "MV-LM", "WS-NFT"}


def test_fewer_dev_rows_than_asked_for_are_all_used_and_it_is_said(folder, tmp_path):
    said = []
    settings = BenchSettings(methods=("MV-LM",), seeds=3, dev_rows=(100,))

    results = bench.run([folder], tmp_path / "out", settings, said=said.append)

    assert said == ["toy: 100 dev rows were asked for and there are 40; all are used"]
    assert results["notes"] == said
    assert results["results"][0]["seeds"] == 1


# errors


def opened(tmp_path, **meta):
    return bench.open_task(write_folder(tmp_path / "toy", meta=meta))


def without_train(tmp_path):
    home = write_folder(tmp_path / "toy")
    (home / "train.parquet").unlink()
    return bench.open_task(home)


def twice(tmp_path):
    folders = [write_folder(tmp_path / where / "toy") for where in ("a", "b")]
    bench.run(folders, tmp_path / "out", quick(("MV-LM",)))


def in_a_file(tmp_path):
    (tmp_path / "out").write_text("a file")
    bench.run([], tmp_path / "out")


def no_result(tmp_path, content=""):
    (tmp_path / "bench.json").write_text(content)
    bench.read(tmp_path / "bench.json")


def asked(tmp_path, **settings):
    bench.run([], tmp_path, BenchSettings(**settings))


@pytest.mark.parametrize(
    ("make", "given", "error", "message"),
    [
        (opened, {"name": "../elsewhere"}, StoreError, "without slashes"),
        (opened, {"name": ""}, StoreError, "without slashes"),
        (opened, {"name": ".hidden"}, StoreError, "without slashes"),
        (opened, {"class_balance": [0.5]}, ParameterError, "meta.json in"),
        (opened, {"class_balance": "even"}, ParameterError, "meta.json in"),
        (opened, {"class_balance": {"ham": 0.5}}, ParameterError, "meta.json in"),
        (opened, {"metric": "auc"}, UnknownName, "'auc'"),
        (opened, {"positive": "eggs"}, UnknownName, "'eggs'"),
        (without_train, {}, StoreError, "no train.parquet"),
        (twice, {}, ParameterError, "'toy'; rename one"),
        (in_a_file, {}, StoreError, "name another folder"),
        (no_result, {}, ParameterError, "is not a benchmark result"),
        (no_result, {"content": '{"format": 9}'}, ParameterError, "format 9"),
        (asked, {"methods": ("WS-LN",)}, UnknownName, "did you mean 'WS-LM'"),
        (asked, {"seeds": 0}, ParameterError, "seeds=0"),
        (asked, {"dev_rows": (-1,)}, ParameterError, r"dev_rows=\(-1,\)"),
        (asked, {"class_balance": "half"}, ParameterError, "class_balance='half'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, make, given, error, message):
    with pytest.raises(error, match=message):
        make(tmp_path, **given)


# class balance


@pytest.mark.parametrize(
    ("asked", "meta", "expected"),
    [
        ((0.3, 0.7), None, [[0.3, 0.7]]),
        (None, {"class_balance": [0.4, 0.6]}, [[0.4, 0.6]]),
        (None, {"class_balance": {"spam": 0.6, "ham": 0.4}}, [[0.4, 0.6]]),
        ((0.3, 0.7), {"class_balance": [0.4, 0.6]}, [[0.3, 0.7]]),
    ],
)
def test_a_given_balance_goes_before_the_folders(tmp_path, asked, meta, expected):
    task, _ = bench.open_task(write_folder(tmp_path / "toy", meta=meta))

    found = Context(task, BenchSettings(class_balance=asked)).balances()

    assert [each.tolist() for each in found] == expected


def test_a_counted_balance_is_that_of_dev_and_a_tuned_one_tries_more(folder):
    task, _ = bench.open_task(folder)
    share = (task.dev.y.sum() + 1) / (len(task.dev.y) + 2)

    counted = Context(task, BenchSettings(class_balance="dev")).balances()
    tuned = Context(task, BenchSettings(class_balance="tune")).balances()

    assert len(counted) == 1
    assert counted[0][1] == pytest.approx(share)
    assert len(tuned) > 10


# scores


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.8]), st.booleans()), min_size=1))
def test_the_threshold_is_the_best_of_all_cuts(rows):
    score = np.array([each for each, _ in rows])
    truth = np.array([each for _, each in rows]).astype(int)
    scoring = TaskScoring("f1", 1, 2)
    probabilities = np.c_[1 - score, score]

    found = scoring.value(probabilities, truth)

    cuts = [0.0, 0.15, 0.3, 0.6, 0.9]
    best = max(scoring.scores(scoring.labels(probabilities, cut), truth)["f1"] for cut in cuts)
    assert found == pytest.approx(best) or not truth.any()


def test_accuracy_has_no_threshold_and_rows_of_nan_are_left_out():
    probabilities = np.array([[0.9, 0.1], [np.nan, np.nan], [0.2, 0.8]])

    assert TaskScoring("accuracy", 1, 2).threshold(probabilities, np.array([0, 1, 1])) is None
    assert TaskScoring("accuracy", 1, 2).value(probabilities, np.array([0, 1, 1])) == 100
    assert TaskScoring("f1", 1, 2).threshold(None, None) == 0.5
    assert TaskScoring.named("f1", None, ["a", "b"]).positive == 1
    assert TaskScoring.named("f1", None, ["a", "b", "c"]).positive is None


def test_the_fusion_column_equals_the_model_run_by_hand_and_decides_by_its_own_rule(tmp_path):
    folder = write_folder(tmp_path / "rare", meta={"metric": "f1", "positive": "spam"})
    data = epoxy.datasets.read_folder(folder)

    results = bench.run([folder], tmp_path / "out", quick(("Fusion", "TS-NFT")))["results"]

    found = next(each for each in results if each["method"] == "Fusion")
    assert all(each["f1"] == each["mean"] > 60 for each in results)
    model = epoxy.Fusion(scoring="f1", positive="spam").fit(data.train, data.dev)
    by_hand = model.report(data.test).summary["scores"]
    assert found["mean"] == pytest.approx(100 * by_hand["f1"])


# columns against hand runs


def predict(folder, method, settings=None):
    task, _ = bench.open_task(folder)
    context = Context(task, settings or BenchSettings())
    return task, column(method).run(context)


def by_hand_features(task, split):
    """Unit vectors times 3 and, source by source, whether it casts each vote it casts on train."""
    unit = split.vectors / np.linalg.norm(split.vectors, axis=1, keepdims=True)
    said = [
        split.votes.matrix[:, at] == k for k in (0, 1) for at in range(task.train.votes.n_sources)
    ]
    return np.c_[3 * unit, np.stack(said, axis=1)]


@pytest.mark.parametrize(
    ("name", "features"),
    [("TS-NFT", lambda task, split: split.vectors), ("LR-xv", by_hand_features)],
)
def test_heads_on_hand_labels_are_logistic_regression_by_hand(folder, name, features):
    task, found = predict(folder, name)

    by_hand = LogisticRegression(C=found.facts["C"], max_iter=1000)
    by_hand.fit(features(task, task.dev), task.dev.y)
    expected = by_hand.predict_proba(features(task, task.test))
    np.testing.assert_allclose(found.test, expected, rtol=1e-3, atol=1e-4)


def test_self_training_adds_the_train_rows_it_is_sure_of(folder):
    task, found = predict(folder, "Self-train")
    dev, rows, y = by_hand_features(task, task.dev), by_hand_features(task, task.train), task.dev.y
    labels = np.full(len(rows), -1)
    head = LogisticRegression(C=found.facts["C"], max_iter=1000)

    for _ in range(5):
        known = labels >= 0
        head.fit(np.r_[dev, rows[known]], np.r_[y, labels[known]])
        guess = head.predict_proba(rows)
        labels = np.where(~known & (guess.max(axis=1) > 0.9), guess.argmax(axis=1), labels)
    head.fit(np.r_[dev, rows[labels >= 0]], np.r_[y, labels[labels >= 0]])

    assert (labels >= 0).any()
    np.testing.assert_allclose(
        found.test, head.predict_proba(by_hand_features(task, task.test)), atol=2e-3
    )


def test_the_own_triplet_column_is_the_packages_model_and_ws_lm_the_references(folder):
    task, found = predict(folder, "Triplet")

    assert found.facts.keys() == {"solve", "class_balance"}
    own = {"class_balance": found.facts["class_balance"], "solve": found.facts["solve"]}
    by_hand = epoxy.Triplet(**own).fit(task.train.votes).predict_proba(task.test.votes)
    np.testing.assert_allclose(found.test, by_hand, atol=1e-4)
    assert not np.allclose(found.test, predict(folder, "WS-LM")[1].test, atol=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("snorkel") is None, reason="needs snorkel")
@pytest.mark.filterwarnings("ignore")  # snorkel's own
def test_dp_lm_is_snorkel_by_hand(folder):
    from snorkel.labeling.model import LabelModel

    task, found = predict(folder, "DP-LM", BenchSettings(class_balance=(0.45, 0.55)))

    by_hand = LabelModel(cardinality=2, verbose=False)
    votes = task.train.votes.matrix.astype(int)
    by_hand.fit(votes, class_balance=[0.45, 0.55], n_epochs=100, seed=0, progress_bar=False)
    np.testing.assert_allclose(
        found.test, by_hand.predict_proba(task.test.votes.matrix.astype(int))
    )


def test_a_candidate_that_cannot_answer_is_passed_over(folder):
    task, _ = bench.open_task(folder)
    context = Context(task, BenchSettings())
    right = np.eye(2)[task.dev.y]

    def impossible():
        raise LabelError("cannot")

    assert context.best({"a": impossible, "b": lambda: right}) == "b"
    with pytest.raises(EpoxyError, match="cannot"):
        context.best({"a": impossible})
