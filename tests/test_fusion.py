"""Fusion obeys its laws, and says what it did; its formulas are in test_fusion_formulas."""

from __future__ import annotations

import json
from pathlib import Path

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
from fusion_rows import CLASSES, bare, draw, turned, with_vectors, with_votes


@pytest.fixture(scope="module")
def train() -> Split:
    return bare(draw(400, 1))


@pytest.fixture(scope="module")
def dev() -> Split:
    return draw(60, 2)


@pytest.fixture(scope="module")
def test() -> Split:
    return draw(500, 3)


@pytest.fixture(scope="module")
def model(train: Split, dev: Split) -> Fusion:
    return Fusion().fit(train, dev)


def three(n_labels: int = 20, n_classes: int = 2):
    """Train, hand labels and other rows."""
    make = [(220, 1), (max(1, n_labels), 2), (90, 3)]
    train, hand, other = (draw(n, seed, 8, n_classes) for n, seed in make)
    return bare(train), (hand if n_labels else None), other


# what it is for


def test_probabilities_are_distributions_and_calibrated(model: Fusion, test: Split) -> None:
    proba = model.predict_proba(test)

    assert proba.shape == (500, 2)
    assert set(model.predict(test)) == {*model.classes_} == {"ham", "spam"}
    assert "scores" not in model.report(bare(test)).summary
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.report(test).summary["scores"]["calibration_error"] < 0.06


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


# no leakage


def test_no_fitted_number_depends_on_train_or_test_labels(dev: Split, test: Split) -> None:
    train = draw(400, 1)
    poisoned = Split(train.votes, train.vectors, 1 - train.y)
    upside_down = Split(test.votes, test.vectors, 1 - test.y)

    clean, other = Fusion().fit(bare(train), dev), Fusion().fit(poisoned, dev)

    assert clean.weights_ == other.weights_
    np.testing.assert_array_equal(clean.predict_proba(test), other.predict_proba(upside_down))


def test_labels_move_what_parts_weigh_and_say_the_rest_themselves(
    model: Fusion, test: Split
) -> None:
    first = Fusion().fit(model.train_)
    before, after = first.evidence(test), model.evidence(test)

    assert list(before) == ["votes", "vectors", "neighbours"]
    assert list(after) == [*before, "labels"]
    for name, each in before.items():
        by = model.weights_[name] / first.weights_[name]
        assert by != 1
        np.testing.assert_allclose(after[name], by * each, rtol=1e-9)


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
    train, right = bare(draw(150, 1)), []
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
    few = dev.rows(slice(0, 20))
    held = Fusion().fit(train, few).held_out_

    exact = []
    for row in range(20):
        rest = np.arange(20) != row
        left = Fusion().fit(train, few.rows(rest))
        exact.append(left.predict_proba(few.rows([row]))[0])

    assert np.abs(held - np.array(exact)).max() < 0.12
    assert np.abs(held - np.array(exact)).mean() < 0.03


@pytest.mark.parametrize("n_classes", [2, 3])
def test_twins_are_held_out_together_as_by_a_model_without_them(n_classes: int) -> None:
    """Each row three times, and labels that nothing foretells: who knew a twin would know them."""
    train, hand, _ = three(12, n_classes)
    rng = np.random.default_rng(0)
    tossed = Split(hand.votes, hand.vectors, rng.integers(0, n_classes, 12))
    twins = tossed.rows(np.repeat(np.arange(12), 3))
    held = Fusion().fit(train, twins).held_out_

    exact = []
    for row in range(12):
        rest = np.arange(36) // 3 != row
        exact += [Fusion().fit(train, twins.rows(rest)).predict_proba(tossed.rows([row]))[0]] * 3

    assert np.abs(held - np.array(exact)).max() < 0.25
    assert np.abs(held - np.array(exact)).mean() < 0.03


