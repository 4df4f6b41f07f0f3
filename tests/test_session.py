from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import epoxy
from epoxy.errors import (
    AlignmentError,
    NotIdentifiable,
    ParameterError,
    RadiusError,
    UnknownName,
    VoteError,
)
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


def fresh(session: epoxy.Session) -> epoxy.Session:
    """A new session with the same sources, radii and hand-given labels, computed from nothing."""
    on = session.split("train"), session.split("dev")
    radii = {name: r for name, r in session.radii.items() if name in on[0].votes.sources}
    made = epoxy.Session(
        *on,
        radius=radii,
        label_model=session.label_model,
        metric=session.metric,
        weighting=session.weighting,
    )
    for row in np.flatnonzero(on[0].labelled):
        made.label(int(row), session.classes[on[0].y[row]])
    return made


def assert_same(a: epoxy.Session, b: epoxy.Session) -> None:
    assert a.problem == b.problem
    if not a.problem:
        assert (a.probabilities == b.probabilities).all()
        assert (a.dev_probabilities == b.dev_probabilities).all()
    assert a.scores == b.scores


@pytest.fixture
def session() -> epoxy.Session:
    return epoxy.Session(TRAIN, dev=DEV, radius=0.05)


def test_a_session_starts_where_a_fitted_model_would_be(session):
    model = epoxy.Epoxy(session.label_model, 0.05).fit(TRAIN)

    assert (session.probabilities == model.predict_proba(TRAIN)).all()
    assert (session.dev_probabilities == model.predict_proba(DEV)).all()
    assert session.scores["accuracy"] == model.score(DEV)
    assert session.votes.matrix.tolist() == model.votes_.matrix.tolist()


EDITS = st.lists(
    st.one_of(
        st.tuples(
            st.just("radius"), st.integers(0, 4), st.sampled_from([0.0, 0.02, 0.1, 0.5, 2.0, None])
        ),
        st.tuples(st.just("votes"), st.integers(0, 6), st.integers(0, 10_000)),
        st.tuples(st.just("switch"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 4), st.none()),
        st.tuples(st.just("label"), st.integers(0, 119), st.sampled_from(["c0", "c1", None])),
        st.tuples(st.just("append"), st.integers(1, 9), st.integers(0, 10_000)),
        st.tuples(st.just("undo"), st.none(), st.none()),
    ),
    max_size=12,
)


def play(session: epoxy.Session, edits) -> None:
    for what, a, b in edits:
        names = session.sources
        if what == "undo":
            if session.version and session._past:
                session.undo()
        elif what == "votes":
            column = np.random.default_rng(b).integers(-1, 2, session.split().n_rows)
            column[np.random.default_rng(b + 1).random(len(column)) < 0.7] = -1
            dev = np.random.default_rng(b).integers(-1, 2, 60)
            session.set_votes(f"s{a}", column, dev=dev)
        elif what == "append":
            more = make(a, seed=b, n_sources=len(names))
            votes = epoxy.Votes(more.votes.matrix, names, session.classes)
            session.append(epoxy.Split(votes, more.vectors))
        elif what == "label":
            session.label(a, b)
        elif f"s{a}" in names and (what != "remove" or len(names) > 1):
            {"radius": session.set_radius, "switch": session.switch}.get(
                what, lambda name, _: session.remove(name)
            )(f"s{a}", b)


