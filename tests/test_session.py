"""A session equals a fitted model, whatever was edited on the way there; the oracle is never a session."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import epoxy
from epoxy.errors import (
    AlignmentError,
    EpoxyError,
    NotIdentifiable,
    ParameterError,
    RadiusError,
    UnknownName,
    VoteError,
)
from epoxy.neighbors import graph
from epoxy.scoring import SHOWN, Measure
from epoxy.session import Label, Radii, SetVotes, Switch
from epoxy.session.edits import SetBalance, Several, edit_from_json
from epoxy.weighting import KNearest


def make(n_rows=120, seed=0, n_classes=2, n_sources=5) -> epoxy.Split:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    vectors = (
        rng.integers(-3, 4, (n_rows, 3)) + 4 * np.eye(3)[y % 3]
    )  # a grid: many equal distances
    vectors[(vectors == 0).all(axis=1)] = 1
    right = rng.random((n_rows, n_sources)) < 0.8
    matrix = np.where(right, y[:, None], rng.integers(0, n_classes, (n_rows, n_sources)))
    matrix[rng.random((n_rows, n_sources)) > 0.3] = -1
    votes = epoxy.Votes(
        matrix, [f"s{i}" for i in range(n_sources)], [f"c{k}" for k in range(n_classes)]
    )
    return epoxy.Split(votes, vectors.astype(float), y=y)


TRAIN, DEV = make(), make(60, seed=1)


def fitted(session: epoxy.Session) -> epoxy.Epoxy:
    """The paper's pipeline fitted from nothing on what the session holds now."""
    template = session.model_template
    train = session.split()
    radii = {name: r for name, r in session.radii.items() if name in train.votes.sources}
    model = epoxy.Epoxy(template.label_model, radii, template.weighting, metric=template.metric)
    return model.fit(train, session.hand_labelled())


def assert_equals_a_fit(session: epoxy.Session) -> None:
    if not session.split().votes.n_sources:
        assert "no source is switched on" in session.problem
        return
    if session.problem:
        with pytest.raises(NotIdentifiable, match=re.escape(session.problem)):
            fitted(session)
        return
    model = fitted(session)
    assert session.problem == ""
    assert (session.probabilities == model.predict_proba(session.split())).all()
    assert (session.dev_probabilities == model.predict_proba(session.split("dev"))).all()
    assert session.votes.matrix.tolist() == model.votes_.matrix.tolist()
    guess = model.predict_proba(session.split()).argmax(axis=1)
    truth = session.split().y
    assert (session.labels == np.where(truth >= 0, truth, guess)).all()


def paper(**options) -> epoxy.Session:
    return epoxy.Session(TRAIN, DEV, epoxy.Epoxy(**{"radius": 0.05, **options}))


@pytest.fixture
def session() -> epoxy.Session:
    return paper()


EDITS = st.lists(
    st.one_of(
        st.tuples(
            st.just("radius"),
            st.integers(0, 4),
            st.sampled_from([0.0, 0.02, 0.1, 0.5, 2.0, None, "auto"]),
        ),
        st.tuples(st.just("votes"), st.integers(0, 6), st.integers(0, 10_000)),
        st.tuples(st.just("switch"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 4), st.none()),
        st.tuples(st.just("label"), st.integers(0, 119), st.sampled_from(["c0", "c1", None])),
        st.tuples(st.just("dev label"), st.integers(0, 59), st.sampled_from(["c0", "c1", None])),
        st.tuples(st.just("append"), st.integers(1, 9), st.integers(0, 10_000)),
        st.tuples(st.just("undo"), st.none(), st.none()),
        st.tuples(st.just("redo"), st.none(), st.none()),
        st.tuples(st.just("preview"), st.integers(0, 4), st.sampled_from([0.0, 0.3, None])),
    ),
    max_size=12,
)


