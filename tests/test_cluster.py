"""Labelling on a cluster, with real processes: one LocalCluster of two workers serves the module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import pyarrow.parquet as pq
import pytest

import clustered
from clustered import a_project, decide, labels_of
from epoxy import Epoxy, Fusion, cluster
from epoxy.blocks import label
from epoxy.cli import main
from epoxy.cluster.checking import check_versions, sees
from epoxy.cluster.runner import AHEAD
from epoxy.errors import (
    AlignmentError,
    ClusterError,
    CodeError,
    MissingExtra,
    ParameterError,
    StoreError,
)

ROWS = 160  # at a time: four times


@pytest.fixture(scope="module")
def runner():
    with cluster.local(workers=2, memory="1GB") as made:
        yield made


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = a_project(tmp_path_factory.mktemp("cluster") / "project")
    decide(folder)
    return folder


def copy_of(project: Path, folder: Path) -> Path:
    """Where nothing has voted yet."""
    folder.mkdir(exist_ok=True)
    ignored = shutil.ignore_patterns("votes", "neighbours")
    return Path(shutil.copytree(project, folder / "copy", ignore=ignored))


def test_a_cluster_labels_as_one_process_does(project, runner, tmp_path):
    alone, spread = copy_of(project, tmp_path / "a"), copy_of(project, tmp_path / "b")
    loads = tmp_path / "loads"
    (spread / "words.py").write_text(
        f"open({str(loads)!r}, 'a').write('loaded\\n')\n{clustered.WORDS}", "utf-8"
    )

    for model in (Fusion(), Epoxy()):
        label(alone, model=model, rows_at_once=ROWS)
        label(spread, model=model, run=runner, rows_at_once=ROWS)

        assert labels_of(spread).equals(labels_of(alone))
    # twice to know the functions and twice on the labelled rows, and once in each worker
    assert loads.read_text("utf-8").count("loaded") <= 4 + 2


@pytest.mark.slow
def test_neighbours_of_many_rows_are_the_same_whoever_finds_them(runner, tmp_path):
    alone = a_project(tmp_path / "a", n_rows=40_000)
    spread = copy_of(alone, tmp_path / "b")

    one = label(alone, model=Epoxy(), to=tmp_path / "alone.parquet")
    other = label(spread, run=runner, model=Epoxy(), to=tmp_path / "spread.parquet")

    assert one.recall == other.recall is not None
    assert pq.read_table(one.path).equals(pq.read_table(other.path))


def test_results_come_in_the_order_of_the_parts(runner):
    assert list(runner(clustered.number_late, range(20))) == list(range(20))


def test_what_a_function_holds_reaches_every_part(runner):
    assert list(runner(clustered.Plus(1100), range(3))) == [1100, 1101, 1102]


def test_only_so_many_parts_are_on_the_way_and_none_after_the_end(runner):
    made = runner(clustered.number, range(100))

    next(made)
    on_the_way = [str(each) for each in runner.client.futures]
    made.close()

    assert len([each for each in on_the_way if each.startswith("number-")]) <= AHEAD * 2 + 1
    assert not [each for each in runner.client.futures if str(each).startswith("number-")]


def test_a_part_may_use_the_threads_of_its_worker(runner):
    assert list(runner(clustered.threads, range(2))) == [1, 1]


def test_workers_of_this_machine_do_not_watch_themselves_all_the_time(runner):
    said = runner.client.run(dask.config.get, "distributed.worker.profile.enabled")

    assert set(said.values()) == {False}


def test_a_killed_worker_costs_no_answer(runner, tmp_path):
    assert list(runner(clustered.EndOnce(tmp_path), range(20))) == list(range(20))


def test_an_error_of_the_work_comes_as_it_is(runner):
    with pytest.raises(AlignmentError, match="rows and vectors differ; write them again"):
        list(runner(clustered.refuse, range(20)))


def test_functions_that_do_not_run_on_a_worker_are_told(runner):
    with pytest.raises(
        CodeError, match=r"do not run on worker tcp://.*: lfs.py fails on line 3.*; what travels is"
    ):
        list(runner(clustered.fail_to_load, range(20)))


def test_a_full_disk_is_told_with_the_worker(runner):
    with pytest.raises(StoreError, match=r"worker tcp://\S+ on \S+ has no room left for votes"):
        list(runner(clustered.fill_disk, range(20)))


def test_a_file_that_a_worker_does_not_find_is_told(runner):
    with pytest.raises(StoreError, match=r"worker tcp://.* cannot use nothing.npy \(No such file"):
        list(runner(clustered.miss_file, range(20)))


def test_a_worker_without_memory_is_told(runner):
    with pytest.raises(ClusterError, match=r"worker tcp://.* ran out of memory; give a smaller"):
        list(runner(clustered.use_all_memory, range(20)))


@pytest.mark.slow
def test_functions_that_import_what_a_worker_lacks_do_not_travel(
    project, runner, tmp_path, monkeypatch
):
    folder = copy_of(project, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "of_the_driver.py").write_text("", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    with (folder / "lfs.py").open("a") as file:
        file.write("\nimport of_the_driver\n")

    with pytest.raises(
        CodeError,
        match=r"do not run on worker .*No module named 'of_the_driver'.*; what travels is",
    ):
        label(folder, model=Epoxy(), run=runner, rows_at_once=ROWS)


@pytest.mark.slow
def test_functions_that_depend_on_where_they_are_loaded_do_not_travel(
    project, runner, tmp_path, monkeypatch
):
    folder = copy_of(project, tmp_path)
    monkeypatch.setenv("MONEY_WORD", "gift")
    (folder / "words.py").write_text(
        "import os\nMONEY = ['money', os.environ.get('MONEY_WORD', 'free')]\n", "utf-8"
    )

    with pytest.raises(CodeError, match=r"makes other functions of \['money'\] when it is loaded"):
        label(folder, model=Epoxy(), run=runner, rows_at_once=ROWS)


def test_more_memory_than_a_worker_has_is_refused(project, runner):
    with pytest.raises(ParameterError, match="--memory 9GB is more than the 1,000 MB that Dask"):
        label(project, run=runner, memory="9GB")


def test_nobody_at_the_address_is_told():
    with (
        pytest.raises(
            ClusterError, match=r"no scheduler answers at tcp://127.0.0.1:1 within 0.2 s"
        ),
        cluster.connect("tcp://127.0.0.1:1", timeout=0.2),
    ):
        pass


@pytest.mark.parametrize("address", ["carrier://pigeon", "carrier://pigeon:1", "somewhere"])
def test_what_is_no_address_is_told(address):
    with (
        pytest.raises(ClusterError, match=rf"'{address}' cannot be used as the address"),
        cluster.connect(address, timeout=0.2),
    ):
        pass


def test_a_scheduler_without_workers_is_told():
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=0, dashboard_address=None) as empty,
        pytest.raises(ClusterError, match=r"has no workers after 0.2 s; start some: dask worker"),
        cluster.connect(empty.scheduler_address, timeout=0.2),
    ):
        pass


def test_encryption_comes_from_the_configuration_of_dask(tmp_path):
    from distributed import LocalCluster, Security

    own = Security.temporary()
    place = {"ca-file": own.tls_ca_file, "key": own.tls_client_key, "cert": own.tls_client_cert}
    for name, text in place.items():
        (tmp_path / name).write_text(text, "utf-8")
    settings = {
        "distributed.comm.require-encryption": True,
        "distributed.comm.tls.ca-file": str(tmp_path / "ca-file"),
        "distributed.comm.tls.client.key": str(tmp_path / "key"),
        "distributed.comm.tls.client.cert": str(tmp_path / "cert"),
    }
    options = {"n_workers": 1, "processes": False, "protocol": "tls", "dashboard_address": None}

    with LocalCluster(security=own, **options) as running:
        address = running.scheduler_address
        with (
            pytest.raises(ClusterError, match=r"tls://\S+ .*distributed.comm.tls"),
            cluster.connect(address, timeout=5),
        ):
            pass
        with dask.config.set(settings), cluster.connect(address, timeout=60) as made:
            assert address.startswith("tls://")
            assert made.client.submit(sum, [1, 2]).result() == 3


def test_workers_without_a_cluster_of_this_machine_are_refused(tmp_path, capsys):
    assert main(["label", str(tmp_path), "--workers", "2", "--scheduler", "tcp://a:1"]) == 2

    assert (
        "--workers is the number of processes of --cluster local; add it" in capsys.readouterr().err
    )


def test_a_cluster_without_workers_is_refused():
    with pytest.raises(ParameterError, match="at least one worker, got 0"), cluster.local(0):
        pass


class Versions:
    """Stands in for a client of workers in other environments."""

    def __init__(self, **worker: Any) -> None:
        own = {"python": ".".join(map(str, sys.version_info)), "epoxy-ws": "0.1.0"}
        self.told = {
            "client": {"packages": own},
            "scheduler": {"packages": own},
            "workers": {"tcp://10.0.0.7:4000": {"packages": own | worker}},
        }

    def get_versions(self, packages: list[str]) -> dict[str, Any]:
        return self.told


@pytest.mark.parametrize(
    ("worker", "told"),
    [
        (
            {"epoxy-ws": "0.0.9"},
            r"worker tcp://10.0.0.7:4000 has epoxy 0.0.9, and the driver 0.1.0",
        ),
        (
            {"epoxy-ws": None},
            r"has no epoxy, .* run there: pip install 'epoxy-ws\[cluster\]==0.1.0'",
        ),
        (
            {"python": "3.9.1.final.0"},
            r"worker tcp://10.0.0.7:4000 runs Python 3.9, and the driver",
        ),
    ],
)
def test_a_worker_of_another_version_is_refused(worker, told):
    check_versions(Versions())

    with pytest.raises(ClusterError, match=told):
        check_versions(Versions(**worker))


def test_a_worker_looks_whether_it_sees_what_the_driver_sees(tmp_path):
    mark = tmp_path / "mark"

    assert sees(str(mark)) == "No such file or directory"
    mark.write_text("theirs", "utf-8")
    assert sees(str(mark)) == "another folder is there"
    mark.write_text("mark", "utf-8")
    assert sees(str(mark)) is None


def test_without_dask_the_cure_is_named(tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError(name='distributed')", "utf-8")
    code = "from epoxy import cluster; cluster.local"
    paths = os.pathsep.join([str(tmp_path), *sys.path])

    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": paths}
    ).stderr

    assert MissingExtra.__name__ in told
    assert "epoxy.cluster needs distributed; run: pip install 'epoxy-ws[cluster]'" in told
