"""The studio in a real Chromium: from a gesture to the painted map, and what else takes time.

    python benchmarks/studio.py [CASE ...] [--home DIR] [--out FILE] [--steps N] [--cold]

Each case of `studio_data` is made once under --home, served by `epoxy studio` in a process of its own,
and used in headless Chromium, which draws in software: there is no graphics card. A gesture is one step
of the pointer on the slider; it ends when the map with its marks has been drawn, read back from the
canvas so that it cannot end earlier (`timing.screen` of the page). The load of the machine stands beside
every figure, and of two runs the calmer one stays: delete the file to begin anew.
--cold forgets the better picture that was kept, and waits until it is made again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from kept import commit, read_cases, write_cases
from studio_data import CASES, make

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
RESULTS = Path(__file__).parent / "results" / "studio.csv"
PATIENCE = 900.0
Found = dict[str, Any]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, float, int]]:
    """The address of `epoxy studio` on a project, the seconds until it was there, and its process."""
    command = [sys.executable, "-u", "-m", "epoxy", "studio", str(folder), "--no-open"]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = next((each for each in process.stdout if "http://" in each), None)
        if line is None:
            raise SystemExit(f"epoxy studio {folder} ended with {process.wait()}")
        yield line[line.index("http://") :].split()[0], time.monotonic() - start, process.pid
    finally:
        process.terminate()
        process.wait(30)


def until(wanted: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What `wanted` gives as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := wanted()):
        if time.monotonic() > end:
            raise SystemExit(f"not seen within {seconds:g} s")
        time.sleep(0.01)
    return found


def summary(values: list[float]) -> Found:
    """Median, 95th percentile and least, with the load of the machine."""
    low, p50, p95 = np.quantile(values, [0, 0.5, 0.95])
    return {
        "p50": round(float(p50), 1),
        "p95": round(float(p95), 1),
        "min": round(float(low), 1),
        "n": len(values),
        "load": _load(),
    }


def browser_processes() -> Iterator[list[str]]:
    """What the system says of every process of Chromium that this one started (Linux)."""
    parents, told = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields.split()[1])
        if "chrom" in name:
            told[process] = fields.split()
    for process, fields in told.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            yield fields


def browser_cpu() -> float:
    """Milliseconds of processor time of the browser."""
    ticks = sum(int(each[11]) + int(each[12]) for each in browser_processes())
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


def memory(server: int) -> Found:
    """Gigabytes that the browser and the server hold, and the most the server ever held."""
    pages = sum(int(each[21]) for each in browser_processes())
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{server}/status").read_text().splitlines()
    )
    now, most = (int(status[name].split()[0]) / 1e6 for name in ("VmRSS", "VmHWM"))
    browser = pages * os.sysconf("SC_PAGE_SIZE") / 1e9
    found = {"browser": browser, "server": now, "server_most": most}
    return {name: round(each, 2) for name, each in found.items()} | {"load": _load()}


def _load() -> float:
    return round(os.getloadavg()[0], 1)


class Screen:
    """A tab with the studio in it."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.page: Page = browser.new_page(viewport={"width": 1440, "height": 900})
        self.bytes = 0
        self.page.on("websocket", lambda socket: socket.on("framereceived", self._heard))
        start = time.monotonic()
        self.page.goto(address, wait_until="commit")
        until(lambda: self.page.evaluate("(window.__epoxy?.frames ?? 0) > 0"), PATIENCE)
        self.page.evaluate("__epoxy.painted.then(() => null)")
        self.opened = time.monotonic() - start

    def _heard(self, message: Any) -> None:
        self.bytes += len(message)

    def timing(self) -> Found:
        return self.page.evaluate("__epoxy.timing") or {"label": 0, "screen": 0}

    def timed(self, gesture: Callable[[], Any]) -> Found:
        """The page's own times of what a gesture starts."""
        before = self.timing()
        gesture()
        until(lambda: self.timing() != before, PATIENCE)
        time.sleep(0.2)  # what follows the map is no part of the next gesture
        return self.timing()

    def open_source(self, index: int) -> Any:
        self.page.locator('[data-testid="source-list"] [data-testid^="source-"]').nth(index).click()
        slider = self.page.get_by_test_id("radius-slider")
        slider.wait_for()
        time.sleep(1)
        return slider.bounding_box()


