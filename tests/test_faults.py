"""What goes wrong around a project (another session, a full disk, a damaged file) costs no label."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import epoxy
from attacks import interrupts
from attacks.tally import within
from epoxy.errors import AlignmentError, EpoxyError, ParameterError, StoreError
from epoxy.project.create import new_project
from epoxy.session import log as stores
from test_one_room import LFS, write_messages


def messages(folder: Path, *, ids: bool = True, labelled: bool = True) -> Path:
    """A project of messages; without ids, rows are named by their position."""
    rows = write_messages(folder / "rows.csv")
    lines = [line.split(",") for line in rows.read_text().splitlines()]
    order = [at for at, kept in enumerate([ids, True, labelled]) if kept]
    rows.write_text("\n".join(",".join(line[at] for at in order) for line in lines) + "\n")
    new_project(folder / "project", rows, classes=["ham", "spam"], lfs=LFS)
    return folder / "project"


def with_epoxy(folder: Path) -> Path:
    path = folder / "epoxy.toml"
    path.write_text(path.read_text().replace('kind = "fusion"', 'kind = "epoxy"'))
    return folder


@pytest.fixture
def fresh(tmp_path) -> Path:
    """A project that nobody has opened."""
    return with_epoxy(messages(tmp_path))


@pytest.fixture
def project(voted, tmp_path) -> Path:
    return with_epoxy(voted(messages, tmp_path))


def opened(folder: Path) -> epoxy.Session:
    return epoxy.Session.open(folder)


def given(session: epoxy.Session) -> dict[str, str]:
    """The train rows labelled by hand."""
    train = session.split("train")
    return {
        str(train.ids[row]): session.classes[train.y[row]] for row in np.flatnonzero(train.labelled)
    }


def log_of(folder: Path) -> Path:
    return folder / ".epoxy" / "state.sqlite"


# two at once


def test_decisions_of_two_sessions_survive_each_other(project):
    first, second = opened(project), opened(project)

    first.set_radius("prize", 0.25)
    second.switch("cash", False)
    second.label("m1", "ham")
    first.label("m2", "spam")

    again = opened(project)
    for session in (first, again):
        assert session.radii["prize"] == 0.25
        assert session.switched_off == ("cash",)
        assert given(session) == {"m1": "ham", "m2": "spam"}
    assert (first.probabilities == again.probabilities).all()
    second.set_radius("home", 0.1)  # and so has seen what the first did
    assert given(second) == {"m1": "ham", "m2": "spam"}


EDITOR = """
import sys, epoxy
session = epoxy.Session.open(sys.argv[1])
for row in sys.argv[2:]:
    session.label(row, "ham")
    print(row, flush=True)
"""


def test_decisions_of_two_processes_at_once_survive_each_other(project):
    session = opened(project)
    rows = [[f"m{at}" for at in range(start, 60, 5)] for start in (1, 2)]
    command = [sys.executable, "-c", EDITOR, str(project), *rows[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as editor:
        editor.stdout.readline()  # it is at it
        for row in rows[1]:
            session.label(row, "ham")
        editor.stdout.read()  # to its end: nobody writes to a pipe that is closed

    assert editor.returncode == 0
    assert set(given(opened(project))) == {row for each in rows for row in each}


def test_undo_of_what_another_session_decided_anew_is_refused_in_words(project):
    first, second = opened(project), opened(project)
    first.label("m1", "ham")
    second.label("m1", "spam")

    with pytest.raises(ParameterError, match="the label of m1 was decided anew by another session"):
        first.undo()

    assert given(first) == given(opened(project)) == {"m1": "spam"}
    second.undo()
    assert given(second) == {"m1": "ham"}


def test_undo_of_a_radius_another_session_left_alone_works(project):
    first, second = opened(project), opened(project)
    first.set_radius("prize", 0.25)
    second.set_radius("cash", 0.5)

    first.undo()

    assert opened(project).radii["prize"] == "auto"
    assert opened(project).radii["cash"] == 0.5


# a store that cannot be written


def break_disk(db: sqlite3.Connection) -> None:
    """No page more than there are."""
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")


def mend_disk(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA max_page_count = 1000000")


def forbid(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA query_only = ON")


def allow(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA query_only = OFF")


@pytest.mark.parametrize(
    ("spoil", "mend", "message"),
    [
        (break_disk, mend_disk, "the disk is full; make room and try again"),
        (forbid, allow, "the folder cannot be written to; make it writable"),
    ],
)
def test_an_edit_that_cannot_be_written_changes_nothing(spoil, mend, message, project):
    session = opened(project)
    session.label("m1", "ham")
    before, version = session.probabilities, session.version
    db = session.folder.log._db
    spoil(db)

    def label_until_it_fails() -> None:
        for at in range(2, 60, 5):
            session.label(f"m{at}", "spam", by="x" * 4000)

    with pytest.raises(StoreError, match=f"nothing was changed: {message}"):
        label_until_it_fails()

    mend(db)
    written = given(opened(project))
    assert given(session) == written
    assert session.version - version == len(written) - 1
    assert len(written) > 1 or (session.probabilities == before).all()
    session.label("m58", "ham")
    assert given(opened(project))["m58"] == "ham"


@contextmanager
def no_file_grows() -> Iterator[None]:
    """Writing fails, a COMMIT's as any other."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_commit_that_fails_leaves_session_and_log_in_step(project):
    session, other = opened(project), opened(project)
    session.label("m1", "ham")
    with no_file_grows(), pytest.raises(StoreError, match="nothing was changed"):
        session.label("m2", "spam")
    other.set_radius("prize", 0.25)

    assert session.catch_up() == ("radius of prize",)

    with within(30):
        session.label("m3", "ham")
    for each in (session, opened(project)):
        assert given(each) == {"m1": "ham", "m3": "ham"}
        assert each.radii["prize"] == 0.25


