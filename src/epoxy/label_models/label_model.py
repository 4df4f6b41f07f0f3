"""What label models share: one protocol, and naive-Bayes posteriors read from a table.

A label model is a function from votes to probabilities: `fit(votes)`, `predict_proba(votes)`, and
nothing more; whatever else it needs is a constructor parameter, so that all are substitutable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from ..errors import AlignmentError, LabelError, NotFitted, NotIdentifiable, ParameterError
from ..estimators import Estimator, clone
from ..inputs import class_names, source_names
from ..numerics import softmax
from ..shares import checked_shares, counted_shares
from ..storage import Array, State
from ..votes import ABSTAIN, Split, Votes
from .kernels import from_log_odds, sum_by_vote

ClassBalance = Sequence[float] | np.ndarray | Split | None


@runtime_checkable
class LabelModel(Protocol):
    """Anything that turns votes into probabilities."""

    def fit(self, votes: Votes) -> Any:
        """Learn from the votes alone."""

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""


class BalancedModel(Estimator):
    """A label model that uses a class balance, given or learned."""

    classes_: tuple[str, ...]
    """The classes of the votes it was fitted on."""
    sources_: tuple[str, ...]
    """The sources it was fitted on."""
    class_balance_: np.ndarray
    """Pr(class) as used; (n_classes,)."""


class SavedModel(BalancedModel):
    """A label model that is its parameters and some arrays, and so can be saved."""

    findings_: list[str]
    """What the model could not learn and how it answered instead."""
    dependencies_: tuple[tuple[str, str], ...] = ()
    """Pairs of sources the model does not take for independent, given or learned."""
    _stored: ClassVar[dict[str, Array]] = {
        "class_balance_": Array("f", "classes", low=0, high=1, shares=1)
    }

    def to_state(self) -> State:
        """Describe the fitted model for `epoxy.storage`."""
        if not all(hasattr(self, name) for name in self._stored):
            raise NotFitted.of(self)
        values = {
            "params": self._params(),
            "classes": list(self.classes_),
            "sources": list(self.sources_),
            "findings": list(self.findings_),
            "dependencies": [list(pair) for pair in self.dependencies_],
        }
        return State(values, {name: getattr(self, name) for name in self._stored})

    def _params(self) -> dict[str, Any]:
        """Constructor parameters as JSON values; a balance counted on a split becomes its shares."""
        params = dict(self.get_params(deep=False))
        balance = params.get("class_balance")
        if balance is not None and not isinstance(balance, str):
            params["class_balance"] = self.class_balance_.tolist()
        if not isinstance(params.get("dependencies", "learn"), str):
            params["dependencies"] = [list(pair) for pair in params["dependencies"]]
        return params

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted model again."""
        model, sizes = restored(cls, state)
        for name, value in state.read_arrays(cls._stored, **sizes).items():
            setattr(model, name, value)
        made: Self = model
        return made


_SAVED = {
    "params": dict,
    "classes": [str],
    "sources": [str],
    "findings": [str],
    "dependencies": [[str]],
}


def restored(
    kind: Any, state: State, *given: Any, more: Mapping[str, Any] | None = None
) -> tuple[Any, dict[str, int]]:
    """A model with its parameters and names, checked, and the sizes its arrays must have."""
    values = state.read_values({**_SAVED, **(more or {})})
    model = kind(*given, **values["params"])
    model.classes_ = class_names(values["classes"], np.empty(0))
    model.sources_ = source_names(values["sources"], len(values["sources"]))
    model.findings_ = list(values["findings"])
    model.dependencies_ = tuple((a, b) for a, b in values["dependencies"])
    return model, {"classes": len(model.classes_), "sources": len(model.sources_)}


class AdditiveModel(SavedModel, ABC):
    """A label model that learns how accurate sources are and adds up what each has to say of a row."""

    accuracy_: np.ndarray
    """Pr(the vote is right | the source votes), NaN-free; (n_sources,)."""
    starts_with: ClassVar[str] = "class balance"
    """What a row starts with, in words."""

    @abstractmethod
    def row_evidence(self, votes: Votes, at: int) -> tuple[np.ndarray, np.ndarray]:
        """What each source adds to each class's log probability on one row, and what that row starts with.

        Shapes (n_sources, n_classes) and (n_classes,).
        """

    def learned_accuracy(self) -> np.ndarray:
        """`accuracy_`, with NaN where the votes could not tell; (n_sources,)."""
        return self.accuracy_


