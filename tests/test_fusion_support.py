"""Sources that vectors contradict are not heard, cost nothing, and are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import epoxy
from epoxy import Fusion, Session, Split, Votes
from epoxy.diagnostics import not_heard
from epoxy.diagnostics.unheard import defended_by
from epoxy.fusion import support
from oracles.fusion import Oracle
from shard_projects import agree, write_project


def draw(seed: int, n_rows: int = 900, n_classes: int = 2, n_sources: int = 6) -> Split:
    """Rows whose class is a direction; one-sided sources, right on most rows they vote on."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    vectors = 1.5 * np.eye(8)[y] + 0.6 * rng.normal(size=(n_rows, 8))
    names = np.arange(n_sources) % n_classes
    speaks = rng.random((n_rows, n_sources)) < np.where(y[:, None] == names, 0.3, 0.06)
    votes = Votes(
        np.where(speaks, names, -1), [f"s{at}" for at in range(n_sources)], list("abcd"[:n_classes])
    )
    return Split(votes, vectors, y)


def with_source(split: Split, column: np.ndarray, name: str = "bad") -> Split:
    votes = Votes(
        np.column_stack([split.votes.matrix, column]),
        [*split.votes.sources, name if name not in split.votes.sources else f"{name} too"],
        split.classes,
    )
    return Split(votes, split.vectors, split.y)


def bad(split: Split, kind: str, seed: int = 0) -> Split:
    """With a source that votes on six rows in ten, at random, mostly wrong, or always the same."""
    rng, n_classes = np.random.default_rng(100 + seed), len(split.classes)
    y, n_rows = split.truth, split.n_rows
    wrong = (y + rng.integers(1, n_classes, n_rows)) % n_classes
    column = {
        "random": rng.integers(0, n_classes, n_rows),
        "wrong": np.where(rng.random(n_rows) < 0.2, y, wrong),
        "constant": np.zeros(n_rows, dtype=int),
    }[kind]
    return with_source(split, np.where(rng.random(n_rows) < 0.6, column, -1))


def bare(split: Split) -> Split:
    return Split(split.votes, split.vectors)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_source_that_is_mostly_wrong_costs_nothing(n_classes):
    train, test = draw(1, n_classes=n_classes), draw(2, n_classes=n_classes)
    alone = Fusion().fit(bare(train))

    model = Fusion().fit(bare(bad(train, "wrong")))

    assert model.fitted_.heard.tolist() == [True] * 6 + [False]
    proba = model.predict_proba(bad(test, "wrong", 1))
    assert np.abs(proba - alone.predict_proba(test)).max() < 1e-12
    assert alone.fitted_.heard is None


def silenced(kind: str, n_draws: int = 10) -> np.ndarray:
    """How often each of six right sources and a bad one is not heard."""
    found = np.zeros(7, dtype=int)
    for seed in range(n_draws):
        heard = Fusion().fit(bare(bad(draw(seed, 3000), kind, seed))).fitted_.heard
        found += 0 if heard is None else ~heard
    return found


@pytest.mark.parametrize("kind", ["random", "constant"])
def test_of_votes_at_random_most_are_found_and_none_that_are_right(kind):
    found = silenced(kind)

    assert found[-1] >= 5
    assert not found[:-1].any()


@pytest.mark.parametrize("kind", ["random", "wrong", "constant"])
@pytest.mark.parametrize(("n_rows", "n_classes"), [(40, 2), (300, 2), (900, 2), (300, 3)])
def test_support_equals_refitting_without_each_source(kind, n_rows, n_classes):
    train = bad(draw(1, n_rows, n_classes=n_classes), kind)
    model, oracle = Fusion().fit(bare(train)), Oracle(bare(train))

    heard = np.ones(7, bool) if model.fitted_.heard is None else model.fitted_.heard
    assert heard.tolist() == oracle.heard.tolist()
    if oracle.support is None:
        assert model.fitted_.support is None  # vectors of 40 rows foretell nothing
    else:
        assert model.fitted_.support == pytest.approx(oracle.support, abs=1e-5)
    assert np.abs(model.predict_proba(train) - oracle.proba(train)).max() < 1e-5


