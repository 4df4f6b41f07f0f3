"""How good Fusion's labels are on real data: every set, three amounts of hand labels, drop-one ablation.

    python benchmarks/quality.py                       all sets, table on standard output
    python benchmarks/quality.py --sets spam sms --ablate --json quality.json
    python benchmarks/quality.py --bench bench.json    margins over the best baseline of each set
    python benchmarks/quality.py --vectors spouse=DIR  other vectors-{split}.npy for one set

Train gold is never read, dev gold fits, test gold only scores. `100` means five random dev subsets of 100
rows (all of them where there are no more); `none` means no hand label at all. F1 sets are scored at the
model's own threshold.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from epoxy import Split
from epoxy.datasets import Dataset, read_folder
from epoxy.diagnostics import calibration_error
from epoxy.fusion import Fusion
from epoxy.fusion.experts import default

DATA = Path(
    os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()
AMOUNTS = ("none", "100", "full")
SEEDS = 5


def main() -> None:
    options = _options()
    vectors = dict(each.split("=", 1) for each in options.vectors)
    baselines = {} if options.bench is None else _baselines(Path(options.bench))
    results: list[dict[str, Any]] = []
    for name in options.sets or _sets():
        data = _load(name, vectors.get(name))
        for amount in options.amounts:
            results += _measure(data, amount, options.ablate)
            _show(results[-1 if not options.ablate else -1 - len(default())], baselines)
    _summary(results, options.amounts, baselines)
    if options.json:
        Path(options.json).write_text(json.dumps({"results": results}, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--sets", nargs="*", help="names of data folders; all with vectors and gold"
    )
    parser.add_argument("--amounts", nargs="*", default=list(AMOUNTS), choices=AMOUNTS)
    parser.add_argument("--ablate", action="store_true", help="also without each expert in turn")
    parser.add_argument("--vectors", nargs="*", default=[], metavar="SET=DIR")
    parser.add_argument("--bench", help="JSON of `epoxy bench`, for margins and ranks")
    parser.add_argument("--json", help="where to write all numbers")
    return parser.parse_args()


def _sets() -> list[str]:
    folders = sorted(path.parent.name for path in DATA.glob("*/vectors-test.npy"))
    return [name for name in folders if (DATA / name / "dev.parquet").is_file()]


def _load(name: str, vectors: str | None) -> Dataset:
    data = read_folder(DATA / name)
    if vectors is None:
        return data
    splits = {
        key: Split(split.votes, np.load(Path(vectors) / f"vectors-{key}.npy"), split.y, split.ids)
        for key, split in data.splits.items()
    }
    return Dataset(
        f"{name} (other vectors)",
        data.classes,
        splits,
        data.tables,
        data.truth,
        data.metric,
        data.positive,
    )


def _measure(data: Dataset, amount: str, ablate: bool) -> list[dict[str, Any]]:
    found = [_score(data, amount, None)]
    if ablate:
        found += [_score(data, amount, expert.name) for expert in default()]
    return found


def _score(data: Dataset, amount: str, without: str | None) -> dict[str, Any]:
    experts = None if without is None else [each for each in default() if each.name != without]
    scores, errors, seconds, geometry = [], [], [], None
    truth = data.truth["test"]
    for dev in _devs(data.dev, amount):
        model = Fusion(experts, metric=data.metric, positive=data.positive)
        started = time.perf_counter()
        model.fit(data.train, dev, geometry=geometry)
        seconds.append(time.perf_counter() - started)
        geometry = model.geometry_
        guess = np.searchsorted(np.sort(data.classes), model.predict(data.test))
        guess = np.argsort(data.classes)[guess]
        scores.append(100 * _metric(data, guess, truth))
        errors.append(calibration_error(model.predict_proba(data.test), truth))
    return {
        "data": data.name,
        "method": "Fusion" if without is None else f"Fusion without {without}",
        "metric": data.metric,
        "dev": amount,
        "mean": float(np.mean(scores)),
        "sd": float(np.std(scores)),
        "scores": scores,
        "calibration_error": float(np.mean(errors)),
        "test_rows": len(truth),
        "seconds": float(np.median(seconds)),
    }


def _devs(dev: Split, amount: str) -> Iterator[Split | None]:
    if amount == "none":
        yield None
    elif amount == "full" or dev.n_rows <= 120:
        yield dev
    else:
        for seed in range(SEEDS):
            yield dev.rows(np.sort(np.random.default_rng(seed).permutation(dev.n_rows)[:100]))


def _metric(data: Dataset, guess: np.ndarray, truth: np.ndarray) -> float:
    if data.metric == "accuracy":
        return float((guess == truth).mean())
    named = data.classes.index(str(data.positive))
    both = ((guess == named) & (truth == named)).sum()
    return float(2 * both / max(1, (guess == named).sum() + (truth == named).sum()))


def _baselines(path: Path) -> dict[tuple[str, str], float]:
    """The best column other than Fusion, by data set and amount of dev rows."""
    best: dict[tuple[str, str], float] = {}
    for each in json.loads(path.read_text())["results"]:
        if each["method"] == "Fusion" or each.get("mean") is None:
            continue
        rows = each.get("dev_rows")
        key = (each["data"], "full" if rows is None else str(rows))
        best[key] = max(best.get(key, -np.inf), each["mean"])
    return best


def _show(row: dict[str, Any], baselines: dict[tuple[str, str], float]) -> None:
    line = f"{row['data']:<24} {row['dev']:>5}  {row['mean']:6.2f} ± {row['sd']:4.2f}"
    line += f"  ECE {row['calibration_error']:.3f}  {row['seconds']:6.2f} s"
    best = baselines.get((row["data"], row["dev"]))
    print(line if best is None else f"{line}  margin {row['mean'] - best:+.2f}", flush=True)


def _summary(
    results: list[dict[str, Any]], amounts: list[str], baselines: dict[tuple[str, str], float]
) -> None:
    for amount in amounts:
        whole = {
            r["data"]: r["mean"] for r in results if r["method"] == "Fusion" and r["dev"] == amount
        }
        print(f"\n{amount}: mean {np.mean(list(whole.values())):.2f} over {len(whole)} sets")
        margins = [whole[n] - baselines[n, amount] for n in whole if (n, amount) in baselines]
        if margins:
            print(
                f"  margin over the best baseline: mean {np.mean(margins):+.2f}, worst {min(margins):+.2f}"
            )
        for method in dict.fromkeys(r["method"] for r in results if r["method"] != "Fusion"):
            change = {
                r["data"]: r["mean"] - whole[r["data"]]
                for r in results
                if r["method"] == method and r["dev"] == amount
            }
            low, high = min(change, key=change.__getitem__), max(change, key=change.__getitem__)
            print(
                f"  {method.removeprefix('Fusion '):<20} {np.mean(list(change.values())):+.2f}"
                f"  (worst {low} {change[low]:+.1f}, best {high} {change[high]:+.1f})"
            )


if __name__ == "__main__":
    main()
