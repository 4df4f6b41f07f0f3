"""A label model for rows in order: video frames, sentences of a page, readings of a sensor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..errors import NotIdentifiable, ParameterError
from ..label_models.base import known_labels
from ..persistence import State
from ..schema import Array
from ..votes import ABSTAIN, Split, Votes
from .balance import (
    joint_balance,
    learn_pairs,
    learn_share,
    pair_balance,
    rake,
    stationary_chain,
)
from .counts import vote_counts
from .em import refine
from .estimate import Meetings, estimate_tables
from .forward_backward import ChainPrior, smooth, viterbi
from .junction import marginal
from .layout import Layout, layout_of
from .model import Balance, SequenceModel, alike, as_shares, check_shares
from .triplets import SOLVE

_MAX_JOINT = 1 << 22
_STORED = {
    "first": Array("f", "classes", low=0, high=1, shares=1),
    "pairs": Array("f", "steps classes classes", low=0, high=1, shares=2),
}


class Chain(SequenceModel):
    """Labels of neighbouring rows depend on each other; inference is exact and linear in length.

    Within a sequence labels form a Markov chain, and every source votes on its own row only:

        Pr(Y, λ) = Pr(Y^1) · Π_t Pr(Y^{t+1} | Y^t) · Π_t Π_i Pr(λ_i^t | Y^t)

    which is the paper's model over the cliques of a chain. Accuracies come from triplets in which
    neighbouring rows serve as partners (see `triplets`), how labels move from the votes on
    neighbouring rows, and probabilities from forward-backward.

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
    tied
        Whether a source is equally accurate at every position of a sequence.
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

    def __init__(
        self,
        length: int | None = None,
        *,
        class_balance: Balance = None,
        tied: bool = True,
        dependencies: Any = (),
        solve: str | None = None,
        trust: float = 1.0,
        compat: str | None = None,
    ) -> None:
        self.length = length
        self.class_balance = class_balance
        self.tied = tied
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
        values = state.values | {"stationary": self.stationary_}
        return State(values, state.arrays | {"first": self.first_, "pairs": self.pairs_})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The chain that `to_state` described."""
        model = cls._restored(state, values={"stationary": bool}, arrays=_STORED)
        model._check_parameters()
        model.first_, model.pairs_ = state.arrays["first"], state.arrays["pairs"]
        model.stationary_ = state.values["stationary"]
        return model

    def _check_parameters(self, solvers: tuple[str, ...] = (*SOLVE, "em")) -> str:
        how = super()._check_parameters(SOLVE if self.compat else solvers)
        length = self.length
        whole = isinstance(length, int | np.integer) and not isinstance(length, bool)
        if length is not None and not (whole and length >= 1):
            raise ParameterError(
                f"Chain got length={length!r}; expected a whole number of rows, at least 1"
            )
        return how

    def _layout(self, votes: Votes) -> Layout:
        return layout_of(votes, self.length)

    def _fit_paper(self, votes: Votes, layout: Layout, barred: np.ndarray, how: str) -> None:
        share, prior = self._given(votes.n_classes)
        self._check_lengths(layout, prior)
        if layout.longest == 1:
            self.findings_.append("every sequence has one row, so rows were read on their own")
        meetings = self._meetings(votes, layout, prior)
        start = "median" if how == "em" else how
        known = share if prior is None else prior.first
        tables, findings = estimate_tables(votes, meetings, how=start, barred=barred, share=known)
        self.findings_ += findings
        if share is None:
            said = np.einsum("ivjw->iv", np.sum(meetings.same, axis=0)) / votes.n_sources
            share = learn_share(said, tables.mean(axis=0))
        given = prior is not None
        prior = prior or self._learn_prior(meetings, tables, share)
        if how == "em":
            tables, prior = refine(
                votes, layout, tables, prior, fixed=given, share=self._fixed(share)
            )
        self._keep_prior(prior)
        singles = np.stack([prior.single(step) for step in range(len(prior.pairs) + 1)])
        mean = prior.first if prior.stationary else singles.mean(axis=0)
        self._keep(tables, mean, np.sum(meetings.same, axis=0), barred)

    def _keep_prior(self, prior: ChainPrior) -> None:
        self.first_, self.pairs_, self.stationary_ = prior.first, prior.pairs, prior.stationary

    def _fixed(self, share: np.ndarray) -> np.ndarray | None:
        """Class shares that learning must keep; None if it may move them."""
        return None if isinstance(self.class_balance, str) else share

    def _fit_reference(self, votes: Votes, layout: Layout, how: str) -> None:
        length, balance = self.length or layout.longest, self.class_balance
        if isinstance(balance, Split):
            joint = joint_balance(
                known_labels(balance),
                length,
                n_classes=votes.n_classes,
                sequences=balance.votes.sequences,
            )
            prior = _of_joint(joint, votes.n_classes, length)
        else:
            share, given = self._given(votes.n_classes)
            assert share is not None  # the reference learns none
            prior = given or ChainPrior.independent(share)
        singles = np.stack([prior.single(step) for step in range(length)])
        whole = layout.only_whole(length)
        everywhere = np.ones((length, votes.n_sources), dtype=bool)
        self._keep_reference(votes, whole, singles, how, everywhere)
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
            shares = pair_balance(
                known_labels(balance), n_classes=n_classes, sequences=balance.votes.sequences
            )
        else:
            shares = check_shares(as_shares(balance, "Chain"), "Chain")
        if shares.shape == (n_classes,):
            return shares, None
        if shares.shape == (n_classes, n_classes):
            prior = stationary_chain(shares)
        else:
            prior = self._from_joint(shares, n_classes)
        return prior.first, prior

    def _from_joint(self, shares: np.ndarray, n_classes: int) -> ChainPrior:
        length = self.length
        if (
            length is None
            or length * np.log(n_classes) > np.log(_MAX_JOINT)
            or (shares.size != n_classes**length)
        ):
            joint = "" if length is None else f", or {n_classes}^{length} of joint labels"
            raise ParameterError(
                f"Chain got a class_balance of shape {shares.shape}; expected {n_classes} shares of "
                f"classes, {n_classes} × {n_classes} of neighbouring labels{joint}"
            )
        return _of_joint(shares.ravel(), n_classes, length)

    def _meetings(self, votes: Votes, layout: Layout, prior: ChainPrior | None) -> Meetings:
        before, after = layout.neighbours()
        rows = np.arange(votes.n_rows)

        def count(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            return vote_counts(votes.matrix, left, right, votes.n_classes)

        if self.tied:
            next_to = ((0, 0, count(before, after)),) if len(before) else ()
            rho = np.nan if prior is None else alike(prior.pairs.mean(axis=0))
            return Meetings((count(rows, rows),), next_to, (rho,) * len(next_to))
        position = layout.position
        at = [rows[position == step] for step in range(layout.longest)]
        same = tuple(count(each, each) for each in at)
        links = tuple((step - 1, step, count(at[step] - 1, at[step])) for step in range(1, len(at)))
        if prior is None:
            return Meetings(same, links, (np.nan,) * len(links))
        moves = np.broadcast_to(prior.pairs, (len(links), *prior.pairs.shape[1:]))
        return Meetings(same, links, tuple(map(alike, moves)))

    def _learn_prior(self, meetings: Meetings, tables: np.ndarray, share: np.ndarray) -> ChainPrior:
        if not meetings.links:
            return ChainPrior.independent(share)
        fixed = self._fixed(share)
        if self.tied:
            side = np.empty(0) if fixed is None else fixed
            pairs = learn_pairs(meetings.links[0][2], (tables[0], tables[0]), side)
            return ChainPrior(pairs.sum(axis=1), pairs[None])
        found = np.stack(
            [learn_pairs(c, (tables[a], tables[b]), fixed) for a, b, c in meetings.links]
        )
        singles = _agreeing_singles(found)
        agreed = [rake(each, singles[i], singles[i + 1]) for i, each in enumerate(found)]
        return ChainPrior(singles[0], np.stack(agreed), stationary=False)

    def _check_lengths(self, layout: Layout, prior: ChainPrior | None) -> None:
        """Positions beyond those a model by position knows have no parameters."""
        steps = None if prior is None else prior.length
        if steps is not None and layout.longest > steps:
            raise ParameterError(
                f"a sequence has {layout.longest} rows, the class_balance describes {steps}; "
                "cut the sequences, or give the balance of neighbouring labels (K × K)"
            )

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
        return self._row_evidence(matrix, places), layout, rows

    def _places(self, layout: Layout) -> np.ndarray:
        places = len(self.by_place_)
        known = self.prior_.length or (places if places > 1 else None)
        if known is not None and layout.longest > known:
            raise NotIdentifiable(
                f"a sequence has {layout.longest} rows, but the chain learned {known} positions; "
                "cut the sequences, or fit with tied=True"
            )
        return super()._places(layout)


def _of_joint(joint: np.ndarray, n_classes: int, length: int) -> ChainPrior:
    table = joint.reshape((n_classes,) * length)
    if length == 1:
        return ChainPrior.independent(table)
    pairs = np.stack([marginal(table, (step, step + 1)) for step in range(length - 1)])
    return ChainPrior(marginal(table, (0,)), pairs, stationary=False)


def _agreeing_singles(pairs: np.ndarray) -> np.ndarray:
    """Shares at every position, each from the pairs on both its sides; (length, n_classes)."""
    left, right = pairs.sum(axis=2), pairs.sum(axis=1)
    inner = (left[1:] + right[:-1]) / 2
    return np.concatenate([left[:1], inner, right[-1:]])
