"""A label model for rows in order: video frames, sentences of a page, readings of a sensor."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from ..errors import NotIdentifiable, ParameterError, UnknownName
from ..label_models.label_model import known_labels
from ..label_models.solvers import SOLVERS
from ..storage import Array, State
from ..votes import ABSTAIN, Split, Votes
from .dependencies import Linked
from .element_model import Balance, ElementModel, as_shares, check_shares
from .inference import ChainPrior, log, smooth, viterbi
from .layout import Layout, layout_of
from .movement import (
    joint_balance,
    learn_pairs,
    one_hot,
    pair_balance,
    stationary_chain,
    vote_counts,
)
from .reference import reference_tables

_MAX_JOINT = 1 << 22
_ROUNDS = 50
_LONGEST = 500  # rows maximum likelihood learns from at once: a cut loses one link in so many
_WEIGHT = 2.0  # rows the starting table counts for: a source with few votes stays near its start


class Chain(ElementModel):
    """Labels of neighbouring rows depend on each other; inference is exact and linear in length.

    Within a sequence labels form a Markov chain, and every source votes on its own row only:

        Pr(Y, λ) = Pr(Y^1) · Π_t Pr(Y^{t+1} | Y^t) · Π_t Π_i Pr(λ_i^t | Y^t)

    which is the paper's model over the cliques of a chain. Accuracies come from triplets, in which
    neighbouring rows serve as partners where a row has too few (see `element_model`), how labels move
    from the votes on neighbouring rows, and probabilities from forward-backward.

    Parameters
    ----------
    length
        Rows are cut, in order, into windows of so many; the last one may be shorter. None takes all
        rows as one sequence. Votes that name their `sequences` are taken as named, whatever their
        lengths.
    class_balance
        How labels fall before any source speaks: one share per class (None: equal shares), with
        their movement learned from the votes; "learn" to learn the shares too; K × K shares of two
        neighbouring labels (`sequences.pair_balance`); K ** length shares of joint labels in
        lexicographic order (`sequences.joint_balance`); or a `Split` whose true labels are counted.
    dependencies
        Pairs of sources that err together, or "learn" to find them: they never share a triplet on
        one row, and their evidence is not counted twice.
    solve
        How triplets are combined: "median" (default), "mean" (the default of compat), "overlap"; or
        "em" to go on from the median to maximum likelihood, where a source may be good on one class
        and poor on another, and its silence may speak.
    trust
        Power the evidence of each row is raised to. Below 1 when sources err together or repeat
        their mistakes from row to row, which makes a chain overconfident; tune it on dev labels.
    compat
        "flyingsquid" follows the reference implementation's arithmetic, quirks included: two
        classes, untied parameters learned on whole windows, and equal shares of joint labels unless
        given. Windows that are shorter are completed with abstentions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(rng.integers(0, 2, 300), 10)
    >>> matrix = np.where(rng.random((3000, 3)) < 0.7, y[:, None], 1 - y[:, None])
    >>> accuracy = [
    ...     float((Chain(length).fit(matrix).predict_proba(matrix).argmax(axis=1) == y).mean())
    ...     for length in (1, 10)
    ... ]
    >>> [round(each, 2) for each in accuracy]
    [0.79, 0.99]
    """

    first_: np.ndarray
    """Pr(label of a sequence's first row); (n_classes,)."""
    pairs_: np.ndarray
    """Pr(two neighbouring labels), (1, K, K), or one per step when they differ."""
    stationary_: bool
    """Whether labels move alike at every step."""
    extra_: np.ndarray
    """What each place's class starts with beyond the prior over labels; zero but for compat."""
    _stored: ClassVar[dict[str, Array]] = {
        **ElementModel._stored,
        "first_": Array("f", "classes", low=0, high=1, shares=1),
        "pairs_": Array("f", "steps classes classes", low=0, high=1, shares=2),
        "extra_": Array("f", "places classes", low=-np.inf),
    }
    _solvers: ClassVar[tuple[str, ...]] = (*SOLVERS, "em")

    def __init__(
        self,
        length: int | None = None,
        *,
        class_balance: Balance = None,
        dependencies: Any = (),
        solve: str | None = None,
        trust: float = 1.0,
        compat: str | None = None,
    ) -> None:
        self.length = length
        self.class_balance = class_balance
        self.dependencies = dependencies
        self.solve = solve
        self.trust = trust
        self.compat = compat

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Pr(class of a row | all votes of its sequence); (n_rows, n_classes)."""
        evidence, layout, rows = self._evidence(votes)
        return np.asarray(smooth(evidence, layout, self.prior_).marginals[rows])

    def predict_joint(self, votes: Votes) -> np.ndarray:
        """The most likely labelling of each sequence as a whole, by name; (n_rows,).

        `predict` takes the most probable class row by row; together these may be a sequence that is
        itself improbable.
        """
        evidence, layout, rows = self._evidence(votes)
        best = viterbi(evidence, layout, self.prior_)[rows]
        return np.asarray(np.asarray(self.classes_)[best])

    @property
    def prior_(self) -> ChainPrior:
        """Labels before any source speaks."""
        return ChainPrior(self.first_, self.pairs_, self.stationary_)

    @property
    def transitions_(self) -> np.ndarray:
        """Pr(next label | label), averaged over positions where they differ; (K, K)."""
        mean = self.pairs_.mean(axis=0)
        return np.asarray(mean / np.maximum(mean.sum(axis=1, keepdims=True), 1e-300))

    def to_state(self) -> State:
        """Everything a fitted chain is, as plain values and arrays."""
        state = super().to_state()
        return State(state.values | {"stationary": self.stationary_}, state.arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The chain that `to_state` described."""
        model = cls._restored(state, values={"stationary": bool}, arrays={})
        model.stationary_ = state.values["stationary"]
        return model

    def _check_parameters(self) -> str:
        if self.compat not in (None, "flyingsquid"):
            raise UnknownName.of("compat", self.compat, ["flyingsquid"])
        if self.compat and self.solve == "em":
            raise UnknownName.of("solve", "em", SOLVERS)
        length = self.length
        whole = isinstance(length, int | np.integer) and not isinstance(length, bool)
        if length is not None and not (whole and length >= 1):
            raise ParameterError(
                f"Chain got length={length!r}; expected a whole number of rows, at least 1"
            )
        return super()._check_parameters()

    def _layout(self, votes: Votes) -> Layout:
        return layout_of(votes, self.length)

    def _fit(self, votes: Votes, layout: Layout, barred: np.ndarray, how: str) -> None:
        if self.compat:
            return self._fit_reference(votes, layout, bool(barred.any()))
        share, given = self._given(votes.n_classes)
        if given is not None and given.length is not None and layout.longest > given.length:
            raise ParameterError(
                f"a sequence has {layout.longest} rows, the class_balance describes {given.length}; "
                "cut the sequences, or give the balance of neighbouring labels (K × K)"
            )
        if layout.longest == 1:
            self.findings_.append("every sequence has one row, so rows were read on their own")
        rows, neighbours = np.arange(votes.n_rows), layout.neighbours()
        same = vote_counts(votes.matrix, rows, rows, votes.n_classes)
        across = vote_counts(votes.matrix, *neighbours, n_classes=votes.n_classes)
        known = share if given is None else given.first
        start = "median" if how == "em" else how
        table, known = self._tables(votes, neighbours, start, barred, known)
        share = known if share is None else share
        prior = given or self._learn_prior(across, table, share)
        if how == "em":
            fixed = None if isinstance(self.class_balance, str) else share
            table, prior = _refined(votes, layout, (table, prior), given is not None, fixed)
        self._keep_prior(prior)
        self._keep(table, prior.singles.mean(axis=0), same, barred)
        self.extra_ = np.zeros((1, votes.n_classes))
        return None

    def _keep_prior(self, prior: ChainPrior) -> None:
        self.first_, self.pairs_, self.stationary_ = prior.first, prior.pairs, prior.stationary

    def _fit_reference(self, votes: Votes, layout: Layout, dependent: bool) -> None:
        if dependent or isinstance(self.dependencies, str):
            raise ParameterError(
                "Chain got dependencies with compat='flyingsquid', which knows none between sources "
                "here; use compat=None"
            )
        length, balance = self.length or layout.longest, self.class_balance
        if isinstance(balance, Split):  # the reference counts windows, without pseudo-pairs
            in_order = balance.votes.sequences
            label = known_labels(balance)
            joint = joint_balance(label, length, n_classes=votes.n_classes, sequences=in_order)
            prior = ChainPrior.of_joint(joint.reshape((votes.n_classes,) * length))
        else:
            share, given = self._given(votes.n_classes)
            if share is None:
                raise ParameterError(
                    "compat='flyingsquid' does not learn the class balance; give it, or None"
                )
            prior = given or ChainPrior.independent(share)
        singles = np.broadcast_to(prior.singles, (length, votes.n_classes))
        whole = layout.only_whole(length)
        windows = votes.matrix[whole.starts[:, None] + np.arange(length)]
        tables = reference_tables(windows, votes.classes, singles, self.solve or "mean")
        self.by_place_, self.accuracy_ = tables[0], tables[1].mean(axis=0)
        self.class_balance_, self.extra_ = singles.mean(axis=0), log(singles)
        self.linked_ = Linked.nothing(votes.n_classes)
        self._keep_prior(prior)
        left = len(layout.starts) - len(whole.starts)
        if left:
            self.findings_.append(f"{left} sequences not of length {length} were not learned from")

    def _given(self, n_classes: int) -> tuple[np.ndarray | None, ChainPrior | None]:
        """Class shares (None: to be learned), and the whole prior where it was given."""
        balance = self.class_balance
        if balance is None or isinstance(balance, str):
            return self._given_shares(n_classes), None
        if isinstance(balance, Split):
            in_order = balance.votes.sequences
            shares = pair_balance(known_labels(balance), n_classes=n_classes, sequences=in_order)
        else:
            shares = check_shares(as_shares(balance, "Chain"), "Chain")
        if shares.shape == (n_classes,):
            return shares, None
        if shares.shape == (n_classes, n_classes):
            prior = stationary_chain(shares)
        else:
            prior = ChainPrior.of_joint(self._joint(shares, n_classes))
        return prior.first, prior

    def _joint(self, shares: np.ndarray, n_classes: int) -> np.ndarray:
        length = self.length
        small = length is not None and length * np.log(n_classes) <= np.log(_MAX_JOINT)
        if length is None or not small or shares.size != n_classes**length:
            joint = "" if length is None else f", or {n_classes}^{length} of joint labels"
            raise ParameterError(
                f"Chain got a class_balance of shape {shares.shape}; expected {n_classes} shares of "
                f"classes, {n_classes} × {n_classes} of neighbouring labels{joint}"
            )
        return shares.reshape((n_classes,) * length)

    def _learn_prior(self, across: np.ndarray, table: np.ndarray, share: np.ndarray) -> ChainPrior:
        if not across.any():
            return ChainPrior.independent(share)
        side = np.empty(0) if isinstance(self.class_balance, str) else share
        pairs = learn_pairs(across, (table, table), side)
        return ChainPrior(pairs.sum(axis=1), pairs[None])

    def _evidence(self, votes: Votes) -> tuple[np.ndarray, Layout, np.ndarray]:
        """Evidence and sequences as inference reads them, and where the given rows are among them."""
        votes = self._check(votes)
        matrix, layout, rows = votes.matrix, self._layout(votes), np.arange(votes.n_rows)
        places, length = self._places(layout), len(self.by_place_)
        if self.compat and (layout.lengths < length).any():  # completed with abstentions
            starts = np.arange(len(layout.starts)) * length
            rows = np.repeat(starts, layout.lengths) + layout.position
            matrix = np.full((len(starts) * length, votes.n_sources), ABSTAIN, np.int16)
            matrix[rows] = votes.matrix
            layout = Layout(starts, np.full(len(starts), length))
            places = layout.position
        evidence = self._row_evidence(matrix, places) + self.extra_.take(places, axis=0)
        return evidence, layout, rows

    def _places(self, layout: Layout) -> np.ndarray:
        places = len(self.by_place_)
        known = self.prior_.length or (places if places > 1 else None)
        if known is not None and layout.longest > known:
            raise NotIdentifiable(
                f"a sequence has {layout.longest} rows, but the chain learned {known} positions; "
                "cut the sequences"
            )
        return super()._places(layout)


def _refined(
    votes: Votes,
    layout: Layout,
    start: tuple[np.ndarray, ChainPrior],
    given: bool,
    share: np.ndarray | None,
) -> tuple[np.ndarray, ChainPrior]:
    """Table and prior of (locally) greatest likelihood: Baum-Welch from where triplets end.

    Triplets give every source one accuracy and silence no meaning. Here Pr(vote | class), abstaining
    included, and how labels move become the expected counts under forward-backward. A prior that was
    given stays, and so do class shares unless they are None.
    """
    table, prior = start
    if prior.stationary and layout.longest > _LONGEST:
        layout = layout.cut(_LONGEST)
    said, last = one_hot(votes.matrix, votes.n_classes), -np.inf
    for _ in range(_ROUNDS):
        known = np.log(np.maximum(table, 1e-300)).reshape(-1, votes.n_classes)
        found = smooth((said @ known).astype(np.float64), layout, prior)
        counts = (said.T @ found.marginals).reshape(table.shape) + _WEIGHT * start[0]
        table = counts / counts.sum(axis=1, keepdims=True)
        if not given and layout.longest > 1 and prior.stationary:
            prior = stationary_chain(found.pairs / found.pairs.sum(), share)
        elif not given and prior.stationary and share is None:
            prior = ChainPrior.independent(found.marginals.mean(axis=0))
        if found.log_likelihood - last < 1e-6 * votes.n_rows:
            break
        last = found.log_likelihood
    return table, prior
