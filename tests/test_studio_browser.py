"""The studio as a person uses it: a real Chromium on the built page, over a server that runs."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")
pytest.importorskip("watchfiles")
pytest.importorskip("httpx")
pytest.importorskip("playwright", reason="playwright is not installed")

import numpy as np
from msgspec.structs import replace
from playwright.sync_api import sync_playwright

import epoxy
from epoxy.cli import main
from epoxy.project.create import new_project
from epoxy.studio.app import is_built
from epoxy.suggest.search import RowQuery
from studio_client import serving
from test_one_room import WORDS, write_messages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
HOSTILE = "<img src=x onerror=window.hurt=1> prize <script>window.hurt=1</script>"
LFS = """
import epoxy

prize = epoxy.keywords("spam", "prize", "winner", name="prize")
cash = epoxy.keywords("spam", "cash", name="cash")  # money
home = epoxy.keywords("ham", "home", "dinner", name="home")


@epoxy.labeling_function
def friendly(row):
    return "ham" if "friend" in row.text else None
"""
N_ROWS = 201
MARKED_LINES = """(gutters) => {
    const shown = (what) => [...gutters.querySelectorAll(what)].map((each) => {
        const box = each.getBoundingClientRect();
        return {middle: (box.top + box.bottom) / 2, height: box.height, text: each.textContent};
    });
    const numbers = shown(".cm-lineNumbers .cm-gutterElement").filter(({height}) => height);
    return shown(".cm-lint-marker-error").map((mark) =>
        numbers.find(({middle}) => Math.abs(middle - mark.middle) < 10)?.text);
}"""
"""The numbers of the lines that marks of errors stand beside, read in one go: the editor draws its
margin anew whenever it likes."""
LOST = 3
"""The second byte of a row's mark where a source that is tried no longer lends to it."""

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not is_built(), reason="the page is not built: make web"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    rows = write_messages(folder / "rows.csv", N_ROWS - 1, 40)
    with rows.open("a") as file:
        file.write(f'hostile,"{HOSTILE}",\n')
    new_project(folder / "project", rows, options={"positive": "spam"}, lfs=LFS)
    return folder / "project"


@pytest.fixture(scope="module")
def studio(project):
    with serving(epoxy.Session.open(project)) as made:
        yield made


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as run:
        made = run.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def context(browser, studio):
    made = browser.new_context(viewport={"width": 1280, "height": 720})
    first = made.new_page()
    first.goto(f"http://127.0.0.1:{studio.port}/?token={studio.keys.new()}")  # becomes a cookie
    first.close()
    return made


@pytest.fixture
def screen(context, studio):
    with Screen(context, studio) as made:
        yield made


class Screen:
    """One tab, and what a person sees and does in it; what went wrong in it is told at its end."""

    def __init__(self, context, studio, fragment: str = "") -> None:
        self.page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(f"http://127.0.0.1:{studio.port}/{fragment}")
        self.settled()

    def _heard(self, message) -> None:
        if message.type in ("error", "warning") and "GPU stall" not in message.text:
            self.wrong.append(message.text)

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, kind, *_) -> None:
        refused = self.page.evaluate("window.__csp")
        self.page.close()
        if kind is None:
            assert self.wrong == []
            assert refused == 0

    def __getitem__(self, name: str):
        return self.page.get_by_test_id(name)

    def settled(self) -> None:
        """Wait until the map is painted."""
        self.until(lambda: self.page.evaluate("window.__epoxy?.frames ?? 0") > 0)
        self.page.evaluate("window.__epoxy.painted.then(() => null)")

    def until(self, wanted, seconds: float = 60):
        """What `wanted` gives as soon as it is true."""
        end = time.monotonic() + seconds
        while not (found := wanted()):
            assert time.monotonic() < end, f"not seen within {seconds:g} s"
            time.sleep(0.02)
        return found

    def says(self, name: str, words: str) -> None:
        """Wait until an element has words in it."""
        shown = self[name]
        self.until(lambda: shown.count() and words in (shown.first.inner_text() or ""))

    def marks(self) -> list[list[int]]:
        return self.page.evaluate(f"Array.from({{length: {N_ROWS}}}, (_, r) => __epoxy.mark(r))")

    def still(self) -> list[list[int]]:
        """The marks of the map once they rest."""
        last, since = self.marks(), time.monotonic()
        while time.monotonic() - since < 0.4:
            time.sleep(0.05)
            if (now := self.marks()) != last:
                last, since = now, time.monotonic()
        return last

    def shows(self, name: str) -> list[str]:
        """The texts of the elements whose names begin so."""
        found = self.page.locator(f'[data-testid^="{name}"]')
        return found.evaluate_all("all => all.map(each => each.innerText)")

    def hand_labels(self) -> int:
        return int(re.search(r"(\d+) hand label", self["bar"].inner_text()).group(1))

    def lasso_around(self, rows: list[int], margin: float = 3) -> None:
        """Draw a box around where rows stand on the map."""
        places = [self.page.evaluate("row => __epoxy.place(row)", row) for row in rows]
        (left, right), (top, bottom) = (
            (min(each) - margin, max(each) + margin) for each in zip(*places)
        )
        mouse = self.page.mouse
        self["lasso"].click()
        mouse.move(left, top)
        mouse.down()
        for x, y in ((right, top), (right, bottom), (left, bottom), (left, top)):
            mouse.move(x, y, steps=3)
        mouse.up()


