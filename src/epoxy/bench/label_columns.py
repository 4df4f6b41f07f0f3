"""Columns that answer from votes: label models alone, and Epoxy's extension before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..extension import Reach, reach
from ..label_models import DawidSkene, LabelModel, MajorityVote, Snorkel, Triplet
from ..model import Epoxy
from ..tuning import Trial, tune
from ..votes import Votes
from .context import Context, Prediction

__all__ = [
    "Labels",
    "Reaches",
    "dawid_skene",
    "epoxy",
    "epoxy_fixed",
    "epoxy_labels",
    "fresh",
    "fusion",
    "majority",
    "reaches",
    "snorkel",
    "triplet",
    "triplet_choice",
    "triplet_labels",
]


@dataclass(frozen=True, eq=False)
class Labels:
    """Probabilities a label model gives to all splits; what end models are trained on."""

    train: np.ndarray  # (n_train, n_classes)
    covered: np.ndarray  # (n_train,) bool: rows on which any source votes
    dev: np.ndarray | None
    test: np.ndarray
    facts: dict[str, Any]

    def prediction(self) -> Prediction:
        """The label model's own answer."""
        return Prediction(self.test, self.dev, self.facts)


@dataclass(frozen=True, eq=False)
class Reaches:
    """Who is nearest, for the rows of every split."""

    train: Reach
    dev: Reach | None
    test: Reach

    def extend(self, radius: Any) -> _Votes:
        """The votes of every split, extended."""
        dev = None if self.dev is None else self.dev.extend(radius)
        return _Votes(self.train.extend(radius), dev, self.test.extend(radius))


@dataclass(frozen=True, eq=False)
class _Votes:
    train: Votes
    dev: Votes | None
    test: Votes


def reaches(context: Context) -> Reaches:
    """The neighbour search, once per data set (dev by its rows)."""

    def onto_train(context: Context) -> Reach:
        with context.clock("preprocessing"):
            return reach(context.task.train)

    def onto_test(context: Context) -> Reach:
        with context.clock("preprocessing"):
            return reach(context.task.train, context.task.test)

    def onto_dev(context: Context) -> Reach | None:
        if context.task.dev is None:
            return None
        with context.clock("preprocessing"):
            return reach(context.task.train, context.task.dev)

    return Reaches(
        context.once("reach train", onto_train, uses_dev=False),
        context.once("reach dev", onto_dev),
        context.once("reach test", onto_test, uses_dev=False),
    )


def majority(context: Context) -> Prediction:
    """MV-LM: one vote counts one; the class balance breaks ties and answers for silent rows."""
    model = MajorityVote(context.balances()[0])
    return _labels(context, model, _plain(context), {}).prediction()


def snorkel(context: Context) -> Prediction:
    """DP-LM: Snorkel's own LabelModel with its default training."""
    model = Snorkel(context.balances()[0], seed=context.seed)
    return _labels(context, model, _plain(context), {}).prediction()


def dawid_skene(context: Context) -> Prediction:
    """DS-LM: dev chooses how silence is read."""
    votes = _plain(context)
    models = {kind: DawidSkene(abstain=kind) for kind in ("auto", "symbol", "missing")}
    with context.clock("tuning"):
        kind = context.best({each: _on_dev(models[each], votes) for each in models})
    return _labels(context, models[kind], votes, {"abstain": kind}).prediction()


def triplet(context: Context) -> Prediction:
    """WS-LM: the triplet label model on the votes as they are."""
    return triplet_labels(context).prediction()


def triplet_labels(context: Context) -> Labels:
    """WS-LM's probabilities of every split, shared by the columns that learn from them."""
    return context.once("WS-LM", _triplet_labels)


def _triplet_labels(context: Context) -> Labels:
    model, facts = triplet_choice(context)
    return _labels(context, model, _plain(context), facts)


def triplet_choice(context: Context) -> tuple[LabelModel, dict[str, Any]]:
    """The reference's triplet model (for two classes), its solver and balance chosen on dev.

    The reference knows two classes only; for more, our own model takes its place.
    """

    def choose(context: Context) -> tuple[LabelModel, dict[str, Any]]:
        compat = "flyingsquid" if len(context.task.classes) == 2 else None
        balances = context.balances()
        models: dict[Any, LabelModel] = {
            (solve, index): Triplet(balance, solve=solve, compat=compat)
            for index, balance in enumerate(balances)
            for solve in ("median", "mean")
        }
        votes = _plain(context)
        with context.clock("tuning"):
            solve, index = context.best({key: _on_dev(each, votes) for key, each in models.items()})
        facts = {"solve": solve, "class_balance": balances[index].round(4).tolist()}
        return models[solve, index], facts

    return context.once("WS-LM choice", choose)


