"""What may fail on a cluster, with schedulers, workers and drivers that are really ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import distributed  # noqa: F401 - its settings are there before a test sets some
import pytest

import clustered
from clustered import Running, a_project, decide, labels_of
from epoxy import Epoxy, cluster
from epoxy.blocks import label
from epoxy.cli import main
from epoxy.errors import ClusterError, StoreError

pytestmark = pytest.mark.slow
ROWS = 80  # at a time: eight times


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = a_project(tmp_path / "project")
    decide(folder)
    shutil.rmtree(folder / ".epoxy" / "votes")  # nothing has voted yet
    return folder


@pytest.fixture
def expected(project: Path, tmp_path: Path) -> Any:
    """What one process makes of the project, in a copy."""
    copy = Path(shutil.copytree(project, tmp_path / "copy"))
    label(copy, model=Epoxy(), rows_at_once=ROWS)
    return labels_of(copy)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "dask").mkdir()
    with Running(tmp_path / "dask") as made:
        yield made


def at(stage: str, do: Callable[[], None]) -> Any:
    """Progress that does something once, when some of the work is done."""
    todo = [do]

    def progress(what: str) -> Any:
        def report(done: int, total: int) -> None:
            if what.startswith(stage) and done and todo:
                todo.pop()()

        return report

    return progress


def test_a_worker_killed_in_the_middle_costs_no_answer(project, expected):
    with cluster.local(2, memory="1GB") as runner:
        first = min(runner.client.run(os.getpid).values())
        progress = at("voting", lambda: os.kill(first, signal.SIGKILL))

        label(project, model=Epoxy(), run=runner, rows_at_once=ROWS, progress=progress)

        assert first not in runner.client.run(os.getpid).values()
    assert labels_of(project).equals(expected)


def test_workers_of_this_machine_that_are_all_lost_are_started_again(tmp_path):
    with cluster.local(2, memory="1GB") as runner:
        assert list(runner(clustered.EndOnce(tmp_path, 2), range(6))) == [0, 1, 2, 3, 4, 5]
        runner.client.run(clustered.close_worker, wait=False)  # and its nanny with it
        while runner.client.nthreads():
            time.sleep(0.05)

        assert list(runner(clustered.number, range(4))) == [0, 1, 2, 3]


def test_workers_whose_memory_is_full_are_told(tmp_path):
    with cluster.local(1, memory="640MB") as runner:  # Dask pauses at that, and ends at 760 MB
        runner.patience = 2.0
        with pytest.raises(
            ClusterError, match=r"no worker has taken work for \d+ s, because Dask pauses"
        ):
            list(runner(clustered.hold_memory, range(40)))


def test_rows_that_end_every_worker_are_told(tmp_path):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        cluster.local(1, memory="1GB") as runner,
        pytest.raises(ClusterError, match=r"some rows ended every worker .*\(1, the last"),
    ):
        list(runner(clustered.end_worker, range(2)))


def test_a_lost_scheduler_is_told_and_the_run_is_taken_up(project, expected, running):
    running.worker()
    progress = at("voting", running.processes[0].kill)
    with (
        cluster.connect(running.address) as runner,
        pytest.raises(ClusterError, match=r"scheduler at tcp://\S+ was lost, .*run again"),
    ):
        label(project, model=Epoxy(), run=runner, rows_at_once=ROWS, progress=progress)
    assert not (project / "labels" / "labels.parquet").exists()

    label(project, model=Epoxy(), rows_at_once=ROWS)

    assert labels_of(project).equals(expected)


DRIVER = """
import os, signal, sys
from pathlib import Path
from epoxy import Epoxy, blocks, cluster
from test_cluster_faults import at, ROWS

if __name__ == "__main__":
    project, pids = map(Path, sys.argv[1:])
    with cluster.local(2, memory="1GB") as runner:
        pids.write_text(" ".join(map(str, runner.client.run(os.getpid).values())))
        end = at("voting", lambda: os.kill(os.getpid(), signal.SIGKILL))
        blocks.label(project, model=Epoxy(), run=runner, rows_at_once=ROWS, progress=end)
