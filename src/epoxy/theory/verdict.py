"""Prediction against outcome: whether extension helps here, for which sources, and against a head.

The answer is the search's own: a verdict reads the model that `epoxy.tune` chose, on the rows it was
chosen on, so that the two cannot disagree. Predictions beside it come from train rows without labels.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ..diagnostics.report import Column, Table
from ..errors import NotIdentifiable, ParameterError
from ..estimators import clone
from ..extension import Reach
from ..label_models.label_model import AdditiveModel, balance_used
from ..votes import Split, Votes
from .agreement import LiftCurve, lift_curve
from .bounds import (
    Others,
    class_prior,
    coverage_gain,
    disjoint_risk,
    epoxy_risk,
    extended_accuracy,
    extended_source_risk,
    lift_bound,
    new_accuracy,
    posterior,
)
from .measure import (
    Neighbourhood,
    Scan,
    compare_embeddings,
    model_smoothness,
    neighbourhoods,
    smoothness,
)

if TYPE_CHECKING:
    from ..model import Epoxy

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
_LINES = 40  # sources a table shows at most
_COLUMNS = (
    Column("source", "source"),
    Column("radius", "radius", "number"),
    Column("coverage", "coverage", "share"),
    Column("accuracy", "own votes right", "share"),
    Column("predicted_accuracy", "lent: predicted", "share"),
    Column("new_accuracy", "on dev", "share"),
    Column("new_rows", "rows", "count"),
    Column("lift", "lift", "number"),
    Column("bound", "Theorem 1", "number"),
    Column("predicted", "radius without labels", "number"),
)


@dataclass(frozen=True)
class RadiusRow:
    """One source at one radius. Shares and accuracies are in [0, 1]; NaN where nothing was seen."""

    source: str
    radius: float
    coverage: float
    """Of train rows, after extension."""
    new_rows: int
    """Dev rows with a label that the extension newly covers."""
    new_accuracy: float
    """ã, measured on them."""
    predicted_accuracy: float
    """ã, predicted from train without labels, less one standard error."""
    accuracy: float
    """ā, measured on all dev rows the extended source votes on."""
    lift: float
    """Fall of the risk on dev, measured."""
    lift_error: float
    """Its standard error."""
    predicted_lift: float
    bound: float
    """Theorem 1 with measured quantities; NaN for more than two classes."""


@dataclass(frozen=True)
class SourceVerdict:
    """What extension does for one source at the radius tuning chose for it."""

    source: str
    radius: float | None
    """Chosen on dev; None: not extended."""
    predicted: float | None
    """The radius with the largest expected lift, chosen on train without labels."""
    coverage: float
    """Of train rows, before extension."""
    accuracy: float
    """Of its own votes, as the label model estimates it."""
    chosen: RadiusRow | None
    """What the chosen radius does."""


@dataclass(frozen=True)
class Promise:
    """Theorem 2 with its quantities measured, beside a head's risk.

    The head is logistic regression on the vectors of the labelled rows, scored on rows it was not
    fitted on. Bounds are NaN for more than two classes, where the theorem makes no statement.
    """

    head: float
    """Share of dev rows the head gets wrong, held out."""
    extension: float
    """Share of dev rows extension gets wrong."""
    printed: float
    """Theorem 2 as printed, with the head's smoothness and risk for every specialised model."""
    measured: float
    """`bounds.disjoint_risk`: the line of its proof before anything is bounded, without labels."""

    @property
    def text(self) -> str:
        """When extension should beat the head, and whether it did."""
        did = "It does" if self.extension < self.head else "It does not"
        outcome = (
            f"{did}: extension is wrong on {self.extension:.1%} of the rows that tuned it, the head "
            f"on {self.head:.1%} of them (held out)."
        )
        if np.isnan(self.measured):
            return f"Theorem 2 is about two classes and promises nothing against a head. {outcome}"
        should = (
            "so extension should beat it" if self.measured < self.head else "so it promises nothing"
        )
        return (
            f"Theorem 2 promises that extension beats a head on the labels where its bound is below "
            f"the head's risk, {self.head:.2f}: as printed it is {self.printed:.2f}, with measured "
            f"accuracies {self.measured:.2f}, {should}. {outcome}"
        )


