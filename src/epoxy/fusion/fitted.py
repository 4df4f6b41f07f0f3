"""A fitted fusion: everything that is needed to answer for a row, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..compiling import compiled
from ..loans import Loans
from ..numerics import softmax
from ..votes import ABSTAIN
from . import evidence as ev
from .balance import Balance
from .calibration import kinds_of
from .decision import Rule
from .features import View, for_one_pass, in_blocks
from .labelled import Labelled, Nearby
from .regions import Regions

EXPERTS = ("majority", "reach", "agreement", "pupil", "regions", "echo", "neighbours")
WEIGHTS = {
    "majority": 0.51,
    "reach": 0.425,
    "agreement": 0.35,
    "pupil": 0.34,
    "regions": 0.6,
    "echo": 0.65,
    "neighbours": 0.15,
}
"""How loud each expert is before a hand label says otherwise."""
VOTE_SCALE = 0.5
"""How loud votes are in the correction, whose ridge is 1; of features see `loudness`."""
PRIOR_VOICES = 2.0
SHARPNESS = 0.02
FEW, FEWER = 3, 256


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows as the experts see them; sources first, so that one source is one stretch of memory."""

    votes: np.ndarray  # (n_sources, n_rows); of sources that experts do not hear, none
    lent: np.ndarray  # (n_sources, n_rows) what the nearest supporting row votes
    distance: np.ndarray  # (n_sources, n_rows)
    lender: np.ndarray  # (n_sources, n_rows) the train row that lends
    features: np.ndarray | None = None  # (n_rows, n_features)
    nearby: Nearby | None = None
    regions: Regions | None = None  # where they lie; found anew where it is not known
    unheard: np.ndarray | None = None  # (n_sources, n_rows) all votes, where some are not heard

    @classmethod
    def of(
        cls,
        loans: Sequence[Loans],
        heard: np.ndarray | None,
        n_rows: int,
        features: np.ndarray | None,
        nearby: Nearby | None = None,
    ) -> Rows:
        """From the loans of each speaking source."""
        empty = np.empty((0, n_rows))
        own, vote, distance, lender = (
            np.stack([getattr(each, name) for each in loans]) if loans else empty
            for name in ("own", "vote", "distance", "lender")
        )
        return cls(own, vote, distance, lender, features, nearby).hearing(heard)

    def hearing(self, heard: np.ndarray | None) -> Rows:
        """The same where experts hear only some sources; (n_sources,) bool, None for all."""
        if heard is None or heard.all():
            return self
        votes = self.cast.copy()
        votes[~heard] = ABSTAIN
        return replace(self, votes=votes, unheard=self.cast)

    @property
    def cast(self) -> np.ndarray:
        """All votes, also of sources that experts do not hear: hand labels learn from them too."""
        return self.votes if self.unheard is None else self.unheard

    def take(self, rows: np.ndarray) -> Rows:
        """A selection of rows."""
        near = self.nearby
        if near is not None:
            near = Nearby(near.labelled, near.number[rows], near.likeness[rows])
        return Rows(
            self.votes[:, rows],
            self.lent[:, rows],
            self.distance[:, rows],
            self.lender[:, rows],
            None if self.features is None else self.features[rows],
            near,
            None if self.regions is None else self.regions.take(rows),
            None if self.unheard is None else self.unheard[:, rows],
        )

    def __len__(self) -> int:
        return int(self.votes.shape[1])


@dataclass(frozen=True, eq=False)
class Readout:
    """A ridge regression over all train rows, taught by what others think of them."""

    weights: np.ndarray  # (n_features, n_classes) float32
    base: np.ndarray  # (n_classes,) what is answered where the features say nothing

    def evidence(self, read: np.ndarray) -> np.ndarray:
        """What rows are called whose features give `read`, against the average row."""
        return ev.from_shares(read + self.base, self.base)


@dataclass(frozen=True, eq=False)
class Corrected:
    """What the hand labels taught."""

    labelled: Labelled | None  # None without vectors
    y: np.ndarray  # (m,)
    dual: np.ndarray  # (m, n_classes)
    weights: np.ndarray  # (n_experts,) as corrected
    bias: np.ndarray  # (n_classes,)
    of_features: np.ndarray | None  # (n_features, n_classes) float32
    of_votes: np.ndarray  # (n_classes · n_sources, n_classes)
    neighbours: bool = False  # whether the likest labelled rows are asked
    way: int = 0  # how loud features are in it; see `loudness`


