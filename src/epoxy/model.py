"""The paper's pipeline as one estimator: extend the votes, then combine them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from . import storage
from .diagnostics import Case, Explanation, Report, explain_row, scores
from .engines import Details, Engine, Outcome, PaperEngine, Updatable, report_of
from .engines.base import most_probable
from .engines.reporting import case_of
from .errors import NotFitted, ParameterError, StoreError, VectorError
from .estimators import Estimator, clone
from .extension import (
    AUTO,
    Extended,
    Radius,
    Reach,
    as_radii,
    as_settings,
    reach,
    unextended,
)
from .label_models import LabelModel, Triplet, balance_of
from .label_models.label_model import SavedModel
from .loans import Loans, Neighbourhood
from .neighbors import Space
from .neighbors.graph import typical_distance
from .storage import Array, Savable, State, nest, unnest
from .votes import Split, Votes
from .weighting import Weighting, resolve_weighting
from .workspace import HandLabels, Source, Workspace, column_of

_VALUES = {
    "sources": [str],
    "classes": [str],
    "metric": str,
    "weighting": {"name": str, "k?": int, "power?": float, "margin?": float, "seed?": int},
    "label_model": dict,
}
_ARRAYS = {  # votes, vectors and sequences are checked by the values they become
    "votes": Array("iu", "rows sources"),
    "radius": Array("f", "sources", low=0, high=np.inf, nan=True),
    "vectors": Array("f", "rows dimension", optional=True),
    "ids": Array("iuUf", "ids"),
    "sequences": Array("iuUf", "rows", optional=True),
}


class Epoxy(Estimator, Updatable):
    """Extend each source's votes to near rows, then combine them with a label model.

    Parameters
    ----------
    label_model
        Anything with `fit(votes)` and `predict_proba(votes)`; None for `Triplet` with the class
        balance counted on hand labels, or equal shares without any.
    radius
        How far each source may speak: one distance, one per source, or a {source: radius} mapping.
        None (and "auto" for one source) takes the distance at which a typical train row has its
        nearest neighbour; `epoxy.tune` chooses better with a few true labels.
    weighting
        Which supporting row lends its vote; see `epoxy.reach`.
    metric
        `"cosine"` or `"euclidean"`.

    Examples
    --------
    >>> votes = Votes([[1, 1, -1], [-1, -1, 1], [0, -1, 0], [-1, 0, -1]] * 20, classes=["ham", "spam"])
    >>> vectors = [[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0]] * 20
    >>> train = Split(votes, vectors)
    >>> Epoxy(radius=0.1).fit(train).predict(train)[:4].tolist()
    ['spam', 'spam', 'ham', 'ham']
    """

    label_model_: LabelModel
    """The label model, fitted on the extended train votes."""
    radius_: np.ndarray
    """The radius of each source; NaN for one that is not extended."""
    train_: Split
    """Where the support of every extension comes from."""
    reach_: Reach
    """The nearest supporting vote of every train row and source."""
    votes_: Votes
    """The extended train votes."""
    radius_origin_: str
    """How the radii were chosen."""
    search_: Any
    """What `epoxy.tune` tried."""

    def __init__(
        self,
        label_model: LabelModel | None = None,
        radius: Radius | None = None,
        weighting: str | Weighting | None = None,
        *,
        metric: str = "cosine",
    ) -> None:
        self.label_model = label_model
        self.radius = radius
        self.weighting = weighting
        self.metric = metric

    def fit(self, train: Split, dev: Split | None = None, *, reach: Reach | None = None) -> Self:
        """Extend the train votes and fit the label model on them.

        True labels of `train` are never read. Those of `dev` teach the class balance where no label
        model was given: rows drawn at random, and rows whose choice is not known. A `Reach` of the
        same split found earlier saves the search.
        """
        train = _as_split(train)
        found = self._reach(train) if reach is None else reach
        radius, origin = self.radius, "given"
        if radius is None:
            radius, origin = AUTO, "the typical distance between neighbours"
        settings = as_settings(radius, train.votes.sources)
        auto = _typical(train, self.metric) if AUTO in settings else np.nan
        radii = as_radii(settings, train.votes.sources, auto)
        votes = found.extend(radii)
        model = self._label_model(dev).fit(votes)
        self.with_parts(train, model, radii, found, votes)
        self.radius_origin_ = origin
        return self

    def with_parts(
        self, train: Split, label_model: Any, radii: np.ndarray, reach: Reach, votes: Votes
    ) -> Self:
        """Become fitted from parts that were fitted before."""
        self.train_, self.label_model_, self.reach_, self.votes_ = train, label_model, reach, votes
        self.radius_ = np.where(train.votes.cast.all(axis=0), np.nan, radii)
        self.radius_origin_ = "given"
        return self

    def engine(self) -> Engine:
        """The incremental form of this pipeline, for a session."""
        rule = resolve_weighting(self.weighting)
        return PaperEngine(self.label_model, self.radius, rule, self.metric)

    def _label_model(self, dev: Split | None) -> Any:
        if self.label_model is not None:
            return clone(self.label_model)
        if dev is None or not dev.representative.any():
            return Triplet()
        return Triplet(balance_of(dev).tolist())

    @property
    def classes_(self) -> np.ndarray:
        """The class names, in the order of the columns of `predict_proba`."""
        return np.asarray(self._fitted().votes.classes)

    def extend(self, split: Split) -> Votes:
        """The split's votes with the fitted radii applied, lent from the train support."""
        return self.trace(split).votes

    def trace(self, split: Split) -> Extended:
        """As `extend`, keeping which train row lent each vote and from how far."""
        train = self._fitted()
        split = _as_split(split)
        found = self.reach_ if split is train else reach_onto(train, split, self)
        return found.trace(self.radius_)

    def predict_proba(self, split: Split) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        extended = self.extend(split)
        return self.label_model_.predict_proba(extended)

    def predict(self, split: Split) -> np.ndarray:
        """Return the most probable class of each row, by name; ties go to the class listed first."""
        best = self.predict_proba(split).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, split: Split, y: Any = None) -> float:
        """Accuracy on the rows of `split` whose true label is known."""
        truth = split.y if y is None else Split(split.votes, y=y).y
        found = scores(self.predict_proba(split), truth, split.classes)
        if not found:
            raise ParameterError("score needs true labels, and none are known; give y to the Split")
        return found["accuracy"]

    def report(self, split: Split, *, positive: str | None = None) -> Report:
        """What each source does before and after extension, and how good the labels are."""
        return report_of(*self._seen(split, positive))

    def case(self, split: Split, *, positive: str | None = None) -> Case:
        """What the doctor looks at: this model's votes and labels on a split, and the label model."""
        return case_of(*self._seen(split, positive))

    def _seen(self, split: Split, positive: str | None) -> tuple[Outcome, int, str | None, Details]:
        """What is reported: this model's labels of rows whose truth it has not read."""
        train, split = self._fitted(), _as_split(split)
        traced = self.trace(split)
        splits = (train,) if split is train else (train, split)
        labels, at = HandLabels.of(splits), len(splits) - 1
        labels = labels if at else labels.with_train(train)
        near = Neighbourhood(tuple(map(len, splits)), self.metric)
        sources = tuple(
            Source(name, tuple(Loans.nobody(column_of(each, number)) for each in splits))
            for number, name in enumerate(train.votes.sources)
        )
        held = self.label_model_.predict_proba(traced.votes)[labels.rows[at]]
        outcome = Outcome(
            Workspace(splits, sources, labels, near),
            lambda: self,
            self.radius_,
            (self.votes_, traced.votes)[: len(splits)],
            held_out=held,
            held_out_labels=most_probable(held),
        )
        model, far = self.label_model_, traced.distance
        lines = {"label model": type(model).__name__, "radii": self.radius_origin_}
        return outcome, at, positive, Details("Epoxy", model, distance=far, lines=lines)

    def explain(self, split: Split, row: Any) -> Explanation:
        """Why one row has its label; `row` is an id of the split, or a position if no id matches."""
        split = _as_split(split)
        at = split.position_of(row)
        traced = self.trace(split)
        proba = self.label_model_.predict_proba(traced.votes)[at]
        return explain_row(self.label_model_, self.train_, split, at, traced, proba)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the fitted model as a folder of JSON and arrays; see `epoxy.load`."""
        return storage.save(self, folder)

    def to_state(self) -> State:
        """Describe the fitted model for `epoxy.storage`."""
        train = self._fitted()
        model = self.label_model_
        if not isinstance(model, Savable):
            raise StoreError(
                f"{type(model).__name__} cannot be saved; use Triplet, MajorityVote or DawidSkene"
            )
        inner, arrays = nest(model.to_state(), "label_model", type(model).__name__)
        weighting = self.reach_.weighting
        values = {
            "sources": list(train.votes.sources),
            "classes": list(train.classes),
            "metric": self.metric,
            "weighting": {"name": weighting.name, **vars(weighting)},
            "label_model": inner,
        }
        arrays |= {"votes": np.asarray(train.votes.matrix), "radius": self.radius_}
        if train.vectors is not None:
            arrays["vectors"] = train.vectors
        arrays["ids"] = _ids_as_array(train.ids)
        if train.votes.sequences is not None:
            arrays["sequences"] = _ids_as_array(train.votes.sequences)
        return State(values, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted model again; the reach onto the train rows is searched anew."""
        values = state.read_values(_VALUES)
        inner, rest = unnest(state, "label_model")
        arrays = rest.read_arrays(_ARRAYS, sources=len(values["sources"]))
        about = dict(values["weighting"])
        rule = type(resolve_weighting(about.pop("name")))(**about)
        votes = Votes(
            arrays["votes"],
            values["sources"],
            values["classes"],
            sequences=arrays.get("sequences"),
        )
        train = Split(votes, arrays.get("vectors"), ids=arrays["ids"])
        radii = arrays["radius"]
        is_model = isinstance(inner, SavedModel) and isinstance(inner, LabelModel)
        if not is_model or (inner.sources_, inner.classes_) != (
            votes.sources,
            votes.classes,
        ):
            raise StoreError(
                "its label model is of other sources or classes; fit and save the model again"
            )
        model = cls(inner, radii, rule, metric=values["metric"])
        reach = model._reach(train)
        return model.with_parts(train, inner, radii, reach, reach.extend(radii))

    def _reach(self, train: Split) -> Reach:
        if (
            train.vectors is None
            and self.radius is not None
            and np.isnan(as_radii(self.radius, train.votes.sources)).all()
        ):
            return unextended(train)
        return reach(train, metric=self.metric, weighting=self.weighting)

    def _fitted(self) -> Split:
        if not hasattr(self, "train_"):
            raise NotFitted.of(self)
        return self.train_


def _typical(train: Split, metric: str) -> float:
    if train.vectors is None:
        raise VectorError(
            "radius=None looks at how near rows are to each other, and the train split has no "
            "vectors; embed the rows, or give radius={} to extend nothing"
        )
    return typical_distance(Space(train.vectors, metric))


def reach_onto(train: Split, split: Split, model: Epoxy) -> Reach:
    """The reach of a fitted model's train support onto another split."""
    if train.vectors is None:
        return unextended(split)
    return reach(train, split, metric=model.metric, weighting=model.reach_.weighting)


def _ids_as_array(ids: np.ndarray | None) -> np.ndarray:
    """Ids without Python objects, so that they can be stored without pickle."""
    found = np.empty(0) if ids is None else ids
    return found.astype(str) if found.dtype == object else found


def _as_split(split: Any) -> Split:
    if not isinstance(split, Split):
        raise ParameterError(
            f"expected a Split, got {type(split).__name__}; wrap the votes: Split(votes, vectors)"
        )
    return split
