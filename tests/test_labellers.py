"""Labels by several people: who is right how often, and which labels look wrong."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from epoxy import Fusion, Session, Split, Votes
from epoxy.errors import ParameterError
from epoxy.fusion.decision import HALF, n_heard
from epoxy.fusion.labellers import confused, evenly, ridges
from epoxy.session import Label, Several
from epoxy.session.labels import UNTOLD

N = 400
TOLD = ridges(np.full(2, 0.5), np.full(2, 0.5))
"""How strongly a bias is drawn to zero where the class balance is told."""


def data(seed: int = 0) -> tuple[Split, np.ndarray]:
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, N)
    right = draw.random((N, 3)) < 0.8
    votes = np.where(right, y[:, None], 1 - y[:, None])
    votes[draw.random((N, 3)) < 0.4] = -1
    vectors = draw.normal(size=(N, 16)) + 1.2 * (2 * y[:, None] - 1)
    return Split(Votes(votes, classes=["ham", "spam"]), vectors.astype(np.float32)), y


def session_of(said: dict[str, np.ndarray], **options) -> Session:
    """A session in which each labeller labelled the rows that are not −1."""
    train, _ = data()
    session = Session(train, model=Fusion(), **options)
    for name, labels in said.items():
        for row in np.flatnonzero(labels >= 0):
            session.label(int(row), ["ham", "spam"][labels[row]], by=name)
    return session


def labelled(y: np.ndarray, rows: slice, wrong: float, seed: int) -> np.ndarray:
    found = np.full(N, -1)
    found[rows] = y[rows]
    flip = np.random.default_rng(seed).random(N) < wrong
    return np.where((found >= 0) & flip, 1 - found, found)


def table(session: Session) -> dict[str, dict]:
    (found,) = [each for each in session.report("train").tables if each.title == "labellers"]
    return {row["labeller"]: row for row in found.rows}


def test_three_labellers_of_the_same_rows_are_told_apart() -> None:
    _, y = data()
    rows = slice(0, 60)
    session = session_of(
        {
            "ann": labelled(y, rows, 0.0, 1),
            "bob": labelled(y, rows, 0.0, 2),
            "cid": labelled(y, rows, 0.4, 3),
        }
    )

    found = table(session)

    assert found["ann"]["right"] > 0.93
    assert found["bob"]["right"] > 0.93
    assert 0.45 < found["cid"]["right"] < 0.78
    assert found["cid"]["from"] == "rows labelled twice"


def test_the_person_at_the_keyboard_judges_a_labeller() -> None:
    """Of ten rows that both labelled four differ: (6 + 9) / (10 + 10) is right."""
    _, y = data()
    session = session_of({"ann": labelled(y, slice(0, 10), 0.0, 1)})
    for row in range(10):
        truth = y[row] if row >= 4 else 1 - y[row]
        session.label(row, ["ham", "spam"][truth])

    assert table(session)["ann"]["right"] == pytest.approx(0.75, abs=0.01)


def test_a_told_reliability_stands() -> None:
    _, y = data()
    labels = labelled(y, slice(0, 20), 0.0, 1)
    other = np.where(labels >= 0, 1 - labels, -1)
    session = session_of({"ann": labels, "bob": other}, reliability={"ann": 0.6})

    found = table(session)

    assert found["ann"] == {**found["ann"], "right": 0.6, "from": "told"}
    assert found["bob"]["right"] < UNTOLD


def test_of_those_who_are_never_wrong_the_last_one_settles_a_row() -> None:
    session = session_of({}, reliability={"ann": 1.0})

    session.label(0, "ham")
    session.label(0, "spam", by="ann")
    after_ann = int(session.labels[0])
    session.label(0, "ham")

    assert (after_ann, int(session.labels[0])) == (1, 0)


def rare(n: int = 1200, seed: int = 0) -> tuple[Split, np.ndarray]:
    """One row in ten is spam, of which sources that name one class each say nothing."""
    draw = np.random.default_rng(seed)
    y = (draw.random(n) < 0.1).astype(int)
    right = draw.random((n, 4)) < 0.85
    own = np.array([0, 0, 1, 1])
    says = np.where(right, y[:, None] == own, y[:, None] != own) & (draw.random((n, 4)) < 0.5)
    vectors = draw.normal(size=(n, 16)) + 0.8 * (2 * y[:, None] - 1)
    votes = Votes(np.where(says, own, -1), classes=["ham", "spam"])
    return Split(votes, vectors.astype(np.float32)), y


def answered(session: Session, said: dict[str | None, np.ndarray]) -> Session:
    """The session with labels of train rows that are not −1, all drawn at random."""
    labels = [
        Label("train", str(row), ["ham", "spam"][each[row]], name, "random")
        for name, each in said.items()
        for row in np.flatnonzero(each >= 0)
    ]
    session.apply(Several(tuple(labels), "labels"))
    return session


def mistaken(y: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Labels of the first rows, one in ten of them wrong."""
    wrong = np.random.default_rng(seed).random(len(y)) < 0.1
    return np.where(np.arange(len(y)) < rows, np.where(wrong, 1 - y, y), -1)


