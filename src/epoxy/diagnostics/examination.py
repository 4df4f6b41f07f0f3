"""What the doctor looks at, measured once, and the tests that tell a finding from chance.

Every test is one-sided at 1 %, shared among the sources (Bonferroni) where each source is asked the
same question, so that a healthy set of a hundred sources stays as silent as one of five.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..extension import Extended
from ..label_models.base import LabelModel
from ..label_models.majority import MajorityVote
from ..neighbors import Space
from ..votes import Split, Votes

if TYPE_CHECKING:
    from ..model import Epoxy

__all__ = [
    "ERROR",
    "MOST_SOURCES",
    "Case",
    "Comparison",
    "Finding",
    "Likeness",
    "certainty",
    "compare",
    "evenly",
    "likeness",
    "limits",
    "names_of",
    "thinned",
]

ERROR = 0.01
"""How often one question may accuse a healthy set."""
MOST_SOURCES = 100
"""Among more, dependencies are sought only where they are likely: triplets are cubic."""
_FEWEST = 10  # rows on which two labelings differ, below which F1's spread means nothing
_SEEN = 50  # rows asked for their neighbour below which nothing is said to be absent
_ASKED, _POOL, _SHUFFLES = 500, 4000, 100  # rows asked for their neighbour, rows searched, shuffles


@dataclass(frozen=True)
class Finding:
    """Something a person should look at: a fact with its numbers, and what to do about it.

    Examples
    --------
    >>> print(Finding("never-votes", ("short",), "note", "'short' never votes.", "Remove it."))
    'short' never votes. Remove it.
    """

    kind: str
    """A short name of the kind of finding, for programs."""
    sources: tuple[str, ...]
    """The sources it is about; empty when it is about all of them."""
    severity: Literal["warning", "note"]
    """A warning costs accuracy; a note may."""
    text: str
    """One sentence of fact."""
    cure: str
    """One sentence of what to do."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain strings and lists."""
        return {**vars(self), "sources": list(self.sources)}

    def __str__(self) -> str:
        return f"{self.text} {self.cure}"


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model and a split, with everything that more than one check reads."""

    model: Epoxy
    split: Split
    traced: Extended
    positive: int | None = None
    """The class F1 is of, where labelings are compared by F1 and not by accuracy."""

    @property
    def own(self) -> Votes:
        """The train votes before extension."""
        return self.model.train_.votes

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
        return np.empty(0, dtype=np.int64) if self.split.y is None else self.split.y[self.known]

    @cached_property
    def before(self) -> Votes:
        """The votes on the known rows before extension."""
        return self.split.votes.rows(self.known)

    @cached_property
    def after(self) -> Votes:
        """The votes on the known rows after extension."""
        return self.traced.votes.rows(self.known)

    @cached_property
    def labels(self) -> np.ndarray:
        """What the model answers on the known rows."""
        return self.labels_of(self.model.label_model_, self.after)

    @cached_property
    def share(self) -> np.ndarray:
        """How frequent each class is among the true labels."""
        counts = np.bincount(self.y, minlength=self.own.n_classes)
        return np.asarray(counts / max(1, len(self.y)))

    @cached_property
    def balance(self) -> np.ndarray:
        """The class balance the label model uses, even where it knows none."""
        even = np.full(self.own.n_classes, 1 / self.own.n_classes)
        return np.asarray(getattr(self.model.label_model_, "class_balance_", even))

    def labels_of(self, model: LabelModel, votes: Votes) -> np.ndarray:
        """The most probable class of each row; ties go to the more frequent class."""
        proba = model.predict_proba(votes)
        tie = 1e-9 * self.balance if isinstance(model, MajorityVote) else 0.0
        return np.asarray((proba + tie).argmax(axis=1))


def certainty(questions: int = 1) -> float:
    """Standard errors beyond which one of so many questions is answered by chance 1 % of the time."""
    from scipy.special import ndtri

    return float(-ndtri(ERROR / max(1, questions)))


def limits(right: Any, total: Any, questions: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's lower and upper limits of shares, shared among questions; 0 and 1 for no rows."""
    z2 = certainty(questions) ** 2
    n = np.asarray(total, dtype=float)
    safe = np.maximum(n, 1.0)
    p = np.asarray(right) / safe
    scale = 1 + z2 / safe
    middle = (p + z2 / (2 * safe)) / scale
    half = np.sqrt(z2) / scale * np.sqrt(p * (1 - p) / safe + z2 / (4 * safe**2))
    seen = n > 0
    return np.where(seen, middle - half, 0.0), np.where(seen, middle + half, 1.0)


@dataclass(frozen=True)
class Comparison:
    """Two labelings of the same rows."""

    first: float
    second: float
    p_value: float
    """Probability of so large a lead of the second if both were equally good."""
    metric: str

    def second_wins(self, questions: int = 1) -> bool:
        """Whether the second is better beyond chance."""
        return self.second > self.first and self.p_value < ERROR / questions


def compare(
    first: np.ndarray, second: np.ndarray, y: np.ndarray, positive: int | None = None
) -> Comparison:
    """Is the second labeling better? Paired: McNemar's exact test, or for F1 the delta method.

    F1 = 2T/(S + P) (true positives, named, real) moves with row i by (2tᵢ − F1·(sᵢ + pᵢ))/(S + P);
    the difference of two F1 is compared with the spread of the difference of these.
    """
    from scipy.special import bdtrc, ndtr

    if positive is None:
        gained = int(((second == y) & (first != y)).sum())
        lost = int(((first == y) & (second != y)).sum())
        p_value = float(bdtrc(gained - 1, gained + lost, 0.5)) if gained else 1.0
        return Comparison(_mean(first == y), _mean(second == y), p_value, "accuracy")
    score, move = zip(*(_f1(each == positive, y == positive) for each in (first, second)))
    difference = move[1] - move[0]
    spread = float(np.sqrt(((difference - difference.mean()) ** 2).sum())) if len(y) else 0.0
    enough = ((first == positive) != (second == positive)).sum() >= _FEWEST
    p_value = float(ndtr((score[0] - score[1]) / spread)) if enough and spread > 0 else 1.0
    return Comparison(score[0], score[1], p_value, "F1")


def _f1(named: np.ndarray, real: np.ndarray) -> tuple[float, np.ndarray]:
    total = max(1, int(named.sum() + real.sum()))
    score = float(2 * (named & real).sum() / total)
    move = (2.0 * (named & real) - score * (1.0 * named + real)) / total
    return score, np.asarray(move)


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
    score = space.left[space.node[asked]] @ space.right[space.node].T
    score[np.arange(len(asked)), asked] = -np.inf
    mine, near = values[asked], values[score.argmax(axis=1)]
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


def thinned(votes: Votes, work: float = 2e9) -> Votes:
    """Fewer rows, evenly spaced, where counting all pairs of sources would take too long."""
    pairs = (votes.n_sources * votes.n_classes) ** 2
    most = max(1000, int(work / max(1, pairs)))
    return votes if votes.n_rows <= most else votes.rows(evenly(votes.n_rows, most))


def names_of(sources: Sequence[str], most: int = 5) -> str:
    """Source names in a sentence, the first few of many."""
    shown = [repr(name) for name in sources[:most]]
    if len(sources) > most:
        return ", ".join(shown) + f" and {len(sources) - most} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