def wrong_of_a_class(split: Split) -> Split:
    """With a source that gives all rows of the first class the second: vectors foretell no votes of all."""
    return with_source(split, np.where(split.truth == 0, 1, -1))


def test_a_source_that_hides_what_vectors_say_of_the_others_costs_nothing():
    train, test = draw(1), draw(2)
    alone, oracle = Fusion().fit(bare(train)), Oracle(bare(wrong_of_a_class(train)))

    model = Fusion().fit(bare(wrong_of_a_class(train)))

    assert model.fitted_.heard.tolist() == oracle.heard.tolist() == [True] * 6 + [False]
    assert model.fitted_.support == pytest.approx(oracle.support, abs=1e-5)
    proba = model.predict_proba(wrong_of_a_class(test))
    assert np.abs(proba - alone.predict_proba(test)).max() < 1e-12
    assert np.abs(proba - oracle.proba(wrong_of_a_class(test))).max() < 1e-5


def test_with_hand_labels_it_is_the_oracles_model_too():
    train, dev, test = (bad(draw(seed), "wrong", seed) for seed in (1, 2, 3))
    dev, test = dev.rows(np.arange(40)), test.rows(np.arange(100))

    model, oracle = Fusion().fit(bare(train), dev), Oracle(bare(train), dev)

    assert not model.fitted_.heard[-1]
    assert np.abs(model.predict_proba(test) - oracle.proba(test)).max() < 1e-5


def test_hand_labels_learn_what_a_source_that_is_not_heard_is_worth():
    train, dev, test = (bad(draw(seed), "wrong", seed) for seed in (1, 2, 3))
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

    assert model.fitted_.heard is None
    assert (model.fitted_.support > 0).all()


def test_vectors_that_tell_nothing_silence_nobody():
    train = bad(draw(1), "wrong")
    noise = np.random.default_rng(0).normal(size=(train.n_rows, 8))

    model = Fusion().fit(Split(train.votes, noise))

    assert model.fitted_.heard is None


def test_one_source_speaks_for_each_class():
    """A function that says "a" by default is all that is known of "a"."""
    split = draw(1)
    matrix = np.where(split.votes.matrix == 0, -1, split.votes.matrix)
    train = with_source(Split(Votes(matrix, classes=split.classes), split.vectors), np.zeros(900))

    model = Fusion().fit(train)

    assert model.fitted_.heard is None or model.fitted_.heard[-1]


def supported(support_: float, error: float, classes: list[int], votes: int = 50):
    return support.Supported(np.array(classes), votes, support_, error)


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ([(1, 0.1), (1, 0.1), (1, 0.1), (0.0, 0.07)], [1, 1, 1, 0]),
        ([(1, 0.1), (1, 0.1), (1, 0.1), (0.0, 0.08)], [1, 1, 1, 1]),  # it may have some support
        ([(1, 0.1), (1, 0.1), (1, 0.1), (0.05, 0.02)], [1, 1, 1, 1]),  # little, but surely
        ([(1, 0.1), (1, 0.1), (1, 0.1), (0.02, 0.02)], [1, 1, 1, 0]),  # too little to be sure
        ([(-1, 0.1), (-1, 0.1), (-1, 0.1), (1, 0.1)], [1, 1, 1, 1]),  # most contradict one another
        ([(1, 0.1), (-1, 0.1)], [1, 1]),  # two that quarrel
    ],
)
def test_a_source_is_silenced_if_surely_nothing_speaks_for_it(found, kept):
    each = [supported(*pair, [0, 1]) for pair in found]

    assert support._heard(each, 2).tolist() == [bool(one) for one in kept]


def test_of_sources_for_a_class_that_are_all_contradicted_the_most_particular_is_heard():
    good = [supported(1, 0.1, [0]) for _ in range(3)]
    several, own, other = (
        supported(x, 0.01, c) for x, c in ((0.0, [0, 1]), (-0.2, [1]), (-0.1, [1]))
    )

    kept = support._heard([*good, several, own, other], 2)

    assert kept.tolist() == [True, True, True, False, False, True]


