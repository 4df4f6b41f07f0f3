"""Functions tried before they are saved, and saved into lfs.py; undone only where nobody else wrote."""

from __future__ import annotations

import numpy as np
import pytest

import epoxy
from epoxy.errors import CodeError, FileChanged, ParameterError, UnknownName
from epoxy.functions.lfs_file import FunctionsFile
from epoxy.project.create import new_project
from epoxy.session import Session

LFS = """\
import epoxy

LIMIT = 20
prize = epoxy.keywords("spam", "prize", name="prize")
cash = epoxy.keywords("spam", "cash", name="cash")  # why not
home = epoxy.keywords("ham", "home", "dinner", name="home")
near = epoxy.like("ham", rows=["m3"], radius=0.3, name="near")
"""
WORDS = {"ham": ["home", "dinner", "sorry", "friend"], "spam": ["prize", "cash", "offer", "mobile"]}
OFFER = {"kind": "keywords", "label": "spam", "words": ["offer", "mobile"]}


def code(body: str, name: str = "short") -> dict[str, str]:
    return {"kind": "python", "code": f"@epoxy.labeling_function\ndef {name}(row):\n    {body}\n"}


def write_project(where):
    rng = np.random.default_rng(5)
    lines = ["id,text,label"]
    for at in range(120):
        label = ("ham", "spam")[int(rng.random() < 0.4)]
        lines.append(
            f"m{at},{' '.join(rng.choice(WORDS[label], 3))},{label if at % 6 == 0 else ''}"
        )
    (where / "rows.csv").write_text("\n".join(lines) + "\n")
    new_project(where / "project", where / "rows.csv", lfs=LFS)
    return where / "project"


@pytest.fixture
def folder(voted, tmp_path):
    return voted(write_project, tmp_path)


@pytest.fixture
def session(folder):
    return Session.open(folder)


@pytest.fixture(scope="module")
def drafting(tmp_path_factory):
    """A session that is asked for drafts alone, which keep nothing."""
    session = Session.open(write_project(tmp_path_factory.mktemp("drafting")))
    yield session
    assert session.sources == ("prize", "cash", "home", "near")
    assert session.reload() is None


def column(session, name):
    return np.concatenate(session.state.workspace.source(name).own).tolist()


def lines_with(session, *words):
    return [at for at in range(session.n_rows) if any(word in session.text(at) for word in words)]


def test_a_project_votes_with_example_rows(session, folder):
    near = session.state.workspace.source("near")

    assert session.sources == ("prize", "cash", "home", "near")
    assert near.own[0][session.find("m3")[1]] == 0
    (folder / "lfs.py").write_text(LFS.replace("radius=0.3", "radius=2.0"))
    change = session.reload()
    assert change.what == "votes of near"
    assert set(column(session, "near")) == {0}
    assert set(column(Session.open(folder), "near")) == {0}


def test_another_encoder_gives_other_votes_of_example_rows(session, folder):
    vectors = np.random.default_rng(0).normal(size=(120, 4))
    vectors[3] = vectors[7] = [9, 9, 9, 9]
    np.save(folder / "v.npy", vectors)
    settings = (folder / "epoxy.toml").read_text()
    (folder / "epoxy.toml").write_text(settings.replace('encoder = "auto"', 'encoder = "v.npy"'))

    again = Session.open(folder)

    voted = [at for at, vote in enumerate(column(again, "near")) if vote == 0]
    assert {again.cells(at)["id"] for at in voted} >= {"m3", "m7"}
    assert column(again, "near") != column(session, "near")


def test_example_rows_that_cannot_vote_cost_their_column_and_say_why(session, folder):
    before = column(session, "near")
    (folder / "lfs.py").write_text(LFS.replace('"m3"', '"m333"'))

    assert session.reload() is None

    (failure,) = session.folder.failures
    assert "'near' is like row 'm333', and no row has that id" in str(failure)
    assert column(session, "near") == before
    assert Session.open(folder).sources == ("prize", "cash", "home")
    (folder / "lfs.py").write_text(LFS)
    settings = (folder / "epoxy.toml").read_text()
    (folder / "epoxy.toml").write_text(settings.replace('encoder = "auto"', 'encoder = "none"'))
    (failure,) = Session.open(folder).folder.failures
    assert "'near' needs vectors, and these rows have none; name an encoder under [vectors]" in str(
        failure
    )


