"""The paper's pipeline tuned by one call: how good it is, and how fast tuning is.

    python benchmarks/radius.py [--data FOLDER] [--csv FILE] [--draws 10]

Quality, on every data set with vectors: `epoxy.tune(train, dev, scoring)` against the same label model
with nothing extended (WS-LM, the class balance counted on the same rows); with all dev rows, and in the
mean over draws of 50. Test is read once for each line and chooses nothing: the rules of tuning were
chosen by tuning on part of dev and scoring on the rest. Speed: the exact sweep against searching,
extending and fitting every setting anew (timed on a few settings and scaled to all).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
from epoxy.datasets import Dataset, read_folder
from epoxy.diagnostics import scores
from epoxy.label_models import balance_of
from kept import write_rows

DATA = Path(os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
FEW = 50


def points(model: epoxy.Epoxy, data: Dataset, reach: epoxy.Reach) -> float:
    """The task's score on test, in points."""
    proba = model.label_model_.predict_proba(reach.extend(model.radius_))
    found = scores(proba, data.test.y, data.classes, positive=data.positive)
    return 100 * found[data.scoring]


def both(data: Dataset, rows: np.ndarray, reaches: list[epoxy.Reach]) -> dict[str, Any]:
    """WS-LM and tuned Epoxy from some dev rows."""
    train, dev = data.train, data.dev.rows(rows)
    near, onto_dev, onto_test = reaches
    plain = epoxy.Epoxy(epoxy.Triplet(balance_of(dev).tolist()), radius={}).fit(train, reach=near)
    tuned = epoxy.tune(
        train, dev, data.scoring, positive=data.positive, reaches=(near, onto_dev.rows(rows))
    )
    return {
        "ws": points(plain, data, onto_test),
        "epoxy": points(tuned, data, onto_test),
        "expected": 100 * tuned.search_.expected,
        "balance": tuned.search_.best.balance,
        "extended": int(np.isfinite(tuned.radius_).sum()),
    }


def quality(data: Dataset, draws: int) -> dict[str, Any]:
    """All dev rows, and draws of 50."""
    reaches = [epoxy.reach(data.train, onto) for onto in (None, data.dev, data.test)]
    known = np.flatnonzero(data.dev.labelled)
    result = {"data": data.name, "scoring": data.scoring, "dev_rows": len(known)}
    result |= both(data, known, reaches)
    few = []
    for seed in range(draws):
        drawn = np.random.default_rng(seed).permutation(known)[:FEW]
        few.append(both(data, np.sort(drawn), reaches))
    for name in ("ws", "epoxy"):
        result[f"{name}_{FEW}"] = [each[name] for each in few]
    return result


def speed(data: Dataset, brute: int = 3) -> dict[str, Any]:
    metric = data.scoring
    epoxy.tune(data.train, data.dev, metric, positive=data.positive, shared=True)  # compile
    start = time.perf_counter()
    model = epoxy.tune(data.train, data.dev, metric, positive=data.positive)
    ours = time.perf_counter() - start
    found = model.search_
    picked = [t for t in found.trials if np.isfinite(t.score)]
    picked = picked[:: max(1, len(picked) // brute)][:brute]
    start = time.perf_counter()
    for trial in picked:
        balance = balance_of(data.dev) if trial.balance is None else np.array(trial.balance)
        slow = epoxy.Epoxy(epoxy.Triplet(balance.tolist()), trial.radii).fit(data.train)
        proba = slow.predict_proba(data.dev)
        said = scores(proba, data.dev.y, data.classes, positive=data.positive)
        assert abs(said[metric] - trial.score) < 1e-12, "the sweep and brute force disagree"
    total = (time.perf_counter() - start) / len(picked) * len(found.trials)
    return {
        "data": data.name,
        "settings": len(found.trials),
        "sweep_seconds": ours,
        "brute_seconds": total,
        "ratio": total / ours,
        "search": str(found),
    }


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'':<10} {'WS-LM':>7} {'Epoxy':>7} {'expected':>9} {'WS-LM, 50':>10} {'Epoxy, 50':>10}")
    lines = [
        [row["ws"], row["epoxy"], row["expected"], np.mean(row["ws_50"]), np.mean(row["epoxy_50"])]
        for row in rows
    ]
    for name, line in zip([*(row["data"] for row in rows), "mean"], [*lines, np.mean(lines, 0)]):
        a, b, c, d, e = line
        print(f"{name:<10} {a:>7.1f} {b:>7.1f} {c:>9.1f} {d:>10.1f} {e:>10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"the real data sets are not on this machine (looked in {options.data})")
    folders = sorted(path.parent for path in options.data.glob("*/vectors-test.npy"))
    results: dict[str, Any] = {"quality": [], "speed": []}
    for folder in folders:
        data = read_folder(folder)
        results["quality"].append(quality(data, options.draws))
        if folder.name in ("spam", "spouse"):
            results["speed"].append(speed(data))
    show(results["quality"])
    for found in results["speed"]:
        print(
            f"{found['data']}: {found['settings']} settings in {found['sweep_seconds']:.2f} s, "
            f"{found['brute_seconds']:.0f} s anew: {found['ratio']:.0f} times as fast"
        )
    if options.csv:
        write_rows(options.csv, results["quality"])


if __name__ == "__main__":
    main()
