"""Take the pictures of the studio's page in the docs, two still and one moving: the demo, in a real Chromium.

    python docs/studio_pictures.py

On a machine that does something else as well the milliseconds in the first picture are not the studio's.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from PIL import Image  # noqa: E402
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
        self.known = None  # the cookie that the token became: it serves once


def opened(browser: Browser, served: Served, scheme: str) -> Screen:
    """The page once the better picture is there."""
    size = {"width": 1440, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, storage_state=served.known)
    screen = Screen(context, served, "" if served.known else f"?token={served.token}")
    served.known = context.storage_state()
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
    screen["parts"].wait_for()
    screen.page.wait_for_timeout(1000)


class Film:
    """Frames of a page, each shown for a while; written as a GIF."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.frames: list[tuple[Image.Image, int]] = []

    def take(self, milliseconds: int) -> None:
        """The page as it is now."""
        shot = Image.open(io.BytesIO(self.screen.page.screenshot())).convert("RGB")
        small = shot.resize((960, 600), Image.Resampling.LANCZOS)
        self.frames.append((small, milliseconds))

    def write(self, path: Path) -> None:
        """All frames in the same colours, so that nothing flickers."""
        together = Image.new("RGB", (960, 600 * len(self.frames)))
        for at, (each, _) in enumerate(self.frames):
            together.paste(each, (0, 600 * at))
        palette = together.quantize(192, Image.Quantize.MAXCOVERAGE)
        usual = sorted(together.getcolors(1 << 24), reverse=True)[:64]  # such as backgrounds
        colours = [part for _, colour in usual for part in colour]
        palette.putpalette(colours + palette.getpalette()[: 3 * 192])
        plain = [
            each.quantize(palette=palette, dither=Image.Dither.NONE) for each, _ in self.frames
        ]
        times = [each for _, each in self.frames]
        plain[0].save(path, save_all=True, append_images=plain[1:], duration=times, loop=0)


def moving(screen: Screen) -> None:
    """A function is looked at, its radius is moved, kept and taken back; then a row is explained."""
    film = Film(screen)
    film.take(1500)
    screen[f"source-{SOURCE}"].click()
    screen["radius-slider"].wait_for()
    screen.until(lambda: screen["by-source"].get_attribute("aria-checked") == "true")
    screen.page.wait_for_timeout(800)
    film.take(1200)
    box, mouse = screen["radius-slider"].bounding_box(), screen.page.mouse
    y = box["y"] + box["height"] / 2
    mouse.move(box["x"] + 0.04 * box["width"], y)
    mouse.down()
    for share in (0.1, 0.16, 0.24, 0.32, 0.4, 0.5, 0.6, 0.72, 0.6, 0.46, 0.32, 0.2, 0.12):
        mouse.move(box["x"] + share * box["width"], y)
        screen.page.wait_for_timeout(250)
        film.take(180)
    mouse.up()
    screen.page.wait_for_timeout(1500)
    film.take(1800)
    screen.page.keyboard.press("Escape")
    screen["by-label"].click()
    screen.page.wait_for_timeout(600)
    film.take(800)
    screen.page.locator('[role="tab"]', has_text="Rows").click()
    screen.page.wait_for_timeout(600)
    row_is_explained(screen)
    film.take(3500)
    film.write(HERE / "studio.gif")


def main() -> None:
    """Write all three."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as run:
        served = Served(folder)
        browser = run.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            for scheme, gesture in (("light", radius_is_tried), ("dark", row_is_explained)):
                with opened(browser, served, scheme) as screen:
                    gesture(screen)
                    screen.page.screenshot(path=str(HERE / f"studio-{scheme}.png"))
            with opened(browser, served, "light") as screen:
                moving(screen)
        finally:
            browser.close()
            served.process.kill()
            served.process.wait()


if __name__ == "__main__":
    main()
