"""Projects whose processes are killed, whose files are damaged, whose disk is full, with many editors."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
from attacks.models import flip, fresh_copy, rows
from attacks.tally import Tally
from epoxy.project.create import new_project
from epoxy.project.settings import Project

LFS = """
import epoxy

lfs = [epoxy.keywords(("ham", "spam")[i % 2], w, name=w) for i, w in enumerate("abcdef")]
"""
WRITERS = {"decisions": 0.15, "project": 0.3, "export": 0.1, "model": 0.35, "opening": 0.1}
"""What writes, and its share of the kills: opening a project takes a second or two."""


def make(home: Path, n_rows: int = 200, kind: str = "epoxy") -> Path:
    """A project of short texts, every eighth with a true label."""
    rng = np.random.default_rng(0)
    lines = ["id,text,label"]
    for at in range(n_rows):
        y = int(rng.integers(0, 2))
        words = [w for i, w in enumerate("abcdef") if rng.random() < (0.6 if i % 2 == y else 0.15)]
        label = ("ham", "spam")[y] if at % 8 == 0 else ""
        lines.append(f"r{at},x {' '.join(words)} {rng.integers(0, 50)},{label}")
    home.mkdir(parents=True, exist_ok=True)
    (home / "rows.csv").write_text("\n".join(lines) + "\n")
    new_project(home / "p", home / "rows.csv", options={"kind": kind}, lfs=LFS)
    return home / "p"


def given(session: epoxy.Session) -> dict[str, str]:
    """The train rows labelled by hand."""
    train = session.split("train")
    return {
        str(train.ids[r]): session.classes[train.truth[r]] for r in np.flatnonzero(train.labelled)
    }


def labelable(n_rows: int = 200) -> list[str]:
    return [f"r{at}" for at in range(n_rows) if at % 8]


# kills: a process that imports everything once and forks a writer for every kill


def kill_writers(home: Path, count: int, seed: int = 0) -> Tally:
    """Kill writers at random moments: whatever was acknowledged is there, and the rest is whole."""
    tally = Tally()
    for writer, share in WRITERS.items():
        times = round(count * share)
        command = [sys.executable, "-W", "ignore", "-m", "attacks.projects", writer]
        command += [str(home / writer), str(times), str(seed)]
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=60 + 20 * times,
            env=os.environ | {"PYTHONPATH": path},
        )
        found = [json.loads(line) for line in done.stdout.splitlines()]
        tally.attacks += len(found)
        for each in found:
            tally.lost += each["lost"]
            tally.different += each["different"]
            tally.raw += each["raw"]
        if len(found) < times:
            tally.raw.append(f"{writer}: {done.stderr[-300:]}")
    return tally


def main(writer: str, place: str, times: str, seed: str) -> None:
    """Fork, kill and look, so many times."""
    home, rng = Path(place), np.random.default_rng(int(seed))
    write, look, span = _writer(writer, home)
    known: list[str] = []
    epoxy.Epoxy(radius=0.2).fit(rows()).report(rows())  # so that no fork loads compiled loops anew
    for at in range(int(times)):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            write(at, lambda said: os.write(writing, f"{said}\n".encode()))  # noqa: B023
            os._exit(0)
        os.close(writing)
        time.sleep(float(rng.uniform(0, span)))
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as said:
            known += [line.decode() for line in said.read().split(b"\n")[:-1]]
        sys.stdout.write(json.dumps(_looked(lambda: look(at, known))) + "\n")  # noqa: B023
        sys.stdout.flush()


def _looked(look: Callable[[], tuple[list[str], list[str]]]) -> dict[str, list[str]]:
    """What another process finds, so that this one never opens anything and can go on forking."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        found: dict[str, list[str]] = {"lost": [], "different": [], "raw": []}
        try:
            found["lost"], found["different"] = look()
        except BaseException as error:  # noqa: BLE001 — to count them is the point
            found["raw"] = [f"{type(error).__name__}: {error}"]
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        text = said.read()
    os.wait()
    return dict(json.loads(text or '{"lost": [], "different": [], "raw": ["it crashed"]}'))


def _writer(name: str, home: Path) -> tuple[Callable[..., None], Callable[..., Any], float]:
    """What to do until killed, what to look at then, and within how many seconds to kill."""
    if name == "model":
        return *_model_writer(home), 0.1
    project = make(home)
    if name == "decisions":
        return *_decider(project), 1.5
    if name == "project":
        return *_maker(home), 0.15
    return (*_exporter(project), 1.5) if name == "export" else (*_opener(project), 1.5)


