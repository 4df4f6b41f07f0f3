"""Take the pictures of the studio's page in the docs: the demo, in a real Chromium.

    python docs/studio_pictures.py

On a machine that does something else as well the milliseconds in the first picture are not the studio's.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from test_studio_browser import CHROMIUM, FLAGS, Screen  # noqa: E402

SOURCE, ROW = "narrow", 2
"""Whose radius is tried, and which row of the list is explained."""


class Served:
    """`epoxy studio` on the demo, in a process of its own."""

    def __init__(self, folder: str) -> None:
        run = (sys.executable, "-m", "epoxy")
        subprocess.run([*run, "demo"], cwd=folder, check=True, capture_output=True)
        command = [*run, "studio", "epoxy-demo", "--no-open", "--port", "0"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        found = re.search(r":(\d+)/\?token=(\S+)", self.process.stdout.readline())
        self.port, self.token = int(found[1]), found[2]


def opened(browser: Browser, served: Served, scheme: str) -> Screen:
    """The page once the better picture is there."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    screen = Screen(context, served, f"?token={served.token}")
    screen.until(lambda: screen["picture"].inner_text() == "UMAP", 120)
    screen.page.wait_for_timeout(1500)  # rows glide to their new places
    return screen


def radius_is_tried(screen: Screen) -> None:
    """Drag a radius to half of what it is."""
    screen[f"source-{SOURCE}"].click()
    screen["radius-slider"].wait_for()
    screen.until(lambda: screen["by-source"].get_attribute("aria-checked") == "true")
    box, mouse = screen["radius-slider"].bounding_box(), screen.page.mouse
    y = box["y"] + box["height"] / 2
    mouse.move(box["x"] + 0.5 * box["width"], y)
    mouse.down()
    mouse.move(box["x"] + 0.27 * box["width"], y, steps=6)
    mouse.up()
    screen["trial-flipped"].wait_for()
    screen.page.wait_for_timeout(2500)
    screen["radius-slider"].press("ArrowLeft")  # one step on its own: its milliseconds are shown
    screen.page.wait_for_timeout(500)
    wanted = screen["keep"].inner_text().split()[1]
    screen.until(lambda: screen.page.get_by_text(f"now {wanted}").count())
    screen.page.wait_for_timeout(2500)  # pictures of rows come after their names


def row_is_explained(screen: Screen) -> None:
    """Ask why a row of the list has its label."""
    screen.page.locator('[data-testid^="row-"][role="button"]').nth(ROW).click()
    screen.page.keyboard.press("w")
    screen.until(lambda: screen.page.get_by_text("Who moved it").count(), 60)
    screen.page.wait_for_timeout(1000)


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as run:
        served = Served(folder)
        browser = run.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            for scheme, gesture in (("light", radius_is_tried), ("dark", row_is_explained)):
                with opened(browser, served, scheme) as screen:
                    gesture(screen)
                    screen.page.screenshot(path=str(HERE / f"studio-{scheme}.png"))
        finally:
            browser.close()
            served.process.kill()
            served.process.wait()


if __name__ == "__main__":
    main()
