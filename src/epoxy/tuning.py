"""How far may each source speak? The class balance and the radii, chosen on a small dev set.

First the class balance, with nothing extended. It is the threshold of every decision, and a counted
one is no better than the model it is given to: a biased model wants another. Then the paper's two
steps: one radius shared by all sources, by grid search; then one source at a time. Reach is found
once, so a setting costs a comparison per row and a closed-form fit; radii between which no vote
changes are the same setting and are tried once.

A dev set of a hundred rows cannot tell many settings apart. So the balance is the one nearest to the
counted within three quarters of a standard error of the best, the shared radius the smallest within
half of one, and a source's own radius is taken only where it gains more than `caution` of them; the
search reports what choosing among so many settings really gives (`Search.expected`).

Extending every source at once pays by giving a vote to rows that have none. Where most rows have one,
it mostly puts lent votes beside votes that were cast, so that a gain on few rows is likelier luck: a
shared radius must gain three standard errors, times the square of the share of rows with a vote. With
one bar for all data sets, a low one loses where rows are covered and a high one where they are not. The
numbers were chosen by tuning on part of the dev rows of eleven data sets and scoring on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .diagnostics.report import Column, Table
from .errors import NotIdentifiable, ParameterError
from .estimators import clone
from .extension import Reach, reach, unextended
from .label_models import LabelModel, Triplet, balance_of
from .label_models.label_model import AdditiveModel, balance_used, refitted
from .model import Epoxy
from .progress import Progress, silent
from .scoring import Score, Scoring, score_named
from .votes import Split, Votes, check_alike
from .weighting import Weighting


class TrialEvaluator:
    """Everything a setting is evaluated with; evaluating changes only what differs."""

    def __init__(
        self,
        splits: tuple[Split, Split],
        reaches: tuple[Reach, Reach],
        label_model: LabelModel,
        score: Score,
        known: np.ndarray,
    ) -> None:
        train = splits[0]
        self.sources, self.classes = train.votes.sources, train.classes
        self.splits, self.reaches, self.score, self.known = splits, reaches, score, known
        self.covered = float(train.votes.covered.mean()) if train.n_rows else 0.0
        self.label_model = label_model
        self._last: tuple[Sequence[int], list[Votes]] = ((-1,), [])  # steps, and the votes then
        self.breakpoints = [
            np.unique(np.concatenate([each.loans[source].breakpoints for each in reaches]))
            for source in range(len(self.sources))
        ]
        self.columns: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def snap(self, source: int, radius: float) -> int:
        """Which step a radius comes to: 0 for no extension, else the number of breakpoints within it."""
        if np.isnan(radius):
            return 0
        return int(np.searchsorted(self.breakpoints[source], radius, side="right"))

    def radius(self, source: int, step: int) -> float:
        """The smallest radius of a step; NaN for no extension."""
        return float("nan") if step == 0 else float(self.breakpoints[source][step - 1])

    def column(self, source: int, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The source's extended votes on train and dev."""
        key = (source, step)
        if key not in self.columns:
            radius = self.radius(source, step)
            train, dev = (each.column(source, radius) for each in self.reaches)
            self.columns[key] = train, dev
        return self.columns[key]

    def evaluate(self, steps: Sequence[int], balance: tuple[float, ...] | None) -> np.ndarray:
        """Dev probabilities of the rows with truth, under one setting."""
        if steps != self._last[0]:
            chosen = [self.column(source, step) for source, step in enumerate(steps)]
            pairs = zip(self.splits, zip(*chosen, strict=True), strict=True)
            votes = [split.votes.with_columns(columns) for split, columns in pairs]
            self._last = steps, votes
        train, dev = self._last[1]
        model = refitted(self.label_model, train, balance)
        return np.asarray(model.predict_proba(dev)[self.known])


