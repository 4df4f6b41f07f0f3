"""What Fusion does where labels, sources or vectors are not what they should be.

    python benchmarks/stress.py                          every trial on every set, scored on held-out dev rows
    python benchmarks/stress.py --trials copies noise --sets yelp
    python benchmarks/stress.py --test --json stress.json      scored on test, to report

Labels are drawn from 60 % of dev, the other 40 % score, in several draws; with --test all of dev may be
labelled and test scores. Train gold is never read.

    macro    macro F1 with scoring="f1_macro": no labels, 200, all; sets of more than two classes
    vectors  random vectors in place of the real ones, beside majority vote and the triplet model
    votes    a source more, which votes on six rows in ten: at random, wrong four times in five, always the
             first class; scores without labels, with 20 and with 100, beside those without it
    rare     F1 of each class against the rest: of the rule, of one half, of the best threshold with hindsight
    copies   the worst fall when one source, each in turn, comes 500 times more
    noise    one label in ten wrong, and the rate told; or two labellers who err so, and label a third twice
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from epoxy import Session, Split, Votes
from epoxy.datasets import Dataset
from epoxy.diagnostics import calibration_error
from epoxy.fusion import Fusion
from epoxy.label_models import MajorityVote, Triplet
from epoxy.scoring import precision_recall_f1
from epoxy.session.edits import Label, Several
from quality import _load, _points, _sets

DRAWS = 5
WRONG = 0.1
COPIES = 500
BROAD = 0.6
FEWEST_RARE = 15
Numbers = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--sets", nargs="*", help="names of data folders; all with vectors and gold"
    )
    parser.add_argument("--trials", nargs="*", default=list(TRIALS), choices=list(TRIALS))
    parser.add_argument(
        "--test", action="store_true", help="score on test in place of held-out dev"
    )
    parser.add_argument("--json", help="where to write all numbers")
    options = parser.parse_args()
    found: dict[str, dict[str, Numbers]] = {}
    for name in options.sets or _sets():
        data = _load(name, None)
        for trial in options.trials:
            tried = (TRIALS[trial](data, *drawn) for drawn in _draws(data, options.test))
            parts = [each for each in tried if each]
            if not parts:
                continue
            mean = {key: float(np.mean([each[key] for each in parts])) for key in parts[0]}
            found.setdefault(trial, {})[name] = mean
            print(
                f"{trial:8} {name:9}",
                *(f"{key} {value:.3f} " for key, value in mean.items()),
                flush=True,
            )
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


def _draws(data: Dataset, test: bool) -> Iterator[tuple[Split, Split, int]]:
    """Rows that may be labelled in a random order, rows that score, and the number of the draw."""
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(data.dev.n_rows)
        cut = len(order) if test else int(0.6 * len(order))
        yield data.dev.rows(order[:cut]), data.test if test else data.dev.rows(order[cut:]), seed


def _truth(data: Dataset, split: Split) -> np.ndarray:
    return np.asarray(data.truth["test"] if split is data.test else split.truth)


def _score(data: Dataset, model: Any, scored: Split) -> float:
    return 100 * _points(data, model.decide(model.predict_proba(scored)), _truth(data, scored))


def _fusion(data: Dataset, **more: Any) -> Fusion:
    return Fusion(scoring=data.scoring, positive=data.positive, **more)


def _macro(data: Dataset, pool: Split, scored: Split, seed: int) -> Numbers:
    n_classes = len(data.classes)
    if n_classes == 2:
        return {}
    found = {}
    for amount in (0, 200, pool.n_rows):
        dev = pool.rows(np.arange(min(amount, pool.n_rows))) if amount else None
        model = Fusion(scoring="f1_macro").fit(data.train, dev)
        guess, truth = model.decide(model.predict_proba(scored)), _truth(data, scored)
        each = [precision_recall_f1(guess, truth, at, n_classes)[2] for at in range(n_classes)]
        found["all" if amount == pool.n_rows else str(amount)] = 100 * float(np.mean(each))
    return found


def _vectors(data: Dataset, pool: Split, scored: Split, seed: int) -> Numbers:
    draw = np.random.default_rng(seed)

    def noise(split: Split) -> Split:
        return Split(split.votes, draw.normal(size=(split.n_rows, 64)), split.y)

    train, pool, blind = noise(data.train), noise(pool), noise(scored)
    truth = _truth(data, scored)
    found = {}
    for name, model in (("majority", MajorityVote()), ("triplet", Triplet())):
        guess = model.fit(train.votes).predict_proba(scored.votes).argmax(axis=1)
        found[name] = 100 * _points(data, guess, truth)
    for amount in (0, 20, 100):
        dev = pool.rows(np.arange(min(amount, pool.n_rows))) if amount else None
        model = _fusion(data).fit(train, dev)
        guess = model.decide(model.predict_proba(blind))
        found[str(amount)] = 100 * _points(data, guess, truth)
    return found


def _votes(data: Dataset, pool: Split, scored: Split, seed: int) -> Numbers:
    found = {}
    for amount in (0, 20, 100):
        dev = pool.rows(np.arange(min(amount, pool.n_rows))) if amount else None
        found[f"{amount}"] = _score(data, _fusion(data).fit(data.train, dev), scored)
        for kind in ("random", "wrong", "constant"):
            draw = np.random.default_rng(100 + seed)
            train = _with_bad(data.train, _called(data), kind, draw)
            more = None if dev is None else _with_bad(dev, dev.truth, kind, draw)
            asked = _with_bad(scored, _truth(data, scored), kind, draw)
            model = _fusion(data).fit(train, more)
            guess = model.decide(model.predict_proba(asked))
            found[f"{amount}-{kind}"] = 100 * _points(data, guess, _truth(data, scored))
    return found


@cache
def _called(data: Dataset) -> np.ndarray:
    """What train rows are, as far as can be told: what Fusion calls them with all dev labels."""
    return np.asarray(Fusion().fit(data.train, data.dev).predict_proba(data.train).argmax(axis=1))


def _with_bad(split: Split, truth: np.ndarray, kind: str, draw: np.random.Generator) -> Split:
    n_classes, n_rows = len(split.classes), split.n_rows
    wrong = (truth + draw.integers(1, n_classes, n_rows)) % n_classes
    column = {
        "random": draw.integers(0, n_classes, n_rows),
        "wrong": np.where(draw.random(n_rows) < WRONG * 2, truth, wrong),
        "constant": np.zeros(n_rows, dtype=int),
    }[kind]
    column = np.where(draw.random(n_rows) < BROAD, column, -1)
    matrix = np.column_stack([split.votes.matrix, column])
    return Split(Votes(matrix, classes=split.classes), split.vectors, split.y)


def _rare(data: Dataset, pool: Split, scored: Split, seed: int) -> Numbers:
    if len(data.classes) == 2 and data.scoring != "f1":
        return {}
    found: dict[str, list[float]] = {}
    chosen = range(len(data.classes)) if len(data.classes) > 2 else [1]
    for label in chosen:
        truth = _truth(data, scored) == label
        if truth.sum() < FEWEST_RARE:
            continue
        train, mine, asked = (_against_rest(each, label) for each in (data.train, pool, scored))
        for amount in (0, 20, 100):
            dev = mine.rows(np.arange(min(amount, pool.n_rows))) if amount else None
            model = Fusion(scoring="f1", positive="this").fit(train, dev)
            proba = model.predict_proba(asked)
            order = np.argsort(-proba[:, 1], kind="stable")
            right = np.cumsum(truth[order])
            best = float((2 * right / (np.arange(1, len(right) + 1) + truth.sum())).max())
            for name, guess in (("rule", model.decide(proba)), ("half", proba.argmax(axis=1))):
                points = precision_recall_f1(guess, truth.astype(int), 1, 2)[2]
                found.setdefault(f"{amount}-{name}", []).append(100 * points)
            found.setdefault(f"{amount}-best", []).append(100 * best)
    return {name: float(np.mean(each)) for name, each in found.items()}


def _against_rest(split: Split, label: int) -> Split:
    matrix, y = split.votes.matrix, split.truth
    votes = np.where(matrix < 0, -1, matrix == label)
    known = None if split.y is None else np.where(y < 0, -1, y == label)
    return Split(Votes(votes, split.votes.sources, ["rest", "this"]), split.vectors, known)


def _copies(data: Dataset, pool: Split, scored: Split, seed: int) -> Numbers:
    if seed:  # nothing is drawn but labels, and there are as many fits as sources
        return {}
    found = {}
    for amount in (0, 100):
        dev = pool.rows(np.arange(min(amount, pool.n_rows))) if amount else None
        alone = _score(data, _fusion(data).fit(data.train, dev), scored)
        worst = np.inf
        for at in range(data.train.votes.n_sources):
            train, copied, more = (
                None if each is None else _copied(each, at) for each in (data.train, dev, scored)
            )
            model = _fusion(data).fit(train, copied)
            points = 100 * _points(
                data, model.decide(model.predict_proba(more)), _truth(data, scored)
            )
            worst = min(worst, points - alone)
        found[str(amount)] = worst
    return found


def _copied(split: Split, at: int) -> Split:
    matrix = split.votes.matrix
    more = np.hstack([matrix, np.repeat(matrix[:, at : at + 1], COPIES, axis=1)])
    return Split(Votes(more, classes=split.classes), split.vectors, split.y)


def _noise(data: Dataset, pool: Split, scored: Split, seed: int) -> Numbers:
    truth = _truth(data, scored)
    found = {}
    for amount in (100, pool.n_rows):
        dev = pool.rows(np.arange(min(amount, pool.n_rows)))
        name = "all" if amount == pool.n_rows else str(amount)
        said = [_misread(dev, 2 * seed + who) for who in range(2)]
        clean = _fusion(data).fit(data.train, dev)
        told = _fusion(data, noise=WRONG).fit(data.train, Split(dev.votes, dev.vectors, said[0]))
        for kind, model in (("right", clean), ("told", told), ("two", _by_two(data, dev, said))):
            proba = model.predict_proba(scored)
            found[f"{name}-{kind}"] = 100 * _points(data, model.decide(proba), truth)
            found[f"{name}-{kind}-ece"] = calibration_error(proba, truth)
    return found


def _misread(dev: Split, seed: int) -> np.ndarray:
    draw, n_classes = np.random.default_rng(seed), len(dev.classes)
    wrong = draw.random(dev.n_rows) < WRONG
    return np.where(
        wrong, (dev.truth + draw.integers(1, n_classes, dev.n_rows)) % n_classes, dev.truth
    )


def _by_two(data: Dataset, dev: Split, said: list[np.ndarray]) -> Fusion:
    session = Session(data.train, Split(dev.votes, dev.vectors), _fusion(data), graph=False)
    edits = []
    for row in range(dev.n_rows):
        both = row % 3 == 0
        for who, labels in enumerate(said):
            if both or row % 2 == who:
                edits.append(Label("dev", str(row), data.classes[labels[row]], "ab"[who], "random"))
    session.apply(Several(tuple(edits)))
    return session.model()


TRIALS: dict[str, Callable[[Dataset, Split, Split, int], Numbers]] = {
    "macro": _macro,
    "vectors": _vectors,
    "votes": _votes,
    "rare": _rare,
    "copies": _copies,
    "noise": _noise,
}

if __name__ == "__main__":
    main()