"""


def test_a_killed_driver_leaves_no_process_and_its_run_is_taken_up(project, expected, tmp_path):
    script, pids = tmp_path / "driver.py", tmp_path / "pids"
    script.write_text(DRIVER, "utf-8")
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])

    ended = subprocess.run(
        [sys.executable, str(script), str(project), str(pids)],
        env={**os.environ, "PYTHONPATH": paths},
    )

    assert ended.returncode == -signal.SIGKILL
    assert not (project / "labels" / "labels.parquet").exists()
    for each in map(int, pids.read_text("utf-8").split()):
        wait_for_end(each)
    with cluster.local(2, memory="1GB") as runner:
        label(project, model=Epoxy(), run=runner, rows_at_once=ROWS)
    assert labels_of(project).equals(expected)


def wait_for_end(process: int) -> None:
    """A worker notices by itself that its driver is gone; pytest's own time-out is the limit."""
    for _ in range(600):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{process}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {process} goes on")


def test_a_worker_of_another_version_is_refused_before_work_is_sent(project, running, tmp_path):
    other = tmp_path / "other" / "epoxy_ws-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: epoxy-ws\nVersion: 9.9\n", "utf-8"
    )
    paths = os.pathsep.join([str(other.parent), *sys.path])
    running.worker(PYTHONPATH=paths)

    with (
        cluster.connect(running.address) as runner,
        pytest.raises(ClusterError, match=r"worker tcp://\S+ has epoxy 9.9, and the driver 0"),
    ):
        label(project, model=Epoxy(), run=runner)


def test_when_no_worker_is_left_waiting_has_an_end(running, tmp_path):
    running.worker()
    with (
        cluster.connect(running.address) as runner,
        pytest.raises(ClusterError, match=r"has had no worker for \d+ s; start some"),
    ):
        list(cluster.Dask(runner.client, patience=1.0)(clustered.end_worker, range(2)))


def test_work_that_the_scheduler_cannot_read_is_told(running, tmp_path):
    running.worker()
    (tmp_path / "only_here.py").write_text("def number(part): return part", "utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        from only_here import number
    finally:
        sys.path.remove(str(tmp_path))

    with (
        cluster.connect(running.address) as runner,
        pytest.raises(
            ClusterError, match=r"scheduler at \S+ cancelled the work \(lost dependencies\)"
        ),
    ):
        list(runner(number, range(2)))


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """A small file system in place of a folder, with what is in the folder."""
    made_again = shutil.ignore_patterns("votes", "neighbours")
    aside = Path(shutil.copytree(folder, folder.with_name("aside"), ignore=made_again))
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True
    )
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_and_nothing_passes_for_finished(project):
    with mounted(project, "1m"), cluster.local(2, memory="1GB") as runner:
        with pytest.raises(
            StoreError, match=r"cannot be written \(No space left on device\); make"
        ):
            label(project, model=Epoxy(), run=runner, rows_at_once=ROWS)

        assert not (project / "labels" / "labels.parquet").exists()


def test_a_worker_that_does_not_see_the_folder_is_refused(project, running):
    hide = f'mount -t tmpfs none {project} && exec "$@"'
    ran = subprocess.run(["unshare", "-m", "sh", "-c", hide, "-", "true"], capture_output=True)
    if ran.returncode:
        pytest.skip(f"a folder cannot be hidden here: {ran.stderr.decode().strip()}")
    running.worker("unshare", "-m", "sh", "-c", hide, "-")

    with (
        cluster.connect(running.address) as runner,
        pytest.raises(StoreError, match=r"worker tcp://\S+ does not see \S+ \(No such file.*share"),
    ):
        label(project, model=Epoxy(), run=runner)


def test_the_command_labels_on_a_scheduler_and_tells_the_dashboard(
    project, running, capfd, tmp_path
):
    running.worker()

    code = main(["label", str(project), "--model", "epoxy", "--scheduler", running.address])

    said = capfd.readouterr()
    assert code == 0, said.err
    assert "labelled 600 rows with Epoxy" in said.out
    assert "1 workers, dashboard: http://" in said.err


def test_the_command_labels_in_processes_of_this_machine(project, capfd):
    options = ["--cluster", "local", "--workers", "2", "--memory", "1GB", "--json", "-"]

    code = main(["label", str(project), *options])

    said = capfd.readouterr()
    assert code == 0, said.err
    assert '"rows": 600' in said.out
    assert "2 workers, dashboard: http://127.0.0.1:" in said.err


def test_an_unreachable_scheduler_ends_the_command_with_2(project, capfd):
    with dask.config.set({"distributed.comm.timeouts.connect": "300ms"}):
        code = main(["label", str(project), "--scheduler", "tcp://127.0.0.1:1"])

    assert code == 2
    assert capfd.readouterr().err.startswith(
        "epoxy label: no scheduler answers at tcp://127.0.0.1:1"
    )
