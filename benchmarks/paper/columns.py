"""Columns of the paper's tables that `epoxy bench` has not: baselines, Liger, and fine-tuned networks.

    python benchmarks/paper/columns.py --out DIR [--quick] [--network NAME] [--methods NAME …] FOLDER …

goes on in a folder that `epoxy bench --out DIR` wrote, or starts one.

Liger: sources differ from place to place, so each region of the space gets its own label model. Regions
are k-means cells of the train vectors; their number, a shared extension and each region's class balance
are chosen on dev. A region in which too few sources speak is answered by the model of the whole space.
Chen et al., "Shoring Up the Foundations: Fusing Model Embeddings and Weak Supervision" (UAI 2022).
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsRegressor

from epoxy import bench
from epoxy.bench import BenchColumn, Context, Prediction
from epoxy.bench.methods import (
    Labels,
    by_hand,
    epoxy_labels,
    labels_of,
    on_dev,
    triplet_choice,
    triplet_labels,
    tuned,
    weak_head,
)
from epoxy.errors import EpoxyError, LabelError
from epoxy.estimators import clone
from epoxy.extension import Reach
from epoxy.heads import FineTuned, Training
from epoxy.label_models import DawidSkene, LabelModel, Triplet
from epoxy.numerics import unit_rows
from epoxy.votes import Votes

NEIGHBOURS = (1, 3, 5, 10, 15, 20, 30, 50)
REGIONS = (1, 2, 3, 5, 8)
EXTENDED = (0.0, 0.02, 0.1, 0.3, 0.6)
LEAST_ROWS = 20  # train rows a region needs for a model of its own
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of the second class tried in a region, besides the global one."""
STEPS = 300  # steps a small data set should get before early stopping may end them
MOST_ROWS = 2400  # train rows used: on a CPU an epoch over more takes longer than it teaches
HELD_SHARE = 0.2
MORE = ["Epoxy-fixed-r", "DS-LM", "Epoxy-NFT", "TS-KNN", "WS-KNN", "Boost-xv", "Liger"]
MORE += ["TS-FT", "WS-FT", "Epoxy-FT"]
Places = dict[str, np.ndarray]
"""The region of each row, by split."""


def columns(network: str | None = None) -> list[BenchColumn]:
    """All columns of the paper's tables."""
    about = {"random": True, "variant": network or ""}
    return [
        *bench.COLUMNS,
        BenchColumn("Epoxy-fixed-r", epoxy_fixed, "dev vectors"),
        BenchColumn("DS-LM", dawid_skene),
        BenchColumn("Epoxy-NFT", epoxy_nft, "dev vectors"),
        BenchColumn("TS-KNN", ts_knn, "dev vectors"),
        BenchColumn("WS-KNN", ws_knn, "vectors"),
        BenchColumn("Boost-xv", boosting, "dev vectors"),
        BenchColumn("Liger", liger, "dev vectors", random=True),
        BenchColumn("TS-FT", partial(ts_ft, network), "dev rows", **about),
        BenchColumn("WS-FT", partial(weakly, triplet_labels, network), "rows", **about),
        BenchColumn(
            "Epoxy-FT",
            partial(weakly, epoxy_labels, network),
            "dev rows vectors",
            **about,
        ),
    ]


# baselines


def epoxy_fixed(context: Context) -> Prediction:
    """Epoxy-fixed-r: one radius for all sources, chosen on dev."""
    model, facts = triplet_choice(context)
    found = tuned(context, model, shared=True)
    known = found.radius_[~np.isnan(found.radius_)]  # cut to the last distance that gains a row
    about = {**facts, "radius": float(known.max(initial=0.0))}
    return labels_of(context, model, about, found.radius_).prediction()


def dawid_skene(context: Context) -> Prediction:
    """DS-LM: dev chooses how silence is read."""
    models = {kind: DawidSkene(abstain=kind) for kind in ("auto", "symbol", "missing")}
    with context.clock("tuning"):
        kind = context.best({each: on_dev(context, models[each]) for each in models})
    return labels_of(context, models[kind], {"abstain": kind}).prediction()


def epoxy_nft(context: Context) -> Prediction:
    """Epoxy-NFT: logistic regression on Epoxy's probabilities."""
    return weak_head(context, epoxy_labels(context))


def nearest(k: int, vectors: np.ndarray, targets: np.ndarray) -> KNeighborsRegressor:
    """The mean target of the k nearest rows."""
    return KNeighborsRegressor(k, metric="cosine").fit(vectors, targets)