def play(session: epoxy.Session, edits) -> None:
    for what, a, b in edits:
        names = session.sources
        if what in ("undo", "redo"):
            try:
                getattr(session, what)()
            except ParameterError as error:
                assert "there is no edit" in str(error)  # noqa: PT017
        elif what == "votes":
            column = np.random.default_rng(b).integers(-1, 2, session.split().n_rows)
            column[np.random.default_rng(b + 1).random(len(column)) < 0.7] = -1
            dev = np.random.default_rng(b).integers(-1, 2, 60)
            session.set_votes(f"s{a}", column, dev=dev)
        elif what == "append":
            more = make(a, seed=b, n_sources=len(names))
            votes = epoxy.Votes(more.votes.matrix, names, session.classes)
            ids = 1000 + session.split().n_rows + np.arange(a)
            session.append(epoxy.Split(votes, more.vectors, ids=ids))
        elif what == "label":
            session.label(a, b, chosen="random" if a % 2 else None)
        elif what == "dev label":
            session.label(a, b, split="dev")
        elif f"s{a}" in names and (what != "remove" or len(names) > 1):
            if what == "preview":
                session.preview(Radii({f"s{a}": b}))
                continue
            {"radius": session.set_radius, "switch": session.switch}.get(
                what, lambda name, _: session.remove(name)
            )(f"s{a}", b)


SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(EDITS)
@SLOW
def test_after_any_edits_a_session_equals_a_fitted_model_bit_for_bit(edits):
    session = paper()

    play(session, edits)

    assert_equals_a_fit(session)


@given(EDITS)
@settings(SLOW, max_examples=20)
def test_lists_that_end_and_rows_that_come_later_change_no_answer(edits):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "K", 5)
        session = paper()
        assert session.state.workspace.near.graphs[0].width == 5

        play(session, edits)

        assert_equals_a_fit(session)


@pytest.mark.parametrize(
    "model", [epoxy.MajorityVote(), epoxy.DawidSkene(), epoxy.Triplet("learn"), epoxy.Chain(5)]
)
def test_any_label_model_can_be_edited_under(model):
    session = paper(label_model=model)

    session.set_radius("s1", 0.3)
    session.set_votes("s2", np.where(TRAIN.y == 0, 0, -1))
    session.label(3, "c1")

    assert_equals_a_fit(session)


class Foreign:
    """A model from elsewhere: vote shares, and the class shares of dev where nobody votes."""

    def fit(self, train, dev=None):
        counts = np.zeros(2) if dev is None else np.bincount(dev.y, minlength=2)
        self.prior = (counts + 1) / (counts.sum() + 2)
        return self

    def predict_proba(self, split):
        counts = np.stack([(split.votes.matrix == k).sum(axis=1) for k in range(2)], axis=1)
        total = counts.sum(axis=1, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1), self.prior)


def test_any_object_with_fit_and_predict_proba_can_be_the_model():
    session = epoxy.Session(TRAIN, DEV, Foreign())

    session.label(0, "c1")
    session.switch("s0", False)

    oracle = Foreign().fit(session.split(), session.hand_labelled())
    assert (session.probabilities == oracle.predict_proba(session.split())).all()
    assert session.scores["rows"] == 61
    assert list(session.comparison()) == ["majority", "epoxy", "foreign"]
    assert session.explain(0).probabilities["c0"] == session.probabilities[0, 0]
    assert session.report().summary["model"] == "Foreign"


class Remembering(Foreign):
    """A model that knows the rows it has seen, and nothing of others."""

    def fit(self, train, dev=None):
        self.seen = {} if dev is None else dict(zip(map(bytes, dev.vectors), dev.y))
        return self

    def predict_proba(self, split):
        known = [self.seen.get(bytes(each), -1) for each in split.vectors]
        return np.array([np.eye(2)[label] if label >= 0 else [0.5, 0.5] for label in known])