def epoxy_fixed(context: Context) -> Prediction:
    """Epoxy-fixed-r: one radius for all sources, chosen on dev; what was tried is the sweep."""
    model, facts = triplet_choice(context)
    found = reaches(context)
    tuned = _tuned(context, model, found, shared=True)
    tried = [trial for trial in tuned.search_.trials if np.isfinite(trial.score)]
    sweep = [_sweep_point(context, found, trial) for trial in tried]
    about = {**facts, "radius": _largest(tuned.radius_), "sweep": sweep}
    return _extended_labels(context, model, found, tuned.radius_, about).prediction()


def epoxy(context: Context) -> Prediction:
    """Epoxy: a radius per source, tuned on dev."""
    return epoxy_labels(context).prediction()


def epoxy_labels(context: Context) -> Labels:
    """Epoxy's probabilities of every split, shared by the columns that learn from them."""
    return context.once("Epoxy", _epoxy_labels)


def _epoxy_labels(context: Context) -> Labels:
    model, facts = triplet_choice(context)
    found = reaches(context)
    tuned = _tuned(context, model, found, shared=False)
    radius = {
        name: None if np.isnan(each) else float(each)
        for name, each in zip(context.task.train.votes.sources, tuned.radius_)
    }
    about = {**facts, "radius": radius, "expected": 100 * tuned.search_.expected}
    return _extended_labels(context, model, found, tuned.radius_, about)


def _tuned(context: Context, model: LabelModel, found: Reaches, *, shared: bool) -> Epoxy:
    metric, dev = context.task.metric, context.dev
    assert found.dev is not None  # reaches has one wherever the task has dev rows

    def at_best_threshold(y: np.ndarray, proba: np.ndarray) -> float:
        return metric.value(proba, y) / 100

    with context.clock("tuning"):
        return tune(
            context.task.train,
            dev,
            metric=at_best_threshold if metric.thresholded else metric.name,
            label_model=model,
            positive=context.task.classes[metric.positive],
            shared=shared,
            reaches=(found.train, found.dev),
        )


def fusion(context: Context) -> Prediction:
    """Fusion: votes, vectors and dev labels together, and its own threshold where F1 counts."""
    from ..fusion import Fusion

    metric, task = context.task.metric, context.task
    chosen = "f1" if metric.thresholded else "accuracy"
    with context.clock("training"):
        model = Fusion(metric=chosen, positive=task.classes[metric.positive])
        model.fit(task.train, context.dev)
    test = model.predict_proba(task.test)
    return Prediction(test, model.dev_proba_, threshold=model.threshold_)


def _extended_labels(
    context: Context, model: LabelModel, found: Reaches, radius: Any, facts: dict[str, Any]
) -> Labels:
    """Fit once with the radii chosen: what an edit costs when the neighbours are known."""
    with context.clock("training"):
        fitted = Epoxy(model, radius=radius).fit(context.task.train, reach=found.train)
        train = fitted.label_model_.predict_proba(fitted.votes_)
    votes = found.extend(radius)
    dev = None if votes.dev is None else fitted.label_model_.predict_proba(votes.dev)
    test = fitted.label_model_.predict_proba(votes.test)
    about = {
        **facts,
        "coverage_before": float(found.train.votes.coverage.mean()),
        "coverage_after": float(votes.train.coverage.mean()),
    }
    return Labels(train, votes.train.covered, dev, test, about)


def _sweep_point(context: Context, found: Reaches, trial: Trial) -> dict[str, Any]:
    return {
        "radius": _largest(trial.radii),
        "coverage": float(found.train.extend(trial.radii).coverage.mean()),
        "dev_score": 100 * trial.score,
    }


def _largest(radii: np.ndarray) -> float:
    """The shared radius: each source's is cut to the last distance at which it gains a row."""
    known = radii[~np.isnan(radii)]
    return float(known.max()) if len(known) else 0.0


def _plain(context: Context) -> _Votes:
    task = context.task
    return _Votes(task.train.votes, None if task.dev is None else task.dev.votes, task.test.votes)


def _on_dev(model: LabelModel, votes: _Votes) -> Callable[[], np.ndarray]:
    def answer() -> np.ndarray:
        assert votes.dev is not None  # only asked where there is a dev split
        return np.asarray(fresh(model).fit(votes.train).predict_proba(votes.dev))

    return answer


def _labels(context: Context, model: LabelModel, votes: _Votes, facts: dict[str, Any]) -> Labels:
    with context.clock("training"):
        fitted = fresh(model).fit(votes.train)
        train = fitted.predict_proba(votes.train)
    dev = None if votes.dev is None else fitted.predict_proba(votes.dev)
    return Labels(train, votes.train.covered, dev, fitted.predict_proba(votes.test), facts)


def fresh(model: LabelModel) -> Any:
    """An unfitted copy, so that one choice of parameters can be fitted on many votes."""
    from sklearn.base import clone

    return clone(model, safe=False)
