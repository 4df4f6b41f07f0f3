"""What chains and task graphs share: how sources vote, evidence per row, parameters, state.

How right sources are is the triplet model's to say, row by row. Sources it cannot answer for find
partners on neighbouring elements: M_ij is θᵢθⱼ of two votes on one row and θᵢθⱼρ of two on neighbours,
where ρ is how alike neighbouring labels are, and in M_ij·M_ik / M_jk = θᵢ², with i and j on one row and k
beside it, ρ cancels. Nothing need be known about how labels move, and of two sources k may even be
source i itself, one step on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import NotIdentifiable, ParameterError, UnknownName
from ..label_models import Triplet
from ..label_models.label_model import AdditiveModel, as_votes, check_speaks, restored, votes_for
from ..label_models.solvers import SOLVERS
from ..shares import normalised
from ..storage import Array, State, plain
from ..votes import Split, Votes
from .dependencies import Linked, barred_pairs, learn_dependencies
from .layout import Layout

_SUREST = 0.98  # θ of voters stays below it: a perfect source and a nearly perfect one agree alike
Balance = Any
"""What `class_balance` may be: shares (nested lists or an array), a `Split`, "learn", or None."""


class ElementModel(AdditiveModel):
    """Sources that vote on elements whose labels depend on each other.

    Deliberately not a `TableModel`: a row's probabilities are more than its own look-ups, and whoever
    sums a table of look-ups would silently lose the neighbours. `class_balance_` and `accuracy_` are
    averages over elements.
    """

    starts_with: ClassVar[str] = "class balance and the rows it is read together with"
    by_place_: np.ndarray
    """log Pr(vote | class), (n_places, n_sources, 1 + n_classes, n_classes); one place but for compat."""
    linked_: Linked
    """Corrections for the dependent pairs, the strongest that form a forest."""
    _stored: ClassVar[dict[str, Array]] = {
        **AdditiveModel._stored,
        "accuracy_": Array("f", "sources", low=0, high=1),
        "by_place_": Array("f", "places sources 1+classes classes", low=-np.inf),
    }
    _solvers: ClassVar[tuple[str, ...]] = tuple(SOLVERS)

    # set by the constructors of the subclasses
    class_balance: Balance
    dependencies: Any
    solve: str | None
    trust: float

    def fit(self, votes: Votes) -> Self:
        """Learn accuracies, and how labels go together unless it is given, from the votes alone."""
        votes = as_votes(votes)
        how = self._check_parameters()
        check_speaks(votes, type(self).__name__)
        layout = self._layout(votes)
        self.sources_, self.classes_, self.findings_ = votes.sources, votes.classes, []
        self._fit(votes, layout, self._barred(votes), how)
        return self

    @abstractmethod
    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""

    @abstractmethod
    def _layout(self, votes: Votes) -> Layout:
        """Which rows belong together."""

    @abstractmethod
    def _fit(self, votes: Votes, layout: Layout, barred: np.ndarray, how: str) -> None:
        """Learn from votes in this layout; barred pairs (m, m) share no triplet on one row."""

    def predict(self, votes: Votes) -> np.ndarray:
        """Return the most probable class of each row, by name; ties go to the class listed first."""
        return np.asarray(np.asarray(self.classes_)[self.predict_proba(votes).argmax(axis=1)])

    def contributions(self, votes: Votes) -> np.ndarray:
        """What each source adds to each class's log probability; (n_rows, n_sources, n_classes).

        A dependent pair's correction is shared evenly by the two.
        """
        votes = self._check(votes)
        place = self._places(self._layout(votes))
        said = votes.matrix.astype(np.intp) + 1
        # a table of the reference may hold exact zeros; centred, minus infinity would swallow all
        table = np.maximum(self.by_place_, -700.0)
        found = table[place[:, None], np.arange(votes.n_sources), said]
        halves = self.linked_.evidence(votes.matrix) / 2
        for index, pair in enumerate(self.linked_.pairs):
            found[:, pair] += halves[:, [index]]
        found -= found.mean(axis=2, keepdims=True)
        return np.asarray(found * self.trust)

    def context(self, votes: Votes) -> np.ndarray:
        """What the prior and the neighbouring elements add to each class; (n_rows, n_classes).

        Together with the sum of `contributions` over sources it is the log probability, up to a
        constant per row.
        """
        with np.errstate(divide="ignore"):
            total = np.log(self.predict_proba(votes))
        total = total - self.contributions(votes).sum(axis=1)
        return np.asarray(total - total.mean(axis=1, keepdims=True))

    def row_evidence(self, votes: Votes, at: int) -> tuple[np.ndarray, np.ndarray]:
        """What each source adds on one row, and what the row starts with: more than the class balance."""
        return self.contributions(votes)[at], self.context(votes)[at]

    def _places(self, layout: Layout) -> np.ndarray:
        """Which table each row is read by; (n_rows,)."""
        return np.zeros_like(layout.position) if len(self.by_place_) == 1 else layout.position

    def _row_evidence(self, matrix: np.ndarray, place: np.ndarray) -> np.ndarray:
        """log Pr(votes of a row | class); (n_rows, n_classes)."""
        n_states, n_classes = self.by_place_.shape[2:]
        total = np.zeros((len(matrix), n_classes))
        for source, column in enumerate(matrix.T):
            table = self.by_place_[:, source].reshape(-1, n_classes)
            total += table.take(place * n_states + column + 1, axis=0)
        if len(self.linked_.pairs):
            total += self.linked_.evidence(matrix).sum(axis=1)
        return np.asarray(self.trust * total)

    def _tables(
        self,
        votes: Votes,
        neighbours: tuple[np.ndarray, np.ndarray],
        how: str,
        barred: np.ndarray,
        share: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pr(vote | class), (n_sources, 1 + n_classes, n_classes), and class shares."""
        pairs = np.argwhere(np.triu(barred, 1))
        names = np.asarray(votes.sources)
        balance: Any = "learn" if share is None else share
        alone = Triplet(balance, solve=how, dependencies=names[pairs])
        try:
            alone.fit(votes)
        except NotIdentifiable:
            if not len(neighbours[0]):
                raise
            alone = _with_neighbours(votes, neighbours, balance, how, pairs)
        else:
            lost = ~alone.identified_ & votes.cast.any(axis=0)
            if lost.any() and len(neighbours[0]):
                more = _with_neighbours(votes, neighbours, balance, how, pairs)
                alone.log_likelihood_[lost] = more.log_likelihood_[: votes.n_sources][lost]
                told = names[lost].tolist()
                alone.findings_ = [
                    f"sources known by the rows beside theirs, if at all: {told[:8]}"
                ]
        self.findings_ += alone.findings_
        tables = np.exp(alone.log_likelihood_[: votes.n_sources])
        voting = ((votes.cast.sum(axis=0) + 0.5) / (votes.n_rows + 1))[:, None, None]
        said = tables[:, 1:] / np.maximum(tables[:, 1:].sum(axis=1, keepdims=True), 1e-300)
        least = (1 - _SUREST) / votes.n_classes
        said = said.clip(least, 1 - (votes.n_classes - 1) * least)
        silent = np.broadcast_to(1 - voting, (len(said), 1, votes.n_classes))
        # a source that names every class is silent whatever the class
        proper = np.concatenate([silent, voting * said], axis=1)
        detects = (tables[:, 0] < 1).any(axis=1)[:, None, None]
        return np.where(detects, tables, proper), alone.class_balance_

    def _keep(
        self, table: np.ndarray, share: np.ndarray, same: np.ndarray, barred: np.ndarray
    ) -> None:
        """Keep what was learned: Pr(vote | class), and how votes meet on one row."""
        self.class_balance_ = share
        self.linked_ = Linked.of(barred, same, table, share)
        joint = table[:, 1:] * share
        right, total = np.einsum("skk->s", joint), joint.sum(axis=(1, 2))
        chance = np.full_like(right, 1 / len(share))
        self.accuracy_ = np.asarray(np.divide(right, total, out=chance, where=total > 0))
        self.by_place_ = np.log(np.maximum(table, 1e-300))[None]

    def _given_shares(self, n_classes: int) -> np.ndarray | None:
        """Class shares where the balance is left open; None where they are to be learned."""
        if self.class_balance is None:
            return np.full(n_classes, 1 / n_classes)
        if self.class_balance != "learn":
            raise UnknownName.of("class balance", self.class_balance, ["learn"])
        return None

    def _check_parameters(self) -> str:
        """Refuse parameters out of range; return how triplets are combined."""
        if not isinstance(self.trust, float | int | np.number) or not 0 < self.trust < np.inf:
            raise ParameterError(
                f"{type(self).__name__} got trust={self.trust!r}; expected a number above 0"
            )
        how = self.solve or "median"  # one bad triplet cannot move it
        if how not in self._solvers:
            raise UnknownName.of("solve", how, self._solvers)
        return how

    def _barred(self, votes: Votes) -> np.ndarray:
        """Pairs that depend on each other, given or learned."""
        pairs: Iterable[tuple[str, str]] = self.dependencies
        if isinstance(self.dependencies, str):
            if self.dependencies != "learn":
                raise UnknownName.of("dependencies", self.dependencies, ["learn"])
            pairs = learn_dependencies(votes)
        barred = barred_pairs(pairs, votes.sources)
        self.dependencies_ = tuple(
            (votes.sources[a], votes.sources[b]) for a, b in np.argwhere(np.triu(barred, 1))
        )
        return barred

    def _check(self, votes: Votes) -> Votes:
        return votes_for(self, votes, "by_place_")

    def to_state(self) -> State:
        """Everything a fitted model is, as plain values and arrays."""
        state = super().to_state()
        linked = {"linked_pairs": self.linked_.pairs, "linked_terms": self.linked_.terms}
        return State(state.values, state.arrays | linked)

    @classmethod
    def _restored(
        cls, state: State, *given: Any, values: dict[str, Any], arrays: dict[str, Array]
    ) -> Self:
        """A model with all that chains and task graphs share; `values` and `arrays` are its own."""
        model, sizes = restored(cls, state, *given, more=values)
        linked = {
            "linked_pairs": Array("iu", "linked 2", low=0, high=sizes["sources"] - 1),
            "linked_terms": Array("f", "linked 1+classes 1+classes classes"),
        }
        found = state.read_arrays({**cls._stored, **linked, **arrays}, **sizes)
        model._check_parameters()
        for name in cls._stored:
            setattr(model, name, found[name])
        model.linked_ = Linked(found["linked_pairs"], found["linked_terms"])
        checked: Self = model
        return checked

    def _params(self) -> dict[str, Any]:
        """Constructor parameters as JSON can hold them; what was counted on a split is not kept."""
        params = self.get_params(deep=False)
        if isinstance(self.class_balance, Split):
            params["class_balance"] = None
        if not isinstance(self.dependencies, str):
            params["dependencies"] = list(self.dependencies)
        found: dict[str, Any] = plain(params)
        return found


