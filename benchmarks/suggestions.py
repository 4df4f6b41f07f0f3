"""Whether suggested functions are as right as they are said to be, and what they are worth to a project.

    python benchmarks/suggestions.py                          all sets with text, table on standard output
    python benchmarks/suggestions.py --sets spam sms --seeds 1
    python benchmarks/suggestions.py --csv suggestions.csv    all numbers; sets that are there are kept
    python benchmarks/suggestions.py --tune --least 20        on dev alone: other rows of it as test, and
                                                              other halves for finding and judging each draw

Of each set half of the functions are taken away at random, and so many dev rows are hand labels (0, 100
drawn at random, or all). Five functions are suggested and added as they come. Told are the score on test
with all functions, with half of them, and with half of them and the five; and for each suggestion its
interval beside how often it is right on the test rows that it votes on, which nothing else looks at.
That share has chance of its own, the more the fewer rows: `holds` counts the shares that are inside, `allows`
the numbers of right votes that are no surprise (within 90 %) to who believes the interval.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epoxy import Fusion, Session, Split, Votes
from epoxy.bench import open_task
from epoxy.bench.task import BenchTask
from epoxy.functions.kinds import form_of
from epoxy.numerics import unit_rows
from epoxy.suggest import FunctionSuggestion
from epoxy.suggest import mine as evidence
from epoxy.suggest.precision import CONFIDENCE
from kept import read_rows, write_rows

DATA = Path(
    os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()
CACHE = Path(tempfile.gettempdir()) / "epoxy-suggestions"
"""Where neighbours are kept from one draw to the next."""
HAND = (0, 100, None)
FEWEST = 50
"""Test rows that a function must vote on for its share of right ones to be called its precision."""


@dataclass(frozen=True, eq=False)
class Case:
    """One draw: which functions stay, which rows are hand labels, which rows judge."""

    task: BenchTask
    seed: int
    hand: int | None
    kept: np.ndarray
    dev: Split | None
    texts: tuple[list[str], ...]  # of train, and of the hand-labelled rows
    test: Split
    test_texts: list[str]
    truth: np.ndarray


def main() -> None:
    options = _options()
    results = _read(options.csv) if options.csv else []
    done = {(each["data"], each["hand"], each["seed"]) for each in results}
    for name in options.sets or _sets():
        task, judge = open_task(DATA / name)
        for hand in options.hand:
            for seed in range(options.seeds):
                if (task.name, hand, seed) in done:
                    continue
                if options.tune:
                    evidence.HALVES = b"halves %d" % seed
                case = _case(task, judge.truth, hand, seed, tune=options.tune)
                results.append(_measured(case))
                print(json.dumps(results[-1]), flush=True)
                if options.csv:
                    write_rows(options.csv, map(dict, _lines(results)))
    _show(results, options.least)


def _lines(results: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A line for every suggestion, with its case; one for a case without any."""
    for each in results:
        case = {key: value for key, value in each.items() if key != "suggestions"}
        case["hand"] = "all" if each["hand"] is None else each["hand"]
        yield from ({**case, **one, **case} for one in each["suggestions"] or [{}])


