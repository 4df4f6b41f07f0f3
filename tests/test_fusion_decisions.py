"""The class balance where no true label is known, and the rule a decision ends with."""

from __future__ import annotations

import numpy as np
import pytest

from epoxy import Fusion, Split, Votes
from epoxy.fusion.decision import f1_rule, f1_threshold

CLASSES = ["ham", "spam"]


def voters(n_rows: int, share: float, false_spam: float, false_ham: float, seed: int = 0) -> Votes:
    """Five sources that name both classes, and err more often one way than the other."""
    draw = np.random.default_rng(seed)
    y = draw.random(n_rows) < share
    wrong = draw.random((n_rows, 5)) < np.where(y, false_ham, false_spam)[:, None]
    said = np.where(wrong, ~y[:, None], y[:, None]).astype(int)
    return Votes(np.where(draw.random((n_rows, 5)) < 0.7, said, -1), classes=CLASSES)


def test_rows_together_have_the_class_balance_that_votes_tell():
    """Sources lean to spam: without a lean more would be called so."""
    train = Split(voters(2000, 0.5, 0.4, 0.05))

    model = Fusion().fit(train)
    together = model.predict_proba(train)[train.votes.covered].mean(axis=0)

    assert together[1] == pytest.approx(model.class_balance_[1], abs=1e-6)
    assert model.class_balance_[1] < (train.votes.matrix == 1).sum() / train.votes.cast.sum() - 0.05


def test_of_one_sided_sources_witnesses_are_pooled():
    rng = np.random.default_rng(0)
    y, names = rng.random(3000) < 0.2, np.arange(6) % 2
    speaks = rng.random((3000, 6)) < np.where(y[:, None] == names, 0.5, 0.05)

    found = Fusion().fit(Split(Votes(np.where(speaks, names, -1), classes=CLASSES))).fitted_.balance

    assert found.high[1] == 0.5  # equal shares
    assert found.low[1] < 0.27
    assert found.low[1] < found.shares[1] < 0.4


def test_no_vote_says_nothing_about_the_balance():
    found = Fusion().fit(Split(Votes(np.full((5, 2), -1), classes=CLASSES))).fitted_.balance

    assert found.shares.tolist() == [0.5, 0.5]
    assert (found.low.tolist(), found.high.tolist()) == ([0, 0], [1, 1])


def test_the_threshold_with_the_best_f1_by_eye() -> None:
    # calling 2 rows positive: 2·1.8 / (2 + 2.0); 1 row: 2·0.9 / (1 + 2.0); 3 rows: 2·1.9 / 5
    assert f1_threshold(np.array([0.1, 0.9, 0.1, 0.9])) == 0.9
    # 1 row: 2·0.9 / (1 + 1.8); 2 rows: 2·1.4 / (2 + 1.8); 3 rows: 2·1.8 / (3 + 1.8)
    assert f1_threshold(np.array([0.9, 0.5, 0.4])) == 0.4


@pytest.mark.parametrize(("agreed", "called"), [(None, 16), (0.04, 6), (0.1, 9), (0.9, 16)])
def test_without_labels_how_sources_agree_may_lower_what_f1_calls_and_never_raise_it(
    agreed, called
):
    positive = np.linspace(0.95, 0.05, 40)
    proba = np.column_stack([1 - positive, positive])
    before = np.where(np.arange(40)[:, None] < 16, [0.2, 0.8], [0.8, 0.2])

    rule = f1_rule(positive, before, 1, agreed, 0)

    assert (rule(proba) == 1).sum() == called  # midway in log-odds


def test_the_report_says_how_sure_the_balance_is():
    train = Split(voters(500, 0.8, 0.1, 0.1))

    model = Fusion().fit(train)
    least, most = model.fitted_.balance.low[1], model.fitted_.balance.high[1]

    assert f"'spam' {model.class_balance_[1]:.0%} ({least:.0%} to {most:.0%})" in str(
        model.report(train)
    )


def test_a_balance_that_was_told_is_not_doubted():
    train = Split(voters(200, 0.8, 0.1, 0.1))

    said = str(Fusion(class_balance=[0.3, 0.7]).fit(train).report(train))

    assert "guessed" not in said


def test_rows_that_are_equally_probable_are_called_together():
    """Few sources and no vectors: most rows are silent and alike, and must not all be called positive."""
    draw = np.random.default_rng(0)
    y = draw.random(3000) < 0.15
    names = np.array([1, 1, 1, 0])
    speaks = draw.random((3000, 4)) < np.where(y[:, None] == names, 0.15, 0.01)
    train = Split(Votes(np.where(speaks, names, -1), classes=CLASSES))

    model = Fusion(scoring="f1").fit(train)
    proba = model.predict_proba(train)[:, 1]
    called = model.decide(model.predict_proba(train)) == 1

    assert len(np.unique(np.round(proba, 12))) < 20
    assert proba[called].min() > proba[~called].max()
    assert not called[~train.votes.covered].any()
    assert called[
        (train.votes.matrix == 1).any(axis=1) & (train.votes.matrix != 0).all(axis=1)
    ].all()


@pytest.mark.parametrize(("share", "called"), [(3, 2), (4, 6)])
def test_a_share_that_would_split_equals_goes_to_the_nearer_end_of_them(share, called):
    positive = np.array([0.9, 0.9, 0.6, 0.6, 0.6, 0.6, 0.1, 0.1, 0.1, 0.1])
    proba = np.column_stack([1 - positive, positive])
    before = np.where(np.arange(10)[:, None] < share, [0.2, 0.8], [0.8, 0.2])

    rule = f1_rule(positive, before, 1, None, 0)

    assert (rule(proba) == 1).sum() == called


def test_labels_move_how_many_rows_are_called_to_the_threshold_that_is_best_by_probabilities():
    positive = np.linspace(0.95, 0.05, 40)
    proba = np.column_stack([1 - positive, positive])
    before = np.where(np.arange(40)[:, None] < 4, [0.2, 0.8], [0.8, 0.2])
    best = (positive >= f1_threshold(positive)).sum()

    called = [
        (f1_rule(positive, before, 1, None, many)(proba) == 1).sum() for many in (0, 6, 60, 1e9)
    ]

    assert called[0] == 4
    assert called == sorted(set(called))
    assert called[-1] == best