def test_rows_without_a_label_teach_nothing(train: Split, dev: Split, test: Split) -> None:
    some = Split(dev.votes, dev.vectors, np.where(np.arange(60) < 50, dev.y, -1))

    model = Fusion().fit(train, some)

    assert model.held_out_.shape == (50, 2)
    expected = Fusion().fit(train, dev.rows(slice(0, 50))).predict_proba(test)
    np.testing.assert_allclose(model.predict_proba(test), expected, atol=1e-6)


@pytest.mark.parametrize("scoring", ["f1", "f1_macro", "balanced_accuracy"])
def test_how_labelled_rows_were_chosen_does_not_matter_to_the_model(scoring: str) -> None:
    train, hand, other = three(60)
    chosen = Split(hand.votes, hand.vectors, hand.y, chosen="least sure")

    random, told = (Fusion(scoring=scoring).fit(train, each) for each in (hand, chosen))

    np.testing.assert_array_equal(random.predict_proba(other), told.predict_proba(other))
    np.testing.assert_array_equal(random.predict(other), told.predict(other))


# when something is missing


def test_without_hand_labels_votes_say_what_vectors_weigh(train: Split, test: Split) -> None:
    model = Fusion().fit(train)

    assert model.weights_["votes"] == 1
    assert all(0.5 <= model.weights_[name] <= 1 for name in ("vectors", "neighbours"))
    assert model.hand_ is None
    assert len(model.held_out_) == 0
    assert model.score(test) > 0.9
    assert "no hand labels" in str(model.report(test))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_functions_hand_labels_and_vectors_label(n_classes: int, tmp_path: Path) -> None:
    split, other = draw(400, 1, 6, n_classes), draw(300, 3, 6, n_classes)
    votes = Votes(np.empty((400, 0), dtype=int), [], split.classes)
    session = epoxy.Session(Split(votes, split.vectors))
    assert "label some rows" in session.problem

    for row in range(40):
        session.label(row, split.classes[split.y[row]])

    assert not session.problem
    assert (session.labels == split.y)[40:].mean() > 0.75
    mute = Split(Votes(np.empty((300, 0), dtype=int), [], split.classes), other.vectors, other.y)
    assert session.model().score(mute) > 0.75
    again = epoxy.load(session.model().save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(mute), session.model().predict(mute))
    assert "labels" in str(session.report("train"))
    assert "labels" in str(again.report(mute))
    said = session.explain(200)
    assert said.start + sum(said.parts.values()) == pytest.approx(said.log_odds)
    assert set(said.parts) == {"labels"}


def test_a_dev_split_without_labels_is_no_dev_split(train: Split, dev: Split, test: Split) -> None:
    model = Fusion().fit(train, bare(dev))

    np.testing.assert_array_equal(
        model.predict_proba(test), Fusion().fit(train).predict_proba(test)
    )


def test_without_vectors_only_votes_speak(train: Split, dev: Split, test: Split) -> None:
    bare = [Split(each.votes, y=each.y) for each in (train, dev, test)]

    model = Fusion().fit(bare[0], bare[1])

    assert list(model.weights_) == ["votes", "labels"]
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


def test_a_class_without_labels_is_reported_and_can_still_be_predicted() -> None:
    train, dev, test = (draw(n, s, 9, 3) for n, s in [(400, 1), (90, 2), (300, 3)])

    model = Fusion().fit(bare(train), dev.rows(dev.y != 2))

    assert (model.predict(test) == "class_2").any()
    assert "no row is labelled ['class_2']" in str(model.report(test))


# laws


def test_the_order_of_rows_and_of_sources_changes_nothing(
    train: Split, dev: Split, test: Split
) -> None:
    rng, names = np.random.default_rng(0), [f"source_{at}" for at in (3, 1, 5, 0, 2, 4)]
    order = rng.permutation(500)

    def mixed(split: Split, rows: np.ndarray) -> Split:
        return Split(split.votes.only(names), split.vectors, split.y).rows(rows)

    model = Fusion().fit(mixed(train, rng.permutation(400)), mixed(dev, rng.permutation(60)))

    expected = Fusion().fit(train, dev).predict_proba(test)[order]
    np.testing.assert_allclose(model.predict_proba(mixed(test, order)), expected, atol=1e-5)


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
def test_vectors_that_tell_nothing_are_ignored(
    labels: bool, train: Split, dev: Split, test: Split
) -> None:
    rng = np.random.default_rng(6)
    noisy = [with_vectors(s, rng.normal(size=s.vectors.shape)) for s in (train, dev, test)]
    bare = [with_vectors(each, None) for each in noisy]

    model = Fusion().fit(noisy[0], noisy[1] if labels else None)

    without = Fusion().fit(bare[0], bare[1] if labels else None)
    np.testing.assert_allclose(
        model.predict_proba(noisy[2]), without.predict_proba(bare[2]), atol=1e-9
    )
    assert "do not foretell the votes" in str(model.report(noisy[2]))


