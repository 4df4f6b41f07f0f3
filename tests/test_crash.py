"""A process killed in the middle of anything: the next one loses nothing and serves nothing stale."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import epoxy

LFS = """
import epoxy

words = [epoxy.keywords(("ham", "spam")[i % 2], w, name=w) for i, w in enumerate("abcdef")]
lfs = words
"""


@pytest.fixture
def project(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    lines = ["id,text,label"]
    for at in range(400):
        y = int(rng.integers(0, 2))
        words = [w for i, w in enumerate("abcdef") if rng.random() < (0.6 if i % 2 == y else 0.15)]
        label = ("ham", "spam")[y] if at % 8 == 0 else ""
        lines.append(f"{at},x {' '.join(words)} {rng.integers(0, 50)},{label}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    from epoxy.project.create import new_project

    new_project(tmp_path / "p", tmp_path / "rows.csv", classes=["ham", "spam"], lfs=LFS)
    return tmp_path / "p"


def killed_after(lines: int, code: str, *arguments: str) -> list[str]:
    """Run code in another process, kill it without warning once it has printed so many lines."""
    with subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    ) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline().strip() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        process.wait()
        return seen + process.stdout.read().split()


@pytest.mark.parametrize(
    "lines", [4, pytest.param(1, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)]
)
def test_no_label_that_was_acknowledged_is_lost_by_a_kill(lines, project):
    code = """
        import sys, epoxy
        session = epoxy.Session.open(sys.argv[1])
        for row in range(1, 300):
            if row % 8:
                session.label(str(row), "spam")
                print(row)
    """

    done = killed_after(lines, code, str(project))

    train = epoxy.Session.open(project).split("train")
    kept = {str(train.ids[row]) for row in np.flatnonzero(train.labelled)}
    assert set(done) <= kept
    assert len(kept) <= len(done) + 1  # the one that was being written


@pytest.mark.parametrize(
    "lines", [4, pytest.param(1, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)]
)
def test_edits_survive_a_kill_whole_or_not_at_all(lines, project):
    code = """
        import sys, epoxy
        session = epoxy.Session.open(sys.argv[1])
        for step in range(1000):
            session.set_radii({name: step / 1000 for name in session.sources}, "all")
            print(step)
    """

    done = int(killed_after(lines, code, str(project))[-1])

    radii = set(epoxy.Session.open(project).radii.values())
    assert radii in ({done / 1000}, {(done + 1) / 1000})  # never a mixture of two edits


def test_opening_that_was_killed_is_taken_up_again(project):
    expected = epoxy.Session.open(project).probabilities
    for path in sorted((project / ".epoxy").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    code = """
        import sys, epoxy
        def said(what):
            print(what)
            return lambda done, total: None
        epoxy.Session.open(sys.argv[1], progress=said)
    """

    for lines in (1, 2, 3):
        killed_after(lines, code, str(project))

    assert (epoxy.Session.open(project).probabilities == expected).all()


def test_a_function_edited_after_a_kill_is_not_answered_from_the_past(project):
    killed_after(
        2, "import sys, epoxy\nprint(1)\nepoxy.Session.open(sys.argv[1])\nprint(2)\n", str(project)
    )
    (project / "lfs.py").write_text(LFS.replace('"abcdef"', '"abcxyz"'))

    session = epoxy.Session.open(project)

    assert session.sources == tuple("abcxyz")
    assert session.split("train").votes.column("x").max() == 1  # every text has an x in it