def file_of(project: Path) -> Path:
    return project / "lfs.py"


@pytest.fixture
def kept(project, screen):
    """lfs.py, put back as it was, with the page following."""
    path = file_of(project)
    text = path.read_text("utf-8")
    yield path
    path.write_text(text, "utf-8")
    own = set(re.findall(r'name="(\w+)"', text)) | {"friendly"}
    screen.until(lambda: names(screen) == own)


def names(screen: Screen) -> set[str]:
    found = screen.page.locator('[data-testid="source-list"] [data-testid^="source-"]')
    return {
        each.removeprefix("source-")
        for each in found.evaluate_all("all => all.map(e => e.dataset.testid)")
    }


def test_the_address_with_its_token_opens_a_painted_map(browser, studio):
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    with Screen(context, studio, f"?token={studio.keys.new()}") as screen:
        assert "token" not in screen.page.url
        assert screen["bar"].inner_text().count(f"{N_ROWS} rows") == 1
        # colours follow the first frame: both classes, sure and unsure
        screen.until(lambda: len({tuple(each) for each in screen.marks()}) > 2)
        screen.page.evaluate("__epoxy.repaint()")
        painted = screen["canvas"].screenshot()
        screen.page.locator("canvas").evaluate("canvas => (canvas.style.visibility = 'hidden')")
        bare = screen["canvas"].screenshot()
        assert len(painted) > 1.5 * len(bare)  # points, which compress badly
        for tab in (
            "rows",
            "label",
            "code",
            "history",
        ):  # one line of tools, also beside a wide panel
            screen[f"tab-{tab}"].click()
            zoom = screen.page.get_by_role("group", name="Zoom").bounding_box()
            colours = screen.page.get_by_role("radiogroup", name="Colour by").bounding_box()
            assert zoom["y"] == colours["y"]
    context.close()


def test_a_keyword_function_is_previewed_and_saved_from_the_form(screen, kept):
    own = re.compile(r"Rows with a vote\s*([\d.]+) %")
    covered = float(own.search(screen["scores"].inner_text()).group(1))
    before = kept.read_text("utf-8")

    screen["new"].click()
    screen["words"].fill("tomorrow, meeting")
    screen["class-ham"].click()
    screen.says("draft-effect", "Covers")
    assert kept.read_text("utf-8") == before  # a preview keeps nothing
    previewed = int(screen["draft-rows"].inner_text().split()[0])
    screen["save-function"].click()

    screen.until(lambda: "tomorrow_meeting" in names(screen))
    after = kept.read_text("utf-8")
    assert after.startswith(before)
    added = 'tomorrow_meeting = epoxy.keywords("ham", "tomorrow", "meeting"'
    assert added in after.removeprefix(before)
    texts = [text for text in rows_of(kept) if re.search(r"\b(tomorrow|meeting)\b", text)]
    assert previewed == len(texts)
    screen.until(lambda: float(own.search(screen["scores"].inner_text()).group(1)) > covered)


