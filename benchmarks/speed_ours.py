"""What the speed benchmark measures of this package; run by `speed.py`, one task per process.

    python speed_ours.py TASK FOLDER [K]

FOLDER holds vectors.npy and votes.npy; the result is one line of JSON. A process of its own for each
task makes the peak of memory belong to that task.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import speed_fusion
import speed_session
from epoxy.loans import Neighbourhood
from epoxy.neighbors import Graph, Space, lenders, nearest_lenders, warm
from epoxy.neighbors.workers import n_threads
from speed_data import edited
from speed_session import summary, timed

FOLDER = Path(sys.argv[2]) / "neighbours" if len(sys.argv) > 2 else Path("neighbours")
SAMPLE = 2000  # rows on which every edit is checked against a fresh search
EDITS = 24


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def limits(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, float]:
    """Multiplication rate with all threads, and bytes read per second."""
    n, dimension = 4096, vectors.shape[1]
    a, b = vectors[:n], vectors[-n:]
    a, b = np.resize(a, (n, dimension)), np.resize(b, (n, dimension))
    out = np.empty((n, n), dtype=np.float32)
    with threadpool_limits(n_threads()):
        seconds = min(timed(lambda: np.matmul(a, b.T, out=out))[0] for _ in range(6))
    large = np.ones(50_000_000)
    read = min(timed(large.sum)[0] for _ in range(4))
    return {
        "sgemm_gflops": 2e-9 * n * n * dimension / seconds,
        "read_gb": large.nbytes / read / 1e9,
    }


def cold(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, Any]:
    """All sources' nearest votes with nothing prepared."""
    support = votes >= 0
    before = resident_mb()
    seconds = []
    for _ in range(3 if len(vectors) < 50_000 else 1):
        took, found = timed(lambda: _direct(vectors, support))
        seconds.append(took)
    space = Space(vectors)
    candidates = len(np.unique(space.node[support.any(axis=1)]))
    return {
        "seconds": min(seconds),
        "extra_mb": peak_mb() - before,
        "distinct": space.n_nodes,
        "gflops": 2e-9 * space.n_nodes * candidates * space.dimension / min(seconds),
        "checksum": float(sum(far[np.isfinite(far)].sum() for _, far in found)),
    }


def _direct(vectors: np.ndarray, support: np.ndarray) -> list[Any]:
    space = Space(vectors)
    return nearest_lenders(space, space, list(support.T))


def graph(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, Any]:
    """Building the graph; rates count what was executed, and what the rows would cost plainly."""
    before = resident_mb()
    prepared, space = timed(lambda: Space(vectors))
    seconds, built = timed(lambda: Graph.build(space, k))
    n, rows, d = space.n_nodes, len(space), space.dimension
    return {
        "seconds": seconds,
        "prepare_seconds": prepared,
        "k": built.width,
        "distinct": n,
        "extra_mb": peak_mb() - before,
        "peak_mb": peak_mb(),
        "gflops_executed": 2e-9 * n * n * d / seconds,
        "gflops_plain_equivalent": 2e-9 * rows * rows * d / seconds,
    }


def edits(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, Any]:
    """One source's votes change, or its radius moves: how long until its answers are exact again."""
    space = Space(vectors)
    built = Graph.build(space, k)
    support = votes >= 0
    support = support[:, support.any(axis=0)]
    sample = np.zeros(len(support), dtype=bool)
    sample[np.random.default_rng(4).permutation(len(sample))[:SAMPLE]] = True
    asked = [sample & ~each for each in support.T]
    found = nearest_lenders(space, space, list(support.T))
    result: dict[str, Any] = {}
    for name, share in [("tight", 0.1), ("medium", 0.5), ("loose", 0.9)]:
        radii = [float(np.quantile(far[mine], share)) for mine, (_, far) in zip(asked, found)]
        result[name] = _edits_at(built, support, radii, sample)
    return result


def _edits_at(
    built: Graph, support: np.ndarray, radii: list[float], sample: np.ndarray
) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    took, moved, wrong = [], [], 0
    for number in range(EDITS):
        source = number % support.shape[1]
        mine, radius = support[:, source], radii[source]
        _, far = lenders(built, [mine])[0]
        new = edited(mine, far, 0.3 if number % 2 else 0.05, rng)
        seconds, [(row, far)] = timed(lambda s=new: lenders(built, [s]))
        took.append(seconds)
        moved.append(timed(lambda f=far, r=0.8 * radius: f <= np.float32(r))[0])
        [(true, near)] = nearest_lenders(built.train, built.train, [new])
        wrong += int((near[sample] != far[sample]).sum() + (true[sample] != row[sample]).sum())
    return {"edit_ms": summary(took), "radius_ms": summary(moved), "wrong_in_sample": wrong}


def neighbours(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, Any]:
    """Find the neighbours and keep them, so that what follows has them given."""
    train, dev = speed_session.splits(vectors, votes)
    for split in (dev, dev.rows(np.arange(min(speed_fusion.LABELS[0], dev.n_rows)))):
        Neighbourhood.over((train, split), cache=FOLDER)
    return {}


def session(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, Any]:
    """The whole loop, from an edit to new scores."""
    return speed_session.measure(vectors, votes)


def fusion(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, Any]:
    """The whole loop under the default model; neighbours are found by a process of their own."""
    return {**speed_fusion.measure(vectors, votes, FOLDER), "peak_mb": peak_mb()}


def label_model(vectors: np.ndarray, votes: np.ndarray, k: int) -> dict[str, Any]:
    """Our label model alone."""
    return speed_session.label_model(votes)


TASKS = {
    "limits": limits,
    "cold": cold,
    "graph": graph,
    "edits": edits,
    "session": session,
    "neighbours": neighbours,
    "fusion": fusion,
    "label_model": label_model,
}


def main() -> None:
    task, folder, *rest = sys.argv[1:]
    vectors = np.load(Path(folder) / "vectors.npy")
    votes = np.load(Path(folder) / "votes.npy")
    warm()  # a first call costs a second once per process, not at every edit
    print(json.dumps(TASKS[task](vectors, votes, int(rest[0]) if rest else 256)))


if __name__ == "__main__":
    main()