def test_a_row_is_judged_alone(model: Fusion, test: Split) -> None:
    together = model.predict_proba(test)[:5]

    alone = [model.predict_proba(test.rows([at]))[0] for at in range(5)]

    np.testing.assert_allclose(alone, together, atol=1e-6)


def test_a_refit_remembers_nothing(train: Split, dev: Split, test: Split) -> None:
    other = draw(300, 9)

    model = Fusion().fit(bare(other), dev).fit(train, dev)

    np.testing.assert_array_equal(
        model.predict_proba(test), Fusion().fit(train, dev).predict_proba(test)
    )


def test_loans_are_searched_for_whoever_asks(model: Fusion, train: Split) -> None:
    """Rows with the very votes of train and other vectors are not the train rows."""
    kept = model.train_
    moved = Split.of_checked(kept.votes, kept.vectors[::-1].copy(), None, kept.ids)

    found = np.stack([each.lender for each in model.rows_of(moved).loans])

    expected = epoxy.reach(train, moved).lender.T
    asks = moved.votes.matrix.T < 0
    np.testing.assert_array_equal(found[asks], expected[asks])


def test_nothing_is_lent_with_a_radius_of_none(train: Split, test: Split) -> None:
    lends, keeps = (Fusion(radius=each).fit(train) for each in (0.2, None))
    mute = with_votes(test, np.full_like(test.votes.matrix, -1))

    assert np.abs(lends.evidence(mute)["votes"]).max() > 0
    assert np.abs(keeps.evidence(mute)["votes"]).max() == 0
    assert (keeps.extend(test).matrix == test.votes.matrix).all()
    each = Fusion(radius=dict.fromkeys(train.votes.sources)).fit(train)
    np.testing.assert_array_equal(keeps.predict_proba(test), each.predict_proba(test))


@pytest.mark.parametrize("labels", [True, False])
def test_a_radius_moves_labels(labels: bool, train: Split, dev: Split, test: Split) -> None:
    hand = dev if labels else None

    near, far = (Fusion(radius=each).fit(train, hand).predict(test) for each in (None, 0.3))

    assert (near != far).mean() > 0.01


def test_by_rule_nothing_is_lent_to_rows_with_equal_vectors_where_the_source_was_silent() -> None:
    """There it looked; a radius that a person gave lends there too."""
    train = draw(300, 1, 12)
    twice = bare(train.rows(np.repeat(np.arange(300), 2)))
    matrix = twice.votes.matrix.copy()
    matrix[1::2] = -1
    twins = with_votes(twice, matrix)

    by_rule, told = (Fusion(radius=each).fit(twins).rows_of(twins) for each in ("auto", 0.2))

    equal = np.stack([each.distance == 0 for each in told.loans])
    assert not (by_rule.lent[equal] >= 0).any()
    assert (by_rule.lent >= 0).any()
    assert (told.lent[equal & (told.own < 0)] >= 0).all()