def ts_knn(context: Context) -> Prediction:
    """TS-KNN: the nearest dev rows, their number by leave-one-out."""
    vectors, targets = (
        context.vectors(context.dev),
        np.eye(len(context.task.classes))[context.truth],
    )
    with context.clock("training"):
        usable = [k for k in NEIGHBOURS if k < len(vectors)]
        if not usable:
            raise LabelError("nearest neighbours need two dev rows; label more")
        others = nearest(1, vectors, targets).kneighbors(None, usable[-1], return_distance=False)
        told = {k: targets[others[:, :k]].mean(axis=1) for k in usable}
        k = min(usable, key=lambda each: float(((told[each] - targets) ** 2).sum()))
        head = nearest(k, vectors, targets)
    return Prediction(head.predict(context.vectors(context.task.test)), told[k], {"k": k})


def ws_knn(context: Context) -> Prediction:
    """WS-KNN: the nearest covered train rows with WS-LM's probabilities, their number by dev."""
    labels = triplet_labels(context)
    rows, dev = labels.taught(context), context.task.dev
    vectors, targets = context.vectors(context.task.train)[rows], labels.train[rows]
    asked = None if dev is None else context.vectors(dev)
    with context.clock("tuning"):
        usable = [k for k in NEIGHBOURS if k <= len(vectors)]
        fits = {k: nearest(k, vectors, targets) for k in usable}
        k = context.best({k: partial(each.predict, asked) for k, each in fits.items()})
    known = None if asked is None else fits[k].predict(asked)
    return Prediction(fits[k].predict(context.vectors(context.task.test)), known, {"k": k})


