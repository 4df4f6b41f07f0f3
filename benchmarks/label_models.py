"""Label models side by side with FlyingSquid and Snorkel, in one run: seconds and ratios.

    python benchmarks/label_models.py [--csv FILE]

References that are not installed are named as missing. FlyingSquid's prediction is a Python loop, so it
is timed on as many rows as named and scaled in proportion; the table says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import time
import warnings
from collections.abc import Callable

import numpy as np

import epoxy
from kept import write_rows

SIZES = [(22_070, 9), (100_000, 10), (1_000_000, 10)]
FS_ROWS = 20_000  # enough rows for a stable time per row of the reference's loop


def votes_of(n_rows: int, n_sources: int, seed: int = 0) -> epoxy.Votes:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    right = rng.random((n_rows, n_sources)) < rng.uniform(0.6, 0.9, n_sources)
    matrix = np.where(right, y[:, None], 1 - y[:, None]).astype(np.int8)
    matrix[rng.random((n_rows, n_sources)) < 0.6] = -1
    return epoxy.Votes(matrix)


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def ours(votes: epoxy.Votes, compat: str | None) -> dict[str, float]:
    model = epoxy.Triplet(compat=compat).fit(votes)
    model.predict_proba(votes)  # compile before timing
    return {
        "fit": seconds(lambda: epoxy.Triplet(compat=compat).fit(votes)),
        "predict": seconds(lambda: model.predict_proba(votes)),
    }


def flyingsquid(votes: epoxy.Votes) -> dict[str, float] | None:
    if importlib.util.find_spec("flyingsquid") is None:
        return None
    from flyingsquid.label_model import LabelModel

    logging.getLogger("pgmpy").setLevel(logging.ERROR)
    signed = votes.to_signed()
    part = signed[: min(len(signed), FS_ROWS)]
    model = LabelModel(votes.n_sources)
    fit = seconds(lambda: LabelModel(votes.n_sources).fit(signed), 1)
    model.fit(signed)
    predict = seconds(lambda: model.predict_proba_marginalized(part), 1)
    return {"fit": fit, "predict": predict * len(signed) / len(part)}


def snorkel(votes: epoxy.Votes) -> dict[str, float] | None:
    if importlib.util.find_spec("snorkel") is None:
        return None
    model = epoxy.Snorkel(epochs=100)
    fit = seconds(lambda: model.fit(votes), 1)
    return {"fit": fit, "predict": seconds(lambda: model.predict_proba(votes), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    head = ("rows × sources", "model", "fit s", "predict s", "fit+predict", "ratio")
    print("{:>16} {:<22} {:>9} {:>10} {:>12} {:>9}".format(*head))
    for n_rows, n_sources in SIZES:
        votes = votes_of(n_rows, n_sources)
        rows = {
            "Triplet": ours(votes, None),
            "Triplet(flyingsquid)": ours(votes, "flyingsquid"),
            "FlyingSquid": flyingsquid(votes),
            "Snorkel LabelModel": snorkel(votes),
        }
        base = sum(rows["Triplet"].values())
        for name, found in rows.items():
            if found is None:
                print(f"{n_rows:>10} × {n_sources:<3} {name:<22} not installed")
                continue
            total = sum(found.values())
            print(
                f"{n_rows:>10} × {n_sources:<3} {name:<22} {found['fit']:>9.4f} {found['predict']:>10.4f} "
                f"{total:>12.4f} {total / base:>8.0f}x"
            )
            results.append(
                {
                    "rows": n_rows,
                    "sources": n_sources,
                    "model": name,
                    **found,
                    "ratio": total / base,
                }
            )
    if options.csv:
        write_rows(options.csv, results)


if __name__ == "__main__":
    main()
