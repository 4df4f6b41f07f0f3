"""Every verb through the doors a page and a script use, on a server that runs."""

from __future__ import annotations

import io
import re
import time
from base64 import b64encode

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")
pytest.importorskip("watchfiles")
pytest.importorskip("httpx")

import epoxy
from epoxy.cli.demo import write_project
from epoxy.studio import marks, showing
from studio_client import Caller, Tab, messages, serving

N_ROWS = 160


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = messages(tmp_path_factory.mktemp("studio"))
    with serving(epoxy.Session.open(folder)) as made:
        yield made


@pytest.fixture(scope="module")
def call(studio):
    with Caller(studio.port, studio.token) as made:
        yield made


@pytest.fixture
def tab(call):
    with Tab(call) as made:
        yield made


@pytest.fixture(scope="module")
def session(studio):
    return studio.room.session


def test_state_says_what_the_session_says(call, session):
    state = call("state")

    assert state["classes"] == ["ham", "spam"]
    assert state["rows"] == {"total": N_ROWS, "train": 128, "dev": 32}
    assert state["project"]["text"] == "text"
    assert state["project"]["kind"] == "text"
    assert state["version"] == session.version
    names = [each["name"] for each in state["comparison"]]
    assert names == ["majority", "epoxy", "fusion"]
    accuracy = state["comparison"][2]["accuracy"]
    assert accuracy["value"] == pytest.approx(session.scores["accuracy"])
    assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]
    assert state["covered"]["own"] == pytest.approx(session.split().votes.covered.mean())
    assert state["covered"]["after"] == pytest.approx(session.votes.covered.mean())
    assert state["labelled"] == {"total": 32, "random": 0, "chosen": 0, "unknown": 32}


def test_positions_hold_two_numbers_a_row_within_the_square(call):
    head, data = call("positions")

    found = np.frombuffer(data, "<f4").reshape(-1, 2)
    assert head["total"] == len(found) == N_ROWS
    assert np.abs(found).max() <= 1
    assert len(np.unique(found, axis=0)) > N_ROWS / 2


@pytest.mark.parametrize("by", ["label", "uncertain", "hand", "novote", "draft"])
def test_colours_are_two_bytes_a_row(call, by):
    head, data = call("colour", by=by)

    assert head["by"] == by
    assert len(data) == 2 * N_ROWS


def test_colour_by_label_is_the_label_and_its_probability(call, session):
    _, data = call("colour", by="label")

    found = np.frombuffer(data, np.uint8).reshape(-1, 2)
    label = np.concatenate([session.labels, session.dev_labels])
    proba = np.concatenate([session.probabilities, session.dev_probabilities])
    np.testing.assert_array_equal(found[:, 0], label)
    sure = proba[np.arange(N_ROWS), label]
    np.testing.assert_allclose(found[:, 1] / 255, sure, atol=0.5 / 255 + 1e-9)


def test_colour_by_source_tells_own_votes_from_lent_ones(call, session):
    _, data = call("colour", by="source", source="prize")

    found = np.frombuffer(data, np.uint8).reshape(-1, 2)[:128]
    own = session.split().votes.matrix[:, session.sources.index("prize")]
    lent = session.votes.matrix[:, session.sources.index("prize")]
    np.testing.assert_array_equal(found[:, 1] == 1, own >= 0)
    np.testing.assert_array_equal(found[:, 1] == 2, (own < 0) & (lent >= 0))
    assert set(found[found[:, 1] > 0, 0]) == {1}
    assert set(found[found[:, 1] == 0, 0]) == {255}


def test_hand_labels_are_coloured_by_what_a_model_says_that_did_not_learn_from_them(call, session):
    _, data = call("colour", by="hand")

    found = np.frombuffer(data, np.uint8).reshape(-1, 2)
    assert (found[:128, 0] == 255).all()
    truth, said = session.split("dev").truth, session.outcome.held_out_labels
    np.testing.assert_array_equal(found[128:, 0], truth)
    np.testing.assert_array_equal(found[128:, 1], np.where(said == truth, 1, 2))


