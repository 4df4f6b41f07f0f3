from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import epoxy
from attacks import models
from epoxy.errors import AlignmentError, NotFitted, ParameterError, StoreError
from epoxy.weighting import KNearest


def make(n_rows=600, seed=0, n_classes=2, one_sided=False) -> epoxy.Split:
    """Clusters of one class each; sources see a fifth of the rows and are right four times in five."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(8, 6))
    cluster = rng.integers(0, 8, n_rows)
    y = cluster % n_classes
    vectors = centres[cluster] + rng.normal(scale=0.15, size=(n_rows, 6))
    right = rng.random((n_rows, 5)) < 0.8
    wrong = (y[:, None] + rng.integers(1, n_classes, (n_rows, 5))) % n_classes
    matrix = np.where(right, y[:, None], wrong)
    matrix[rng.random((n_rows, 5)) > 0.2] = -1
    ids = [f"row-{i}" for i in range(n_rows)]
    votes = epoxy.Votes(matrix, sources="abcde", classes=["ham", "spam", "eggs"][:n_classes])
    return epoxy.Split(votes, vectors, y=y, ids=ids)


@pytest.fixture(scope="module")
def train() -> epoxy.Split:
    return make()


@pytest.fixture(scope="module")
def test_split() -> epoxy.Split:
    return make(200, seed=1)


@pytest.fixture(scope="module")
def model(train) -> epoxy.Epoxy:
    return epoxy.Epoxy(radius=0.1).fit(train)


def test_extension_covers_more_rows_and_labels_them_better(train, test_split, model):
    plain = epoxy.Epoxy(radius={}).fit(train)

    assert model.votes_.covered.mean() > train.votes.covered.mean()
    assert model.score(test_split) > plain.score(test_split) + 0.05


def test_truth_is_never_read_by_fit(train):
    poisoned = epoxy.Split(train.votes, train.vectors, y=1 - train.y)

    a = epoxy.Epoxy(radius=0.1).fit(train).predict_proba(train)
    b = epoxy.Epoxy(radius=0.1).fit(poisoned).predict_proba(poisoned)

    assert (a == b).all()


def test_without_a_radius_the_typical_distance_is_used(train):
    made = epoxy.Epoxy().fit(train)

    assert (made.radius_ == made.radius_[0]).all()
    assert 0 < made.radius_[0] < 0.1


def test_the_report_shows_every_source_before_and_after(model, test_split):
    report = model.report(test_split)
    row = report.rows[0]

    assert [each["source"] for each in report.rows] == list("abcde")
    assert row["polarity"] == ["ham", "spam"]
    assert row["coverage"] < row["coverage_extended"]
    assert row["radius"] == 0.1
    assert row["accuracy_original"]["low"] < row["accuracy_original"]["value"]
    assert row["accuracy_extended"]["n"] > row["accuracy_original"]["n"]
    assert 0 <= row["conflicts"] <= row["overlaps"] <= row["coverage"]
    assert report.summary["scores"]["accuracy"] == model.score(test_split)
    assert "majority vote" in report.summary


def test_the_report_of_rows_without_truth_has_no_scores(model, test_split):
    blind = epoxy.Split(test_split.votes, test_split.vectors)

    report = model.report(blind)

    assert "scores" not in report.summary
    assert report.rows[0]["accuracy_original"] is None
    assert "–" in str(report)


def test_an_explanation_adds_up_and_names_the_lenders(model, train, test_split):
    row = int(np.flatnonzero(~test_split.votes.covered & model.extend(test_split).covered)[0])

    why = model.explain(test_split, f"row-{row}")
    proba = model.predict_proba(test_split)[row]

    assert why.row == f"row-{row}"
    assert why.label == model.predict(test_split)[row]
    assert why.log_odds == pytest.approx(why.start + sum(v.weight for v in why.voices))
    assert why.log_odds == pytest.approx(abs(np.log(proba[1] / proba[0])))
    lent = [voice for voice in why.voices if voice.origin == "lent"]
    assert lent
    for voice in lent:
        at = int(voice.lender.removeprefix("row-"))
        assert train.classes[train.votes.column(voice.source)[at]] == voice.vote
        assert voice.distance <= 0.1
        assert voice.rows == (voice.lender,)
    assert why.truth == test_split.classes[test_split.y[row]]


def test_models_without_a_table_are_explained_by_silencing_each_source(train, test_split):
    made = epoxy.Epoxy(epoxy.MajorityVote(), 0.1).fit(train)
    row = int(np.flatnonzero(test_split.votes.cast.sum(axis=1) > 1)[0])

    why = made.explain(test_split, row)

    assert not why.additive
    assert any(voice.weight != 0 for voice in why.voices)


# on disk


@pytest.mark.parametrize("label_model", [None, epoxy.MajorityVote(), epoxy.DawidSkene()])
@pytest.mark.parametrize("rule", [None, KNearest(3)])
def test_a_loaded_model_answers_as_the_saved_one(label_model, rule, train, test_split, tmp_path):
    made = epoxy.Epoxy(label_model, [0.1, 0.2, None, 0.0, 0.1], rule).fit(train)

    again = epoxy.load(made.save(tmp_path / "model"))

    assert (again.predict_proba(test_split) == made.predict_proba(test_split)).all()
    assert (again.predict_proba(train) == made.predict_proba(train)).all()
    assert str(again.explain(test_split, 3)) == str(made.explain(test_split, 3))
    assert str(again.report(test_split)) == str(made.report(test_split))


def test_saving_twice_replaces_the_model_as_a_whole(model, train, tmp_path):
    folder = model.save(tmp_path / "model")

    epoxy.Epoxy(radius=0.3).fit(train).save(folder)

    assert epoxy.load(folder).radius_[0] == 0.3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_no_pickle_is_written(model, tmp_path):
    folder = model.save(tmp_path / "model")

    about, arrays = models.read(folder)

    assert [path.name for path in folder.iterdir()] == ["model.npz"]
    assert about["kind"] == "Epoxy"
    assert "votes" in arrays


def damaged(folder, how):
    file = folder / "model.npz"
    if how == "truncated":
        file.write_bytes(file.read_bytes()[:-100])
    elif how == "gone":
        file.unlink()
    else:
        about, arrays = models.read(folder)
        models.write(folder, about | how, arrays)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", "model.*cannot be read|can be read from"),
        ("gone", "not a saved model"),
        ({"format": 2, "epoxy": "0.1"}, "written by epoxy 0.1 in format 2"),
        ({"kind": "Crystal"}, "holds a 'Crystal'"),
    ],
)
def test_a_damaged_or_foreign_model_is_refused(how, message, model, tmp_path):
    folder = tmp_path / "model"
    model.save(folder)
    damaged(folder, how)

    with pytest.raises(StoreError, match=message):
        epoxy.load(folder)


def test_a_failed_save_leaves_the_old_model_in_place(model, train, tmp_path, monkeypatch):
    folder = model.save(tmp_path / "model")
    monkeypatch.setattr(os, "fsync", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))

    with pytest.raises(StoreError, match=r"cannot be written \(disk full\); make room"):
        epoxy.Epoxy(radius=0.3).fit(train).save(folder)

    assert epoxy.load(folder).radius_[0] == 0.1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    shutil.rmtree(folder)


class Coin:
    def fit(self, votes):
        return self

    def predict_proba(self, votes):
        return np.full((votes.n_rows, 2), 0.5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, s, to: m.explain(s, "nobody"), AlignmentError, "no row 'nobody'"),
        (lambda m, s, to: epoxy.Epoxy().predict(s), NotFitted, "Epoxy"),
        (lambda m, s, to: epoxy.Epoxy().save(to), NotFitted, "Epoxy"),
        (lambda m, s, to: epoxy.Epoxy().classes_, NotFitted, "Epoxy"),
        (lambda m, s, to: epoxy.Epoxy().fit(s.votes), ParameterError, "got Votes"),
        (lambda m, s, to: m.score(epoxy.Split(s.votes, s.vectors)), ParameterError, "true labels"),
        (lambda m, s, to: epoxy.Epoxy(Coin(), 0.1).fit(s).save(to / "m"), StoreError, "Coin"),
        (lambda m, s, to: m.save(to), StoreError, "not a saved model"),
    ],
)
def test_what_a_model_cannot_do_is_refused(call, error, message, model, test_split, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(error, match=message):
        call(model, test_split, tmp_path)
