"""Columns that answer from votes: label models alone, and Epoxy's extension before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import LabelError
from ..estimators import clone
from ..extension import Reach, reach
from ..label_models import DawidSkene, LabelModel, MajorityVote, Snorkel, Triplet
from ..model import Epoxy
from ..tuning import tune
from ..votes import Votes
from .context import Context, Prediction

Reaches = dict[str, Reach]
"""Who is nearest, for the rows of every split."""


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

    def taught(self, context: Context) -> np.ndarray:
        """The train rows some source speaks for, which an end model learns from."""
        rows = np.flatnonzero(self.covered)
        if not len(rows):
            raise LabelError(f"no train row of {context.task.name!r} has a vote; check the sources")
        return rows


def reaches(context: Context) -> Reaches:
    """The neighbour search, once per data set (dev by its rows)."""

    def onto(name: str) -> Callable[[Context], Reach]:
        def found(context: Context) -> Reach:
            task = context.task
            with context.clock("preprocessing"):
                return reach(task.train, None if name == "train" else task.splits[name])

        return found

    return {
        name: context.once(f"reach {name}", onto(name), uses_dev=name == "dev")
        for name in context.task.splits
    }


def majority(context: Context) -> Prediction:
    """MV-LM: one vote counts one; the class balance breaks ties and answers for silent rows."""
    model = MajorityVote(context.balances()[0])
    return _labels(context, model, {}).prediction()


def snorkel(context: Context) -> Prediction:
    """DP-LM: Snorkel's own LabelModel with its default training."""
    model = Snorkel(context.balances()[0], seed=context.seed)
    return _labels(context, model, {}).prediction()


def dawid_skene(context: Context) -> Prediction:
    """DS-LM: dev chooses how silence is read."""
    models = {kind: DawidSkene(abstain=kind) for kind in ("auto", "symbol", "missing")}
    with context.clock("tuning"):
        kind = context.best({each: _on_dev(context, models[each]) for each in models})
    return _labels(context, models[kind], {"abstain": kind}).prediction()


def triplet(context: Context) -> Prediction:
    """WS-LM: the triplet label model on the votes as they are."""
    return triplet_labels(context).prediction()


def triplet_labels(context: Context) -> Labels:
    """WS-LM's probabilities of every split, shared by the columns that learn from them."""
    return context.once("WS-LM", lambda context: _labels(context, *triplet_choice(context)))


def own_triplet(context: Context) -> Prediction:
    """Triplet: this package's own arithmetic for the same model, chosen on dev in the same way."""
    return _labels(context, *triplet_choice(context, None)).prediction()


def triplet_choice(
    context: Context, compat: Literal["flyingsquid"] | None = "flyingsquid"
) -> tuple[LabelModel, dict[str, Any]]:
    """The reference's triplet model (for two classes), its solver and balance chosen on dev.

    The reference knows two classes only; for more, our own model takes its place.
    """
    if len(context.task.classes) > 2:
        compat = None

    def choose(context: Context) -> tuple[LabelModel, dict[str, Any]]:
        balances = context.balances()
        models: dict[Any, LabelModel] = {
            (solve, index): Triplet(balance, solve=solve, compat=compat)
            for index, balance in enumerate(balances)
            for solve in ("median", "mean")
        }
        with context.clock("tuning"):
            tried = {key: _on_dev(context, each) for key, each in models.items()}
            solve, index = context.best(tried)
        facts = {"solve": solve, "class_balance": balances[index].round(4).tolist()}
        return models[solve, index], facts

    return context.once(f"triplets {compat}", choose)


def epoxy_fixed(context: Context) -> Prediction:
    """Epoxy-fixed-r: one radius for all sources, chosen on dev."""
    model, facts = triplet_choice(context)
    tuned = _tuned(context, model, shared=True)
    known = tuned.radius_[~np.isnan(tuned.radius_)]  # cut to the last distance that gains a row
    about = {**facts, "radius": float(known.max(initial=0.0))}
    return _labels(context, model, about, tuned.radius_).prediction()


def epoxy(context: Context) -> Prediction:
    """Epoxy: a radius per source, tuned on dev."""
    return epoxy_labels(context).prediction()


def epoxy_labels(context: Context) -> Labels:
    """Epoxy's probabilities of every split, shared by the columns that learn from them."""
    return context.once("Epoxy", _epoxy_labels)


def _epoxy_labels(context: Context) -> Labels:
    model, facts = triplet_choice(context)
    tuned = _tuned(context, model, shared=False)
    radius = {
        name: None if np.isnan(each) else float(each)
        for name, each in zip(context.task.train.votes.sources, tuned.radius_)
    }
    about = {**facts, "radius": radius, "expected": 100 * tuned.search_.expected}
    return _labels(context, model, about, tuned.radius_)


def _tuned(context: Context, model: LabelModel, *, shared: bool) -> Epoxy:
    scoring, dev, found = context.task.scoring, context.dev, reaches(context)

    def at_best_threshold(y: np.ndarray, proba: np.ndarray) -> float:
        return scoring.value(proba, y) / 100

    with context.clock("tuning"):
        return tune(
            context.task.train,
            dev,
            scoring=at_best_threshold if scoring.thresholded else scoring.name,
            label_model=model,
            positive=context.task.positive,
            shared=shared,
            reaches=(found["train"], found["dev"]),
        )


def fusion(context: Context) -> Prediction:
    """Fusion: votes, vectors and dev labels together, and its own threshold where F1 counts."""
    from ..fusion import Fusion

    task = context.task
    scoring = task.scoring.name
    if scoring == "f1" and task.positive is None:
        scoring = "f1_macro"
    with context.clock("training"):
        model = Fusion(scoring=scoring, positive=task.positive).fit(task.train, task.dev)
    test = model.predict_proba(task.test)
    return Prediction(test, model.held_out_, guess=model.decide(test))


def _labels(
    context: Context, model: LabelModel, facts: dict[str, Any], radius: Any = None
) -> Labels:
    """Fit once, on votes extended to the radii or as they are: what an edit costs."""
    votes: dict[str, Votes] = {name: each.votes for name, each in context.task.splits.items()}
    found = None if radius is None else reaches(context)
    with context.clock("training"):
        train = votes["train"] if found is None else found["train"].extend(radius)
        fitted = fresh(model).fit(train)
        answer = fitted.predict_proba(train)
    if found is not None:
        before, after = (float(each.coverage.mean()) for each in (votes["train"], train))
        facts = {**facts, "coverage_before": before, "coverage_after": after}
        votes = {name: each.extend(radius) for name, each in found.items()}
    others = {name: fitted.predict_proba(votes[name]) for name in votes if name != "train"}
    return Labels(answer, train.covered, others.get("dev"), others["test"], facts)


def _on_dev(context: Context, model: LabelModel) -> Callable[[], np.ndarray]:
    train, task = context.task.train.votes, context.task
    return lambda: np.asarray(fresh(model).fit(train).predict_proba(task.splits["dev"].votes))


def fresh(model: LabelModel) -> Any:
    """An unfitted copy, so that one choice of parameters can be fitted on many votes."""
    return clone(model)
