"""What the doctor looks at, measured once, and the tests that tell a finding from chance.

Every test is one-sided at 1 %, shared among the sources (Bonferroni) where each source is asked the
same question, so that a healthy set of a hundred sources stays as silent as one of five.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..label_models.label_model import LabelModel
from ..neighbors import Space
from ..neighbors.knn import nearest_rows
from ..numerics import wilson
from ..scoring import precision_recall_f1
from ..votes import ABSTAIN, Split, Votes

ERROR = 0.01
"""How often one question may accuse a healthy set."""
MOST_SOURCES = 100
"""Among more, dependencies are sought only where they are likely: triplets are cubic."""
_FEWEST = 10  # rows on which two labelings differ, below which F1's spread means nothing
_SEEN = 50  # rows asked for their neighbour below which nothing is said to be absent
_ASKED, _POOL, _SHUFFLES = 500, 4000, 100  # rows asked for their neighbour, rows searched, shuffles


@dataclass(frozen=True, eq=False)
class Case:
    """What a model made of some votes, as plain values that any model can give.

    Checks that look inside a label model run where `label_model` is of a kind they know; what is left
    out is not asked about.
    """

    model: str
    """What the model is called in a sentence."""
    train: Split
    """The train rows, with the sources' own votes."""
    extended_train: Votes
    split: Split
    """The rows looked at, with own votes and true labels; the very `train` where they are the same."""
    extended: Votes
    labels: np.ndarray
    """What the model says of the labelled rows of `split`, by a fit that did not learn from the row;
    −1 where there is none; (n_labelled,)."""
    label_model: LabelModel | None = None
    """Fitted on `extended_train`."""
    balance: np.ndarray | None = None
    """The class balance the model uses."""
    distance: np.ndarray | None = None
    """How far away the row is that lent each vote of `extended`; (n_rows, n_sources)."""
    metric: str = "cosine"
    positive: int | None = None
    """The class F1 is of, where labelings are compared by F1 and not by accuracy."""
    unheard: Mapping[str, float] = field(default_factory=dict)
    """Sources that the model does not hear, because vectors contradict them, with their support."""
    defended: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Those of them that hand labels prove right: right votes and all votes on labelled rows."""

    @property
    def own(self) -> Votes:
        """The train votes before extension."""
        return self.train.votes

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources."""
        return self.own.sources

    @cached_property
    def known(self) -> np.ndarray:
        """Row numbers of the split whose true label is known."""
        return np.flatnonzero(self.split.labelled)

    @cached_property
    def y(self) -> np.ndarray:
        """The true labels of the known rows."""
        return np.asarray(self.split.truth[self.known])

    @cached_property
    def drawn(self) -> np.ndarray:
        """Which of the known rows were drawn at random, as far as is known; (n_known,) bool."""
        return np.asarray(self.split.representative[self.known])

    @cached_property
    def judged(self) -> np.ndarray:
        """Which of the known rows the model can be judged by; (n_known,) bool."""
        return np.asarray(self.drawn & (self.labels != ABSTAIN))

    @cached_property
    def before(self) -> Votes:
        """The votes on the known rows before extension."""
        return self.split.votes.rows(self.known)

    @cached_property
    def after(self) -> Votes:
        """The votes on the known rows after extension."""
        return self.extended.rows(self.known)

    @cached_property
    def share(self) -> np.ndarray:
        """How frequent each class is among the true labels."""
        counts = np.bincount(self.y, minlength=self.own.n_classes)
        return np.asarray(counts / max(1, len(self.y)))

    @cached_property
    def counts(self) -> np.ndarray:
        """How often each class occurs among true labels of rows drawn at random."""
        return np.bincount(self.y[self.drawn], minlength=self.own.n_classes)

    @cached_property
    def prior(self) -> np.ndarray:
        """The class balance the model uses, even shares where it has none."""
        even = np.full(self.own.n_classes, 1 / self.own.n_classes)
        return even if self.balance is None else self.balance

    def labels_of(self, model: LabelModel, votes: Votes) -> np.ndarray:
        """The most probable class of each row."""
        return np.asarray(model.predict_proba(votes).argmax(axis=1))

    def against(self, labels: np.ndarray, where: np.ndarray | None = None) -> PairedTest:
        """Whether another labeling of the known rows is better than the model's."""
        rows = self.judged if where is None else self.judged & where
        return compare(self.labels[rows], labels[rows], self.y[rows], self.positive)


def certainty(questions: int = 1) -> float:
    """Standard errors beyond which one of so many questions is answered by chance 1 % of the time."""
    from scipy.special import ndtri

    return float(-ndtri(ERROR / max(1, questions)))