def test_a_model_from_elsewhere_is_scored_on_rows_it_has_not_seen():
    _, first = np.unique(DEV.vectors, axis=0, return_index=True)
    few = DEV.rows(np.sort(first))

    session = epoxy.Session(TRAIN, few, Remembering())

    assert (session.dev_probabilities.max(axis=1) == 1).all()
    assert (session.outcome.held_out == 0.5).all()


@pytest.mark.parametrize(
    "model",
    [epoxy.Fusion(), epoxy.Epoxy(radius=2.0), Foreign()],
    ids=["fusion", "epoxy", "foreign"],
)
def test_majority_vote_is_of_the_own_votes_wherever_it_stands(model):
    session = epoxy.Session(TRAIN, DEV, model)
    own = np.stack([(DEV.votes.matrix == k).sum(axis=1) for k in range(2)], axis=1)
    shares = own / np.maximum(1, own.sum(axis=1, keepdims=True))
    assert (own.sum(axis=1) == 0).any()

    said = [session.explain(row, "dev").majority for row in range(len(DEV))]

    assert [list(each.values()) for each in said] == shares.tolist()
    found = session.comparison()["majority"]["accuracy"]
    assert found == (shares.argmax(axis=1) == DEV.y).mean()
    assert session.report().summary["majority vote"]["accuracy"] == found
    if isinstance(model, epoxy.Epoxy):
        assert fitted(session).report(DEV).summary["majority vote"]["accuracy"] == found


@pytest.mark.parametrize(
    "model",
    [epoxy.Fusion(), epoxy.Epoxy(radius=2.0), Foreign()],
    ids=["fusion", "epoxy", "foreign"],
)
def test_a_row_labelled_by_hand_is_explained_as_what_it_was_labelled(model):
    session = epoxy.Session(TRAIN, DEV, model)
    sure = np.argsort(-np.ptp(session.probabilities, axis=1), kind="stable")[:3].tolist()
    wrong = [session.classes[int(session.probabilities[row].argmin())] for row in sure]

    for row, label in zip(sure, wrong):
        session.label(row, label, chosen="surprising")

    found = [session.explain(row) for row in sure]
    assert [each.label for each in found] == [each.truth for each in found] == wrong
    assert any(each.probabilities[each.label] < 0.5 for each in found)


def test_an_edit_touches_one_source_only(session):
    before = session.state.workspace.sources

    session.set_radius("s1", 0.5)

    after = session.state.workspace.sources
    assert [a is b for a, b in zip(before, after)] == [True, False, True, True, True]


def test_a_change_says_what_happened(session):
    change = session.set_radius("s1", 2.0)

    assert change.what == "radius of s1"
    assert change.version == session.version == 1
    assert change.coverage[1] > change.coverage[0]
    assert change.after == session.scores
    assert change.edit == {"kind": "radii", "radii": {"s1": 2.0}}
    assert "labels changed" in str(change)
    before, after = change.coverage
    assert f"coverage of s1 {before:.1%} → {after:.1%}" in str(change)
    assert change.to_dict()["flipped"] == change.flipped.tolist()


def test_undo_brings_back_the_label_before_and_how_its_row_was_chosen(session):
    session.label(3, "c0", chosen="random")
    before = session.state.records.of((0, 3))
    session.label(3, "c1", chosen="least sure")

    session.undo()

    assert session.state.records.of((0, 3)) == before
    assert session.state.workspace.labels.chosen[0][3] == "random"


def test_a_preview_says_what_an_edit_would_do_and_keeps_nothing(session):
    start = session.probabilities

    seen = session.preview(Radii({"s1": 2.0}))
    draft = session.preview(SetVotes("new", (np.where(TRAIN.y == 1, 1, -1), None)))

    assert session.version == 0
    assert session.radii["s1"] == 0.05
    assert session.probabilities is start
    assert draft.what == "add new"
    done = session.set_radius("s1", 2.0)
    assert seen.flipped.tolist() == done.flipped.tolist()
    assert dict(seen.after) == dict(done.after)
    assert_equals_a_fit(session)


