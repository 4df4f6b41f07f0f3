"""Whole data sets in memory, past it and on a cluster of two workers: one answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import epoxy
from block_projects import agree, write_project
from epoxy import cluster
from epoxy.blocks import label

pytestmark = pytest.mark.slow


def decided(home: Path, data: Path, kind: str, most: int | None = None) -> Path:
    """A project of all train and dev rows, with radii and labels on train rows (not the true ones).

    `most` takes so many train rows only.
    """
    told = json.loads((data / "meta.json").read_text("utf-8"))
    sizes = (("train", most), ("dev", None))
    votes, vectors = (
        np.concatenate([np.load(data / f"{what}-{part}.npy")[:count] for part, count in sizes])
        for what in ("votes", "vectors")
    )
    truth = pq.read_table(data / "dev.parquet").column("label").to_pylist()
    y = np.full(len(votes), -1)
    y[-len(truth) :] = [told["classes"].index(each) for each in truth]
    scoring = f'positive = "{told["positive"]}"' if told["positive"] else ""
    write_project(
        home,
        votes.astype(np.int8),
        vectors.astype(np.float32),
        y,
        told["classes"],
        model=f'kind = "{kind}"' + ('\nscoring = "f1"' if scoring and kind == "fusion" else ""),
        more=scoring,
        parts=3,
    )
    session = epoxy.Session.open(home)
    session.set_radius("s0", 0.3)
    session.set_radius("s1", None)
    for at in range(0, 3000, 100):
        session.label(f"r{at}", told["classes"][at // 100 % 2], chosen="random" if at % 3 else None)
    return home


def labels(path: Any) -> Any:
    return pq.read_table(path)


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
@pytest.mark.parametrize("name", ["agnews", "spouse"])
def test_memory_disk_and_cluster_agree_on_real_data(tmp_path, shared_data, name, kind):
    home = decided(tmp_path / "project", shared_data / name, kind)

    memory = labels(label(home, to=tmp_path / "memory.parquet").path)

    for count in (2, 7, 16):
        options = {"rows_at_once": -(-len(memory) // count), "to": tmp_path / "disk.parquet"}
        agree(memory, labels(label(home, **options).path))
    shutil.rmtree(home / ".epoxy" / "neighbours")
    with cluster.local(2, memory="1GB") as runner:
        spread = label(home, run=runner, to=tmp_path / "cluster.parquet")
    agree(memory, labels(spread.path))
