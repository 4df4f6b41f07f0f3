"""How good are tuned radii, and how fast is tuning? On `spam` (quality) and `spouse` (speed).

    python benchmarks/radius.py [--data FOLDER] [--json FILE]

Quality: the paper's triplet model on MiniLM vectors, radii chosen on the 120 dev rows, test read once
per line; then the same on 20 bootstrap resamples of dev, for the spread. Speed: the exact sweep against
searching, extending and fitting every setting anew (timed on a few settings and scaled to all).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
from epoxy.datasets import read_folder
from epoxy.diagnostics import scores
from epoxy.label_models import balance_of

DATA = Path(os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
BALANCE = [0.4, 0.6]  # HAM, SPAM: the paper's
RESAMPLES = 20


def settings(dev: epoxy.Split) -> dict[str, dict[str, Any]]:
    counted = balance_of(dev).tolist()
    models = {
        "Triplet, balance (0.4, 0.6)": epoxy.Triplet(BALANCE),
        "FlyingSquid's arithmetic, balance (0.4, 0.6)": epoxy.Triplet(
            BALANCE, compat="flyingsquid"
        ),
        "Triplet, balance counted on dev": epoxy.Triplet(counted),
    }
    found: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        found[f"{name}: not extended (WS-LM)"] = {"label_model": model, "extend": False}
        found[f"{name}: one shared radius"] = {"label_model": model, "shared": True}
        found[f"{name}: per source"] = {"label_model": model}
    return found


def fitted(train: epoxy.Split, dev: epoxy.Split, options: dict[str, Any]) -> epoxy.Epoxy:
    more = dict(options)
    if not more.pop("extend", True):
        return epoxy.Epoxy(more["label_model"], radius={}).fit(train)
    return epoxy.tune(train, dev, **more)


def quality(folder: Path) -> list[dict[str, Any]]:
    data = read_folder(folder / "spam")
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, data.dev.n_rows, data.dev.n_rows) for _ in range(RESAMPLES)]
    rows = []
    for name, options in settings(data.dev).items():
        start = time.perf_counter()
        model = fitted(data.train, data.dev, options)
        seconds = time.perf_counter() - start
        resampled = []
        for draw in draws if options.get("extend", True) else []:
            again = fitted(data.train, data.dev.rows(draw), options)
            resampled.append(100 * again.score(data.test))
        rows.append(
            {
                "setting": name,
                "test": 100 * model.score(data.test),
                "dev": 100 * model.score(data.dev),
                "expected": None if not hasattr(model, "search_") else 100 * model.search_.expected,
                "resampled_mean": float(np.mean(resampled)) if resampled else None,
                "resampled_sd": float(np.std(resampled)) if resampled else None,
                "seconds": seconds,
            }
        )
    return rows


def speed(folder: Path, name: str, metric: str, brute: int = 3) -> dict[str, Any]:
    data = read_folder(folder / name)
    epoxy.tune(data.train, data.dev, metric, positive=data.positive, shared=True)  # compile
    start = time.perf_counter()
    model = epoxy.tune(data.train, data.dev, metric, positive=data.positive)
    ours = time.perf_counter() - start
    found = model.search_
    label_model = epoxy.Triplet(balance_of(data.dev).tolist())
    picked = [t for t in found.trials if np.isfinite(t.score)][
        :: max(1, len(found.trials) // brute)
    ][:brute]
    start = time.perf_counter()
    for trial in picked:
        slow = epoxy.Epoxy(label_model, trial.radii).fit(data.train)
        said = scores(
            slow.predict_proba(data.dev), data.dev.y, data.classes, positive=data.positive
        )
        assert abs(said[metric] - trial.score) < 1e-12, "the sweep and brute force disagree"
    each = (time.perf_counter() - start) / len(picked)
    total = each * len(found.trials)
    return {
        "data": name,
        "settings": len(found.trials),
        "sweep_seconds": ours,
        "brute_seconds": total,
        "ratio": total / ours,
        "search": str(found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"the real data sets are not on this machine (looked in {options.data})")
    results: dict[str, Any] = {"spam": quality(options.data), "speed": []}
    print(
        f"{'spam, accuracy':<62} {'test':>6} {'dev':>6} {'expected':>9} {'20 resamples of dev':>20}"
    )
    for row in results["spam"]:
        expected = "–" if row["expected"] is None else f"{row['expected']:.1f}"
        spread = (
            "–"
            if row["resampled_mean"] is None
            else f"{row['resampled_mean']:.1f} ± {row['resampled_sd']:.1f}"
        )
        print(
            f"{row['setting']:<62} {row['test']:>6.1f} {row['dev']:>6.1f} {expected:>9} {spread:>20}"
        )
    for name, metric in (("spam", "accuracy"), ("spouse", "f1")):
        found = speed(options.data, name, metric)
        results["speed"].append(found)
        print(
            f"{name}: {found['settings']} settings in {found['sweep_seconds']:.2f} s, "
            f"{found['brute_seconds']:.0f} s anew: {found['ratio']:.0f} times as fast"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
