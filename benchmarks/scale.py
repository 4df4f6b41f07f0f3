"""Past memory: from files to labels, with wall time, CPU time and peak memory of every stage.

    python benchmarks/scale.py make big/ --rows 1000000
    python benchmarks/scale.py run big/ --memory 6GB --csv big.csv
    python benchmarks/scale.py make votes/ --rows 10000000 --votes-alone
    python benchmarks/scale.py run votes/ --memory 2GB
    python benchmarks/scale.py memory big/          # the same project opened in memory, for comparison

Rows are drawn from 2,000 topics of two classes in a space of 384 dimensions; a row's text holds words
that ten keyword functions look for; 500 rows carry a label. What a run keeps, the next one reads.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kept import read_cases, write_cases

DIMENSION, TOPICS, SOURCES, LABELS = 384, 2000, 10, 500
BLOCK = 50_000
WORDS = [f"word{at}" for at in range(SOURCES)]


def make(folder: Path, n_rows: int, *, votes_alone: bool, seed: int = 0) -> None:
    """Write a project: rows and vectors in blocks, so that making it takes little memory too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(TOPICS, 24)) @ rng.normal(size=(24, DIMENSION)) / 5
    centre = centre.astype(np.float32)
    kind = (centre[:, 0] > np.median(centre[:, 0])).astype(int)
    labelled = set(rng.choice(n_rows, LABELS, replace=False).tolist())
    rows = votes = vectors = None
    for start in range(0, n_rows, BLOCK):
        count = min(BLOCK, n_rows - start)
        topic = rng.integers(TOPICS, size=count)
        y = kind[topic]
        matrix = draw_votes(rng, y)
        ids = np.arange(start, start + count)
        label = [("b" if y[at] else "a") if start + at in labelled else None for at in range(count)]
        columns: dict[str, Any] = {"id": ids, "label": pa.array(label, pa.string())}
        if not votes_alone:
            said = [" ".join(WORDS[s] for s in np.flatnonzero(row >= 0)) for row in matrix]
            columns["text"] = [
                f"row {start + at} about {topic[at]} {each}" for at, each in enumerate(said)
            ]
            if vectors is None:
                shape = (n_rows, DIMENSION)
                vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
            noise = rng.normal(size=(count, DIMENSION)).astype(np.float32)
            vectors[start : start + count] = centre[topic] + 0.6 * noise
        table = pa.table(columns)
        rows = pq.ParquetWriter(folder / "rows.parquet", table.schema) if rows is None else rows
        rows.write_table(table)
        if votes_alone:
            table = pa.table({"id": ids, **{name: matrix[:, at] for at, name in enumerate(WORDS)}})
            votes = (
                pq.ParquetWriter(folder / "votes.parquet", table.schema) if votes is None else votes
            )
            votes.write_table(table)
    for each in (rows, votes):
        if each is not None:
            each.close()
    write_project(folder, votes_alone=votes_alone)


def draw_votes(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    """Ten one-sided sources, each right on five of six rows it votes on."""
    names = np.arange(SOURCES) % 2
    rate = np.linspace(0.02, 0.15, SOURCES)
    speaks = rng.random((len(y), SOURCES)) < np.where(y[:, None] == names, rate, rate / 5)
    return np.where(speaks, names, -1).astype(np.int8)


def write_project(folder: Path, *, votes_alone: bool) -> None:
    """epoxy.toml and lfs.py."""
    toml = (
        '[rows]\nfile = "rows.parquet"\nid = "id"\nlabel = "label"\n[classes]\nnames = ["a", "b"]\n'
    )
    if votes_alone:
        toml += '[votes]\nfile = "votes.parquet"\n[vectors]\nencoder = "none"\n'
    else:
        toml += '[vectors]\nencoder = "vectors.npy"\n'
        lines = ["import epoxy\n"]
        lines += [
            f"{word} = epoxy.keywords({'b' if at % 2 else 'a'!r}, {word!r}, column='text', name={word!r})"
            for at, word in enumerate(WORDS)
        ]
        (folder / "lfs.py").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "epoxy.toml").write_text(toml, "utf-8")


class Watch:
    """Wall time, CPU time and peak memory by stage, memory of the functions' process included."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}
        self.peak, self._name = 0, ""
        self._start = (time.perf_counter(), _cpu())
        self._here = 0
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while True:
            self._here = max(self._here, memory())
            self.peak = max(self.peak, self._here)
            time.sleep(0.05)

    def begin(self, name: str) -> None:
        """Another stage begins, and the last one ends."""
        now = (time.perf_counter(), _cpu())
        if self._name:
            before = self.stages.setdefault(self._name, {"seconds": 0, "cpu": 0, "peak_mb": 0})
            before["seconds"] += now[0] - self._start[0]
            before["cpu"] += now[1] - self._start[1]
            before["peak_mb"] = max(before["peak_mb"], self._here / 1e6)
        self._name, self._start, self._here = name, now, memory()

    def progress(self, what: str) -> Callable[[int, int], None]:
        """What a run reports to."""
        self.begin(what)
        return lambda done, total: None


def _cpu() -> float:
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in parts) + _living_children()


def _children() -> list[str]:
    file = Path(f"/proc/self/task/{os.getpid()}/children")
    return file.read_text().split() if file.exists() else []


def _living_children() -> float:
    ticks = 0
    for child in _children():
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        except (OSError, IndexError):
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def memory() -> int:
    """Resident bytes of this process and of those it started."""
    total = 0
    for process in ("self", *_children()):
        try:
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


def run(folder: Path, size: str | None, model: str | None) -> dict[str, Any]:
    """Label a project within so much memory (None: without a limit)."""
    from epoxy.blocks import label

    watch, start, cpu = Watch(), time.perf_counter(), _cpu()
    watch.begin("opening")
    found = label(folder, memory=size, model=model, progress=watch.progress)
    watch.begin("end")
    return {
        "rows": found.rows,
        "model": found.model,
        "memory": size,
        "seconds": time.perf_counter() - start,
        "cpu": _cpu() - cpu,
        "peak_mb": watch.peak / 1e6,
        "recall": None if found.recall is None else str(found.recall),
        "scores": dict(found.scores),
        "stages": watch.stages,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Make or run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("make", "run", "memory"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--votes-alone", action="store_true")
    parser.add_argument("--memory", default="6GB")
    parser.add_argument("--model", choices=("fusion", "epoxy"))
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.do == "make":
        make(options.folder, options.rows, votes_alone=options.votes_alone)
        return
    size = None if options.do == "memory" else options.memory
    found = run(options.folder, size, options.model)
    for name, each in found.get("stages", {}).items():
        print(
            f"{name:>22} {each['seconds']:8.1f} s {each['cpu']:8.1f} CPU s {each['peak_mb']:8.0f} MB"
        )
    print(
        json.dumps({key: value for key, value in found.items() if key != "stages"}, default=float)
    )
    if options.csv is not None:
        case = f"{found['rows']}, {options.do}" + ", votes alone" * options.votes_alone
        write_cases(options.csv, {**read_cases(options.csv), case: found})


if __name__ == "__main__":
    sys.exit(main())