def boosting(context: Context) -> Prediction:
    """Boost-xv: histogram gradient boosting on vectors and votes; smaller leaves for few labels."""
    least = int(np.clip(len(context.truth) // 20, 2, 20))

    def fit(rows: np.ndarray, labels: np.ndarray) -> Any:
        model = HistGradientBoostingClassifier(min_samples_leaf=least, random_state=context.seed)
        return model.fit(rows, labels)

    return by_hand(context, context.vectors_and_votes, fit, {"min_samples_leaf": least})


# Liger


def liger(context: Context) -> Prediction:
    """One label model per region, everything chosen on dev."""
    found, n_train = context.reaches, context.task.train.n_rows
    places = {n: regions(context, n) for n in REGIONS if n == 1 or n_train >= n * LEAST_ROWS}
    with context.clock("tuning"):
        answers: dict[tuple[int, float], tuple[np.ndarray, np.ndarray]] = {}
        for share in EXTENDED:
            votes = extended(found, share)
            for count, place in places.items():
                answers[count, share] = by_region(context, votes, place)
        chosen = context.best({key: partial(np.asarray, dev) for key, (dev, _) in answers.items()})
    with context.clock("training"):
        dev, test = by_region(context, extended(found, chosen[1]), places[chosen[0]])
    return Prediction(test, dev, {"regions": chosen[0], "extended": chosen[1]})


def extended(found: dict[str, Reach], share: float) -> dict[str, Votes]:
    """The votes within the radius that fills a share of the abstentions; as they are for share 0."""
    distance = found["train"].distance[~found["train"].votes.cast]
    distance = distance[np.isfinite(distance)]
    if share == 0 or not len(distance):
        return {name: each.votes for name, each in found.items()}
    radius = float(np.quantile(distance, share))
    return {name: each.extend(radius) for name, each in found.items()}


def regions(context: Context, count: int) -> Places:
    """The cell of every row among so many."""
    from sklearn.cluster import KMeans

    vectors = {name: unit_rows(context.vectors(each)) for name, each in context.task.splits.items()}
    with context.clock("tuning"):
        cells = KMeans(count, n_init=3, random_state=context.seed).fit(vectors["train"])
        return {name: cells.predict(each) for name, each in vectors.items()}


def by_region(
    context: Context, votes: dict[str, Votes], places: Places
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of dev and test, region by region."""
    model, _ = triplet_choice(context)
    whole = clone(model).fit(votes["train"])
    found = {name: whole.predict_proba(votes[name]) for name in ("dev", "test")}
    for region in np.unique(places["train"]):
        rows = {name: place == region for name, place in places.items()}
        if rows["train"].sum() < LEAST_ROWS:
            continue
        train = votes["train"].rows(rows["train"])
        local = best_of(context, shifted(model), train, votes["dev"], rows["dev"])
        for name, answer in found.items() if local is not None else ():
            if rows[name].any():
                answer[rows[name]] = local.predict_proba(votes[name].rows(rows[name]))
    return found["dev"], found["test"]


def best_of(context: Context, models: list[Any], train: Votes, dev: Votes, here: np.ndarray) -> Any:
    """The region's label model, its class balance the one that does best on the dev rows there."""
    best, best_value = None, -np.inf
    for model in models:
        try:
            fitted = model.fit(train)
            answer = fitted.predict_proba(dev.rows(here)) if here.any() else None
        except EpoxyError:  # too few sources speak here; the whole space answers
            continue
        value = 0.0 if answer is None else context.task.scoring.value(answer, context.truth[here])
        if value > best_value:
            best, best_value = fitted, value
    return best


def shifted(model: LabelModel) -> list[Any]:
    """The model with other shares of the second class; as it is where there are more classes."""
    balance = np.asarray(getattr(model, "class_balance", ()), dtype=float)
    if not isinstance(model, Triplet) or len(balance) != 2:
        return [clone(model)]
    return [
        Triplet([1 - share, share], solve=model.solve, compat=model.compat)
        for share in (float(balance[1]), *SHARES)
    ]


# fine-tuned networks


def ts_ft(network: str | None, context: Context) -> Prediction:
    """TS-FT: on four fifths of the dev labels, early stopping on the rest."""
    held = held_out(context.truth, context.seed)
    texts, labels = context.task.rows["dev"], context.truth
    parts = {part: take(texts, np.flatnonzero(held == part)) for part in (False, True)}
    head = head_for(context, network, int((~held).sum()))
    with context.clock("training"):
        head.fit(parts[False], labels[~held], dev=(parts[True], labels[held]))
    known = np.full((len(labels), len(context.task.classes)), np.nan)
    known[held] = head.predict_proba(parts[True])
    return answer(context, head, known)


def weakly(labels_of: Any, network: str | None, context: Context) -> Prediction:
    """WS-FT, Epoxy-FT: on probabilities of the covered train rows, early stopping on dev."""
    labels: Labels = labels_of(context)
    rows, most = labels.taught(context), 300 if context.settings.quick else MOST_ROWS
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(context.seed).permutation(rows)[:most])
    head, texts = head_for(context, network, len(rows)), context.task.rows
    dev = None if context.task.dev is None else (texts["dev"], context.truth)
    with context.clock("training"):
        head.fit(take(texts["train"], rows), labels.train[rows], dev=dev)
    return answer(context, head, None if dev is None else head.predict_proba(texts["dev"]))


def head_for(context: Context, network: str | None, n_rows: int) -> FineTuned:
    """A network to fine-tune on so many rows."""
    epochs = int(np.clip(math.ceil(STEPS / math.ceil(n_rows / Training.batch_size)), 3, 20))
    training = Training(epochs=1 if context.settings.quick else epochs, patience=3)
    return FineTuned(network, training=training, classes=context.task.classes, seed=context.seed)


def answer(context: Context, head: FineTuned, dev: np.ndarray | None) -> Prediction:
    """What a network says of test, and how long a pass takes, which is what embedding costs."""
    test, start = context.task.rows["test"], time.perf_counter()
    said = head.predict_proba(test)
    passed = 1000 * (time.perf_counter() - start) / len(test)
    return Prediction(said, dev, {"history": head.history_, "seconds_per_1000_rows": passed})


def take(texts: list[str], rows: np.ndarray) -> list[str]:
    """Some of the texts, by position."""
    return [texts[row] for row in rows]


def held_out(labels: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of each class, at least one row where a class has two."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        held[rows[: max(1, round(len(rows) * HELD_SHARE)) if len(rows) > 1 else 0]] = True
    if not held.any():
        raise LabelError("early stopping needs two dev rows of one class, got one each; label more")
    return held


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--out", default="epoxy-bench")
    parser.add_argument("--methods", nargs="*", default=MORE)
    parser.add_argument("--quick", action="store_true", help="one seed, one epoch, 300 rows")
    parser.add_argument("--network", help="the network to fine-tune")
    given = parser.parse_args()
    settings = bench.BenchSettings(tuple(given.methods), quick=given.quick)
    known = columns(given.network)
    print(bench.text(bench.run(given.folders, given.out, settings, columns=known, said=print)))
