from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

import epoxy
from epoxy import files
from epoxy.files import beside, replace_folder, standing, sweep, write_whole

NOBODY = 999999999


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("content", [b"new", lambda path: path.write_bytes(b"new")])
def test_a_file_is_replaced_as_a_whole(content, durable, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"old")

    write_whole(tmp_path / "a.txt", content, durable=durable)

    assert (tmp_path / "a.txt").read_bytes() == b"new"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_cannot_be_filled_leaves_the_old_one_and_nothing_else(tmp_path):
    def fill(path):
        path.write_bytes(b"half")
        raise RuntimeError("no more")

    write_whole(tmp_path / "a.txt", b"old")
    with pytest.raises(RuntimeError, match="no more"):
        write_whole(tmp_path / "a.txt", fill)

    assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


def test_the_next_write_sweeps_what_dead_processes_left_of_that_file(tmp_path):
    path = tmp_path / "a[1].txt"  # a name that means something else to glob
    dead, living = beside(path, process=NOBODY), beside(path, process=os.getppid())
    other = beside(tmp_path / "b.txt", process=NOBODY)
    for left in (dead, living, other):
        left.write_bytes(b"half")

    write_whole(path, b"new")

    assert [left.exists() for left in (dead, living, other)] == [False, True, True]
    sweep(tmp_path)
    assert not other.exists()


def test_files_of_another_machine_are_left_for_a_day(tmp_path, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(files, "_host", lambda: "elsewhere.example")
        old, new = (beside(tmp_path / "a", process=NOBODY) for _ in range(2))
    for left in (old, new):
        left.write_bytes(b"half")
    yesterday = time.time() - 2 * 24 * 3600
    os.utime(old, (yesterday, yesterday))

    sweep(tmp_path, "a")

    assert names(tmp_path) == [new.name]


def test_a_folder_that_cannot_be_filled_leaves_the_old_one(tmp_path):
    def fill(folder):
        (folder / "half").touch()
        raise RuntimeError("no more")

    replace_folder(tmp_path / "m", lambda folder: (folder / "old").touch())
    with pytest.raises(RuntimeError, match="no more"):
        replace_folder(tmp_path / "m", fill)

    assert names(tmp_path) == ["m"]
    assert names(tmp_path / "m") == ["old"]


def test_a_rename_that_fails_brings_the_old_folder_back(tmp_path, monkeypatch):
    rename = os.rename

    def refuses(source, target):
        if str(source).endswith(".tmp"):
            raise PermissionError("not here")
        rename(source, target)

    replace_folder(tmp_path / "m", lambda folder: (folder / "old").touch())
    monkeypatch.setattr(os, "rename", refuses)
    with pytest.raises(PermissionError, match="not here"):
        replace_folder(tmp_path / "m", lambda folder: (folder / "new").touch())

    assert names(tmp_path) == ["m"]
    assert names(tmp_path / "m") == ["old"]


def test_a_folder_set_aside_stands_until_there_is_a_new_one(tmp_path):
    aside = beside(tmp_path / "m", "old", NOBODY)
    aside.mkdir()

    sweep(tmp_path, "m")
    assert standing(tmp_path / "m") == aside

    replace_folder(tmp_path / "m", lambda folder: (folder / "new").touch())
    assert standing(tmp_path / "m") == tmp_path / "m"
    assert names(tmp_path) == ["m"]


# each call that changes the disk, and each sync, is the last one in turn; exits with the model's name
KILLED = """
    import os, shutil, sys
    import epoxy
    from pathlib import Path

    votes = [[0, 1], [1, 1]]
    old, new = (epoxy.MajorityVote(class_balance=[a, 1 - a]).fit(votes) for a in (0.25, 0.75))
    home = Path(sys.argv[1])

    def mortal(module, name, counter, die_at):
        call = getattr(module, name)
        def dies(*given, **more):
            counter.append(name)
            if len(counter) == die_at:
                os._exit(9)
            return call(*given, **more)
        setattr(module, name, dies)

    for die_at in range(1, 40):
        folder = home / str(die_at) / "model"
        epoxy.persistence.save(old, folder)
        child = os.fork()
        if child == 0:
            counter = []
            for module, name in [(os, "rename"), (os, "fsync"), (os, "mkdir"), (shutil, "rmtree")]:
                mortal(module, name, counter, die_at)
            epoxy.persistence.save(new, folder)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = epoxy.load(folder).class_balance_[0]
        epoxy.persistence.save(new, folder)
        left = sorted(path.name for path in folder.parent.iterdir())
        print(code, found, epoxy.load(folder).class_balance_[0], *left)
        if code == 0:
            break
"""


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_model_whose_save_is_killed_at_any_step_is_the_old_or_the_new(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(KILLED), str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    lines = [line.split() for line in said.stdout.splitlines()]
    killed, (last,) = lines[:-1], lines[-1:]
    assert len(killed) >= 8
    assert {code for code, *_ in killed} == {"9"}
    assert last[0] == "0"
    assert [float(found) for _, found, *_ in lines] == sorted(float(f) for _, f, *_ in lines)
    assert {found for _, found, *_ in lines} == {"0.25", "0.75"}
    assert all(rest == ["0.75", "model"] for _, _, *rest in lines)  # the next save sweeps


def test_a_model_set_aside_is_loaded(tmp_path):
    model = epoxy.MajorityVote(class_balance=[0.25, 0.75]).fit([[0, 1], [1, 1]])
    epoxy.persistence.save(model, tmp_path / "model")

    (tmp_path / "model").rename(beside(tmp_path / "model", "old", NOBODY))

    assert epoxy.load(tmp_path / "model").class_balance_.tolist() == [0.25, 0.75]


def test_a_folder_of_a_cache_is_swept_once_and_not_for_every_file(tmp_path, monkeypatch):
    swept = []
    monkeypatch.setattr(files, "sweep", lambda *given: swept.append(given))

    for name in "abc":
        write_whole(tmp_path / name, b"x", durable=False)

    assert swept == [(tmp_path,)]


def test_what_a_killed_process_left_in_a_cache_is_removed_by_the_next_one(tmp_path):
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    left = beside(tmp_path / "old", process=int(gone.stdout))
    left.write_bytes(b"half")

    write_whole(tmp_path / "new", b"x", durable=False)

    assert sorted(each.name for each in tmp_path.iterdir()) == ["new"]