def test_a_draft_of_words_says_what_it_would_do_and_keeps_nothing(session, folder):
    before = session.probabilities

    draft = session.draft(OFFER, name="offers")

    rows = lines_with(session, "offer", "mobile")
    voted = np.flatnonzero(np.concatenate(draft.votes) == 1).tolist()
    n_train = session.split().n_rows
    hand = [session.split("dev").y[row - n_train] for row in rows if row >= n_train]
    assert draft.ok
    assert voted == rows
    assert draft.rows == len([row for row in rows if row < n_train])
    assert draft.coverage == pytest.approx(draft.rows / n_train)
    assert draft.extended >= draft.coverage
    assert draft.right["n"] == len(hand)
    assert draft.right["value"] == pytest.approx(np.mean(np.array(hand) == 1))
    assert draft.code == 'offers = epoxy.keywords("spam", "offer", "mobile", name="offers")'
    assert draft.flipped == len(draft.trial.change.flipped)
    assert [flip.row for flip in draft.flips] == draft.trial.change.flipped[:8].tolist()
    assert [row for row, _, _ in draft.examples] == rows[:8]
    assert repr(draft).startswith(f"Draft(offers: votes on {draft.rows} rows, ")
    assert session.probabilities is before
    assert session.sources == ("prize", "cash", "home", "near")
    assert (folder / "lfs.py").read_text() == LFS


def test_a_draft_counts_the_rows_it_shares_and_quarrels_about(drafting):
    draft = drafting.draft({"kind": "keywords", "label": "ham", "words": ["prize", "friend"]})

    n_train = drafting.split().n_rows
    mine = [row for row in lines_with(drafting, "prize", "friend") if row < n_train]
    others = drafting.split().votes.matrix
    assert draft.overlaps == sum((others[row] != -1).any() for row in mine)
    assert draft.conflicts == sum(len({0, *others[row].tolist()} - {-1}) > 1 for row in mine)


def test_a_draft_that_replaces_is_tried_in_its_place(drafting):
    draft = drafting.draft(OFFER, replaces="prize")
    renamed = drafting.draft(OFFER, name="offers", replaces="prize")

    assert draft.name == "prize"
    assert draft.trial.state.workspace.names == ("prize", "cash", "home", "near")
    assert renamed.trial.state.workspace.names == ("cash", "home", "near", "offers")
    assert renamed.extended == pytest.approx(draft.extended)
    assert drafting.draft(OFFER).name == "keywords_offer_mobile"


def test_example_rows_are_not_judged_on_themselves(drafting):
    dev = [drafting.cells(at)["id"] for at in range(drafting.split().n_rows, drafting.n_rows)]

    draft = drafting.draft({"kind": "like", "label": "ham", "rows": dev[:3], "radius": 2.0})

    assert draft.right["n"] == len(dev) - 3
    assert draft.code.startswith("like_m0_m6_m12 = epoxy.like(")


def test_patterns_and_code_are_drafted_in_a_process_of_their_own(session, folder):
    pattern = session.draft(
        {"kind": "regex", "label": "spam", "pattern": "OFF?", "ignore_case": True}
    )
    python = session.draft(code('return "spam" if len(row.text) < LIMIT else None'))

    assert np.flatnonzero(np.concatenate(pattern.votes) == 1).tolist() == lines_with(session, "of")
    short = [at for at in range(session.n_rows) if len(session.text(at)) < 20]
    assert np.flatnonzero(np.concatenate(python.votes) == 1).tolist() == short
    assert python.name == "short"
    assert (folder / "lfs.py").read_text() == LFS
    assert not list((folder / ".epoxy").glob("draft*"))
    assert session.reload() is None


