"""What answers that may be wrong are worth: to Fusion, and to a classifier taught by the same answers.

    python benchmarks/answers.py                        all sets, table on standard output
    python benchmarks/answers.py --sets spam sms --seeds 1
    python benchmarks/answers.py --csv answers.csv      all numbers; sets that are there are kept
    python benchmarks/answers.py --csv answers.csv --figure answers.png
    python benchmarks/answers.py --earlier FILE         take the classifier's scores from an earlier file
    python benchmarks/answers.py --told                 how often the answerer is right is told
    python benchmarks/answers.py --dev                  score rows of dev that are held out, in place of test

Rows of dev are the pool: 100 of them, if asked for, are hand labels, and the rest is answered, with one
answer in five (100 at most) about a hand-labelled row, as `epoxy ask` does. The answerer is right 70,
80, 90 or 95 % of the time in the mean over classes, some classes more often and some less (up to 10
points either way), and half of its mistakes about a class are one other class. Answers reach Fusion as
labels of a labeller of whom nothing is told (with --told the mean over classes is). The classifier is
logistic regression on the vectors of the same rows, penalty and threshold by cross-validation on the
same labels; hand labels take the place of answers there. Test gold only scores; with --dev it is not
asked for: in every draw the pool is 60 % of dev, and the other 40 % score.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from epoxy import Fusion, Session, Split
from epoxy.bench import open_task
from epoxy.bench.task import BenchTask, HiddenLabels
from epoxy.diagnostics import calibration_error
from epoxy.diagnostics.per_source import interval
from epoxy.numerics import unit_rows
from epoxy.session import Label, Several
from kept import read_rows, write_rows

DATA = Path(
    os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()
RIGHT = (0.70, 0.80, 0.90, 0.95)
ANSWERS, HAND = (100, 300, 1000), (0, 100)
PENALTIES = (0.1, 1.0, 10.0, 100.0)
BY = "model"
PRICES = {"a small language model": 0.0001, "an annotator": 0.03}
HAND_PRICE = 0.08
"""Assumed: 600 tokens sent and 10 answered at 0.15 and 0.60 a million; 15 s of an expert's time."""


@dataclass(frozen=True)
class Case:
    """One draw of hand-labelled and answered rows of dev."""

    right: float
    answers: int
    n_hand: int
    seed: int
    hand: np.ndarray
    asked: np.ndarray
    said: np.ndarray  # (len(asked),) class


def main() -> None:
    options = _options()
    results: list[dict[str, Any]] = read_rows(options.csv) if options.csv else []
    done = {each["data"] for each in results}
    earlier = {}
    if options.earlier:
        known = read_rows(options.earlier)
        earlier = {_key(each): each["classifier"] for each in known}
    for name in options.sets or _sets():
        task, judge = open_task(DATA / name)
        if task.name in done:
            continue
        if options.dev:
            for seed in range(options.seeds):
                results += _measured(*_held_out(task, seed), options, earlier, [seed])
        else:
            results += _measured(task, judge, options, earlier, range(options.seeds))
        if options.csv:
            write_rows(options.csv, results)
    _show(results)
    if options.figure:
        _draw(results, options.figure)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="*", help="names of data folders; all with vectors")
    parser.add_argument("--seeds", type=int, default=3, help="draws of rows and answers")
    parser.add_argument("--told", action="store_true", help="tell how often answers are right")
    parser.add_argument("--dev", action="store_true", help="score held-out dev in place of test")
    parser.add_argument("--csv", help="where to write all numbers")
    parser.add_argument("--figure", help="where to draw score against money")
    parser.add_argument(
        "--earlier", help="a file of earlier results: cases are drawn by their seed"
    )
    return parser.parse_args()


