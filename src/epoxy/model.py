"""The paper's pipeline as one estimator: extend the votes, then combine them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from . import persistence
from .diagnostics import (
    SOURCE_COLUMNS,
    Explanation,
    Report,
    Voice,
    diagnose,
    interval,
    scores,
    source_rows,
)
from .errors import AlignmentError, NotFitted, ParameterError, StoreError
from .extension import Extended, Radius, Reach, as_radii, reach, typical_distance
from .label_models import LabelModel, MajorityVote, Triplet
from .persistence import State, nest, unnest
from .votes import ABSTAIN, Split, Votes
from .weighting import Weighting, resolve_weighting

__all__ = ["Epoxy"]


class Epoxy(BaseEstimator):  # type: ignore[misc]
    """Extend each source's votes to near rows, then combine them with a label model.

    Parameters
    ----------
    label_model
        Anything with `fit(votes)` and `predict_proba(votes)`; None for `Triplet()`.
    radius
        How far each source may speak: one distance, one per source, or a {source: radius} mapping.
        None takes the distance at which a typical train row has its nearest neighbour;
        `epoxy.tune` chooses better with a few true labels.
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

    def fit(self, train: Split, y: None = None, *, reach: Reach | None = None) -> Self:
        """Extend the train votes and fit the label model on them; true labels are never read.

        A `Reach` of the same split found earlier saves the search.
        """
        train = _as_split(train)
        found = self._reach(train) if reach is None else reach
        radius, self.radius_origin_ = self.radius, "given"
        if radius is None:
            radius = typical_distance(train, self.metric)
            self.radius_origin_ = "the typical distance between neighbours"
        self.radius_ = as_radii(radius, train.votes.sources)
        self.radius_[train.votes.cast.all(axis=0)] = np.nan
        self.train_, self.reach_ = train, found
        self.votes_ = found.extend(self.radius_)
        model = Triplet() if self.label_model is None else clone(self.label_model, safe=False)
        self.label_model_ = model.fit(self.votes_)
        return self

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
        split = _as_split(split)
        traced = self.trace(split)
        extended = traced.votes
        proba = self.label_model_.predict_proba(extended)
        votes = extended if split.votes is extended else split.votes
        majority = MajorityVote(getattr(self.label_model_, "class_balance_", None)).fit(extended)
        summary: dict[str, Any] = {
            "rows": split.n_rows,
            "label model": type(self.label_model_).__name__,
            "radii": getattr(self, "radius_origin_", "given"),
            "covered before": float(votes.covered.mean()),
            "covered after": float(extended.covered.mean()),
        }
        found = scores(proba, split.y, split.classes, positive=positive)
        if found:
            beside = scores(majority.predict_proba(extended), split.y, split.classes)
            right = interval(round(found["accuracy"] * found["rows"]), int(found["rows"]))
            assert right is not None  # found is not empty, so there are rows
            summary["accuracy interval"] = {"low": right["low"], "high": right["high"]}
            summary |= {"scores": found, "majority vote": {"accuracy": beside["accuracy"]}}
        rows = source_rows(
            votes,
            extended,
            split.y,
            learned=_learned(self.label_model_),
            radii=self.radius_,
        )
        findings = diagnose(self, split, positive=positive, traced=traced)
        return Report("Epoxy", summary, SOURCE_COLUMNS, tuple(rows), findings)

    def explain(self, split: Split, row: Any) -> Explanation:
        """Why one row has its label; `row` is an id of the split, or a position if no id matches."""
        split = _as_split(split)
        at = position_of(split, row)
        traced = self.trace(split)
        proba = self.label_model_.predict_proba(traced.votes)[at]
        return explain_row(self, split, at, traced, proba)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the fitted model as a folder of JSON and arrays; see `epoxy.load`."""
        return persistence.save(self, folder)

    def to_state(self) -> State:
        """Describe the fitted model for `epoxy.persistence`."""
        train = self._fitted()
        model = self.label_model_
        if not hasattr(model, "to_state"):
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
        values, arrays = state.values, state.arrays
        about = dict(values["weighting"])
        rule = type(resolve_weighting(about.pop("name")))(**about)
        votes = Votes(
            arrays["votes"],
            values["sources"],
            values["classes"],
            sequences=arrays.get("sequences"),
        )
        train = Split(votes, arrays.get("vectors"), ids=arrays["ids"])
        inner = unnest(state, "label_model")
        model = cls(inner, arrays["radius"], rule, metric=values["metric"])
        model.radius_ = arrays["radius"]
        model.train_, model.label_model_ = train, inner
        model.reach_ = model._reach(train)
        model.votes_ = model.reach_.extend(model.radius_)
        return model

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


def reach_onto(train: Split, split: Split, model: Epoxy) -> Reach:
    """The reach of a fitted model's train support onto another split."""
    if train.vectors is None:
        return unextended(split)
    return reach(train, split, metric=model.metric, weighting=model.reach_.weighting)


