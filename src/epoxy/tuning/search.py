"""How far may each source speak? Radii (and the class balance) chosen on a small dev set.

The paper's two steps: one radius shared by all sources, by grid search; then one source at a time.
Reach is found once, so a setting costs a comparison per row and a closed-form fit: extended columns
are kept per radius, and pair counts are updated, not counted again. Radii between which no vote
changes are the same setting and are tried once.

A dev set of a hundred rows cannot tell many settings apart. A change of one source's radius is
therefore taken only where it gains more than `caution` standard errors of the paired difference; ties
go to the smaller radius; and the search reports what choosing among so many settings really gives
(`Search.expected`), not only the score of the winner.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from sklearn.base import clone

from ..errors import NotIdentifiable, ParameterError
from ..extension import Reach, reach, unextended
from ..label_models import LabelModel, Triplet, balance_of
from ..label_models.base import AdditiveModel
from ..model import Epoxy
from ..progress import Progress, silent
from ..scoring import Score, Scoring, score_named
from ..votes import Split, check_alike
from ..weighting import Weighting
from .trials import TrialEvaluator

__all__ = ["Search", "Trial", "tune"]

_LEVELS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, *np.linspace(0.1, 1, 19).round(2).tolist())
_COARSE = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
_SINGLE = 24  # sources with the most rows to reach get a radius of their own; a hundred on 50 rows is noise
_BALANCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, eq=False)
class Trial:
    """One setting and its dev score."""

    radii: np.ndarray  # (n_sources,), NaN: not extended
    balance: tuple[float, ...] | None
    score: float
    step: str  # what was tried: "shared", a source's name, "balance"
    proba: np.ndarray = field(repr=False)  # (n_dev, n_classes)


@dataclass(frozen=True, eq=False)
class Search:
    """What was tried, what won, and how far the winning score can be trusted."""

    scoring: str
    trials: tuple[Trial, ...]
    best: Trial
    expected: float
    """The mean score, on rows not drawn, of choosing the best setting in each resample."""
    spread: float
    """Its standard deviation over resamples."""
    without: float
    """The dev score with nothing extended."""
    complete: bool
    """False when the search was interrupted."""

    def __str__(self) -> str:
        tail = "" if self.complete else "; interrupted, best so far"
        return (
            f"{self.scoring} {self.best.score:.3f} on dev, {self.expected:.3f} ± {self.spread:.3f} "
            f"expected after choosing among {len(self.trials)} settings; "
            f"{self.without:.3f} without extension{tail}"
        )


def tune(
    train: Split,
    dev: Split | None = None,
    scoring: Scoring = "accuracy",
    label_model: LabelModel | None = None,
    *,
    positive: str | None = None,
    class_balance: Literal["tune"] | None = None,
    shared: bool = False,
    caution: float = 1.0,
    simplest: bool = False,
    metric: str = "cosine",
    weighting: str | Weighting | None = None,
    reaches: tuple[Reach, Reach] | None = None,
    progress: Progress = silent,
) -> Epoxy:
    """Choose radii on dev and return the fitted `Epoxy`; what was tried is in its `search_`.

    Parameters
    ----------
    train, dev
        dev's true labels choose the radii; train's are never read. Without dev, radii are chosen by
        how well lent votes agree with the other sources (`epoxy.theory.choose_radius`), and
        `search_` is that choice.
    scoring
        `"accuracy"`, `"f1"` (of `positive`), `"log_loss"`, any scikit-learn scorer's name, or a
        function of (true indices, probabilities); larger is better.
    label_model
        What combines the votes; None for `Triplet` with the class balance counted on dev.
    class_balance
        `"tune"` tries other class balances too (two classes).
    shared
        Stop after the first step: one radius for all sources.
    caution
        How many standard errors a change of one source's radius must gain to be taken.
    simplest
        Prefer the smallest shared radius within one standard error of the best.
    metric, weighting
        How nearness is measured and who lends a vote; see `epoxy.reach`.
    reaches
        The reach onto train and onto dev, where they were found before.
    progress
        Called with (settings tried, settings planned). Ctrl-C returns the best setting so far.
    """
    if dev is None:
        return _without_labels(train, label_model, metric, weighting)
    score, known = _score(dev, scoring, positive)
    if reaches is None:
        reaches = _reaches(train, dev, metric, weighting)
    if label_model is None:
        label_model = Triplet(balance_of(dev).tolist())
    evaluator = TrialEvaluator((train, dev), reaches, label_model, score, known)
    plan = _Plan(evaluator, caution=caution, simplest=simplest, progress=progress)
    complete = True
    try:
        plan.shared_radius()
        if class_balance == "tune":
            plan.balance()
        if not shared:
            plan.each_source()
    except KeyboardInterrupt:
        if not plan.trials:
            raise
        complete = False
    search = plan.result(complete)
    model = clone(label_model, safe=False)
    if search.best.balance is not None:
        model.set_params(class_balance=list(search.best.balance))
    made = Epoxy(model, search.best.radii, weighting, metric=metric).fit(train, reach=reaches[0])
    made.search_, made.radius_origin_ = search, f"{score.name} on {len(known)} dev rows"
    return made


def _without_labels(
    train: Split,
    label_model: LabelModel | None,
    metric: str,
    weighting: str | Weighting | None,
) -> Epoxy:
    """Radii from the votes and vectors alone."""
    from ..theory import choose_radius

    model = Triplet() if label_model is None else label_model
    found = reach(train, metric=metric, weighting=weighting)
    fitted = clone(model, safe=False).fit(train.votes)
    if not isinstance(fitted, AdditiveModel):
        raise ParameterError(
            f"choosing radii without dev needs a label model that learns accuracies, and "
            f"{type(model).__name__} does not; use Triplet or DawidSkene, or give dev"
        )
    choice = choose_radius(found, fitted.accuracy_, balance=fitted.class_balance_)
    made = Epoxy(model, choice.radius, weighting, metric=metric).fit(train, reach=found)
    made.search_ = choice
    made.radius_origin_ = "agreement of lent votes with the other sources, without any true label"
    return made


class _Plan:
    """The two steps of the search, and the bookkeeping of what was tried."""

    def __init__(
        self, evaluator: TrialEvaluator, *, caution: float, simplest: bool, progress: Progress
    ) -> None:
        if not caution >= 0:
            raise ParameterError(f"tune got caution={caution}; expected at least 0")
        self.evaluator, self.caution, self.simplest, self.progress = (
            evaluator,
            caution,
            simplest,
            progress,
        )
        self.trials: list[Trial] = []
        self.best: tuple[tuple[int, ...], Trial] | None = None
        self.seen: dict[tuple[tuple[int, ...], tuple[float, ...] | None], Trial] = {}
        self.free = [
            source for source in range(len(evaluator.sources)) if len(evaluator.breakpoints[source])
        ]
        single = min(len(self.free), _SINGLE)
        self.planned = 1 + len(_LEVELS) + single * (1 + len(_COARSE))

    def shared_radius(self) -> None:
        """One radius for all: quantiles of how far abstaining rows are from support."""
        evaluator = self.evaluator
        nothing = (0,) * len(evaluator.sources)
        tried = [(nothing, self._try(nothing, None, "shared"))]
        self.best = tried[0]
        for radius in self._shared_radii():
            steps = tuple(
                evaluator.snap(source, radius) for source in range(len(evaluator.sources))
            )
            if steps != tried[-1][0]:
                tried.append((steps, self._try(steps, None, "shared")))
                if tried[-1][1].score > self.best[1].score + 1e-12:  # ties: the smaller radius
                    self.best = tried[-1]
        if self.simplest:
            self.best = self._simplest(tried)

    def balance(self) -> None:
        """Other class balances, at the radii found so far."""
        if len(self.evaluator.classes) != 2:
            raise ParameterError("class_balance='tune' knows two classes; give the label model one")
        assert self.best is not None
        steps = self.best[0]
        for share in _BALANCES:
            trial = self._try(steps, (1 - share, share), "balance")
            self._take_if_surely_better(steps, trial)

    def each_source(self) -> None:
        """One source at a time, those with the most to gain in coverage first."""
        evaluator = self.evaluator
        assert self.best is not None
        for source in sorted(self.free, key=lambda each: -len(evaluator.breakpoints[each]))[
            :_SINGLE
        ]:
            found: tuple[tuple[int, ...], Trial] | None = None
            for step in self._source_steps(source):
                steps = (*self.best[0][:source], step, *self.best[0][source + 1 :])
                trial = self._try(steps, self.best[1].balance, evaluator.sources[source])
                if found is None or trial.score > found[1].score + 1e-12:
                    found = (steps, trial)
            if found is not None:
                self._take_if_surely_better(*found)

    def result(self, complete: bool) -> Search:
        """Sum up what was tried."""
        assert self.best is not None
        scoring = self.evaluator.score
        if self.best[1].score == -np.inf:
            raise NotIdentifiable(
                "no setting gives votes a label model can combine; add labeling functions that overlap"
            )
        probas = [t.proba for t in self.trials if t is not self.best[1] and t.score > -np.inf]
        expected, spread = scoring.after_choosing([*probas, self.best[1].proba])
        return Search(
            scoring.name,
            tuple(self.trials),
            self.best[1],
            expected,
            spread,
            self.trials[0].score,
            complete,
        )

    def _try(self, steps: tuple[int, ...], balance: tuple[float, ...] | None, what: str) -> Trial:
        key = (steps, balance)
        if key not in self.seen:
            try:
                proba = self.evaluator.evaluate(steps, balance)
                score = self.evaluator.score.score(proba)
            except NotIdentifiable:  # so far extended that sources no longer agree: not a setting
                proba, score = np.empty((0, 0)), -np.inf
            radii = np.array(
                [self.evaluator.radius(source, step) for source, step in enumerate(steps)]
            )
            self.seen[key] = Trial(radii, balance, score, what, proba)
            self.trials.append(self.seen[key])
            self.progress(min(len(self.trials), self.planned), self.planned)
        return self.seen[key]

    def _take_if_surely_better(self, steps: tuple[int, ...], trial: Trial) -> None:
        assert self.best is not None
        scoring, best = self.evaluator.score, self.best[1]
        if trial.score <= best.score + 1e-12:
            return
        error = float((scoring.scores(trial.proba) - scoring.scores(best.proba)).std())
        if trial.score - best.score > self.caution * error:
            self.best = (steps, trial)

    def _simplest(
        self, tried: list[tuple[tuple[int, ...], Trial]]
    ) -> tuple[tuple[int, ...], Trial]:
        assert self.best is not None
        best = self.best[1]
        error = float(self.evaluator.score.scores(best.proba).std())
        return next(pair for pair in tried if pair[1].score >= best.score - error)

    def _shared_radii(self) -> np.ndarray:
        every = [self.evaluator.breakpoints[source] for source in self.free]
        if not every:
            return np.empty(0)
        return np.unique(np.quantile(np.concatenate(every), _LEVELS))

    def _source_steps(self, source: int) -> list[int]:
        count = len(self.evaluator.breakpoints[source])
        assert self.best is not None
        at = {0, *(max(1, round(level * count)) for level in _COARSE)} - {self.best[0][source]}
        return sorted(at)


def _score(dev: Split, scoring: Scoring, positive: str | None) -> tuple[Score, np.ndarray]:
    known = np.flatnonzero(dev.labelled)
    y = np.empty(0, int) if dev.y is None else dev.y[known]
    return score_named(scoring, y, dev.classes, positive=positive), known


def _reaches(
    train: Split, dev: Split, metric: str, weighting: str | Weighting | None
) -> tuple[Reach, Reach]:
    check_alike(train, dev)
    if train.vectors is None or dev.vectors is None:
        return unextended(train), unextended(dev)
    return (
        reach(train, metric=metric, weighting=weighting),
        reach(train, dev, metric=metric, weighting=weighting),
    )