def test_votes_are_lent_by_the_row_that_is_nearest_under_the_metric(tmp_path) -> None:
    votes = Votes([[0], [1], [-1], [-1]], classes=CLASSES)
    train = Split(votes, [[10.0, 0.5], [1.0, 0.6], [1.0, 0.1], [0.0, 0.0]])

    def lenders(model: Fusion) -> list[int]:
        return model.rows_of(train).loans[0].lender[2:].tolist()

    assert lenders(Fusion().fit(train)) == [0, -1]  # zeros have no direction
    euclidean = Fusion(metric="euclidean").fit(train)
    assert lenders(euclidean) == [1, 1]
    assert lenders(epoxy.load(euclidean.save(tmp_path / "model"))) == [1, 1]


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
        model = Fusion(scoring=scoring).fit(bare(rare[0]), hand)
        guess = model.decide(model.predict_proba(rare[2]))
        return np.array([(guess[truth == k] == k).mean() for k in range(3)])

    even, plain = recalls("balanced_accuracy"), recalls("accuracy")
    assert not n_labels or even.mean() > plain.mean()
    assert (even[1:] >= plain[1:]).all()


# explanations


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("labels", [0, 3, 60])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_start_voices_and_parts_add_up_to_the_log_odds(n_classes, labels, vectors) -> None:
    splits = [turned(each) if each else None for each in three(labels, n_classes)]
    if not vectors:
        splits = [each and with_vectors(each, None) for each in splits]
    train, hand, other = splits
    model = Fusion(radius={"source_0": 0.3, "source_1": 0.3}).fit(bare(train), hand)
    proba, parts = model.predict_proba(other), model.evidence(other)
    scale = model.fitted_.scale(model.rows_of(other))

    for row in range(0, 90, 9):
        said = model.explain(other, row)
        pair = [other.classes.index(each) for each in (said.label, said.against)]
        assert said.start + sum(voice.weight for voice in said.voices) == pytest.approx(
            said.log_odds
        )
        assert said.start + sum(said.parts.values()) == pytest.approx(said.log_odds)
        assert said.log_odds == pytest.approx(-np.diff(np.log(proba[row][pair]))[0])
        assert list(said.probabilities.values()) == proba[row].tolist()
        start = model.fitted_.start(model.rows_of(other), parts)[row]
        assert said.start == pytest.approx(scale[row] * -np.diff(start[pair])[0], abs=0.02)
        for name, each in parts.items():
            weight = scale[row] * -np.diff(each[row][pair])[0]
            assert said.parts.get(name, 0) == pytest.approx(weight, abs=0.0051)


def test_an_explanation_names_votes_loans_and_hand_labels(
    train: Split, dev: Split, test: Split
) -> None:
    model = Fusion(radius=0.2).fit(train, dev)
    row = int(np.flatnonzero(test.votes.covered & (model.rows_of(test).lent >= 0).any(axis=0))[0])

    said = model.explain(test, row)

    assert {"own", "lent", "hand", "rest"} <= {voice.origin for voice in said.voices}
    assert set(said.parts) == {"votes", "vectors", "neighbours", "labels"}
    text = str(said)
    assert "hand-labelled row" in text
    assert "lent by row" in text
    assert "of the rows around it" in text
    json.dumps(said.to_dict())


def test_nothing_that_weighs_nothing_is_shown_as_lent() -> None:
    train = turned(bare(draw(400, 1)))
    for radius in ("auto", 0.2, {"source_0": None, "source_1": 0.1}):
        model = Fusion(radius=radius).fit(train)
        lent = model.rows_of(train).lent

        extended = model.extend(train).matrix
        assert ((lent >= 0) == (extended != train.votes.matrix).T).all()
        assert not (lent[~model.fitted_.heard] >= 0).any()
        for row in range(0, 400, 40):
            shown = [each for each in model.explain(train, row).voices if each.origin == "lent"]
            names = [train.votes.sources[at] for at in np.flatnonzero(lent[:, row] >= 0)]
            assert sorted(each.source for each in shown) == sorted(names)
            assert all(abs(each.weight) > 1e-6 for each in shown)


def test_a_vote_never_counts_against_the_class_it_names(train: Split, test: Split) -> None:
    """Also where sources vote against each other; and all that `votes` says is said by votes."""
    model = Fusion().fit(train)
    quarrels = [row for row, votes in enumerate(test.votes.matrix) if len({*votes} - {-1}) > 1]

    assert quarrels
    for row in quarrels[:15]:
        said = model.explain(test, row)
        heard = [voice for voice in said.voices if voice.part == "votes"]
        for voice in heard:
            assert voice.origin in ("own", "lent")
            sign = (voice.vote == said.label) - (voice.vote == said.against)
            assert np.sign(voice.weight) == sign
        assert sum(voice.weight for voice in heard) == pytest.approx(said.parts["votes"])