def test_a_suggested_function_fills_the_form_and_is_saved_from_there(screen, kept):
    before = kept.read_text("utf-8")

    screen["new"].click()
    screen["class-ham"].click()
    screen["suggest"].click()
    screen.page.locator('[data-testid="suggestion"] .take').first.click()
    screen.says("draft-effect", "Covers")
    assert kept.read_text("utf-8") == before
    name = screen["draft-name"].input_value()
    screen["save-function"].click()

    screen.until(lambda: name in names(screen))
    assert name in kept.read_text("utf-8").removeprefix(before)


def rows_of(path: Path) -> list[str]:
    """The texts of train rows, those without a label."""
    lines = (path.parent.parent / "rows.csv").read_text().splitlines()[1:-1]
    return [each.split(",")[1] for each in lines if each.endswith(",")] + [HOSTILE]


def test_a_save_in_another_program_is_followed_and_an_error_stands_at_its_line(screen, kept):
    text = kept.read_text("utf-8")
    screen["tab-code"].click()
    screen.until(lambda: screen.page.locator(".cm-content").count())

    kept.write_text(text + '\nmeet = epoxy.keywords("ham", "meeting", name="meet")\n', "utf-8")
    screen.until(lambda: "meet" in names(screen))
    screen.until(lambda: 'name="meet"' in screen.page.locator(".cm-content").inner_text())
    labels = screen.marks()

    broken = text + "\ndef late(row:\n    return None\n"
    line = broken.splitlines().index("def late(row:") + 1
    kept.write_text(broken, "utf-8")
    screen.says("code-error", "lfs.py")
    assert f"line {line}" in screen["code-error"].inner_text().lower()
    marked = screen.page.locator(".cm-lint-marker-error")
    screen.until(lambda: marked.count() == 1)
    gutters = screen.page.locator(".cm-gutters")
    screen.until(lambda: gutters.evaluate(MARKED_LINES) == [str(line)])
    assert screen.marks() == labels  # the last good state stays
    assert "meet" in names(screen)

    kept.write_text(text, "utf-8")
    screen.until(lambda: screen["code-error"].count() == 0 and marked.count() == 0)
    screen.until(lambda: "meet" not in names(screen))


def test_a_radius_is_tried_while_dragged_kept_by_enter_and_dropped_by_escape(screen, project):
    screen["source-prize"].click()
    slider = screen["radius-slider"]
    slider.wait_for()
    assert float(screen["weight"].inner_text()) > 1  # what its vote makes of the odds
    screen.until(lambda: screen["by-source"].get_attribute("aria-checked") == "true")
    screen.page.evaluate("__epoxy.painted.then(() => null)")
    at_first, box = screen.marks(), slider.bounding_box()
    y = box["y"] + box["height"] / 2

    def drag(start: float, end: float) -> None:
        screen.page.mouse.move(box["x"] + start * box["width"], y)
        screen.page.mouse.down()
        screen.page.mouse.move(box["x"] + end * box["width"], y, steps=8)
        screen.page.mouse.up()

    drag(0.5, 0.03)
    screen["trial-flipped"].wait_for()
    screen.until(lambda: screen.marks() != at_first)
    tried = screen.still()
    assert any(
        kind == LOST for _, kind in tried
    )  # what is no longer lent is shown while it is tried
    small = [[255, 0] if mark[1] == LOST else mark for mark in tried]
    screen.page.keyboard.press("Escape")
    screen.until(lambda: screen.marks() == at_first)

    drag(0.5, 0.03)
    screen.until(lambda: screen.marks() == tried)
    screen.page.keyboard.press("Enter")
    screen.until(lambda: screen["keep"].count() == 0)
    screen.says("last-edit", "prize")
    screen.until(lambda: screen.marks() == small)
    kept = epoxy.Session.open(project).radii["prize"]
    assert 0 <= kept < 0.3

    screen["undo"].click()
    screen.until(lambda: screen.marks() == at_first)
    screen["redo"].click()
    screen.until(lambda: screen.marks() == small)
    assert epoxy.Session.open(project).radii["prize"] == kept
    screen["undo"].click()
    screen.until(lambda: screen.marks() == at_first)


