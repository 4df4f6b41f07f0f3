"""The studio as a widget in a real notebook: JupyterLab in Chromium, a cell that is run, a lasso, Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("anywidget")
pytest.importorskip(
    "jupyterlab", reason="jupyterlab is not installed: pip install --group notebook"
)
pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import sync_playwright

from epoxy.studio.app import STATIC
from studio_client import messages
from test_studio_browser import CHROMIUM, FLAGS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(
        not (STATIC / "widget.js").is_file(), reason="the page is not built: make web"
    ),
]
TOKEN = "only-for-this-test"
PLACES = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
SHOW = """import epoxy, epoxy.studio
session = epoxy.Session.open({folder!r})
widget = epoxy.studio.widget(session)
widget"""
READ = "print('selected', len(set(widget.selection)), widget.selection.max() < session.n_rows)"
EDIT = "print(session.label(session.split().ids[3], 'ham').what)"


@pytest.fixture
def lab(tmp_path):
    """A notebook server with one notebook; its address."""
    cells = [SHOW.format(folder=str(messages(tmp_path))), READ, EDIT]
    made = {
        "cells": [
            {"cell_type": "code", "id": f"cell{at}", "metadata": {}, "source": text, "outputs": []}
            | {"execution_count": None}
            for at, text in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (tmp_path / "studio.ipynb").write_text(json.dumps(made))
    home = {name: str(tmp_path / name) for name in PLACES}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0"]
    command += [
        "--ip=127.0.0.1",
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={tmp_path}",
    ]
    with (tmp_path / "lab.log").open("w") as log:
        process = subprocess.Popen(command, env={**os.environ, **home}, stdout=log, stderr=log)
    try:
        yield _address(process, Path(home["JUPYTER_RUNTIME_DIR"]))
    finally:
        process.terminate()
        process.wait(30)


def _address(process: subprocess.Popen, runtime: Path) -> str:
    """Where the server listens, as soon as it says so in its own file."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            told = json.loads(path.read_text() or "{}")
            if told.get("url"):
                return f"{told['url']}lab/tree/studio.ipynb?token={TOKEN}"
        time.sleep(0.2)
    raise AssertionError("the notebook server did not start")


def test_rows_selected_in_a_cell_are_read_in_python(lab, tmp_path):
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1600, "height": 1100})
        page.set_default_timeout(120_000)
        page.goto(lab)
        cells = page.locator(".jp-Notebook .jp-CodeCell")
        cells.first.wait_for()

        def run_cell(at: int) -> None:
            cells.nth(at).locator(".cm-content").click()
            page.keyboard.press("Control+Enter")

        run_cell(0)
        studio = page.locator("[data-testid=studio]")
        studio.locator("[data-testid=bar]").wait_for()
        pane = studio.locator("[data-testid=canvas]")
        pane.scroll_into_view_if_needed()
        studio.get_by_text("6 sources").wait_for()
        studio.locator("[data-testid=lasso]").click()
        box = pane.bounding_box()
        corners = [(0.02, 0.12), (0.98, 0.12), (0.98, 0.9), (0.02, 0.9), (0.02, 0.12)]
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=4)
        page.mouse.up()
        selected = studio.locator("[data-testid=selection]")
        selected.wait_for()
        count = int(selected.inner_text().split()[0])
        if picture := os.environ.get("EPOXY_NOTEBOOK_PICTURE"):
            page.screenshot(path=picture)
        run_cell(1)
        page.get_by_text(f"selected {count} True").wait_for()
        run_cell(2)  # and what Python decides is seen in the cell above
        studio.get_by_text("6 sources · 33 hand labels").wait_for()
        pane.focus()
        page.keyboard.press("x")  # clears the selection; a notebook would cut the cell
        selected.wait_for(state="hidden")
        assert cells.count() == 3
        browser.close()

    assert count > 100