def test_a_source_without_a_vote_is_neither_supported_nor_contradicted():
    train = bad(draw(1), "wrong")
    train = with_source(train, np.full(train.n_rows, -1), "never")

    model = Fusion().fit(bare(train))

    assert model.fitted_.heard.tolist() == [True] * 6 + [False, True]
    assert model.fitted_.support[-1] == 0


def test_report_and_explanation_name_it_and_why():
    train = bare(bad(draw(1), "wrong"))
    session = Session(train, graph=False)
    row = int(np.flatnonzero(train.votes.matrix[:, -1] >= 0)[0])

    report, said = str(session.report()), session.explain(row)

    assert "Not heard because vectors contradict them: 'bad' (support -" in report
    (voice,) = [each for each in said.voices if each.origin == "contradicted"]
    assert (voice.source, voice.weight) == ("bad", 0.0)
    assert "rows like those it votes on are otherwise called" in str(said)


def test_with_hand_labels_an_explanation_says_that_these_hear_it():
    train, dev = bad(draw(1), "wrong", 1), bad(draw(2), "wrong", 2)
    row = int(np.flatnonzero(train.votes.matrix[:, -1] >= 0)[0])

    said = str(Session(bare(train), dev, graph=False).explain(row))

    assert "is not heard but by hand labels, whose part holds it: rows like those" in said


def test_the_doctor_warns_of_it_by_name_and_says_what_to_do():
    session = Session(bare(bad(draw(1), "wrong")), graph=False)

    (found,) = [
        each for each in session.report().findings if getattr(each, "kind", "") == "not-heard"
    ]

    assert (found.sources, found.severity) == (("bad",), "warning")
    assert "may return the wrong class, or vote at random" in found.cure
    model = session.model()
    assert str(found) in str(model.report(model.train_))


def test_where_hand_labels_prove_it_right_the_warning_says_so():
    """Everybody else errs on the labelled rows: `bad` is what they are."""
    train, dev = bare(bad(draw(1), "wrong", 1)), bad(draw(2, 200), "wrong", 2)
    said = dev.votes.matrix[:, -1]
    dev = Split(dev.votes, dev.vectors, np.where(said == -1, dev.truth, said))
    n = int((said != -1).sum())
    session = Session(train, dev, graph=False)

    (found,) = [x for x in session.report().findings if getattr(x, "kind", "") == "not-heard"]

    assert f"Hand labels agree with 'bad' on {n} of {n} rows." in found.text
    assert found.cure.startswith("Keep what hand labels agree with")
    assert "may return the wrong class" not in str(found)
    assert str(found) in session.notes
    assert str(found) in str(session.model().report(dev))
    truth = draw(2, 200).truth
    for row in np.flatnonzero(said != -1):
        session.label(int(row), "ab"[truth[row]], "dev")
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
    session = Session(bare(bad(draw(1), "wrong")), graph=False)

    (note,) = session.notes
    assert note.startswith("Not heard because vectors contradict them: 'bad' (support -")
    session.switch("bad", False)
    assert session.notes == ("switched off, and so without a say: bad",)
    assert Session(bare(draw(1)), graph=False).notes == ()


def test_switching_it_off_changes_no_label_where_none_was_given_by_hand():
    session = Session(bare(bad(draw(1), "wrong")), graph=False)
    before = session.probabilities.copy()

    change = session.switch("bad", False)

    assert not len(change.flipped)
    assert np.abs(session.probabilities - before).max() < 1e-12


def test_a_row_known_by_such_votes_alone_has_the_prior_and_says_so():
    train = bare(bad(draw(1), "wrong"))
    model = Fusion().fit(train)
    votes = Votes(np.array([[-1] * 6 + [1]]), train.votes.sources, train.classes)

    said = model.explain(Split(votes, np.zeros((1, 8))), 0)

    assert not said.known
    assert "but votes of sources that do not count" in str(said)