def _with_neighbours(
    votes: Votes,
    neighbours: tuple[np.ndarray, np.ndarray],
    balance: Any,
    how: str,
    pairs: np.ndarray,
) -> Triplet:
    """The triplet model of every row beside a neighbour of it; the row's own sources come first."""
    m, (before, after) = votes.n_sources, neighbours
    here, there = np.r_[before, after], np.r_[after, before]
    names = np.r_[votes.sources, [f"{name}, beside" for name in votes.sources]]
    # two votes beside the row share ρ² with it; and a source's own mistakes persist
    apart = [*pairs, *(pair + m for pair in np.argwhere(np.triu(np.ones((m, m)), 1)))]
    apart += [np.array([at, at + m]) for at in range(m) if m > 2]
    wide = Votes(np.hstack([votes.matrix[here], votes.matrix[there]]), names, votes.classes)
    return Triplet(balance, solve=how, dependencies=[tuple(names[each]) for each in apart]).fit(
        wide
    )


def as_shares(given: Any, who: str) -> np.ndarray:
    """What was given as a class balance, as numbers."""
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{who} got the class_balance {given!r:.60}; give shares that sum to 1, a Split with true "
            'labels, or "learn"'
        ) from None


def check_shares(shares: np.ndarray, who: str) -> np.ndarray:
    """Shares of classes or of tuples of labels, normalised; transitions are no shares."""
    if shares.ndim == 2 and len(shares) > 1 and np.allclose(shares.sum(axis=1), 1, atol=1e-3):
        raise ParameterError(
            f"{who} got a class_balance that sums to {shares.sum():g}; of transition probabilities give "
            "the shares of two neighbouring labels: each row times the share of its label"
        )
    return normalised(shares, who)