def test_a_hand_label_against_the_model_flips_its_own_row_and_is_told():
    session = paper(label_model=epoxy.Triplet([0.4, 0.6]))  # whose labels hand labels do not move
    row = int(session.probabilities[:, 0].argmax())

    change = session.label(row, "c1")

    assert change.flipped.tolist() == [row]
    assert session.undo().flipped.tolist() == [row]


def test_watchers_are_told_until_they_stop(session):
    heard = []
    stop = session.subscribe(lambda change: heard.append(change.what))

    session.set_radius("s0", 0.1)
    session.undo()
    session.redo()
    stop()
    session.set_radius("s0", 0.2)

    assert heard == ["radius of s0", "undo radius of s0", "redo radius of s0"]


def test_undo_goes_back_step_by_step_to_the_start_and_redo_forth_again(session):
    start = session.probabilities
    session.set_radius("s0", 0.4)
    session.remove("s1")
    session.label(4, "c1")
    end = session.probabilities

    for _ in range(3):
        session.undo()

    assert session.sources == TRAIN.votes.sources
    assert (session.probabilities == start).all()
    with pytest.raises(ParameterError, match="no edit to undo"):
        session.undo()
    for _ in range(3):
        session.redo()
    assert (session.probabilities == end).all()
    with pytest.raises(ParameterError, match="no edit to redo"):
        session.redo()


def test_a_hand_label_teaches_the_class_balance_and_overrides_the_label(session):
    for row in range(40):
        session.label(row, "c1", chosen="random")

    assert (session.labels[:40] == 1).all()
    assert session.split().y[:40].tolist() == [1] * 40
    assert_equals_a_fit(session)
    assert session.model().label_model_.class_balance_[1] > 0.6


def test_rows_that_were_chosen_teach_no_class_balance_and_are_not_scored(session):
    before = session.probabilities

    for row in range(40):
        session.label(row, "c1", chosen="least sure")

    assert (session.probabilities == before).all()
    assert session.scores["rows"] == 60
    assert_equals_a_fit(session)


def test_scores_say_what_they_rest_on():
    session = epoxy.Session(TRAIN, None, epoxy.Epoxy())
    assert (session.scores, session.scores.basis) == ({}, "none")
    assert "no row is labelled" in session.scores.why

    session.label(0, "c1", chosen="surest")
    assert session.scores == {}
    assert "none drawn at random" in session.scores.why

    session.label(1, "c1", chosen="random")
    assert (session.scores["rows"], session.scores.basis) == (1, "random")

    session.label(2, "c1")
    assert (session.scores["rows"], session.scores.basis) == (2, "unknown")
    assert "not known" in session.scores.why


def test_a_row_is_scored_by_a_model_that_did_not_count_it():
    session = epoxy.Session(TRAIN, None, epoxy.Epoxy(radius=0.05))
    for row in range(6):
        session.label(row, "c1" if row else "c0", chosen="random")

    def without(row: int) -> np.ndarray:
        rest = epoxy.Session(TRAIN, None, epoxy.Epoxy(radius=0.05))
        for other in set(range(6)) - {row}:
            rest.label(other, "c1" if other else "c0", chosen="random")
        return fitted(rest).predict_proba(TRAIN)[row]

    for row in range(6):
        assert session.outcome.held_out[row] == pytest.approx(without(row), abs=1e-12)


def test_comparison_scores_every_model_on_the_same_rows(session):
    session.label(0, "c1", chosen="surest")
    beside = session.comparison()

    assert list(beside) == ["majority", "epoxy"]
    assert {scored["rows"] for scored in beside.values()} == {60}
    assert beside["epoxy"] == session.scores
    counts = np.stack([(DEV.votes.matrix == k).sum(axis=1) for k in range(2)], axis=1)
    assert beside["majority"]["accuracy"] == (counts.argmax(axis=1) == DEV.y).mean()


