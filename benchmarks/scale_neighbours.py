"""Approximate neighbours of millions of rows, and a session that opens on them.

    python benchmarks/scale_neighbours.py DIR               every step, the results in benchmarks/results
    python benchmarks/scale_neighbours.py DIR build 300000  one step: data, build, session or append

Vectors are synthetic (`speed_data.mixture`: 384 numbers on the sphere in unequal clusters), ten sources
vote like keyword rules. Each step is a process of its own, and its peak memory that process's; what it
found is in DIR. A build that is killed goes on where it was when the step is run again, and its processor
time is that of all its processes. Latencies stand beside the load of the machine they were taken at.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from speed_data import mixture, rules

HERE = Path(__file__).resolve().parent
SIZES = (100_000, 300_000, 1_000_000)
DIMENSION, SOURCES, LABELS = 384, 10, 300
APPENDED, TIMES = 500, 3
EDITS = {"epoxy": 20, "fusion": 8}
RECALL = 0.98
MEMORY = 3 << 30
APPEND_AT = 200_000


def main() -> None:
    """Run one step, or all of them."""
    home = Path(sys.argv[1])
    home.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        STEPS[sys.argv[2]](home, int(sys.argv[3]), *sys.argv[4:])
        return
    for n in SIZES:
        _step(home, "data", n)
        _step(home, "build", n)
    for model in ("epoxy", "fusion"):
        _step(home, "session", SIZES[-1], model)
        for kind in ("exact", "approximate"):
            _step(home, "append", APPEND_AT, model, kind)
    found = {path.stem: json.loads(path.read_text()) for path in sorted(home.glob("found-*.json"))}
    target = HERE / "results" / "scale-neighbours.json"
    target.write_text(json.dumps(found, indent=1) + "\n")


def _step(home: Path, *words: Any) -> None:
    subprocess.run([sys.executable, __file__, str(home), *map(str, words)], check=True)


def data(home: Path, n: int) -> None:
    """Vectors and votes on disk."""
    if (home / f"votes-{n}.npy").exists():
        return
    vectors, cluster = mixture(n, DIMENSION, 0)
    np.save(home / f"vectors-{n}.npy", vectors)
    np.save(home / f"votes-{n}.npy", rules(vectors, cluster, SOURCES, (0.02, 0.1), 0))


def build(home: Path, n: int) -> None:
    """Lists of mapped vectors, kept where a session with the same cache finds them."""
    from epoxy.neighbors import approximate
    from epoxy.neighbors.points import Points

    spent = home / f"spent-{n}-{os.getpid()}"
    before = sum(float(path.read_text() or 0) for path in home.glob(f"spent-{n}-*"))

    def note(done: int, total: int) -> None:
        spent.write_text(str(time.process_time()))

    vectors = np.load(home / f"vectors-{n}.npy", mmap_mode="r")
    points, settings = Points.over(vectors), approximate.Settings(recall=RECALL)
    folder = approximate.folder_in(home / "cache", points, settings)
    start = time.monotonic()
    made = approximate.build(points, settings, memory=MEMORY, folder=folder, progress=note)
    _write(
        home / f"found-build-{n}.json",
        {
            "rows": n,
            "cpu_seconds": before + time.process_time(),
            "last_process_seconds": time.monotonic() - start,
            "recall": made.recall.value,
            "interval": [made.recall.low, made.recall.high],
            "cells": len(made.partition.centre),
            "probes": made.partition.probes,
            "memory_allowed_gb": MEMORY / 1e9,
        },
    )


def session(home: Path, n: int, model: str) -> None:
    """Open a session of n rows on the lists, then move radii and edit votes."""
    from epoxy.neighbors import Settings

    train, dev = _splits(home, n)
    start, cpu = time.perf_counter(), time.process_time()
    made = _session(home, train, dev, model, Settings(recall=RECALL))
    opened = time.perf_counter() - start, time.process_time() - cpu
    rng = np.random.default_rng(3)
    radius = _medium(made)
    names = made.sources

    def read() -> None:
        made.probabilities, made.dev_probabilities, made.scores  # noqa: B018

    def moved(number: int) -> Callable[[], None]:
        far = radius * float(rng.uniform(0.7, 1.0))
        return lambda: (made.set_radius(names[number % SOURCES], far), read())  # type: ignore[func-returns-value]

    def voted(number: int) -> Callable[[], None]:
        name = names[number % SOURCES]
        column = _edited(made, name, 0.3 if number % 2 else 0.05, rng)
        return lambda: (made.set_votes(name, column), read())  # type: ignore[func-returns-value]

    made.set_radii(dict.fromkeys(names, radius))
    moves = [_timed(moved(number)) for number in range(EDITS[model])]
    made.set_radii(dict.fromkeys(names, radius))
    edits = [_timed(voted(number)) for number in range(EDITS[model])]
    _write(
        home / f"found-session-{n}-{model}.json",
        {
            "rows": n,
            "model": model,
            "said": list(made.notes),
            "hand_labels": made.state.workspace.labels.count,
            "open_seconds": opened[0],
            "open_cpu_seconds": opened[1],
            "radius_ms": _summary(moves),
            "edit_ms": _summary(edits),
        },
    )


def append(home: Path, n: int, model: str, kind: str) -> None:
    """Add 500 rows to a session of n, three times; neighbours are kept in the cache from run to run."""
    vectors, cluster = mixture(n + TIMES * APPENDED, DIMENSION, 0)
    votes = rules(vectors, cluster, SOURCES, (0.02, 0.1), 0)
    train, dev = _split(vectors[:n], votes[:n]), _dev(vectors, votes)
    starts = range(n, len(vectors), APPENDED)
    more = [_split(vectors[at : at + APPENDED].copy(), votes[at : at + APPENDED]) for at in starts]
    del vectors
    made = _session(home, train, dev, model, kind)
    before = _peak()
    times = [_timed(lambda rows=rows: made.append(rows)) for rows in more]  # type: ignore[misc]
    _write(
        home / f"found-append-{n}-{model}-{kind}.json",
        {
            "rows": n,
            "model": model,
            "neighbours": kind,
            "wall_seconds": [wall / 1e3 for wall, _ in times],
            "cpu_seconds": [cpu / 1e3 for _, cpu in times],
            "peak_gb_before": before,
        },
    )


STEPS: dict[str, Callable[..., None]] = {
    "data": data,
    "build": build,
    "session": session,
    "append": append,
}


def _session(home: Path, train: Any, dev: Any, model: str, neighbours: Any) -> Any:
    import epoxy

    chosen = epoxy.Epoxy(radius="auto") if model == "epoxy" else epoxy.Fusion()
    return epoxy.Session(train, dev, chosen, neighbours=neighbours, cache=home / "cache")


def _split(vectors: np.ndarray, votes: np.ndarray, y: np.ndarray | None = None) -> Any:
    import epoxy

    return epoxy.Split(epoxy.Votes(votes, classes=["no", "yes"]), vectors, y=y)


def _dev(vectors: np.ndarray, votes: np.ndarray) -> Any:
    """Rows of train again, with labels that follow a direction, one in ten the other way."""
    rng = np.random.default_rng(1)
    some = np.sort(rng.permutation(len(vectors))[:LABELS])
    side = vectors[some] @ rng.normal(size=vectors.shape[1]).astype(np.float32)
    y = (side > np.median(side)) ^ (rng.random(LABELS) < 0.1)
    return _split(vectors[some], votes[some], y.astype(int))


def _splits(home: Path, n: int) -> tuple[Any, Any]:
    vectors = np.load(home / f"vectors-{n}.npy", mmap_mode="r")
    votes = np.load(home / f"votes-{n}.npy")
    return _split(vectors, votes), _dev(vectors, votes)


def _medium(made: Any) -> float:
    """The radius at which half of the abstaining rows that somebody listed votes near are reached."""
    loans = made.state.workspace.sources[0].loans[0]
    far = loans.distance[(loans.own < 0) & np.isfinite(loans.distance)]
    return float(np.median(far))


def _edited(made: Any, name: str, share: float, rng: np.random.Generator) -> np.ndarray:
    """Half of `share` of a source's votes goes, and as much comes on rows it lends to."""
    source = made.state.workspace.source(name)
    column = source.own[0].copy()
    voting = np.flatnonzero(column >= 0)
    near = np.flatnonzero((column < 0) & np.isfinite(source.loans[0].distance))
    count = min(max(1, round(share * len(voting) / 2)), len(near))
    said = column[voting[0]]
    column[rng.choice(voting, count, replace=False)] = -1
    column[rng.choice(near, count, replace=False)] = said
    return column


def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds on the clock and of the processor."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu)


def _summary(times: list[tuple[float, float]]) -> dict[str, float]:
    wall, cpu = np.array(times).T
    return {
        "p50": float(np.median(wall)),
        "worst": float(wall.max()),
        "cpu_p50": float(np.median(cpu)),
        "cpu_worst": float(cpu.max()),
        "n": len(wall),
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _write(path: Path, found: dict[str, Any]) -> None:
    found |= {"peak_gb": _peak(), "load": os.getloadavg()[0], "threads": os.cpu_count()}
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