def test_where_all_sources_vote_their_silence_says_nothing(train: Split, test: Split) -> None:
    model = Fusion().fit(with_vectors(train, None))
    loud = with_votes(with_vectors(test, None), np.tile(np.arange(6) % 2, (500, 1)))

    said = model.explain(loud, 0)

    assert model.fitted_.likelihood is not None
    assert {each.origin for each in said.voices} == {"own"}


def test_a_loan_is_the_one_reach_finds(train: Split, test: Split) -> None:
    model, found = Fusion(radius=0.2).fit(train), epoxy.reach(train, test)
    row = int(np.flatnonzero((model.rows_of(test).lent >= 0).any(axis=0))[0])

    lent = [voice for voice in model.explain(test, row).voices if voice.origin == "lent"]

    assert lent
    for voice in lent:
        source = train.votes.index_of(voice.source)
        assert voice.lender == found.lender[row, source]
        assert voice.rows == (voice.lender,)
        assert voice.distance == found.distance[row, source] <= 0.2


def test_a_hand_labelled_neighbour_is_named_with_its_own_label(
    model: Fusion, dev: Split, test: Split
) -> None:
    for voice in model.explain(test, 4).voices:
        if voice.origin == "hand":
            assert voice.vote == CLASSES[dev.y[dev.position_of(voice.lender)]]


def test_what_single_hand_labelled_rows_add_is_all_that_labels_say_of_some_rows_and_not_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("epoxy.fusion.explanation.SHOWN", 1000)
    monkeypatch.setattr("epoxy.fusion.explanation.LEAST", 0.0)
    train, hand, other = three(40)
    model = Fusion(radius=0.2).fit(train, hand)
    bias, scale = model.fitted_.corrected.bias, model.fitted_.scale(model.rows_of(other))

    for row in range(0, 90, 18):
        said = model.explain(other, row)
        pair = [other.classes.index(each) for each in (said.label, said.against)]
        of_all = sum(v.weight for v in said.voices if v.part == "labels" and v.origin == "rest")
        assert sum(each.origin == "hand" for each in said.voices) == 40
        assert of_all == pytest.approx(scale[row] * -np.diff(bias[pair])[0], abs=1e-4)


def test_the_rows_around_a_row_are_its_nearest_that_have_votes(model: Fusion, test: Split) -> None:
    train = model.train_
    (voice,) = [each for each in model.explain(test, 4).voices if each.source == "neighbours"]

    near = epoxy.reach(
        with_votes(train, np.where(train.votes.covered, 0, -1)[:, None], ["any"]),
        with_votes(test, np.full((500, 1), -1), ["any"]),
    )
    assert voice.rows
    assert near.lender[4, 0] in voice.rows
    assert all(train.votes.covered[train.position_of(row)] for row in voice.rows)


@pytest.mark.parametrize("labels", [True, False])
def test_a_copied_source_counts_once_and_is_named(
    labels: bool, train: Split, dev: Split, test: Split
) -> None:
    def copied(split: Split) -> Split:
        matrix = np.hstack([split.votes.matrix, split.votes.matrix[:, [0] * 20]])
        names = [*split.votes.sources, *(f"z{at}" for at in range(20))]
        return with_votes(split, matrix, names)

    model = Fusion().fit(copied(train), copied(dev) if labels else None)

    expected = Fusion().fit(train, dev if labels else None).predict_proba(test)
    np.testing.assert_allclose(model.predict_proba(copied(test)), expected, atol=1e-9)
    assert "count once" in str(model.report(copied(test)))
    row = int(np.flatnonzero(test.votes.matrix[:, 0] >= 0)[0])
    shown = [each for each in model.explain(copied(test), row).voices if each.origin == "copy"]
    assert len(shown) == 20
    assert {each.weight for each in shown} == {0}
    assert all("counts once, with source_0" in each.detail for each in shown)