def _decider(project: Path) -> tuple[Callable[..., None], Callable[..., Any]]:
    names = labelable()

    def write(at: int, say: Callable[[str], Any]) -> None:
        session = epoxy.Session.open(project)
        for step in range(10_000):
            row, label = names[(37 * at + step) % len(names)], ("ham", "spam")[(at + step) % 2]
            say(f"{row} {label} asked")
            session.label(row, label)
            say(f"{row} {label} done")

    def look(at: int, known: list[str]) -> tuple[list[str], list[str]]:
        right: dict[str, set[str | None]] = {}
        for row, label, word in (each.split() for each in known):
            if word == "done":
                right[row] = {label}
            else:  # killed before it could say so, a label may be there or not
                right.setdefault(row, {None}).add(label)
        found = given(epoxy.Session.open(project))
        return [row for row, labels in right.items() if found.get(row) not in labels], []

    return write, look


def _maker(home: Path) -> tuple[Callable[..., None], Callable[..., Any]]:
    def write(at: int, say: Callable[[str], Any]) -> None:
        new_project(home / f"n{at}", home / "rows.csv", lfs=LFS)
        say("made")

    def look(at: int, known: list[str]) -> tuple[list[str], list[str]]:
        with suppress(epoxy.errors.StoreError):  # it is there already
            new_project(home / f"n{at}", home / "rows.csv", lfs=LFS)
        whole = (home / f"n{at}" / "lfs.py").read_text() == LFS
        Project.read(home / f"n{at}")
        return [], [] if whole else ["lfs.py is cut short"]

    return write, look


def _exporter(project: Path) -> tuple[Callable[..., None], Callable[..., Any]]:
    target = project / "labels" / "out.csv"

    def write(at: int, say: Callable[[str], Any]) -> None:
        session = epoxy.Session.open(project)
        for _ in range(10_000):
            session.export(target)
            say("written")

    def look(at: int, known: list[str]) -> tuple[list[str], list[str]]:
        if not target.exists():
            return (["the export"] if known else []), []
        whole = len(target.read_text().splitlines()) == 201
        return [], [] if whole else ["the export is cut short"]

    return write, look


def _model_writer(home: Path) -> tuple[Callable[..., None], Callable[..., Any]]:
    votes = rows().votes
    models = [epoxy.MajorityVote(class_balance=[a, 1 - a]).fit(votes) for a in (0.25, 0.75)]

    def write(at: int, say: Callable[[str], Any]) -> None:
        for step in range(10_000):
            epoxy.storage.save(models[step % 2], home / "model")
            say("saved")

    def look(at: int, known: list[str]) -> tuple[list[str], list[str]]:
        if not known and not (home / "model").exists():
            return [], []
        share = epoxy.load(home / "model").class_balance_[0]
        return [], [] if share in (0.25, 0.75) else ["the model"]

    return write, look


def _opener(project: Path) -> tuple[Callable[..., None], Callable[..., Any]]:
    def answer() -> list[list[float]]:
        found: list[list[float]] = epoxy.Session.open(project).probabilities.tolist()
        return found

    expected = project.parent / "expected.json"

    def write(at: int, say: Callable[[str], Any]) -> None:
        shutil.rmtree(project / ".epoxy", ignore_errors=True)
        answer()

    def look(at: int, known: list[str]) -> tuple[list[str], list[str]]:
        found = answer()
        if not expected.exists():
            expected.write_text(json.dumps(found))
        return [], [] if found == json.loads(expected.read_text()) else ["the probabilities"]

    return write, look


# damaged files


def flip_projects(home: Path, count: int, seed: int = 0) -> Tally:
    """Flip files of a project: same labels and probabilities, or a sentence.

    Files that a person wrote may say something else then; there only raw errors count.
    """
    tally, rng = Tally(), np.random.default_rng(seed)
    project = make(home / "whole", 80)
    session = epoxy.Session.open(project)
    for row in labelable(80)[:20]:
        session.label(row, "spam")
    session.set_radius("a", 0.3)
    session.folder.log.close()
    session.folder.runner.close()
    files = sorted(each for each in project.parent.rglob("*") if each.is_file())
    expected, told = None, given(session)
    for at in range(-1, count):
        copy = fresh_copy(project.parent, home / "copy")
        file = copy / files[int(rng.integers(len(files)))].relative_to(project.parent)
        if at >= 0:
            flip(file, rng)

        def ask() -> tuple[np.ndarray, dict[str, str]]:
            opened = epoxy.Session.open(copy / "p")  # noqa: B023
            opened.folder.log.close()
            opened.folder.runner.close()
            return opened.probabilities, given(opened)

        if expected is None:
            expected = ask()[0]
            continue
        ours = ".epoxy" in file.parts

        def right(found: tuple[np.ndarray, dict[str, str]]) -> bool:
            same = found[1] == told and np.array_equal(found[0], expected)  # noqa: B023
            return same or not ours  # noqa: B023

        tally.check(f"flip {at} of {file.relative_to(copy)}", ask, right)
    return tally