def test_two_labellers_who_err_bring_the_model_to_the_share_of_a_rare_class() -> None:
    train, y = rare()
    session = Session(train, model=Fusion(scoring="f1", positive="spam"))
    before = session.probabilities[:, 1].mean()

    answered(session, {"ann": mistaken(y, 600, 1), "ben": mistaken(y, 600, 2)})

    assert before > 2 * y.mean()  # the model without labels knows no better
    assert session.probabilities[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)


def test_labels_that_may_be_wrong_move_how_many_rows_f1_calls_at_most_half_of_the_way() -> None:
    trusted, doubted = np.zeros(40), np.full(40, 0.1)

    assert n_heard(np.empty(0)) == n_heard(np.full(1000, 0.5)) == 0
    assert n_heard(trusted) == 40
    assert 10 < n_heard(doubted) < n_heard(np.full(4000, 0.1)) < HALF
    assert 40 < n_heard(np.concatenate([trusted, doubted])) < 40 + HALF


@pytest.mark.parametrize("trusted", [0, 30])
def test_decisions_for_f1_do_not_depend_on_the_way_to_labels_that_may_be_wrong(trusted) -> None:
    train, y = rare(400)
    hand = np.where(np.arange(400) >= 400 - trusted, y, -1)
    said = {"ann": mistaken(y, 150, 1), "ben": mistaken(y, 100, 2), None: hand}
    model = Fusion(scoring="f1", positive="spam")

    once = answered(Session(train, model=model), said)
    steps = Session(train, model=model)
    for name, each in reversed(said.items()):
        answered(steps, {name: np.where(np.arange(400) % 2, each, -1)})
        answered(steps, {name: 1 - y})
        steps.undo()
        answered(steps, {name: each})

    np.testing.assert_allclose(steps.probabilities, once.probabilities, atol=1e-6)
    np.testing.assert_array_equal(steps.labels, once.labels)


def test_what_is_not_known_is_said() -> None:
    _, y = data()

    (row,) = table(session_of({"ann": labelled(y, slice(0, 5), 0.0, 1)})).values()

    assert row["right"] == UNTOLD
    assert row["from"] == "not known: 90% assumed"


def test_the_way_to_the_same_labels_plays_no_part() -> None:
    _, y = data()
    said = {"ann": labelled(y, slice(0, 30), 0.0, 1), "cid": labelled(y, slice(0, 30), 0.4, 3)}
    one = session_of(said)
    other = session_of(dict(reversed(said.items())))
    other.label(3, "ham", by="dora")
    other.undo()

    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-6)
    assert {name: row["right"] for name, row in table(one).items()} == pytest.approx(
        {name: row["right"] for name, row in table(other).items()}
    )


def test_a_labeller_found_to_err_teaches_less() -> None:
    _, y = data()
    alone = labelled(1 - y, slice(100, 130), 0.0, 1)  # wrong on rows that nobody else labelled
    shared = np.where(np.arange(N) < 30, 1 - y, alone)
    trusted = session_of({"ann": labelled(y, slice(0, 30), 0.0, 2), "cid": alone})
    judged = session_of({"ann": labelled(y, slice(0, 30), 0.0, 2), "cid": shared})
    for row in range(30):
        judged.label(row, ["ham", "spam"][y[row]])
        trusted.label(row, ["ham", "spam"][y[row]])

    right = [session.probabilities[np.arange(N), y].mean() for session in (trusted, judged)]

    assert right[1] > right[0]


