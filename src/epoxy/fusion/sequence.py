"""The order of rows: what the rest of its sequence adds to a row's log-odds.

Labels of a sequence form a stationary Markov chain, and a row's probability by Fusion, divided by the
share of the class, is what its own evidence says. So the order is one more part:

    log Pr(y_t | sequence) = logit(x_t) + log Pr(rows before | y_t) + log Pr(rows after | y_t)

exactly, by forward-backward. Neighbours may repeat each other's mistakes, so their evidence is raised
to a power first, by how much of it persists beyond what labels explain (`trust_in`); a row's own never
is. A trusted hand label takes the place of its row's evidence for the other rows of the sequence; the
row's own probability stays the model's. Where neighbouring labels are independent nothing is added.

Scores stay those of models that did not learn from the row: its probability is the one held out, its
neighbours speak as the model without labels sees them, no label of its sequence is known to them, and labels
that follow each other in its sequence are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..numerics import softmax
from ..sequences.inference import ChainPrior, messages
from ..sequences.layout import Layout, layout_of
from ..sequences.movement import learn_pairs, one_hot, staying_pairs, vote_counts
from ..votes import ABSTAIN, RANDOM, Split, Votes
from ..workspace import TRAIN, Workspace
from .fitted import Fitted, SeenRows
from .unlabelled import Said
from .view import spaced

LEARNED = 30.0
"""Neighbouring hand labels that weigh as much as what the votes say of how labels follow each other."""
LOOSE = 0.1
"""Share of neighbours taken to be independent: votes that persist make labels look as if they did."""
MOST_PAIRS = 20_000
"""Neighbouring rows from which steps are learned at most, evenly apart."""
MOST_ALIKE = 0.95
FEWEST_GROUPS = 5
"""With labels in fewer sequences than this, leaving out a whole one leaves too little to learn from."""
_TINY = 0.01
_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Steps:
    """What votes, without a hand label, say of how labels follow each other."""

    share: np.ndarray  # (n_classes,)
    pairs: np.ndarray  # (n_classes, n_classes) Pr(label, next label)
    trust: float  # power to which what neighbours say is raised

    @classmethod
    def learn(cls, votes: Votes, proba: np.ndarray) -> Steps:
        """From the votes of rows in sequences, and their probabilities each on its own."""
        share = class_shares(proba)
        pairs = pairs_from_votes(votes, proba, share)
        trust = trust_in(proba, votes, share, pairs)
        loose = (1 - LOOSE) * pairs + LOOSE * np.outer(share, share)
        return cls(share, loose, trust)

    def with_counts(self, counts: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Pairs (…, K, K) once hand labels (…, K, K) are counted too, with `share` on both sides."""
        total = counts.sum(axis=(-2, -1), keepdims=True)
        return balanced((counts + LEARNED * self.pairs) / (total + LEARNED), share)


@dataclass(frozen=True, eq=False)
class LabelChain:
    """How labels follow each other, and which are known."""

    share: np.ndarray  # (n_classes,)
    pairs: (
        np.ndarray
    )  # (n_tables, n_classes, n_classes) Pr(label, next label), `share` on both sides
    trust: float
    noise: float = 0.0  # how often hand labels that are believed are wrong
    counted: int = 0  # neighbouring hand labels the pairs rest on
    given: np.ndarray | None = None  # (n_train,) hand labels that are believed, −1 elsewhere

    @property
    def transitions(self) -> np.ndarray:
        """Pr(next label | label); (n_classes, n_classes)."""
        return np.asarray(self.pairs[0] / self.pairs[0].sum(axis=1, keepdims=True))

    def added(
        self,
        proba: np.ndarray,
        layout: Layout,
        given: np.ndarray | None = None,
        table: np.ndarray | None = None,
    ) -> np.ndarray:
        """What rows before and rows after add to each row's log-odds; (2, n_rows, n_classes).

        Parameters
        ----------
        proba
            Of each row on its own; (n_rows, n_classes).
        given
            The known label of each row, −1 where there is none: it speaks to the other rows alone.
        table
            By which of `pairs` each sequence moves; the first unless told.
        """
        said = self.trust * (_log(proba) - np.log(self.share))
        if given is not None and (given != ABSTAIN).any():
            said = _with_labels(said, given, self.noise)
        prior = ChainPrior(self.share, self.pairs)
        number = np.zeros(len(layout.starts), dtype=np.int64) if table is None else table
        before, after = messages(said, layout, prior, number)
        found = np.stack([before - np.log(self.share), after])
        return np.asarray(found - found.mean(axis=2, keepdims=True))