def test_sources_are_found_sorted_and_cut(call, session):
    every = call("sources")
    cut = call("sources", sort="coverage", descending=True, offset=1, limit=2)
    named = call("sources", find="PRI")

    assert [each["name"] for each in every["sources"]] == list(session.sources)
    order = sorted(every["sources"], key=lambda each: -each["coverage"])
    assert [each["name"] for each in cut["sources"]] == [each["name"] for each in order[1:3]]
    assert (named["total"], named["sources"][0]["name"]) == (1, "prize")


def test_a_line_of_the_table_is_what_the_report_says(call, session):
    line = next(each for each in call("sources")["sources"] if each["name"] == "home")

    dev = next(each for each in session.report("dev").rows if each["source"] == "home")
    train = next(each for each in session.report("train").rows if each["source"] == "home")
    assert line["own"] == pytest.approx(dev["accuracy_original"])
    assert line["lent"] == pytest.approx(dev["accuracy_extended"])
    assert line["coverage"] == pytest.approx(train["coverage"])
    assert line["extended"] == pytest.approx(train["coverage_extended"])
    assert line["conflicts"] == pytest.approx(128 * train["conflicts"])
    assert (line["kind"], line["classes"], line["on"]) == ("keywords", ["ham"], True)


def test_a_source_shows_its_form_its_code_and_its_curve(call, session):
    found = call("source", name="prize")

    assert found["definition"]["words"] == ["prize", "winner"]
    assert "epoxy.keywords" in found["code"]
    assert found["curve"] == session.curve("prize").to_dict()


def test_rows_are_found_by_words_filters_and_likeness(call):
    words = call("rows", find="prize", limit=500)
    like = call("rows", like=7, sort="like", limit=3)
    page = call("rows", offset=10, limit=5, sort="file")
    _, data = call("all_rows", find="prize")

    assert words["total"] == len(words["rows"]) > 0
    assert all("prize" in each["text"] for each in words["rows"])
    assert sorted(np.frombuffer(data, "<u4")) == sorted(each["row"] for each in words["rows"])
    assert like["total"] >= 3
    assert len(page["rows"]) == 5
    assert page["counts"]["all"] == N_ROWS
    assert page["counts"]["hand"] == 32


def test_a_row_comes_with_its_cells_and_its_votes(call, session):
    found = call("row", row=5)

    assert found["columns"]["text"] == found["text"]
    train = session.split()
    own = {
        session.sources[at]: session.classes[vote]
        for at, vote in enumerate(train.votes.matrix[5])
        if vote >= 0
    }
    assert {each["source"]: each["vote"] for each in found["votes"] if each["own"]} == own


def test_why_is_the_explanation_of_the_session(call, session):
    found = call("why", row=5)

    told = session.explain(session.split().ids[5])
    assert found["text"] == str(told)
    assert found["log_odds"] == pytest.approx(told.log_odds)
    total = found["start"] + sum(each["weight"] for each in found["voices"])
    assert total == pytest.approx(found["log_odds"])
    assert sum(each["weight"] for each in found["parts"]) == pytest.approx(found["log_odds"])
    assert [each["inUse"] for each in found["answers"]] == [False, False, True]


def test_what_the_model_calls_a_row_is_not_what_a_person_calls_it(tmp_path):
    """The label is the person's, and beside the other models stands what the model says."""
    session = epoxy.Session.open(messages(tmp_path))
    row = int(session.probabilities[:, 1].argmax())
    session.label(row, "ham", "train")

    found = showing.why(session, row, None)

    best = max(found.probabilities, key=found.probabilities.__getitem__)
    assert (found.label, found.truth, best) == ("ham", "ham", "spam")
    own = found.answers[-1]
    assert (own.label, own.p) == ("spam", found.probabilities["spam"])


