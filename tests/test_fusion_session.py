"""A session with Fusion equals Fusion fitted from nothing, whatever was edited on the way there."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import epoxy
from epoxy import Fusion, Split
from epoxy.session import Radii, SetVotes
from test_session import DEV, EDITS, TRAIN, make, play

BARE = Split(DEV.votes, DEV.vectors)
"""The dev rows, none of them labelled."""
SLOW = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def radii_of(session: epoxy.Session) -> dict[str, float | str | None]:
    return {name: session.radii[name] for name in session.split().votes.sources}


def fitted(session: epoxy.Session) -> Fusion:
    """The same parameters fitted from nothing on what the session holds now."""
    parameters = {**session.model_template.get_params(), "radius": radii_of(session)}
    return Fusion(**parameters).fit(session.split(), session.hand_labelled())


def settled(session: epoxy.Session, model: Fusion, name: str) -> np.ndarray:
    """Labels of a split, hand labels in their place."""
    split = session.split(name)
    return np.where(split.truth >= 0, split.truth, model.decide(model.predict_proba(split)))


def assert_equals_a_fit(session: epoxy.Session) -> None:
    if not session.split().votes.n_sources:
        assert "no source is switched on" in session.problem
        return
    model = fitted(session)
    for name, proba in (("train", session.probabilities), ("dev", session.dev_probabilities)):
        expected = model.predict_proba(session.split(name))
        np.testing.assert_allclose(proba, expected, atol=1e-6)
    np.testing.assert_array_equal(session.labels, settled(session, model, "train"))
    np.testing.assert_array_equal(session.dev_labels, settled(session, model, "dev"))
    np.testing.assert_allclose(session.outcome.held_out, model.held_out_, atol=1e-6)


WORDS = ["random", "least sure", "surest", None]
LABELS = st.lists(
    st.tuples(
        st.sampled_from(["train", "dev"]),
        st.integers(0, 59),
        st.sampled_from(["c0", "c1", None]),
        st.sampled_from(WORDS),
    ),
    max_size=14,
)


@pytest.mark.parametrize("dev", [DEV, BARE], ids=["sixty labels", "no label"])
@given(edits=EDITS)
@SLOW
def test_after_any_edits_a_session_equals_a_fitted_model(dev, edits):
    session = epoxy.Session(TRAIN, dev)

    play(session, edits)

    assert_equals_a_fit(session)


@given(labels=LABELS, edits=EDITS)
@SLOW
def test_labels_given_one_by_one_equal_labels_given_at_once(labels, edits):
    session = epoxy.Session(TRAIN, BARE, Fusion(scoring="f1"))

    for split, row, label, word in labels:
        session.label(row, label, split=split, chosen=word)
    play(session, edits)

    assert_equals_a_fit(session)


@given(edits=EDITS)
@settings(SLOW, max_examples=6)
def test_the_graph_and_the_metric_change_no_answer(edits):
    session = epoxy.Session(TRAIN, DEV, Fusion(metric="euclidean"))

    play(session, edits)

    assert_equals_a_fit(session)


def any_edit(session: epoxy.Session, rng: np.random.Generator) -> None:
    what = rng.choice(["votes", "radius", "switch", "label", "dev label", "undo", "preview"])
    a = int(rng.integers(5))
    value = {
        "votes": int(rng.integers(10_000)),
        "radius": [0.0, 0.1, 0.5, None, "auto"][rng.integers(5)],
        "preview": [0.0, 0.3, None][rng.integers(3)],
        "switch": bool(rng.random() < 0.8),
    }.get(str(what), ["c0", "c1", None][rng.integers(3)])
    a = int(rng.integers(60)) if "label" in what else a
    play(session, [(str(what), a, value)])


def test_a_hundred_edits_do_not_drift():
    session, rng = epoxy.Session(TRAIN, BARE), np.random.default_rng(0)

    for at in range(1, 101):
        any_edit(session, rng)
        if at % 50 == 0:
            for name in session.sources:
                session.switch(name, True)
            assert_equals_a_fit(session)


def test_three_classes_and_many_labels_can_be_edited_too():
    train, dev = make(n_classes=3), make(60, seed=1, n_classes=3)
    session = epoxy.Session(train, dev, Fusion(scoring="f1_macro", noise=0.1))

    session.set_votes("s2", np.where(train.y == 0, 0, -1))
    for row in range(20):
        session.label(row, f"c{train.y[row]}", chosen="random")
    session.remove("s4")

    assert session.probabilities.shape == (120, 3)
    assert session.outcome.model.fitted_.rule.divisors is not None
    assert_equals_a_fit(session)


def test_one_more_label_makes_no_table_of_labelled_rows_against_each_other():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2600)
    votes = np.where(rng.random((2600, 4)) < 0.6, y[:, None], -1)
    split = Split(epoxy.Votes(votes, classes=["a", "b"]), rng.normal(size=(2600, 128)), y)
    train, dev = split.rows(np.arange(200)), split.rows(np.arange(200, 2600))
    session = epoxy.Session(Split(train.votes, train.vectors), dev)
    session.label(0, "a")

    tracemalloc.start()
    session.label(1, "b")
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert used < 4 * 2400**2


def test_a_preview_leaves_explanations_and_answers_as_they_were():
    session = epoxy.Session(TRAIN, DEV)
    before = [str(session.explain(row)) for row in range(5)]

    session.preview(Radii({"s1": 0.0}))
    session.preview(SetVotes("s0", (np.where(TRAIN.y == 0, 0, -1), None)))

    assert [str(session.explain(row)) for row in range(5)] == before
    assert_equals_a_fit(session)


def test_of_labelled_twins_the_first_are_heard_in_whatever_order_they_were_labelled():
    vectors = np.where(np.arange(120)[:, None] < 24, TRAIN.vectors[0], TRAIN.vectors)
    session = epoxy.Session(Split(TRAIN.votes, vectors), BARE)

    for row in reversed(range(24)):
        session.label(row, session.classes[int(row < 12)])

    assert_equals_a_fit(session)


def test_an_edited_column_is_lent_anew_on_every_split():
    """What is kept of a source is kept by its votes, not by its name."""
    session = epoxy.Session(TRAIN, BARE)
    for column in (np.where(TRAIN.y == 0, 0, -1), np.where(np.arange(120) < 30, 1, -1)):
        session.set_votes("s0", column, dev=np.full(60, -1))

        assert_equals_a_fit(session)


def test_labelled_rows_without_direction_can_be_edited_too():
    train = Split(TRAIN.votes, np.where(np.arange(120)[:, None] < 9, 0.0, TRAIN.vectors))
    dev = Split(DEV.votes, np.zeros_like(DEV.vectors), DEV.y)
    session = epoxy.Session(train, dev)

    session.set_votes("s0", np.where(TRAIN.y == 0, 0, -1), dev=np.full(60, -1))
    session.label(2, "c1")

    assert_equals_a_fit(session)


def test_hand_labels_of_a_fallible_labeller_are_believed_less():
    sure = epoxy.Session(TRAIN, BARE)
    unsure = epoxy.Session(TRAIN, BARE, reliability={"guesser": 0.55})
    start = sure.probabilities
    for row in range(12):
        sure.label(row, "c1", chosen="random")
        unsure.label(row, "c1", chosen="random", by="guesser")

    moved = [np.abs(each.probabilities - start).mean() for each in (sure, unsure)]

    assert 0 < moved[1] < moved[0] / 2


@pytest.mark.parametrize("n_labels", [0, 4, 30])
def test_every_explanation_adds_up_to_the_session_s_own_probabilities(n_labels):
    session = epoxy.Session(TRAIN, BARE)
    for row in range(n_labels):
        session.label(row, f"c{TRAIN.y[row]}", chosen="random")

    for name, proba in (("train", session.probabilities), ("dev", session.dev_probabilities)):
        for row in range(0, len(proba), 3):
            said = session.explain(row, name)
            assert list(said.probabilities.values()) == proba[row].tolist()
            total = said.start + sum(voice.weight for voice in said.voices)
            assert total == pytest.approx(said.log_odds, abs=1e-8)
            assert said.start + sum(said.parts.values()) == pytest.approx(said.log_odds)


@pytest.mark.parametrize("radius", ["auto", {"s0": None, "s1": 0.05}, None])
def test_a_model_lends_the_votes_that_the_session_shows(radius):
    session = epoxy.Session(TRAIN, DEV, Fusion(radius=radius))
    model = Fusion(radius=radius).fit(TRAIN, DEV)

    for at, split in enumerate((TRAIN, BARE)):
        lent = model.extend(split)
        np.testing.assert_array_equal(lent.matrix, session.outcome.extended[at].matrix)
        assert (lent.cast.sum() == split.votes.cast.sum()) == (radius is None)
        assert (lent.matrix == split.votes.matrix)[split.votes.cast].all()


def test_the_model_of_a_session_is_saved_and_answers_like_the_session(tmp_path):
    session = epoxy.Session(TRAIN, BARE)
    for row in (70, 3, 20, 44, 9, 100):
        session.label(row, f"c{TRAIN.y[row]}", chosen="random")
    session.label(7, "c1", split="dev")

    model = session.model()
    loaded = epoxy.load(model.save(tmp_path / "model"))

    for split in (session.split(), session.split("dev")):
        np.testing.assert_array_equal(loaded.predict_proba(split), model.predict_proba(split))
    np.testing.assert_allclose(
        loaded.predict_proba(session.split()), session.probabilities, atol=1e-6
    )
    assert str(loaded.explain(DEV, 11)) == str(model.explain(DEV, 11))


def test_scores_rest_on_held_out_rows_drawn_at_random():
    session = epoxy.Session(TRAIN, BARE)
    for row in range(30):
        session.label(row, f"c{TRAIN.y[row]}", chosen="random" if row < 20 else "least sure")

    held = session.outcome.held_out[:20].argmax(axis=1)
    assert session.scores["rows"] == 20
    assert session.scores["accuracy"] == (held == TRAIN.y[:20]).mean()
    assert session.report("train").summary["scores"] == dict(session.scores)


def crowd(n_sources: int, seed: int = 0) -> epoxy.Session:
    """Many sources that name both classes, each on few rows, and one that never votes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 240)
    vectors = rng.normal(size=(240, 6)) + 1.5 * y[:, None]
    right = rng.random((240, n_sources)) < 0.75
    votes = np.where(right, y[:, None], 1 - y[:, None])
    votes[rng.random(votes.shape) > 0.15] = -1
    votes[:, 5] = -1
    names = [f"s{at}" for at in range(n_sources)]
    splits = [
        Split(epoxy.Votes(votes[part], sources=names, classes=("a", "b")), vectors[part], y=truth)
        for part, truth in ((slice(0, 200), None), (slice(200, None), y[200:]))
    ]
    return epoxy.Session(*splits, Fusion())