def test_labels_that_look_wrong_are_named_in_the_report() -> None:
    train, y = data()
    session = Session(train, model=Fusion())
    for row in range(60):
        session.label(row, ["ham", "spam"][y[row] if row != 7 else 1 - y[row]])
    sure = session.probabilities[7, y[7]]

    text = str(session.report("train"))

    assert sure > 0.5
    assert "Hand labels that look wrong, worst first: rows 7" in text


def test_what_a_fallible_labeller_says_is_told_and_is_no_truth(tmp_path) -> None:
    train, y = data()
    session = Session(train, model=Fusion(), reliability={"ann": 0.8})
    wrong = ["ham", "spam"][1 - y[3]]
    session.label(3, wrong, by="ann")
    session.label(4, wrong)

    told, believed = session.explain(3), session.explain(4)
    path = session.export(tmp_path / "labels.csv")

    assert told.truth is None
    assert f"ann, right 80% of the time, says {wrong!r}" in str(told)
    assert believed.truth == wrong
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert (rows[3]["hand_labelled"], rows[3]["truth"]) == ("true", "")
    assert (rows[4]["label"], rows[4]["truth"]) == (wrong, wrong)


@pytest.mark.parametrize("odd", [{"chosen": 3}, {"by": 3}])
def test_a_word_that_is_none_is_refused(odd) -> None:
    session = Session(data()[0], model=Fusion())

    with pytest.raises(ParameterError, match="is a word, got 3; write it in quotes"):
        session.label(3, "ham", **odd)


@pytest.mark.parametrize("word", ["rnadom", "Random", " random", "ramdon", "randmo", "randomly"])
def test_a_word_that_is_nearly_random_is_kept_as_it_is_and_told(word) -> None:
    session = Session(data()[0], model=Fusion())

    with pytest.warns(UserWarning, match=re.escape(f"chosen={word!r} is another word")) as told:
        session.label(3, "ham", chosen=word)

    assert told[0].filename == __file__
    assert session.state.workspace.labels.chosen[0][3] == word
    wanted = (
        f"chosen={word!r} of 1 hand label is another word than 'random', so no score rests on such "
        "rows; write 'random' if that is meant"
    )
    assert (session.scores, session.scores.why) == ({}, wanted)
    assert wanted in session.report().findings
    assert not any("another word" in str(each) for each in Session(data()[0]).report().findings)


@pytest.mark.parametrize("word", ["random", None, "teach", "least sure", "seed", "drawn", ""])
def test_another_word_is_any_word(word, recwarn) -> None:
    session = Session(data()[0], model=Fusion())

    session.label(3, "ham", chosen=word)

    assert not any("another word" in str(each.message) for each in recwarn)
    assert not any("another word" in str(each) for each in session.report().findings)


def test_a_column_or_a_split_that_misspells_random_is_told_in_the_report() -> None:
    train, y = data()
    dev = Split(train.votes, train.vectors, y, chosen="Random")

    session = Session(train, dev)

    assert session.scores == {}
    assert session.scores.why.startswith(f"chosen='Random' of {len(y)} hand labels is another")


def test_what_labels_correct_is_not_judged_by_them() -> None:
    train, y = data()
    session = Session(train, model=Fusion())
    for row in range(30):
        session.label(row, ["ham", "spam"][y[row]])

    (parts,) = [each for each in session.report("train").tables if each.title == "Parts"]

    right = {row["part"]: row["right"] for row in parts.rows}
    assert right.pop("labels") is None
    assert None not in right.values()


def test_labels_given_at_once_are_labels_given_one_after_the_other() -> None:
    _, y = data()
    said = [("ann", row, int(y[row])) for row in range(40)]
    said += [("bob", row, int(y[row] if row % 3 else 1 - y[row])) for row in range(20, 60)]
    said += [("ann", 5, int(1 - y[5])), (None, 7, int(y[7]))]
    edits = [Label("train", str(row), ["ham", "spam"][label], by) for by, row, label in said]
    one, many = (Session(data()[0], model=Fusion()) for _ in range(2))
    start = many.probabilities

    for edit in edits:
        one.apply(edit)
    many.apply(Several(tuple(edits), "answers"))

    np.testing.assert_allclose(many.probabilities, one.probabilities, atol=1e-6)
    assert table(many) == table(one)
    many.undo()
    np.testing.assert_allclose(many.probabilities, start, atol=1e-6)
    assert many.hand_labelled() is None


