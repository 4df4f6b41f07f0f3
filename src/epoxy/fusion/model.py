"""`Fusion`: votes, loans, vectors, hand labels and unlabelled rows in one posterior."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from .. import persistence
from ..diagnostics import Report
from ..errors import AlignmentError, NotFitted, ParameterError, UnknownName
from ..model import position_of
from ..persistence import State
from ..votes import Split
from . import decision, training
from .experts import Expert, Speaker, default
from .explanation import FusionExplanation, explain_row
from .geometry import Geometry
from .pool import Pool
from .report import write_report
from .rows import Lent, Rows
from .store import from_state, to_state

__all__ = ["Fusion"]


class Fusion(BaseEstimator):  # type: ignore[misc]
    """Pool what every expert says about a row into one calibrated posterior.

    Each expert (see `epoxy.fusion.experts`) reads one kind of material: votes, votes lent by near
    rows, hand labels, unlabelled rows. It returns evidence, and a pool with one weight per expert adds
    it to the prior. Weights come from dev rows the experts did not learn from. Without dev rows the
    experts that need them are silent and the weights are typical ones; without vectors only the votes
    are left.

    Parameters
    ----------
    experts
        The experts, in the order in which they are asked; None for `epoxy.fusion.experts.default()`.
    metric
        `"accuracy"`, or `"f1"` of `positive`: it moves the threshold of `predict`, never a probability.
    positive
        The class whose F1 counts; the last class unless told otherwise.
    class_balance
        Shares of the classes; None counts the dev rows, or the votes where there are none.
    abstain
        What `predict` answers for rows nothing is known about; None for the most probable class of all.
    seed
        For the random features and the folds.

    Examples
    --------
    >>> from epoxy import Split, Votes
    >>> votes = Votes([[1, -1], [-1, 0], [-1, -1]] * 20, classes=["ham", "spam"])
    >>> vectors = [[1.0, 0.1], [0.1, 1.0], [1.0, 0.2]] * 20
    >>> train = Split(votes, vectors)
    >>> Fusion().fit(train).predict(train)[:3].tolist()
    ['spam', 'ham', 'spam']
    """

    speakers_: dict[str, Speaker]
    """The fitted experts that had something to learn from, by name."""
    pool_: Pool
    """Their weights, the bias and the prior."""
    train_: Split
    """Where loans come from."""
    geometry_: Geometry | None
    """What depends on the vectors alone; a refit on the same vectors takes it up again."""
    dev_: Split | None
    """The hand-labelled rows, for explanations."""
    dev_proba_: np.ndarray | None
    """Probabilities of the dev rows by models that did not see their label; NaN where none is known."""
    threshold_: float | None
    """For F1: rows at least this probable are called `positive`; None for the most probable class."""

    def __init__(
        self,
        experts: Sequence[Expert] | None = None,
        *,
        metric: str = "accuracy",
        positive: str | None = None,
        class_balance: Mapping[str, float] | Sequence[float] | None = None,
        abstain: str | None = None,
        seed: int = 0,
    ) -> None:
        self.experts = experts
        self.metric = metric
        self.positive = positive
        self.class_balance = class_balance
        self.abstain = abstain
        self.seed = seed

    def fit(
        self, train: Split, dev: Split | None = None, *, geometry: Geometry | None = None
    ) -> Self:
        """Learn from the votes and vectors of `train` and the true labels of `dev`.

        True labels of `train` are never read. `geometry` (of a model fitted on the same vectors)
        saves what does not depend on votes; a refit of this very model finds its own.
        """
        experts = self._checked_experts()
        train, dev = _as_split(train), None if dev is None else _as_split(dev)
        if dev is not None:
            _check_alike(train, dev)
            dev = dev if dev.labelled.any() else None
        self.geometry_ = self._geometry(train, dev, geometry)
        self.train_, self.dev_ = train, dev
        material = training.Material(
            train=self._rows(train),
            dev=None if dev is None else self._rows(dev).take(dev.labelled),
            y=None if dev is None or dev.y is None else dev.y[dev.labelled],
            prior=self._prior(train, dev),
            smoother=None if self.geometry_ is None else self.geometry_.smoother,
            groups=None if dev is None or self.geometry_ is None else self.geometry_.groups(dev),
            seed=self.seed,
        )
        found = training.teach(experts, material)
        self.speakers_, self.pool_ = found.speakers, found.pool
        self.dev_proba_ = _spread(found.dev_proba, dev)
        self.threshold_ = self._threshold()
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The class names, in the order of the columns of `predict_proba`."""
        return np.asarray(self._fitted().classes)

    @property
    def weights_(self) -> dict[str, float]:
        """How loud each expert is; those that had nothing to learn from are not listed."""
        self._fitted()
        return dict(zip(self.speakers_, self.pool_.weights.tolist(), strict=True))

    def evidence(self, split: Split) -> np.ndarray:
        """What each expert adds to the log-odds, before weighting; (n_experts, n_rows, n_classes)."""
        return self.evidence_of(self._rows(self._checked(split)))

    def predict_proba(self, split: Split) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        evidence = self.evidence(split)
        return self.pool_.probabilities(evidence)

    def predict(self, split: Split) -> np.ndarray:
        """Return a class name per row: the most probable, or by the threshold that suits F1."""
        evidence = self.evidence(split)
        names = self.classes_[self.decide(self.pool_.probabilities(evidence))]
        if self.abstain is None:
            return np.asarray(names)
        return np.where(_informed(evidence), names.astype(object), self.abstain).astype(str)

    def known(self, split: Split) -> np.ndarray:
        """Rows about which some expert says something; the others have the prior; (n_rows,) bool."""
        return _informed(self.evidence(split))

    def score(self, split: Split, y: Any = None) -> float:
        """Accuracy of `predict` on the rows of `split` whose true label is known."""
        truth = split.y if y is None else Split(split.votes, y=y).y
        known = np.zeros(split.n_rows, bool) if truth is None else truth >= 0
        if truth is None or not known.any():
            raise ParameterError("score needs true labels, and none are known; give y to the Split")
        guess = self.decide(self.predict_proba(split))
        return float((guess[known] == truth[known]).mean())

    def report(self, split: Split, *, positive: str | None = None) -> Report:
        """What each expert says, how good and how calibrated the probabilities are.

        The dev rows the model was fitted on are scored by models that did not see their labels.
        """
        split = self._checked(split)
        return write_report(self, split, positive or self.positive)

    def held_out(self, split: Split) -> np.ndarray | None:
        """`dev_proba_` if these are the dev rows the model was fitted on, else None."""
        dev = self.dev_
        if dev is None or self.dev_proba_ is None or split.n_rows != dev.n_rows:
            return None
        same_rows = np.asarray(split.ids).tolist() == np.asarray(dev.ids).tolist()
        same_votes = np.array_equal(split.votes.matrix, dev.votes.matrix)
        return self.dev_proba_ if same_rows and same_votes else None

    def explain(self, split: Split, row: Any) -> FusionExplanation:
        """Why one row has its label: votes, loans, hand labels and rows like it, and their weights."""
        split = self._checked(split)
        return explain_row(self, split, position_of(split, row), self._rows(split))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the fitted model as a folder of JSON and arrays; see `epoxy.load`."""
        return persistence.save(self, folder)

    def to_state(self) -> State:
        """Describe the fitted model for `epoxy.persistence`."""
        self._fitted()
        return to_state(self)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted model again."""
        return from_state(cls, state)

    def _checked_experts(self) -> tuple[Expert, ...]:
        experts = default() if self.experts is None else tuple(self.experts)
        names = [expert.name for expert in experts]
        if not names or len(set(names)) < len(names):
            raise ParameterError(f"experts need different names, and one at least, got {names}")
        if self.metric not in decision.METRICS:
            raise UnknownName.of("metric", self.metric, decision.METRICS)
        return experts

    def _geometry(self, train: Split, dev: Split | None, given: Geometry | None) -> Geometry | None:
        if train.vectors is None or (dev is not None and dev.vectors is None):
            return None
        for old in (given, getattr(self, "geometry_", None)):
            if old is not None and old.is_of(train.vectors, self.seed):
                return old
        return Geometry.over(train.vectors, self.seed)

    def _prior(self, train: Split, dev: Split | None) -> np.ndarray:
        if self.class_balance is not None:
            return decision.checked_balance(self.class_balance, train.classes)
        if dev is None or dev.y is None:
            return decision.voted(train.votes)
        return decision.counted(dev.y[dev.labelled], len(train.classes))

    def _threshold(self) -> float | None:
        if self.metric != "f1" or self.dev_ is None:
            return None  # without hand labels nothing calibrates the probabilities
        positive = self._positive()
        promised = self.predict_proba(self.train_)[:, positive]
        if self.dev_proba_ is None or self.dev_.y is None:
            return decision.f1_threshold(promised)
        known = self.dev_.labelled
        right = self.dev_.y[known] == positive
        return decision.f1_threshold(promised, self.dev_proba_[known, positive], right)

    def _positive(self) -> int:
        return decision.positive_index(self.positive, self._fitted().classes)

    def decide(self, proba: np.ndarray) -> np.ndarray:
        """Class indices for probabilities, by the fitted rule; (n_rows,)."""
        if self.threshold_ is None:
            return np.asarray(proba.argmax(axis=1))
        return decision.at_threshold(proba, self._positive(), self.threshold_)

    def _rows(self, split: Split) -> Rows:
        if self.geometry_ is None:
            matrix = split.votes.matrix
            return Rows(matrix, None, lambda: Lent.nobody(matrix.shape))
        return self.geometry_.rows(split, self.train_ if hasattr(self, "train_") else split)

    def evidence_of(self, rows: Rows) -> np.ndarray:
        """As `evidence`, for rows already prepared."""
        return training.hear(list(self.speakers_.values()), rows, len(self.pool_.prior))

    def _checked(self, split: Split) -> Split:
        train = self._fitted()
        split = _as_split(split)
        _check_alike(train, split)
        return split

    def _fitted(self) -> Split:
        if not hasattr(self, "pool_"):
            raise NotFitted.of(self)
        return self.train_


def _spread(proba: np.ndarray | None, dev: Split | None) -> np.ndarray | None:
    if proba is None or dev is None:
        return None
    found = np.full((dev.n_rows, proba.shape[1]), np.nan)
    found[dev.labelled] = proba
    return found


def _informed(evidence: np.ndarray) -> np.ndarray:
    return np.asarray((np.abs(evidence) > 1e-9).any(axis=(0, 2)))


def _as_split(split: Any) -> Split:
    if not isinstance(split, Split):
        raise ParameterError(
            f"expected a Split, got {type(split).__name__}; wrap the votes: Split(votes, vectors)"
        )
    return split


def _check_alike(train: Split, other: Split) -> None:
    if train.votes.sources != other.votes.sources or train.classes != other.classes:
        raise AlignmentError(
            f"splits must have the same sources and classes, got "
            f"{list(train.votes.sources)[:5]} / {list(train.classes)[:5]} and "
            f"{list(other.votes.sources)[:5]} / {list(other.classes)[:5]}; "
            "apply the same labeling functions"
        )