@pytest.mark.parametrize(
    ("definition", "message", "line"),
    [
        (code("return row.txt"), "no column named 'txt'; did you mean 'text'?", 3),
        (code('return "spm"'), "returned 'spm' on row 0; expected one of", None),
        ({"kind": "python", "code": "\nx = 1\ndef short(row)\n"}, "SyntaxError: expected ':'", 3),
        ({"kind": "python", "code": "import nothere_\n" + code("1")["code"]}, "No module named", 1),
        (
            {"kind": "python", "code": "def short(row):\n    return None"},
            "is no labeling function",
            None,
        ),
        ({"kind": "regex", "label": "spam", "pattern": "("}, "is not a regular expression", None),
        (
            {"kind": "regex", "label": "spam", "pattern": "a", "column": "no"},
            "no column named",
            None,
        ),
        ({**OFFER, "column": "txt"}, "no column named 'txt'; did you mean 'text'?", None),
        ({**OFFER, "label": "spm"}, "votes 'spm'", None),
        ({"kind": "like", "label": "ham", "rows": ["zz"], "radius": 1}, "is like row 'zz'", None),
        ({"kind": "other"}, "'other'", None),
    ],
)
def test_a_draft_that_does_not_vote_says_why_and_on_which_of_its_lines(
    drafting, definition, message, line
):
    draft = drafting.draft(definition)

    assert not draft.ok
    assert message in draft.error.message
    assert draft.error.line == line
    assert draft.trial is None
    assert message[:10] in repr(draft) or line is not None


def test_a_session_without_a_project_drafts_words_patterns_and_example_rows():
    rows = [{"text": text} for text in ("free money", "lovely song", "MONEY", "a song") * 5]
    votes = epoxy.apply([epoxy.keywords("spam", "free"), epoxy.keywords("ham", "lovely")], rows)
    train = epoxy.Split(votes, np.eye(4)[[0, 1, 0, 1] * 5])
    alone = Session(train, rows=rows)

    assert alone.draft({"kind": "keywords", "label": "spam", "words": ["money"]}).rows == 10
    assert alone.draft({"kind": "regex", "label": "ham", "pattern": "song$"}).rows == 10
    assert alone.draft({"kind": "like", "label": "ham", "rows": ["1"], "radius": 0}).rows == 10
    assert "and this session has none; use Session.open" in alone.draft(code("1")).error.message
    with pytest.raises(ParameterError, match=r"save_function is about a project folder, and"):
        alone.save_function(OFFER, "offers")
    with pytest.raises(ParameterError, match=r"save_code is about a project folder, and this"):
        alone.save_code("", "")


def test_a_saved_function_votes_and_stands_in_the_file(session, folder):
    change = session.save_function(OFFER, "offers")

    assert change.what == "add offers"
    assert session.sources[-1] == "offers"
    text = (folder / "lfs.py").read_text()
    assert text == LFS + 'offers = epoxy.keywords("spam", "offer", "mobile", name="offers")\n'
    assert session.reload() is None
    assert Session.open(folder).sources == session.sources


def test_a_saved_change_keeps_everything_else_in_the_file(session, folder):
    session.set_radius("cash", 0.4)

    change = session.save_function({**OFFER, "words": ["cash", "offer"]}, "cash", replaces="cash")

    assert change.what == "votes of cash"
    old = '"spam", "cash", name'
    assert (folder / "lfs.py").read_text() == LFS.replace(old, '"spam", "cash", "offer", name')
    assert session.radii["cash"] == 0.4


def test_undo_puts_the_file_back_and_redo_forth(session, folder):
    session.save_function(OFFER, "offers")
    with_offers = (folder / "lfs.py").read_text()

    assert session.undo().what == "undo add offers"
    assert (folder / "lfs.py").read_text() == LFS
    assert session.sources == ("prize", "cash", "home", "near")
    assert session.reload() is None
    assert session.redo().what == "redo add offers"
    assert (folder / "lfs.py").read_text() == with_offers
    assert session.sources[-1] == "offers"
    assert session.reload() is None
    fresh = Session.open(folder)
    np.testing.assert_allclose(session.probabilities, fresh.probabilities, atol=1e-9)