@dataclass(frozen=True, eq=False)
class Fitted:
    """The experts, their weights, the correction and the rule of decision."""

    balance: Balance
    columns: np.ndarray  # sources that count; copies of others do not
    radii: np.ndarray  # (n_columns,) how far each may lend: inf by its own rule, NaN not at all
    edges: np.ndarray  # distances that grade loans
    view: View | None  # None without vectors, or with vectors that tell nothing
    agreement: np.ndarray | None  # (n_columns, 1 + n_classes, n_classes); None where vectors speak
    pupil: Readout | None
    echo: Readout | None
    vote_mean: np.ndarray  # (n_classes · n_columns,)
    scales: np.ndarray  # (3,) how loud the whole is, by kind of row; see `calibration`
    corrected: Corrected | None
    rule: Rule
    lean: np.ndarray | None = None  # (n_classes,) keeps the class balance; see `matching`
    regions: Readout | None = None  # what landmarks think; None where train rows are few
    support: np.ndarray | None = (
        None  # (n_columns,) what vectors say for each source; see `support`
    )
    heard: np.ndarray | None = None  # (n_columns,) bool: whom the experts hear; None for all

    @property
    def prior(self) -> np.ndarray:
        """π0, the class shares it starts from; (n_classes,)."""
        return self.balance.shares

    @property
    def experts(self) -> tuple[str, ...]:
        """The experts that speak."""
        absent = {
            "agreement": self.agreement is None,
            "pupil": self.pupil is None,
            "regions": self.regions is None,
            "echo": self.pupil is None,
            "neighbours": not self.hears_neighbours,
        }
        return tuple(name for name in EXPERTS if not absent.get(name))

    def unheard(self, names: Sequence[str]) -> dict[str, float]:
        """Sources that no expert hears, because vectors contradict them, and the support of each.

        `names` are those of all sources, copies among them.
        """
        if self.heard is None or self.support is None:
            return {}
        each = np.flatnonzero(~self.heard)
        return {names[self.columns[at]]: float(self.support[at]) for at in each}

    @property
    def hears_neighbours(self) -> bool:
        """Whether enough rows are labelled, and have vectors, to ask the likest of them."""
        return self.corrected is not None and self.corrected.neighbours

    @property
    def weights(self) -> np.ndarray:
        """How loud each expert is; (n_experts,)."""
        if self.corrected is not None:
            return self.corrected.weights
        return np.array([WEIGHTS[name] for name in self.experts])

    @property
    def lending(self) -> np.ndarray:
        """How far each speaking source lends anything: its radius, and never beyond the third grade."""
        return np.where(np.isnan(self.radii), np.nan, np.fmin(self.radii, self.edges[-1]))

    @property
    def start(self) -> np.ndarray:
        """Logits before any expert speaks; (n_classes,)."""
        bias = 0.0 if self.corrected is None else self.corrected.bias
        return np.asarray(np.log(self.prior) + bias)

    def evidence(self, rows: Rows) -> dict[str, np.ndarray]:
        """What each expert says of the rows, before weighting; (n_rows, n_classes) each."""
        return self.answer(rows)[0]

    def answer(self, rows: Rows) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """What each expert says, and what the hand labels add beyond weights and bias."""
        found = self.of_votes(rows)
        if rows.features is None:
            nothing = np.zeros((len(rows), len(self.prior)))
            silent = [name for name in self.experts if name not in found]
            return found | dict.fromkeys(silent, nothing), self.correction(rows.cast)
        if self.pupil is not None:
            found["pupil"] = self.pupil.evidence(read(rows.features, self.pupil.weights)[0])
        if self.regions is not None:
            found["regions"] = self.of_regions(rows)
        found |= (second := self.second(rows))[0]
        if self.hears_neighbours:
            assert rows.nearby is not None
            found["neighbours"] = self.of_neighbours(rows.nearby)
        return found, second[1]

    def of_votes(self, rows: Rows) -> dict[str, np.ndarray]:
        """What the experts say that need no vector."""
        votes = rows.votes
        found = {
            "majority": ev.majority(ev.vote_counts(votes, len(self.prior)), self.prior),
            "reach": self.of_loans(rows),
        }
        if self.agreement is not None:
            found["agreement"] = ev.agreement(votes, self.agreement)
        return found

    def of_loans(self, rows: Rows) -> np.ndarray:
        """Evidence of votes, own and lent."""
        lent = (rows.lent, rows.distance, self.radii, self.edges)
        return ev.reach(rows.votes, *lent, len(self.prior))

    def second(self, rows: Rows) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """What `echo` says and what the hand labels add, in one reading of the features."""
        taught = None if self.corrected is None else self.corrected.of_features
        learned = self.correction(rows.cast)
        tables = [] if self.echo is None else [self.echo.weights]
        tables += [] if taught is None else [taught]
        if rows.features is None or not tables:
            return {}, learned
        said = read(rows.features, *tables)
        if taught is not None:
            learned += said[-1]
        return {} if self.echo is None else {"echo": self.echo.evidence(said[0])}, learned

    def of_regions(self, rows: Rows) -> np.ndarray:
        """Evidence of the landmarks around each row."""
        assert self.regions is not None
        at = rows.regions
        if at is None:
            assert self.view is not None
            assert rows.features is not None
            at = Regions.of(rows.features, self.view.landmarks)
        return self.regions.evidence(at.read(self.regions.weights))

    def of_neighbours(self, nearby: Nearby) -> np.ndarray:
        """Evidence of the likest labelled rows, the liker the louder: a twin says nearly all."""
        assert self.corrected is not None
        shares, _ = neighbour_shares(nearby, self.corrected.y, self.prior)
        return ev.from_shares(shares, self.prior)

    def spread(self, votes: np.ndarray) -> np.ndarray:
        """Votes (n_sources, n_rows) as the entries of φ: one-hot, class by class, centred and scaled."""
        kinds = range(len(self.prior))
        one_hot = np.hstack([label == votes.T for label in kinds])
        return np.asarray(VOTE_SCALE * (one_hot - self.vote_mean))

    def correction(self, votes: np.ndarray) -> np.ndarray:
        """What the hand labels say of votes (n_sources, n_rows); (n_rows, n_classes)."""
        taught = self.corrected
        if taught is None:
            return np.zeros((votes.shape[1], len(self.prior)))
        middle = VOTE_SCALE * (self.vote_mean @ taught.of_votes)
        return np.asarray(votes_times(votes, taught.of_votes) - middle)

    def known(self, rows: Rows, said: Mapping[str, np.ndarray]) -> np.ndarray:
        """Rows of which votes or vectors say anything; (n_rows,) bool."""
        return np.asarray(kinds_of(rows.votes, said.get("pupil")) > 0)

    def scale(self, rows: Rows, said: Mapping[str, np.ndarray]) -> np.ndarray:
        """How loud the whole is about each row, of which the experts say so much; (n_rows,)."""
        return np.asarray(self.scales[kinds_of(rows.votes, said.get("pupil"))])

    def summed(
        self, rows: Rows, said: Mapping[str, np.ndarray], learned: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Logits: the start, the experts as loud as they are, what the hand labels add, all scaled."""
        found = np.empty_like(said["majority"])
        np.add(self.start, learned, out=found)
        for weight, name in zip(self.weights, self.experts):
            found += weight * said[name]
        if self.lean is not None:
            found += self.known(rows, said)[:, None] * self.lean
        found *= self.scale(rows, said)[:, None]
        return found

    def logits(self, rows: Rows) -> np.ndarray:
        """The sum of it all; (n_rows, n_classes)."""
        return self.summed(rows, *self.answer(rows))

    def probabilities(self, rows: Rows) -> np.ndarray:
        """Class probabilities; (n_rows, n_classes)."""
        return softmax(self.logits(rows))


def read(features: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    """features @ each of the weights, in one pass, with the same bits wherever it is asked.

    With two classes what is said for one is said against the other, so one column is read, not two.
    """
    n_rows, n_classes = len(features), weights[0].shape[1]
    first = 1 if n_classes == 2 else 0
    columns = np.hstack([each[:, first:] for each in weights])
    found = np.empty((n_rows, columns.shape[1]), dtype=np.float32)
    parts = [np.ascontiguousarray(column) for column in columns.T]

    def multiply(part: slice) -> None:
        block = features[part]
        if len(parts) > FEW:
            np.matmul(block, columns, out=found[part])
            return
        for start in range(0, len(block), FEWER):  # stays in the cache for the second column
            rows, out = block[start : start + FEWER], found[part][start : start + FEWER]
            for at, column in enumerate(parts):  # single columns are faster than a narrow table
                out[:, at] = rows @ column

    in_blocks(n_rows, multiply, threads=for_one_pass(n_rows))
    width = n_classes - first
    several = [found[:, at : at + width] for at in range(0, columns.shape[1], width)]
    return [np.hstack([-each, each]) for each in several] if first else several


def neighbour_shares(
    nearby: Nearby, y: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Class shares among the likest labelled rows, weighted by s² / (1.02 − s), and those weights.

    The prior takes part with two voices: far neighbours say little, a twin, worth fifty, almost all.
    """
    like = np.clip(nearby.likeness, 0.0, 1.0)
    weight = np.where(nearby.number >= 0, like**2 / (1 + SHARPNESS - like), 0.0)
    shares = np.tile(PRIOR_VOICES * prior, (len(weight), 1))
    label = y[np.maximum(nearby.number, 0)]
    for kind in range(len(prior)):
        shares[:, kind] += np.where(label == kind, weight, 0.0).sum(axis=1)
    shares /= weight.sum(axis=1, keepdims=True) + PRIOR_VOICES
    return shares, weight


def votes_times(votes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One-hot votes, scaled, times weights (n_classes · n_sources, n_classes)."""
    found = np.zeros((votes.shape[1], weights.shape[1]))
    _add_votes(votes, VOTE_SCALE * weights, found)
    return found


@compiled
def _add_votes(votes: Any, weights: Any, found: Any) -> None:
    n_sources, n_classes = votes.shape[0], found.shape[1]
    for source in range(n_sources):
        for row in range(votes.shape[1]):
            said = votes[source, row]
            if said >= 0:
                at = said * n_sources + source
                for label in range(n_classes):
                    found[row, label] += weights[at, label]