def test_scores_go_by_trusted_labels_where_there_are_some() -> None:
    _, y = data()
    session = session_of({"ann": labelled(1 - y, slice(0, 60), 0.0, 1)})  # always wrong
    alone = dict(session.scores), session.scores.why

    for row in range(100, 140):
        session.label(row, ["ham", "spam"][y[row]], chosen="random")

    assert "the labels they are of may be wrong" in alone[1]
    assert alone[0]["rows"] == 60
    assert (session.scores["rows"], session.scores.basis) == (40, "random")


def test_labels_that_may_be_wrong_leave_the_draw_where_it_was() -> None:
    """Scores rest on all of the beginning of the random order, whoever else answered some of it."""
    _, y = data()
    session = Session(data()[0], model=Fusion())
    first = [each.row for each in session.next(6, "score")]
    session.label(first[2], "ham", chosen="teach")
    for row in (first[0], first[1], first[3], first[4]):
        session.label(row, "ham", by="ann", chosen="random")

    again = [each.row for each in session.next(5, "score")]
    words = session.state.workspace.labels.chosen[0]

    assert again[:4] == [first[0], first[1], first[3], first[4]]
    assert words[first[2]] == "teach"  # a trusted label that the trusted draw has not come to
    for row in first[:2]:
        session.label(row, ["ham", "spam"][y[row]], chosen="random")
    session.label(first[3], "ham", chosen="random")
    assert session.state.workspace.labels.chosen[0][first[2]] == "random"