def test_a_radius_is_tried_without_being_kept(call, tab, session):
    tab("colour", by="source", source="prize")
    version = session.version

    found = tab("try_radius", source="prize", radius=0.0, request=41)

    head, data = tab.until("marks")
    assert (head["request"], head["by"], session.version) == (41, "source", version)
    assert found["request"] == 41
    before, after = found["lentRows"]
    assert after < before
    assert len(found["lost"]) == min(5, before - after)
    shown = np.frombuffer(data, np.uint8)
    tab("drop")
    back, _ = tab.until("marks")
    assert len(shown)
    assert back["request"] == 0


def test_an_edit_is_answered_pushed_and_undone(call, tab, session):
    tab("colour", by="label")
    before = session.scores["accuracy"]

    change = tab("switch", source="prize", on=False)

    head, _ = tab.until("change")
    assert change["what"] == head["change"]["what"] == "off prize"
    assert head["state"]["undo"] == "off prize"
    assert session.switched_off == ("prize",)
    tab("undo")
    assert session.switched_off == ()
    assert session.scores["accuracy"] == before
    tab("redo")
    assert tab("undo")["what"] == "undo off prize"
    edits = call("history")["edits"]
    assert [
        each["undone"] for each in edits if each["what"] in ("off prize", "redo off prize")
    ] == [
        True,
        True,
    ]
    assert all(each["mine"] for each in edits)
    off = next(each for each in edits if each["what"] == "off prize")
    assert off["flipped"] == change["flipped"]
    assert set(off["scores"]) == {"majority", "epoxy", "fusion"}
    assert off["scores"]["fusion"] == change["after"]["accuracy"]


def test_marks_that_were_pushed_are_those_a_new_page_is_given(call, tab, session):
    _, data = tab("colour", by="label")
    shown = np.frombuffer(data, np.uint8).reshape(-1, 2).copy()

    for body in ({"row": 3, "label": "spam"}, {"row": 9, "label": "ham"}):
        tab("label", **body, chosen="random")
    tab("radius", source="cash", radius=0.3)

    while tab.pushed and any(head.get("type") == "marks" for head, _ in tab.pushed):
        head, data = tab.until("marks")
        if head["sparse"]:
            rows = np.frombuffer(data, "<u4", head["n"])
            shown[rows] = np.frombuffer(data, np.uint8, offset=4 * head["n"]).reshape(-1, 2)
        else:
            shown = np.frombuffer(data, np.uint8).reshape(-1, 2).copy()
    _, fresh = call("colour", by="label")
    np.testing.assert_array_equal(shown, np.frombuffer(fresh, np.uint8).reshape(-1, 2))
    for _ in range(3):
        tab("undo")


def test_sparse_marks_are_sent_only_where_they_are_smaller():
    before = np.zeros((100, 2), dtype=np.uint8)
    few, many = before.copy(), before.copy()
    few[[3, 50]] = 7
    many[:40] = 7

    sparse, n, data = marks.difference(before, few)
    whole = marks.difference(before, many)

    assert (sparse, n, len(data)) == (True, 2, 12)
    assert np.frombuffer(data, "<u4", 2).tolist() == [3, 50]
    assert (whole[0], whole[1], len(whole[2])) == (False, 100, 200)
    assert marks.difference(None, few)[0] is False


def test_two_pages_and_another_process_see_the_same(call, tab, session):
    with Tab(call) as second:
        second("colour", by="hand")
        tab("label", row=20, label="spam", chosen="random")
        seen, _ = second.until("change")
        assert seen["change"]["what"] == "label of m25" or "label of" in seen["change"]["what"]

        beside = epoxy.Session.open(session.folder.project.folder)
        assert beside.state.workspace.labels.y[0][20] == 1
        beside.label(beside.split().ids[21], "ham", chosen="random")

        told, _ = second.until(
            "change", lambda head: head["change"]["what"] == "edits by another process"
        )
        assert told["state"]["labelled"]["total"] == 34
        beside.undo()
        second.until("change", lambda head: head["state"]["labelled"]["total"] == 33)
    tab("undo")
    np.testing.assert_array_equal(session.state.workspace.labels.y[0], -1)


