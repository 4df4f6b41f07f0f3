"""The class balance where no true label is known."""

from __future__ import annotations

import numpy as np
import pytest

from epoxy import Fusion, Split, Votes
from epoxy.fusion.balance import guessed
from epoxy.fusion.decision import RankedRows, f1_rule, n_heard

CLASSES = ["ham", "spam"]


def voters(n_rows: int, share: float, false_spam: float, false_ham: float, seed: int = 0) -> Votes:
    """Five sources that name both classes, and err more often one way than the other."""
    draw = np.random.default_rng(seed)
    y = draw.random(n_rows) < share
    wrong = draw.random((n_rows, 5)) < np.where(y, false_ham, false_spam)[:, None]
    said = np.where(wrong, ~y[:, None], y[:, None]).astype(int)
    return Votes(np.where(draw.random((n_rows, 5)) < 0.7, said, -1), classes=CLASSES)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("false_spam", "false_ham"), [(0.1, 0.1), (0.4, 0.0), (0.0, 0.3)])
def test_the_true_share_lies_between_the_least_and_the_most(share, false_spam, false_ham):
    found = guessed(voters(4000, share, false_spam, false_ham))

    assert found.low[1] - 0.07 <= share <= found.high[1] + 0.07  # errors are estimated too
    assert (found.low - 1e-12 <= found.shares).all()
    assert (found.shares <= found.high + 1e-12).all()
    assert found.shares.sum() == pytest.approx(1)


def test_a_skew_that_errors_explain_is_no_skew_of_the_classes():
    """Half the rows are spam; two in five of the others are called so too."""
    votes = voters(4000, 0.5, 0.4, 0.0)

    assert (votes.matrix == 1).sum() / votes.cast.sum() > 0.68
    assert guessed(votes).shares[1] < 0.58


def test_voters_that_hardly_err_are_believed():
    assert guessed(voters(4000, 0.9, 0.02, 0.02)).shares[1] == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize(("false_spam", "false_ham"), [(0.2, 0.2), (0.4, 0.05), (0.05, 0.4)])
def test_third_moments_tell_a_rare_class_from_errors_that_lean(share, false_spam, false_ham):
    found = guessed(voters(8000, share, false_spam, false_ham))

    assert found.shares[1] == pytest.approx(share, abs=0.05)
    assert found.trust > 0.8


def test_few_rows_tell_little():
    few, many = (guessed(voters(n_rows, 0.8, 0.3, 0.3)) for n_rows in (100, 8000))

    assert few.trust < 0.4 < 0.8 < many.trust
    assert few.high[1] - few.low[1] > many.high[1] - many.low[1]


def test_rows_together_have_the_class_balance_that_votes_tell():
    """Sources lean to spam, and half of the rows are: without a lean far more would be called so."""
    train = Split(voters(4000, 0.5, 0.4, 0.05))

    model = Fusion().fit(train)
    balance = model.fitted_.balance
    together = model.predict_proba(train)[train.votes.covered].mean(axis=0)
    bare = Fusion(class_balance=balance.shares).fit(train).predict_proba(train)

    assert balance.trust > 0.9
    assert together[1] == pytest.approx(balance.shares[1], abs=0.02)
    assert bare[train.votes.covered].mean(axis=0)[1] > balance.shares[1] + 0.05


def test_an_explanation_says_what_keeps_the_class_balance():
    train = Split(voters(2000, 0.5, 0.4, 0.05))
    model = Fusion().fit(train)
    row = int(np.flatnonzero(train.votes.covered)[0])

    said = model.explain(train, row)

    assert "so that all rows together have it" in str(said)
    total = said.start + sum(voice.weight for voice in said.voices)
    assert total == pytest.approx(said.log_odds, abs=1e-8)
    pair = [CLASSES.index(each) for each in (said.label, said.against)]
    start = np.log(model.class_balance_[pair])
    assert said.start == pytest.approx(model.fitted_.scales[2] * (start[0] - start[1]), abs=1e-6)


@pytest.mark.parametrize(("agreed", "called"), [(None, 16), (0.04, 6), (0.1, 9), (0.9, 16)])
def test_without_labels_how_sources_agree_may_lower_what_f1_calls_and_never_raise_it(
    agreed, called
):
    positive = np.linspace(0.95, 0.05, 40)
    proba = np.column_stack([1 - positive, positive])
    before = np.where(np.arange(40)[:, None] < 16, [0.2, 0.8], [0.8, 0.2])
    nobody = np.empty(0)

    rule = f1_rule(RankedRows(proba, before, 1), 1, agreed, nobody, nobody.astype(bool), 0)

    assert (rule(proba) == 1).sum() == called  # midway in log-odds


def test_of_one_sided_sources_three_witnesses_are_heard():
    draw = np.random.default_rng(0)
    y = draw.random(3000) < 0.2
    names = np.arange(6) % 2
    speaks = draw.random((3000, 6)) < np.where(y[:, None] == names, 0.5, 0.05)
    votes = Votes(np.where(speaks, names, -1), classes=CLASSES)

    found = guessed(votes)

    assert found.high[1] == 0.5  # equal shares
    assert found.low[1] < 0.27
    assert found.low[1] < found.shares[1] < 0.4


def test_no_vote_says_nothing_about_the_balance():
    found = guessed(Votes(np.full((5, 2), -1), classes=CLASSES))

    assert found.shares.tolist() == [0.5, 0.5]
    assert (found.low.tolist(), found.high.tolist()) == ([0, 0], [1, 1])


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


def test_doubt_is_kept_with_the_model(tmp_path):
    import epoxy

    model = Fusion().fit(Split(voters(200, 0.8, 0.1, 0.1)))

    again = epoxy.load(model.save(tmp_path / "model"))

    np.testing.assert_array_equal(again.fitted_.balance.low, model.fitted_.balance.low)
    np.testing.assert_array_equal(again.fitted_.agreement, model.fitted_.agreement)
    np.testing.assert_array_equal(
        again.predict_proba(model.train_), model.predict_proba(model.train_)
    )


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
    nobody = np.empty(0)

    rule = f1_rule(RankedRows(proba, before, 1), 1, None, nobody, nobody.astype(bool), 0)

    assert (rule(proba) == 1).sum() == called


def test_chosen_labels_move_a_share_as_far_as_random_ones_vouch_for_them():
    positive = np.linspace(0.95, 0.05, 40)
    proba = np.column_stack([1 - positive, positive])
    before = np.where(np.arange(40)[:, None] < 4, [0.2, 0.8], [0.8, 0.2])
    shown, right = np.array([0.9, 0.8, 0.7, 0.6, 0.2, 0.1]), np.arange(6) < 4

    def called(n_random: int, taught: int) -> int:
        drawn = shown[:n_random], right[:n_random]
        many = n_heard(np.zeros(taught), np.arange(taught) < n_random)
        rule = f1_rule(RankedRows(proba, before, 1), 1, None, *drawn, many)
        return int((rule(proba) == 1).sum())

    assert called(0, 0) == called(0, 400) == 4
    assert 4 < called(6, 6) < called(6, 12) < called(6, 24) == called(6, 400)
