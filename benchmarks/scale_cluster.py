"""A cluster on one machine beside one process: the same project in memory, past it, and on two workers.

    python benchmarks/scale.py make rows/ --rows 200000
    python benchmarks/scale_cluster.py rows/ --workers 2 --memory 2GB --csv cluster.csv

Each way runs in a process of its own, which starts with nothing kept; CPU seconds are of all processes.
The labels of the three are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from kept import write_cases

WAYS = ("memory", "disk", "cluster")


def once(way: str, folder: Path, workers: int, size: str, model: str | None) -> dict[str, Any]:
    """Label a project one way; the labels go to a file of that name."""
    from epoxy import cluster
    from epoxy.blocks import label
    from scale import Watch

    target, watch = folder / f"{way}.parquet", Watch()
    start = time.perf_counter()
    watch.begin("start")
    given: dict[str, Any] = {"model": model, "to": target, "progress": watch.progress}
    if way == "cluster":
        with cluster.local(workers, memory=size) as run:
            label(folder, run=run, **given)
            watch.begin("end")
    else:
        label(folder, memory=None if way == "memory" else size, **given)
    watch.begin("end")
    seconds = time.perf_counter() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "way": way,
        "seconds": seconds,
        "cpu": sum(each.ru_utime + each.ru_stime for each in used),
        "load": os.getloadavg()[0],
        "stages": {name: each["seconds"] for name, each in watch.stages.items()},
    }


def compared(folder: Path) -> dict[str, Any]:
    """How far the labels of each way are from those in memory."""
    import pyarrow.parquet as pq

    tables = {way: pq.read_table(folder / f"{way}.parquet") for way in WAYS}
    first = tables["memory"]
    numbers = [each.name for each in first.schema if str(each.type) == "double"]
    return {
        way: {
            "other_labels": int(
                np.sum(np.array(table["label"].to_pylist()) != np.array(first["label"].to_pylist()))
            ),
            "largest_difference": max(
                float(np.abs(table[name].to_numpy() - first[name].to_numpy()).max())
                for name in numbers
            ),
        }
        for way, table in tables.items()
    }


def main() -> None:
    """Run every way, one after the other, and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--model", choices=("fusion", "epoxy"))
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.way is not None:
        given = options.workers, options.memory, options.model
        print(json.dumps(once(options.way, options.folder, *given)))
        return
    found: dict[str, Any] = {"workers": options.workers, "memory": options.memory, "ways": []}
    for way in WAYS:
        shutil.rmtree(options.folder / ".epoxy", ignore_errors=True)
        command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
        ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        each = json.loads(ran.stdout.strip().splitlines()[-1])
        found["ways"].append(each)
        print(
            f"{way:>8} {each['seconds']:7.1f} s {each['cpu']:7.1f} CPU s  load {each['load']:.1f}"
        )
    found["compared"] = compared(options.folder)
    print(json.dumps(found["compared"]))
    if options.csv is not None:
        ways = {each["way"]: each | found["compared"][each["way"]] for each in found["ways"]}
        write_cases(options.csv, ways)


if __name__ == "__main__":
    main()
