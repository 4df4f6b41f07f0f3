"""Which rows to label: rows that `session.next` suggests, against rows drawn at random.

    python benchmarks/teaching.py                       all sets, scored on test, five draws
    python benchmarks/teaching.py --dev                 scored on 40 % of dev, labelled from the rest
    python benchmarks/teaching.py --sets spam sms --draws 1 --arms random mix teach
    python benchmarks/teaching.py --json teaching.json --figure docs/teaching.svg

Rows of dev are the pool: they are train rows of the session without a label, and `session.next(10,
purpose, among=pool)` picks ten at a time, each labelled with its truth and the word that came with it.
"random" is purpose "score". After 10, 20, 50, 100 and 200 labels, as far as the pool goes, the model is
scored, and the accuracy that the session itself reports is compared with the truth. A draw is another
random order of the same pool. Sets that a JSON file holds already are not measured again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from epoxy import Fusion, Session, Split
from epoxy.datasets import Dataset
from epoxy.diagnostics.sources import interval
from epoxy.session import Label, Several
from quality import _load, _points, _sets

AMOUNTS = (10, 20, 50, 100, 200)
ARMS = {"random": "score", "mix": "mix", "teach": "teach"}
STEP = 10
Row = dict[str, Any]


def main() -> None:
    options = _options()
    path = Path(options.json) if options.json else None
    found: list[Row] = []
    if path is not None and path.is_file():
        found = json.loads(path.read_text())["results"]
    done = {each["data"] for each in found}
    for name in options.sets or _sets():
        if name in done:
            continue
        data = _load(name, None)
        for draw in range(options.draws):
            found += _drawn(data, draw, options.arms, options.dev)
        _show_set([each for each in found if each["data"] == name], options.arms)
        if path is not None:
            path.write_text(json.dumps({"results": found}, indent=1) + "\n")
    _summary(found, options.arms)
    if options.figure:
        _draw(found, options.arms, options.figure)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="*", help="names of data folders; all with vectors")
    parser.add_argument("--draws", type=int, default=5, help="random orders of the pool")
    parser.add_argument("--arms", nargs="*", default=["random", "mix"], choices=list(ARMS))
    parser.add_argument("--dev", action="store_true", help="score on dev rows held out")
    parser.add_argument("--json", help="where to keep all numbers")
    parser.add_argument("--figure", help="where to draw the curves")
    return parser.parse_args()


def _drawn(data: Dataset, draw: int, arms: list[str], on_dev: bool) -> list[Row]:
    """The curves of one draw."""
    dev = data.dev
    order = np.random.default_rng(draw).permutation(dev.n_rows)
    cut = int(0.6 * dev.n_rows) if on_dev else dev.n_rows
    pool, scored = dev.rows(order[:cut]), dev.rows(order[cut:]) if on_dev else data.test
    truth = scored.truth if on_dev else data.truth["test"]
    bare = [Split(each.votes, each.vectors) for each in (data.train, pool)]
    joined = bare[0].followed_by(bare[1])
    names = [f"train-{at}" for at in range(bare[0].n_rows)]
    names += [f"{draw}-{at}" for at in order[:cut]]
    train = Split(joined.votes, joined.vectors, ids=names)
    model = Fusion(scoring=data.scoring, positive=data.positive)
    told = Split(scored.votes, scored.vectors)  # dev rows of the session, none of them labelled
    session = Session(train, told, model, positive=data.positive)
    label = dict(zip(names[bare[0].n_rows :], pool.truth.tolist()))
    among = range(bare[0].n_rows, train.n_rows)
    found = []
    for arm in arms:
        for count, made in _curve(session, data, arm, among, label):
            guess = made["guess"]
            found.append(
                {
                    "data": data.name,
                    "metric": data.scoring,
                    "draw": draw,
                    "arm": arm,
                    "labels": count,
                    "score": 100 * _points(data, guess, truth),
                    "accuracy": float((guess == truth).mean()),
                    "reported": made["reported"],
                }
            )
    return found


def _curve(
    session: Session, data: Dataset, arm: str, among: range, truth: dict[str, int]
) -> list[tuple[int, Row]]:
    """The labels of the rows scored and the session's own score at each amount; labels are taken back."""
    found, given = [], list[str]()
    most = min(max(AMOUNTS), len(among))
    while len(given) < most:
        rows = session.next(min(STEP, most - len(given)), ARMS[arm], among=among)
        edits = [
            Label("train", each.id, data.classes[truth[each.id]], None, each.chosen)
            for each in rows
        ]
        session.apply(Several(tuple(edits), "labels"))
        given += [each.id for each in rows]
        if len(given) in AMOUNTS or len(given) == most:
            made = {"guess": session.dev_labels, "reported": _reported(session)}
            found.append((len(given), made))
    taken_back = [Label("train", each, None, None, None) for each in given]
    session.apply(Several(tuple(taken_back), "labels taken back"))
    return found