def test_rows_in_a_lasso_become_exemplars_and_are_saved_as_code(screen, kept):
    screen.lasso_around([0, 1])
    screen["selection"].wait_for()
    chosen = int(screen["selection"].inner_text().split()[0])
    assert chosen >= 2
    screen["more-like"].click()
    screen["draft-effect"].wait_for()
    screen["class-spam"].click()
    screen["draft-name"].fill("like_these")
    screen.until(lambda: screen["save-function"].is_enabled())
    screen["save-function"].click()

    screen.until(lambda: "like_these" in names(screen))
    text = kept.read_text("utf-8")
    written = re.search(r"like_these = epoxy\.like\((.*?)\n?\)\n", text, re.DOTALL).group(1)
    assert written.count('"m') == min(chosen, 40)
    assert "radius=" in written


def test_rows_are_labelled_by_digits_and_scores_follow(screen, project):
    count = screen.hand_labels()
    scored = screen["scores"].inner_text()
    screen.page.keyboard.press("n")
    given = []
    for done in range(10):
        text = screen["to-label"].inner_text()
        spam = sum(word in WORDS["spam"] for word in text.split())
        ham = sum(word in WORDS["ham"] for word in text.split())
        given.append((text, "spam" if spam > ham else "ham"))
        screen.page.keyboard.press("2" if spam > ham else "1")
        screen.until(lambda done=done: screen.hand_labels() == count + done + 1)
        screen.until(lambda text=text: screen["to-label"].inner_text() != text)

    screen.until(lambda: screen["scores"].inner_text() != scored)
    session = epoxy.Session.open(project)
    labels = session.state.workspace.labels
    train = {session.text(row): int(labels.y[0][row]) for row in range(session.split().n_rows)}
    assert [session.classes[train[text]] for text, _ in given] == [label for _, label in given]
    screen.page.keyboard.press("u")
    screen.until(lambda: screen.hand_labels() == count + 9)
    assert screen["to-label"].inner_text() == given[-1][0]

    screen.page.reload()
    screen.settled()
    assert screen.hand_labels() == count + 9
    screen["tab-history"].click()
    edits = screen.page.locator('[data-testid^="edit-"]')
    screen.until(edits.count)
    undone = edits.first.inner_text().split("\t")
    assert "undo" in undone[1]
    assert undone[2] == "you"
    accuracy = [float(each) for each in undone if re.fullmatch(r"[01]\.\d{3}", each)]
    assert accuracy == [pytest.approx(epoxy.Session.open(project).scores["accuracy"], abs=6e-4)]


def test_a_second_tab_follows_what_the_first_decides(screen, context, studio):
    with Screen(context, studio) as other:
        count = screen.hand_labels()
        place = screen.page.evaluate("__epoxy.place(5)")
        screen.page.mouse.click(*place)
        screen.page.keyboard.press("w")
        screen["why"].wait_for()
        screen["give-ham"].click()
        other.until(lambda: other.hand_labels() == screen.hand_labels() == count + 1)
        other.until(lambda: other.marks() == screen.marks())
        other["undo"].click()
        screen.until(lambda: screen.hand_labels() == count)
        screen.until(lambda: other.marks() == screen.marks())


def test_what_another_session_decides_is_followed_and_told_as_its(screen, project):
    count = screen.hand_labels()
    session = epoxy.Session.open(project)
    session.label(session.split().ids[8], "ham")

    screen.until(lambda: screen.hand_labels() == count + 1)
    screen["tab-history"].click()
    edits = screen.page.locator('[data-testid^="edit-"]')
    screen.until(edits.count)
    assert edits.first.inner_text().split("\t")[2] == "another session"


@pytest.mark.slow
def test_a_tab_beside_epoxy_watch_agrees_with_it(screen, kept, project):
    text = kept.read_text("utf-8")
    command = [sys.executable, "-u", "-m", "epoxy", "watch", str(project)]
    wide = os.environ | {"COLUMNS": "200"}  # a score is not broken from its name
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=wide) as watch:
        try:
            said = lines_until(watch, "of rows with a vote")
            count = screen.hand_labels()
            screen.page.keyboard.press("n")
            screen["to-label"].wait_for()
            screen.page.keyboard.press("1")
            screen.until(lambda: screen.hand_labels() == count + 1)
            said = lines_until(watch, "of rows with a vote")
            assert any("another session: label of" in line for line in said)
            screen["undo"].click()
            screen.until(lambda: screen.hand_labels() == count)
            said = lines_until(watch, "of rows with a vote")
            assert any("another session: undo label of" in line for line in said)

            kept.write_text(
                text + '\nmeet = epoxy.keywords("ham", "meeting", name="meet")\n', "utf-8"
            )
            screen.until(lambda: "meet" in names(screen))
            said = lines_until(watch, "5 functions")
            screen.until(lambda: screen["covered-after"].inner_text().replace(" ", "") in said[-1])
            accuracy = re.search(r"accuracy (\d\.\d+)", said[-1]).group(1)
            screen.says("score-fusion", accuracy[:5])
        finally:
            watch.kill()


