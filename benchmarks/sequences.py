"""Seconds for a chain of T elements, ours and FlyingSquid's (where it is installed), in one run.

    python benchmarks/sequences.py [--csv FILE] [--limit SECONDS] [--data FOLDER]

On the tennis votes if the data folder is there, otherwise on drawn votes of the same size (6,959 rows,
6 sources). Both sides fit on windows of T rows and return probabilities for the same rows; FlyingSquid
is asked for growing T until one run exceeds the limit. The last column is the largest difference of
the two sides' probabilities, ours with compat="flyingsquid". The second table is the cost of one
chain over 70,000 rows as T grows, which should not depend on T (linear in T per sequence). Then come
task graphs, and how reliably sources that copy each other are found.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import logging
import os
import platform
import time
import warnings
from pathlib import Path

import numpy as np

from epoxy.sequences import Chain, TaskGraph, Tasks, learn_dependencies
from epoxy.votes import Votes
from kept import write_cases

DATA = Path(os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
LENGTHS = (1, 3, 5, 8, 10, 14, 50, 200, 1000)
REPEATS = 5


def load(folder: Path) -> tuple[str, Votes]:
    file = folder / "tennis_L" / "votes-train.npy"
    if file.is_file():
        return "tennis_L", Votes(np.load(file), classes=["no rally", "rally"])
    rng = np.random.default_rng(0)
    label = np.cumsum(rng.random(6959) < 0.05) % 2
    matrix = np.where(rng.random((6959, 6)) < 0.8, label[:, None], 1 - label[:, None])
    matrix[rng.random(matrix.shape) < 0.3] = -1
    return "drawn", Votes(matrix)


def seconds(model, votes: Votes) -> tuple[float, float]:
    """Best of a few runs: fit, and fit + predict."""
    best = [np.inf, np.inf]
    for _ in range(REPEATS):
        start = time.perf_counter()
        model.fit(votes)
        fitted = time.perf_counter() - start
        model.predict_proba(votes)
        best = [min(best[0], fitted), min(best[1], time.perf_counter() - start)]
    return best[0], best[1]


def reference(votes: Votes, length: int) -> tuple[float, np.ndarray] | None:
    """FlyingSquid's fit + predict in seconds and its marginals, or None if it is not installed."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            from flyingsquid.label_model import LabelModel
        except ImportError:
            return None
        signed = votes.to_signed()
        windows = signed[: len(signed) // length * length].reshape(-1, length * votes.n_sources)
        columns = windows.shape[1]
        start = time.perf_counter()
        model = LabelModel(
            columns,
            v=length,
            y_edges=[(step, step + 1) for step in range(length - 1)],
            lambda_y_edges=[(column, column // votes.n_sources) for column in range(columns)],
        )
        model.fit(windows)
        found = model.predict_proba_marginalized(windows)
        return time.perf_counter() - start, found


def side_by_side(votes: Votes, limit: float) -> list[dict[str, float | None]]:
    rows = []
    running = True
    for length in LENGTHS:
        row: dict[str, float | None] = {"length": length}
        row["fit"], row["fit_predict"] = seconds(Chain(length), votes)
        row["em"] = seconds(Chain(length, solve="em"), votes)[1]
        row["compat"] = (
            seconds(Chain(length, compat="flyingsquid"), votes)[1] if length <= 14 else None
        )
        found = reference(votes, length) if running else None
        row["flyingsquid"] = found[0] if found else None
        row["difference"] = None
        if found:
            ours = Chain(length, compat="flyingsquid").fit(votes).predict_proba(votes)[:, 1]
            row["difference"] = float(np.abs(ours[: len(found[1])] - found[1]).max())
            running = found[0] <= limit
        rows.append(row)
        print(
            f"{length:>6}{_ms(row['fit'])}{_ms(row['fit_predict'])}{_ms(row['em'])}"
            f"{_ms(row['compat'])}{_ms(row['flyingsquid'])}   "
            + ("" if row["difference"] is None else f"{row['difference']:.0e}"),
            flush=True,
        )
    return rows


def curve(votes: Votes) -> list[dict[str, float]]:
    """Prediction on 70,000 rows as sequences grow: total work is the same, only its shape differs."""
    many = Votes(np.tile(votes.matrix, (11, 1))[:70_000], classes=votes.classes)
    rows = []
    for length in (2, 10, 100, 1000, 7000):
        model = Chain(length).fit(many)
        start = time.perf_counter()
        model.predict_proba(many)
        spent = time.perf_counter() - start
        rows.append({"length": length, "predict": spent, "us_per_row": spent / 70_000 * 1e6})
        print(f"{length:>6}{_ms(spent)}{rows[-1]['us_per_row']:>12.2f}", flush=True)
    return rows


def graphs(votes: Votes) -> list[dict[str, float]]:
    """One table of joint labels on chains and grids of growing size."""
    rows = []
    for name, graph in (
        ("chain of 4", TaskGraph.chain(4)),
        ("chain of 14", TaskGraph.chain(14)),
        ("grid 2 × 4", _grid(2, 4)),
        ("grid 4 × 4", _grid(4, 4)),
    ):
        spent = seconds(Tasks(graph), votes)[1]
        rows.append({"graph": name, "fit_predict": spent})
        print(f"{name:<14}{_ms(spent)}", flush=True)
    return rows


def dependencies(runs: int = 20) -> list[dict[str, object]]:
    """Copied sources found, missed and falsely reported among ten, over so many draws."""
    rows = []
    for (kind, one_sided), n_rows, copies in itertools.product(
        (("voters", False), ("one-sided", True)),
        (1000, 5000),
        ([], [(0, 2)], [(0, 2), (1, 3)], [(0, 2), (0, 4)], [(0, 2), (0, 4), (0, 6)]),
    ):
        found = missed = false = 0
        group = {a for a, _ in copies[:1]} | {b for a, b in copies if a == copies[0][0]}
        same_group = set(itertools.combinations(sorted(group), 2))
        for seed in range(runs):
            votes = _copied(np.random.default_rng(seed), n_rows, copies, one_sided)
            pairs = {(votes.index_of(a), votes.index_of(b)) for a, b in learn_dependencies(votes)}
            found += len(pairs & set(copies))
            missed += len(set(copies) - pairs)
            false += len(pairs - set(copies) - same_group)
        row = {"kind": kind, "rows": n_rows, "copies": copies}
        rows.append(row | {"found": found, "missed": missed, "false": false})
        print(f"{kind:<10}{n_rows:>6} {copies!s:<26}{found:>6}{missed:>8}{false:>7}", flush=True)
    return rows


def _copied(rng: np.random.Generator, n_rows: int, copies, one_sided: bool) -> Votes:
    label = rng.random(n_rows) < rng.uniform(0.3, 0.7)
    matrix = np.full((n_rows, 10), -1)
    for source in range(10):
        named, hit = source % 2, rng.uniform(0.1, 0.4)
        fires = rng.random(n_rows) < np.where(label == named, hit, hit * rng.uniform(0.05, 0.4))
        right = rng.random(n_rows) < rng.uniform(0.6, 0.9)
        speaks = rng.random(n_rows) < rng.uniform(0.3, 1.0)
        vote = np.where(fires, named, -1) if one_sided else np.where(speaks, label == right, -1)
        matrix[:, source] = vote
    for a, b in copies:
        same = rng.random(n_rows) < 0.7
        matrix[same, b] = matrix[same, a]
    return Votes(matrix)


def _grid(height: int, width: int) -> TaskGraph:
    across = [(r * width + c, r * width + c + 1) for r in range(height) for c in range(width - 1)]
    down = [(r * width + c, (r + 1) * width + c) for r in range(height - 1) for c in range(width)]
    return TaskGraph(height * width, across + down)


def _ms(value: float | None) -> str:
    return f"{'-':>12}" if value is None else f"{1000 * value:>12.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    name, votes = load(options.data)
    print(f"{name}: {votes.n_rows} rows, {votes.n_sources} sources; milliseconds\n")
    print("     T         fit   fit + pred          em      compat FlyingSquid   difference")
    result = {"data": name, "machine": platform.processor() or platform.machine()}
    result["side_by_side"] = side_by_side(votes, options.limit)
    print("\n70,000 rows\n     T     predict   µs per row")
    result["curve"] = curve(votes)
    print("\ntask graphs: fit + predict")
    result["graphs"] = graphs(votes)
    print("\ncopied sources among ten, 20 draws each")
    print("          rows copies                     found  missed  false")
    result["dependencies"] = dependencies()
    if options.csv:
        write_cases(options.csv, {result["data"]: result})


if __name__ == "__main__":
    main()
