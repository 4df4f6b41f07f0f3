"""Prediction against outcome: will extension help here, for which sources, and why.

Predictions come from train rows without labels; outcomes are measured on dev rows. The radius a
source is judged at is the one predicted, not the one that looks best on dev, so the judgement is
not flattered by the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from ..errors import LabelError
from ..extension import Reach, reach
from ..votes import Split, Votes
from .lift import class_prior, posterior
from .pairs import Scan
from .radius import LiftCurve, choose_radius, surroundings
from .smoothness import compare_embeddings, smoothness

__all__ = ["RadiusRow", "SourceVerdict", "Sweep", "Verdict", "sweep", "verdict"]

Outcome = Literal["helps", "hurts", "unclear", "not extended"]

_SURE = 1.645  # standard errors: 95 % one-sided
_FEWEST = 20  # newly covered dev rows below which a standard error means little
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
    """What extension does for one source at the radius predicted for it."""

    source: str
    outcome: Outcome
    radius: float | None
    lift: float
    lift_error: float
    why: str


@dataclass(frozen=True, eq=False)
class Verdict:
    """The table, a judgement per source, and a plain answer."""

    rows: tuple[RadiusRow, ...]
    sources: tuple[SourceVerdict, ...]
    lift: float
    lift_error: float
    accuracy: tuple[float, float]
    """Of hard labels on dev, before and after extending every source as predicted."""
    smoothness: tuple[float, float]
    """Share of unequal labels among the nearest 1 % of dev pairs, and among all pairs."""

    @property
    def radius(self) -> dict[str, float | None]:
        """The radii predicted, ready for `Reach.extend`."""
        return {each.source: each.radius for each in self.sources}

    @property
    def outcome(self) -> Outcome:
        """Whether extension as a whole helps on dev."""
        if all(each.radius is None for each in self.sources):
            return "not extended"
        return _outcome(self.lift, self.lift_error)

    @property
    def findings(self) -> tuple[str, ...]:
        """One sentence per source."""
        return tuple(f"{each.source}: {each.outcome}. {each.why}" for each in self.sources)

    @property
    def text(self) -> str:
        """The answer in words."""
        near, chance = self.smoothness
        helped = [each.source for each in self.sources if each.outcome == "helps"]
        harmed = [each.source for each in self.sources if each.outcome == "hurts"]
        answer = {
            "helps": "Extension helps here.",
            "hurts": "Extension hurts here.",
            "unclear": "Extension makes no clear difference here.",
            "not extended": "No source is predicted to gain from extension.",
        }[self.outcome]
        lines = [
            f"{answer} On dev the truth gains {self.lift:+.4f} ± {self.lift_error:.4f} in probability "
            f"(s.e.); accuracy goes from {self.accuracy[0]:.1%} to {self.accuracy[1]:.1%}.",
            f"Near rows carry different labels {near:.0%} of the time, any two rows {chance:.0%}.",
        ]
        if helped:
            lines.append(f"Extend: {', '.join(helped)}.")
        if harmed:
            lines.append(f"Leave alone: {', '.join(harmed)}.")
        return "\n".join([*lines, *self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"outcome": self.outcome, **asdict(self)}

    def table(self) -> str:
        """The rows as aligned text."""
        names = [field.name for field in fields(RadiusRow)]
        cells = [[_cell(getattr(row, name)) for name in names] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
        lines = [names, *cells]
        return "\n".join("  ".join(map(str.rjust, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.text)}</p><pre>{escape(self.table())}</pre>".replace("\n", "<br>")


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


def verdict(
    train: Split,
    dev: Split,
    accuracies: Any,
    *,
    balance: Any = None,
    radii: Any = None,
    reaches: tuple[Reach, Reach] | None = None,
) -> Verdict:
    """Compare what extension is predicted to do with what it does on dev.

    Parameters
    ----------
    train, dev
        With vectors; dev with labels.
    accuracies
        Of the sources, as a label model fitted on train estimates them (`accuracy_`).
    balance
        Class prior; even when None.
    radii
        Shared by all sources; None takes twelve that 1 % to 100 % of abstentions lie within.
    reaches
        `(reach(train), reach(train, onto=dev))` where they are already known.
    """
    if dev.y is None or not dev.labelled.any():
        raise LabelError("a verdict compares with true labels, dev has none; label some rows first")
    known = dev.rows(dev.labelled)
    near, onto = reaches if reaches is not None else (reach(train), reach(train, onto=dev))
    onto = onto.rows(dev.labelled)
    prior = class_prior(balance, train.votes.n_classes)
    case = _Case(near, onto, dev.y[dev.labelled], np.asarray(accuracies, dtype=np.float64), prior)
    grid = _default_radii(near) if radii is None else np.asarray(radii, dtype=np.float64)
    choice = choose_radius(near, case.accuracies, balance=balance, radii=grid)
    bounds = _bounds(train, known, case, grid)
    rows, sources = [], []
    for index, name in enumerate(train.votes.sources):
        curve = choice.curves[name]
        found = [_row(case, index, curve, at, bounds[index]) for at in range(len(grid))]
        rows += found
        sources.append(_judge(case, index, curve, found))
    return _whole(case, tuple(rows), tuple(sources), choice.curves, _roughness(known))


def _default_radii(near: Reach) -> np.ndarray:
    far = near.distance[~near.votes.cast & np.isfinite(near.distance)]
    if not len(far):
        return np.array([0.0])
    return np.unique(np.quantile(far, _SHARES, method="higher"))


def _bounds(train: Split, dev: Split, case: _Case, grid: np.ndarray) -> np.ndarray:
    """Theorem 1 per source and radius, M_Y from dev; NaN where it makes no statement."""
    shape = (train.votes.n_sources, len(grid))
    if train.votes.n_classes != 2 or dev.n_rows < 2:
        return np.full(shape, np.nan)
    scan = Scan(anchors=1000)
    around = surroundings(train, smoothness(dev, radii=grid, scan=scan), radii=grid, scan=scan)
    chosen = choose_radius(case.near, case.accuracies, criterion="theorem", around=around)
    return np.array([chosen.curves[name].lift for name in train.votes.sources])


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


def _judge(case: _Case, source: int, curve: LiftCurve, rows: Sequence[RadiusRow]) -> SourceVerdict:
    name, best = case.near.votes.sources[source], curve.best
    a = float(case.accuracies[source])
    if best is None:
        silent = ~case.near.votes.cast[:, source] & np.isfinite(case.near.distance[:, source])
        if not silent.any():
            why = "It has no abstention to fill."
        elif np.isnan(curve.new).all():
            why = "No other source says anything about the rows it would reach."
        else:
            top = float(np.nanmax(curve.new))
            why = f"Its votes are right {a:.0%} of the time, lent ones at best {top:.0%}."
        return SourceVerdict(name, "not extended", None, 0.0, 0.0, why)
    row = rows[best]
    seen = (
        f"and are on {row.new_accuracy:.0%} of {row.new_rows} dev rows; "
        f"lift {row.lift:+.4f} ± {row.lift_error:.4f}."
        if row.new_rows >= _FEWEST
        else f"but only {row.new_rows} labelled dev rows are reached, too few to tell."
    )
    why = (
        f"Within {row.radius:.3f} it covers {row.coverage:.0%} of rows; its own votes are right "
        f"{a:.0%} of the time, lent ones were predicted to be {row.predicted_accuracy:.0%}, {seen}"
    )
    outcome = _outcome(row.lift, row.lift_error) if row.new_rows >= _FEWEST else "unclear"
    return SourceVerdict(name, outcome, row.radius, row.lift, row.lift_error, why)


def _whole(
    case: _Case,
    rows: tuple[RadiusRow, ...],
    sources: tuple[SourceVerdict, ...],
    curves: Any,
    roughness: tuple[float, float],
) -> Verdict:
    of_source = enumerate(curves[each.source] for each in sources)
    weights = case.weights(
        {at: curve.extended[curve.best] for at, curve in of_source if curve.best is not None}
    )
    extended = case.onto.extend({each.source: each.radius for each in sources})
    gain = case.gain(extended, weights)
    before = posterior(case.onto.votes, case.accuracies, case.prior).argmax(axis=1)
    after = posterior(extended, weights, case.prior).argmax(axis=1)
    accuracy = (_mean(before == case.y), _mean(after == case.y))
    return Verdict(rows, sources, float(gain.mean()), _error(gain), accuracy, roughness)


def _roughness(dev: Split) -> tuple[float, float]:
    if dev.n_rows < 2 or dev.vectors is None:
        return float("nan"), float("nan")
    rank = compare_embeddings({"vectors": dev.vectors}, dev.y)[0]
    return rank.roughness, rank.chance


def _outcome(lift: float, error: float) -> Outcome:
    if lift - _SURE * error > 0:
        return "helps"
    return "hurts" if lift + _SURE * error < 0 else "unclear"


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if np.isnan(value) else f"{value:.4f}"
    return str(value)


@dataclass(frozen=True, eq=False)
class Sweep:
    """One radius shared by all sources: what it gains and how far it reaches."""

    radii: np.ndarray  # (n_radii,)
    score: np.ndarray  # (n_radii,)
    coverage: np.ndarray  # (n_radii,) mean over sources
    baseline: float  # the score without extension

    @property
    def lift(self) -> np.ndarray:
        """Score less the score without extension."""
        return self.score - self.baseline


def sweep(near: Reach, score: Callable[[float | None], float], radii: Any = None) -> Sweep:
    """Score one shared radius after another, and the mean coverage it gives (the paper's ablation).

    `score` fits, predicts and scores with everything extended to the radius it is given, or nothing
    extended for None.
    """
    grid = _default_radii(near) if radii is None else np.asarray(radii, dtype=np.float64)
    coverage = [float(near.extend(float(radius)).coverage.mean()) for radius in grid]
    scores = [score(float(radius)) for radius in grid]
    return Sweep(grid, np.array(scores), np.array(coverage), score(None))