def lines_until(process: subprocess.Popen, words: str) -> list[str]:
    """What a process says up to a line with these words."""
    said: list[str] = []
    while not said or words not in said[-1]:
        said.append(process.stdout.readline())
        assert said[-1], said
    return said


def test_a_link_brings_back_what_was_looked_at(screen):
    screen["source-cash"].click()
    screen["radius-slider"].wait_for()
    screen.page.reload()
    screen.settled()
    screen.says("source-panel", "cash")
    assert screen["by-source"].get_attribute("aria-checked") == "true"


def test_the_export_is_the_file_that_epoxy_label_writes(screen, project):
    screen["export"].click()
    with screen.page.expect_download() as waiting:
        screen["export-parquet"].click()
    exported = Path(waiting.value.path()).read_bytes()

    written = project / "labels" / "labels.parquet"
    written.unlink()
    assert main(["label", str(project)]) == 0
    assert written.read_bytes() == exported


def test_at_200_percent_every_part_is_reached_by_scrolling(screen):
    screen.page.set_viewport_size({"width": 640, "height": 360})  # 1280 × 720, twice as large

    screen.until(lambda: screen["panel"].bounding_box()["height"] > 400)
    assert screen["map"].bounding_box()["height"] >= 240
    for name in ("rows", "why", "label", "code", "history", "sources"):
        screen[f"tab-{name}"].click()
    panel = screen["panel"]
    panel.get_by_test_id("find-source").fill("prize")
    screen.until(lambda: "cash" not in panel.get_by_test_id("source-list").inner_text())
    screen["status"].scroll_into_view_if_needed()
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= 640


def test_text_of_a_row_is_shown_as_text(screen):
    screen["find-rows"].fill("onerror")
    screen.until(lambda: screen["row-total"].inner_text() == "1 row")  # "201 rows" holds that too
    screen.says("row-list", HOSTILE)
    screen.page.locator('[data-testid^="row-"][role="button"]').first.click()
    screen.page.keyboard.press("w")
    screen.says("why", HOSTILE)
    assert screen.page.evaluate("window.hurt ?? null") is None
    assert screen.page.locator("img").count() == 0


def test_a_pattern_is_refused_in_words_until_it_parses_and_then_saved(screen, kept):
    screen["new"].click()
    screen["kind-regex"].click()
    screen["pattern"].fill("(meeting|class")
    screen["class-ham"].click()
    screen.says("draft-error", "(meeting|class")
    assert screen["save-function"].is_disabled()

    screen["pattern"].fill(r"\b(meeting|class)\b")
    screen.says("draft-effect", "Covers")
    texts = [text for text in rows_of(kept) if re.search(r"\b(meeting|class)\b", text)]
    screen.says("draft-rows", f"{len(texts)} rows")
    screen["draft-name"].fill("work")
    screen.page.keyboard.press("Control+Enter")

    screen.until(lambda: "work" in names(screen))
    assert r'work = epoxy.regex("ham", r"(?i)\b(meeting|class)\b"' in kept.read_text("utf-8")
    screen["change-function"].click()  # and the form shows it again
    assert screen["pattern"].input_value() == r"\b(meeting|class)\b"
    screen["drop-draft"].click()