def test_next_rows_come_with_a_reason_and_can_be_labelled(call, session):
    rows = call("next", n=4)["rows"]

    assert len({each["row"] for each in rows}) == 4
    assert all(each["reason"] and each["chosen"] for each in rows)
    call("label", row=rows[0]["row"], label="ham", chosen=rows[0]["chosen"])
    again = call("next", n=4)["rows"]
    assert rows[0]["row"] not in {each["row"] for each in again}
    call("undo")
    skipped = [each["row"] for each in rows[1:]]
    others = {each["row"] for each in call("next", n=4, without=skipped)["rows"]}
    assert len(others) == 4
    assert not others & set(skipped)


def test_a_function_is_drafted_saved_seen_and_taken_back(call, tab, session):
    definition = {
        "kind": "keywords",
        "label": "ham",
        "words": ["meeting", "class"],
        "column": "text",
        "whole_words": True,
        "ignore_case": True,
    }
    path = session.folder.project.folder / "lfs.py"
    before = path.read_bytes()
    tab("colour", by="draft")

    draft = tab("draft", definition=definition, name="work")
    head, _ = tab.until("marks")
    saved = tab("save_function", definition=definition, name="work")

    assert draft["ok"]
    assert draft["rows"] > 0
    assert draft["code"] in path.read_text()
    assert head["by"] == "draft"
    assert saved["change"]["what"] == "add work"
    assert saved["name"] == "work"
    assert "work" in session.sources
    assert call("source", name="work")["definition"]["words"] == ["meeting", "class"]
    tab("undo")
    assert path.read_bytes() == before
    assert "work" not in session.sources


def test_a_draft_that_cannot_vote_says_why(call):
    found = call("draft", definition={"kind": "python", "code": "def f(row)\n    return None"})

    assert not found["ok"]
    assert found["error"]["line"] == 1
    assert found["comparison"] == found["before"]


def test_suggested_functions_are_those_of_the_session_and_can_be_drafted(call, session):
    found = call("suggest", n=2, label="ham")["suggestions"]

    assert [each["name"] for each in found] == [
        each.name for each in session.suggest(2, label="ham")
    ]
    for each in found:
        assert each["precision"]["low"] <= each["precision"]["value"] <= each["precision"]["high"]
        draft = call("draft", definition=each["definition"], name=each["name"])
        assert draft["rows"] == each["rows"]
    call("drop")


def test_a_radius_is_suggested_for_rows(call, session):
    assert call("suggest_radius", rows=[3, 5, 8])["radius"] == session.suggest_radius([3, 5, 8])


def test_another_editor_moves_labels_breaks_the_file_and_mends_it(call, tab, session):
    path = session.folder.project.folder / "lfs.py"
    good = path.read_text()

    path.write_text(good.replace('"cash", "award"', '"cash", "award", "offer"'))
    moved, _ = tab.until("change")
    path.write_text(good + "\ndef broken(:\n")
    # a file that is half written has an error too, of no line
    failed, _ = tab.until("functions", lambda head: (head["error"] or {}).get("line"))
    sources = call("state")["sources"]
    path.write_text(good)
    mended, _ = tab.until("functions", lambda head: not head["error"])

    assert moved["change"]["source"] == "cash"
    assert failed["error"]["line"] == good.count("\n") + 2
    assert sources == 6
    assert mended["failures"] == []