def dragged(screen: Screen, box: Any, steps: int) -> Found:
    """Steps of the pointer on a slider that is held, each after the last was painted."""
    mouse, y = screen.page.mouse, box["y"] + box["height"] / 2
    place = lambda at: box["x"] + (0.2 + 0.5 * ((7 * at) % 20) / 20) * box["width"]  # noqa: E731
    mouse.move(place(0), y)
    mouse.down()
    for at in range(1, 4):  # opens what shows a trial
        screen.timed(lambda at=at: mouse.move(place(at), y))
    sent, spent, times = screen.bytes, browser_cpu(), []
    for at in range(4, 4 + steps):
        times.append(screen.timed(lambda at=at: mouse.move(place(at), y)))
    found = summary([each["screen"] for each in times])
    found["session_p50"] = round(float(np.median([each["label"] for each in times])), 2)
    found["bytes"] = round((screen.bytes - sent) / steps)
    found["browser_cpu_ms"] = round((browser_cpu() - spent) / steps)
    mouse.up()
    screen.page.keyboard.press("Escape")
    time.sleep(0.7)
    return found


def labelled(screen: Screen, steps: int) -> Found:
    """Rows labelled by digit and taken back: screen time beyond the session's own."""
    page = screen.page
    page.get_by_test_id("tab-rows").click()
    page.locator('[data-testid^="row-"][role="button"]').first.click()
    times = []
    for _ in range(steps // 2):
        times.append(screen.timed(lambda: page.keyboard.press("2")))
        times.append(screen.timed(lambda: page.keyboard.press("u")))
    found = summary([each["screen"] - each["label"] for each in times])
    return found | {"session_p50": round(float(np.median([each["label"] for each in times])), 1)}


def listed(screen: Screen) -> Found:
    """Milliseconds until the table of sources is sorted, searched and scrolled to its end."""
    page, found = screen.page, {}
    names = '[data-testid="source-list"] [data-testid^="source-"]'

    def shown() -> str:
        return page.get_by_test_id("source-list").inner_text()

    def took(action: Callable[[], Any], wanted: Callable[[], Any]) -> float:
        start = time.monotonic()
        action()
        until(wanted)
        return round(1000 * (time.monotonic() - start), 1)

    before = shown()
    sort = page.get_by_test_id("sort-sources")
    found["sort"] = took(lambda: sort.select_option("extended"), lambda: shown() != before)
    find = page.get_by_test_id("find-source")
    found["find"] = took(lambda: find.fill("about_777"), lambda: page.locator(names).count() == 1)
    took(lambda: find.fill(""), lambda: page.locator(names).count() > 1)
    box = page.get_by_test_id("source-list")
    bottom = "e => { e.scrollTop = e.scrollHeight }"
    last = '[data-testid="source-list"] [aria-posinset="1000"] button'
    found["to_the_end"] = took(lambda: box.evaluate(bottom), lambda: page.locator(last).count())
    box.evaluate("e => { e.scrollTop = 0 }")
    return found | {"load": _load()}


def moved(screen: Screen, steps: int) -> Found:
    """Frames while the map is dragged and zoomed; very many rows are then drawn in part."""
    page = screen.page
    box = page.get_by_test_id("canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 5, y)
    spent = browser_cpu()
    dragged = [
        _framed(screen, lambda at=at: page.mouse.move(x + 5 + 7 * at, y)) for at in range(steps)
    ]
    spent = (browser_cpu() - spent) / steps
    page.mouse.up()
    zoomed = [_framed(screen, lambda: page.mouse.wheel(0, -40)) for _ in range(steps)]
    start = time.monotonic()
    page.keyboard.press("f")
    page.evaluate("__epoxy.repaint().then(() => null)")
    whole = round(1000 * (time.monotonic() - start))
    found = {"drag": summary(dragged), "zoom": summary(zoomed), "browser_cpu_ms": round(spent)}
    return found | {"then_all_rows_ms": whole, "load": _load()}


def _framed(screen: Screen, gesture: Callable[[], Any]) -> float:
    """Milliseconds until the next frame of the map."""
    before = screen.page.evaluate("__epoxy.frames")
    start = time.monotonic()
    gesture()
    until(lambda: screen.page.evaluate("__epoxy.frames") > before)
    return 1000 * (time.monotonic() - start)


def recoloured(screen: Screen) -> Found:
    """Another colouring, until its first rows are drawn and until all are."""
    first, whole = [], []
    for by in ("uncertain", "hand", "novote", "label"):
        start = time.monotonic()
        first.append(_framed(screen, screen.page.get_by_test_id(f"by-{by}").click))
        screen.page.evaluate("__epoxy.painted.then(() => null)")
        whole.append(1000 * (time.monotonic() - start))
        time.sleep(0.5)
    return {"first": summary(first), "all": summary(whole), "load": _load()}


def lassoed(screen: Screen) -> Found:
    """A lasso over half of the map, until its rows are counted."""
    page = screen.page
    box = page.get_by_test_id("canvas").bounding_box()
    page.get_by_test_id("lasso").click()
    left, top = box["x"] + 0.25 * box["width"], box["y"] + 0.25 * box["height"]
    page.mouse.move(left, top)
    page.mouse.down()
    for dx, dy in ((0.5, 0), (0.5, 0.5), (0, 0.5)):
        page.mouse.move(left + dx * box["width"], top + dy * box["height"], steps=4)
    start = time.monotonic()
    page.mouse.up()
    page.get_by_test_id("selection").wait_for()
    took = 1000 * (time.monotonic() - start)
    rows = page.get_by_test_id("selection").inner_text().split(" row")[0]
    page.keyboard.press("x")
    return {"ms": round(took), "rows": rows, "load": _load()}


def better_picture(screen: Screen, started: float) -> Found:
    """Seconds from the server's first answer until UMAP is on the map."""
    note = screen.page.get_by_test_id("picture")
    until(lambda: re.search(r"UMAP(?!.* being made)", note.inner_text()), PATIENCE)
    return {"seconds": round(time.monotonic() - started, 1), "load": _load()}


def measure(name: str, home: Path, steps: int, *, cold: bool) -> Found:
    """Everything that is measured of a case."""
    case = CASES[name]
    folder = make(case, home)
    if cold:
        shutil.rmtree(folder / ".epoxy" / "pictures", ignore_errors=True)
    found: Found = {"case": case.label}
    with serving(folder) as (address, seconds, server), sync_playwright() as run:
        started = time.monotonic()
        found["server"] = {"seconds": round(seconds, 1), "load": _load()}
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        screen = Screen(browser, address)
        found["first_picture"] = {
            "seconds": round(screen.opened, 2),
            "bytes": screen.bytes,
            "load": _load(),
        }
        if cold:
            found["umap"] = better_picture(screen, started)
        found["map_ms"] = moved(screen, min(steps, 20))
        found["recolour_ms"] = recoloured(screen)
        box = screen.open_source(min(3, case.sources - 1))
        found["radius_by_source_ms"] = dragged(screen, box, steps)
        screen.page.get_by_test_id("by-label").click()
        time.sleep(0.7)
        found["radius_by_label_ms"] = dragged(screen, box, steps)
        if case.kind == "fusion":
            found["label_beyond_session_ms"] = labelled(screen, steps)
        if case.sources >= 1000:
            found["sources_ms"] = listed(screen)
        found["lasso"] = lassoed(screen)
        found["memory_gb"] = memory(server)
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--home", type=Path, default=Path(tempfile.gettempdir()) / "studio-bench")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    for name in given.cases or ["spouse"]:
        found = measure(name, given.home, given.steps, cold=given.cold)
        print(json.dumps(found, indent=1), flush=True)
        write_cases(given.out, _calmer(read_cases(given.out), name, found))


def _calmer(kept: Found, name: str, found: Found) -> Found:
    """The results with those of a case set in; of each figure the one at the lower load stays."""
    before = kept.get(name, {})
    for key, value in found.items():
        old = before.get(key)
        if not isinstance(old, dict) or value["load"] <= old["load"]:
            before[key] = value
    return {**kept, name: before | {"commit": commit()}}


if __name__ == "__main__":
    main()
