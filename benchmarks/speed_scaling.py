"""Cost against the number of rows, with fitted exponents; run by `speed.py --scaling`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from kept import write_rows
from speed_data import mixture, rules

ROWS = (10_000, 20_000, 50_000, 100_000, 200_000)
QUICK_ROWS = (5_000, 10_000, 20_000)
K = 64


def run(out: Path, *, quick: bool = False) -> None:
    """Measure, fit log time against log rows, write scaling.csv and scaling.png."""
    from speed import HERE, _child

    points: list[dict[str, Any]] = []
    for n in QUICK_ROWS if quick else ROWS:
        with tempfile.TemporaryDirectory() as folder:
            vectors, cluster = mixture(n, 384, 0)
            np.save(Path(folder) / "vectors.npy", vectors)
            np.save(Path(folder) / "votes.npy", rules(vectors, cluster, 10, (0.02, 0.1), 0)[:, :9])
            ours = [sys.executable, HERE / "speed_ours.py"]
            graph = _child([*ours, "graph", folder, K], {})
            medium = _child([*ours, "session", folder], {})["medium"]
        point = {
            "rows": n,
            "graph_seconds": graph["seconds"],
            "edit_seconds": medium["edit_ms"]["p50"] / 1e3,
            "radius_seconds": medium["radius_ms"]["p50"] / 1e3,
            "peak_mb": graph["peak_mb"],
        }
        print(json.dumps(point), file=sys.stderr)
        points.append(point)
    series = ("graph_seconds", "edit_seconds", "radius_seconds")
    fitted = {name: exponent(points, name) for name in series}
    write_rows(out / "scaling.csv", points)
    draw(points, fitted, out / "scaling.png")
    print(json.dumps(fitted))


def exponent(points: list[dict[str, Any]], name: str) -> float:
    """The slope of log seconds over log rows."""
    rows = np.log([point["rows"] for point in points])
    return float(np.polyfit(rows, np.log([point[name] for point in points]), 1)[0])


def draw(points: list[dict[str, Any]], fitted: dict[str, float], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is missing; no plot", file=sys.stderr)
        return
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    rows = [point["rows"] for point in points]
    for name, slope in fitted.items():
        label = f"{name.removesuffix('_seconds')}: rows^{slope:.2f}"
        axes.loglog(rows, [point[name] for point in points], "o-", label=label)
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)
