"""The loop end to end: edit → extended votes → label model → probabilities → dev scores.

    python benchmarks/session.py [--sizes spam spouse large] [--reference-python PATH] [--json FILE]

The reference edit is what the published code would do: rebuild that source's faiss index (with the BLAS
kernels that suit the machine), search, extend, then FlyingSquid's fit and predict; measured in the same run
by `speed_reference.py`, with the Python that has faiss and flyingsquid. Radii go from tight to loose: those
at which 10, 50 and 90 % of a source's abstaining rows get a vote.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
import speed_data
from speed import Bench
from speed_data import SIZES

EDITS = 24  # per radius


def splits(size: speed_data.Size) -> tuple[epoxy.Split, epoxy.Split]:
    """The rows as train, and up to 2,811 of them again as dev with made-up truth."""
    vectors, matrix, _ = speed_data.load(size)
    votes = epoxy.Votes(matrix, classes=["no", "yes"])
    some = np.random.default_rng(1).permutation(size.n)[: min(2811, size.n // 2)]
    y = np.random.default_rng(2).integers(0, 2, len(some))
    return epoxy.Split(votes, vectors), epoxy.Split(votes.rows(some), vectors[some], y=y)


def timed(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def summary(seconds: list[float]) -> dict[str, float]:
    return {
        "p50": 1000 * float(np.median(seconds)),
        "worst": 1000 * max(seconds),
        "n": len(seconds),
    }


def loop(session: epoxy.Session, share: float) -> dict[str, Any]:
    """Radius moves and edits of every source in turn, at the radius that `share` of rows lie within."""
    rng = np.random.default_rng(3)
    now = {source.name: source for source in session._now.sources}
    radii = {}
    for name, source in now.items():
        far = source.reach[0].distance[
            (source.own[0] == -1) & np.isfinite(source.reach[0].distance)
        ]
        radii[name] = float(np.quantile(far, share)) if len(far) else 0.0
    session.set_radii(radii)
    moves, edits, searched = [], [], []

    def read() -> None:
        session.probabilities, session.dev_probabilities, session.scores  # noqa: B018

    names = [name for name in session.sources if (now[name].own[0] != -1).any()]
    for number in range(EDITS):
        name = names[number % len(names)]
        radius = radii[name] * float(rng.uniform(0.7, 1.0))
        moves.append(timed(lambda n=name, r=radius: (session.set_radius(n, r), read()))[0])
    session.set_radii(radii)
    for number in range(EDITS):
        name = names[number % len(names)]
        source = session._now.source(name)
        own = source.own[0]
        support = speed_data.edited(
            own != -1, source.reach[0].distance, 0.3 if number % 2 else 0.05, rng
        )
        said = own[own != -1][0] if (own != -1).any() else 0
        column = np.where(support, np.where(own != -1, own, said), -1).astype(np.int8)
        seconds, (change, _) = timed(lambda n=name, c=column: (session.set_votes(n, c), read()))
        edits.append(seconds)
        searched.append(change.searched)
    return {
        "radius_ms": summary(moves),
        "edit_ms": summary(edits),
        "searched": {"mean": float(np.mean(searched)), "worst": max(searched)},
    }


def measure(size: speed_data.Size, reference: str) -> dict[str, Any]:
    train, dev = splits(size)
    opened, session = timed(
        lambda: epoxy.Session(train, dev, radius=0.0, label_model=epoxy.Triplet())
    )
    found: dict[str, Any] = {"size": size.label, "open_seconds": opened}
    for name, share in (("tight", 0.1), ("medium", 0.5), ("loose", 0.9)):
        found[name] = loop(session, share)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(size, Path(folder), reference)
        bench.tune()
        search, model = bench.reference("edit"), bench.reference("flyingsquid")
    found["reference"] = {**search, **model}
    if "search_seconds" in search and "predict_seconds" in model:
        whole = search["search_seconds"] + model["fit_seconds"] + model["predict_seconds"]
        found["reference_edit_ms"] = 1000 * whole
        p50 = max(found[name]["edit_ms"]["p50"] for name in ("tight", "medium", "loose"))
        found["ratio"] = found["reference_edit_ms"] / p50
    return found


def _pair(found: dict[str, float]) -> str:
    return f"{found['p50']:.2f} / {found['worst']:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["weather", "spam", "spouse"], choices=SIZES)
    parser.add_argument("--reference-python", default=sys.executable)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    results = []
    for name in options.sizes:
        found = measure(SIZES[name], options.reference_python)
        results.append(found)
        print(f"{found['size']}: opened in {found['open_seconds']:.1f} s")
        for radius in ("tight", "medium", "loose"):
            each = found[radius]
            print(
                f"  {radius:<7} radius {_pair(each['radius_ms'])}, edit {_pair(each['edit_ms'])}, "
                f"{each['searched']['mean']:.1%} of rows searched directly"
            )
        if "ratio" in found:
            slow, ratio = found["reference_edit_ms"], found["ratio"]
            print(
                f"  reference edit {slow:.0f} ms: {ratio:.0f} times ours at the worst of the three"
            )
        else:
            print("  reference: faiss or flyingsquid is not installed")
        sys.stdout.flush()
        if options.json:
            Path(options.json).write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