def test_what_it_weighs_is_what_hand_labels_make_of_it():
    train, dev = bad(draw(1), "wrong", 1), bad(draw(2), "wrong", 2)
    labelled = Session(bare(train), dev, graph=False)
    alone = Session(bare(train), graph=False)

    assert alone.weight("bad") == 0
    assert labelled.weight("bad") < 0 < labelled.weight("s0")


def test_it_lends_nothing_and_its_own_votes_stay_its_own():
    train, test = bad(draw(1), "wrong", 1), bad(draw(2), "wrong", 2)
    model = Fusion().fit(bare(train))

    extended = model.extend(bare(test))

    assert (extended.matrix[:, -1] == test.votes.matrix[:, -1]).all()
    assert (extended.matrix != test.votes.matrix).any()


def test_a_session_that_mends_a_wrong_source_is_one_that_never_had_it():
    right, wrong = draw(1), bad(draw(1), "wrong")
    mended = with_source(right, np.where(np.arange(900) % 2, right.truth, -1))
    session = Session(bare(wrong), graph=False)
    assert not session.model().fitted_.heard[-1]

    session.set_votes("bad", mended.votes.matrix[:, -1])
    fresh = Session(bare(mended), graph=False)

    assert session.model().fitted_.heard is None
    assert np.abs(session.probabilities - fresh.probabilities).max() < 1e-6
    session.undo()
    assert (
        np.abs(session.probabilities - Fusion().fit(bare(wrong)).predict_proba(wrong)).max() < 1e-6
    )


def test_an_edit_says_who_is_not_heard_by_it_and_who_is_heard_again():
    right, wrong = draw(1), bad(draw(1), "wrong")
    mended = np.where(np.arange(900) % 2, right.truth, -1)
    session = Session(bare(right), graph=False)

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
    red = (split.truth == 0) & (np.arange(900) % 5 > 0)
    rows = [f"{'red' if each else 'blue'} {at}" for at, each in enumerate(red)]
    home = write_project(
        tmp_path, split.votes.matrix, np.asarray(split.vectors), np.full(900, -1), ["a", "b"]
    )
    table = pq.read_table(home / "rows.parquet").append_column("text", pa.array(rows))
    pq.write_table(table, home / "rows.parquet")
    (home / "lfs.py").write_text("import epoxy\n")
    session = epoxy.Session.open(home, graph=False)

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
    train = bare(bad(draw(1), "wrong"))
    session = Session(train, graph=False)
    lent = session.votes.matrix
    only_bad = (lent[:, :-1] == -1).all(axis=1) & (lent[:, -1] != -1)

    rows = session.next(900, "cover")

    assert only_bad.any()
    assert set(np.flatnonzero(only_bad)) <= {each.row for each in rows}
    assert rows[0].reason.startswith("no source that is heard votes here")


def test_a_quarrel_with_a_source_that_is_not_heard_is_none():
    session = Session(bare(bad(draw(1), "wrong")), graph=False)
    own = session.split("train").votes.matrix
    heard = [set(row[row != -1]) for row in own[:, :-1]]
    with_bad = [said | ({vote} - {-1}) for said, vote in zip(heard, own[:, -1])]

    rows = session.next(900, "conflict")

    assert any(len(both) > 1 == len(said) for both, said in zip(with_bad, heard))
    assert {each.row for each in rows} == {at for at, said in enumerate(heard) if len(said) > 1}
    assert not any("bad" in each.reason for each in rows)


def test_what_is_offered_is_what_is_offered_without_it():
    session = Session(bare(bad(draw(1), "wrong")), graph=False)

    def offered():
        rows = [each.row for to in ("cover", "conflict") for each in session.next(20, to)]
        return rows, [(x.definition, x.adds, x.against) for x in session.suggest(3)]

    heard_by_nobody = offered()
    session.switch("bad", False)

    assert heard_by_nobody == offered()