def test_a_score_of_the_registry_is_shown_everywhere_and_settings_are_chosen_by_it(
    session, monkeypatch
):
    lift = Measure(lambda it: 2 * float((it.named == it.truth).mean()), ("table", "line"))
    monkeypatch.setitem(SHOWN, "lift", lift)

    change = session.label(7, "c0")

    assert session.scores["lift"] == 2 * session.scores["accuracy"]
    assert session.report().summary["scores"]["lift"] == session.scores["lift"]
    assert "lift" in str(session.comparison()).splitlines()[0]
    assert "held-out lift" in str(change)
    search = session.tune(scoring="lift").search
    assert search.scoring == "lift"
    assert 2 * session.scores["accuracy"] == pytest.approx(search.best.score, abs=0.1)


def test_a_function_can_be_added_where_the_rows_are_known():
    @epoxy.labeling_function
    def large(row):
        return "c1" if row.size > 50 else None

    rows = ([{"size": at} for at in range(120)], [{"size": 100}] * 60)
    session = epoxy.Session(TRAIN, DEV, epoxy.Epoxy(radius=0.05), rows=rows)

    assert session.add(large).what == "add large"
    assert session.split().votes.column("large").tolist() == [-1] * 51 + [1] * 69
    assert session.split("dev").votes.column("large").tolist() == [1] * 60
    assert_equals_a_fit(session)
    with pytest.raises(ParameterError, match="this session was given none"):
        paper().add(large)
    with pytest.raises(ParameterError, match="project folder"):
        paper().reload()


def test_when_too_little_is_left_the_session_says_why_and_recovers(session):
    for name in ("s0", "s1", "s2"):
        session.switch(name, False)

    assert "at least 3 sources" in session.problem
    with pytest.raises(NotIdentifiable, match="at least 3 sources"):
        session.probabilities  # noqa: B018
    session.switch("s0", True)
    assert session.problem == ""
    assert session.probabilities.shape == (120, 2)


def test_rows_come_and_go_under_what_was_decided():
    session = paper()
    more = make(10, seed=7)
    votes = epoxy.Votes(more.votes.matrix, TRAIN.votes.sources, TRAIN.classes)
    session.apply(SetBalance((0.9, 0.1)))
    session.set_radius("s1", 2.0)

    session.append(epoxy.Split(votes, more.vectors))

    uneven = epoxy.Epoxy(epoxy.Triplet([0.9, 0.1]), session.radii).fit(session.split())
    assert (session.probabilities == uneven.predict_proba(session.split())).all()
    # what another session of the project decides meanwhile is not this one's to take back
    theirs = (Switch("s0", False), Radii({"s2": 0.5}), Label("train", "3", "c1"))
    session.follow(Several((*theirs, SetBalance((0.7, 0.3)))))
    for _ in range(2):
        session.undo()
        assert len(session.labels) == 120
        assert session.switched_off == ("s0",)
        assert session.radii["s2"] == 0.5
        assert session.split().y[3] == 1
        radii = {name: session.radii[name] for name in session.split().votes.sources}
        uneven = epoxy.Epoxy(epoxy.Triplet([0.7, 0.3]), radii).fit(session.split())
        assert (session.probabilities == uneven.predict_proba(session.split())).all()
        session.redo()
        assert len(session.labels) == 130
        assert session.split().y[3] == 1


def test_appended_rows_leave_who_said_what_and_bring_no_truth(session):
    session.label(3, "c1", by="ann", chosen="least sure")
    said = session.state.records.of((0, 3))
    more = make(10, seed=7)

    session.append(epoxy.Split(more.votes, more.vectors, more.y))

    assert [each.by for each in said] == ["ann"]
    assert session.state.records.of((0, 3)) == said
    assert (session.split().truth[-10:] == -1).all()
    assert (session.state.workspace.splits[0].truth[-10:] == -1).all()


def named(ids, seed=7) -> epoxy.Split:
    """As many rows as ids."""
    split = make(len(ids), seed=seed)
    return epoxy.Split(split.votes, split.vectors, ids=ids)