# a disk that is full or cannot be written to


def full_disk(home: Path, limits: tuple[int, ...] = (0, 100, 5_000, 60_000)) -> Tally:
    """Every writer where files may not grow beyond a limit: a sentence, and no decision half made."""
    tally = Tally()
    for limit in limits:
        for name in ("label", "export", "save", "new", "open"):
            place = home / f"{name}-{limit}"
            project = make(place, 80)
            found = _looked(lambda: _limited(name, project, limit))  # noqa: B023
            tally.attacks += 1
            for key in ("lost", "different", "raw"):
                getattr(tally, key).extend(f"{name}, {limit} bytes: {each}" for each in found[key])
    return tally


def _limited(name: str, project: Path, limit: int) -> tuple[list[str], list[str]]:
    session = epoxy.Session.open(project)
    if name == "open":
        shutil.rmtree(project / ".epoxy" / "votes", ignore_errors=True)
    before, hard = given(session), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    told = dict(before)
    try:
        if name == "label":
            for row in labelable(80):
                session.label(row, "spam")
                told[row] = "spam"
        elif name == "export":
            session.export(project / "labels" / "out.parquet")
        elif name == "save":
            session.model().save(project / "model")
        elif name == "new":
            new_project(project.parent / "another", project.parent / "rows.csv", lfs=LFS * 50)
        else:
            epoxy.Session.open(project)
    except epoxy.EpoxyError:
        pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    lost = [] if given(session) == told else ["what is shown is not what was acknowledged"]
    again = given(epoxy.Session.open(project))
    return lost + [row for row in told if again.get(row) != told[row]], []


def read_only(home: Path) -> Tally:
    """Every writer in a folder mounted to be read only: a sentence or an answer, and no file changed."""
    tally = Tally()
    for name in ("label", "export", "save", "new", "open"):
        project = make(home / name, 80)
        before = _contents(home / name)
        with mounted_read_only(home / name):
            found = _looked(lambda: _written(name, project))  # noqa: B023
        tally.attacks += 1
        tally.refused += "refused" in found["different"]
        tally.raw.extend(f"{name}: {each}" for each in found["raw"])
        if _contents(home / name) != before:
            tally.different.append(f"{name}: a file was written")
    return tally


@contextmanager
def mounted_read_only(folder: Path) -> Iterator[None]:
    """A folder in which nobody may write, not even root; raises OSError where mounting is not allowed."""
    for given in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
        if subprocess.run(["mount", *given], capture_output=True, check=False).returncode:
            raise OSError("this user may not mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _contents(home: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in home.rglob("*") if each.is_file()}


def _written(name: str, project: Path) -> tuple[list[str], list[str]]:
    try:
        if name == "new":
            new_project(project.parent / "another", project.parent / "rows.csv", lfs=LFS)
            return [], []
        session = epoxy.Session.open(project)
        if name == "label":
            session.label("r2", "spam")
        elif name == "export":
            session.export(project / "labels" / "out.parquet")
        elif name == "save":
            session.model().save(project / "model")
    except epoxy.EpoxyError:
        return [], ["refused"]
    return [], []


# many at once

EDITOR = """
import sys, threading, epoxy
session = epoxy.Session.open(sys.argv[1])
def edit(rows):
    for row in rows:
        session.label(row, "ham")
parts = [sys.argv[2 + at :: 4] for at in range(4)]
threads = [threading.Thread(target=edit, args=(part,)) for part in parts]
[each.start() for each in threads]
[each.join() for each in threads]
"""


def many_editors(home: Path, edits: int) -> Tally:
    """Two processes of four threads each, all of them labelling rows of one project."""
    project = make(home, 400)
    names = labelable(400)[:edits]
    command = [sys.executable, "-c", EDITOR, str(project)]
    running = [subprocess.Popen([*command, *names[at::2]]) for at in range(2)]
    tally = Tally(attacks=len(names))
    codes = [each.wait(timeout=600) for each in running]
    tally.raw += [f"an editor ended with {code}" for code in codes if code]
    found = given(epoxy.Session.open(project))
    tally.lost += [row for row in names if found.get(row) != "ham"]
    return tally


if __name__ == "__main__":
    main(*sys.argv[1:])