def test_the_editor_of_the_page_writes_the_same_file(call, session):
    path = session.folder.project.folder / "lfs.py"
    code = call("code")
    assert code["text"] == path.read_text()
    assert {"name": "claim", "kind": "regex"}.items() <= code["functions"][2].items()

    saved = call("save_code", text=code["text"] + "\n# mine\n", hash=code["hash"])
    late = call.post("save_code", {"text": "lost", "hash": code["hash"]})
    broken = call("save_code", text=code["text"] + "\nwrong(\n", hash=saved["hash"])
    mended = call("save_code", text=code["text"], hash=broken["hash"])

    assert saved["error"] is None
    assert late.status_code == 409
    assert late.json()["kind"] == "Conflict"
    assert late.json()["theirs"].endswith("# mine\n")
    assert late.json()["hash"] == saved["hash"]
    assert broken["error"]["line"]
    assert mended["error"] is None
    assert path.read_text() == code["text"]


def test_tuning_says_how_it_goes(tab, session):
    job = tab("tune")["job"]

    head, _ = tab.until("job", lambda head: head["state"] != "running")
    assert (head["job"], head["state"]) == (job, "done")
    assert "every radius stays as it is" in head["message"]


def test_an_export_is_the_file_that_label_writes(call, session):
    found = call("export", kind="parquet")
    got = call.http.get(found["url"])

    session.folder.project.labels.joinpath("labels.parquet").rename(
        session.folder.project.folder / "page.parquet"
    )
    epoxy.Session.open(session.folder.project.folder).export(
        session.folder.project.labels / "labels.parquet"
    )
    page = pq.read_table(session.folder.project.folder / "page.parquet")
    assert page == pq.read_table(session.folder.project.labels / "labels.parquet")
    assert got.content == (session.folder.project.folder / "page.parquet").read_bytes()


def test_a_selection_is_kept_and_checked(call, tab, studio):
    tab("select", rows=[5, 3, 5])

    assert studio.room.pages[-1].selection.tolist() == [3, 5]
    assert "numbered from 0" in call.error("select", rows=[100_000])["message"]


def test_a_large_selection_is_told_once_as_bits_and_asked_for_by_name(call, tab, studio):
    chosen = np.zeros(N_ROWS, dtype=bool)
    chosen[[2, 9, 40, 159]] = True
    bits = b64encode(np.packbits(chosen, bitorder="little")).decode()

    tab("select", bits=bits)

    assert studio.room.pages[-1].selection.tolist() == [2, 9, 40, 159]
    found = tab("rows", selection="mine", sort="file")
    assert [line["row"] for line in found["rows"]] == [2, 9, 40, 159]
    assert "numbered from 0" in call.error("select", bits="/" * 400)["message"]
    assert "no base64" in call.error("select", bits="é?")["message"]


@pytest.mark.parametrize(
    ("verb", "body", "words"),
    [
        ("state", {"more": 1}, "more"),
        ("label", {"row": 1}, "label"),
        ("label", {"row": "1", "label": None}, "row"),
        ("label", {"row": True, "label": None}, "row"),
        ("label", {"row": -1, "label": None}, "row"),
        ("label", {"row": 1, "label": "eggs"}, "class.*'eggs'"),
        ("label", {"row": 10**6, "label": "ham"}, "numbered from 0"),
        ("label_rows", {"rows": [], "label": "ham"}, "at once"),
        ("radius", {"source": "prize", "radius": "far"}, "radius"),
        ("radius", {"source": "prize", "radius": -1}, "radius"),
        ("radius", {"source": "no", "radius": 1}, "source.*'no'"),
        ("colour", {"by": "mood"}, "mood"),
        ("colour", {"by": "source"}, "source"),
        ("rows", {"find": 5}, "find"),
        ("rows", {"selection": "all"}, "selection"),
        ("rows", {"selection": [1, True]}, "selection"),
        ("rows", {"selection": [1, 2.5]}, "selection"),
        ("rows", {"selection": [1, -1]}, "selection"),
        ("rows", {"label": "eggs"}, "class.*'eggs'"),
        ("rows", {"find": "\ud800"}, "JSON"),
        ("rows", {"filter": "near"}, "about one source"),
        ("draft", {"definition": {"kind": "magic"}}, "magic"),
        ("draft", {"definition": {"kind": "regex", "label": "ham"}}, "pattern"),
        ("note", {"label": "eggs", "text": ""}, "class.*'eggs'"),
        ("cancel", {"job": 99}, "job.*99"),
        ("nothing", {}, "verb.*nothing"),
        ("rows", [], "object"),
    ],
)
def test_a_wrong_request_is_refused_in_words(call, verb, body, words):
    answer = call.post(verb, body)

    assert answer.status_code == 400
    assert re.search(words, answer.json()["message"]), answer.json()