def test_sources_of_a_crowd_that_come_and_go_leave_what_a_fit_finds() -> None:
    session = crowd(60)

    session.switch("s3", False)
    assert_equals_a_fit(session)
    for name in (
        "s0",
        "s59",
        "s30",
    ):  # the first, the last and one between: pairs move in stretches
        session.switch(name, False)
    session.set_radius("s7", 0.05)
    assert_equals_a_fit(session)
    session.switch("s3", True)
    session.switch("s59", True)
    assert_equals_a_fit(session)


def test_a_vote_weighs_what_its_silence_would_cost() -> None:
    session = crowd(12)
    name, at = "s7", 7
    train, fusion = session.split(), session.model()
    voted = np.flatnonzero(train.votes.matrix[:, at] >= 0)
    rows = session.engine.seen(session.outcome).rows[0]
    spoken = fusion.fitted_.columns.tolist().index(at)
    mute = np.arange(len(rows.own))[:, None] == spoken
    without = {"own": np.where(mute, -1, rows.own), "votes": np.where(mute, -1, rows.votes)}
    fitted, silenced = fusion.fitted_, replace(rows, **without)
    scale = fitted.scale(rows)  # a row is not surer because nobody votes on it any more
    odds = []
    for each in (rows, silenced):
        logits = fitted.summed(each, fitted.parts(each)) * (scale / fitted.scale(each))[:, None]
        odds.append((logits[:, 1] - logits[:, 0])[voted])
    sign = np.where(train.votes.matrix[voted, at] == 1, 1, -1)

    assert session.weight(name) == pytest.approx((sign * (odds[0] - odds[1])).mean(), abs=1e-6)
    assert session.weight("s5") is None  # it never votes
    assert session.weight("nobody") is None
    assert epoxy.Session(train, model=epoxy.Epoxy(radius=0.1)).weight(name) is None