@dataclass(frozen=True, eq=False)
class Order:
    """What the order of rows makes of the probabilities of a workspace; of every split, train first."""

    chain: LabelChain
    added: list[np.ndarray | None]  # (2, n_rows, n_classes); None for a split without sequences
    proba: list[np.ndarray]
    before: list[np.ndarray]  # logits without what hand labels taught
    held: np.ndarray  # of the labelled rows, nothing learned from labels of their sequence

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        steps: Steps,
        bare: list[np.ndarray],
        proba: list[np.ndarray],
        held: np.ndarray,
        noise: float,
    ) -> Order:
        """From probabilities of rows on their own: without hand labels (`bare`), with them, held out."""
        labels = workspace.labels
        layouts = [layout_in(split) for split in workspace.splits]
        counts = [_counted(workspace, at, layout) for at, layout in enumerate(layouts)]
        total = np.sum([each.sum(axis=0) for each in counts], axis=0)
        share = class_shares(proba[TRAIN])
        given = np.where(labels.wrong[TRAIN] == 0, labels.y[TRAIN], ABSTAIN)
        pairs = steps.with_counts(total[None], share)
        chain = LabelChain(share, pairs, steps.trust, noise, int(total.sum()), given)
        free = LabelChain(steps.share, steps.pairs[None], steps.trust)
        every = list(enumerate(layouts))
        added = [_added(chain, proba[at], each, None if at else given) for at, each in every]
        alone = [_added(free, bare[at], each) for at, each in every]
        return cls(
            chain,
            added,
            [smoothed(*each) for each in zip(proba, added)],
            [_log(smoothed(*each)) for each in zip(bare, alone)],
            held_out(workspace, held, bare, steps, counts, layouts),
        )


def steps_of(
    workspace: Workspace, base: Fitted, rows: Sequence[SeenRows], said: Sequence[Said]
) -> Steps | None:
    """What votes say of the order of train rows; None where they are in none."""
    split = workspace.splits[TRAIN]
    if split.votes.sequences is None:
        return None
    own = np.asfortranarray(rows[TRAIN].own.T)
    names = tuple(map(str, range(own.shape[1])))
    votes = Votes.of_checked(own, names, workspace.classes, split.votes.sequences)
    return Steps.learn(votes, softmax(base.summed(rows[TRAIN], said[TRAIN])))


def layout_in(split: Split) -> Layout | None:
    """Where the sequences of a split are; None for one without."""
    return None if split.votes.sequences is None else layout_of(split.votes, None)


def _added(
    chain: LabelChain, proba: np.ndarray, layout: Layout | None, given: np.ndarray | None = None
) -> np.ndarray | None:
    return None if layout is None else chain.added(proba, layout, given)


def _counted(workspace: Workspace, at: int, layout: Layout | None) -> np.ndarray:
    """Neighbouring labels of a split that are trusted and not chosen, by sequence."""
    labels, n_classes = workspace.labels, len(workspace.classes)
    if layout is None:
        return np.zeros((0, n_classes, n_classes))
    drawn = [word is None or word == RANDOM for word in labels.chosen[at].tolist()]
    y = np.where((labels.wrong[at] == 0) & np.array(drawn, bool), labels.y[at], ABSTAIN)
    return counted_pairs(y, layout, n_classes)


def held_out(
    workspace: Workspace,
    held: np.ndarray,
    bare: Sequence[np.ndarray],
    steps: Steps,
    counts: Sequence[np.ndarray],
    layouts: Sequence[Layout | None],
) -> np.ndarray:
    """Labelled rows in the order of `HandLabels.labels`, nothing learned from labels of their sequence."""
    labels = workspace.labels
    total = np.sum([each.sum(axis=0) for each in counts], axis=0)
    found, start = held.copy(), 0
    for at in labels.order:
        rows, layout = labels.rows[at], layouts[at]
        part = slice(start, start + len(rows))
        start += len(rows)
        if layout is None or not len(rows):
            continue
        own = np.unique(layout.number[rows])
        tables = steps.with_counts(total - counts[at][own], steps.share)
        chain = LabelChain(steps.share, tables, steps.trust)
        few = Layout(layout.starts[own], layout.lengths[own])
        added = chain.added(bare[at], few, table=np.arange(len(own)))
        found[part] = smoothed(held[part], added[:, rows])
    return found


def smoothed(proba: np.ndarray, added: np.ndarray | None) -> np.ndarray:
    """Probabilities with what rows before and rows after add; (n_rows, n_classes)."""
    return proba if added is None else softmax(_log(proba) + added.sum(axis=0))