_LEVELS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, *np.linspace(0.1, 1, 19).round(2).tolist())
_COARSE = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
_SINGLE = 24  # sources with the most rows to reach get a radius of their own; a hundred on 50 rows is noise
_SHARES = (
    0.02,
    *np.linspace(0.05, 0.95, 19).round(2).tolist(),
    0.98,
)  # of the second of two classes
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.25, 1.5)  # of a balance of more classes: 0 makes them equal
_BALANCE_ERRORS = 0.75
_RADIUS_ERRORS = 0.5
_COVERED_ERRORS = 3.0  # what a shared radius must gain over none where every row has a vote already
_ROWS = 2  # rows' worth added to a standard error: two rows won and none lost is no evidence


@dataclass(frozen=True, eq=False)
class Tried:
    """One setting and its dev score."""

    radii: np.ndarray  # (n_sources,), NaN: not extended
    balance: tuple[float, ...] | None  # None: the label model's own
    score: float
    step: str  # what was tried: "balance", "shared", a source's name
    proba: np.ndarray = field(repr=False)  # (n_dev, n_classes)
    steps: tuple[int, ...] = field(repr=False)  # the radii as numbers of breakpoints within them


@dataclass(frozen=True, eq=False)
class Search:
    """What was tried, what won, and how far the winning score can be trusted."""

    scoring: str
    trials: tuple[Tried, ...]
    best: Tried
    expected: float
    """The mean score, on rows not drawn, of choosing the best setting in each resample."""
    spread: float
    """Its standard deviation over resamples."""
    unextended: Tried
    """The setting with the chosen class balance and nothing extended."""
    error: float
    """Standard error of the difference between the two scores."""
    complete: bool
    """False when the search was interrupted."""

    @property
    def without(self) -> float:
        """The dev score with nothing extended."""
        return self.unextended.score

    def __str__(self) -> str:
        tail = "" if self.complete else "; interrupted, best so far"
        told = f"{self.expected:.3f} ± {self.spread:.3f} expected"
        if self.expected != self.expected:
            told = "too few rows to say what to expect"
        return (
            f"{self.scoring} {self.best.score:.3f} on dev, {told} "
            f"after choosing among {len(self.trials)} settings; "
            f"{self.without:.3f} without extension{tail}"
        )

    def __repr__(self) -> str:
        return f"Search({self})"

    def _repr_html_(self) -> str:
        columns = (
            Column("step", "step"),
            Column("extended", "sources extended", "count"),
            Column("score", self.scoring, "number"),
        )
        best = sorted(self.trials, key=lambda trial: -trial.score)[:10]
        rows = (
            {
                "step": each.step,
                "extended": int(np.isfinite(each.radii).sum()),
                "score": each.score,
            }
            for each in best
        )
        return Table(f"{self}; the best ten:", columns, tuple(rows))._repr_html_()


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
    metric: str = "cosine",
    weighting: str | Weighting | None = None,
    reaches: tuple[Reach, Reach] | None = None,
    progress: Progress = silent,
) -> Epoxy:
    """Choose class balance and radii on dev and return the fitted `Epoxy`; `search_` has what was tried.

    Parameters
    ----------
    train, dev
        dev's true labels choose; train's are never read. Rows of dev known not to have been drawn at
        random take no part where there are others. Without dev, radii are chosen by
        how well lent votes agree with the other sources (`epoxy.theory.choose_radius`), and
        `search_` is that choice.
    scoring
        `"accuracy"`, `"f1"` (of `positive`), `"f1_macro"`, `"log_loss"`, any scikit-learn scorer's
        name, or a function of (true indices, probabilities); larger is better. The class balance is
        the threshold of a decision, so that for F1 the threshold is tuned with it; for accuracy the
        balance is chosen by log loss, which few rows tell better.
    label_model
        What combines the votes, with its own class balance; None for `Triplet` with a tuned one.
    class_balance
        `"tune"` tunes the balance of a given label model too.
    shared
        Stop after one radius for all sources.
    caution
        How many standard errors a change of one source's radius must gain to be taken.
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
    balanced = class_balance == "tune" or label_model is None
    if label_model is None:
        label_model = Triplet(balance_of(dev).tolist() if dev.representative.any() else None)
    evaluator = TrialEvaluator((train, dev), reaches, label_model, score, known)
    plan = _Plan(evaluator, caution=caution, progress=progress)
    complete = True
    try:
        if balanced:
            plan.choose_balance(_candidates(label_model, train))
        plan.shared_radius()
        if not shared:
            plan.each_source()
    except KeyboardInterrupt:
        if not plan.trials:
            raise
        complete = False
    search = plan.result(complete)
    model = clone(label_model)
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
    from .theory import choose_radius

    model = Triplet() if label_model is None else label_model
    found = reach(train, metric=metric, weighting=weighting)
    fitted = clone(model).fit(train.votes)
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


def _candidates(label_model: LabelModel, train: Split) -> list[tuple[float, ...]]:
    """Class balances to try, the nearest to the label model's own first."""
    try:
        own = balance_used(clone(label_model).fit(train.votes))
    except NotIdentifiable:  # only extended votes can be combined: nothing to tune a balance on
        return []
    if own is None:
        raise ParameterError(
            f"{type(label_model).__name__} has no class balance to tune; leave class_balance out"
        )
    if len(own) == 2:
        found = [np.array([1 - share, share]) for share in _SHARES]
    else:
        found = [own**power / (own**power).sum() for power in _POWERS]
    found.sort(key=lambda each: float(np.abs(np.log(each / own) - np.log(each / own).mean()).sum()))
    return [tuple(each.tolist()) for each in found]