@dataclass(frozen=True, eq=False)
class Verdict:
    """A plain answer, a line per source, and rows by radius for figures."""

    rows: tuple[RadiusRow, ...]
    sources: tuple[SourceVerdict, ...]
    scoring: str
    dev_rows: int
    before: float
    """The dev score with nothing extended; minus infinity where the votes cannot be combined so."""
    after: float
    """The dev score of what tuning chose."""
    error: float
    """Standard error of the difference."""
    expected: float
    """What choosing gives on rows that did not choose."""
    smoothness: tuple[float, float]
    """Share of unequal labels among the nearest 1 % of dev pairs, and among all pairs."""
    one_sided: tuple[str, ...]
    """Sources that only ever name one class."""
    promise: Promise | None
    """Against a head; None where dev has too few rows of a class to fit one."""

    @property
    def radius(self) -> dict[str, float | None]:
        """The radii tuning chose, ready for `Reach.extend`."""
        return {each.source: each.radius for each in self.sources}

    @property
    def outcome(self) -> Literal["helps", "unclear", "not extended"]:
        """What tuning did: it extends nothing, surely to some gain, or to one that may be luck."""
        if all(each.radius is None for each in self.sources):
            return "not extended"
        return "helps" if self.expected > self.before else "unclear"

    @property
    def text(self) -> str:
        """The answer in words."""
        near, chance = self.smoothness
        without = "no labels at all" if self.before == -np.inf else f"{self.before:.3f}"
        answer = {
            "helps": "Extension helps here.",
            "unclear": "Extension is chosen here, and its gain may be the luck of choosing.",
            "not extended": "No source is extended: none surely gains.",
        }[self.outcome]
        few = "too few rows to say what"
        lines = [
            f"{answer} On {self.dev_rows} dev rows {self.scoring} goes from {without} to "
            f"{self.after:.3f} (s.e. of the difference {self.error:.3f}); "
            f"{few if self.expected != self.expected else f'{self.expected:.3f}'} is expected "
            "after choosing."
        ]
        if near == near:
            lines.append(
                f"Near rows carry different labels {near:.0%} of the time, any two rows {chance:.0%}."
            )
        if self.promise is not None:
            lines.append(self.promise.text)
        if self.one_sided:
            lines.append(
                f"{len(self.one_sided)} of {len(self.sources)} sources only ever name one class. The "
                "paper's Algorithm 2 does not read such sources: their agreement says nothing about "
                "accuracy. Triplet reads them class by class; the bounds take them as two-sided."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"outcome": self.outcome, **asdict(self)}

    def table(self) -> str:
        """A line per source as aligned text, those that are extended first."""
        left = len(self.sources) - _LINES
        more = [f"and {left} more that are not shown"] if left > 0 else []
        return "\n".join([str(self._table), *more])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.text)}</p>".replace("\n", "<br>") + self._table._repr_html_()

    @property
    def _table(self) -> Table:
        order = sorted(self.sources, key=lambda each: each.radius is None)
        rows = []
        for each in order[:_LINES]:
            at_radius = {} if each.chosen is None else asdict(each.chosen)
            rows.append({**asdict(each), **at_radius, "accuracy": each.accuracy})
        return Table("", _COLUMNS, tuple(rows))