def test_undo_leaves_a_file_alone_that_somebody_changed_since(session, folder):
    session.save_function(OFFER, "offers")
    theirs = (folder / "lfs.py").read_text() + "# theirs\n"
    (folder / "lfs.py").write_text(theirs)

    with pytest.raises(
        FileChanged, match="was changed since, so it is left as it is; change it th"
    ):
        session.undo()

    assert (folder / "lfs.py").read_text() == theirs
    assert session.sources[-1] == "offers"


def test_undo_does_not_bring_back_a_file_that_does_not_run(session, folder):
    (folder / "helper.py").write_text("WORD = 'offer'\n")
    text = LFS + "from helper import WORD\noffers = epoxy.keywords('spam', WORD, name='offers')\n"
    session.save_code(text, FunctionsFile.read(folder / "lfs.py").hash)
    session.save_code(LFS, FunctionsFile.read(folder / "lfs.py").hash)
    (folder / "helper.py").unlink()

    with pytest.raises(CodeError, match="No module named 'helper'"):
        session.undo()

    assert (folder / "lfs.py").read_text() == LFS


def test_code_that_does_not_run_is_not_saved(session, folder):
    with pytest.raises(CodeError, match="the draft fails on line 1: ModuleNotFoundError") as error:
        session.save_function(
            {"kind": "python", "code": "import nothere_\n" + code("1")["code"]}, "short"
        )
    with pytest.raises(UnknownName, match="is like row 'zz'"):
        session.save_function({"kind": "like", "label": "ham", "rows": ["zz"], "radius": 1}, "z")

    assert error.value.line == 1
    assert (folder / "lfs.py").read_text() == LFS


def test_an_editor_may_save_what_does_not_run_and_labels_stay(session, folder):
    labels = session.labels.tolist()

    with pytest.raises(CodeError, match=r"lfs\.py fails on line 8: SyntaxError") as error:
        session.save_code(LFS + "x = = 1\n", FunctionsFile.read(folder / "lfs.py").hash)

    assert error.value.line == 8
    assert (folder / "lfs.py").read_text().endswith("x = = 1\n")
    assert session.labels.tolist() == labels
    with pytest.raises(FileChanged, match="was changed since it was read, so nothing was written"):
        session.save_code(LFS, "another hash")
    assert session.save_code(LFS, FunctionsFile.read(folder / "lfs.py").hash) is None


def test_a_project_without_functions_opens_where_it_may_and_the_first_one_votes(folder):
    (folder / "lfs.py").write_text("import epoxy\n")

    session = Session.open(folder)  # some rows are labelled, and that is enough

    assert session.sources == ()
    assert not session.problem
    assert any("hand labels and vectors alone" in note for note in session.folder.notes)
    assert np.ptp(session.probabilities[:, 0]) > 0.1
    (folder / "lfs.py").write_text("import epoxy\n\n# still nothing\n")
    assert session.reload() is None  # as empty as before
    (folder / "lfs.py").write_text(LFS)
    session.reload()
    fresh = Session.open(folder)
    assert session.sources == fresh.sources
    np.testing.assert_allclose(session.probabilities, fresh.probabilities, atol=1e-6)
    (folder / "lfs.py").write_text("import epoxy\n")
    with pytest.raises(CodeError, match="defines no labeling functions"):
        session.reload()  # a file half written is no wish to lose all sources
    assert session.sources == fresh.sources


def test_a_project_whose_functions_all_fail_opens_where_it_may_and_says_why(folder):
    (folder / "lfs.py").write_text(
        "import epoxy\n\n@epoxy.labeling_function\ndef bad(row):\n    return 'eggs'\n"
    )
    with pytest.raises(epoxy.EpoxyError, match=r"no labeling function of .* could vote: .*eggs"):
        Session.open(folder)

    session = Session.open(folder, empty=True)

    assert session.sources == ()
    assert [each.name for each in session.folder.failures] == ["bad"]


def test_names_of_drafts_are_checked(drafting):
    assert "a source named 'cash' already; choose another name" in (
        drafting.draft(OFFER, name="cash").error.message
    )
    assert "no source named 'zz'" in drafting.draft(OFFER, replaces="zz").error.message
    assert "named by text, got ' '" in drafting.draft(OFFER, name=" ").error.message