def fill(folder: Path, room: int) -> None:
    """Leave so many bytes on a disk."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    os.truncate(folder / "filler", max(0, (folder / "filler").stat().st_size - room))


def test_a_full_disk_leaves_an_open_session_in_step(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)]
    if (
        sys.platform != "linux"
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("this user may not mount a small disk")
    try:
        project = interrupts.make(place / "p", "epoxy")
        session, other = epoxy.Session.open(project), epoxy.Session.open(project)
        told = dict[str, str]()
        for room in (0, 8_192, 65_536):
            fill(place, room)
            refused = 0
            for at in range(20):
                row, label = f"r{4 * at + 1}", "xy"[(at + room) % 2]
                try:
                    with within(30):
                        session.label(row, label)
                    told[row] = label
                except StoreError:
                    refused += 1
                assert given(session) == told
            assert refused
            (place / "filler").unlink()
            other.label("r2", "x")
            told["r2"] = "x"
            with within(30):
                session.set_radius("a", room / 1e6)
            assert given(session) == given(epoxy.Session.open(project)) == told
            other.catch_up()
            assert other.radii["a"] == room / 1e6
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


# interrupts


@pytest.mark.parametrize(
    ("kind", "count", "every"),
    [
        ("epoxy", 30, 5),
        pytest.param("epoxy", 1000, 1, marks=pytest.mark.slow),
        pytest.param("fusion", 1000, 1, marks=pytest.mark.slow),
    ],
)
def test_interrupts_leave_session_log_and_other_processes_in_step(kind, count, every, tmp_path):
    command = [sys.executable, "-m", "attacks.interrupts", str(tmp_path / "p"), kind]
    done = subprocess.run(
        [*command, str(count), "0", str(every)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60 + count,
        cwd=Path(__file__).parent,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [count, [], []]


def test_an_edit_while_another_process_holds_the_database_changes_nothing(project, monkeypatch):
    monkeypatch.setattr(stores, "PATIENCE", 0.05)
    session = opened(project)
    before = session.probabilities
    other = sqlite3.connect(log_of(project), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreError, match="another process is writing to it; try again"):
        session.label("m1", "ham")

    other.execute("ROLLBACK")
    other.close()
    assert (session.probabilities == before).all()
    assert given(session) == {}
    session.label("m1", "ham")
    assert given(opened(project)) == {"m1": "ham"}


def test_an_edit_after_the_folder_was_emptied_is_refused(project):
    session = opened(project)
    for each in (project / ".epoxy").glob("state.sqlite*"):
        each.unlink()

    with pytest.raises(
        StoreError, match=r"deleted or replaced while it was open.*open the project again"
    ):
        session.label("m1", "ham")

    assert given(session) == {}


def test_an_edit_after_another_process_made_the_database_again_is_refused(project):
    session = opened(project)
    session.label("m1", "ham")
    for each in (project / ".epoxy").glob("state.sqlite*"):
        each.unlink()
    assert given(opened(project)) == {"m1": "ham"}

    with pytest.raises(StoreError, match="nothing was changed: open the project again"):
        session.label("m2", "ham")

    assert given(opened(project)) == {"m1": "ham"}


def test_a_saved_function_whose_votes_could_not_be_written_is_taken_up_later(project):
    session = opened(project)
    (project / "lfs.py").write_text(LFS.replace('"prize", "winner"', '"offer", "mobile"'))
    forbid(session.folder.log._db)
    with pytest.raises(StoreError, match="nothing was changed"):
        session.reload()
    allow(session.folder.log._db)

    session.reload()

    expected = opened(project).split().votes.column("prize")
    assert (session.split().votes.column("prize") == expected).all()


def test_a_folder_that_cannot_hold_decisions_says_so(fresh):
    (fresh / ".epoxy").write_text("in the way")

    with pytest.raises(StoreError, match=r"\.epoxy cannot be made .* make the project folder writ"):
        opened(fresh)


def test_a_text_that_could_not_be_written_is_made_up_for(project):
    session = opened(project)
    text = project / ".epoxy" / "decisions.jsonl"
    session.label("m1", "ham")
    lines = text.read_bytes()
    text.unlink()
    text.mkdir()
    session.label("m2", "spam")
    assert any("decisions.jsonl could not be written" in note for note in session.notes)
    text.rmdir()
    text.write_bytes(lines + b'{"number": 2, "cut sh')

    session.label("m3", "ham")

    for each in (project / ".epoxy").glob("state.sqlite*"):
        each.unlink()
    assert given(opened(project)) == {"m1": "ham", "m2": "spam", "m3": "ham"}


# a store that was damaged


def decide(folder: Path) -> None:
    session = opened(folder)
    for at in range(40):
        session.label(f"m{at}" if at % 5 else "m1", "ham" if at % 3 else "spam")
    session.set_radius("prize", float("inf"))
    session.switch("cash", False)
    session.folder.log.close()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def deleted(path: Path) -> None:
    path.unlink()


def scrambled(path: Path) -> None:
    path.write_bytes(b"nonsense" * 2000)


def header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[:16] = b"SQLite format 9\0"
    path.write_bytes(content)


def flipped(path: Path) -> None:
    """A bit of every hundredth byte behind the header, so that structure and content are hit."""
    content = bytearray(path.read_bytes())
    for at in range(200, len(content), 100):
        content[at] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


@pytest.fixture(scope="module")
def decided(tmp_path_factory):
    """A project with decisions, to be copied, and the session that they make."""
    folder = with_epoxy(messages(tmp_path_factory.mktemp("decided")))
    decide(folder)
    session = opened(folder)
    session.folder.log.close()
    for each in log_of(folder).parent.glob("state.sqlite-*"):
        each.unlink()
    return session, folder


def is_as_decided(again: epoxy.Session, expected: epoxy.Session) -> None:
    assert given(again) == given(expected)
    assert len(given(again)) > 25
    assert again.radii == expected.radii
    assert again.radii["prize"] == float("inf")
    assert again.switched_off == ("cash",)
    assert (again.probabilities == expected.probabilities).all()
    again.label("m58", "ham")


@pytest.mark.parametrize("lose", [emptied, deleted])
def test_a_database_that_is_gone_starts_from_its_text_with_a_note(lose, decided, tmp_path):
    expected, folder = decided
    project = shutil.copytree(folder.parent, tmp_path / "copy") / folder.name

    lose(log_of(project))
    again = opened(project)

    assert "decisions, which were taken from decisions.jsonl" in again.notes[0]
    assert again.notes[1:] == ("switched off, and so without a say: cash",)
    is_as_decided(again, expected)
    last = opened(project)
    assert last.notes == again.notes[1:]
    assert given(last)["m58"] == "ham"


@pytest.mark.parametrize("damage", [scrambled, header, flipped, cut])
def test_a_damaged_database_is_refused_and_the_cure_it_names_loses_nothing(
    damage, decided, tmp_path
):
    expected, folder = decided
    project = shutil.copytree(folder.parent, tmp_path / "copy") / folder.name
    damage(log_of(project))
    left = log_of(project).read_bytes()

    with pytest.raises(StoreError, match=r"move it to another place .* the 42 decisions"):
        opened(project)

    assert log_of(project).read_bytes() == left
    log_of(project).rename(tmp_path / "aside")
    is_as_decided(opened(project), expected)


def test_a_database_older_than_its_text_is_brought_up_to_date(project):
    session = opened(project)
    session.label("m1", "ham")
    session.folder.log.close()
    older = log_of(project).read_bytes()
    again = opened(project)
    again.label("m2", "spam")
    again.folder.log.close()
    for each in log_of(project).parent.glob("state.sqlite*"):
        each.unlink()
    log_of(project).write_bytes(older)

    restored = opened(project)

    assert given(restored) == {"m1": "ham", "m2": "spam"}
    assert "lacked 1 decisions" in restored.notes[0]


def test_nothing_readable_is_never_answered_with_advice_that_loses_labels(project):
    decide(project)
    (project / ".epoxy" / "decisions.jsonl").unlink()
    scrambled(log_of(project))

    with pytest.raises(
        StoreError, match=r"restore it, or decisions\.jsonl beside it, from a backup"
    ) as e:
        opened(project)

    assert "delete" not in str(e.value)
    assert log_of(project).read_bytes() == b"nonsense" * 2000


def test_a_store_of_a_later_version_is_refused(project):
    opened(project)
    with sqlite3.connect(log_of(project)) as db:
        db.execute("PRAGMA user_version = 9")

    with pytest.raises(StoreError, match="was written in format 9, this version reads 3; update"):
        opened(project)


def test_a_store_of_the_first_version_opens_with_its_decisions(fresh):
    log_of(fresh).parent.mkdir()
    with sqlite3.connect(log_of(fresh)) as db:
        db.executescript(
            """
            CREATE TABLE labels (row TEXT PRIMARY KEY, label TEXT, at REAL);
            CREATE TABLE sources (name TEXT PRIMARY KEY, radius REAL, is_on INTEGER, extended INTEGER);
            CREATE TABLE history (number INTEGER PRIMARY KEY, what TEXT, detail TEXT, at REAL);
            INSERT INTO labels VALUES ('m1', 'ham', 1.0), ('m2', 'spam', 2.0), ('m3', NULL, 3.0);
            INSERT INTO sources VALUES ('prize', 0.25, 1, 1), ('cash', NULL, 0, 0), ('gone', 0.5, 1, 1);
            PRAGMA user_version = 1;
            """
        )

    session = opened(fresh)

    assert given(session) == {"m1": "ham", "m2": "spam"}
    assert session.radii["prize"] == 0.25
    assert session.radii["cash"] is None
    assert session.switched_off == ("cash",)
    session.label("m3", "ham")
    deleted(log_of(fresh))
    assert given(opened(fresh)) == {"m1": "ham", "m2": "spam", "m3": "ham"}


OLD = Path(__file__).parent / "old_log"


@pytest.mark.parametrize("kept", ["database", "text"])
def test_a_log_of_commit_9dbac5c_opens_with_nothing_lost(kept, tmp_path):
    project = with_epoxy(messages(tmp_path))
    with (project / "epoxy.toml").open("a") as file:
        file.write("\n[labellers]\nann = 0.8\n")
    log_of(project).parent.mkdir()
    if kept == "database":
        with sqlite3.connect(log_of(project)) as db:
            db.executescript((OLD / "state.sql").read_text())
    else:
        shutil.copy(OLD / "decisions.jsonl", log_of(project).parent)

    session = opened(project)

    assert len(session.folder.log.records()) == 24
    assert given(session) == {
        "m1": "ham",
        "m2": "spam",
        "m3": "spam",
        "m6": "spam",
        "m8": "spam",
        "m9": "ham",
        "m11": "spam",
    }
    names, said = session.state.names, session.state.records
    of = {row: said.of(names.find("rows", row)) for row in ("m2", "m3", "m4", "m9")}
    assert [(each.by, each.chosen) for each in of["m3"]] == [("ann", None), ("bob", "teach")]
    assert of["m2"][0].chosen == "random"
    assert of["m4"] == ()
    assert (of["m9"][0].by, of["m9"][0].at) == ("ann", 6.0)
    assert session.state.workspace.balance == (0.75, 0.25)
    assert session.switched_off == ("sorry",)
    assert session.radii == dict.fromkeys(("prize", "cash", "claim", "home")) | {
        "sorry": "auto",
        "friendly": 0.0,
    }
    fusion = epoxy.Session.open(project, model="fusion")
    assert fusion.radii == {
        "prize": 0.25,
        "cash": None,
        "claim": "auto",
        "home": float("inf"),
        "sorry": "auto",
        "friendly": 0.0,
    }
    session.label("m13", "ham")
    for each in log_of(project).parent.glob("state.sqlite*"):
        each.unlink()
    assert given(opened(project)) == given(session)


# files that nobody could use


def test_settings_that_no_project_can_have_are_refused_in_words(fresh):
    path = fresh / "epoxy.toml"
    sound = path.read_text()
    many = ", ".join(f'"c{at}"' for at in range(40_000))
    wrong = {
        "[limits]\nmemory = nan": "memory = nan under .limits.; expected a number > 0",
        "[limits]\nmemory = inf": "memory = inf under .limits.; expected a number <=",
        "[limits]\nseconds = inf": "seconds = inf",
        "[limits]\nseconds = -1": "seconds = -1",
        f"[limits]\nseconds = {'1' * 1_000_000}": "cannot be read: Exceeds the limit",
        "[labellers]\nann = 1.5": "ann.* under .labellers.; expected a number <= 1",
        f"[votes]\nfile = '{'x' * 5_000}.parquet'": "name too long",
    }
    texts = {f"{sound}\n{more}\n": words for more, words in wrong.items()}
    texts[sound.replace('["ham", "spam"]', f"[{many}]")] = "under .classes.; expected a list"
    texts[sound.replace("../rows.csv", "x" * 5_000 + ".csv")] = "name too long"
    for text, words in texts.items():
        path.write_text(text)
        with within(20), pytest.raises(EpoxyError, match=words):
            opened(fresh)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [os.mkfifo, endless])
@pytest.mark.parametrize(
    "name", ["epoxy.toml", "rows.csv", "rows.parquet", "lfs.py", "v.npy", "votes.parquet"]
)
def test_pipes_and_devices_are_refused_at_once(make, name, fresh):
    rows = "rows.parquet" if name == "rows.parquet" else "rows.csv"
    text = (fresh / "epoxy.toml").read_text().replace('"../rows.csv"', f'"{rows}"')
    shutil.copy(fresh.parent / "rows.csv", fresh / "rows.csv")
    if name == "v.npy":
        text = re.sub('encoder = "[^"]+"', 'encoder = "v.npy"', text)
    if name == "votes.parquet":
        text += '\n[votes]\nfile = "votes.parquet"\n'
    (fresh / "epoxy.toml").write_text(text)
    (fresh / name).unlink(missing_ok=True)
    make(fresh / name)

    with within(20), pytest.raises(StoreError, match=f"{name} is not a regular file"):
        opened(fresh)


def test_vectors_whose_header_claims_terabytes_are_refused(fresh):
    path = fresh / "epoxy.toml"
    path.write_text(re.sub('encoder = "[^"]+"', 'encoder = "v.npy"', path.read_text()))
    with (fresh / "v.npy").open("wb") as file:
        about = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 1000)}
        np.lib.format.write_array_header_1_0(file, about)
        file.write(b"0" * 1000)

    with within(20), pytest.raises(StoreError, match=r"v\.npy cannot be read as vectors"):
        opened(fresh)


# rows that were edited


def texts(session: epoxy.Session, split: str = "train") -> dict[str, str]:
    """Hand labels by the text of their row."""
    at = session.names.index(split)
    column = session.folder.rows.tables[at].column("text").to_pylist()
    known = session.state.workspace.labels
    return {
        column[row]: session.classes[known.y[at][row]]
        for row in np.flatnonzero(known.y[at] >= 0).tolist()
    }


def test_labels_follow_their_rows_when_a_file_without_ids_is_sorted_and_cut(tmp_path):
    folder = messages(tmp_path, ids=False, labelled=False)
    session = opened(folder)
    for row in (3, 50, 90):
        session.label(row, "spam")
    before = texts(session)
    head, *lines = (tmp_path / "rows.csv").read_text().splitlines()
    gone = next(line for line in lines if line in before)

    kept = sorted(line for line in lines if line != gone)
    (tmp_path / "rows.csv").write_text("\n".join([head, *kept]) + "\n")
    again = opened(folder)

    assert texts(again) == {text: label for text, label in before.items() if text != gone}
    assert any("1 row was labelled, and not in the files any more" in note for note in again.notes)
    (tmp_path / "rows.csv").write_text("\n".join([head, *lines]) + "\n")
    assert texts(opened(folder)) == before


def test_rows_that_say_the_same_keep_a_label_each(tmp_path):
    folder = messages(tmp_path, ids=False, labelled=False)
    path = tmp_path / "rows.csv"
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *lines, "cash award 7", "cash award 7"]) + "\n")
    session = opened(folder)
    for row in (160, 161):
        session.label(row, "spam")

    path.write_text("\n".join([head, "cash award 7", *reversed(lines), "cash award 7"]) + "\n")

    known = opened(folder).split("train")
    assert np.flatnonzero(known.labelled).tolist() == [0, 161]


def test_labels_of_a_class_that_was_renamed_are_kept_and_noted(project):
    session = opened(project)
    session.label("m1", "ham")
    session.label("m2", "spam")
    path, rows = project / "epoxy.toml", project.parent / "rows.csv"
    settings, file, functions = path.read_text(), rows.read_text(), LFS

    path.write_text(settings.replace('"ham", "spam"', '"good", "spam"'))
    rows.write_text(file.replace(",ham", ",good"))
    (project / "lfs.py").write_text(functions.replace('"ham"', '"good"'))
    renamed = opened(project)

    assert given(renamed) == {"m2": "spam"}
    assert renamed.notes == (
        "1 row was labelled 'ham', which [classes] does not name any more (m1); "
        "the log keeps what is not used",
    )
    path.write_text(settings)
    rows.write_text(file)
    (project / "lfs.py").write_text(functions)
    assert given(opened(project)) == {"m1": "ham", "m2": "spam"}


def test_ids_that_are_not_unique_are_named(project):
    rows = project.parent / "rows.csv"
    rows.write_text(rows.read_text().replace("m7,", "m8,"))

    with pytest.raises(AlignmentError, match=r"names 1 rows twice in its column 'id': \['m8'\]"):
        opened(project)


@pytest.fixture
def apart(tmp_path) -> Path:
    """A rows file without a label column and without ids, and a dev file with labels."""
    lines = [
        line.split(",") for line in write_messages(tmp_path / "all.csv").read_text().splitlines()
    ]
    train = [text for _, text, label in lines[1:] if not label]
    dev = [f"{text},{label}" for _, text, label in lines[1:] if label]
    (tmp_path / "rows.csv").write_text("\n".join(["text", *train]) + "\n")
    (tmp_path / "dev.csv").write_text("\n".join(["text,label", *dev]) + "\n")
    options = {"dev": str(tmp_path / "dev.csv")}
    new_project(tmp_path / "project", tmp_path / "rows.csv", options=options, lfs=LFS)
    return tmp_path / "project"


def test_a_dev_file_has_labels_and_the_rows_file_needs_none(apart):
    session = opened(apart)

    assert session.names == ("train", "dev")
    assert session.split("dev").labelled.all()
    assert session.scores["rows"] == session.split("dev").n_rows


def test_a_label_of_a_train_row_never_lands_on_a_dev_row(apart):
    session = opened(apart)
    dev = texts(session, "dev")
    session.label(0, "spam" if dev[next(iter(dev))] == "ham" else "ham")
    (said,) = texts(session)
    rows, other = apart.parent / "rows.csv", apart.parent / "dev.csv"
    rows.write_text(
        rows.read_text().replace(f"{said}\n", "")
    )  # now only the dev file has such a row
    other.write_text(other.read_text() + f"{said},ham\n")

    again = opened(apart)

    assert texts(again) == {}
    assert texts(again, "dev") == dev | {said: "ham"}
    assert any("not in the files any more" in note for note in again.notes)


def test_the_log_is_legible_text(project):
    session = opened(project)
    session.label("m1", "ham", chosen="random")

    lines = (project / ".epoxy" / "decisions.jsonl").read_text().splitlines()

    record = json.loads(lines[-1])
    assert record["what"] == "label of m1"
    assert record["edit"]["label"] == "ham"
    assert record["edit"]["chosen"] == "random"