def verdict(tuned: Epoxy, dev: Split, *, radii: Any = None) -> Verdict:
    """Set what theory predicts beside what tuning found on dev.

    Parameters
    ----------
    tuned
        What `epoxy.tune(train, dev)` returned.
    dev
        The rows it was tuned on.
    radii
        Of the rows by radius; None takes twelve that 1 % to 100 % of abstentions lie within.
    """
    from ..tuning import Search, counting_rows

    search = getattr(tuned, "search_", None)
    if not isinstance(search, Search):
        raise ParameterError(
            "a verdict reads what tuning chose on true labels; make the model by epoxy.tune(train, dev)"
        )
    train, known = tuned.train_, dev.rows(counting_rows(dev))
    case = _Case.of(tuned, known)
    shared = case.radii() if radii is None else np.asarray(radii, dtype=np.float64)
    grid = np.unique(np.concatenate([shared, tuned.radius_[~np.isnan(tuned.radius_)]]))
    scan = Scan(cast(Any, tuned.metric), anchors=1000)
    around, rough = None, np.empty(0)
    if train.votes.n_classes == 2 and known.n_rows > 1 and train.vectors is not None:
        around = neighbourhoods(train, grid, scan)
        rough = np.nan_to_num(smoothness(known, radii=grid, scan=scan).at(grid), nan=0.5)
    rows, sources = [], []
    for index, name in enumerate(train.votes.sources):
        own = float(tuned.radius_[index])
        mine = shared if np.isnan(own) else np.unique(np.append(shared, own))
        curve = lift_curve(case.near, index, case.accuracies, balance=case.prior, radii=mine)
        bound = np.full(len(grid), np.nan)
        if around is not None:
            bound = _bound(case, index, around[name], rough)
        at_radius = {
            float(radius): case.row(index, curve, at, bound[np.searchsorted(grid, radius)])
            for at, radius in enumerate(mine)
        }
        rows += [at_radius[float(radius)] for radius in shared]
        sources.append(
            SourceVerdict(
                name,
                None if np.isnan(own) else own,
                None if curve.best is None else float(curve.radii[curve.best]),
                float(train.votes.coverage[index]),
                float(case.accuracies[index]),
                at_radius.get(own),
            )
        )
    near_labels = float("nan"), float("nan")
    if known.n_rows > 1 and known.vectors is not None:
        rank = compare_embeddings({"vectors": known.vectors}, known.y, scan=scan)[0]
        near_labels = rank.roughness, rank.chance
    named = (np.unique(column[column >= 0]) for column in train.votes.matrix.T)
    both = zip(train.votes.sources, named, strict=True)
    return Verdict(
        tuple(rows),
        tuple(sources),
        search.scoring,
        known.n_rows,
        search.without,
        search.best.score,
        search.error,
        search.expected,
        near_labels,
        tuple(name for name, found in both if len(found) == 1),
        _promise(tuned, known, case, grid, around, scan),
    )


@dataclass(frozen=True, eq=False)
class _Case:
    """What every measurement on dev needs."""

    near: Reach
    onto: Reach
    y: np.ndarray  # (n_dev,) known labels only
    accuracies: np.ndarray  # (n_sources,)
    prior: np.ndarray  # (n_classes,)

    @classmethod
    def of(cls, tuned: Epoxy, dev: Split) -> _Case:
        """Accuracies of the sources as they are; of the extended ones where no model learns those."""
        from ..model import reach_onto

        fitted: Any = tuned.label_model_
        if not isinstance(fitted, AdditiveModel):
            raise ParameterError(
                f"a verdict needs a label model that learns accuracies, and {type(fitted).__name__} "
                "does not; tune with Triplet or DawidSkene"
            )
        with suppress(NotIdentifiable):
            fitted = clone(tuned.label_model).fit(tuned.train_.votes)
        accuracies = np.asarray(fitted.accuracy_, dtype=np.float64)
        prior = class_prior(balance_used(tuned.label_model_), tuned.train_.votes.n_classes)
        onto = reach_onto(tuned.train_, dev, tuned)
        return cls(tuned.reach_, onto, dev.truth, accuracies, prior)

    def radii(self) -> np.ndarray:
        """Radii that certain shares of the abstentions lie within."""
        far = self.near.distance[~self.near.votes.cast & np.isfinite(self.near.distance)]
        if not len(far):
            return np.array([0.0])
        return np.unique(np.quantile(far, _SHARES, method="higher"))

    def row(self, source: int, curve: LiftCurve, at: int, bound: float) -> RadiusRow:
        """One source at one radius: what was predicted, and what dev shows."""
        radius, votes = float(curve.radii[at]), self.onto.votes
        extended = self.onto.extend({votes.sources[source]: radius})
        weights = self.accuracies.copy()
        if np.isfinite(curve.extended[at]):  # no worse than guessing
            weights[source] = max(float(curve.extended[at]), 1 / votes.n_classes)
        rows, y = np.arange(len(self.y)), self.y
        before = posterior(votes, self.accuracies, self.prior)[rows, y]
        gain = posterior(extended, weights, self.prior)[rows, y] - before
        now = extended.cast[:, source]
        new, right = now & ~votes.cast[:, source], extended.matrix[:, source] == y
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
        return RadiusRow(
            source=votes.sources[source],
            radius=radius,
            coverage=float(self.near.votes.coverage[source] + curve.reached[at]),
            new_rows=int(new.sum()),
            new_accuracy=float(right[new].mean()) if new.any() else float("nan"),
            predicted_accuracy=float(curve.new[at]),
            accuracy=float(right[now].mean()) if now.any() else float("nan"),
            lift=float(gain.mean()),
            lift_error=float(error),
            predicted_lift=float(curve.lift[at]),
            bound=float(bound),
        )


