"""Sources that err together: found from the votes alone, and put right in inference.

For sources independent given the class the agreement matrix of `label_models.readings` has rank one,
M = θθᵀ off the diagonal; a dependency is one entry too large. Medians over triplets give a θ that a
few such entries cannot move, so the excess Mᵢⱼ − θᵢθⱼ is compared with its standard error, the
largest significant one is set aside, and θ is solved again, until none is left. This is the
low-rank-plus-sparse reading of structure learning (Varma et al., ICML 2019) without its convex
programme, and it needs the pairwise counts only.

Independent evidence counts a copied vote twice. So the evidence of a dependent pair is corrected by
log Pr(v, w | y) − log Pr(v | y) − log Pr(w | y), where the joint is the least committed one (the
paper's exponential family with one more edge) that keeps both sources' own tables and matches how
often they both vote, and both vote alike. If dependencies form cycles, the strongest edges that form
a forest are used: the product is then a proper distribution.

Rejected: testing residuals of a latent class model fitted by expectation-maximisation. A strong
dependency becomes the latent class itself, and the innocent pairs are reported (measured on one-sided
sources: none of the true pairs found, several false ones).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..diagnostics.report import Column, Table
from ..errors import ParameterError, UnknownName
from ..label_models.label_model import as_votes
from ..label_models.moments import moments
from ..label_models.readings import VOTER, Readings, read
from ..label_models.solvers import SOLVERS
from ..shares import checked_shares
from ..votes import Votes

_CAUTION = 2.0  # θ is estimated from the same votes: standard errors are taken this much larger
_ROUNDS = 500


@dataclass(frozen=True, repr=False)
class Dependencies(Table):
    """Pairs of sources that agree more than their accuracies explain, strongest first: a row each.

    Iterates over pairs of names, so it can be given wherever `dependencies=` is asked for.
    """

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The names."""
        return tuple((row["source"], row["with"]) for row in self.rows)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return str(self)


_COLUMNS = (
    Column("source", "source"),
    Column("with", "with"),
    Column("excess", "excess agreement", "number"),
    Column("q_value", "q value", "number"),
)


def learn_dependencies(
    votes: Votes,
    *,
    class_balance: Sequence[float] | np.ndarray | None = None,
    false_discovery: float = 0.01,
    least: float = 0.1,
) -> Dependencies:
    """Find pairs of sources that agree more than their accuracies explain, from the votes alone.

    Parameters
    ----------
    class_balance
        Pr(Y), uniform when not given; it only matters where one-sided sources meet others.
    false_discovery
        Expected share of false pairs among those reported (Benjamini-Hochberg).
    least
        Smallest excess agreement worth reporting, as a correlation: with many rows everything is
        significant.

    Notes
    -----
    Only excess agreement is reported. It stands out as long as most pairs are independent: of ten
    sources, groups of three are found reliably, of four not always.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 4000)
    >>> matrix = np.where(rng.random((4000, 6)) < 0.75, y[:, None], 1 - y[:, None])
    >>> matrix[:2000, 5] = matrix[:2000, 4]
    >>> learn_dependencies(Votes(matrix, sources=list("abcdef"))).pairs
    (('e', 'f'),)
    """
    votes = as_votes(votes)
    if not 0 < false_discovery < 1 or not 0 < least < 1:
        raise ParameterError(
            f"false_discovery={false_discovery!r} and least={least!r} must lie between 0 and 1"
        )
    share = np.full(votes.n_classes, 1 / votes.n_classes)
    if class_balance is not None:
        share = checked_shares(class_balance, votes.n_classes, "learn_dependencies")
    readings = read(moments(votes), share)
    found: list[tuple[int, int]] = []
    while True:
        excess, q_value = _excess(readings, found, votes.n_sources)
        fresh = np.triu((q_value <= false_discovery) & (excess >= least), 1)
        for pair in found:
            fresh[pair] = False
        if not fresh.any():
            break
        found += _strongest(fresh, excess)
    found.sort(key=lambda pair: -excess[pair])
    rows = [
        {
            "source": votes.sources[pair[0]],
            "with": votes.sources[pair[1]],
            "excess": float(excess[pair]),
            "q_value": float(q_value[pair]),
        }
        for pair in found
    ]
    title = f"{len(rows)} dependent pairs among {votes.n_sources} sources"
    return Dependencies(title, _COLUMNS, tuple(rows))


def _strongest(fresh: np.ndarray, excess: np.ndarray) -> list[tuple[int, int]]:
    """The strongest pairs among the fresh ones, each source at most once.

    A source that several others copy makes innocent pairs look dependent until it is set aside, so
    only its strongest pair is believed at a time.
    """
    pairs = [(int(a), int(b)) for a, b in np.argwhere(fresh)]
    pairs.sort(key=lambda pair: -excess[pair])
    limit, taken, chosen = excess[pairs[0]] / 2, set[int](), []
    for a, b in pairs:
        if excess[a, b] >= limit and not taken & {a, b}:
            taken |= {a, b}
            chosen.append((a, b))
    return chosen


def _excess(
    readings: Readings, aside: list[tuple[int, int]], n_sources: int
) -> tuple[np.ndarray, np.ndarray]:
    """Excess agreement and q-value of every pair, with some pairs set aside while solving θ."""
    excess, q_value = np.zeros((n_sources,) * 2), np.ones((n_sources,) * 2)
    if len(readings.source) < 3:
        return excess, q_value
    apart = readings.without(set(aside))
    theta = np.nan_to_num(SOLVERS["median"](apart))
    scale = np.where(readings.named == VOTER, 1.0, np.sqrt(readings.rate * (1 - readings.rate)))
    first, second = np.nonzero(np.triu(readings.observed, 1))
    keep = (readings.source[first] != readings.source[second]) & _comparable(
        readings, first, second
    )
    first, second = first[keep], second[keep]
    beyond = readings.moment[first, second] - theta[first] * theta[second]
    score = beyond / np.maximum(readings.spread[first, second], 1e-12) / _CAUTION
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = np.nan_to_num(beyond / (scale[first] * scale[second]))
    rate = _false_discovery_rates(score)
    # a pair of sources read class by class meets in several entries; the strongest speaks for it
    for entry in np.argsort(strength):
        a, b = readings.source[first[entry]], readings.source[second[entry]]
        excess[a, b] = excess[b, a] = strength[entry]
        q_value[a, b] = q_value[b, a] = rate[entry]
    return excess, q_value


