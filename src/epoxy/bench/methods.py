"""The columns of the tables: label models, extension before them, and heads on vectors.

One row of `COLUMNS` adds a method everywhere; it is a function of a `Context` that returns a
`Prediction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..errors import LabelError, UnknownName
from ..estimators import clone
from ..heads import LinearHead
from ..heads.linear import folds_of
from ..label_models import LabelModel, MajorityVote, Snorkel, Triplet
from ..model import Epoxy
from ..neighbors.workers import single_threaded_blas
from ..tuning import tune
from ..votes import Split, Votes
from .context import BenchColumn, Context, Prediction

PENALTIES = (0.1, 1.0, 10.0, 100.0)
WEAK_PENALTIES = (0.01, 0.1, 1.0, 10.0)  # many noisy rows: stronger penalties are worth trying
_FOLDS = 5
_BELIEVED = 0.9  # probability from which self-training takes its own answer for a label


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


def majority(context: Context) -> Prediction:
    """MV-LM: one vote counts one; the class balance breaks ties and answers for silent rows."""
    model = MajorityVote(context.balances()[0])
    return labels_of(context, model, {}).prediction()


def snorkel(context: Context) -> Prediction:
    """DP-LM: Snorkel's own LabelModel with its default training."""
    with suppress(ImportError):  # importing is not training; what is missing, the model says
        import snorkel.labeling.model  # noqa: F401
    model = Snorkel(context.balances()[0], seed=context.seed)
    return labels_of(context, model, {}).prediction()


def triplet(context: Context) -> Prediction:
    """WS-LM: the triplet label model on the votes as they are."""
    return triplet_labels(context).prediction()


def triplet_labels(context: Context) -> Labels:
    """WS-LM's probabilities of every split."""
    return labels_of(context, *triplet_choice(context))


def own_triplet(context: Context) -> Prediction:
    """Triplet: this package's own arithmetic for the same model, chosen on dev in the same way."""
    return labels_of(context, *triplet_choice(context, None)).prediction()


def triplet_choice(
    context: Context, compat: Literal["flyingsquid"] | None = "flyingsquid"
) -> tuple[LabelModel, dict[str, Any]]:
    """The reference's triplet model (for two classes), its solver and balance chosen on dev.

    The reference knows two classes only; for more, our own model takes its place.
    """
    if len(context.task.classes) > 2:
        compat = None

    balances = context.balances()
    models: dict[Any, LabelModel] = {
        (solve, index): Triplet(balance, solve=solve, compat=compat)
        for index, balance in enumerate(balances)
        for solve in ("median", "mean")
    }
    with context.clock("tuning"):
        solve, index = context.best({key: on_dev(context, each) for key, each in models.items()})
    facts = {"solve": solve, "class_balance": balances[index].round(4).tolist()}
    return models[solve, index], facts


def epoxy(context: Context) -> Prediction:
    """Epoxy: a radius per source, tuned on dev."""
    return epoxy_labels(context).prediction()


def epoxy_labels(context: Context) -> Labels:
    """Epoxy's probabilities of every split."""
    model, facts = triplet_choice(context)
    found = tuned(context, model)
    radius = {
        name: None if np.isnan(each) else float(each)
        for name, each in zip(context.task.train.votes.sources, found.radius_)
    }
    about = {**facts, "radius": radius, "expected": 100 * found.search_.expected}
    return labels_of(context, model, about, found.radius_)


def tuned(context: Context, model: LabelModel, *, shared: bool = False) -> Epoxy:
    """Epoxy with radii chosen on dev."""
    scoring, dev, found = context.task.scoring, context.dev, context.reaches

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


def labels_of(
    context: Context, model: LabelModel, facts: dict[str, Any], radius: Any = None
) -> Labels:
    """Fit once, on votes extended to the radii or as they are: what an edit costs."""
    votes: dict[str, Votes] = {name: each.votes for name, each in context.task.splits.items()}
    found = None if radius is None else context.reaches
    with context.clock("training"):
        train = votes["train"] if found is None else found["train"].extend(radius)
        fitted = clone(model).fit(train)
        answer = fitted.predict_proba(train)
    if found is not None:
        before, after = (float(each.coverage.mean()) for each in (votes["train"], train))
        facts = {**facts, "coverage_before": before, "coverage_after": after}
        votes = {name: each.extend(radius) for name, each in found.items()}
    others = {name: fitted.predict_proba(votes[name]) for name in votes if name != "train"}
    return Labels(answer, train.covered, others.get("dev"), others["test"], facts)


def on_dev(context: Context, model: LabelModel) -> Callable[[], np.ndarray]:
    """What a label model says of dev, to be asked for."""
    train, task = context.task.train.votes, context.task
    return lambda: np.asarray(clone(model).fit(train).predict_proba(task.splits["dev"].votes))


Inputs = Callable[[Split], np.ndarray]
"""What a classifier reads of a split's rows."""


def ts_nft(context: Context) -> Prediction:
    """TS-NFT: logistic regression on the dev vectors and labels, the penalty by cross-validation."""
    return _linear(context, context.vectors)