def test_nothing_to_undo_is_an_error_in_words(tmp_path):
    session = epoxy.Session.open(messages(tmp_path))
    with serving(session) as studio, Caller(studio.port, studio.token) as call:
        assert "no edit to undo" in call.error("undo")["message"]


def test_digits_are_shown_as_pictures(tmp_path):
    folder = write_project(epoxy.datasets.load("digits"), tmp_path / "digits")
    session = epoxy.Session.open(folder)
    with serving(session) as studio, Caller(studio.port, studio.token) as call:
        got = call.http.get("/api/image/3?size=64")
        line = call("row", row=3)
        columns = call("state")["project"]["columns"]
        lent = [each for each in call("why", row=3)["voices"] if each["lender"] is not None]
        like = {"kind": "like", "label": "6", "rows": [line["id"]], "radius": 0.2}
        draft = call("draft", definition=like)

    told = [each["lenderText"] for each in lent]  # named, and not by their pixels
    assert told == [
        f"row {session.state.names.name(session.place(each['lender']))[1]}" for each in lent
    ]
    assert told
    assert draft["examples"]
    assert all(re.fullmatch(r"row digit-\d+", each["text"]) for each in draft["examples"])
    assert columns == ["id", "label"]  # the others hold numbers, in which no words are found
    assert got.headers["content-type"] == "image/png"
    assert got.content.startswith(b"\x89PNG")
    assert line["image"]
    assert "pixels" not in line["text"]
    shown = np.asarray(Image.open(io.BytesIO(got.content)))
    assert shown.shape == (64, 64)
    drawn = session.folder.rows.tables[0].column("pixels")[3].as_py()
    np.testing.assert_array_equal(shown[::8, ::8], np.array(drawn).reshape(8, 8) * 255 // 16)


def test_a_session_without_vectors_has_no_map(tmp_path):
    session = epoxy.Session.open(messages(tmp_path, encoder="none"))
    with serving(session) as studio, Caller(studio.port, studio.token) as call:
        assert call("state")["picture"]["kind"] == "none"
        assert call("positions")[0]["kind"] == "none"
        assert call("source", name="prize")["curve"] is None


def test_the_doctor_has_looked_before_a_page_is_opened_and_says_when_he_has_not_yet(tmp_path):
    folder = messages(tmp_path)
    with serving(epoxy.Session.open(folder)) as studio:
        room = studio.room
        assert not room.pages
        _until(lambda: room.examined)
        expected = [str(each) for each in room.session.report().findings]
        with Caller(studio.port, studio.token) as call:
            state = call("state")
            assert [each["text"] for each in state["findings"]] == expected
            assert state["examined"] is True
            with room.session.lock:  # he waits for it
                room.session.set_radius("prize", 0.1)
                assert room.examined is False
            _until(lambda: room.examined)


def _until(wanted, seconds=60.0):
    end = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_reason_names_who_lent_by_text_or_by_id_and_never_by_number(call, session):
    for number in range(N_ROWS):
        for voice in call("why", row=number)["voices"]:
            if voice["lender"] is not None:
                assert voice["lenderText"] == session.text(voice["lender"])[:400]
                return
    pytest.fail("nobody lends")