def _reported(session: Session) -> Row | None:
    """The accuracy that the session says it has, with its interval."""
    scores = session.scores
    if "accuracy" not in scores:
        return None
    rows = int(scores["rows"])
    return {"basis": scores.basis, **(interval(round(scores["accuracy"] * rows), rows) or {})}


def _mean(found: list[Row], data: str, arm: str) -> tuple[np.ndarray, np.ndarray]:
    """Amounts, and the mean score at each."""
    rows = [each for each in found if (each["data"], each["arm"]) == (data, arm)]
    amounts = sorted({each["labels"] for each in rows})
    means = [np.mean([each["score"] for each in rows if each["labels"] == at]) for at in amounts]
    return np.array(amounts, float), np.array(means)


def area(amounts: np.ndarray, scores: np.ndarray) -> float:
    """Mean height of the curve over the number of labels."""
    return float(np.trapezoid(scores, amounts) / (amounts[-1] - amounts[0]))


def needed(amounts: np.ndarray, scores: np.ndarray, wanted: float) -> float:
    """Labels at which a curve first has the score, between amounts by a straight line; the most if never."""
    for at in range(len(amounts)):
        if scores[at] >= wanted:
            if not at:
                return float(amounts[0])
            share = (wanted - scores[at - 1]) / (scores[at] - scores[at - 1])
            return float(amounts[at - 1] + share * (amounts[at] - amounts[at - 1]))
    return float(amounts[-1])


def _show_set(found: list[Row], arms: list[str]) -> None:
    for arm in arms:
        amounts, scores = _mean(found, found[0]["data"], arm)
        points = "  ".join(f"{int(n)}: {score:.1f}" for n, score in zip(amounts, scores))
        print(
            f"{found[0]['data']:<9} {arm:<7} {points}  area {area(amounts, scores):.2f}", flush=True
        )


def _summary(found: list[Row], arms: list[str]) -> None:
    sets = list(dict.fromkeys(each["data"] for each in found))
    for arm in arms[1:]:
        gains, asked = [], []
        print(f"\n{arm} against {arms[0]}: area over labels, over their logarithm, labels needed")
        for name in sets:
            (amounts, base), (_, scores) = _mean(found, name, arms[0]), _mean(found, name, arm)
            gain = area(amounts, scores) - area(amounts, base)
            even = area(np.log(amounts), scores) - area(np.log(amounts), base)
            gains.append((gain, even))
            need = ""
            if amounts[-1] > 100:
                asked.append(needed(amounts, scores, base[amounts.tolist().index(100)]))
                need = f"{asked[-1]:.0f}"
            print(f"{name:<9} {gain:+.2f} {even:+.2f} {need:>5}")
        print("mean      " + " ".join(f"{each:+.2f}" for each in np.mean(gains, axis=0)), end=" ")
        print(f"{np.mean(asked):.0f}" if asked else "")
    for arm in arms:
        rows = [each for each in found if each["arm"] == arm and each["reported"]]
        within = [
            each["reported"]["low"] <= each["accuracy"] <= each["reported"]["high"] for each in rows
        ]
        if within:
            print(
                f"{arm}: the interval of the reported accuracy covers the truth "
                f"in {np.mean(within):.0%} of {len(within)} cases"
            )


def _draw(found: list[Row], arms: list[str], path: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "teaching"
    from matplotlib import pyplot

    sets = sorted({each["data"] for each in found})
    figure, axes = pyplot.subplots(2, (len(sets) + 1) // 2, figsize=(11, 4.6), squeeze=False)
    for axis in axes.ravel()[len(sets) :]:
        axis.axis("off")
    for axis, name in zip(axes.ravel(), sets):
        for arm in arms:
            axis.plot(*_mean(found, name, arm), marker=".", label=arm)
        axis.set_xscale("log")
        axis.set_xticks([10, 50, 200], ["10", "50", "200"])
        axis.minorticks_off()
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.supxlabel("hand labels", fontsize=9)
    figure.supylabel("score on test", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