def limits(right: Any, total: Any, questions: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's lower and upper limits of shares, shared among questions; 0 and 1 for no rows."""
    return wilson(np.asarray(right) / np.maximum(total, 1), total, certainty(questions))


@dataclass(frozen=True)
class PairedTest:
    """Two labelings of the same rows."""

    first: float
    second: float
    p_value: float
    """Probability of so large a lead of the second if both were equally good."""
    scoring: str

    def second_wins(self, questions: int = 1) -> bool:
        """Whether the second is better beyond chance."""
        return self.second > self.first and self.p_value < ERROR / questions


def compare(
    first: np.ndarray, second: np.ndarray, y: np.ndarray, positive: int | None = None
) -> PairedTest:
    """Is the second labeling better? Paired: McNemar's exact test, or for F1 the delta method.

    F1 = 2T/(S + P) (true positives, named, real) moves with row i by (2tᵢ − F1·(sᵢ + pᵢ))/(S + P);
    the difference of two F1 is compared with the spread of the difference of these.
    """
    from scipy.special import bdtrc, ndtr

    if positive is None:
        gained = int(((second == y) & (first != y)).sum())
        lost = int(((first == y) & (second != y)).sum())
        p_value = float(bdtrc(gained - 1, gained + lost, 0.5)) if gained else 1.0
        return PairedTest(_mean(first == y), _mean(second == y), p_value, "accuracy")
    score, move = zip(*(_f1(each == positive, y == positive) for each in (first, second)))
    difference = move[1] - move[0]
    spread = float(np.sqrt(((difference - difference.mean()) ** 2).sum())) if len(y) else 0.0
    enough = ((first == positive) != (second == positive)).sum() >= _FEWEST
    p_value = float(ndtr((score[0] - score[1]) / spread)) if enough and spread > 0 else 1.0
    return PairedTest(score[0], score[1], p_value, "F1")


def _f1(named: np.ndarray, real: np.ndarray) -> tuple[float, np.ndarray]:
    score = precision_recall_f1(named, real, 1, 2)[2]
    move = 2.0 * (named & real) - score * (1.0 * named + real)
    return score, np.asarray(move / max(1, int(named.sum() + real.sum())))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


@dataclass(frozen=True)
class Likeness:
    """How much more alike nearest neighbours are than rows at random: 0 not at all, 1 entirely."""

    kappa: float
    spread: float
    """Standard deviation of `kappa` when neighbours are shuffled."""
    agree: float
    """Share of equal entries between neighbours."""
    chance: float
    """The same between rows at random."""
    n_rows: int

    @property
    def is_there(self) -> bool:
        """Whether neighbours are alike beyond chance."""
        return self.kappa > certainty() * self.spread

    @property
    def is_absent(self) -> bool:
        """Whether enough was seen to say that neighbours are no more alike than chance."""
        seen = self.n_rows >= _SEEN and self.kappa + certainty() * self.spread < 0.25
        return seen and not self.is_there


def likeness(vectors: np.ndarray, values: np.ndarray, metric: str) -> Likeness | None:
    """Cohen's kappa between each row and its nearest other row, pooled over columns.

    Agreement in excess of chance over what chance leaves, with the spread of 100 shuffles of who is
    whose neighbour. At most 500 rows ask and 4,000 are searched, evenly spaced. None where the
    columns never change, so that there is nothing to be alike in.
    """
    pool = evenly(len(values), _POOL)
    if len(pool) < 2:
        return None
    space, values = Space(vectors[pool], metric), values[pool]
    asked = evenly(len(pool), _ASKED)
    points = space.points[space.node]
    found = nearest_rows(points[asked], points, 2, metric=metric)[0]
    itself = found[:, 0] == asked
    mine, near = values[asked], values[np.where(itself, found[:, 1], found[:, 0])]
    rng = np.random.default_rng(0)
    shuffled = [(mine == rng.permutation(near)).mean() for _ in range(_SHUFFLES)]
    # not from frequencies over all rows: a few hubs are the neighbour of many
    chance = float(np.mean(shuffled))
    if chance > 1 - 1e-9:
        return None
    agree = float((mine == near).mean())
    spread = float(np.std(shuffled)) / (1 - chance)
    return Likeness((agree - chance) / (1 - chance), spread, agree, chance, len(asked))


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many row numbers, evenly spaced."""
    return np.unique(np.linspace(0, max(0, count - 1), min(count, most)).astype(np.intp))


def thinned(votes: Votes) -> Votes:
    """Fewer rows, evenly spaced, where counting all pairs of sources would take too long."""
    pairs = (votes.n_sources * votes.n_classes) ** 2
    most = max(1000, int(2e9 / max(1, pairs)))
    return votes if votes.n_rows <= most else votes.rows(evenly(votes.n_rows, most))


def names_of(sources: Sequence[str], most: int = 5) -> str:
    """Source names in a sentence, the first few of many."""
    shown = [repr(name) for name in sources[:most]]
    if len(sources) > most:
        return ", ".join(shown) + f" and {len(sources) - most} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