def unextended(split: Split) -> Reach:
    """A reach of nobody: for models that extend no source and splits without vectors."""
    own = split.votes.cast
    return Reach(
        split.votes,
        np.asarray(split.votes.matrix),
        np.where(own, 0.0, np.inf),
        np.full(own.shape, -1, dtype=np.int32),
    )


def explain_row(
    model: Any, split: Split, at: int, traced: Extended, proba: np.ndarray
) -> Explanation:
    """Put one row's voices together; models without a table of evidence are probed instead."""
    label_model, classes = model.label_model_, split.classes
    order = np.argsort(-proba, kind="stable")
    label, other = int(order[0]), int(order[1])
    floor = np.maximum(proba, 1e-300)
    log_odds = float(np.log(floor[label]) - np.log(floor[other]))
    one = traced.votes.rows([at])
    additive = hasattr(label_model, "evidence") or hasattr(label_model, "contributions")
    if additive:
        evidence, before = _evidence(label_model, traced.votes, at)
        weights = evidence[:, label] - evidence[:, other]
        start = float(before[label] - before[other])
        log_odds = start + float(weights.sum())
    else:
        weights = _weights_by_silence(label_model, traced.votes, at, label, other, log_odds)
        start = 0.0
    majority = MajorityVote().fit(traced.votes).predict_proba(one)[0]
    return Explanation(
        row=_plain_id(split.ids, at),
        label=classes[label],
        against=classes[other],
        probabilities={name: float(p) for name, p in zip(classes, proba)},
        majority={name: float(p) for name, p in zip(classes, majority)},
        start=start,
        log_odds=log_odds,
        voices=tuple(_voices(model.train_, split, at, traced, weights)),
        truth=None if split.y is None or split.y[at] == ABSTAIN else classes[split.y[at]],
        additive=additive,
    )


def _evidence(model: Any, votes: Votes, at: int) -> tuple[np.ndarray, np.ndarray]:
    """What each source adds to each class on one row, and what the row starts with.

    In a sequence a row starts with more than the class balance: what its neighbours say.
    """
    if hasattr(model, "contributions"):
        return model.contributions(votes)[at], model.context(votes)[at]
    return model.evidence(votes.rows([at]))[0], model.log_prior()


def _voices(
    train: Split, split: Split, at: int, traced: Extended, weights: np.ndarray
) -> list[Voice]:
    found = []
    for index, source in enumerate(split.votes.sources):
        vote = int(traced.votes.matrix[at, index])
        if vote == ABSTAIN:
            found.append(Voice(source, None, "abstains", weight=float(weights[index])))
            continue
        own = split.votes.matrix[at, index] != ABSTAIN
        lender = None if own else _plain_id(train.ids, int(traced.lender[at, index]))
        distance = None if own else float(traced.distance[at, index])
        origin = "own" if own else "lent"
        name = split.classes[vote]
        found.append(Voice(source, name, origin, lender, distance, float(weights[index])))
    return sorted(found, key=lambda voice: (voice.vote is None, -abs(voice.weight)))


def _weights_by_silence(
    model: LabelModel, votes: Votes, at: int, label: int, other: int, log_odds: float
) -> np.ndarray:
    """How much the log-odds fall when each source alone abstains on this row."""
    weights = np.zeros(votes.n_sources)
    for index in np.flatnonzero(votes.matrix[at] != ABSTAIN):
        matrix = votes.matrix.copy()
        matrix[at, index] = ABSTAIN
        proba = np.maximum(model.predict_proba(votes.with_matrix(matrix))[at], 1e-300)
        weights[index] = log_odds - float(np.log(proba[label]) - np.log(proba[other]))
    return weights


def position_of(split: Split, row: Any) -> int:
    """Where a row is: by its id, or by position when ids are not what was given."""
    assert split.ids is not None  # Split always fills ids
    found = np.flatnonzero(split.ids.astype(str) == str(row))
    if len(found):
        return int(found[0])
    if isinstance(row, int | np.integer) and 0 <= row < split.n_rows:
        return int(row)
    raise AlignmentError(
        f"no row {row!r} in this split of {split.n_rows} rows; "
        f"give one of its ids (the first is {split.ids[0] if split.n_rows else '–'!r}) or a position"
    )


def _plain_id(ids: np.ndarray | None, at: int) -> Any:
    value = at if ids is None else ids[at]
    return value.item() if isinstance(value, np.generic) else value


def _learned(model: LabelModel) -> np.ndarray | None:
    """What the label model thinks of each source, NaN where it could not tell."""
    accuracy = getattr(model, "accuracy_", None)
    if accuracy is None or not hasattr(model, "identified_"):
        return accuracy
    return np.where(model.identified_, accuracy, np.nan)


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
