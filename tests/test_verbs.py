"""What a page, a terminal and an agent ask of a session; the oracles are loops over rows."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epoxy
from epoxy.errors import NotIdentifiable, ParameterError, UnknownName, VectorError
from epoxy.session import Radii, SetVotes, Switch
from epoxy.session.labels import Drawn, with_random
from epoxy.suggest import RowQuery
from epoxy.workspace import HandLabels

WORDS = ["money", "Prize", "dinner", "home", "ÄPFEL", "free money"]


def make(n_rows=90, seed=0, offset=0) -> epoxy.Split:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    vectors = rng.integers(-3, 4, (n_rows, 3)) + 3 * np.eye(3)[y]  # a grid: many equal vectors
    vectors[(vectors == 0).all(axis=1)] = 1
    right = rng.random((n_rows, 4)) < 0.75
    matrix = np.where(right, y[:, None], 1 - y[:, None])
    matrix[rng.random((n_rows, 4)) > 0.3] = -1
    votes = epoxy.Votes(matrix, list("abcd"), ["ham", "spam"])
    return epoxy.Split(
        votes, vectors.astype(float), y, ids=[f"r{offset + at}" for at in range(n_rows)]
    )


TRAIN, DEV = make(), make(40, 1, 1000)


def texts(n_rows: int, seed: int) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    return [{"text": " ".join(rng.choice(WORDS, 3)), "author": f"A{at}"} for at in range(n_rows)]


ROWS = (texts(90, 2), texts(40, 3))


def session(model=None, **options) -> epoxy.Session:
    return epoxy.Session(TRAIN, DEV, model or epoxy.Epoxy(radius=0.05), rows=ROWS, **options)


@pytest.fixture(scope="module")
def paper() -> epoxy.Session:
    return session()


@pytest.fixture(scope="module")
def fused() -> epoxy.Session:
    return session(epoxy.Fusion())


def distance(first: np.ndarray, second: np.ndarray) -> float:
    a, b = first.astype(np.float32).astype(float), second.astype(np.float32).astype(float)
    return max(0.0, 1 - float(a @ b) / float(np.sqrt((a @ a) * (b @ b))))


# trials


@pytest.mark.parametrize(
    "model", [epoxy.Epoxy(radius=0.05), epoxy.Fusion()], ids=["paper", "fused"]
)
def test_a_trial_holds_what_the_edit_then_brings(model):
    tried, done = session(model), session(model)
    edit = SetVotes("a", (np.where(TRAIN.y == 1, 1, -1), None))

    trial = tried.trial(edit)
    change = done.apply(edit)

    assert trial.change.flipped.tolist() == change.flipped.tolist()
    assert dict(trial.scores) == dict(done.scores)
    assert (trial.outcome.proba[0] == done.probabilities).all()
    assert (
        trial.state.workspace.source("a").own[0].tolist() == np.where(TRAIN.y == 1, 1, -1).tolist()
    )
    assert repr(trial).startswith("Trial(votes of a: ")
    assert tried.version == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.sampled_from([0.0, 0.1, 0.6, None, "auto", "off", "votes"]),
            st.booleans(),
        ),
        max_size=6,
    )
)
@settings(max_examples=15, deadline=None)
def test_after_any_trials_a_session_is_what_a_fresh_one_would_be(steps):
    edited, fresh = session(epoxy.Fusion()), session(epoxy.Fusion())
    kept = []
    for name, what, keep in steps:
        edit = Radii({name: what})
        if what == "off":
            edit = Switch(name, False)
        elif what == "votes":
            edit = SetVotes(name, (np.where(np.arange(90) % 3 == 0, 1, -1), None))
        edited.trial(edit)
        if keep:
            edited.apply(edit)
            kept.append(edit)
    for edit in kept:
        fresh.apply(edit)

    assert edited.problem == fresh.problem
    if not edited.problem:
        np.testing.assert_allclose(edited.probabilities, fresh.probabilities, atol=1e-9)
        assert edited.labels.tolist() == fresh.labels.tolist()
        assert str(edited.explain(3)) == str(fresh.explain(3))


# rows by number


def test_rows_are_numbered_through_the_splits(paper):
    assert paper.n_rows == 130
    assert paper.place(89) == (0, 89)
    assert paper.place(90) == (1, 0)
    assert [paper.number(paper.place(each)) for each in (0, 89, 90, 129)] == [0, 89, 90, 129]
    assert paper.text(90) == ROWS[1][0]["text"]
    assert paper.cells(3) == ROWS[0][3]


def test_a_session_without_rows_has_no_text():
    bare = epoxy.Session(TRAIN, DEV, epoxy.Epoxy(radius=0.05))

    with pytest.raises(ParameterError, match="this session was given none; give them: Session"):
        bare.text(0)
    with pytest.raises(ParameterError, match="this session was given none; give them: Session"):
        bare.browse(RowQuery(find="money"))
    assert len(bare.browse(RowQuery())) == 130


def test_without_a_text_column_every_cell_is_read():
    rows = (
        [{"n": at, "note": "Blue"} for at in range(90)],
        [{"n": at, "note": None} for at in range(40)],
    )
    bare = epoxy.Session(TRAIN, DEV, epoxy.Epoxy(radius=0.05), rows=rows)

    assert bare.text(2) == "n 2, note Blue"
    assert bare.text(91) == "n 1"
    assert len(bare.browse(RowQuery(find="bLUE"))) == 90


# curves


def slow_curve(session, name, radius):
    """Coverage, hits and count at one radius, row by row."""
    source = session.state.workspace.source(name)
    covered = hits = n = 0
    for at, split in enumerate((TRAIN, DEV)):
        votes = source.own[at]
        lenders = np.flatnonzero(source.own[0] != -1)
        y = session.state.workspace.labels.y[at]
        for row in range(split.n_rows):
            far = [distance(split.vectors[row], TRAIN.vectors[each]) for each in lenders]
            lent = votes[row] == -1 and min(far) <= radius + 1e-6  # distances are float32
            covered += at == 0 and (lent or votes[row] != -1)
            if lent and y[row] != -1:
                n += 1
                hits += source.own[0][lenders[int(np.argmin(far))]] == y[row]
    return covered / TRAIN.n_rows, hits, n


def test_a_curve_counts_what_is_lent_at_each_radius():
    edited = session()
    edited.set_votes("a", np.where(np.arange(90) % 4 == 0, TRAIN.y, -1))  # known up to 0.05 only
    edited.label(1, "spam")

    curve = edited.curve("a", 8)

    assert curve.radius[0] == 0.0
    assert curve.radius == sorted(set(curve.radius))
    assert len(curve.radius) <= 8
    for at in range(len(curve.radius)):
        covered, hits, n = slow_curve(edited, "a", curve.radius[at])
        assert curve.covered[at] == pytest.approx(covered)
        assert curve.n[at] == n
        assert curve.right[at] == (pytest.approx(hits / n) if n >= 3 else None)
        if n >= 3:
            assert 0 <= curve.low[at] <= curve.right[at] <= curve.high[at] <= 1
        else:
            assert curve.low[at] is curve.high[at] is None
    assert curve.covered[-1] == 1.0


def test_a_curve_needs_a_known_source_and_no_vectors(paper):
    with pytest.raises(UnknownName, match="no source named 'aa'; did you mean 'a'"):
        paper.curve("aa")
    plain = epoxy.Split(TRAIN.votes)
    curve = epoxy.Session(plain, model=epoxy.Epoxy(radius=None)).curve("a")
    assert curve.radius == [0.0]
    assert curve.covered == [pytest.approx((TRAIN.votes.matrix[:, 0] != -1).mean())]
    assert curve.to_dict()["n"] == [0]


# browsing


def found(session, **query) -> list[int]:
    return session.browse(RowQuery(**query)).rows.tolist()


def test_words_are_found_in_any_case_and_all_of_them(paper):
    lines = [row["text"].lower() for part in ROWS for row in part]

    assert found(paper, find="MONEY prize") == [
        at for at, text in enumerate(lines) if "money" in text and "prize" in text
    ]
    assert found(paper, find='"free money" äpfel') == [
        at for at, text in enumerate(lines) if "free money" in text and "äpfel" in text
    ]
    assert found(paper, find="a(b[") == []


def test_rows_like_one_come_nearest_first_and_without_it(paper):
    vectors = np.concatenate([TRAIN.vectors, DEV.vectors])
    rows = found(paper, like=95)

    far = [distance(vectors[95], vectors[row]) for row in rows]

    assert sorted(rows) == [row for row in range(130) if row != 95]
    assert far == sorted(far)


def test_every_filter_keeps_what_it_says():
    seen = session()
    seen.label(4, "spam")
    seen.set_radius("b", 0.2)
    outcome, workspace = seen.outcome, seen.state.workspace
    source = workspace.source("b")
    votes = [np.stack([each.own[at] for each in workspace.active], 1) for at in (0, 1)]
    after = [np.stack(each.columns, 1) for each in outcome.extended]
    proba = np.concatenate(outcome.proba)
    hand = np.concatenate(workspace.labels.y)

    expected = {
        "uncertain": [r for r in range(130) if proba[r].max() < 0.8],
        "conflict": [r for r, v in enumerate(np.concatenate(votes)) if len(set(v) - {-1}) > 1],
        "novote": [r for r, v in enumerate(np.concatenate(after)) if set(v) == {-1}],
        "hand": [r for r in range(130) if hand[r] >= 0],
    }
    own = np.concatenate(source.own)
    far = np.concatenate([each.distance for each in source.loans])
    lent = [r for r in range(130) if own[r] == -1 and far[r] <= 0.2]
    near = [r for r in range(130) if own[r] == -1 and 0.19 <= far[r] <= 0.21]
    held = outcome.held_out_labels
    order = [*range(90, 130), 4]

    for name, rows in expected.items():
        assert found(seen, filter=name) == rows, name
    assert found(seen, filter="near", source="b") == near
    assert found(seen, filter="voted", source="b", votes="lent") == lent
    assert (
        found(seen, filter="voted", source="b", votes="own") == np.flatnonzero(own != -1).tolist()
    )
    assert found(seen, filter="voted", source="b") == sorted([*lent, *np.flatnonzero(own != -1)])
    assert found(seen, filter="wrong") == sorted(
        row for row, said in zip(order, held) if said != hand[row]
    )
    assert found(seen, filter="flipped", flipped=[5, 3]) == [3, 5]
    counts = seen.browse(RowQuery(source="b", find="money")).counts
    with_money = set(found(seen, find="money"))
    assert counts["conflict"] == len(with_money & set(expected["conflict"]))
    assert counts["all"] == len(with_money)


def test_rows_are_sorted_as_asked(paper):
    proba = np.concatenate(paper.outcome.proba).max(axis=1)

    assert proba[found(paper, sort="unsure")].tolist() == sorted(proba)
    assert proba[found(paper, sort="sure")].tolist() == sorted(proba, reverse=True)
    assert found(paper, sort="file", selection=[100, 7, 50]) == [7, 50, 100]
    source = paper.state.workspace.source("a")
    lenders = TRAIN.vectors[source.own[0] != -1]
    vectors, own = np.concatenate([TRAIN.vectors, DEV.vectors]), np.concatenate(source.own)
    far = [
        0.0 if own[row] != -1 else min(distance(vectors[row], each) for each in lenders)
        for row in found(paper, sort="distance", source="a")
    ]
    np.testing.assert_allclose(far, sorted(far), atol=1e-12)


def wrong_like(label="spam", rows=("1",), radius=0.1):
    return lambda _: epoxy.like(label, rows=rows, radius=radius)


def adding(*given, **options):
    return lambda _: session().add(epoxy.like(*given, **options))


@pytest.mark.parametrize(
    ("ask", "error", "match"),
    [
        (lambda s: s.text(-1), ParameterError, r"from 0 to 129, got -1; give a whole"),
        (lambda s: s.text(130), ParameterError, r"from 0 to 129, got 130; give a whole"),
        (lambda s: s.text("3"), ParameterError, r"from 0 to 129, got '3'; give a whole"),
        (lambda s: s.text(2.0), ParameterError, r"from 0 to 129, got 2.0; give a whole"),
        (lambda s: s.browse(RowQuery(filter="odd")), UnknownName, "no filter named 'odd'"),
        (lambda s: s.browse(RowQuery(sort="odd")), UnknownName, "no order named 'odd'"),
        (
            lambda s: s.browse(RowQuery(filter="voted", source="a", votes="x")),
            *(UnknownName, "no kind of votes named 'x'"),
        ),
        (lambda s: s.browse(RowQuery(filter="near")), ParameterError, "about one source; name it"),
        (lambda s: s.browse(RowQuery(sort="distance")), ParameterError, "one source; name it"),
        (lambda s: s.browse(RowQuery(sort="like")), ParameterError, "likeness to one row; name it"),
        (lambda s: s.browse(RowQuery(source="zz")), UnknownName, "no source named 'zz'"),
        (lambda s: s.browse(RowQuery(selection=[0.5])), ParameterError, "from 0 to 129, got"),
        (lambda s: s.browse(RowQuery(like=500)), ParameterError, "from 0 to 129, got 500"),
        (lambda s: s.next(-1), ParameterError, "n is how many rows to suggest, got"),
        (lambda s: s.next(True), ParameterError, "n is how many rows to suggest, got"),
        (lambda s: s.next(3, "taech"), UnknownName, "named 'taech'; did you mean 'teach'"),
        (lambda s: s.next(3, "score", among=[10**6]), ParameterError, "numbered from 0 to"),
        (
            adding("spam", rows=["r77777"], radius=1, name="n"),
            UnknownName,
            "no row has that id; give",
        ),
        (adding("spm", rows=["r1"], radius=0.1), epoxy.EpoxyError, "votes 'spm'"),
        (wrong_like(radius=-0.1), ParameterError, "radius"),
        (wrong_like(radius=float("nan")), ParameterError, "malformed"),
        (wrong_like(radius="0.3"), ParameterError, "radius"),
        (wrong_like(rows=[]), ParameterError, "at least one row id, got"),
        (wrong_like(rows="17"), ParameterError, "at least one row id, got '17'"),
        (wrong_like(label=None), ParameterError, "label"),
        (
            lambda s: epoxy.apply(
                [epoxy.like("spam", rows=[1], radius=1)], ROWS[0], classes=["ham", "spam"]
            ),
            *(VectorError, "rows alone have no vectors; use one in a project"),
        ),
    ],
)
def test_a_question_that_cannot_be_answered_is_said(paper, ask, error, match):
    with pytest.raises(error, match=match):
        ask(paper)


# what to look at next


@pytest.mark.parametrize("purpose", ["mix", "teach", "score", "cover", "conflict", "check"])
def test_suggestions_are_the_same_under_a_seed_and_name_a_row_once(fused, purpose):
    first, again = fused.next(20, purpose, seed=3), fused.next(20, purpose, seed=3)

    assert first == again
    places = [(each.split, each.row) for each in first]
    assert len(set(places)) == len(places)
    for each in first:
        assert each.number == fused.number((("train", "dev").index(each.split), each.row))
        assert fused.split(each.split).ids[each.row] == each.id
        assert any(c.isdigit() for c in each.reason) or "says" in each.reason
        if purpose != "check":
            assert fused.split(each.split).truth[each.row] == -1


def test_the_mix_is_seven_that_teach_to_three_drawn_at_random():
    fused = session(epoxy.Fusion())

    ten = [each.purpose for each in fused.next(10)]
    one_by_one = []
    for _ in range(10):
        (row,) = fused.next(1)
        one_by_one.append(row.purpose)
        fused.label(row.id, "spam", chosen=row.chosen)

    assert ten.count("teach") == 7
    assert ten.count("score") == 3
    assert one_by_one == ten


@pytest.mark.parametrize("purpose", ["mix", "teach", "score", "cover", "conflict", "check"])
def test_rows_that_were_skipped_do_not_come_and_leave_the_others_their_share(purpose):
    fused = session(epoxy.Fusion())
    every = fused.next(10, purpose)
    skipped = [each.number for each in every[::2]]

    rows = fused.next(10, purpose, without=skipped)

    assert not {each.number for each in rows} & set(skipped)
    if purpose not in ("conflict", "check"):  # of which there are no more
        assert [each.purpose for each in rows] == [each.purpose for each in every]
    with pytest.raises(ParameterError, match="rows are numbered from 0"):
        fused.next(3, purpose, without=[10**6])


def test_what_comes_next_is_the_same_after_a_label_that_was_taken_back():
    fused = session(epoxy.Fusion())
    before = fused.next(10)
    for each in fused.next(3):
        fused.label(each.id, "spam", chosen=each.chosen)
    for _ in range(3):
        fused.undo()

    assert [each.id for each in fused.next(10)] == [each.id for each in before]


GROUP = np.repeat(np.arange(4), 50)


def in_groups(silent=(), odd=()) -> epoxy.Split:
    """Four tight groups of rows, of x and y in turn; `odd` are rows on which source d is wrong."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4, 8))[GROUP] + 0.01 * rng.normal(size=(200, 8))
    matrix = np.repeat((GROUP % 2)[:, None], 4, axis=1)
    matrix[np.isin(GROUP, silent)] = -1
    matrix[rng.random((200, 4)) < 0.3] = -1
    matrix[list(odd), 3] = 1 - GROUP[list(odd)] % 2
    return epoxy.Split(epoxy.Votes(matrix, list("abcd"), ["x", "y"]), vectors, y=GROUP % 2)


