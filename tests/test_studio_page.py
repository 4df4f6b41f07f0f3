"""What a person meets on the page: seen together, said truly, and within reach; in a real Chromium."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright", reason="playwright is not installed")

import epoxy
from epoxy.cli.demo import write_project
from epoxy.project.create import new_project
from studio_client import serving
from test_one_room import write_messages
from test_studio_browser import (  # noqa: F401 - browser, and what skips, are used as they are there
    LFS,
    N_ROWS,
    Screen,
    browser,
    listed,
    names,
    pytestmark,
)

WIDE, LOW, PHONE = (1440, 900), (1024, 700), (390, 844)
CLASHES = """
wrong = epoxy.keywords("ham", "prize", "claim", "cash", "award", "winner", "urgent", name="wrong")
"""


@contextmanager
def page(browser, folder, size, fragment="", **options):  # noqa: F811
    """A studio on a project, and its page in a window of a size."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    with serving(epoxy.Session.open(folder, **options)) as studio:
        first = context.new_page()
        first.goto(studio.address)
        first.close()
        with Screen(context, studio, fragment) as screen:
            yield screen, studio
    context.close()


def messages(folder, lfs=LFS, labelled=40, **options):
    rows = write_messages(folder / "rows.csv", N_ROWS, labelled)
    new_project(folder / "project", rows, options={"positive": "spam", **options}, lfs=lfs)
    return folder / "project"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return messages(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return write_project(epoxy.datasets.load("digits"), tmp_path_factory.mktemp("page") / "digits")


@pytest.fixture(scope="module")
def on_texts(browser, texts):  # noqa: F811
    with page(browser, texts, WIDE) as made:
        yield made


@pytest.fixture
def screen(on_texts):
    """The page on messages, as if just opened."""
    shown, studio = on_texts
    shown.page.goto(f"http://127.0.0.1:{studio.port}/")
    shown.page.reload()
    shown.settled()
    return shown


def seen_whole(screen, size, *named):
    """Elements that lie in the window whole, and not on each other."""
    boxes = [screen[name].first.bounding_box() for name in named]
    for box in boxes:
        assert box["x"] >= -0.5
        assert box["y"] >= -0.5
        assert box["x"] + box["width"] <= size[0] + 0.5
        assert box["y"] + box["height"] <= size[1] + 0.5
    for at, one in enumerate(boxes):
        for other in boxes[:at]:
            apart = (
                one["x"] + one["width"] <= other["x"] + 0.5
                or other["x"] + other["width"] <= one["x"] + 0.5
                or one["y"] + one["height"] <= other["y"] + 0.5
                or other["y"] + other["height"] <= one["y"] + 0.5
            )
            assert apart
    return boxes


def test_map_slider_and_answers_are_seen_together_in_a_low_window(browser, digits):  # noqa: F811
    with page(browser, digits, LOW, "#tab=source&source=two_holes") as (screen, _):
        screen["radius-slider"].wait_for()
        shown, *_ = seen_whole(screen, LOW, "canvas", "radius-slider", "scores")
        assert min(shown["width"], shown["height"]) > 400
        screen["tab-label"].click()
        screen["answer-9"].wait_for()
        seen_whole(screen, LOW, "canvas", "to-label", "answer-0")
        seen_whole(screen, LOW, "canvas", "answer-9", "skip")


def test_on_a_phone_the_score_in_use_is_seen_and_nothing_is_wider_than_it(browser, texts):  # noqa: F811
    with page(browser, texts, PHONE) as (screen, _):
        in_use = screen.page.locator('[data-testid^="score-"]', has_text="in use")
        (box,) = [each.bounding_box() for each in in_use.all()]
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE[0]
        assert screen.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert screen["canvas"].bounding_box()["height"] > 200


def test_every_step_of_a_slider_lends_to_more_rows(screen):
    screen["source-prize"].click()
    screen["radius-slider"].focus()
    keys = screen.page.keyboard
    keys.press("0")
    screen.until(
        lambda: screen["radius-slider"].get_attribute("aria-valuetext") == "own votes only"
    )
    reached = []
    for _ in range(6):
        keys.press("Shift+ArrowRight")
        screen["trial"].wait_for()
        reached.append(screen.still())
    lent = [sum(kind == 2 for _, kind in marks) for marks in reached]
    assert sorted(set(lent)) == lent  # more at every step
    keys.press("Escape")


def test_undo_works_while_the_slider_has_the_focus(screen):
    screen["source-prize"].click()
    screen["radius-slider"].focus()
    screen.page.keyboard.press("0")
    screen["keep"].wait_for()
    screen.page.keyboard.press("Enter")
    screen.until(lambda: screen["undo"].is_enabled())
    screen.page.keyboard.press("u")
    screen.until(lambda: screen["redo"].is_enabled())
    assert screen["undo"].is_disabled()


def test_a_draft_is_of_the_class_its_hand_labels_have_until_another_is_chosen(screen):
    screen["new"].click()
    screen["words"].fill("urgent, claim")
    screen.says("draft-effect", "as spam")
    assert screen["class-spam"].get_attribute("aria-checked") == "true"
    assert screen["save-function"].is_enabled()
    screen["class-ham"].click()
    screen.until(lambda: "as spam" not in screen["draft-effect"].inner_text())
    screen["drop-draft"].click()


def test_a_double_click_on_the_text_of_a_row_opens_why(screen):
    row = screen.until(lambda: listed(screen))[-1]  # brought into view as it is chosen
    screen[row].locator(".text").dblclick()

    screen["why"].wait_for()
    assert screen.page.evaluate("getSelection().toString()") == ""


def test_why_counts_sources_and_draws_lines_to_what_weighs(on_texts, screen):
    session = on_texts[1].room.session
    row = int(screen.until(lambda: listed(screen))[0][4:])
    at, place = session.place(row)
    told = session.explain(session.state.names.name((at, place))[1], session.names[at])
    heard = [each for each in told.voices if abs(each.weight) >= 0.005 and each.vote]
    screen[f"row-{row}"].click()
    screen["tab-why"].click()
    own = len({each.source for each in told.voices if each.origin == "own"})
    lent = len({each.source for each in heard if each.origin == "lent"})
    screen.says("votes-count", f"of {len(session.sources)} sources {own} own · {lent} lent")
    lines = screen.page.locator("svg.over path[opacity]")
    screen.until(lambda: lines.count() == sum(each.lender is not None for each in heard))


def test_rows_of_a_lasso_become_the_exemplars_that_were_asked_for(screen):
    screen["new"].click()
    screen["kind-like"].click()
    screen.says("exemplars", "0 exemplars")
    screen.lasso_around([0, 1])
    screen.until(lambda: "0 exemplars" not in screen["exemplars"].inner_text())
    screen.says("draft-effect", "Covers")
    screen["drop-draft"].click()


def test_colours_follow_the_tab_and_no_answer_is_given_away_while_one_labels(screen):
    def coloured(by):
        screen.until(lambda: screen[f"by-{by}"].get_attribute("aria-checked") == "true")

    screen["source-prize"].click()
    coloured("source")
    for tab, by in (
        ("code", "label"),
        ("source", "source"),
        ("label", "hand"),
        ("history", "label"),
    ):
        screen[f"tab-{tab}"].click()
        coloured(by)
    screen["tab-label"].click()
    screen["to-label"].wait_for()
    assert "%" not in screen["label-tab"].inner_text()
    screen.page.keyboard.press("1")
    screen["answered"].wait_for()
    assert "the model" in screen["answered"].inner_text()
    screen.page.keyboard.press("u")


def test_suggestions_lie_within_the_panel(screen):
    screen["new"].click()
    screen["suggest"].click()
    screen["suggestion"].first.wait_for()
    for card in screen["suggestion"].all():
        assert card.evaluate(
            "card => [card, ...card.querySelectorAll('.take, .facts')]"
            ".every(each => each.scrollWidth <= each.clientWidth)"
        )
        assert "adds" in card.inner_text()
    screen["drop-draft"].click()


def test_a_finding_is_cured_by_its_button(browser, tmp_path):  # noqa: F811
    with page(browser, messages(tmp_path, LFS + CLASHES), WIDE) as (screen, studio):
        screen["tab-history"].click()
        about = screen["finding"].filter(has_text="'wrong'").filter(has_text="Switch off")
        screen.until(about.count)
        about.get_by_role("button", name="Switch off wrong").first.click()
        screen.says("source-wrong", "off")
        assert not studio.room.session.state.workspace.source("wrong").is_on
        screen.page.keyboard.press("u")
        screen.until(lambda: "off" not in screen["source-wrong"].inner_text())


def test_a_lasso_is_labelled_at_once_and_taken_back_at_once(screen):
    count = screen.hand_labels()
    screen.lasso_around([3, 4])
    chosen = int(screen["selection"].inner_text().split()[0])
    screen["selection-spam"].click()
    screen.says("selection-labelled", "spam")
    screen.until(lambda: screen.hand_labels() > count or chosen == 0)
    assert screen["undo"].get_attribute("title") == f"Undo: label of {chosen} rows"
    screen["selection-undo"].click()
    screen.until(lambda: screen.hand_labels() == count)
    screen.page.keyboard.press("x")


def test_rows_of_one_class_are_shown_alone(on_texts, screen):
    session = on_texts[1].room.session
    spam = sum(int((each == 1).sum()) for each in session.outcome.decided)
    screen["class-rows"].select_option("spam")
    screen.says("row-total", f"{spam} rows")


def test_what_a_class_means_is_written_while_labelling_and_kept_for_ask(texts, screen):
    screen["tab-label"].click()
    note = screen["meaning-spam"]
    note.fill('wants "money" from you')
    note.press("Enter")
    path = texts / "ask.toml"
    screen.until(lambda: path.exists() and 'wants \\"money\\" from you' in path.read_text())
    screen.page.reload()
    screen.settled()
    screen.until(lambda: screen["answer-spam"].get_attribute("title") == 'wants "money" from you')


def test_one_search_finds_sources_classes_and_rows(screen):
    screen.page.keyboard.press("g")
    screen["search"].fill("cash")
    screen.says("found", "source")
    screen.page.keyboard.press("Enter")
    screen.says("source-panel", "cash")
    screen["search"].fill("tomorrow")
    screen["found-all"].click()
    assert screen["find-rows"].input_value() == "tomorrow"
    screen.says("row-list", "tomorrow")


def test_the_line_of_an_error_stays_in_view(screen, texts):
    path = texts / "lfs.py"
    text = path.read_text("utf-8")
    screen["tab-code"].click()
    content = screen.page.locator(".cm-content")
    content.click()
    screen.page.keyboard.press("Control+Home")
    screen.page.keyboard.type("def late(row:\n")
    screen.page.keyboard.press("Control+s")
    screen["code-error"].wait_for()
    line = screen.page.locator(".cm-line", has_text="def late").bounding_box()
    pane = screen["editor"].bounding_box()
    assert pane["y"] <= line["y"]
    assert line["y"] + line["height"] <= pane["y"] + pane["height"]
    path.write_text(text, "utf-8")
    screen.until(lambda: screen["code-error"].count() == 0)


def test_a_project_without_functions_shows_its_hand_labels_and_asks_for_no_more(browser, tmp_path):  # noqa: F811
    with page(browser, messages(tmp_path, lfs="import epoxy\n"), WIDE, empty=True) as (
        screen,
        studio,
    ):
        if not studio.room.session.problem:
            pytest.skip("this model labels without functions")
        screen.says("unscored", "come with the first source")
        screen.until(lambda: {kind for _, kind in screen.marks()} > {0})
        assert screen["by-hand"].get_attribute("aria-checked") == "true"


def test_pictures_stand_on_the_map_as_it_is_zoomed_and_side_by_side_in_a_grid(browser, digits):  # noqa: F811
    with page(browser, digits, WIDE) as (screen, _):
        assert screen["thumbs"].count() == 0
        for _ in range(4):
            screen.page.keyboard.press("+")
        thumbs = screen["thumbs"].locator("img")
        screen.until(lambda: thumbs.count() > 5)
        loaded = "all => all.every(each => each.complete && each.naturalWidth > 0)"
        screen.until(lambda: thumbs.evaluate_all(loaded))
        screen["grid"].click()
        grid = screen["picture-grid"].locator("button")
        screen.until(lambda: grid.count() > 20)
        tops = grid.evaluate_all(
            "all => all.slice(0, 4).map(each => each.getBoundingClientRect().y)"
        )
        assert len(set(tops)) == 1  # side by side
        grid.nth(1).dblclick()
        screen["why"].wait_for()
        assert screen["give-3"].inner_text().strip() == "3"


def test_classes_are_named_on_their_buttons(screen):
    row = screen.until(lambda: listed(screen))[0]
    screen[row].click()
    screen["tab-why"].click()
    for name in ("ham", "spam"):
        assert name in screen[f"give-{name}"].inner_text()
    assert names(screen) >= {"prize", "cash"}