def _sets() -> list[str]:
    return sorted(path.parent.name for path in DATA.glob("*/vectors-test.npy"))


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a case is, whoever is taught by it."""
    names = ("data", "right", "answers", "asked", "hand", "hand_wanted", "seed", "is_right")
    return tuple(row[name] for name in names)


def _held_out(task: BenchTask, seed: int) -> tuple[BenchTask, HiddenLabels]:
    """A task whose pool is 60 % of dev, and the other rows of dev in the place of test."""
    assert task.dev is not None
    order = np.random.default_rng([11, seed]).permutation(task.dev.n_rows)
    cut = int(0.6 * len(order))
    scored = task.dev.rows(order[cut:])
    sealed = Split(scored.votes, scored.vectors, ids=scored.ids)
    held = replace(task, dev=task.dev.rows(order[:cut]), test=sealed, rows={})
    return held, HiddenLabels(task.scoring, scored.truth)


def _measured(
    task: BenchTask,
    judge: HiddenLabels,
    options: argparse.Namespace,
    earlier: dict[tuple[Any, ...], float],
    seeds: Iterable[int],
) -> list[dict[str, Any]]:
    dev = task.dev
    assert dev is not None
    pool = Split(dev.votes, dev.vectors, ids=[f"dev-{at}" for at in range(dev.n_rows)])
    model = Fusion(scoring=task.scoring.name, positive=task.positive)
    rates = RIGHT if options.told else (None,)
    sessions = {
        rate: Session(task.train, pool, model, reliability={} if rate is None else {BY: rate})
        for rate in rates
    }
    found = []
    by_hand: dict[tuple[int, ...], dict[str, Any]] = {}
    for case in _cases(dev, seeds):
        session = sessions[case.right if options.told else None]
        ours = _fused(session, task, judge, case, by_hand)
        known = earlier.get(_key(ours))
        score = _classified(task, judge, case) if known is None else known
        found.append(ours | {"classifier": score})
        print(json.dumps(found[-1]), flush=True)
    return found


def _cases(dev: Split, seeds: Iterable[int]) -> Iterator[Case]:
    for right, n_hand, seed in product(RIGHT, HAND, seeds):
        draw = np.random.default_rng([seed, round(100 * right), n_hand])
        order = draw.permutation(dev.n_rows)
        hand = order[: min(n_hand, dev.n_rows // 2)]
        most = 0
        for answers in ANSWERS:
            again = min(100, answers // 5, len(hand))
            asked = np.concatenate([hand[:again], order[len(hand) :][: answers - again]])
            if len(asked) <= 1.2 * most:  # the pool has no more
                continue
            most = len(asked)
            said = simulated(dev.truth, right, len(dev.classes), seed)[asked]
            yield Case(right, answers, n_hand, seed, hand, asked, said)


def simulated(truth: np.ndarray, right: float, n_classes: int, seed: int) -> np.ndarray:
    """An answer for every row."""
    draw = np.random.default_rng([7, seed, round(100 * right)])
    spread = min(0.1, 0.8 * (1 - right))
    rates = right + spread * draw.permutation(np.linspace(-1, 1, n_classes))
    favourite = (np.arange(n_classes) + draw.integers(1, n_classes, n_classes)) % n_classes
    other = (truth + draw.integers(1, n_classes, len(truth))) % n_classes
    wrong = np.where(draw.random(len(truth)) < 0.5, favourite[truth], other)
    return np.where(draw.random(len(truth)) < rates[truth], truth, wrong)


def _fused(
    session: Session,
    task: BenchTask,
    judge: HiddenLabels,
    case: Case,
    by_hand: dict[tuple[int, ...], dict[str, Any]],
) -> dict[str, Any]:
    """Fusion taught by hand labels, which is kept for other answers, and by these and the answers."""
    dev = task.dev
    assert dev is not None
    own = [_label(task, int(row), int(dev.truth[row]), None) for row in case.hand]
    said = [_label(task, int(row), int(each), BY) for row, each in zip(case.asked, case.said)]
    hand = tuple(case.hand.tolist())
    if hand not in by_hand:
        by_hand[hand] = _taught(session, task, judge, own)
    without = by_hand[hand]
    taught = _taught(session, task, judge, [*own, *said])
    both = np.isin(case.asked, case.hand)
    agreed = interval(int((case.said == dev.truth[case.asked])[both].sum()), int(both.sum()))
    return {
        "data": task.name,
        "metric": task.scoring.name,
        "right": case.right,
        "answers": case.answers,
        "asked": len(case.asked),
        "hand": len(case.hand),
        "hand_wanted": case.n_hand,
        "seed": case.seed,
        "fusion": taught["score"],
        "fusion_without": without["score"],
        "calibration_error": taught["calibration_error"],
        "log_loss": taught["log_loss"],
        "is_right": float((case.said == dev.truth[case.asked]).mean()),
        "estimated": taught["estimated"],
        "agreement": agreed,
    }


def _label(task: BenchTask, row: int, label: int, by: str | None) -> Label:
    return Label("dev", f"dev-{row}", task.classes[label], by, "random")


def _taught(
    session: Session, task: BenchTask, judge: HiddenLabels, labels: list[Label]
) -> dict[str, Any]:
    if labels:
        session.apply(Several(tuple(labels), "labels"))
    model = session.model()
    proba = model.predict_proba(task.test)
    own = proba[np.arange(len(proba)), judge.truth]
    right = session.state.records.right(BY)
    if labels:
        session.undo()
    return {
        "score": judge.score(model.decide(proba))["score"],
        "calibration_error": calibration_error(proba, judge.truth),
        "log_loss": float(-np.log(np.maximum(own, 1e-15)).mean()),
        "estimated": right,
    }


def _classified(task: BenchTask, judge: HiddenLabels, case: Case) -> float:
    """Logistic regression on the answered rows, hand labels in the place of answers."""
    dev = task.dev
    assert dev is not None
    assert dev.vectors is not None
    assert task.test.vectors is not None
    known = dict(zip(case.asked.tolist(), case.said.tolist()))
    known |= {int(row): int(dev.truth[row]) for row in case.hand}
    rows, y = np.array(list(known)), np.array(list(known.values()))
    x, test = unit_rows(dev.vectors)[rows], unit_rows(task.test.vectors)
    present = np.unique(y)
    if len(present) == 1:
        return judge.score(np.full(len(test), present[0]))["score"]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    best: tuple[float, float, float | None] = (-np.inf, 1.0, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with fewer rows than folds
        for penalty in PENALTIES:
            head = LogisticRegression(C=penalty, max_iter=1000)
            held = _widened(
                cross_val_predict(head, x, y, cv=folds, method="predict_proba"), present, task
            )
            cut = task.scoring.threshold(held, y)
            value = task.scoring.scores(task.scoring.labels(held, cut), y)["score"]
            best = max(best, (value, penalty, cut), key=lambda each: each[0])
        head = LogisticRegression(C=best[1], max_iter=1000).fit(x, y)
    proba = _widened(head.predict_proba(test), present, task)
    return judge.score(task.scoring.labels(proba, best[2]))["score"]


def _widened(proba: np.ndarray, present: np.ndarray, task: BenchTask) -> np.ndarray:
    found = np.zeros((len(proba), len(task.classes)))
    found[:, present] = proba
    return found


def _show(results: list[dict[str, Any]]) -> None:
    print("\nscore, mean over sets and draws; margin of Fusion over the classifier")
    print(f"{'right':>6} {'hand':>5} {'answers':>8} {'sets':>5}", end="")
    print(
        f"{'without':>9} {'classifier':>11} {'Fusion':>8} {'margin':>8} {'worst set':>22} {'ECE':>6}"
    )
    for right, hand, answers in product(RIGHT, HAND, ANSWERS):
        rows = [
            each
            for each in results
            if (each["right"], each["hand_wanted"], each["answers"]) == (right, hand, answers)
        ]
        if not rows:
            continue
        by_set: dict[str, list[float]] = {}
        for each in rows:
            by_set.setdefault(each["data"], []).append(each["fusion"] - each["classifier"])
        margins = {name: float(np.mean(some)) for name, some in by_set.items()}
        worst = min(margins, key=lambda name: margins[name])
        mean = {
            key: np.mean([each[key] for each in rows])
            for key in ("fusion_without", "classifier", "fusion", "calibration_error")
        }
        print(
            f"{right:>6.0%} {hand:>5} {answers:>8} {len(by_set):>5} {mean['fusion_without']:>8.1f} "
            f"{mean['classifier']:>11.1f} {mean['fusion']:>8.1f} {np.mean(list(margins.values())):>+8.1f} "
            f"{worst:>14} {margins[worst]:>+7.1f} {mean['calibration_error']:>6.3f}"
        )
    known = [each for each in results if each.get("agreement")]
    for right in RIGHT:
        some = [each for each in known if each["right"] == right]
        within = [
            each["agreement"]["low"] <= each["is_right"] <= each["agreement"]["high"]
            for each in some
        ]
        off = [each["estimated"] - each["is_right"] for each in some]
        if some:
            print(
                f"right {right:.0%}: the interval of the agreement covers the truth in "
                f"{np.mean(within):.0%} of {len(some)} cases; the estimate is off by "
                f"{np.mean(off):+.3f} ± {np.std(off):.3f}"
            )


def _draw(results: list[dict[str, Any]], path: str) -> None:
    """Score against money at answers that are right 90 % of the time, for two prices of an answer."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot, ticker

    rows = [each for each in results if each["right"] == 0.9 and each["answers"] in ANSWERS[:2]]
    by_case = [
        {e["data"] for e in rows if (e["answers"], e["hand_wanted"]) == case}
        for case in product(ANSWERS[:2], HAND)
    ]
    rows = [each for each in rows if each["data"] in set.intersection(*by_case)]
    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    for axis, (who, price) in zip(axes, PRICES.items()):
        for hand in HAND:
            for key, name in (("fusion", "Fusion"), ("classifier", "classifier")):
                axis.plot(
                    *_spent(rows, hand, key, price), marker="o", label=f"{name}, {hand} hand labels"
                )
        free = np.mean([each["fusion_without"] for each in rows if not each["hand_wanted"]])
        axis.axhline(free, color="grey", linestyle=":", label="Fusion, nothing paid")
        axis.set_xscale("log")
        axis.set_title(
            f"{who}: {price:g} for an answer, {HAND_PRICE:g} for a hand label", fontsize=9
        )
        axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 3)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_xlabel("money spent")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("score on test")
    axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def _spent(
    rows: list[dict[str, Any]], hand: int, key: str, price: float
) -> tuple[list[float], list[float]]:
    """Money, and the mean score it bought."""
    some = [each for each in rows if each["hand_wanted"] == hand]
    money, score = [], []
    if hand and key == "fusion":
        money.append(HAND_PRICE * hand)
        score.append(float(np.mean([each["fusion_without"] for each in some])))
    for answers in ANSWERS[:2]:
        money.append(HAND_PRICE * hand + price * answers)
        score.append(float(np.mean([each[key] for each in some if each["answers"] == answers])))
    return money, score


if __name__ == "__main__":
    main()