def _with_labels(said: np.ndarray, given: np.ndarray, noise: float) -> np.ndarray:
    rows = np.flatnonzero(given != ABSTAIN)
    found, n_classes = said.copy(), said.shape[1]
    with np.errstate(divide="ignore"):
        right, wrong = np.log(1 - noise), np.log(noise / (n_classes - 1))
    found[rows] = np.where(np.arange(n_classes) == given[rows, None], right, wrong)
    return found


def class_shares(proba: np.ndarray) -> np.ndarray:
    """Mean probability of each class, never zero; (n_classes,)."""
    n_classes = proba.shape[1]
    return np.asarray((proba.sum(axis=0) + 1 / n_classes) / (len(proba) + 1))


def pairs_from_votes(votes: Votes, proba: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Pr(label, next label) from how votes meet on neighbouring rows; (n_classes, n_classes).

    Each source's Pr(vote | class) is counted under `proba`; see `learn_pairs`.
    """
    alone = np.outer(share, share)
    before, after = layout_of(votes, None).neighbours()
    if not len(before) or not votes.n_sources:
        return alone
    some = spaced(len(before), MOST_PAIRS)
    counts = vote_counts(votes.matrix, before[some], after[some], votes.n_classes)
    said = one_hot(votes.matrix, votes.n_classes).astype(np.float64)
    tables = said.T @ proba + said.mean(axis=0)[:, None]
    tables = tables.reshape(votes.n_sources, -1, votes.n_classes)
    tables /= tables.sum(axis=1, keepdims=True)
    start = (1 - _TINY) * staying_pairs(counts, tables, share) + _TINY * alone
    return learn_pairs(counts, (tables, tables), share, start)


def trust_in(proba: np.ndarray, votes: Votes, share: np.ndarray, pairs: np.ndarray) -> float:
    """What a row's evidence is worth to its neighbours, from 0 to 1: (1 − r) / (1 + r).

    r is how evidence given the label correlates from one row to the next, so that n rows are worth
    n·(1 − r)/(1 + r) independent ones. Means given the label are taken under `proba`, and how much of
    the correlation the labels themselves explain follows from `pairs`.
    """
    before, after = layout_of(votes, None).neighbours()
    if not len(before):
        return 1.0
    said = _log(proba) - np.log(share)
    said -= said.mean(axis=1, keepdims=True)
    mean = proba.T @ said / proba.sum(axis=0)[:, None]
    middle = share @ mean
    said, mean = said - middle, mean - middle
    within = float((said * said).sum(axis=1).mean() - share @ (mean * mean).sum(axis=1))
    shared = float(
        (said[before] * said[after]).sum(axis=1).mean() - (pairs * (mean @ mean.T)).sum()
    )
    r = float(np.clip(shared / within, 0.0, MOST_ALIKE)) if within > 1e-12 else 0.0
    return (1 - r) / (1 + r)


def counted_pairs(y: np.ndarray, layout: Layout, n_classes: int) -> np.ndarray:
    """Neighbouring known labels of each sequence; (n_sequences, n_classes, n_classes)."""
    found = np.zeros((len(layout.starts), n_classes, n_classes))
    before, after = layout.neighbours()
    known = (y[before] != ABSTAIN) & (y[after] != ABSTAIN)
    sequence = np.repeat(np.arange(len(layout.starts)), layout.lengths)[after[known]]
    np.add.at(found, (sequence, y[before[known]], y[after[known]]), 1.0)
    return found


def whole_sequences(groups: np.ndarray, together: np.ndarray) -> np.ndarray:
    """Groups of labelled rows joined until no sequence (`together`) is in two of them; (m,).

    Labels of one sequence are alike: they count as one, and are left out as one.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, two = (np.unique(each, return_inverse=True)[1] for each in (groups, together))
    if two.max(initial=-1) + 1 == len(two):
        return groups
    first = int(one.max()) + 1
    size = first + int(two.max()) + 1
    link = coo_array((np.ones(len(one)), (one, first + two)), shape=(size, size))
    count, joined = connected_components(link, directed=False)
    return groups if count < FEWEST_GROUPS else np.asarray(joined[one])


def balanced(pairs: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Tables (…, K, K) scaled until both sides have `share`; the odds of labels that follow stay."""
    for _ in range(_ROUNDS):
        pairs = pairs * (share / pairs.sum(axis=-1))[..., None]
        pairs = pairs * (share / pairs.sum(axis=-2))[..., None, :]
    return np.asarray(pairs)


def _log(proba: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(proba, 1e-300)))