def test_the_studio_and_agents_are_told_whom_the_model_does_not_hear(tmp_path: Path):
    from epoxy.agent.tools import Tools
    from studio_client import Caller, serving

    split = bad(bad(draw(1, 3000), "wrong"), "random")
    home = write_project(
        tmp_path, split.votes.matrix, np.asarray(split.vectors), np.full(3000, -1), ["a", "b"]
    )
    (home / "lfs.py").write_text("import epoxy\n")
    session = epoxy.Session.open(home, graph=False)
    assert set(session.outcome.unheard) == {"s6", "s7"}

    with serving(session) as studio, Caller(studio.port, studio.token) as call:
        lines = {each["name"]: each for each in call("sources")["sources"]}
        detail, state = call("source", name="s6"), call("state")
        change = call("switch", source="s6", on=False)

    assert {name for name, each in lines.items() if not each["heard"]} == {"s6", "s7"}
    assert (detail["heard"], detail["adds"]) == (False, 0.0)
    assert any("vectors contradict them: 's6'" in each for each in state["notes"])
    assert (change["unheard"], change["heard"]) == ([], [])
    tools = Tools(session, write=False)
    told = {each["name"]: each["heard"] for each in tools.call("functions", {})["functions"]}
    assert [name for name, heard in told.items() if not heard] == ["s7"]
    (found,) = [x for x in tools.call("findings", {})["findings"] if x["kind"] == "not-heard"]
    assert found["source"] == "s7"


def test_a_saved_model_hears_whom_it_heard(tmp_path):
    train, test = bad(draw(1), "wrong"), bad(draw(2), "wrong")
    model = Fusion().fit(bare(train), test.rows(np.arange(30)))

    again = epoxy.load(model.save(tmp_path / "model"))

    assert again.fitted_.heard.tolist() == model.fitted_.heard.tolist()
    assert np.array_equal(again.predict_proba(test), model.predict_proba(test))


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "spoil"),
    [  # with landmarks and without
        (40, 2, lambda split: bad(split, "wrong", 3)),
        (600, 2, lambda split: bad(split, "wrong", 3)),
        (40, 3, lambda split: bad(split, "wrong", 3)),
        (600, 3, lambda split: bad(split, "wrong", 3)),
        (600, 2, wrong_of_a_class),
    ],
)
def test_shards_hear_whom_memory_hears(tmp_path: Path, n_rows, n_classes, spoil):
    from epoxy.shards import label

    split = spoil(draw(1, n_rows, n_classes=n_classes))
    truth = np.where(np.arange(n_rows) % 9 == 3, split.truth, -1)
    home = write_project(
        tmp_path, split.votes.matrix, np.asarray(split.vectors), truth, list(split.classes)
    )
    session = epoxy.Session.open(home, graph=False)
    memory = pq.read_table(session.export(home / "memory.parquet"))

    found = label(home, rows_per_shard=170)
    agree(memory, pq.read_table(found.path), within=1e-6)

    assert found.notes == session.notes
    if n_rows > 100:
        assert not session.model().fitted_.heard[-1]
        assert "vectors contradict them: 's6'" in found.lines()[-1]


def test_commands_say_once_that_it_is_not_heard(tmp_path: Path, capsys):
    from epoxy.cli import main

    split = bad(draw(1, 300), "wrong", 3)
    truth = np.full(300, -1)
    home = write_project(tmp_path, split.votes.matrix, np.asarray(split.vectors), truth, ["a", "b"])

    for command in ("label", "report"):
        main([command, str(home)])
        assert capsys.readouterr().out.count("Not heard because vectors contradict them: 's6'") == 1


def test_sources_that_silence_each_other_in_turn_are_asked_about_once_each_way():
    asked = []

    def ask(kept):
        asked.append(tuple(kept.tolist()))
        worthless = 1 if not kept[0] else 0  # whoever is heard of the first two is contradicted
        values = np.where(np.arange(4) == worthless, -2.0, 2.0)
        return [support.Supported(np.array([0, 1]), 50, value, 0.1) for value in values]

    heard, found = support.judged(np.ones(4, dtype=bool), 2, ask)

    assert asked == [(True,) * 4, (False, True, True, True), (True, False, True, True)]
    assert heard.tolist() == [True, False, True, True]
    assert found.tolist() == [2.0, -2.0, 2.0, 2.0]
