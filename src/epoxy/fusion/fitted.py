"""The fitted default model: what each part says of rows, and the sum of it.

    logit(x) = s · (log π + lean + votes(x) + vectors(x) + neighbours(x) + labels(x))

    votes       (1 + Δ₁) v(x)                       what functions say, own and lent; see `tally`
    vectors     (1 + Δ₂) a · line(x)                ridge regression of T on features, over all train rows
    neighbours  (1 + Δ₂) 0.7 b · around(x)          mean T of the train rows around it; see `around`
    labels      b + θᵀψ(x) + (w + Δ₃) likest(x)     what hand labels correct; see `correction`

a and b are slopes of T on what vectors foretell of rows left out, within 0 and 1: vectors that tell nothing
are not heard, and what the triplet model reads off how sources agree is added to v then. s is 0.9 on rows
with votes and 1.35 on others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..loans import Loans
from ..mapped import blocks
from ..numerics import softmax
from ..votes import ABSTAIN
from .around import Lists, Thought, against
from .constants import (
    AGREEMENT,
    AROUND,
    LIKEST_WEIGHT,
    LOUD_FEATURES,
    LOUD_VOTES,
    SCALES,
)
from .decision import Rule
from .likest import Likest, asked_of, units_of
from .tally import Balance, added_up, counted, evidence
from .view import View, read

PARTS = ("votes", "vectors", "neighbours", "labels")
"""The parts of the model, in this order."""

AT_ONCE = 1 << 16
"""Rows about which is said what votes say, and what all parts together do, at a time."""


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Some rows as the model sees them; votes (n_sources, n_rows) of sources that are no copies."""

    own: np.ndarray
    votes: np.ndarray  # these, and those that are lent within each source's radius
    loans: tuple[Loans, ...] = ()  # of each source, who could lend
    features: Any = None  # (n_rows, n_features); None without vectors
    lists: Lists | None = None
    likest: Likest | None = None

    def __len__(self) -> int:
        return int(self.own.shape[1])

    @property
    def lent(self) -> np.ndarray:
        """The votes that are lent, −1 elsewhere."""
        return np.where(self.own == ABSTAIN, self.votes, ABSTAIN)

    def take(self, rows: np.ndarray | slice) -> SeenRows:
        """A selection of rows."""
        return SeenRows(
            np.ascontiguousarray(self.own[:, rows]),
            np.ascontiguousarray(self.votes[:, rows]),
            tuple(each.rows(rows) for each in self.loans),
            None if self.features is None else np.asarray(self.features[rows]),
            None if self.lists is None else self.lists.take(rows),
            None if self.likest is None else self.likest.take(rows),
        )


@dataclass(frozen=True, eq=False)
class Sight:
    """What votes taught about vectors."""

    view: View
    weights: np.ndarray  # (n_features, n_classes) float32, the line
    base: np.ndarray  # (n_classes,) mean T of train rows
    thought: Thought  # of the train nodes
    line: float  # a
    around: float  # b


@dataclass(frozen=True, eq=False)
class Corrected:
    """What the hand labels taught."""

    y: np.ndarray  # (m,)
    places: tuple[tuple[int, int], ...]  # (m) number of the split, and row in it
    votes: np.ndarray  # (m, n_classes · n_sources) of ψ, not yet loud
    features: np.ndarray | None  # (m, n_features) float32; None where vectors are not heard
    dual: np.ndarray  # (m, n_classes)
    moved: Mapping[str, float]  # Δ; "likest" only where they are asked
    bias: np.ndarray  # (n_classes,)
    of_features: np.ndarray | None  # (n_features, n_classes) float32
    of_votes: np.ndarray  # (n_classes · n_sources, n_classes)

    @property
    def asks(self) -> bool:
        """Whether the likest labelled rows are asked."""
        return "likest" in self.moved

    def likest(self, features: Any) -> Likest:
        """The likest labelled rows of rows with these features."""
        assert self.features is not None
        return Likest.of(features, units_of(self.features), asked_of(self.places))


