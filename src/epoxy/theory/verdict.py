"""Prediction against outcome: whether extension helps here, and for which sources.

The answer is the search's own: a verdict reads the model that `epoxy.tune` chose, on the rows it was
chosen on, so that the two cannot disagree. Predictions beside it come from train rows without labels.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ..errors import NotIdentifiable, ParameterError
from ..estimators import clone
from ..extension import Reach
from ..label_models.label_model import AdditiveModel, balance_used
from ..votes import Split
from .agreement import LiftCurve, lift_curve
from .bounds import class_prior, posterior
from .measure import Scan, compare_embeddings

if TYPE_CHECKING:
    from ..model import Epoxy

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
            "not extended": "Extension surely helps no function here, so none lends.",
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
        if self.one_sided:
            lines.append(
                f"{len(self.one_sided)} of {len(self.sources)} functions only ever name one class: that "
                "they agree does not say how right they are, so each is read by the class it names."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"outcome": self.outcome, **asdict(self)}


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
    rows, sources = [], []
    for index, name in enumerate(train.votes.sources):
        own = float(tuned.radius_[index])
        mine = shared if np.isnan(own) else np.unique(np.append(shared, own))
        curve = lift_curve(case.near, index, case.accuracies, balance=case.prior, radii=mine)
        at_radius = {float(radius): case.row(index, curve, at) for at, radius in enumerate(mine)}
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
        scan = Scan(cast(Any, tuned.metric), anchors=1000)
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

    def row(self, source: int, curve: LiftCurve, at: int) -> RadiusRow:
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
        )
