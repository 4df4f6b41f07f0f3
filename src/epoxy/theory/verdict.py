"""Prediction against outcome: whether extension helps here, for which sources, and against a head.

The answer is the search's own: a verdict reads the model that `epoxy.tune` chose, on the rows it was
chosen on, so that the two cannot disagree. Predictions beside it come from train rows without labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ..diagnostics.report import Column, Table
from ..errors import NotIdentifiable, ParameterError
from ..estimators import clone
from ..extension import Reach
from ..label_models.base import AdditiveModel, balance_used
from ..votes import Split, Votes
from .lift import class_prior, posterior
from .pairs import Scan
from .promise import Promise, promise
from .radius import LiftCurve, RadiusChoice, Surroundings, choose_radius, surroundings
from .smoothness import compare_embeddings, smoothness

if TYPE_CHECKING:
    from ..model import Epoxy

Outcome = Literal["helps", "unclear", "not extended"]

_FEWEST = 20  # newly covered dev rows below which their share means little
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)


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
    why: str


@dataclass(frozen=True, eq=False)
class Verdict:
    """The table, a line per source, and a plain answer."""

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
    def outcome(self) -> Outcome:
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
        return "\n".join([*lines, *(f"{each.source}: {each.why}" for each in self.sources)])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"outcome": self.outcome, **asdict(self)}

    def table(self) -> str:
        """The rows as aligned text."""
        return "\n".join(self._table.lines())

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.text)}</p>".replace("\n", "<br>") + self._table._repr_html_()

    @property
    def _table(self) -> Table:
        names = [field.name for field in fields(RadiusRow)]
        columns = [Column(name, name, "text" if name == "source" else "number") for name in names]
        return Table("", tuple(columns), tuple(map(asdict, self.rows)))


@dataclass(frozen=True, eq=False)
class _Case:
    """What every measurement on dev needs."""

    near: Reach
    onto: Reach
    y: np.ndarray  # (n_dev,) known labels only
    accuracies: np.ndarray  # (n_sources,)
    prior: np.ndarray  # (n_classes,)

    def weights(self, extended: Mapping[int, float]) -> np.ndarray:
        """The accuracies with those of some sources after extension, no worse than guessing."""
        found, floor = self.accuracies.copy(), 1 / self.onto.votes.n_classes
        for source, accuracy in extended.items():
            if np.isfinite(accuracy):
                found[source] = max(float(accuracy), floor)
        return found

    def gain(self, extended: Votes, weights: np.ndarray) -> np.ndarray:
        """Per dev row, gain in probability of the truth; weights are those of extended sources."""
        before = posterior(self.onto.votes, self.accuracies, self.prior)
        after = posterior(extended, weights, self.prior)
        rows = np.arange(len(self.y))
        return np.asarray(after[rows, self.y] - before[rows, self.y])


def verdict(tuned: Epoxy, dev: Split, *, radii: Any = None) -> Verdict:
    """Set what theory predicts beside what tuning found on dev.

    Parameters
    ----------
    tuned
        What `epoxy.tune(train, dev)` returned.
    dev
        The rows it was tuned on.
    radii
        Of the table, shared by all sources; None takes twelve that 1 % to 100 % of abstentions lie
        within.
    """
    from ..model import reach_onto
    from ..tuning import Search, counting_rows

    search = getattr(tuned, "search_", None)
    if not isinstance(search, Search):
        raise ParameterError(
            "a verdict reads what tuning chose on true labels; make the model by epoxy.tune(train, dev)"
        )
    train, counting = tuned.train_, counting_rows(dev)
    known = dev.rows(counting)
    near, onto = tuned.reach_, reach_onto(train, known, tuned)
    prior = class_prior(balance_used(tuned.label_model_), train.votes.n_classes)
    case = _Case(near, onto, known.truth, _accuracies(tuned), prior)
    grid = _default_radii(near) if radii is None else np.asarray(radii, dtype=np.float64)
    choice = choose_radius(near, case.accuracies, balance=prior, radii=grid)
    scan = Scan(cast(Any, tuned.metric), anchors=1000)
    around = _around(train, known, grid, scan)
    bounds = _bounds(case, around, len(grid))
    names = train.votes.sources
    rows = tuple(
        _row(case, index, choice.curves[name], at, bounds[index])
        for index, name in enumerate(names)
        for at in range(len(grid))
    )
    return Verdict(
        rows,
        tuple(
            _judge(case, index, choice, float(tuned.radius_[index])) for index in range(len(names))
        ),
        search.scoring,
        len(counting),
        search.without,
        search.best.score,
        search.error,
        search.expected,
        _roughness(known, scan),
        _one_sided(train.votes),
        promise(tuned, known, case.accuracies, choice, around, scan),
    )


def _accuracies(tuned: Epoxy) -> np.ndarray:
    """Of the sources as they are; of the extended ones where no label model can learn the former."""
    fitted: Any = tuned.label_model_
    if not isinstance(fitted, AdditiveModel):
        raise ParameterError(
            f"a verdict needs a label model that learns accuracies, and {type(fitted).__name__} does "
            "not; tune with Triplet or DawidSkene"
        )
    with suppress(NotIdentifiable):
        fitted = clone(tuned.label_model).fit(tuned.train_.votes)
    return np.asarray(fitted.accuracy_, dtype=np.float64)


def _one_sided(votes: Votes) -> tuple[str, ...]:
    named = (np.unique(column[column >= 0]) for column in votes.matrix.T)
    return tuple(name for name, found in zip(votes.sources, named, strict=True) if len(found) == 1)


def _default_radii(near: Reach) -> np.ndarray:
    far = near.distance[~near.votes.cast & np.isfinite(near.distance)]
    if not len(far):
        return np.array([0.0])
    return np.unique(np.quantile(far, _SHARES, method="higher"))


def _around(train: Split, dev: Split, grid: np.ndarray, scan: Scan) -> Surroundings | None:
    """Pair statistics, M_Y from dev; None where the theorems make no statement."""
    if train.votes.n_classes != 2 or dev.n_rows < 2 or train.vectors is None:
        return None
    return surroundings(train, smoothness(dev, radii=grid, scan=scan), radii=grid, scan=scan)


def _bounds(case: _Case, around: Surroundings | None, n_radii: int) -> np.ndarray:
    """Theorem 1 per source and radius."""
    sources = case.near.votes.sources
    if around is None:
        return np.full((len(sources), n_radii), np.nan)
    chosen = choose_radius(case.near, case.accuracies, criterion="theorem", around=around)
    return np.array([chosen.curves[name].lift for name in sources])


def _row(case: _Case, source: int, curve: LiftCurve, at: int, bounds: np.ndarray) -> RadiusRow:
    radius = float(curve.radii[at])
    extended = case.onto.extend({case.onto.votes.sources[source]: radius})
    weights = case.weights({source: curve.extended[at]})
    own, now = case.onto.votes.cast[:, source], extended.cast[:, source]
    right = extended.matrix[:, source] == case.y
    gain = case.gain(extended, weights)
    support = float(case.near.votes.coverage[source])
    return RadiusRow(
        source=case.near.votes.sources[source],
        radius=radius,
        coverage=support + float(curve.reached[at]),
        new_rows=int((now & ~own).sum()),
        new_accuracy=_mean(right[now & ~own]),
        predicted_accuracy=float(curve.new[at]),
        accuracy=_mean(right[now]),
        lift=float(gain.mean()),
        lift_error=_error(gain),
        predicted_lift=float(curve.lift[at]),
        bound=float(bounds[at]),
    )


def _judge(case: _Case, source: int, choice: RadiusChoice, radius: float) -> SourceVerdict:
    name, a = case.near.votes.sources[source], float(case.accuracies[source])
    predicted = choice.radius[name]
    if np.isnan(radius):
        silent = ~case.near.votes.cast[:, source] & np.isfinite(case.near.distance[:, source])
        far = "nothing" if predicted is None else f"a radius of {predicted:.3f}"
        why = (
            f"Not extended; without labels {far} is predicted to be best."
            if silent.any()
            else "It has no abstention to fill."
        )
        return SourceVerdict(name, None, predicted, why)
    curve = choose_radius(case.near, case.accuracies, balance=case.prior, radii=[radius]).curves[
        name
    ]
    row = _row(case, source, curve, 0, np.full(1, np.nan))
    seen = (
        f"and are on {row.new_accuracy:.0%} of {row.new_rows} dev rows"
        if row.new_rows >= _FEWEST
        else f"but only {row.new_rows} dev rows are reached, too few to tell"
    )
    guess = (
        "" if np.isnan(row.predicted_accuracy) else f" predicted to be {row.predicted_accuracy:.0%}"
    )
    own = case.onto.votes.cast[:, source]
    right = (case.onto.votes.matrix[:, source] == case.y)[own]
    on_dev = f" (on dev {right.mean():.0%} of {len(right)})" if len(right) else ""
    why = (
        f"Extended to {radius:.3f} it covers {row.coverage:.0%} of rows; the label model takes its own "
        f"votes to be right {a:.0%} of the time{on_dev}, lent ones were"
        f"{guess or ' not predictable'}, {seen}."
    )
    return SourceVerdict(name, radius, predicted, why)


def _roughness(dev: Split, scan: Scan) -> tuple[float, float]:
    if dev.n_rows < 2 or dev.vectors is None:
        return float("nan"), float("nan")
    rank = compare_embeddings({"vectors": dev.vectors}, dev.y, scan=scan)[0]
    return rank.roughness, rank.chance


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")