class TableModel(AdditiveModel):
    """A label model whose sources speak independently given the class.

    Subclasses learn `log_likelihood_`, log Pr(source says v | class), and `class_balance_`; the
    posterior is then one sum of look-ups per row, and each look-up is that source's evidence.
    """

    log_likelihood_: np.ndarray
    """log Pr(vote | class); (n_sources, 1 + n_classes, n_classes), entry 0 is abstain."""
    _stored: ClassVar[dict[str, Array]] = {
        **SavedModel._stored,
        "log_likelihood_": Array("f", "sources 1+classes classes", low=-np.inf),
        "accuracy_": Array("f", "sources", low=0, high=1),
    }

    def fit(self, votes: Votes) -> Self:
        """Learn from the votes alone."""
        raise ParameterError(f"{type(self).__name__} does not learn; use one of its subclasses")

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        votes = self._check(votes)
        return posterior(votes.matrix, self.log_likelihood_, self.log_prior())

    def predict(self, votes: Votes) -> np.ndarray:
        """Return the most probable class of each row, by name; ties go to the class listed first."""
        best = self.predict_proba(votes).argmax(axis=1)
        return np.asarray(np.asarray(self.classes_)[best])

    def evidence(self, votes: Votes) -> np.ndarray:
        """What each source adds to each class's log probability; (n_rows, n_sources, n_classes)."""
        votes = self._check(votes)
        sources = np.arange(votes.n_sources)
        table = self.log_likelihood_ - self.log_likelihood_.mean(axis=2, keepdims=True)
        return np.asarray(table[sources, votes.matrix.astype(np.intp) + 1])

    def row_evidence(self, votes: Votes, at: int) -> tuple[np.ndarray, np.ndarray]:
        """What each source adds on one row, and the class balance it starts with."""
        return self.evidence(votes.rows([at]))[0], self.log_prior()

    def log_prior(self) -> np.ndarray:
        """What a row starts with before any source speaks; (n_classes,)."""
        return np.asarray(np.log(self.class_balance_))

    def _check(self, votes: Votes) -> Votes:
        return votes_for(self, votes, "log_likelihood_")


def votes_for(model: Any, votes: Any, learned: str) -> Votes:
    """Votes of the sources a model was fitted on; `learned` is an attribute only fitting sets."""
    if not hasattr(model, learned):
        raise NotFitted.of(model)
    found = as_votes(votes)
    if found.n_sources != len(model.sources_) or found.n_classes > len(model.classes_):
        raise AlignmentError(
            f"{type(model).__name__} was fitted on {len(model.sources_)} sources and "
            f"{len(model.classes_)} classes, got votes of {found.n_sources} sources and "
            f"{found.n_classes} classes; apply the same labeling functions"
        )
    return found


def as_votes(votes: Any) -> Votes:
    """Accept a Votes, or a plain matrix with −1 for abstain."""
    return votes if isinstance(votes, Votes) else Votes(votes)


def posterior(matrix: np.ndarray, log_likelihood: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
    """Pr(class | votes) for conditionally independent sources; (n_rows, n_classes)."""
    n_classes = len(log_prior)
    if n_classes == 2:  # one column of log-odds is half the work
        columns = np.ascontiguousarray(matrix.T)  # no copy for votes, which are column-contiguous
        tables = log_likelihood[:, :, 1] - log_likelihood[:, :, 0]
        return from_log_odds(sum_by_vote(columns, tables, float(log_prior[1] - log_prior[0])))
    score = np.tile(log_prior, (len(matrix), 1))
    for column, table in zip(matrix.T, log_likelihood):
        score += table.take(column.astype(np.intp) + 1, axis=0)
    return softmax(score)


def refitted(model: Any, votes: Votes, balance: Sequence[float] | np.ndarray | None = None) -> Any:
    """A copy of a label model, fitted on votes; `balance` takes the place of its class balance."""
    if not votes.n_sources:
        raise NotIdentifiable("no source is switched on; add a labeling function")
    made = clone(model)
    if balance is not None:
        made.class_balance = list(balance)
    made.fit(votes)
    return made


def balance_used(model: LabelModel | None) -> np.ndarray | None:
    """The class balance a fitted label model uses; None where it has none of its own."""
    return model.class_balance_ if isinstance(model, BalancedModel) else None


def learned_accuracy(model: LabelModel | None) -> np.ndarray | None:
    """What a fitted label model learned of each source, NaN where it could not tell; None for nothing."""
    return model.learned_accuracy() if isinstance(model, AdditiveModel) else None


def balance_of(split: Split) -> np.ndarray:
    """Class frequencies of a split's true labels, with one pseudo-row per class.

    Rows that are known not to have been drawn at random say nothing about frequencies and are left out.
    """
    known = split.truth[split.representative]
    if not len(known):
        raise LabelError("class balance from a split needs true labels in it, got none; give y")
    return counted_shares(known, len(split.classes), pseudo=len(split.classes))


def known_labels(split: Split) -> np.ndarray:
    """A split's true labels as indices, or an error if it has none."""
    if split.y is None or not split.labelled.any():
        raise LabelError("class balance from a split needs true labels in it, got none; give y")
    return split.y


def resolve_balance(balance: ClassBalance, n_classes: int, who: str) -> np.ndarray:
    """A given class balance as checked probabilities; None is uniform, a Split is counted."""
    if balance is None:
        return np.full(n_classes, 1 / n_classes)
    if isinstance(balance, Split):
        return balance_of(balance)
    return checked_shares(balance, n_classes, who)


def check_speaks(votes: Votes, who: str) -> None:
    """Refuse votes from which nothing can be learned."""
    if not votes.n_rows:
        raise NotIdentifiable(f"{who} got votes without rows; there is nothing to learn from")
    if (votes.matrix == ABSTAIN).all():
        raise NotIdentifiable(
            f"every row abstains: none of the {votes.n_sources} sources votes on any of "
            f"{votes.n_rows} rows; check the labeling functions"
        )