def test_a_labeller_who_leans_one_way_is_found_out_class_by_class() -> None:
    """Right 95 % of the time about one class and 55 % about the other, where 90 % is assumed of both."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 2000)
    y = np.where(rng.random(2000) < np.where(truth == 0, 0.95, 0.55), truth, 1 - truth)
    right = np.where(rng.random(2000) < 0.8, truth, 1 - truth)
    proba = np.where(np.arange(2) == right[:, None], 0.8, 0.2)  # a calibrated model

    found, bias = confused(np.log(proba), y, np.full(2000, 0.1), TOLD)

    assert bias == pytest.approx([0, 0], abs=1e-6)
    assert found[y == 0][0] == pytest.approx([0.95, 0.45], abs=0.05)
    assert found[y == 1][0] == pytest.approx([0.05, 0.55], abs=0.05)


def test_a_model_that_finds_too_much_of_a_rare_class_does_not_make_right_labels_wrong() -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(-3, 1.5, 3000)
    truth = (rng.random(3000) < 1 / (1 + np.exp(-logit))).astype(int)
    y = np.where(rng.random(3000) < 0.95, truth, 1 - truth)
    logits = np.column_stack([np.zeros(3000), logit + 2])  # far more than there are
    open_minded = ridges(np.array([0.4, 0.05]), np.array([0.95, 0.6]))

    found, bias = confused(logits, y, np.full(3000, 0.05), open_minded)
    sure, _ = confused(logits, y, np.full(3000, 0.05), TOLD)

    assert bias[1] - bias[0] == pytest.approx(-2, abs=0.4)
    assert found[y == 1][0, 1] > 0.85
    assert sure[y == 1][0, 1] < 0.6  # a balance that is told leaves the labeller to blame


def test_a_bias_is_drawn_to_zero_by_what_is_known_of_the_balance() -> None:
    low = np.array([[0.1, 0.5], [0.2, 0.6], [0.3, 0.7], [0.0, 0.0]])
    narrow, wide, told, nothing = (
        ridges(each, 1 - each[::-1]) for each in (low[1], low[0], low[2], low[3])
    )

    assert (nothing < wide).all()
    assert (wide < narrow).all()
    assert (narrow < told).all()
    assert (told > 1e9).all()


def test_a_few_labels_leave_a_labeller_as_reliable_as_told() -> None:
    equal, told = np.zeros((3, 4)), np.full(4, 0.25)

    found, _ = confused(equal, np.array([2, 2, 2]), np.array([0.1, 0.1, 0.4]), ridges(told, told))

    assert found[:, 2] == pytest.approx([0.9, 0.9, 0.6], abs=0.05)
    assert (found[2, [0, 1, 3]] > found[0, [0, 1, 3]]).all()  # who is less reliable errs more often
    assert evenly(np.array([1]), np.array([0.3]), 4) == pytest.approx(
        np.array([[0.1, 0.7, 0.1, 0.1]])
    )


def test_answers_that_lean_one_way_do_not_drag_a_trusted_model_along() -> None:
    """Three rows in ten of one class are called the other; without rates by class many more would be."""
    rng = np.random.default_rng(0)
    n = 600
    truth = rng.integers(0, 2, n)
    vectors = rng.normal(size=(n, 8)) + np.outer(2 * truth - 1, np.ones(8)) * 0.6
    votes = np.where(rng.random((n, 3)) < 0.4, truth[:, None] ^ (rng.random((n, 3)) < 0.2), -1)
    session = Session(Split(Votes(votes, classes=["a", "b"]), vectors))
    before = (session.outcome.labels[0] == truth).mean()
    said = np.where((truth == 1) & (rng.random(n) < 0.4), 0, truth)
    labels = [Label("train", str(at), "ab"[said[at]], "model", "random") for at in range(400)]

    session.apply(Several(tuple(labels), "answers"))

    guess = session.outcome.labels[0]
    assert (guess == truth).mean() >= before
    assert (guess[truth == 1] == 1).mean() > 0.9


def project_of(folder: Path) -> Path:
    """Messages of which some are labelled by a person, some by "ann" and "bot", who are told to err."""
    words = ["win cash", "cash now", "see you", "dinner later", "hello there"]
    lines = ["id,text,label,who,how"]
    for at in range(100):
        label = ("spam", "spam", "ham", "ham", "ham")[at % 5]
        who = ("", "ann", "bot")[at % 3]
        known = at % 4 == 0
        wrong = known and who == "ann" and at % 8 == 0
        told = ("ham" if label == "spam" else "spam") if wrong else label
        cells = (told, who, "random" if at % 8 else "") if known else ("", "", "")
        lines.append(f"r{at},{words[at % 5]} {at % 7},{','.join(cells)}")
    folder.mkdir()
    table = pa.csv.read_csv(pa.py_buffer("\n".join(lines).encode()))
    cells = [table.column(0), table.column(1)]
    for name in ("label", "who", "how"):  # empty cells are nothing
        said = table.column(name).to_pylist()
        cells.append(pa.array([each or None for each in said], pa.string()))
    pq.write_table(pa.table(cells, names=table.column_names), folder / "rows.parquet")
    (folder / "epoxy.toml").write_text(
        '[rows]\nfile = "rows.parquet"\nid = "id"\nlabel = "label"\nby = "who"\nchosen = "how"\n'
        '[classes]\nnames = ["ham", "spam"]\n[vectors]\ncolumn = "text"\n[labellers]\nann = 0.7\n'
    )
    (folder / "lfs.py").write_text(
        "import epoxy\n"
        "a = epoxy.keywords('spam', 'cash', column='text', name='a')\n"
        "b = epoxy.keywords('ham', 'see', 'dinner', column='text', name='b')\n"
        "c = epoxy.keywords('ham', 'hello', column='text', name='c')\n"
    )
    return folder


def test_a_column_of_the_rows_names_who_labelled_them(tmp_path) -> None:
    home = project_of(tmp_path / "project")
    rows = pq.read_table(home / "rows.parquet").to_pylist()

    session = Session.open(home)
    table = pq.read_table(session.export(tmp_path / "labels.parquet")).to_pylist()

    for row, made in zip(rows, table, strict=True):
        assert made["hand_labelled"] == (row["label"] is not None)
        assert made["truth"] == (None if row["who"] else row["label"])
    erring = "r16"  # ann calls a spam message ham
    why = session.explain(erring)
    assert why.truth is None
    assert "ann, right 70% of the time, says 'ham'" in str(why)
    labellers = {row["labeller"]: row for row in session.report().tables[-1].rows}
    assert labellers["ann"]["labels"] == sum(row["who"] == "ann" for row in rows)
    assert (labellers["ann"]["right"], labellers["bot"]["right"]) == (0.7, UNTOLD)
    # a person's word on the same row settles it, and taking it back brings the labeller's back
    session.label(erring, "spam", "dev")
    assert session.explain(erring).truth == "spam"
    session.undo()
    assert session.explain(erring).said == why.said