def test_a_word_selected_in_a_row_begins_a_keyword_function(screen, kept):
    text = kept.read_text("utf-8")
    screen["find-rows"].fill("tomorrow")
    lines = (kept.parent.parent / "rows.csv").read_text().splitlines()
    screen.says("row-total", f"{sum('tomorrow' in each for each in lines)} rows")
    screen.until(lambda: all("tomorrow" in each for each in screen.shows("row-") if "\n" in each))
    screen[listed(screen)[0]].dblclick()
    screen.says("why", "tomorrow")
    place = screen.page.evaluate(
        """() => {
            const cell = [...document.querySelectorAll("[data-row]")]
                .find(each => each.innerText.includes("tomorrow"));
            const range = document.createRange(), at = cell.innerText.indexOf("tomorrow");
            range.setStart(cell.firstChild, at);
            range.setEnd(cell.firstChild, at + 8);
            const box = range.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }"""
    )
    screen.page.mouse.dblclick(*place)  # selects the word
    screen.says("word-bar", "tomorrow")
    screen["word-function"].click()

    assert screen["words"].input_value() == "tomorrow"
    screen["class-ham"].click()
    screen.says("draft-effect", "Covers")
    holding = [each for each in rows_of(kept) if re.search(r"\btomorrow\b", each)]
    screen.says("draft-rows", f"{len(holding)} rows")
    assert screen["save-function"].is_enabled()
    screen.page.keyboard.press("Escape")
    screen.until(lambda: screen["draft"].count() == 0)
    assert kept.read_text("utf-8") == text


def typed(screen: Screen, words: str) -> None:
    """Write at the end of the editor."""
    screen["tab-code"].click()
    content = screen.page.locator(".cm-content")
    content.wait_for()
    content.click()
    screen.page.keyboard.press("Control+End")
    screen.page.keyboard.type(words)


def test_code_changed_here_and_elsewhere_is_refused_in_words_and_nothing_is_lost(screen, kept):
    text = kept.read_text("utf-8")
    content = screen.page.locator(".cm-content")
    typed(screen, "# mine")
    screen.says("status", "Code not saved")
    screen["tab-rows"].click()  # what is not saved outlasts another tab
    screen["tab-code"].click()
    screen.until(lambda: content.count() and "# mine" in content.inner_text())

    kept.write_text(text + "\n# theirs\n", "utf-8")
    screen.says("conflict", "lfs.py was changed elsewhere")
    screen["save-code"].click()
    screen.says("conflict", "Your changes here are not saved")
    assert kept.read_text("utf-8") == text + "\n# theirs\n"
    assert "# mine" in content.inner_text()
    screen["take-theirs"].click()
    screen.until(lambda: "# theirs" in content.inner_text())

    typed(screen, "# mine again")
    kept.write_text(text + "\n# theirs too\n", "utf-8")
    screen["conflict"].wait_for()
    screen["keep-mine"].click()
    screen.until(lambda: "# mine again" in kept.read_text("utf-8"))
    screen.until(lambda: screen["conflict"].count() == 0)
    screen.says("status", "All saved")


def test_filters_show_the_rows_that_the_session_finds(screen, studio):
    session = studio.room.session
    screen["source-prize"].click()
    screen["source-panel"].wait_for()
    screen["tab-rows"].click()
    kinds = ("uncertain", "conflict", "novote", "wrong", "hand", "voted", "near", "all")
    for kind in kinds:
        by = "distance" if kind == "near" else None
        found = session.browse(RowQuery(filter=kind, source="prize", sort=by))
        screen[f"filter-{kind}"].click()
        screen.says("row-total", f"{len(found)} row")
        shown = screen[f"filter-{kind}"].inner_text().split()
        assert shown[-1] == str(len(found))
        if len(found):
            first = {f"row-{each}" for each in found.rows[: 3 if kind == "near" else None]}
            every = {f"row-{each}" for each in found.rows}
            screen.until(  # the rows of the filter before stand until those of this one are there
                lambda first=first, every=every: (
                    first & (now := set(listed(screen))) and now <= every
                )
            )
    screen["filter-hand"].click()
    screen["filter-hand"].focus()
    screen.page.keyboard.press("ArrowLeft")  # by keyboard
    assert screen["filter-wrong"].get_attribute("aria-checked") == "true"


def listed(screen: Screen) -> list[str]:
    """Names of the rows in the list."""
    found = screen.page.locator('[data-testid="row-list"] [data-testid^="row-"]')
    return found.evaluate_all("all => all.map(each => each.dataset.testid)")