@given(EDITS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_any_edits_a_session_equals_a_fresh_one_bit_for_bit(edits):
    session = epoxy.Session(TRAIN, dev=DEV, radius=0.05, label_model=epoxy.Triplet([0.4, 0.6]))

    play(session, edits)

    if session.split().votes.n_sources:
        assert_same(session, fresh(session))


@given(EDITS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_graph_changes_no_answer(edits):
    options = {"radius": 0.05, "label_model": epoxy.Triplet([0.4, 0.6])}
    with_graph = epoxy.Session(TRAIN, dev=DEV, **options)
    without = epoxy.Session(TRAIN, dev=DEV, graph=False, **options)

    play(with_graph, edits)
    play(without, edits)

    assert_same(with_graph, without)


@pytest.mark.parametrize(
    "model", [epoxy.MajorityVote(), epoxy.DawidSkene(), epoxy.Triplet("learn")]
)
def test_any_label_model_can_be_edited_under(model):
    session = epoxy.Session(TRAIN, dev=DEV, radius=0.05, label_model=model)

    session.set_radius("s1", 0.3)
    session.set_votes("s2", np.where(TRAIN.y == 0, 0, -1))

    assert_same(session, fresh(session))


def test_three_classes_and_another_rule_can_be_edited_too():
    train, dev = make(n_classes=3), make(60, seed=1, n_classes=3)
    session = epoxy.Session(train, dev=dev, radius=1.0, weighting=KNearest(3), metric="euclidean")

    session.set_radius("s1", 2.0)
    session.set_votes("s2", np.where(train.y == 0, 0, -1))

    assert session.probabilities.shape == (120, 3)
    assert_same(session, fresh(session))


def test_an_edit_touches_one_column_only(session):
    before = session._now.sources

    session.set_radius("s1", 0.5)

    after = session._now.sources
    assert [a is b for a, b in zip(before, after)] == [True, False, True, True, True]


def test_a_change_says_what_happened(session):
    change = session.set_radius("s1", 2.0)

    assert change.what == "radius of s1"
    assert change.version == session.version == 1
    assert change.coverage[1] > change.coverage[0]
    assert change.after == session.scores
    assert change.seconds > 0
    assert "labels changed" in str(change)


def test_flipped_rows_are_those_whose_label_changed(session):
    before = session.probabilities.argmax(axis=1)

    change = session.set_votes("s0", np.where(TRAIN.y == 0, 0, 1))

    after = session.probabilities.argmax(axis=1)
    assert change.flipped.tolist() == np.flatnonzero(before != after).tolist()
    assert len(change.flipped) > 0


def test_watchers_are_told_until_they_stop(session):
    heard = []
    stop = session.subscribe(lambda change: heard.append(change.what))

    session.set_radius("s0", 0.1)
    session.undo()
    stop()
    session.set_radius("s0", 0.2)

    assert heard == ["radius of s0", "undo radius of s0"]


def test_each_undo_names_the_edit_it_takes_back(session):
    heard = []
    session.set_radius("s0", 0.3)
    session.switch("s1", False)
    session.subscribe(lambda change: heard.append(change.what))

    session.undo()
    session.undo()

    assert heard == ["undo off s1", "undo radius of s0"]


def test_a_change_is_made_of_plain_numbers(session):
    change = session.set_radius("s0", 0.3)

    assert [type(each) for each in change.coverage] == [float, float]


def test_undo_goes_back_step_by_step_to_the_start(session):
    start = session.probabilities
    session.set_radius("s0", 0.4)
    session.switch("s1", False)

    session.undo()
    session.undo()

    assert (session.probabilities == start).all()
    with pytest.raises(ParameterError, match="no edit to undo"):
        session.undo()


def test_a_hand_given_label_changes_scores_only(session):
    before = session.probabilities
    rows = session.scores["rows"]

    session.label(3, session.classes[0])

    assert session.probabilities is not None
    assert (session.probabilities == before).all()
    assert session.scores["rows"] == rows + 1
    session.label(3, None)
    assert session.scores["rows"] == rows


def test_votes_may_be_given_as_names(session):
    names = np.where(TRAIN.votes.matrix[:, 0] == 1, "c1", None).astype(object)

    session.set_votes("s0", names)

    assert set(np.unique(session.split().votes.column("s0"))) == {-1, 1}


def test_a_new_source_starts_with_the_usual_radius(session):
    session.set_votes("new", np.where(TRAIN.y == 1, 1, -1))

    assert session.sources[-1] == "new"
    assert session.radii["new"] == 0.05


def test_when_too_little_is_left_the_session_says_why_and_recovers(session):
    for name in ("s0", "s1", "s2"):
        session.switch(name, False)

    assert "at least 3 sources" in session.problem
    with pytest.raises(NotIdentifiable, match="at least 3 sources"):
        session.probabilities  # noqa: B018
    session.switch("s0", True)
    assert session.problem == ""
    assert session.probabilities.shape == (120, 2)


def test_rows_can_be_appended(session):
    more = make(10, seed=7)

    session.append(
        epoxy.Split(
            epoxy.Votes(more.votes.matrix, TRAIN.votes.sources, TRAIN.classes), more.vectors
        )
    )

    assert session.probabilities.shape == (130, 2)
    assert_same(session, fresh(session))


def test_reports_explanations_and_models_come_from_the_current_state(session):
    session.set_radius("s1", 0.4)

    assert session.report().rows[1]["radius"] == 0.4
    assert session.explain(0).probabilities["c0"] == session.probabilities[0, 0]
    assert (session.model().predict_proba(DEV) == session.dev_probabilities).all()
    session.set_votes("s1", TRAIN.votes.matrix[:, 1])
    with pytest.raises(RadiusError, match="source 's1' was searched up to"):
        session.model().reach_.extend(np.inf)


def test_sessions_without_dev_or_vectors_work():
    bare = epoxy.Session(epoxy.Split(TRAIN.votes))

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
    before = session._now

    with pytest.raises(error, match=message):
        edit(session)

    assert session._now is before


def test_splits_of_one_session_share_sources():
    with pytest.raises(AlignmentError, match="the same sources and classes"):
        epoxy.Session(TRAIN, dev=make(10, n_sources=2))


def test_many_sources_are_counted_anew_when_pairs_would_not_fit(monkeypatch):
    monkeypatch.setattr("epoxy.session.working._LARGEST", 4)
    session = epoxy.Session(TRAIN, dev=DEV, radius=0.05)

    session.set_radius("s1", 0.4)
    session.remove("s2")

    assert_same(session, fresh(session))


def test_a_session_without_compiled_loops_gives_the_same_bits(monkeypatch):
    def edited():
        session = epoxy.Session(TRAIN, dev=DEV, radius=0.05)
        session.set_radius("s1", 0.4)
        session.set_votes("s2", TRAIN.votes.column("s1"))
        session.remove("s3")
        return session

    compiled = edited()
    monkeypatch.setenv("EPOXY_KERNELS", "numpy")

    assert_same(edited(), compiled)


def test_pairs_are_counted_once_they_fit_again(monkeypatch):
    monkeypatch.setattr(
        "epoxy.session.working._LARGEST", len(TRAIN.classes) * (TRAIN.votes.n_sources - 1)
    )
    session = epoxy.Session(TRAIN, dev=DEV, radius=0.05)

    session.remove("s2")
    assert session._working.keeps_pairs

    assert_same(session, fresh(session))