def standard_error(score: Score, first: np.ndarray, second: np.ndarray) -> float:
    """Of the difference between two settings' scores, from the same resamples of rows.

    Two rows' worth is added: where few rows differ, resampling them understates what others would do.
    """
    told = score.told(score.weights)
    drawn = (score.scores(each)[told] for each in (first, second))
    return _error_between(*drawn, n_rows=len(score.y))


def _error_between(first: np.ndarray, second: np.ndarray, *, n_rows: int) -> float:
    """The same from the settings' scores in every resample."""
    return float(np.hypot(float((first - second).std()), _ROWS / n_rows))


class _Plan:
    """The steps of the search, and the bookkeeping of what was tried."""

    def __init__(self, evaluator: TrialEvaluator, *, caution: float, progress: Progress) -> None:
        if not caution >= 0:
            raise ParameterError(f"tune got caution={caution}; expected at least 0")
        self.evaluator, self.caution, self.progress = evaluator, caution, progress
        self.trials: list[Tried] = []
        self.seen: dict[tuple[tuple[int, ...], tuple[float, ...] | None], Tried] = {}
        self._drawn: dict[tuple[object, ...], np.ndarray] = {}  # see `_resampled`
        self.balance: tuple[float, ...] | None = None
        self.nothing = (0,) * len(evaluator.sources)
        self.best: Tried | None = None
        self.free = [at for at in range(len(self.nothing)) if len(evaluator.breakpoints[at])]
        single = min(len(self.free), _SINGLE)
        self.planned = 1 + len(_SHARES) + len(_LEVELS) + single * (1 + len(_COARSE))

    def choose_balance(self, candidates: Sequence[tuple[float, ...]]) -> None:
        """The balance nearest to the label model's own that does as well, with nothing extended."""
        score = self.evaluator.score
        if score.name == "accuracy" and score.custom is None:
            score = Score("log_loss", score.y, score.which)
        tried = [self._try(self.nothing, each, "balance") for each in (None, *candidates)]
        self.best = self._first_within(tried, score, _BALANCE_ERRORS)
        self.balance = self.best.balance

    def shared_radius(self) -> None:
        """One radius for all: quantiles of how far abstaining rows are from support."""
        tried = [self._try(self.nothing, self.balance, "shared")]
        self.best = self.best or tried[0]
        for radius in self._shared_radii():
            steps = tuple(self.evaluator.snap(at, radius) for at in range(len(self.nothing)))
            if steps != tried[-1].steps:
                tried.append(self._try(steps, self.balance, "shared"))
        errors = _COVERED_ERRORS * self.evaluator.covered**2
        gaining = [trial for trial in tried if self._surely_better(trial, tried[0], errors)]
        self.best = self._first_within(gaining or tried[:1], self.evaluator.score, _RADIUS_ERRORS)

    def each_source(self) -> None:
        """One source at a time, those with the most to gain in coverage first."""
        evaluator = self.evaluator
        order = sorted(self.free, key=lambda each: -len(evaluator.breakpoints[each]))
        for source in order[:_SINGLE]:
            assert self.best is not None
            now = self.best.steps
            others = (
                (*now[:source], s, *now[source + 1 :]) for s in self._source_steps(source, now)
            )
            tried = [self._try(each, self.balance, evaluator.sources[source]) for each in others]
            found = max(tried, key=lambda trial: trial.score)  # the first, smallest of equals
            if self._surely_better(found, self.best, self.caution):
                self.best = found

    def result(self, complete: bool) -> Search:
        """Sum up what was tried."""
        assert self.best is not None
        score, best = self.evaluator.score, self.best
        if best.score == -np.inf:
            raise NotIdentifiable(
                "no setting gives votes a label model can combine; add labeling functions that overlap"
            )
        probas = [t.proba for t in self.trials if t is not best and t.score > -np.inf]
        expected, spread = score.after_choosing([*probas, best.proba])
        plain = self.seen[self.nothing, self.balance]
        error = np.inf if plain.score == -np.inf else standard_error(score, best.proba, plain.proba)
        tried = tuple(self.trials)
        return Search(score.name, tried, best, expected, spread, plain, error, complete)

    def _try(self, steps: tuple[int, ...], balance: tuple[float, ...] | None, what: str) -> Tried:
        key = (steps, balance)
        if key not in self.seen:
            try:
                proba = self.evaluator.evaluate(steps, balance)
                score = self.evaluator.score.score(proba)
            except NotIdentifiable:  # so far extended that sources no longer agree: not a setting
                proba, score = np.empty((0, 0)), -np.inf
            radii = np.array([self.evaluator.radius(at, step) for at, step in enumerate(steps)])
            self.seen[key] = Tried(radii, balance, score, what, proba, steps)
            self.trials.append(self.seen[key])
            self.best = self.best or self.seen[key]
            self.progress(min(len(self.trials), self.planned), self.planned)
        return self.seen[key]

    def _first_within(self, tried: Sequence[Tried], score: Score, errors: float) -> Tried:
        """The first of some trials that is within so many standard errors of the best of them."""
        known = [trial for trial in tried if trial.score > -np.inf]
        if not known:
            return tried[0]
        values = [score.score(trial.proba) for trial in known]
        best = known[int(np.argmax(values))]
        return next(
            trial
            for trial, value in zip(known, values, strict=True)
            if trial is best or value + errors * self._error(best, trial, score) >= max(values)
        )

    def _surely_better(self, trial: Tried, best: Tried, errors: float) -> bool:
        if trial.score <= best.score + 1e-12 or best.score == -np.inf:
            return best.score == -np.inf < trial.score
        error = self._error(trial, best, self.evaluator.score)
        return trial.score - best.score > errors * error

    def _error(self, first: Tried, second: Tried, score: Score) -> float:
        drawn = (self._resampled(trial, score) for trial in (first, second))
        return _error_between(*drawn, n_rows=len(score.y))

    def _resampled(self, trial: Tried, score: Score) -> np.ndarray:
        """A setting's score in every resample, found once."""
        key = score.name, trial.steps, trial.balance
        if key not in self._drawn:
            self._drawn[key] = score.scores(trial.proba)[score.told(score.weights)]
        return self._drawn[key]

    def _shared_radii(self) -> np.ndarray:
        every = [self.evaluator.breakpoints[source] for source in self.free]
        if not every:
            return np.empty(0)
        return np.unique(np.quantile(np.concatenate(every), _LEVELS))

    def _source_steps(self, source: int, now: tuple[int, ...]) -> list[int]:
        count = len(self.evaluator.breakpoints[source])
        return sorted({0, *(max(1, round(level * count)) for level in _COARSE)} - {now[source]})


def counting_rows(dev: Split) -> np.ndarray:
    """The labelled rows choices rest on: those drawn at random, as far as is known, if any are."""
    drawn = dev.representative
    return np.flatnonzero(drawn if drawn.any() else dev.labelled)


def _score(dev: Split, scoring: Scoring, positive: str | None) -> tuple[Score, np.ndarray]:
    known = counting_rows(dev)
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