def test_rows_like_one_come_nearest_first_and_a_link_brings_them_back(screen, context, studio):
    session = studio.room.session
    row = int(screen.until(lambda: listed(screen))[0][4:])
    screen[f"row-{row}"].click()
    nearest = session.browse(RowQuery(like=row)).rows[:5].tolist()
    screen.page.keyboard.press("w")
    screen["like-this"].click()

    screen.says("chip-like", session.text(row)[:12])
    screen.until(lambda: listed(screen)[:5] == [f"row-{each}" for each in nearest])
    screen.until(lambda: f"like={row}" in screen.page.url)
    with Screen(context, studio, screen.page.url[screen.page.url.index("#") :]) as other:
        other.says("chip-like", session.text(row)[:12])
        other.until(lambda: listed(other)[:5] == [f"row-{each}" for each in nearest])
        other["chip-like"].click()
        other.says("row-total", f"{N_ROWS} rows")


def test_a_link_that_leads_astray_is_followed_as_far_as_it_goes(context, studio):
    wrong = "#tab=%3Cscript%3E&colour=source&source=..%2F..%2Fetc&row=99999999&like=88888888"
    with Screen(
        context, studio, f"{wrong}&find=%3Cimg+src=x+onerror=window.hurt=1%3E&at=999"
    ) as screen:
        screen.says("message", "not here: row 99999999, row 88888888, source ../../etc")
        screen.says("row-total", "1 row")
        assert screen["by-label"].get_attribute("aria-checked") == "true"
        assert screen["find-rows"].input_value() == "<img src=x onerror=window.hurt=1>"
        assert screen.page.evaluate("window.hurt ?? null") is None


def vivid(screen: Screen, rows: list[int]) -> list[int]:
    """How far from grey the map is where rows stand: the largest difference of channels."""
    from PIL import Image

    screen.page.evaluate("__epoxy.repaint()")
    canvas = screen["canvas"]
    box = canvas.bounding_box()
    picture = np.asarray(Image.open(io.BytesIO(canvas.screenshot())).convert("RGB")).astype(int)
    found = []
    for row in rows:
        x, y = screen.page.evaluate("row => __epoxy.place(row)", row)
        part = picture[int(y - box["y"]) - 1 :, int(x - box["x"]) - 1 :][:3, :3]
        found.append(int(np.ptp(part, axis=2).max()))
    return found


def test_a_selection_dims_the_rest_and_outlasts_a_recolour(screen):
    places = [screen.page.evaluate("row => __epoxy.place(row)", row) for row in range(N_ROWS)]
    ends = [min(range(N_ROWS), key=lambda row: places[row][0])]
    ends.append(max(range(N_ROWS), key=lambda row: places[row][0]))
    assert min(vivid(screen, ends)) > 60

    screen.lasso_around(ends[:1])
    screen["selection"].wait_for()
    chosen = screen["selection"].inner_text().split()[0]
    inside, outside = vivid(screen, ends)
    assert inside > 60 > outside
    assert screen["chip-selection"].inner_text().split() == ["Selection", chosen]
    screen["by-uncertain"].click()
    screen["by-label"].click()
    screen.until(lambda: screen["by-label"].get_attribute("aria-checked") == "true")
    assert screen["selection"].inner_text().split()[0] == chosen
    inside, outside = vivid(screen, ends)
    assert inside > 60 > outside
    screen.page.keyboard.press("x")
    screen.until(lambda: screen["selection"].count() == 0)
    assert min(vivid(screen, ends)) > 60


def test_regions_carry_their_names(screen, studio):
    regions = [{"x": 0.1, "y": 0.1, "words": "prize claim", "rows": 40}]
    studio.room.tell("picture", picture=replace(studio.room.pictures.told, regions=regions))

    screen.says("regions", "prize claim")
    studio.room.tell("picture", picture=studio.room.pictures.told)
    screen.until(lambda: screen["regions"].inner_text() == "")