def lr_xv(context: Context) -> Prediction:
    """LR-xv: the same on vectors and votes."""
    return _linear(context, context.vectors_and_votes)


def self_training(context: Context) -> Prediction:
    """Self-train: LR-xv believes what it is 90 % sure of on train rows, for at most five rounds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    inputs = context.vectors_and_votes
    penalty = _penalty(context, inputs)
    unlabelled = inputs(context.task.train)
    head = LogisticRegression(C=penalty, max_iter=1000)

    def fit(rows: np.ndarray, labels: np.ndarray) -> Any:
        taught = np.r_[labels, np.full(len(unlabelled), -1)]
        model = SelfTrainingClassifier(head, threshold=_BELIEVED, max_iter=5)
        with single_threaded_blas():  # as in LinearHead
            return model.fit(np.vstack([rows, unlabelled]), taught)

    return by_hand(context, inputs, fit, {"C": penalty})


def _linear(context: Context, inputs: Inputs) -> Prediction:
    penalty = _penalty(context, inputs)
    return by_hand(context, inputs, LinearHead(penalty).fit, {"C": penalty})


def _penalty(context: Context, inputs: Inputs) -> float:
    """The penalty of the smallest held-out log loss on dev; the strongest where one class is there."""
    labels = context.truth
    with context.clock("tuning"):
        if len(np.unique(labels)) < 2:
            return PENALTIES[0]
        return LinearHead(PENALTIES).fit(inputs(context.dev), labels).C_


def by_hand(
    context: Context, inputs: Inputs, fit: Callable[[np.ndarray, np.ndarray], Any], facts: Any
) -> Prediction:
    """What a classifier taught by the dev labels says of test, and out of fold of dev."""
    rows, labels = inputs(context.dev), context.truth
    with context.clock("training"):
        answer = _taught_by(context, fit, rows, labels)
    return Prediction(answer(inputs(context.task.test)), _held_out(context, rows, fit), facts)


def _taught_by(
    context: Context, fit: Callable[..., Any], rows: np.ndarray, labels: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Probabilities of every class; where all labels are of one, that one."""
    present = np.unique(labels)
    model = fit(rows, labels) if len(present) > 1 else None

    def answer(asked: np.ndarray) -> np.ndarray:
        found = np.zeros((len(asked), len(context.task.classes)))
        found[:, present] = 1.0 if model is None else model.predict_proba(asked)
        return found

    return answer


def ws_nft(context: Context) -> Prediction:
    """WS-NFT: logistic regression on WS-LM's probabilities of the covered train rows."""
    return weak_head(context, triplet_labels(context))


def weak_head(context: Context, labels: Labels) -> Prediction:
    """Logistic regression on probabilities, with the penalty that does best on dev (the first without)."""
    rows = labels.taught(context)
    vectors, targets = context.vectors(context.task.train)[rows], labels.train[rows]
    dev = context.task.dev
    asked = None if dev is None else context.vectors(dev)

    def fit(penalty: float) -> LinearHead:
        return LinearHead(penalty).fit(vectors, targets)

    with context.clock("tuning"):
        penalty = context.best(
            {each: partial(lambda C: fit(C).predict_proba(asked), each) for each in WEAK_PENALTIES}
        )
    with context.clock("training"):
        head = fit(penalty)
    known = None if asked is None else head.predict_proba(asked)
    test = head.predict_proba(context.vectors(context.task.test))
    return Prediction(test, known, {"C": penalty})


def _held_out(
    context: Context, rows: np.ndarray, fit: Callable[[np.ndarray, np.ndarray], Any]
) -> np.ndarray | None:
    """Out-of-fold probabilities of dev, for the threshold; None where none is needed."""
    labels = context.truth
    if not context.task.scoring.thresholded or len(labels) < 2:
        return None
    answer = np.full((len(labels), len(context.task.classes)), np.nan)
    fold = folds_of(labels, _FOLDS, context.seed)
    for held in np.equal.outer(np.unique(fold), fold):
        answer[held] = _taught_by(context, fit, rows[~held], labels[~held])(rows[held])
    return answer


COLUMNS: tuple[BenchColumn, ...] = (
    BenchColumn("Epoxy", epoxy, "dev vectors"),
    BenchColumn("WS-LM", triplet),
    BenchColumn("Triplet", own_triplet),
    BenchColumn("MV-LM", majority),
    BenchColumn("DP-LM", snorkel, random=True),
    BenchColumn("TS-NFT", ts_nft, "dev vectors"),
    BenchColumn("WS-NFT", ws_nft, "vectors"),
    BenchColumn("LR-xv", lr_xv, "dev vectors"),
    BenchColumn("Self-train", self_training, "dev vectors"),
    BenchColumn("Fusion", fusion),
)

OURS = "Fusion"
"""The column the others are compared with."""


def columns(names: tuple[str, ...] | None, known: Sequence[BenchColumn]) -> list[BenchColumn]:
    """The named ones of some columns, in their order; all of them for None."""
    for name in names or ():
        if name not in [each.name for each in known]:
            raise UnknownName.of("method", name, [each.name for each in known])
    return [each for each in known if names is None or each.name in names]