def _comparable(readings: Readings, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of more than two classes, detectors of different ones can conflict but never agree."""
    a, b = readings.named[first], readings.named[second]
    classes = np.unique(readings.named[readings.named != VOTER])
    return np.asarray((a == b) | (a == VOTER) | (b == VOTER) | (len(classes) <= 2))


def _false_discovery_rates(score: np.ndarray) -> np.ndarray:
    """Benjamini-Hochberg q-values of one-sided normal scores."""
    from scipy.special import ndtr  # not `scipy.stats`, which takes half a second to import

    p = ndtr(-score)
    order = np.argsort(p)
    rank = np.arange(1, len(p) + 1)
    q = np.empty_like(p)
    q[order] = np.minimum.accumulate((p[order] * len(p) / rank)[::-1])[::-1]
    return np.asarray(q.clip(0, 1))


def barred_pairs(pairs: Iterable[tuple[str, str]], sources: Sequence[str]) -> np.ndarray:
    """Named pairs as a symmetric mask; (n_sources, n_sources) bool."""
    position = {name: index for index, name in enumerate(sources)}
    mask = np.zeros((len(sources),) * 2, dtype=bool)
    for pair in pairs:
        names = tuple(pair)
        if len(names) != 2 or names[0] == names[1]:
            raise ParameterError(f"a dependency joins two different sources, got {names!r}")
        for name in names:
            if name not in position:
                raise UnknownName.of("source", name, sources)
        a, b = (position[name] for name in names)
        mask[a, b] = mask[b, a] = True
    return mask


@dataclass(frozen=True, eq=False)
class Linked:
    """Corrections to the evidence for the dependent pairs in use."""

    pairs: np.ndarray  # (n_pairs, 2) source indices
    terms: np.ndarray  # (n_pairs, 1 + K, 1 + K, K) log ratio of joint to product

    @classmethod
    def nothing(cls, n_classes: int) -> Linked:
        """No pair depends on each other."""
        states = 1 + n_classes
        return cls(np.empty((0, 2), dtype=np.intp), np.empty((0, states, states, n_classes)))

    @classmethod
    def of(
        cls, barred: np.ndarray, same: np.ndarray, tables: np.ndarray, share: np.ndarray
    ) -> Linked:
        """Corrections for the pairs of a mask (m, m).

        `same` is how votes meet on one row, (m, 1 + K, m, 1 + K); `tables` are Pr(vote | class),
        (m, 1 + K, K), and `share` Pr(Y).
        """
        found: dict[tuple[int, int], tuple[float, np.ndarray]] = {}
        for a, b in np.argwhere(np.triu(barred, 1)):
            joint = _joint(same[a, :, b, :], tables[a], tables[b], share)
            product = tables[a][:, None, :] * tables[b][None, :, :]
            term = np.log(np.divide(joint, product, out=np.ones_like(joint), where=product > 0))
            gain = float((share * joint * term).sum())  # mutual information given the class
            found[int(a), int(b)] = gain, term
        kept = forest(sorted(found, key=lambda pair: (-found[pair][0], pair)), len(tables))
        if not kept:
            return cls.nothing(len(share))
        return cls(np.array(kept, dtype=np.intp), np.array([found[pair][1] for pair in kept]))

    def evidence(self, matrix: np.ndarray) -> np.ndarray:
        """The correction each pair makes on each row; (n_rows, n_pairs, n_classes)."""
        said = matrix.astype(np.intp) + 1
        first, second = said[:, self.pairs[:, 0]], said[:, self.pairs[:, 1]]
        return np.asarray(self.terms[np.arange(len(self.pairs)), first, second])


def forest(edges: Iterable[tuple[int, int]], n_nodes: int) -> list[tuple[int, int]]:
    """The edges, taken in order, that close no cycle with those before them."""
    part = np.arange(n_nodes)
    kept = []
    for a, b in edges:
        if part[a] != part[b]:
            part[part == part[a]] = part[b]
            kept.append((a, b))
    return kept


def _joint(
    counts: np.ndarray, first: np.ndarray, second: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Pr(v, w | y), (1 + K, 1 + K, K), by iterative proportional fitting."""
    states = np.arange(len(counts))
    both = (states[:, None] > 0) & (states > 0)
    alike = both & np.eye(len(counts), dtype=bool)
    parts = (~both, alike, both & ~alike)
    observed = [(counts[part].sum() + 0.5) / (counts.sum() + 1.5) for part in parts]
    joint = first[:, None, :] * second
    for _ in range(_ROUNDS):
        before, joint = joint, joint.copy()
        for part, target in zip(parts, observed, strict=True):
            now = (joint[part] * share).sum()
            joint[part] *= target / now if now > 0 else 1.0
        for axis, own in ((1, first[:, None, :]), (0, second[None])):
            now = joint.sum(axis=axis, keepdims=True)
            joint = joint * np.divide(own, now, out=np.ones_like(now), where=now > 0)
        if np.abs(joint - before).max() < 1e-12:
            break
    return np.asarray(np.maximum(joint, 1e-12))
