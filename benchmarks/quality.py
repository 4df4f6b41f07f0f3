"""How good Fusion's labels are on real data: every set, several amounts of hand labels.

    python benchmarks/quality.py                       all sets, table on standard output
    python benchmarks/quality.py --amounts 0 3 5 10 20 50
    python benchmarks/quality.py --chosen              50 labels that a person or a tool chose, and said so
    python benchmarks/quality.py --chosen --untold     the same where nobody said so
    python benchmarks/quality.py --sets spam sms --ablate --json quality.json
    python benchmarks/quality.py --bench bench.json    margins over the best baseline of each set
    python benchmarks/quality.py --vectors spouse=DIR  other vectors-{split}.npy for one set
    python benchmarks/quality.py --held-out 4          four draws of 40 % of dev score, to choose by; no test
    python benchmarks/quality.py --dips --draws 10 --amounts none 3 5 10 20 50 100 full
                                                       is more ever worse: paired bootstrap over test rows

Train gold is never read, dev gold fits, test gold only scores. A number means five random dev subsets of
so many rows (all of them where there are few more), fewer rows of a draw among its more; `none` and `0`
mean no hand label at all. F1 sets are scored at the model's own threshold. One engine follows all labels
of a set, with the answers of a fit from nothing; its rows are train and, behind dev, test without labels.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from epoxy import Split, Votes
from epoxy.datasets import Dataset, read_folder
from epoxy.diagnostics import calibration_error
from epoxy.fusion import EXPERTS, Fusion
from epoxy.fusion.engine import FusionEngine
from epoxy.fusion.fitted import WEIGHTS
from epoxy.loans import Neighbourhood
from epoxy.scoring import precision_recall_f1
from epoxy.workspace import DEV, HandLabels, Workspace

DATA = Path(
    os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()
AMOUNTS = ("none", "100", "full")
CHOSEN = ("least sure", "surest", "covered", "conflict", "one cell")
N_CHOSEN = 50
SEEDS = 5
RESAMPLES = 1000


def main() -> None:
    options = _options()
    vectors = dict(each.split("=", 1) for each in options.vectors)
    baselines = {} if options.bench is None else _baselines(Path(options.bench))
    amounts = [*options.amounts, *(CHOSEN if options.chosen else ())]
    left_out = [None, *(EXPERTS if options.ablate else ())]
    results: list[dict[str, Any]] = []
    for name in options.sets or _sets():
        data = _load(name, vectors.get(name))
        worlds = (
            [data]
            if not options.held_out
            else [_held_out(data, at) for at in range(options.held_out)]
        )
        known: list[dict[str | None, Labelled]] = [{} for _ in worlds]
        for amount in amounts:
            found = [
                _together(
                    [_score(*world, amount, without, options) for world in zip(worlds, known)]
                )
                for without in left_out
            ]
            _show(found[0], baselines)
            results += found
    _summary(results, amounts, baselines)
    if options.dips:
        _show_dips(results, options.amounts)
    if options.json:
        kept = [{key: row[key] for key in row if key not in ("guesses", "task")} for row in results]
        Path(options.json).write_text(json.dumps({"results": kept}, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--sets", nargs="*", help="names of data folders; all with vectors and gold"
    )
    parser.add_argument(
        "--amounts", nargs="*", default=list(AMOUNTS), help="none, full, or numbers of dev rows"
    )
    parser.add_argument(
        "--chosen", action="store_true", help=f"also {N_CHOSEN} dev rows not drawn at random"
    )
    parser.add_argument("--untold", action="store_true", help="do not say how these were chosen")
    parser.add_argument("--ablate", action="store_true", help="also without each expert in turn")
    parser.add_argument("--vectors", nargs="*", default=[], metavar="SET=DIR")
    parser.add_argument(
        "--held-out",
        type=int,
        default=0,
        metavar="DRAWS",
        help="score on parts of dev, not on test",
    )
    parser.add_argument("--draws", type=int, default=SEEDS, help="random subsets of so many rows")
    parser.add_argument("--dips", action="store_true", help="where do more labels score worse?")
    parser.add_argument("--bench", help="JSON of `epoxy bench`, for margins and ranks")
    parser.add_argument("--json", help="where to write all numbers")
    options = parser.parse_args()
    if options.dips and options.held_out > 1:
        parser.error("--dips compares answers about the same rows; ask for --held-out 1 or none")
    return options


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
        data.scoring,
        data.positive,
    )


def _held_out(data: Dataset, seed: int) -> Dataset:
    """The same with 60 % of dev as all that may be labelled, and the rest in place of test."""
    order = np.random.default_rng(1000 + seed).permutation(data.dev.n_rows)
    asked, scored = np.split(order, [int(0.6 * len(order))])
    rest = data.dev.rows(scored)
    splits = {**data.splits, "dev": data.dev.rows(asked), "test": Split(rest.votes, rest.vectors)}
    truth = {**data.truth, "test": rest.truth}
    return replace(data, splits=splits, truth=truth)


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of several draws of the same."""
    scores = [score for part in parts for score in part["scores"]]
    mean = {
        key: float(np.mean([part[key] for part in parts]))
        for key in ("calibration_error", "log_loss", "seconds")
    }
    return {
        **parts[0],
        **mean,
        "scores": scores,
        "mean": float(np.mean(scores)),
        "sd": float(np.std(scores)),
    }