@dataclass(frozen=True, eq=False)
class Fitted:
    """Everything that was learned."""

    balance: Balance
    columns: np.ndarray  # sources that are no copies of others
    heard: np.ndarray  # (n_columns,) bool
    support: np.ndarray | None  # (n_columns,) what the others say of each; None without vectors
    radii: np.ndarray  # (n_columns,) how far each lends; NaN: not at all
    by_rule: np.ndarray  # (n_columns,) bool: the radius is the model's own choice
    sight: Sight | None  # None without vectors
    likelihood: (
        np.ndarray | None
    )  # of each vote, (n_columns, 1 + K, K): speaks where vectors do not tell
    lean: np.ndarray  # (n_classes,) on rows about which anything is known
    corrected: Corrected | None = None
    rule: Rule = field(default_factory=Rule)

    @property
    def prior(self) -> np.ndarray:
        """π; (n_classes,)."""
        return self.balance.shares

    def unheard(self, names: Sequence[str]) -> dict[str, float]:
        """Sources that are not heard, of all `names`, and the support of each."""
        if self.support is None:
            return {}
        each = np.flatnonzero(~self.heard)
        return {names[self.columns[at]]: float(self.support[at]) for at in each}

    def weight(self, part: str) -> float:
        """1 + Δ of a part."""
        return 1.0 if self.corrected is None else 1 + self.corrected.moved.get(part, 0.0)

    # what depends on no hand label

    def of_votes(self, rows: SeenRows) -> np.ndarray:
        """v, and where vectors do not tell what sources say by agreeing; (n_rows, n_classes)."""
        found = np.empty((len(rows), len(self.prior)))
        for part in blocks(len(rows), AT_ONCE):
            votes = rows.votes[self.heard, part]
            found[part] = evidence(counted(votes, len(self.prior)), self.prior)
            if self.likelihood is not None:
                tables = AGREEMENT * (self.likelihood - self.likelihood.mean(axis=2, keepdims=True))
                found[part] += tables[:, 0].sum(axis=0)  # what silence says
                found[part] += added_up(votes, tables[:, 1:] - tables[:, :1])
        return found

    def of_line(self, features: Any) -> np.ndarray:
        """a · line(x)."""
        assert self.sight is not None
        return self.sight.line * against(
            read(features, self.sight.weights).astype(np.float64) + self.sight.base, self.sight.base
        )

    def of_around(self, lists: Lists) -> np.ndarray:
        """0.7 b · around(x)."""
        assert self.sight is not None
        share = lists.mean(self.sight.thought) + self.sight.thought.base
        return AROUND * self.sight.around * lists.by_row(against(share, self.sight.thought.base))

    def before(self, rows: SeenRows) -> dict[str, np.ndarray]:
        """What the parts say without labels, in log-odds of mean zero; (n_rows, n_classes) each."""
        found = {"votes": self.of_votes(rows)}
        if self.sight is not None and rows.features is not None and rows.lists is not None:
            lists = _used(rows.lists)
            found["vectors"] = self.of_line(rows.features)
            found["neighbours"] = self.of_around(lists)
        return found

    # the sum

    def spread(self, rows: SeenRows) -> np.ndarray:
        """Own votes as entries of ψ: one-hot, class by class."""
        return np.hstack([1.0 * (rows.own == label).T for label in range(len(self.prior))])

    def of_labels(self, rows: SeenRows) -> np.ndarray:
        """What hand labels correct; (n_rows, n_classes)."""
        found, taught = np.zeros((len(rows), len(self.prior))), self.corrected
        if taught is None:
            return found
        found += taught.bias
        tables = taught.of_votes.reshape(len(self.prior), -1, len(self.prior))
        found += added_up(rows.own, LOUD_VOTES * tables.transpose(1, 0, 2))
        if taught.of_features is not None and rows.features is not None:
            found += read(rows.features, LOUD_FEATURES * taught.of_features)
        if taught.asks and rows.likest is not None:
            heavy = LIKEST_WEIGHT + taught.moved["likest"]
            found += heavy * rows.likest.evidence(taught.y, self.prior)
        return found

    def parts(
        self, rows: SeenRows, before: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """What each part adds to the log-odds before the sum is scaled; (n_rows, n_classes) each."""
        said = dict(self.before(rows) if before is None else before)
        for name, each in said.items():
            weight = self.weight("votes" if name == "votes" else "vectors")
            said[name] = each if weight == 1 else weight * each
        if self.corrected is not None:
            said["labels"] = self.of_labels(rows)
        return said

    def start(self, rows: SeenRows, said: Mapping[str, np.ndarray]) -> np.ndarray:
        """log π, and the lean where anything is known; (n_rows, n_classes)."""
        return np.asarray(np.log(self.prior) + self.known(rows, said)[:, None] * self.lean)

    def known(self, rows: SeenRows, said: Mapping[str, np.ndarray]) -> np.ndarray:
        """Rows about which anything is known without labels; (n_rows,) bool."""
        found = self.voted(rows)
        if "vectors" in said:
            found = found | said["vectors"].any(axis=1)
        return np.asarray(found)

    def voted(self, rows: SeenRows) -> np.ndarray:
        """Rows on which a source that is heard votes; (n_rows,) bool."""
        return np.asarray((rows.own[self.heard] != ABSTAIN).any(axis=0))

    def scale(self, rows: SeenRows) -> np.ndarray:
        """s; (n_rows,)."""
        blind = self.sight is None or self.likelihood is not None
        return np.where(self.voted(rows), SCALES[1], 1.0 if blind else SCALES[0])

    def summed(self, rows: SeenRows, said: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logits from what the parts say; (n_rows, n_classes)."""
        found = self.start(rows, said)
        for each in said.values():
            found += each
        found *= self.scale(rows)[:, None]
        return found

    def probabilities(self, rows: SeenRows) -> np.ndarray:
        """Class probabilities; (n_rows, n_classes)."""
        return softmax(self.summed(rows, self.parts(rows)))

    def rows(
        self,
        own: np.ndarray,
        loans: Sequence[Loans],
        features: Any = None,
        lists: Lists | None = None,
        likest: Likest | None = None,
    ) -> SeenRows:
        """Rows with these votes, and with what is lent to them within each radius."""
        votes = own.copy()
        for at, each in enumerate(loans):
            if np.isnan(self.radii[at]):
                continue
            borrows = each.lent(self.radii[at])
            if self.by_rule[at]:
                borrows &= each.distance > 0  # there the source looked, and was silent
            votes[at, borrows] = each.vote[borrows]
        return SeenRows(own, votes, tuple(loans), features, lists, likest)


def _used(lists: Lists) -> Lists:
    """Lists of the nodes that rows lie at, where rows are few."""
    if len(lists.at) * 2 > len(lists.node):
        return lists
    nodes, at = np.unique(lists.at[lists.at >= 0], return_inverse=True)
    number = np.full(len(lists.at), -1, np.int32)
    number[lists.at >= 0] = at
    return Lists(number, lists.node[nodes])
