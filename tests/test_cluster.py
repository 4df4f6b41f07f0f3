from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clustered import a_project, decide, labels_of
from epoxy import Epoxy, cluster
from epoxy.shards.labelling import label

ROWS = 80  # of a shard: eight of them


@pytest.fixture(scope="module")
def client():
    with cluster.local(workers=2, memory="1GB") as made:
        yield made


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = a_project(tmp_path_factory.mktemp("cluster") / "project")
    decide(folder)
    return folder


def copy_of(project: Path, folder: Path) -> Path:
    return Path(shutil.copytree(project, folder / "copy"))


def test_a_cluster_labels_as_one_process_does_bit_for_bit(project, client, tmp_path):
    alone, spread = copy_of(project, tmp_path / "a"), copy_of(project, tmp_path / "b")

    label(alone, model=Epoxy(), rows_per_shard=ROWS)
    cluster.label(spread, client, model=Epoxy(), rows_per_shard=ROWS)

    assert labels_of(spread).equals(labels_of(alone))