NAMED = named([f"t{at}" for at in range(120)], seed=0), named([f"d{at}" for at in range(60)], 1)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            ["n0", "t3", "n1", "t5"],
            r"^2 of the 4 appended rows have the id of a row that is there: \['t3', 't5'\]; leave those",
        ),
        (
            ["n0", "d7"],
            r"1 of the 2 appended rows have the id of a row that is there: \['d7'\]; leave",
        ),
        (
            ["n0", "n1", "n0"],
            r"^1 ids name two of the 3 appended rows or more: \['n0'\]; give every row an id of its own$",
        ),
    ],
)
def test_a_row_is_not_appended_under_the_id_of_another(ids, message):
    session = epoxy.Session(*NAMED, epoxy.Epoxy(radius=0.05))
    before = session.state

    with pytest.raises(AlignmentError, match=message):
        session.append(named(ids))

    assert session.state is before
    assert session.version == 0
    with pytest.raises(ParameterError, match="there is no edit"):
        session.undo()


@pytest.mark.parametrize(
    ("train", "more", "expected"),
    [
        (None, [None, None], ["120", "121", "122", "123"]),
        ([f"t{at}" for at in range(120)], [None, None], ["0", "1", "122", "123"]),
        ([*range(119), 121], [None, None], ["120", "122", "123", "124"]),
        (range(100, 220), [None, ["x", "y"]], ["0", "1", "x", "y"]),
    ],
    ids=["none at all", "text", "numbers with a gap", "numbers from elsewhere"],
)
def test_appended_rows_without_ids_count_on_where_their_numbers_are_taken(train, more, expected):
    dev = make(200, seed=1)  # counted for itself, also past the train rows
    session = epoxy.Session(
        TRAIN if train is None else named(list(train), seed=0), dev, epoxy.Epoxy(radius=0.05)
    )

    for ids in more:
        session.append(make(2, seed=7) if ids is None else named(ids))

    assert session.split().ids.astype(str).tolist()[120:] == expected
    for at, name in enumerate(expected, 120):
        assert session.find(name) == ("train", at)


def test_appended_rows_keep_their_sequences():
    def in_threes(split, first=0):
        ids = first + np.arange(split.n_rows) // 3
        votes = epoxy.Votes(split.votes.matrix, split.votes.sources, split.classes, sequences=ids)
        return epoxy.Split(votes, split.vectors, split.y)

    session = epoxy.Session(
        in_threes(TRAIN), in_threes(DEV), epoxy.Epoxy(epoxy.Chain(), radius=0.05)
    )

    session.append(in_threes(make(9, seed=7), first=40))

    assert session.split().votes.sequences.tolist() == (np.arange(129) // 3).tolist()
    assert_equals_a_fit(session)
    with pytest.raises(AlignmentError, match="both name their sequences"):
        session.append(make(9, seed=8))


def test_reports_explanations_and_models_come_from_the_current_state(session):
    session.set_radius("s1", 0.4)

    assert session.report().rows[1]["radius"] == 0.4
    assert session.explain(0).probabilities["c0"] == session.probabilities[0, 0]
    assert (session.model().predict_proba(DEV) == session.dev_probabilities).all()


def test_sessions_without_dev_or_vectors_work():
    bare = epoxy.Session(epoxy.Split(TRAIN.votes), model=epoxy.Epoxy())

    bare.set_radius("s0", 0.4)

    assert bare.scores == {}
    assert bare.report().summary["rows"] == 120
    with pytest.raises(ParameterError, match="no dev split"):
        bare.dev_probabilities  # noqa: B018


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda s: s.set_radius("nobody", 0.1), UnknownName, "no source named 'nobody'"),
        (lambda s: s.set_radius("s0", -1), RadiusError, "at least 0"),
        (lambda s: s.set_radius("s0", "big"), RadiusError, "is 'big'"),
        (lambda s: s.set_votes("s0", [0, 1]), AlignmentError, "needs one vote per row"),
        (lambda s: s.set_votes("s0", np.full(120, 9)), VoteError, "votes 9 on row 0"),
        (lambda s: s.set_votes("s0", ["eggs"] * 120), VoteError, "votes 'eggs'"),
        (lambda s: s.label(0, "eggs"), UnknownName, "no class named 'eggs'"),
        (lambda s: s.label("nobody", "c0"), AlignmentError, "no row 'nobody'"),
        (lambda s: s.split("test"), UnknownName, "no split named 'test'"),
        (lambda s: s.append(make(3, n_sources=2)), AlignmentError, "appended rows need votes"),
    ],
)
def test_a_wrong_edit_is_refused_and_loses_nothing(edit, error, message, session):
    before = session.state

    with pytest.raises(error, match=message):
        edit(session)

    assert session.state is before
    assert session.version == 0
    assert_equals_a_fit(session)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: epoxy.Session(TRAIN, DEV, 3), ParameterError, "int has no fit"),
        (lambda: epoxy.Session(TRAIN, make(10, n_sources=2)), AlignmentError, "the same sources"),
        (lambda: epoxy.Session(TRAIN, DEV, positive="eggs"), UnknownName, "'eggs'"),
        (lambda: edit_from_json({"kind": "dance"}), EpoxyError, "'dance'"),
    ],
)
def test_what_no_session_or_edit_can_be_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_edits_of_several_threads_are_put_in_order(session):
    def edit(number: int) -> None:
        for at in range(20):
            session.label(20 * number + at, "c1", chosen="random")

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert session.version == 80
    assert (session.split().y[:80] == 1).all()
    assert_equals_a_fit(session)