@contextmanager
def _silenced(expert: str) -> Iterator[None]:
    """Let an expert start at weight 0; hand labels may still give it one, drawn to 0 by its ridge."""
    before = WEIGHTS[expert]
    WEIGHTS[expert] = 0.0
    try:
        yield
    finally:
        WEIGHTS[expert] = before


class Labelled:
    """One data set under one engine: train, dev and test rows, and whatever dev rows are labelled."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.n_dev = data, data.dev.n_rows
        others = (data.dev, data.test)
        votes = data.dev.votes
        matrix = np.concatenate([each.votes.matrix for each in others])
        vectors = np.concatenate([np.asarray(each.vectors) for each in others])
        rows = Split(Votes(matrix, votes.sources, votes.classes), vectors)
        model = Fusion(scoring=data.scoring, positive=data.positive)
        self.engine = FusionEngine(model)
        near = Neighbourhood.over((data.train, rows), model.metric, apart=True, graph=False)
        settings = self.engine.settings(votes.sources)
        self.bare = Workspace.over(data.train, rows, near, settings)

    def answer(self, rows: np.ndarray | None, word: str | None = None) -> tuple[Any, Any]:
        """Probabilities and class indices of dev and test rows, with these dev rows labelled."""
        before = self.bare.labels
        y, chosen = before.y[DEV].copy(), before.chosen[DEV].copy()
        if rows is not None:
            y[rows], chosen[rows] = self.data.dev.truth[rows], word
        labels = HandLabels((before.y[0], y), (before.chosen[0], chosen), before.wrong)
        found = self.engine.update(replace(self.bare, labels=labels))
        return found.proba[DEV], found.decided[DEV]


def _score(
    data: Dataset,
    known: dict[str | None, Labelled],
    amount: str,
    without: str | None,
    options: argparse.Namespace,
) -> dict[str, Any]:
    scores, errors, losses, seconds, guesses = [], [], [], [], []
    truth = data.truth["test"]
    with nullcontext() if without is None else _silenced(without):
        if without not in known:
            known[without] = Labelled(data)
        labelled = known[without]
        for rows, word in _devs(data, labelled, amount, options.draws):
            started = time.perf_counter()
            proba, guess = labelled.answer(rows, None if options.untold else word)
            seconds.append(time.perf_counter() - started)
            guesses.append(guess[labelled.n_dev :])
            scores.append(100 * _points(data, guesses[-1], truth))
            asked = proba[labelled.n_dev :]
            errors.append(calibration_error(asked, truth))
            losses.append(-np.log(np.maximum(asked[np.arange(len(truth)), truth], 1e-12)).mean())
    return {
        "data": data.name,
        "method": "Fusion" if without is None else f"Fusion without {without}",
        "metric": data.scoring,
        "dev": amount,
        "mean": float(np.mean(scores)),
        "sd": float(np.std(scores)),
        "scores": scores,
        "calibration_error": float(np.mean(errors)),
        "log_loss": float(np.mean(losses)),
        "test_rows": len(truth),
        "seconds": float(np.median(seconds)),
        "guesses": guesses,
        "task": data,
    }


def _devs(
    data: Dataset, labelled: Labelled, amount: str, draws: int
) -> Iterator[tuple[np.ndarray | None, str | None]]:
    """Dev rows to label, and how they were chosen; None for no label."""
    n_rows = data.dev.n_rows
    if amount in ("none", "0"):
        yield None, None
    elif amount in CHOSEN:
        yield from ((rows, amount) for rows in _chosen(data, labelled, amount))
    elif amount == "full" or n_rows <= 1.2 * int(amount):
        yield np.arange(n_rows), None
    else:
        for seed in range(draws):
            drawn = np.random.default_rng(seed).permutation(n_rows)[: int(amount)]
            yield np.sort(drawn), None


def _chosen(data: Dataset, labelled: Labelled, how: str) -> Iterator[np.ndarray]:
    """Dev rows as a tool would show them: by the model without labels, by votes, from one region."""
    dev = data.dev
    pool = np.arange(dev.n_rows)
    if how in ("least sure", "surest"):
        top = np.sort(labelled.answer(None)[0][: dev.n_rows], axis=1)
        order = np.argsort(top[:, -1] - top[:, -2], kind="stable")
        pool = order[:N_CHOSEN] if how == "least sure" else order[-N_CHOSEN:]
    elif how == "covered":
        pool = np.flatnonzero(dev.votes.covered)
    elif how == "conflict":
        votes = np.ma.masked_less(dev.votes.matrix, 0)
        pool = np.flatnonzero(np.ma.filled(votes.max(axis=1) != votes.min(axis=1), False))
    for seed in range(1 if how in ("least sure", "surest") else SEEDS):
        draw = np.random.default_rng(seed)
        rows = _cell(dev, draw) if how == "one cell" else draw.permutation(pool)[:N_CHOSEN]
        yield np.sort(rows)


def _cell(dev: Split, draw: np.random.Generator) -> np.ndarray:
    """The rows nearest to the centre of one of the cells into which k-means cuts dev."""
    from sklearn.cluster import KMeans

    assert dev.vectors is not None
    count = max(2, dev.n_rows // N_CHOSEN)
    far = KMeans(count, n_init=1, random_state=0).fit(dev.vectors).transform(dev.vectors)
    return np.argsort(far[:, draw.integers(count)], kind="stable")[:N_CHOSEN]


def _points(data: Dataset, guess: np.ndarray, truth: np.ndarray) -> float:
    if data.scoring == "accuracy":
        return float((guess == truth).mean())
    named = data.classes.index(str(data.positive))
    return precision_recall_f1(guess, truth, named, len(data.classes))[2]


def _show_dips(results: list[dict[str, Any]], amounts: list[str]) -> None:
    """Every step to more labels on which a set scores worse, and whether that is more than chance."""
    whole = {(r["data"], r["dev"]): r for r in results if r["method"] == "Fusion"}
    print("\nsteps to more labels that score worse, 95 % paired bootstrap over the scored rows:")
    for name in dict.fromkeys(data for data, _ in whole):
        for fewer, more in itertools.pairwise(amounts):
            step = whole[name, more]["mean"] - whole[name, fewer]["mean"]
            if step < 0:
                low, high = _interval(whole[name, fewer], whole[name, more])
                word = "significant" if high < 0 else "level"
                print(
                    f"{name:<10} {fewer:>5} to {more:<5} {step:+.2f} [{low:+.2f}, {high:+.2f}] {word}"
                )


def _interval(fewer: dict[str, Any], more: dict[str, Any]) -> tuple[float, float]:
    """What a step gains in the mean over draws, on resampled rows."""
    data, truth = fewer["task"], fewer["task"].truth["test"]
    draw, found = np.random.default_rng(0), []
    for _ in range(RESAMPLES):
        rows = draw.integers(len(truth), size=len(truth))
        both = (
            np.mean([_points(data, guess[rows], truth[rows]) for guess in each["guesses"]])
            for each in (more, fewer)
        )
        found.append(100 * float(next(both) - next(both)))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


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
    line = f"{row['data']:<24} {row['dev']:>10}  {row['mean']:6.2f} ± {row['sd']:4.2f}"
    line += (
        f"  ECE {row['calibration_error']:.3f}  loss {row['log_loss']:.3f}  {row['seconds']:6.2f} s"
    )
    best = baselines.get((row["data"], row["dev"]))
    print(line if best is None else f"{line}  margin {row['mean'] - best:+.2f}", flush=True)


def _summary(
    results: list[dict[str, Any]], amounts: list[str], baselines: dict[tuple[str, str], float]
) -> None:
    for amount in amounts:
        whole = {
            r["data"]: r["mean"] for r in results if r["method"] == "Fusion" and r["dev"] == amount
        }
        loss = [r["log_loss"] for r in results if r["method"] == "Fusion" and r["dev"] == amount]
        print(
            f"\n{amount}: mean {np.mean(list(whole.values())):.2f}, log loss {np.mean(loss):.4f}"
            f" over {len(whole)} sets"
        )
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