# report


def test_the_report_has_a_reliability_curve_and_a_line_per_part(model: Fusion, test: Split) -> None:
    report = model.report(test)

    parts, curve = report.tables
    assert [row["part"] for row in parts.rows] == list(model.weights_)
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
    assert unseen < seen - 0.03
    backwards = model.report(tossed.rows(np.arange(len(dev))[::-1])).summary
    assert backwards["scores"]["accuracy"] == pytest.approx(unseen)
    model.save(tmp_path / "model")
    assert "60 of these rows taught the model" in str(epoxy.load(tmp_path / "model").report(tossed))


def test_what_labels_correct_is_not_judged_by_them(model: Fusion, dev: Split, test: Split) -> None:
    for split in (dev, test):
        right = {row["part"]: row["right"] for row in model.report(split).tables[0].rows}
        assert right.pop("labels") is None
        assert None not in right.values()


def test_an_explanation_says_where_the_rule_overrules_the_most_probable_class(
    train: Split, test: Split
) -> None:
    model = Fusion(scoring="balanced_accuracy", class_balance=[0.9, 0.1]).fit(train)
    proba = model.predict_proba(test)
    rows = np.flatnonzero(model.decide(proba) != proba.argmax(axis=1))

    assert len(rows)
    said = model.explain(bare(test), rows[0])
    wanted = f"{said.against!r} is more probable; the rule that serves scoring says {said.label!r}"
    assert wanted in str(said)
    plain = np.setdiff1d(np.arange(500), rows)[0]
    assert "is more probable" not in str(model.explain(bare(test), plain))


# storage and scikit-learn


@pytest.mark.parametrize("dimension", [None, 8, 127, 128])
@pytest.mark.parametrize("n_labels", [0, 3, 60])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_saved_model_answers_bit_for_bit(
    n_classes: int, n_labels: int, dimension: int | None, tmp_path: Path
) -> None:
    """From 128 dimensions on features have no waves."""
    splits = [
        turned(draw(n, seed, 6, n_classes, dimension or 8))
        for n, seed in ((200, 1), (max(1, n_labels), 2), (50, 3))
    ]
    if dimension is None:
        splits = [with_vectors(each, None) for each in splits]
    train, hand, other = splits
    balance = np.full(n_classes, 1 / n_classes)
    scoring = "f1" if n_classes == 2 else "f1_macro"
    model = Fusion(scoring=scoring, radius={"source_1": 0.1}, class_balance=balance)
    model.fit(bare(train), hand if n_labels else None)

    loaded = epoxy.load(model.save(tmp_path / "model"))

    np.testing.assert_array_equal(loaded.predict_proba(other), model.predict_proba(other))
    np.testing.assert_array_equal(loaded.predict(other), model.predict(other))
    assert str(loaded.explain(other, 3)) == str(model.explain(other, 3))
    assert str(loaded.get_params()) == str(
        {**model.get_params(), "class_balance": balance.tolist()}
    )


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


@pytest.mark.parametrize(
    ("ask", "error", "match"),
    [
        (lambda m, t: m.predict_proba([[1]]), ParameterError, "expected a Split, got list; wrap"),
        (
            lambda m, t: m.predict(Split(t.votes.only(["source_1", "source_0"]), t.vectors)),
            AlignmentError,
            "same sources and classes",
        ),
        (
            lambda m, t: m.predict(Split(t.votes, t.vectors[:, :5])),
            VectorError,
            r"dimension 8.*5",
        ),
        (lambda m, t: m.score(bare(t)), ParameterError, "score needs true labels"),
        (
            lambda m, t: Fusion(scoring="f1").fit(*three(20, 4)[:2]),
            ParameterError,
            "'f1' is of one class, and there are 4; name it",
        ),
    ],
)
def test_bad_input_says_so(ask, error, match, model: Fusion, test: Split) -> None:
    with pytest.raises(error, match=match):
        ask(model, test)