def test_the_way_back_is_bounded(session, monkeypatch):
    monkeypatch.setattr("epoxy.session.state.MOST_STEPS", 7)
    for at in range(20):
        session.set_votes("s0", np.roll(TRAIN.votes.column("s0"), at))

    undone = 0
    while undone < 20 and session.undoable:
        session.undo()
        undone += 1

    assert undone == 7
    with pytest.raises(ParameterError, match="no edit to undo"):
        session.undo()


@pytest.mark.parametrize(
    "edit", [Radii({"s0": 0.1, "s1": None}), Switch("s0", False), Radii({"s2": "auto"})]
)
def test_edits_survive_json(edit, session):
    import json

    again = edit_from_json(json.loads(json.dumps(edit.to_json())))

    assert again.to_json() == edit.to_json()
    session.apply(again)
    assert_equals_a_fit(session)


def test_the_pipeline_beside_the_model_is_that_of_a_new_one_after_any_edit():
    kept = epoxy.Session(make(), make(40, seed=1))
    kept.comparison()

    kept.set_radius(kept.sources[0], 0.3)
    kept.switch(kept.sources[1], False)

    fresh = epoxy.Session(make(), make(40, seed=1))
    fresh.set_radii({kept.sources[0]: 0.3})
    fresh.switch(kept.sources[1], False)
    assert kept.comparison()["epoxy"] == fresh.comparison()["epoxy"]
    np.testing.assert_array_equal(kept.baseline().proba[0], fresh.baseline().proba[0])


def test_labels_are_made_with_what_tuning_chose_and_undo_comes_back_to_it():
    session = epoxy.Session(TRAIN, DEV, epoxy.Epoxy())
    before = session.votes.matrix.copy()

    best = session.tune(caution=0).search.best
    tuned = session.probabilities
    session.set_radius("s0", 0.9)
    session.undo()

    balance = epoxy.label_models.balance_of(DEV) if best.balance is None else best.balance
    model = epoxy.Epoxy(epoxy.Triplet(list(balance)), best.radii).fit(session.split())
    assert (model.votes_.matrix != before).any()
    np.testing.assert_array_equal(session.votes.matrix, model.votes_.matrix)
    assert (tuned == model.predict_proba(session.split())).all()
    assert (session.probabilities == tuned).all()