def test_rows_that_teach_are_unsure_and_not_all_alike():
    fused = epoxy.Session(in_groups(silent=(2, 3)), model=epoxy.Fusion())
    sure = fused.probabilities.max(axis=1)

    rows = fused.next(4, "teach")

    assert {each.row // 50 for each in rows} == {2, 3}
    assert rows[0].row // 50 != rows[1].row // 50
    assert sure[[each.row for each in rows]].max() < 0.6 < sure[:100].min()
    assert "; it is unsure of 16 of the 16 rows nearest to it" in rows[0].reason


def test_rows_to_cover_are_those_nobody_votes_on():
    paper = session()
    paper.set_radius(None, None)
    silent = np.flatnonzero((TRAIN.votes.matrix == -1).all(axis=1))

    rows = paper.next(200, "cover")

    different = {tuple(TRAIN.vectors[row]) for row in silent}
    assert {tuple(TRAIN.vectors[each.row]) for each in rows} == different
    assert len(rows) == len(different)  # of rows that are equal one is enough
    assert {each.row for each in rows} <= set(silent.tolist())
    assert rows[0].reason.startswith("no source votes here; it is so for ")
    assert {each.chosen for each in rows} == {"cover"}


def test_rows_in_conflict_say_who_says_what(paper):
    rows = paper.next(5, "conflict")

    for each in rows:
        votes = TRAIN.votes.matrix[each.row]
        for name, vote in zip("abcd", votes.tolist()):
            assert vote == -1 or name in each.reason.split("; sources")[0]
        assert set(votes.tolist()) >= {0, 1}


def test_a_hand_label_that_looks_wrong_comes_first_and_keeps_how_it_was_chosen():
    fused = epoxy.Session(in_groups(odd=[60, 61, 62]), in_groups(), epoxy.Fusion())
    fused.label(3, "y", chosen="random")

    first, *others = fused.next(5, "check")

    assert (first.split, first.row, first.chosen) == ("train", 3, "random")
    assert re.fullmatch(
        r"labelled 'y', to which a model that did not learn from it gives 0\.\d%, and 'x' 100%",
        first.reason,
    )
    assert {each.row for each in others} <= {60, 61, 62}
    assert {each.chosen for each in others} == {"check"}
    assert re.match(
        r"d votes 'x', and the model is \d+% sure of 'y'; it is so for", others[0].reason
    )


def test_where_the_model_has_no_answer_the_mix_is_drawn_at_random():
    silent = session(epoxy.Epoxy(radius=0.0))
    for name in "abcd":
        silent.switch(name, False)

    assert {each.purpose for each in silent.next(5)} == {"score"}
    with pytest.raises(NotIdentifiable, match="no source is switched on"):
        silent.next(5, "teach")


@pytest.mark.parametrize("purpose", ["mix", "teach", "score", "cover", "conflict", "check"])
def test_rows_may_be_chosen_among_some_only(fused, purpose):
    among = list(range(0, 90, 3))

    rows = fused.next(20, purpose, among=among)

    assert {each.number for each in rows} <= set(among)
    if purpose in ("mix", "score"):
        assert len(rows) == 20
    if purpose == "teach":
        assert rows == fused.next(20, "teach", among=among[::-1])
        assert fused.next(20, "teach", among=range(fused.n_rows)) == fused.next(20, "teach")
    assert fused.next(5, purpose, among=[]) == ()


# what counts as random


def test_the_order_of_the_draw_does_not_depend_on_the_files_order_and_survives_growth():
    ids = np.array([f"m{at}" for at in range(300)])
    order = [ids[row] for _, row in Drawn(["rows"], [ids])]
    turned = [ids[::-1][row] for _, row in Drawn(["rows"], [ids[::-1]])]
    grown = np.array([f"m{at}" for at in range(400)])
    more = [grown[row] for _, row in Drawn(["rows"], [grown])]

    assert turned == order
    assert [each for each in more if each in set(ids)] == order
    positions = np.array([int(each[1:]) for each in order])
    assert abs(np.corrcoef(positions, np.arange(300))[0, 1]) < 0.15


def labelled(rows: dict[int, str | None], n_rows: int = 12) -> HandLabels:
    y, chosen = np.full(n_rows, -1), np.full(n_rows, None, dtype=object)
    for row, word in rows.items():
        y[row], chosen[row] = 0, word
    return HandLabels((y,), (chosen,), (np.zeros(n_rows),))


@pytest.mark.parametrize(
    ("rows", "random"),
    [
        ({0: "random", 1: "random"}, [0, 1]),
        ({0: "teach", 1: "random"}, [0, 1]),  # passed over: it counts
        ({0: "random", 1: "teach"}, [0]),  # the draw has not come to it
        ({0: "teach", 2: "random"}, [2]),  # a row before it has no label yet
        ({0: "teach", 1: None, 2: "random", 3: "teach"}, [0, 1, 2]),
        ({0: "teach", 1: "teach"}, []),
    ],
)
def test_a_row_counts_as_random_once_the_draw_has_passed_it(rows, random):
    found = with_random(labelled(rows), [(0, row) for row in range(12)])

    assert [row for row in range(12) if found.chosen[0][row] == "random"] == random
    for row, word in rows.items():
        assert found.chosen[0][row] == ("random" if row in random else word)


def test_labels_given_for_other_reasons_are_scored_once_the_draw_has_passed_them():
    train = epoxy.Split(TRAIN.votes, TRAIN.vectors, ids=TRAIN.ids)
    fused = epoxy.Session(train, model=epoxy.Fusion())
    order = fused.next(12, "score")
    fused.label(order[3].id, "ham", chosen="teach")
    assert fused.state.workspace.labels.words.tolist() == ["teach"]

    for each in order[:3]:
        fused.label(each.id, "spam", chosen=each.chosen)
    assert sorted(fused.state.workspace.labels.words.tolist()) == ["random"] * 3 + ["teach"]
    fused.label(order[4].id, "spam", chosen=order[4].chosen)

    assert set(fused.state.workspace.labels.words.tolist()) == {"random"}
    fused.undo()
    assert sorted(fused.state.workspace.labels.words.tolist()) == ["random"] * 3 + ["teach"]
    assert [each.id for each in fused.next(2, "score")] == [order[4].id, order[5].id]


# example rows


def test_like_votes_within_its_radius_of_an_example_on_both_splits():
    edited = session()
    vectors = np.concatenate([TRAIN.vectors, DEV.vectors])
    examples = [vectors[3], vectors[95]]
    far = [min(distance(each, one) for one in examples) for each in vectors]
    radius = sorted(far)[30]  # reached exactly: it is included

    edited.add(epoxy.like("spam", rows=["r3", "r1005"], radius=radius, name="near"))

    votes = np.concatenate(edited.state.workspace.source("near").own)
    assert votes.tolist() == [1 if each <= radius else -1 for each in far]


def test_an_example_without_a_direction_votes_for_itself_alone():
    vectors = TRAIN.vectors.copy()
    vectors[3] = 0
    fused = epoxy.Session(epoxy.Split(TRAIN.votes, vectors, ids=TRAIN.ids), model=epoxy.Fusion())

    fused.add(epoxy.like("ham", rows=["r3"], radius=0.9))

    assert np.flatnonzero(fused.state.workspace.source("like_r3").own[0] == 0).tolist() == [3]


def test_like_measures_by_the_models_metric():
    votes = epoxy.Votes([[0, 1], [-1, -1], [1, 0]] * 5, list("ab"), ["x", "y"])
    vectors = [[1.0, 0.0], [5.0, 0.0], [1.0, 0.4]] * 5
    split = epoxy.Split(votes, vectors, ids=list(range(15)))

    by_metric = {}
    for metric in ("cosine", "euclidean"):
        each = epoxy.Session(split, model=epoxy.Fusion(metric=metric))
        each.add(epoxy.like("x", rows=[0], radius=0.5, name="near"))
        by_metric[metric] = each.state.workspace.source("near").own[0][:3].tolist()

    assert by_metric == {"cosine": [0, 0, 0], "euclidean": [0, -1, 0]}


def test_a_suggested_radius_joins_the_rows_and_reaches_no_more_than_a_few(paper):
    far = sorted(distance(TRAIN.vectors[3], each) for each in TRAIN.vectors)
    rows = [3, 8, 20]
    apart = [
        min(distance(TRAIN.vectors[a], TRAIN.vectors[b]) for b in rows if b != a) for a in rows
    ]

    assert paper.suggest_radius([3]) == pytest.approx(far[10])
    assert paper.suggest_radius([3, 3]) == paper.suggest_radius([3])
    assert paper.suggest_radius(rows) <= np.median(apart) + 1e-12
    with pytest.raises(ParameterError, match="a radius is suggested for rows, and none was given"):
        paper.suggest_radius([])
    bare = epoxy.Session(epoxy.Split(TRAIN.votes), model=epoxy.Epoxy(radius=None))
    with pytest.raises(VectorError, match="a radius needs vectors"):
        bare.suggest_radius([1])
