"""Sources that vectors contradict are not heard, cost nothing, and are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import epoxy
from block_projects import write_project
from epoxy import Fusion, Session, Split, Votes
from epoxy.diagnostics import not_heard
from epoxy.diagnostics.unheard import defended_by
from epoxy.session import Label, Several
from fusion_rows import bare, turned, with_source
from fusion_rows import draw as rows_of


def draw(seed: int, n_rows: int = 600, n_classes: int = 2) -> Split:
    """Rows with six sources that are mostly right."""
    split = rows_of(n_rows, seed, 6, n_classes)
    names, classes = [f"s{at}" for at in range(6)], list("abcd"[:n_classes])
    return Split(Votes(split.votes.matrix, names, classes), split.vectors, split.y)


def bad(split: Split, seed: int = 0) -> Split:
    """With a source that is mostly wrong, on six rows of ten."""
    return turned(split, seed=seed)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_source_that_is_mostly_wrong_costs_nothing(n_classes):
    train, test = draw(1, n_classes=n_classes), draw(2, n_classes=n_classes)
    alone = Fusion().fit(bare(train))

    model = Fusion().fit(bare(bad(train)))

    assert model.fitted_.heard.tolist() == [True] * 6 + [False]
    proba = model.predict_proba(bad(test, 1))
    assert np.abs(proba - alone.predict_proba(test)).max() < 1e-12
    assert alone.fitted_.heard.all()


def test_hand_labels_learn_what_a_source_that_is_not_heard_is_worth():
    train, dev, test = (bad(draw(seed), seed) for seed in (1, 2, 3))
    rows = test.votes.matrix[:, -1] == 1
    model = Fusion().fit(bare(train), dev)

    without = Votes(
        np.where(np.arange(7) < 6, test.votes.matrix, -1), test.votes.sources, test.classes
    )
    votes, none = (model.predict_proba(Split(x, test.vectors)) for x in (test.votes, without))

    assert not model.fitted_.heard[-1]
    assert (votes[rows, 1] < none[rows, 1]).all()  # it says b where the row is a


def test_a_source_that_others_speak_for_is_heard_though_it_votes_everywhere():
    train = draw(1)
    rng = np.random.default_rng(0)
    column = np.where(rng.random(train.n_rows) < 0.8, train.truth, 1 - train.truth)

    model = Fusion().fit(bare(with_source(train, column)))

    assert model.fitted_.heard.all()
    assert (model.fitted_.support > 0).all()


def test_vectors_that_tell_nothing_silence_nobody_who_is_right():
    train = bad(draw(1))
    noise = np.random.default_rng(0).normal(size=(train.n_rows, 8))

    model = Fusion().fit(Split(train.votes, noise))

    assert model.fitted_.heard[:-1].all()


def test_one_source_speaks_for_each_class():
    """A function that says "a" by default is all that is known of "a"."""
    split = draw(1)
    matrix = np.where(split.votes.matrix == 0, -1, split.votes.matrix)
    train = with_source(Split(Votes(matrix, classes=split.classes), split.vectors), np.zeros(600))

    model = Fusion().fit(train)

    assert model.fitted_.heard[-1]


def test_report_and_explanation_name_it_and_why():
    train = bare(bad(draw(1)))
    session = Session(train)
    row = int(np.flatnonzero(train.votes.matrix[:, -1] >= 0)[0])

    report, said = str(session.report()), session.explain(row)

    assert "Not heard because vectors contradict them: 'bad' (support -" in report
    (voice,) = [each for each in said.voices if each.origin == "contradicted"]
    assert (voice.source, voice.weight) == ("bad", 0.0)
    assert "rows like those it votes on are otherwise called" in str(said)


def test_the_doctor_warns_of_it_by_name_and_says_what_to_do():
    session = Session(bare(bad(draw(1))))

    (found,) = [
        each for each in session.report().findings if getattr(each, "kind", "") == "not-heard"
    ]

    assert (found.sources, found.severity) == (("bad",), "warning")
    assert "may return the wrong class, or vote at random" in found.cure
    model = session.model()
    assert str(found) in str(model.report(model.train_))


def test_where_hand_labels_prove_it_right_the_warning_says_so():
    """Everybody else errs on the labelled rows: `bad` is what they are."""
    train, dev = bare(bad(draw(1), 1)), bad(draw(2, 200), 2)
    said = dev.votes.matrix[:, -1]
    dev = Split(dev.votes, dev.vectors, np.where(said == -1, dev.truth, said))
    n = int((said != -1).sum())
    session = Session(train, dev)

    (found,) = [x for x in session.report().findings if getattr(x, "kind", "") == "not-heard"]

    assert f"Hand labels agree with 'bad' on {n} of {n} rows." in found.text
    assert found.cure.startswith("Keep what hand labels agree with")
    assert "may return the wrong class" not in str(found)
    assert str(found) in session.notes
    assert str(found) in str(session.model().report(dev))
    truth = draw(2, 200).truth
    right = [Label("dev", str(row), "ab"[truth[row]]) for row in np.flatnonzero(said != -1)]
    session.apply(Several(tuple(right), "labels"))
    assert "Hand labels agree" not in str(session.notes)


def test_of_two_that_are_not_heard_the_one_that_is_right_is_told_apart():
    (found,) = not_heard({"one": -0.2, "two": -0.1}, {"two": (9, 9)})

    assert "Hand labels agree with 'two' on 9 of 9 rows." in found.text
    assert "Read some votes of the others: such a source may return the wrong class" in found.cure


def test_labels_prove_a_source_right_where_it_is_right_beyond_naming_at_random():
    y = np.array([0, 1] * 20)
    always, right = np.zeros(40, dtype=int), np.where(np.arange(40) < 30, y, -1)

    assert defended_by(np.stack([always, right, 1 - y]), y, ["a", "b", "c"]) == {"b": (30, 30)}
    assert defended_by(np.full((1, 40), -1), y, ["silent"]) == {}


def test_of_many_that_are_not_heard_five_are_named_and_all_are_known():
    (found,) = not_heard({f"s{at}": -0.1 * at for at in range(7)})

    assert found.sources == tuple(f"s{at}" for at in range(6, -1, -1))
    assert "'s6' (support -0.60)" in found.text
    assert "'s2' (support -0.20) and 2 more" in found.text
    assert not_heard({}) == []


def test_notes_name_it_until_it_is_switched_off():
    session = Session(bare(bad(draw(1))))

    (note,) = session.notes
    assert note.startswith("Not heard because vectors contradict them: 'bad' (support -")
    session.switch("bad", False)
    assert session.notes == ("switched off, and so without a say: bad",)
    assert Session(bare(draw(1))).notes == ()


def test_switching_it_off_changes_no_label_where_none_was_given_by_hand():
    session = Session(bare(bad(draw(1))))
    before = session.probabilities.copy()

    change = session.switch("bad", False)

    assert not len(change.flipped)
    assert np.abs(session.probabilities - before).max() < 1e-12


def test_a_row_known_by_such_votes_alone_has_the_prior_and_says_so():
    train = bare(bad(draw(1)))
    model = Fusion().fit(train)
    votes = Votes(np.array([[-1] * 6 + [1]]), train.votes.sources, train.classes)

    said = model.explain(Split(votes, np.zeros((1, 8))), 0)

    (note,) = said.notes
    assert "nothing is known about this row, but by functions that do not count" in note
    assert note in str(said)


def test_what_it_weighs_is_what_hand_labels_make_of_it():
    train, dev = bad(draw(1), 1), bad(draw(2), 2)
    labelled = Session(bare(train), dev)
    alone = Session(bare(train))

    assert alone.weight("bad") == 0
    assert labelled.weight("bad") < 0 < labelled.weight("s0")


def test_a_session_that_mends_a_wrong_source_is_one_that_never_had_it():
    right, wrong = draw(1), bad(draw(1))
    mended = with_source(right, np.where(np.arange(600) % 2, right.truth, -1))
    session = Session(bare(wrong))
    assert not session.model().fitted_.heard[-1]

    session.set_votes("bad", mended.votes.matrix[:, -1])
    fresh = Session(bare(mended))

    assert session.model().fitted_.heard.all()
    assert np.abs(session.probabilities - fresh.probabilities).max() < 1e-6
    session.undo()
    assert (
        np.abs(session.probabilities - Fusion().fit(bare(wrong)).predict_proba(wrong)).max() < 1e-6
    )


def test_an_edit_says_who_is_not_heard_by_it_and_who_is_heard_again():
    right, wrong = draw(1), bad(draw(1))
    mended = np.where(np.arange(600) % 2, right.truth, -1)
    session = Session(bare(right))

    added = session.set_votes("bad", wrong.votes.matrix[:, -1])
    assert (added.unheard, added.heard) == (("bad",), ())
    assert "not heard, since vectors contradict it: bad" in str(added)
    assert "heard" not in str(session.set_radius("s0", 0.1))  # as before
    assert session.set_radius("bad", 0.1).unheard == ("bad",)  # this is why nothing changes

    change = session.set_votes("bad", mended)
    assert (change.unheard, change.heard) == ((), ("bad",))
    assert "heard again: bad" in str(change)
    session.undo()
    gone = session.switch("bad", False)
    assert (gone.unheard, gone.heard) == ((), ())
    assert added.to_dict()["unheard"] == ["bad"]


def test_a_draft_says_that_it_would_not_be_heard(tmp_path: Path):
    split = draw(1)
    red = (split.truth == 0) & (np.arange(600) % 5 > 0)
    rows = [f"{'red' if each else 'blue'} {at}" for at, each in enumerate(red)]
    home = write_project(
        tmp_path, split.votes.matrix, np.asarray(split.vectors), np.full(600, -1), ["a", "b"]
    )
    table = pq.read_table(home / "rows.parquet").append_column("text", pa.array(rows))
    pq.write_table(table, home / "rows.parquet")
    (home / "lfs.py").write_text("import epoxy\n")
    session = epoxy.Session.open(home)

    wrong, right = (
        session.draft(
            {"kind": "keywords", "label": label, "words": ["red"], "column": "text"}, "one"
        )
        for label in ("b", "a")
    )

    assert (wrong.unheard, right.unheard) == (True, False)
    assert "not heard, since vectors contradict it" in repr(wrong)
    assert not wrong.flipped


def test_rows_that_only_a_source_that_is_not_heard_votes_on_are_there_to_cover():
    train = bare(bad(draw(1)))
    session = Session(train)
    lent = session.votes.matrix
    only_bad = (lent[:, :-1] == -1).all(axis=1) & (lent[:, -1] != -1)

    rows = session.next(600, "cover")

    assert only_bad.any()
    assert set(np.flatnonzero(only_bad)) <= {each.row for each in rows}
    assert rows[0].reason.startswith("no source that is heard votes here")


def test_a_quarrel_with_a_source_that_is_not_heard_is_none():
    session = Session(bare(bad(draw(1))))
    own = session.split("train").votes.matrix
    heard = [set(row[row != -1]) for row in own[:, :-1]]
    with_bad = [said | ({vote} - {-1}) for said, vote in zip(heard, own[:, -1])]

    rows = session.next(600, "conflict")

    assert any(len(both) > 1 == len(said) for both, said in zip(with_bad, heard))
    assert {each.row for each in rows} == {at for at, said in enumerate(heard) if len(said) > 1}
    assert not any("bad" in each.reason for each in rows)


def test_what_is_offered_is_what_is_offered_without_it():
    session = Session(bare(bad(draw(1))))

    def offered():
        rows = [each.row for to in ("cover", "conflict") for each in session.next(20, to)]
        return rows, [(x.definition, x.adds, x.against) for x in session.suggest(3)]

    heard_by_nobody = offered()
    session.switch("bad", False)

    assert heard_by_nobody == offered()


def test_the_studio_and_agents_are_told_whom_the_model_does_not_hear(tmp_path: Path):
    from epoxy.agent.tools import Tools
    from studio_client import Caller, serving

    split = bad(draw(1))
    home = write_project(
        tmp_path, split.votes.matrix, np.asarray(split.vectors), np.full(600, -1), ["a", "b"]
    )
    (home / "lfs.py").write_text("import epoxy\n")
    session = epoxy.Session.open(home)
    assert set(session.outcome.unheard) == {"s6"}
    tools = Tools(session, write=False)
    told = {each["name"]: each["heard"] for each in tools.call("functions", {})["functions"]}
    assert [name for name, heard in told.items() if not heard] == ["s6"]
    (found,) = [x for x in tools.call("findings", {})["findings"] if x["kind"] == "not-heard"]
    assert found["source"] == "s6"

    with serving(session) as studio, Caller(studio.port, studio.token) as call:
        lines = {each["name"]: each for each in call("sources")["sources"]}
        detail, state = call("source", name="s6"), call("state")
        change = call("switch", source="s6", on=False)

    assert {name for name, each in lines.items() if not each["heard"]} == {"s6"}
    assert (detail["heard"], detail["adds"]) == (False, 0.0)
    assert any("vectors contradict them: 's6'" in each for each in state["notes"])
    assert (change["unheard"], change["heard"]) == ([], [])


def test_a_saved_model_hears_whom_it_heard(tmp_path):
    train, test = bad(draw(1)), bad(draw(2))
    model = Fusion().fit(bare(train), test.rows(np.arange(30)))

    again = epoxy.load(model.save(tmp_path / "model"))

    assert again.fitted_.heard.tolist() == model.fitted_.heard.tolist()
    assert np.array_equal(again.predict_proba(test), model.predict_proba(test))


def test_commands_say_once_that_it_is_not_heard(tmp_path: Path, capsys):
    from epoxy.cli import main

    split = bad(draw(1, 300), 3)
    truth = np.full(300, -1)
    home = write_project(tmp_path, split.votes.matrix, np.asarray(split.vectors), truth, ["a", "b"])

    for command in ("label", "report"):
        main([command, str(home)])
        assert capsys.readouterr().out.count("Not heard because vectors contradict them: 's6'") == 1