def test_why_needs_no_other_row_and_says_the_same(session):
    row = int(np.flatnonzero((session.votes.matrix >= 0).any(axis=1))[0])
    traced = session.engine.reach(session.state.workspace, 0).trace(session.outcome.radii)

    found = session.explain(row)

    assert found.row == row
    told = {voice.source: (voice.vote, voice.lender, voice.distance) for voice in found.voices}
    for at, name in enumerate(session.sources):
        vote, lender, distance = told[name]
        cast = int(traced.votes.matrix[row, at])
        assert vote == (None if cast < 0 else session.classes[cast])
        if lender is not None:
            assert (lender, distance) == (traced.lender[row, at], traced.distance[row, at])
    assert found.log_odds == pytest.approx(
        float(np.diff(np.log(session.probabilities[row]))[0])
        * (1 if found.label == session.classes[1] else -1)
    )


@pytest.mark.parametrize("model", [epoxy.Epoxy(radius=0.0), epoxy.Fusion(), Foreign()])
def test_where_nobody_votes_there_is_no_majority(model):
    silent = make(40)
    matrix = silent.votes.matrix.copy()
    matrix[7] = -1
    vectors = silent.vectors.copy()
    vectors[7] = [-9, -9, 9]
    votes = epoxy.Votes(matrix, silent.votes.sources, silent.votes.classes)
    session = epoxy.Session(epoxy.Split(votes, vectors), DEV, model)

    found = session.explain(7)

    assert set(found.majority.values()) == {0.0}
    assert "nobody votes" in str(found)


def test_how_right_a_source_is_is_told_of_all_hand_labels_whichever_split_is_reported(session):
    for row in range(12):
        session.label(row, f"c{TRAIN.y[row]}")

    reports = {name: session.report(name) for name in ("train", "dev")}

    taught = session.hand_labelled()
    for at, name in enumerate(session.sources):
        own, y = taught.votes.matrix[:, at], taught.y
        right, total = int((own == y).sum()), int((own >= 0).sum())
        for report in reports.values():
            told = report.rows[at]["accuracy_original"]
            assert (report.rows[at]["source"], told["n"]) == (name, total)
            assert told["value"] == pytest.approx(right / total)
    assert [each.summary["split"] for each in reports.values()] == ["train", "dev"]


def test_a_number_that_is_no_id_counts_through_train_and_then_dev_as_rows_are_browsed():
    def named(split, word):
        ids = [f"{word}-{at}" for at in range(split.n_rows)]
        return epoxy.Split(split.votes, split.vectors, split.y, ids)

    session = epoxy.Session(named(TRAIN, "a"), named(DEV, "b"), epoxy.Epoxy(radius=0.05))

    for number in (0, 119, 120, 179):
        at, row = session.place(number)
        assert session.find(number) == session.find(str(number)) == (session.names[at], row)
        assert session.explain(number).row == session.explain(str(number)).row
    assert session.explain(120).row == "b-0"
    assert session.find(5, "dev") == ("dev", 5)
    told = r" among the 180 rows of train and dev; give an id \(the first is 'a-0'\) or a number below 180"
    for wrong in (180, -1, "a-180"):
        with pytest.raises(AlignmentError, match=f"no row {wrong!r}{told}"):
            session.explain(wrong)
    with pytest.raises(AlignmentError, match="no row 60 in this split of 60 rows"):
        session.explain(60, "dev")


def test_three_classes_and_another_rule_can_be_edited_too():
    train, dev = make(n_classes=3), make(60, seed=1, n_classes=3)
    model = epoxy.Epoxy(radius=1.0, weighting=KNearest(3), metric="euclidean")
    session = epoxy.Session(train, dev, model)

    session.set_radius("s1", 2.0)
    session.set_votes("s2", np.where(train.y == 0, 0, -1))

    assert session.probabilities.shape == (120, 3)
    assert_equals_a_fit(session)