def _bound(case: _Case, source: int, place: Neighbourhood, rough: np.ndarray) -> np.ndarray:
    """Theorem 1 as printed, per radius."""
    votes, a = case.near.votes, case.accuracies[source]
    args = rough, place.support, place.crossing, place.near
    reached = coverage_gain(place.crossing, place.near, place.support)
    rest = votes.only([name for name in votes.sources if name != votes.sources[source]])
    p = posterior(rest, np.delete(case.accuracies, source))[:, 1]
    others = Others(Others.without(p).performance)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = extended_accuracy(a, *args), new_accuracy(a, *args)
    return lift_bound(*bounds, reached=reached, others=others)


def _promise(
    tuned: Epoxy,
    dev: Split,
    case: _Case,
    grid: np.ndarray,
    around: dict[str, Neighbourhood] | None,
    scan: Scan,
) -> Promise | None:
    """Theorem 2 on a tuned model: every train row is left to the most accurate source it has."""
    counts = np.unique(dev.truth, return_counts=True)[1]
    if dev.vectors is None or len(counts) < 2 or counts.min() < 2:
        return None
    _, head, rough = model_smoothness(dev.truth, dev.vectors, grid, scan)
    wrong = float((tuned.search_.best.proba.argmax(axis=1) != dev.truth).mean())
    if around is None:
        return Promise(head, wrong, np.nan, np.nan)
    risks = 1 - case.accuracies
    rough = np.nan_to_num(rough, nan=0.5)
    for index, place in enumerate(around.values()):
        radius = tuned.radius_[index]
        if not np.isnan(radius):
            at = np.searchsorted(grid, radius)
            growth = (place.crossing * place.near)[at]
            a = case.accuracies[index]
            risks[index] = 0.5
            if place.support:
                risks[index] = extended_source_risk(a, rough[at], place.support, growth)
    accuracy = np.asarray(tuned.label_model_.accuracy_)  # type: ignore[attr-defined]
    shares, uncovered = _regions(tuned.votes_, accuracy)
    p = float(case.prior[1])
    printed = epoxy_risk(risks, shares, uncovered, p)
    return Promise(head, wrong, printed, disjoint_risk(accuracy, shares, uncovered, p))


def _regions(votes: Votes, accuracy: np.ndarray) -> tuple[np.ndarray, float]:
    """The share of rows left to each source, and of rows that no source votes on."""
    ranked = np.where(votes.cast, accuracy, -1.0)
    owner = np.where(votes.covered, ranked.argmax(axis=1), len(accuracy))
    shares = np.bincount(owner, minlength=len(accuracy) + 1) / max(1, votes.n_rows)
    return shares[:-1], float(shares[-1])