def test_tuning_shows_how_far_it_is_is_cancelled_and_chooses_radii(browser, tmp_path, monkeypatch):
    rows = write_messages(tmp_path / "rows.csv", 120, 40)
    told = {"positive": "spam", "kind": "epoxy"}
    new_project(tmp_path / "project", rows, options=told, lfs=LFS)
    session = epoxy.Session.open(tmp_path / "project")
    real, begun, go_on = session.tune, threading.Event(), threading.Event()

    def held_up(progress):
        """Tuning that waits in its first step, as a long one would be in the middle of one."""

        def step(done, total):
            progress(done, total)
            begun.set()
            assert go_on.wait(30)

        return real(progress=step)

    monkeypatch.setattr(session, "tune", held_up)
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    with serving(session) as studio, Screen(context, studio, f"?token={studio.token}") as screen:
        screen["tune"].click()
        assert begun.wait(30)
        screen.says("sources", "tune 1 of")
        screen["cancel"].click()
        screen.until(studio.room.jobs[1].is_set)
        go_on.set()
        screen.says("job", "tune was cancelled; nothing was changed")
        assert set(session.radii.values()) == {"auto"}

        screen["tune"].click()
        screen.until(lambda: screen["undo"].get_attribute("title") == "Undo: tune", 30)
        screen.says("job", "settings")
        assert "auto" not in session.radii.values()
        screen["tuned"].wait_for()  # its score is on the rows it was tuned on
        screen["undo"].click()
        screen.until(lambda: set(session.radii.values()) == {"auto"})
        screen.until(lambda: screen["tuned"].count() == 0)
    context.close()


def test_names_that_look_like_code_are_shown_as_text(browser, tmp_path):
    rows = write_messages(tmp_path / "rows.csv", 60, 30)
    marked = f"nasty {HOSTILE}"
    lfs = LFS + f"\nodd = epoxy.keywords({marked!r}, 'offer', 'award', name={marked!r})\n"
    new_project(tmp_path / "project", rows, classes=["ham", "spam", marked], lfs=lfs)
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    session = epoxy.Session.open(tmp_path / "project")
    with serving(session) as studio, Screen(context, studio, f"?token={studio.token}") as screen:
        screen["source-list"].get_by_text(marked).click()
        screen.says("source-panel", f"Votes {marked} on")
        screen.says("legend", "own vote")
        screen["by-label"].click()
        screen.says("legend", marked)
        screen.page.keyboard.press("n")
        screen.says("label-tab", marked)
        assert screen.page.evaluate("window.hurt ?? null") is None
        assert screen.page.locator("img").count() == 0
    context.close()


def test_a_project_without_functions_opens_and_the_first_is_written_and_taken_back(
    browser, tmp_path
):
    rows = write_messages(tmp_path / "rows.csv", 60, 30)
    rows.write_text(re.sub(",(ham|spam)\n", ",\n", rows.read_text()))  # nobody labelled any
    new_project(tmp_path / "project", rows, classes=["ham", "spam"])
    lfs = tmp_path / "project" / "lfs.py"
    before = lfs.read_text("utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    session = epoxy.Session.open(tmp_path / "project", empty=True)
    with serving(session) as studio, Screen(context, studio, f"?token={studio.token}") as screen:
        screen.says("problem", "add a labeling function")
        screen["tab-rows"].click()
        screen.page.locator('[data-testid^="row-"][role="button"]').first.click()
        screen.page.keyboard.press("w")
        screen.says("no-answer", "No model answers yet")
        assert screen["message"].count() == 0  # nothing went wrong

        screen["write-first"].click()
        screen["words"].fill("prize")
        screen["class-spam"].click()
        screen.says("draft-effect", "Covers")
        screen["save-function"].click()
        screen.until(lambda: names(screen) == {"prize"})
        assert screen["problem"].count() == 0
        assert 'epoxy.keywords("spam", "prize"' in lfs.read_text("utf-8")

        screen.page.keyboard.press("u")
        screen["write-first"].wait_for()
        assert lfs.read_text("utf-8") == before
    context.close()


def test_names_of_usual_length_are_not_cut_in_the_list_of_sources(browser, tmp_path):
    lfs = LFS.replace('name="prize"', 'name="two_strokes_all_the_w"')
    rows = write_messages(tmp_path / "rows.csv", 60, 30)
    new_project(tmp_path / "project", rows, lfs=lfs)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    session = epoxy.Session.open(tmp_path / "project")
    with serving(session) as studio, Screen(context, studio, f"?token={studio.token}") as screen:
        name = screen["source-two_strokes_all_the_w"].get_by_title("two_strokes_all_the_w")
        assert name.evaluate("shown => shown.scrollWidth <= shown.clientWidth")
        for head in ("covers %", "own ✓%", "lent ✓%", "radius"):
            shown = screen["sources"].get_by_role("button", name=head, exact=True)
            assert shown.evaluate("shown => shown.scrollWidth <= shown.clientWidth")
    context.close()
