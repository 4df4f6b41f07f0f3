"""`Fusion`: votes, vectors, neighbours and hand labels in one sum of log-odds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import storage
from ..diagnostics import Explanation, Report
from ..engines import Engine, Updatable
from ..errors import NotFitted, ParameterError, UnknownName, VectorError
from ..estimators import Estimator
from ..extension import AUTO, Radius, as_setting
from ..loans import Loans, Neighbourhood
from ..neighbors.space import metric_named
from ..scoring import positive_index
from ..sequences.layout import layout_of
from ..shares import checked_shares
from ..storage import State
from ..votes import Split, Votes, check_alike
from ..workspace import TRAIN, Workspace, column_of
from .around import Lists, Vectors
from .decision import DEGENERATE, OF_POSITIVE, SCORINGS
from .engine import FusionEngine
from .fitted import Fitted, SeenRows
from .sequence import LabelChain, smoothed


class Fusion(Estimator, Updatable):
    """Four parts, added up: votes, a line through vectors, the rows around, and what hand labels correct.

        logit(x) = s (log π + votes(x) + vectors(x) + neighbours(x) + labels(x))

        votes       log(C + 2π) − log π    C: votes for each class, own and lent within a radius
        vectors     a · line               ridge regression on vectors of what votes make of train rows
        neighbours  0.7 b · around         the same, its mean over the 30 nearest train rows that have votes
        labels      b₀ + θᵀψ + w · likest  what hand labels correct: a bias, vectors and votes, rows like it

    a and b, within 0 and 1, say how far vectors foretell votes of rows left out. Hand labels are one convex
    fit with the rest as an offset, drawn to it by ridges: they add to it and cannot replace it, so that a
    person who labels only what a tool shows is not punished for it. A source that repeats another counts
    once, and one that its surroundings contradict is not heard. Where votes name sequences, the rest of its
    sequence adds to each row's logit (see `sequence`). Formulas and constants: `fitted`, `constants`.

    Parameters
    ----------
    scoring
        `"accuracy"`, `"f1"` (of `positive`), `"f1_macro"`, `"balanced_accuracy"` or another scorer's
        name of scikit-learn: it moves the rule of `predict`, never a probability.
    positive
        The class whose F1 counts; the second of two unless told otherwise.
    metric
        The distance by which rows are near: `"cosine"` or `"euclidean"`.
    radius
        How far sources lend: `"auto"` as far as what they lend is supported by other sources and by the
        rows around; a number for all sources, a {source: radius} mapping for some; None lends nothing.
    class_balance
        Shares of the classes, in order or by name; None estimates them from the votes.
    noise
        How often hand labels are wrong, where that is known.
    seed
        For the random features.

    Examples
    --------
    >>> from epoxy import Split, Votes
    >>> votes = Votes([[1, -1], [-1, 0], [-1, -1]] * 20, classes=["ham", "spam"])
    >>> vectors = [[1.0, 0.1], [0.1, 1.0], [1.0, 0.2]] * 20
    >>> train = Split(votes, vectors)
    >>> Fusion().fit(train).predict(train)[:3].tolist()
    ['spam', 'ham', 'spam']
    """

    fitted_: Fitted
    """What was learned, and the rule of decision."""
    train_: Split
    """Where loans come from."""
    hand_: Split | None
    """The hand-labelled rows."""
    held_out_: np.ndarray | None
    """Probabilities of the hand-labelled rows by models that did not learn from them."""
    _near: Neighbourhood | None = None
    _vectors: Vectors | None = None
    chain_: LabelChain | None = None
    """How labels follow each other; None where the rows of train are not in sequences."""

    def __init__(
        self,
        *,
        scoring: str = "accuracy",
        positive: str | None = None,
        metric: str = "cosine",
        radius: Radius | None = AUTO,
        class_balance: Mapping[str, float] | Sequence[float] | None = None,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.scoring = scoring
        self.positive = positive
        self.metric = metric
        self.radius = radius
        self.class_balance = class_balance
        self.noise = noise
        self.seed = seed

    def checked(self, classes: Sequence[str]) -> Self:
        """Refuse parameters that could not be used with these classes; returns the model itself."""
        metric_named(self.metric)
        if self.scoring in DEGENERATE:
            raise ParameterError(
                f"scoring={self.scoring!r} is best where hardly any row or every row is called positive; "
                "use 'f1', which weighs precision and recall"
            )
        if self.scoring not in SCORINGS:
            raise UnknownName.of("scoring", self.scoring, SCORINGS)
        which = positive_index(self.positive, classes)
        if self.scoring in OF_POSITIVE and which is None:
            raise ParameterError(
                f"scoring={self.scoring!r} is of one class, and there are {len(classes)}; "
                f"name it: positive=…, or use scoring='{self.scoring}_macro'"
            )
        number = isinstance(self.noise, int | float | np.number)
        if not number or not 0 <= self.noise < 1:
            raise ParameterError(
                f"noise is a share of labels, from 0 to below 1, got {self.noise!r}"
            )
        if self.class_balance is not None:
            checked_shares(self.class_balance, classes, "Fusion")
        for name, value in self._radii().items():
            as_setting(value, name)
        return self

    def _radii(self) -> Mapping[str, Any]:
        if isinstance(self.radius, Mapping):
            return self.radius
        return {"each": self.radius} if self.radius is None or np.isscalar(self.radius) else {}

    def engine(self) -> Engine:
        """The incremental form of this model, for a session."""
        return FusionEngine(self)

    def fit(self, train: Split, dev: Split | None = None) -> Self:
        """Learn from the votes and vectors of `train` and the true labels of `dev`.

        True labels of `train` are never read.
        """
        train, dev = _as_split(train), None if dev is None else _as_split(dev)
        self.checked(train.classes)
        splits = (train,) if dev is None else (train, dev)
        engine = FusionEngine(self)
        near = Neighbourhood.over(splits, self.metric, apart=True)
        workspace = Workspace.over(train, dev, near, engine.settings(train.votes.sources))
        outcome = engine.update(workspace)
        made = outcome.model
        self.with_parts(made.fitted_, workspace, self, engine.vectors)
        self.held_out_, self.chain_ = outcome.held_out, made.chain_
        return self

    def with_parts(
        self,
        fitted: Fitted,
        workspace: Workspace,
        into: Fusion | None = None,
        vectors: Vectors | None = None,
    ) -> Fusion:
        """A model fitted before, as a value of its own."""
        model = Fusion(**self.get_params(deep=False)) if into is None else into
        model.fitted_, model.train_ = fitted, workspace.split(TRAIN)
        model.hand_ = workspace.hand_labelled()
        model.held_out_ = None
        model._near, model._vectors = workspace.near, vectors
        return model

    @property
    def classes_(self) -> np.ndarray:
        """The class names, in the order of the columns of `predict_proba`."""
        return np.asarray(self._train().classes)

    @property
    def weights_(self) -> dict[str, float]:
        """How loud each part is; 1 where no hand label moved it."""
        self._train()
        fitted = self.fitted_
        read = fitted.weight("vectors")
        told = {"votes": fitted.weight("votes")}
        if fitted.sight is not None:
            told |= {"vectors": read * fitted.sight.line, "neighbours": read * fitted.sight.around}
        return told | ({} if fitted.corrected is None else {"labels": 1.0})

    @property
    def class_balance_(self) -> np.ndarray:
        """The class balance it starts from; (n_classes,)."""
        self._train()
        return self.fitted_.prior

    def predict_proba(self, split: Split) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        rows = self.rows_of(split)
        proba = self.fitted_.probabilities(rows)
        added = self.added_by_sequence(split, proba)
        return proba if added is None else smoothed(proba, added)

    def added_by_sequence(self, split: Split, proba: np.ndarray) -> np.ndarray | None:
        """What rows before and after add to probabilities of rows on their own; None without sequences.

        (2, n_rows, n_classes). Hand labels on train rows are heard by the other rows of train.
        """
        chain = self.chain_
        if chain is None or split.votes.sequences is None:
            return None
        given = chain.given if self._is_train(split) else None
        return chain.added(proba, layout_of(split.votes, None), given)

    def _is_train(self, split: Split) -> bool:
        mine = self.train_
        return split is mine or all(
            one is two or (one is not None and two is not None and np.array_equal(one, two))
            for one, two in (
                (mine.ids, split.ids),
                (mine.votes.sequences, split.votes.sequences),
                (mine.votes.matrix, split.votes.matrix),
                (mine.vectors, split.vectors),
            )
        )

    def predict(self, split: Split) -> np.ndarray:
        """Return a class name per row, by the rule that suits `scoring`."""
        return np.asarray(self.classes_[self.decide(self.predict_proba(split))])

    def decide(self, proba: np.ndarray) -> np.ndarray:
        """Class indices for probabilities, by the fitted rule; (n_rows,)."""
        return self.fitted_.rule(proba)

    def extend(self, split: Split) -> Votes:
        """The votes on the rows of `split`, with those that near train rows lend where sources abstain."""
        rows = self.rows_of(split)
        matrix = _as_split(split).votes.matrix.copy()
        matrix[:, self.fitted_.columns] = rows.votes.T
        return _as_split(split).votes.with_matrix(matrix)

    def evidence(self, split: Split) -> dict[str, np.ndarray]:
        """What each part adds to the log-odds, before the sum is scaled; (n_rows, n_classes) each."""
        return self.fitted_.parts(self.rows_of(split))

    def known(self, split: Split) -> np.ndarray:
        """Rows about which anything is known; the others have the class balance; (n_rows,) bool."""
        said = np.stack(list(self.evidence(split).values()))
        return np.asarray((np.ptp(said, axis=2) > 1e-9).any(axis=0))

    def score(self, split: Split, y: Any = None) -> float:
        """Accuracy of `predict` on the rows of `split` whose true label is known."""
        truth = split.truth if y is None else Split(split.votes, y=y).truth
        known = truth >= 0
        if not known.any():
            raise ParameterError("score needs true labels, and none are known; give y to the Split")
        guess = self.decide(self.predict_proba(split))
        return float((guess[known] == truth[known]).mean())

    def report(self, split: Split, *, positive: str | None = None) -> Report:
        """What each part says, how good and how calibrated the probabilities are."""
        from .model_report import model_report

        return model_report(self, _as_split(split), positive or self.positive)

    def explain(self, split: Split, row: Any) -> Explanation:
        """Why one row has its label: votes, own and lent, rows around it, and hand labels."""
        from .explanation import explain_row, with_sequence

        split = _as_split(split)
        at = split.position_of(row)
        rows = self.rows_of(split)
        proba, one = self.fitted_.probabilities(rows), rows.take(np.array([at]))
        added = self.added_by_sequence(split, proba)
        if added is None:
            return explain_row(self, split, at, one, proba[at])
        found = explain_row(self, split, at, one, smoothed(proba, added)[at])
        given = self.chain_.given if self.chain_ is not None and self._is_train(split) else None
        return with_sequence(found, added[:, at], split, at, given)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the fitted model as a folder of JSON and arrays; see `epoxy.load`."""
        return storage.save(self, folder)

    def to_state(self) -> State:
        """Describe the fitted model for `epoxy.storage`."""
        from .store import to_state

        self._train()
        return to_state(self)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted model again."""
        from .store import from_state

        return from_state(cls, state)

    def rows_of(self, split: Split) -> SeenRows:
        """A split as the model sees it: who lends to its rows, and who is around them, is searched."""
        train, split = self._train(), _as_split(split)
        check_alike(train, split)
        if train.vectors is not None and split.vectors is None:
            raise VectorError(
                "Fusion was fitted with vectors, and this split has none; embed its rows and pass "
                "Split(votes, vectors), or fit without vectors"
            )
        fitted, at = self.fitted_, 1
        own = np.ascontiguousarray(split.votes.matrix[:, fitted.columns].T)
        vectors = self._seen()
        if vectors is None:
            return fitted.rows(own, [Loans.nobody(each) for each in own])
        same = split is train or (
            split.votes is train.votes
            and split.vectors is train.vectors
            and len(split) == len(train)
        )
        if same:
            near, at, features, lists = vectors.near, TRAIN, vectors.features[0], vectors.lists[0]
        else:
            features = vectors.view.of(split.vectors)
            near = vectors.near.asked_by(split, apart=True)
            if near.graphs is None:  # none of these rows has a direction
                return fitted.rows(own, [Loans.nobody(each) for each in own])
            lists = Lists.of(near, 1)
        splits = (train,) if same else (train, split)
        columns = [[column_of(each, number) for each in splits] for number in fitted.columns]
        alone = replace(near, graphs=None if near.graphs is None else near.graphs[: at + 1])
        loans = [each[at] for each in alone.lend_all(columns)]
        taught = fitted.corrected
        likest = None if taught is None or not taught.asks else taught.likest(features)
        return fitted.rows(own, loans, features, lists, likest)

    def _seen(self) -> Vectors | None:
        """Train rows as the model sees them; of a model that was loaded they are looked at once."""
        sight, train = self.fitted_.sight, self.train_
        if sight is None or train.vectors is None:
            return None
        if self._vectors is None:
            near = Neighbourhood.over((train,), self.metric, apart=True)
            features = sight.view.of(train.vectors)
            lists = Lists.of(near, TRAIN)
            self._vectors = Vectors(near, (train.vectors,), sight.view, (features,), (lists,))
        return self._vectors

    def row_at(self, node: int) -> Any:
        """The id of the first train row at a node of the graph."""
        seen = self._seen()
        assert seen is not None
        assert seen.near.spaces is not None
        place, row = seen.near.places[TRAIN], int(seen.near.spaces[TRAIN].first[node])
        return self.train_.id_of(row if place is None else int(place[row]))

    def _train(self) -> Split:
        if not hasattr(self, "fitted_"):
            raise NotFitted.of(self)
        return self.train_


def _as_split(split: Any) -> Split:
    if not isinstance(split, Split):
        raise ParameterError(
            f"expected a Split, got {type(split).__name__}; wrap the votes: Split(votes, vectors)"
        )
    return split
