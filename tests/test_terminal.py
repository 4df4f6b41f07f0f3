"""What a person sees at a terminal, and what a pipe does not get."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path

import pytest

import epoxy
from epoxy.progress import bar, waiting
from epoxy.project.create import new_project
from test_cli import LFS, write_rows


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(tmp_path) -> Path:
    rows = write_rows(tmp_path / "rows.csv")
    new_project(tmp_path / "spam", rows, options={"kind": "epoxy"}, lfs=LFS)
    return tmp_path / "spam"


class Watched:
    """A command at a terminal of its own, and all that it has drawn there."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.drawn = ""
        self.pid, self.file = pty.fork()
        if not self.pid:
            more = {"TERM": "xterm", "NO_COLOR": "", **environment}
            command = [sys.executable, "-m", "epoxy", *arguments]
            os.execve(sys.executable, command, {**os.environ, **more})

    def until(self, words: str, seconds: float = 60.0) -> str:
        """What was drawn when these words stand there."""
        end = time.monotonic() + seconds
        while words not in self.drawn:
            ready, _, _ = select.select([self.file], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {words!r} in {seconds} s, but {self.drawn!r}"
            self.drawn += os.read(self.file, 65536).decode()
        return self.drawn

    def interrupted(self) -> int:
        os.kill(self.pid, signal.SIGINT)
        self.until("interrupted")
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.file)
        return code


def test_a_bar_shows_rows_rate_and_time_left_and_clears_its_line():
    terminal = Terminal()
    report = bar("voting", rows=2000, stream=terminal, after=0.0)

    report(500, 1000)
    drawn = terminal.getvalue()
    report(1000, 1000)

    assert "voting" in drawn
    assert re.search(r"1,000 of 2,000 rows, [\d,]+/s, 0 s left", drawn)
    assert "\n" not in drawn
    assert terminal.getvalue()[len(drawn) :] == "\r\x1b[2K"


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_bar_says_nothing_in_a_pipe_and_nothing_of_short_work(stream):
    out = stream()
    report = bar("voting", stream=out, after=0.0 if stream is io.StringIO else 60.0)

    report(1, 2)
    report(2, 2)

    assert out.getvalue() == ""


def test_a_pipe_is_told_seldom_of_work_that_takes_long_with_its_rate():
    out = io.StringIO()
    report, short = bar("voting", rows=2000, stream=out, line=0.0), bar("x", stream=out, line=60.0)

    for done in (1, 1, 2):
        report(done, 2)
        short(done, 2)

    assert re.fullmatch(r"voting 1,000 of 2,000 rows, [\d,]+/s, 0 s left …\n", out.getvalue())


def test_work_that_cannot_count_its_steps_shows_rows_and_seconds():
    terminal = Terminal()
    report = bar("fitting", rows=2000, stream=terminal, after=0.0)

    def fails() -> None:
        with waiting(report, 2000):
            report(0, 2000)
            raise KeyError

    with pytest.raises(KeyError):
        fails()

    assert "2,000 rows, 0 s so far" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K"), "cleared, though it failed"


def test_a_renamed_function_is_a_rename_and_keeps_what_was_decided(project):
    session = epoxy.Session.open(project)
    session.set_radius("money", 0.25)
    session.switch("money", False)
    (project / "lfs.py").write_text(LFS.replace('name="money"', 'name="cash"'))

    change = session.reload()

    assert change.what == "rename money to cash"
    for each in (session, epoxy.Session.open(project)):
        assert each.sources == ("channel", "cash", "free", "song", "tears", "poetic")
        assert each.radii["cash"] == 0.25
        assert each.switched_off == ("cash",)


def test_a_function_that_votes_otherwise_is_no_rename(project):
    session = epoxy.Session.open(project)
    (project / "lfs.py").write_text(LFS.replace('"money", name="money"', '"win", name="cash"'))

    assert session.reload().what == "add cash, remove money"


@pytest.mark.parametrize("colour", [True, False])
def test_watch_redraws_in_place_in_colour_unless_no_color(colour, project):
    bad = "\n\n@epoxy.labeling_function\ndef bad(row):\n    raise ValueError(row.id)\n"
    (project / "lfs.py").write_text(LFS + bad)
    watch = Watched("watch", str(project), NO_COLOR="" if colour else "1")

    assert "\x1b[2J" not in watch.until("fitting")
    first = watch.until("functions,")
    (project / "lfs.py").write_text(LFS.replace('name="money"', 'name="cash"'))
    second = watch.until("ms]")[len(first) :]

    assert watch.interrupted() == 130
    assert "! labeling function 'bad' raised on 100 rows" in first
    assert "rename money to cash" in second
    assert second.count("\x1b[2J") == 1
    assert ("\x1b[33m!" in first) == ("\x1b[1m" in second) == colour