def _read(path: str) -> list[dict[str, Any]]:
    """The cases again, each with its suggestions."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in read_rows(path):
        line["hand"] = None if line["hand"] == "all" else line["hand"]
        at = list(line).index("kind")
        case = dict(list(line.items())[:at]) | {"commit": line["commit"]}
        key = (line["data"], line["hand"], line["seed"])
        some = found.setdefault(key, case | {"suggestions": []})["suggestions"]
        some += [line] if line["kind"] else []
    return list(found.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="*", help="names of data folders; all with texts")
    parser.add_argument("--seeds", type=int, default=3, help="draws of functions and rows")
    number = {"type": lambda given: None if given == "all" else int(given)}
    parser.add_argument("--hand", nargs="*", default=HAND, **number, help="hand labels; or all")
    parser.add_argument("--csv", help="where to write all numbers")
    parser.add_argument("--tune", action="store_true", help="judge on rows of dev, never on test")
    parser.add_argument("--least", type=int, default=FEWEST, help="test rows to check an interval")
    return parser.parse_args()


def _sets() -> list[str]:
    found = (path.parent for path in DATA.glob("*/vectors-test.npy"))
    return sorted(each.name for each in found if not (each / "images-train.npy").exists())


def _case(task: BenchTask, truth: np.ndarray, hand: int | None, seed: int, *, tune: bool) -> Case:
    dev = task.dev
    assert dev is not None
    draw = np.random.default_rng([seed, 11])
    n_sources = task.train.votes.n_sources
    kept = np.sort(draw.permutation(n_sources)[: n_sources - n_sources // 2])
    order, texts = draw.permutation(dev.n_rows), task.rows["dev"]
    count = dev.n_rows if hand is None else min(hand, dev.n_rows)
    if tune:
        count = min(count, dev.n_rows // 2)
    mine, rest = np.sort(order[:count]), np.sort(order[count:])
    own = [list(task.rows["train"]), [texts[at] for at in mine]]
    test, test_texts = task.test, list(task.rows["test"])
    if tune:
        test, test_texts, truth = dev.rows(rest), [texts[at] for at in rest], dev.truth[rest]
    labelled = dev.rows(mine) if count else None
    return Case(
        task, seed, hand, kept, labelled, tuple(own[: 1 + bool(count)]), test, test_texts, truth
    )


def _measured(case: Case) -> dict[str, Any]:
    task = case.task
    every = np.arange(task.train.votes.n_sources)
    full = _score(case, _session(case, every), every, [])
    session = _session(case, case.kept)
    half = _score(case, session, case.kept, [])
    session.vocabulary  # noqa: B018 - words are read once for a project
    start = time.process_time()
    found = session.suggest(5)
    seconds = time.process_time() - start
    columns = []
    for each in found:
        session.add(form_of(each.definition).function(each.name))
        columns.append(_votes(case, session, each))
    plus = _score(case, session, case.kept, columns)
    return {
        "data": task.name,
        "metric": task.scoring.name,
        "hand": case.hand,
        "seed": case.seed,
        "full": full,
        "half": half,
        "plus": plus,
        "seconds": seconds,
        "suggestions": [_told(case, each, column) for each, column in zip(found, columns)],
    }


def _session(case: Case, sources: np.ndarray) -> Session:
    task = case.task
    model = Fusion(scoring=task.scoring.name, positive=task.positive)
    dev = None if case.dev is None else _with(case.dev, sources, [], [], truth=True)
    train = _with(task.train, sources, [], [])
    return Session(train, dev, model, rows=case.texts, cache=CACHE)


def _with(
    split: Split, sources: np.ndarray, names: list[str], more: list[np.ndarray], truth: bool = False
) -> Split:
    """A split with some of its sources, and other columns after them."""
    matrix = split.votes.matrix[:, sources]
    table = np.column_stack([matrix, *more]).astype(matrix.dtype)
    kept = [split.votes.sources[at] for at in sources]
    votes = Votes(table, sources=[*kept, *names], classes=split.classes)
    return Split(votes, split.vectors, split.truth if truth else None)


def _votes(case: Case, session: Session, each: FunctionSuggestion) -> np.ndarray:
    """What a function votes on the rows that judge."""
    definition = form_of(each.definition)
    label = case.task.classes.index(each.label)
    if definition.kind != "like":
        said = definition.function().vote(case.test_texts)
        return np.array([-1 if vote is None else label for vote in said])
    rows = [session.state.names.place(0, row)[1] for row in definition.rows]
    assert case.test.vectors is not None
    near = unit_rows(case.test.vectors) @ unit_rows(case.task.train.vectors[rows]).T
    return np.where((1 - near).min(axis=1) <= definition.radius, label, -1)


def _score(
    case: Case, session: Session, sources: np.ndarray, columns: list[np.ndarray]
) -> float | None:
    names = list(session.sources[len(sources) :])
    if session.outcome.problem:
        return None
    model = session.model()
    proba = model.predict_proba(_with(case.test, sources, names, columns))
    return float(case.task.scoring.scores(model.decide(proba), case.truth)["score"])


def _told(case: Case, each: FunctionSuggestion, column: np.ndarray) -> dict[str, Any]:
    voted = column >= 0
    precision = each.precision
    return {
        "kind": each.definition["kind"],
        "label": each.label,
        "says": str(each.definition.get("words") or each.definition.get("pattern") or "")[:200],
        "coverage": each.coverage,
        "adds": each.adds,
        "value": precision.value,
        "low": precision.low,
        "high": precision.high,
        "basis": precision.basis,
        "by_hand": precision.hand,
        "test_rows": int(voted.sum()),
        "test_right": int((column == case.truth)[voted].sum()),
    }


def _show(results: list[dict[str, Any]], least: int) -> None:
    for hand in dict.fromkeys(each["hand"] for each in results):
        rows = [each for each in results if each["hand"] == hand and each["half"] is not None]
        print(f"\n{'all dev rows' if hand is None else hand} hand labels")
        head = ("set", "draws", "full", "half", "plus", "lost", "regained")
        head += ("holds", "allows", "of", "width")
        print(("{:>10}" * len(head)).format(*head))
        means, judged = [], []
        for name in dict.fromkeys(each["data"] for each in rows):
            some = [each for each in rows if each["data"] == name]
            full, half, plus = (np.mean([e[key] for e in some]) for key in ("full", "half", "plus"))
            checked = _checked(some, least)
            means.append((full - half, plus - half))
            judged += checked
            holds, allows, width = (_mean(list(each)) for each in zip(*checked or [[np.nan] * 3]))
            print(
                f"{name:>10}{len(some):>10}{full:>10.1f}{half:>10.1f}{plus:>10.1f}{full - half:>10.1f}"
                f"{plus - half:>+10.1f}{holds:>10.0%}{allows:>10.0%}{len(checked):>10}{width:>10.2f}"
            )
        lost, regained = np.mean(means, axis=0)
        holds, allows, width = (_mean(list(each)) for each in zip(*judged or [[np.nan] * 3]))
        print(
            f"mean over sets: lost {lost:.2f}, regained {regained:+.2f}, {regained / lost:.0%} of it; of "
            f"{len(judged)} intervals with {least} test rows or more {holds:.0%} hold the share of right "
            f"votes, {allows:.0%} allow it; mean width {width:.2f}"
        )


def _checked(results: list[dict[str, Any]], least: int) -> list[tuple[bool, bool, float]]:
    """Whether each interval holds the share of right votes on test, whether it allows it, and its width."""
    found = []
    for each in (one for result in results for one in result["suggestions"]):
        if each["test_rows"] >= least:
            share = each["test_right"] / each["test_rows"]
            inside = each["low"] <= share <= each["high"]
            found.append((inside, inside or _allows(each), each["high"] - each["low"]))
    return found


def _allows(each: dict[str, Any]) -> bool:
    """Whether so many right votes are likely, of a precision with this mean and this end of its interval.

    Its distribution is taken for a beta one, which with the test rows' own chance makes a beta-binomial.
    """
    from scipy.stats import beta, betabinom

    mean, tail, counts = each["value"], (1 - CONFIDENCE) / 2, np.geomspace(1, 1e5, 1000)
    beyond = (
        beta.cdf(each["low"], mean * counts, (1 - mean) * counts)
        if each["low"] > 0
        else beta.sf(each["high"], mean * counts, (1 - mean) * counts)
    )
    count = counts[np.flatnonzero(beyond >= min(tail, beyond.max()))[-1]]
    told = betabinom(each["test_rows"], mean * count, (1 - mean) * count)
    middle = told.cdf(each["test_right"]) - told.pmf(each["test_right"]) / 2
    return bool(tail <= middle <= 1 - tail)


def _mean(values: list[Any]) -> float:
    return float(np.mean(values)) if values else float("nan")


if __name__ == "__main__":
    main()
