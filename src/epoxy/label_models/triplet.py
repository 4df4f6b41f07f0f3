"""The closed-form triplet label model (Algorithm 2 of the paper), for any number of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np

from ..errors import NotIdentifiable, UnknownName, few
from ..storage import Array
from ..votes import Votes
from . import flyingsquid
from .balance import learn_balance
from .label_model import ClassBalance, TableModel, as_votes, check_speaks, resolve_balance
from .moments import Moments, moments
from .readings import VOTER, Readings, ignores_balance, read
from .solvers import SOLVERS, Solver, pooled

_ENOUGH = 10  # rows a comparison must rest on before its triplets are trusted one by one
_CERTAIN = 3.0  # standard errors before a source is read as worse than chance


class Triplet(TableModel):
    """Sources' accuracies from their agreements alone, then naive Bayes; nothing is iterated.

    For sources that are independent given the class, agreement factors: with
    θᵢ = (K·Pr(λᵢ = Y | λᵢ ≠ 0) − 1)/(K − 1), any two satisfy Mᵢⱼ = θᵢθⱼ for an observable M, so
    three sources give |θᵢ| = √|MᵢⱼMᵢₖ/Mⱼₖ| (for K = 2, θ is the paper's E[λY | λ ≠ 0]). Then

        Pr(Y = y | λ) ∝ Pr(Y = y) · Πᵢ Pr(λᵢ | Y = y)

    where an abstaining voter says nothing (Lemma 2) and the prior enters once. A source that never
    names some class is read class by class instead, and its silence counts: see `readings`.

    Parameters
    ----------
    class_balance
        Pr(Y): one share per class; a `Split` whose true labels are counted; `"learn"` to estimate it
        from the votes alone; None for uniform.
    solve
        How triplets are combined: their `"median"` or `"mean"`, or the one with the largest minimum
        `"overlap"` (the paper's Algorithm 2).
    dependencies
        Pairs of sources that are *not* independent given the class; they never share a triplet.
        `"learn"` finds them in the votes (`epoxy.learn_dependencies`).
    compat
        `"flyingsquid"` follows the reference implementation's arithmetic, quirks included (two
        classes, unconditional moments, the prior entering twice), to check published numbers.

    References
    ----------
    Chen, Fu et al., "Train and You'll Miss It" (2020), Algorithm 2, Lemmas 1 and 2;
    Fu et al., "Fast and Three-rious" (ICML 2020).

    Examples
    --------
    The second and third source are each wrong once, where the other two agree:

    >>> votes = Votes([[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]] * 50)
    >>> Triplet(solve="overlap").fit(votes).predict(votes)[:4].tolist()
    ['1', '1', '0', '0']
    """

    _findings: list[str] | Callable[[], list[str]]
    identified_: np.ndarray
    """Whether triplets answered for each source; where not, its votes carry no weight."""
    _stored: ClassVar[dict[str, Array]] = {
        **TableModel._stored,
        "identified_": Array("b", "sources"),
    }

    def __init__(
        self,
        class_balance: ClassBalance | Literal["learn"] = None,
        *,
        solve: str = "median",
        dependencies: Iterable[tuple[str, str]] | Literal["learn"] = (),
        compat: str | None = None,
    ) -> None:
        self.class_balance = class_balance
        self.solve = solve
        self.dependencies = dependencies
        self.compat = compat

    def fit(self, votes: Votes) -> Self:
        """Learn accuracies (and, if asked, balance and dependencies) from the votes alone."""
        votes = as_votes(votes)
        check_speaks(votes, "Triplet")
        summary = moments(votes)
        shares = self._shares(votes)
        if not isinstance(self.dependencies, str):
            return self._finish(summary, shares, self.dependencies)
        if self.dependencies != "learn":
            raise UnknownName.of("dependencies", self.dependencies, ["learn"])
        from ..sequences import learn_dependencies

        found = learn_dependencies(votes, class_balance=shares)
        return self._finish(summary, shares, found.pairs)

    def _shares(self, votes: Votes) -> np.ndarray:
        balance = self.class_balance
        if not isinstance(balance, str):
            return resolve_balance(balance, votes.n_classes, "Triplet")
        if balance != "learn":
            raise UnknownName.of("class balance", balance, ["learn"])
        return learn_balance(votes, self._solver())

    def learned_accuracy(self) -> np.ndarray:
        """`accuracy_`, with NaN for sources no triplet answered for; (n_sources,)."""
        return np.where(self.identified_, self.accuracy_, np.nan)

    def log_prior(self) -> np.ndarray:
        """What a row starts with before any source speaks; (n_classes,)."""
        if self.compat == "flyingsquid":
            return flyingsquid.log_prior(self.class_balance_)
        return super().log_prior()

    def _finish(
        self, summary: Moments, balance: np.ndarray, dependencies: Iterable[tuple[str, str]]
    ) -> Self:
        self.dependencies_ = tuple((first, second) for first, second in dependencies)
        self.sources_, self.classes_ = summary.sources, summary.classes
        self.class_balance_ = balance
        self.findings_ = []
        if self.compat == "flyingsquid":
            self.log_likelihood_, self.accuracy_ = flyingsquid.fit(summary, balance, self.solve)
            self.identified_ = np.ones(len(summary.sources), dtype=bool)
            return self
        if self.compat is not None:
            raise UnknownName.of("compat", self.compat, ["flyingsquid"])
        _check_identifiable(summary)
        readings, theta, weak = self._solved(summary, balance)
        self._tabulate(summary, readings, theta)
        self._note(summary, readings, theta, weak)
        return self

    def _solved(
        self, summary: Moments, balance: np.ndarray
    ) -> tuple[Readings, np.ndarray, np.ndarray]:
        """The readings, θ of each unit and who was pooled; once for every balance where none enters."""
        linked = self._linked(summary.sources)
        settings = "triplet", self.solve, frozenset(linked)
        if settings in summary.solved:
            found: tuple[Readings, np.ndarray, np.ndarray] = summary.solved[settings]
            return found
        readings = read(summary, balance).without(linked)
        theta, weak = solve_units(readings, self._solver())
        found = readings, _with_signs(theta, readings), weak
        if ignores_balance(summary):
            summary.solved[settings] = found
        return found

    def _solver(self) -> Solver:
        if self.solve not in SOLVERS:
            raise UnknownName.of("solve", self.solve, SOLVERS)
        return SOLVERS[self.solve]

    def _linked(self, sources: tuple[str, ...]) -> set[tuple[int, int]]:
        position = {name: index for index, name in enumerate(sources)}
        linked = set()
        for pair in self.dependencies_:
            for name in pair:
                if name not in position:
                    raise UnknownName.of("source", name, sources)
            linked.add((position[pair[0]], position[pair[1]]))
        return linked

    def _tabulate(self, summary: Moments, readings: Readings, theta: np.ndarray) -> None:
        n_sources, n_classes = len(summary.sources), len(summary.classes)
        known = np.where(np.isnan(theta), 0.0, theta)
        prob = np.ones((n_sources, 1 + n_classes, n_classes))
        right = np.full(n_sources, 1 / n_classes)  # a source that never voted is at chance
        voter = readings.named == VOTER
        rest: np.ndarray | slice = slice(None)
        if voter.any():
            source, rest = readings.source[voter], ~voter
            accuracy = _accuracy(known[voter], readings.votes[voter], n_classes)
            wrong = (1 - accuracy) / (n_classes - 1)
            prob[source, 1:] = wrong[:, None, None]
            each = np.arange(n_classes)
            prob[source[:, None], 1 + each, each] = accuracy[:, None]
            right[source] = accuracy
        units = readings.source[rest], readings.named[rest]
        seen = known[rest], readings.rate[rest], readings.votes[rest]
        _tabulate_detectors(units, seen, self.class_balance_, max(1, summary.n_rows), (prob, right))
        self.log_likelihood_ = np.log(prob)
        self.accuracy_ = right

    @property
    def findings_(self) -> list[str]:
        """What the model could not learn and how it answered instead; put into words when read."""
        if not isinstance(self._findings, list):
            self._findings = self._findings()
        return self._findings

    @findings_.setter
    def findings_(self, value: list[str]) -> None:
        self._findings = value

    def _note(
        self, summary: Moments, readings: Readings, theta: np.ndarray, weak: np.ndarray
    ) -> None:
        self.identified_ = np.zeros(len(summary.sources), dtype=bool)
        self.identified_[readings.source] = True
        self.identified_[readings.source[np.isnan(theta)]] = False
        self._findings = lambda: _in_words(summary, readings, theta, weak)


def _tabulate_detectors(
    units: tuple[np.ndarray, np.ndarray],
    seen: tuple[np.ndarray, np.ndarray, np.ndarray],
    balance: np.ndarray,
    n: int,
    found: tuple[np.ndarray, np.ndarray],
) -> None:
    """Write Pr(vote | class) of detectors, and how often each of their sources is right.

    `units` are (source, class) of each, `seen` its (θ, firing rate, firings) on `n` rows; `found` are
    the tables (n_sources, 1 + n_classes, n_classes), one where nothing is written, and (n_sources,).
    """
    (source, named), (theta, rate, fires), (prob, right) = units, seen, found
    edge = 0.5 / (n + 1)  # half a row: nothing seen is certain, nothing is impossible
    share = balance[named]
    alpha = theta / np.sqrt(share * (1 - share))
    alpha = np.minimum(alpha, np.minimum(rate / share, (1 - rate) / (1 - share)))
    hit = np.minimum(np.maximum(rate + (1 - share) * alpha, edge), 1 - edge)
    false = np.minimum(np.maximum(rate - share * alpha, np.minimum(edge, rate / 2)), 1 - edge)
    said = np.zeros((len(prob), len(balance), len(balance)))
    said[source, named] = false[:, None]
    said[source, named, named] = hit
    prob[source, 1 + named] = said[source, named]
    prob[:, 0] = np.maximum(1 - said.sum(axis=1), 1 / (n + 2))
    precision = hit * share / (hit * share + false * (1 - share))
    total = np.bincount(source, fires, len(prob))
    mean = np.bincount(source, precision * fires, len(prob))
    right[:] = np.where(total > 0, mean / np.maximum(total, 1), right)


def _in_words(
    summary: Moments, readings: Readings, theta: np.ndarray, weak: np.ndarray
) -> list[str]:
    names = np.asarray(summary.sources)
    unknown = np.isnan(theta)
    found = []
    for which, text in (
        (np.flatnonzero(summary.counts.sum(axis=1) == 0), "never vote"),
        (
            readings.source[unknown],
            "share too few rows with others for any triplet; their votes are ignored",
        ),
        (readings.source[weak & ~unknown], "rest on few shared rows; their triplets were pooled"),
        (
            readings.source[~unknown & (np.where(unknown, 0, theta) < 0)],
            "disagree with the others more than chance; their votes count reversed",
        ),
    ):
        told = names[np.unique(which)].tolist()
        if len(told):
            found.append(f"{len(told)} of {len(names)} sources {text}: {few(told, 8)}")
    return found


def solve_units(readings: Readings, solver: Solver) -> tuple[np.ndarray, np.ndarray]:
    """|θ| of each unit, and which units had to be pooled because their overlaps are small."""
    enough = readings.observed & (readings.overlap >= _ENOUGH)
    theta = solver(replace(readings, observed=enough))
    weak = np.isnan(theta)
    if weak.any():
        theta = np.where(weak, pooled(readings), theta)
        still = np.isnan(theta)
        if still.any():
            theta = np.where(still, solver(readings), theta)
    # a triplet that answered is a triplet; where none did, is there one at all?
    if weak.all() and not _closes(readings.observed):
        raise NotIdentifiable(
            "no three sources overlap, so agreement says nothing about accuracy; "
            "add a labeling function that votes where others do, extend the votes, or use Fusion or "
            "MajorityVote"
        )
    if not (theta > 0).any():
        raise NotIdentifiable(
            "the sources agree no more than chance, so every triplet answers zero; "
            "check what they vote, add a labeling function, or use Fusion or MajorityVote"
        )
    return np.minimum(theta, 1.0), weak


def _closes(observed: np.ndarray) -> bool:
    """Whether any three units are all compared with each other."""
    return any(observed[np.ix_(each, each)].any() for each in observed)


def _check_identifiable(summary: Moments) -> None:
    counts = summary.counts
    votes = counts.sum(axis=1) > 0
    if np.count_nonzero(votes) < 3:
        voting = [name for name, speaks in zip(summary.sources, votes) if speaks]
        raise NotIdentifiable(
            f"Triplet needs at least 3 sources that vote, got {len(voting)} {voting}; "
            "add a labeling function or use Fusion or MajorityVote"
        )
    named = np.flatnonzero(counts.sum(axis=0))
    if len(named) == 1:
        raise NotIdentifiable(
            f"every vote names {summary.classes[named[0]]!r}, so sources cannot disagree and agreement "
            "says nothing about accuracy; add a labeling function for another class or use Fusion or "
            "MajorityVote"
        )


def _with_signs(theta: np.ndarray, readings: Readings) -> np.ndarray:
    """Give voters that contradict the rest, beyond chance, a negative θ.

    Detectors keep θ ≥ 0: a person who lets a function say only "spam" means spam, and mutually
    exclusive keywords make same-class detectors look contradictory when they are not.
    """
    voter = readings.named == VOTER
    if not voter.any():
        return theta
    sign = np.ones(len(theta))
    known = np.where(np.isnan(theta), 0.0, theta)
    weight = np.where(readings.observed, 1 / readings.spread**2, 0.0)
    for _ in range(int(voter.sum())):
        pull = (weight * readings.moment) @ (sign * known)
        error = np.sqrt(weight @ known**2)
        with np.errstate(invalid="ignore", divide="ignore"):
            score = np.where((error > 0) & voter, sign * pull / error, np.inf)
        worst = int(score.argmin())
        if score[worst] >= -_CERTAIN:
            break
        sign[worst] *= -1
    if (known * sign)[voter].sum() < 0:  # on the whole, sources know better than chance
        sign[voter] *= -1
    return theta * sign


def _accuracy(theta: np.ndarray, votes: np.ndarray, n_classes: int) -> np.ndarray:
    """θ back to probabilities, never more certain than so many votes can make us."""
    accuracy = (1 + (n_classes - 1) * theta) / n_classes
    edge = 1 / (votes + 2)
    return np.minimum(np.maximum(accuracy, edge), 1 - edge)
