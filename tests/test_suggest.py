"""Functions that are suggested: found on one half of the rows, judged on the other, taken into lfs.py."""

from __future__ import annotations

import ast
import json
from dataclasses import replace

import numpy as np
import pytest

from epoxy import Session, Split, Votes
from epoxy.agent.tools import Tools
from epoxy.cli import main
from epoxy.errors import NotIdentifiable, ParameterError, UnknownName
from epoxy.functions.kinds import form_of
from epoxy.project.create import new_project
from epoxy.suggest.mine import Evidence, Finder, gather, word_columns
from epoxy.suggest.precision import Judge

LFS = """\
import epoxy

won = epoxy.keywords("spam", "won", name="won")  # mine
sorry = epoxy.keywords("ham", "sorry", name="sorry")
"""
WORDS = {
    "ham": ["lunch", "sorry", "home", "tonight"],
    "spam": ["prize", "won", "claim now", "http://x.example"],
}
FILLERS = ["the", "and", "for", "with", "this", "that", "from", "they"]


def messages(n_rows=400, seed=3):
    """Texts and labels: each holds one word of its class, or none, among words that tell nothing."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n_rows) < 0.4, "spam", "ham")
    texts = []
    for label in labels:
        words = [*rng.choice(FILLERS, 5), *([rng.choice(WORDS[label])] * (rng.random() < 0.9))]
        texts.append(" ".join(rng.permutation(words)))
    return texts, labels


def holds(texts, word):
    return np.array([word in text.split() for text in texts])


def made(texts, labels, n_dev=100, hand=None, **options):
    """A session over texts: two functions, vectors that tell something, the last rows labelled."""
    rng = np.random.default_rng(1)
    y = np.array([["ham", "spam"].index(each) for each in labels])
    votes = np.column_stack(
        [np.where(holds(texts, "won"), 1, -1), np.where(holds(texts, "sorry"), 0, -1)]
    )
    vectors = np.column_stack([1 - 2 * y, np.ones(len(y))]) + rng.normal(size=(len(y), 2))
    names, cut = {"sources": ["won", "sorry"], "classes": ["ham", "spam"]}, len(y) - n_dev
    train = Split(Votes(votes[:cut], **names), vectors[:cut])
    truth = y[cut:] if hand is None else hand
    dev = Split(Votes(votes[cut:], **names), vectors[cut:], truth) if n_dev else None
    rows = (texts[:cut], texts[cut:]) if n_dev else texts
    return Session(train, dev, **({"rows": rows} | options))


@pytest.fixture(scope="module")
def texts():
    return messages()


@pytest.fixture(scope="module")
def session(texts):
    return made(*texts)


@pytest.fixture
def folder(tmp_path, texts):
    lines = ["id,text,label"]
    for at, (text, label) in enumerate(zip(*texts)):
        lines.append(f"m{at},{text},{label if at % 4 == 0 else ''}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    new_project(tmp_path / "project", tmp_path / "rows.csv", lfs=LFS)
    return tmp_path / "project"


def words_of(session):
    return [each for each in session.vocabulary.columns if each.kind != "like"]


def said(found, label):
    return {w for each in found if each.label == label for w in each.definition.get("words", ())}


# what is found


def test_the_words_that_tell_are_suggested_and_not_those_that_do_not(session):
    found = session.suggest(4, kinds=["keywords"])

    assert {"lunch", "tonight"} <= said(found, "ham")
    assert {"prize"} <= said(found, "spam")
    assert not {*FILLERS} & (said(found, "ham") | said(found, "spam"))
    assert not {"won"} & said(found, "spam")  # a function says it already


def test_a_suggestion_says_what_it_votes_on_and_what_it_adds(session, texts):
    first = session.suggest(1, label="spam", kinds=["keywords"])[0]

    vote = form_of(first.definition).function().vote
    train, every = texts[0][:300], [each is not None for each in vote(texts[0])]
    voted = np.array(every[:300])
    silent = ~holds(train, "won") & ~holds(train, "sorry")
    assert first.rows == voted.sum()
    assert first.coverage == voted.mean()
    assert first.adds == (voted & silent).sum()
    assert first.against == (voted & holds(train, "sorry")).sum()
    assert {each.label for each in first.right} == {"spam"}
    assert all(each.label == "ham" for each in first.wrong)
    assert first.provenance["found_on"]["rows"] + first.precision.rows == sum(every)


def test_each_next_suggestion_adds_to_those_before(session):
    found = session.suggest(4, label="ham", kinds=["keywords"])

    train = [session.text(row) for row in range(300)]
    seen = holds(train, "won") | holds(train, "sorry")
    for each in found:
        votes = form_of(each.definition).function().vote(train)
        voted = np.array([vote is not None for vote in votes])
        assert each.adds == (voted & ~seen).sum()
        seen |= voted


def test_rows_without_text_are_suggested_example_rows(texts):
    found = made(*texts, rows=None).suggest(2)

    assert {each.definition["kind"] for each in found} == {"like"}
    assert {each.label for each in found} == {"ham", "spam"}
    assert all(each.precision.value > 0.6 for each in found)


def test_without_hand_labels_the_model_alone_is_heard_and_the_interval_is_wide(texts):
    found = made(*texts, n_dev=0).suggest(3)

    assert {each.precision.basis for each in found} == {"model"}
    assert all(each.precision.high - each.precision.low > 0.3 for each in found)


def test_a_class_that_nobody_votes_for_is_suggested_functions_from_hand_labels():
    texts, labels = messages()
    session = made(texts, labels)
    session.switch("won", False)

    found = session.suggest(4, label="spam")

    assert "spam" in {each.label for each in found}


def test_a_region_gets_functions_of_its_own_words(session, texts):
    rows = [at for at, text in enumerate(texts[0]) if "tonight" in text]

    (first,) = session.suggest(1, rows=rows, kinds=["keywords"])

    assert first.definition["words"][0] == "tonight"


def test_a_quarrel_gets_functions_for_the_rows_that_are_quarrelled_about(texts):
    session = made(*texts)
    argue = np.where(holds(texts[0], "lunch"), 1, -1)
    both = np.where(holds(texts[0], "lunch") | holds(texts[0], "sorry"), 0, -1)
    session.set_votes("wrong", argue[:300], dev=argue[300:])
    session.set_votes("sorry", both[:300], dev=both[300:])

    for conflict in (True, ("wrong", "sorry")):
        found = session.suggest(3, conflict=conflict, label="ham", kinds=["keywords"])
        assert all(each.against > 0 for each in found[:1])
        assert session.suggest(3, conflict=conflict) == session.suggest(3, conflict=conflict)


def test_the_same_is_suggested_again_and_can_be_written_down(session, texts):
    found = session.suggest(5)

    assert found == session.suggest(5) == made(*texts).suggest(5)
    assert json.loads(json.dumps([each.to_dict() for each in found]))[0]["name"] == found[0].name
    assert len({each.name for each in found}) == len(found)
    assert "right" in str(found[0])


# what is said of it


def test_nothing_is_estimated_on_the_rows_it_was_found_on(texts):
    """A word that is always right on the half for finding, and never on the other."""
    words, labels = texts[0].copy(), texts[1]
    hand = np.array([["ham", "spam"].index(each) for each in labels[300:]])
    for at in range(0, 100, 2):
        words[300 + at] += f" zebra {at}"
    session = made(words, labels, hand=hand)
    find = session.vocabulary.find[300:]
    zebra = np.array(["zebra" in each for each in words[300:]])
    session = made(words, labels, hand=np.where(zebra, np.where(find, 1, 0), hand))
    evidence = gather(session.outcome, session.vocabulary.find)
    voted = np.concatenate([np.zeros(300, dtype=bool), zebra])

    precision = Judge(evidence).precision(1, voted)

    assert evidence.belief[voted & evidence.find, 1].mean() == 1.0
    assert precision.right == 0
    assert precision.high < 0.5


def test_what_the_other_half_is_does_not_decide_what_is_found(session):
    evidence = gather(session.outcome, session.vocabulary.find)
    rng = np.random.default_rng(0)
    other = evidence.belief.copy()
    other[~evidence.find] = rng.dirichlet([1, 1], int((~evidence.find).sum()))
    columns = words_of(session)
    own = [np.concatenate(each.own) for each in session.state.workspace.active]

    finders = [
        Finder(each, columns, own, own) for each in (evidence, replace(evidence, belief=other))
    ]

    bundles = [[finder.next([0, 1]) for _ in range(4)] for finder in finders]
    assert bundles[0] == bundles[1]


def test_rows_that_say_the_same_are_in_one_half(texts):
    words, labels = texts[0][:200] * 2, np.concatenate([texts[1][:200]] * 2)

    find = made(words, labels).vocabulary.find

    assert find[:200].tolist() == find[200:].tolist()
    assert 60 < find[:200].sum() < 140


def test_labels_of_rows_that_were_chosen_for_their_looks_judge_nothing(texts):
    session = made(*texts)
    heard = Judge(gather(session.outcome, session.vocabulary.find)).heard.sum()
    session = made(*texts)
    for row in range(20):
        session.label(row, "ham", chosen="teach")

    assert Judge(gather(session.outcome, session.vocabulary.find)).heard.sum() == heard > 30


@pytest.mark.parametrize(("bias", "labelled"), [(0.0, 300), (0.7, 300), (-0.7, 80), (0.7, 20)])
def test_intervals_hold_the_truth_as_often_as_they_say(bias, labelled):
    """Functions of known precision, a model that is off by a bias and more, few hand labels."""
    rng = np.random.default_rng(int(100 * abs(bias)) + labelled)
    inside = []
    for _ in range(12):
        n_rows, truths = 2000, rng.beta(6, 2, 8)
        block = np.arange(n_rows) % 8
        y = (rng.random(n_rows) < truths[block]).astype(int)
        off = np.log(truths / (1 - truths)) + bias + rng.normal(0, 0.6, 8)
        held = 1 / (1 + np.exp(-off[block] - rng.normal(0, 1, n_rows)))
        hand = np.full(n_rows, -1)
        some = rng.permutation(n_rows)[:labelled]
        hand[some] = y[some]
        table = np.column_stack([1 - held, held])
        evidence = Evidence(rng.random(n_rows) < 0.5, table, table, hand, hand >= 0)
        judge = Judge(evidence, [(1, np.flatnonzero(block == each)) for each in range(8)])
        for each in range(8):
            found = judge.precision(1, block == each)
            inside.append(found.low <= truths[each] <= found.high)

    assert np.mean(inside) >= 0.87


@pytest.mark.parametrize(("right", "ends"), [(1.0, (True, False)), (0.0, (False, True))])
def test_an_end_that_no_label_speaks_against_is_in_the_interval(right, ends):
    held, hand = np.tile([0.5, 0.5], (60, 1)), np.full(60, int(right))
    every, none = np.ones(60, dtype=bool), np.zeros(60, dtype=bool)

    found = Judge(Evidence(none, held, held, hand, every)).precision(1, every)
    hand[7] = 1 - hand[7]
    with_one = Judge(Evidence(none, held, held, hand, every)).precision(1, every)
    unheard = Judge(Evidence(none, held, held, np.full(60, -1), none)).precision(1, every)

    assert (found.high == 1.0, found.low == 0.0) == ends
    for each in (with_one, unheard):
        assert 0.0 < each.low < each.high < 1.0


def test_an_estimate_comes_to_the_truth_with_many_labels():
    rng = np.random.default_rng(0)
    hand = (rng.random(4000) < 0.8).astype(int)
    held = np.tile([0.7, 0.3], (4000, 1))
    evidence = Evidence(np.zeros(4000, dtype=bool), held, held, hand, np.ones(4000, dtype=bool))

    found = Judge(evidence).precision(1, np.ones(4000, dtype=bool))

    assert found.value == pytest.approx(hand.mean(), abs=0.01)
    assert found.high - found.low < 0.05


# hostile and odd


def test_hostile_text_is_indexed_and_suggested_as_readable_code(tmp_path):
    odd = [
        '"quoted"',
        "back\\slash",
        "naïve",
        "日本 語",
        "a.*b",
        "{x}",
        "'''",
        "x" * 500,
        "İstanbul",
    ]
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(200) < 0.5, "spam", "ham")
    texts = [
        f"{rng.choice(odd)} {'naïve 日本' if label == 'spam' else 'plain'}" for label in labels
    ]
    found = made(texts, labels, n_dev=80).suggest(5)

    assert {"naïve", "日本"} & said(found, "spam")
    for each in found:
        if each.definition["kind"] != "like":
            votes = form_of(each.definition).function(each.name).vote(texts[:120])
            assert each.rows == sum(vote is not None for vote in votes)


def test_missing_and_endless_texts_are_read():
    texts = [None, "", "word " * 100_000, *["some word"] * 10, *["other"] * 10]

    words, _ = word_columns(epoxy_texts(texts), [23], np.arange(23))

    assert {"some", "some word", "other"} <= set(words.names)
    assert len(words.rows) == 23


def epoxy_texts(texts):
    from epoxy.suggest.search import RowTexts

    return RowTexts(texts)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n": -1}, ParameterError, "n is how many functions"),
        ({"n": True}, ParameterError, "n is how many functions"),
        ({"label": "egg"}, UnknownName, "no class named 'egg'"),
        ({"kinds": ["python"]}, UnknownName, "no kind of function named 'python'"),
        ({"rows": [9999]}, ParameterError, "rows are numbered from 0"),
        ({"conflict": ("won", "nobody")}, UnknownName, "no source named 'nobody'"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(session, arguments, error, words):
    with pytest.raises(error, match=words):
        session.suggest(**arguments)


def test_where_nothing_is_known_of_any_row_it_says_so():
    silent = Votes(np.full((30, 2), -1), sources=["a", "b"], classes=["ham", "spam"])
    session = Session(Split(silent, np.eye(30)), rows=["text"] * 30)

    with pytest.raises(NotIdentifiable, match="nothing says what any row is"):
        session.suggest()


# taken


def test_an_accepted_suggestion_is_in_the_file_and_undo_takes_it_out_byte_for_byte(folder):
    session = Session.open(folder)
    before = (folder / "lfs.py").read_bytes()
    first = session.suggest(1, label="spam", kinds=["keywords"])[0]

    session.save_function(first.definition, first.name)

    after = (folder / "lfs.py").read_bytes()
    assert after.startswith(before)
    assert first.name in session.sources
    added = ast.unparse(ast.parse(after[len(before) :]))
    assert "epoxy.keywords('spam'" in added
    assert first.name not in {each.name for each in session.suggest(5)}
    record = session.folder.log.records()[-1]
    assert record.who
    assert first.name in record.what
    session.undo()
    assert (folder / "lfs.py").read_bytes() == before
    assert session.sources == ("won", "sorry")


def test_the_command_prints_suggestions_and_accepts_by_number(folder, capsys, tmp_path):
    out = tmp_path / "found.json"

    assert main(["suggest", str(folder), "-n", "2", "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    told = json.loads(out.read_text())["suggestions"]
    assert told[0]["name"] in shown
    assert "90% interval" in shown
    before = (folder / "lfs.py").read_bytes()

    assert main(["suggest", str(folder), "-n", "2", "--accept", "2"]) == 0
    assert f"wrote {told[1]['name']} to lfs.py" in capsys.readouterr().out
    assert (folder / "lfs.py").read_bytes().startswith(before)
    assert told[1]["name"] in Session.open(folder).sources


def test_a_number_that_is_not_in_the_list_is_refused_and_nothing_is_written(folder, capsys):
    before = (folder / "lfs.py").read_bytes()

    assert main(["suggest", str(folder), "-n", "2", "--accept", "1", "7"]) == 2

    assert "there is no suggestion 7 to accept, they are numbered 1 to 2" in capsys.readouterr().err
    assert (folder / "lfs.py").read_bytes() == before


def test_where_nothing_is_suggested_there_is_nothing_to_accept(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("text\nfree money\nlovely song\nwin money\n")
    lfs = 'import epoxy\n\nmoney = epoxy.keywords("spam", "money", name="money")\n'
    new_project(tmp_path / "spam", tmp_path / "rows.csv", classes=["ham", "spam"], lfs=lfs)

    assert main(["suggest", str(tmp_path / "spam"), "--class", "ham", "--accept", "1"]) == 2

    said = capsys.readouterr()
    assert "no words, patterns or example rows tell 'ham' from the others; label more" in said.out
    assert "there is nothing to accept, since nothing is suggested" in said.err


def test_an_agent_is_suggested_functions_that_it_can_try_and_add(folder):
    tools = Tools(Session.open(folder), write=True)

    (first,) = tools.call("suggest_functions", {"n": 1, "label": "spam"})["suggestions"]

    assert first["label"] == "spam"
    tried = tools.call("try_function", {"definition": first["definition"]})
    assert tried["rows"] == first["rows"]
    tools.call("add_function", {"definition": first["definition"], "name": first["name"]})
    assert first["name"] in tools.session.sources
    tools.call("undo", {})
    assert (folder / "lfs.py").read_text() == LFS


def test_patterns_are_tried_as_well(session):
    (first,) = session.suggest(1, label="spam", kinds=["regex"])

    assert first.definition["pattern"] == r"https?://|www\."
    assert first.name == "regex_url"


def test_where_the_model_knows_nothing_hand_labels_are_heard_alone(texts):
    session = made(*texts)
    session.switch("won", False)
    session.switch("sorry", False)
    known = gather(
        replace(session.outcome, proba=(), problem="nobody votes"), session.vocabulary.find
    )

    judge = Judge(known)
    found = judge.precision(1, np.array(["prize" in text for text in texts[0]]))

    assert found.basis == "hand labels"
    assert found.right == found.hand > 3
