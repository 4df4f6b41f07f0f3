"""The doctor: what is wrong with a set of sources, in words, with numbers and a cure.

Each check is one function from a `Case` to findings, and says in its docstring which test has to
fail before it speaks. Checks that can use true labels do; where there are none, they fall back on
what the votes alone can show, or keep silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ..errors import few
from ..label_models import Triplet
from ..label_models.label_model import AdditiveModel
from ..label_models.moments import Moments, moments
from ..votes import Split
from .examination import ERROR, MOST_SOURCES, Case, limits, names_of, thinned
from .outcomes import OUTCOME_CHECKS, tally
from .report import Finding
from .unheard import not_heard

_SAME_ROWS, _SAME_VOTES, _SURELY = (
    0.9,
    0.98,
    0.7,
)  # near-duplicates, and the least their overlap may be
_SELF_ODDS = (
    2.0  # what votes say about the balance bends with every dependency: only a large gap counts
)
_JACKKNIFED, _BROADEST = 4000, 40  # rows and sources the balance is learned from, eight times over
_FEWEST_LABELS = 20
_ODDS = 1.5  # class balances whose odds differ by less move no label that was not on the edge


class Examinable(Protocol):
    """A fitted model that can be looked at."""

    def case(self, split: Split, *, positive: str | None = None) -> Case:
        """What the model made of its train votes and of these rows."""


def diagnose(
    model: Examinable, split: Split, *, positive: str | None = None
) -> tuple[Finding, ...]:
    """Say what is wrong with a fitted model's sources, labels and vectors; warnings come first.

    Parameters
    ----------
    model
        A fitted `Epoxy`; for other models see `diagnose_case`.
    split
        Rows of the same sources, usually dev. Without true labels fewer questions can be asked.
    positive
        Compare labelings by the F1 of this class; by accuracy when not given.

    Notes
    -----
    Every test is one-sided at 1 %, shared among the sources where each is asked the same question.
    Silence means that nothing was seen beyond chance, not that nothing is there.

    Examples
    --------
    >>> from epoxy.datasets import SyntheticSource, synthetic
    >>> from epoxy.model import Epoxy
    >>> data = synthetic(800, sources=[*[SyntheticSource(0.85, 0.5)] * 4, SyntheticSource(0.2, 0.5)])
    >>> [(each.kind, each.sources) for each in diagnose(Epoxy(radius=0.02).fit(data.train), data.dev)]
    [('worse-than-random', ('source_4',))]
    """
    return diagnose_case(model.case(split, positive=positive))


def diagnose_case(case: Case) -> tuple[Finding, ...]:
    """As `diagnose`, for whatever a model made of some votes."""
    checks = (
        _worse_than_random,
        lambda case: not_heard(case.unheard, case.defended),
        _reversed,
        _agreeing_too_much,
        _one_sided,
        _overlapping_too_little,
        _balance_against_truth,
        *OUTCOME_CHECKS,
    )
    found = [finding for check in checks for finding in check(case)]
    return tuple(sorted(found, key=lambda finding: finding.severity != "warning"))


def _worse_than_random(case: Case) -> Iterator[Finding]:
    """Wilson's upper limit of a source's own votes lies below naming the same classes at random."""
    right, total, chance = tally(case, case.before)
    _, high = limits(right, total, len(total))
    for at in np.flatnonzero((high < chance) & (total > 0)):
        flip = "swap the labels it returns" if case.own.n_classes == 2 else "check what it returns"
        name = case.sources[at]
        yield Finding(
            "worse-than-random",
            (name,),
            "warning",
            f"{name!r} is right on {right[at]} of the {total[at]} labelled rows it votes on "
            f"({right[at] / total[at]:.0%}, at most {high[at]:.0%}), less than the {chance[at]:.0%} of "
            "naming the same classes at random.",
            f"If it looks flipped, {flip}; otherwise rewrite or remove it.",
        )


def _reversed(case: Case) -> Iterator[Finding]:
    """Triplet reads a voter as worse than chance: three standard errors, from the votes alone.

    And its learned accuracy is at least five points below chance, so that it matters. Where true
    labels already settled that the source is worse than random, nothing is said twice.
    """
    model = case.label_model
    if not isinstance(model, Triplet) or model.compat is not None:
        return
    table = model.log_likelihood_[:, 1:, :]
    said = np.diagonal(table, axis1=1, axis2=2)  # (n_sources, n_classes)
    others = table.min(axis=2, initial=np.inf, where=~np.eye(table.shape[1], dtype=bool))
    turned = (said < others).all(axis=1)
    turned &= model.accuracy_ < 1 / table.shape[1] - 0.05
    right, total, chance = tally(case, case.before)
    low, high = limits(right, total, len(total))
    for at in np.flatnonzero(turned & ~((high < chance) & (total > 0))):
        name = case.sources[at]
        fact = f"{name!r} disagrees with the other sources more than chance, so its votes count reversed"
        if low[at] > chance[at]:
            fact += f", although it is right on {right[at]} of {total[at]} labelled rows"
            cure = "Look for sources that err together and name them in Triplet(dependencies=…)."
        else:
            cure = (
                "Look at rows where it contradicts the others; if it is flipped, swap its labels."
            )
        learned = f" (learned accuracy {model.accuracy_[at]:.0%})."
        yield Finding("reversed", (name,), "warning", fact + learned, cure)


def _agreeing_too_much(case: Case) -> Iterator[Finding]:
    """Near-duplicates, then dependent pairs among the rest.

    Near-duplicates share at least 90 % of the rows either votes on and vote alike on 98 % of those,
    with a lower limit of 70 % for the rows on which both hold (about 13 rows at least). Dependent
    pairs come from `learn_dependencies`: false discovery rate 1 %, excess correlation 0.1 or more.
    """
    from ..sequences.dependencies import learn_dependencies

    votes = thinned(case.own)
    summary = moments(votes)
    both, agree = _together(summary)
    twins = _twins(both, agree)
    for group in _groups(twins):
        yield _duplicates(case, group, both, agree)
    if votes.n_sources < 3:
        return
    model = case.label_model
    told = model.dependencies_ if isinstance(model, AdditiveModel) else ()
    given: set[frozenset[str]] = set(map(frozenset, told))
    if votes.n_sources > MOST_SOURCES:
        votes = votes.only([votes.sources[at] for at in _suspects(summary, agree)])
    found = learn_dependencies(votes, class_balance=case.prior)
    twin = {frozenset((case.sources[a], case.sources[b])) for a, b in np.argwhere(twins)}
    rows = [
        row for row in found.rows if frozenset((row["source"], row["with"])) not in given | twin
    ]
    if not rows:
        return
    shown = [f"{row['source']!r} and {row['with']!r} ({row['excess']:.2f})" for row in rows]
    pairs = "pair of sources agrees" if len(rows) == 1 else "pairs of sources agree"
    yield Finding(
        "dependent-pairs",
        tuple(dict.fromkeys(name for row in rows for name in (row["source"], row["with"]))),
        "note",
        f"{len(rows)} {pairs} more than the class explains (excess correlation): {few(shown)}.",
        f"Merge them, or tell the label model: Triplet(dependencies=[{_pair(rows[0])}, …]).",
    )


def _pair(row: dict[str, str]) -> str:
    return repr((row["source"], row["with"]))


def _together(summary: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Rows on which two sources both vote, and on which they vote alike; (n_sources, n_sources)."""
    both, agree = (np.zeros((len(summary.sources),) * 2) for _ in range(2))
    at = summary.source
    if len(at):
        np.add.at(both, (at[:, None], at[None, :]), summary.joint)
        same = summary.named[:, None] == summary.named
        np.add.at(agree, (at[:, None], at[None, :]), summary.joint * same)
    return both, agree


def _twins(both: np.ndarray, agree: np.ndarray) -> np.ndarray:
    votes = np.diagonal(both)
    either = votes[:, None] + votes - both
    low, _ = limits(agree, either)
    near = (both >= _SAME_ROWS * either) & (agree >= _SAME_VOTES * both) & (low >= _SURELY)
    return np.asarray(near & ~np.eye(len(votes), dtype=bool))


def _groups(linked: np.ndarray) -> list[np.ndarray]:
    """Connected sources, the lone ones left out."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(linked, directed=False)
    groups = [np.flatnonzero(label == each) for each in range(count)]
    return [group for group in groups if len(group) > 1]


def _duplicates(case: Case, group: np.ndarray, both: np.ndarray, agree: np.ndarray) -> Finding:
    a, b = group[:2]
    either = both[a, a] + both[b, b] - both[a, b]
    names = tuple(case.sources[at] for at in group)
    return Finding(
        "near-duplicates",
        names,
        "warning",
        f"{names_of(names)} are near-duplicates: {names[0]!r} and {names[1]!r} share "
        f"{both[a, b]:.0f} of the {either:.0f} rows either votes on and vote alike on {agree[a, b]:.0f}.",
        "Keep one of them: said twice, the same evidence counts twice.",
    )


def _suspects(summary: Moments, agree: np.ndarray) -> np.ndarray:
    """Sources whose agreement with some other exceeds what their counts explain the most."""
    counts = summary.counts
    expected = counts @ counts.T / max(1, summary.n_rows)
    score = (agree - expected) / np.sqrt(expected + 1)
    np.fill_diagonal(score, -np.inf)
    return np.sort(np.argsort(-score.max(axis=1), kind="stable")[:MOST_SOURCES])


def _one_sided(case: Case) -> Iterator[Finding]:
    """A class nobody names, though so many covered rows would miss it by chance less than 1 %."""
    votes, rows = case.own, int(case.own.covered.sum())
    share = case.counts / case.counts.sum() if case.counts.any() else case.prior
    named = np.array([(votes.matrix == k).any() for k in range(votes.n_classes)])
    missed = ~named & (rows * np.log1p(-np.minimum(share, 1 - 1e-9)) < np.log(ERROR))
    if not rows or not missed.any():
        return
    classes = [name for name, is_missed in zip(votes.classes, missed) if is_missed]
    expect = " and ".join(
        f"{s:.0%} of rows are {name!r}" for name, s in zip(classes, share[missed])
    )
    if named.sum() == 1:
        only = votes.classes[int(named.argmax())]
        yield Finding(
            "one-sided-set",
            votes.sources,
            "warning",
            f"Every one of the {int(votes.cast.sum())} votes names {only!r}, so no source can ever "
            f"contradict another; {expect}.",
            f"Write a labeling function for {names_of(classes)}.",
        )
        return
    yield Finding(
        "unnamed-class",
        (),
        "warning",
        f"No source ever names {names_of(classes)} on {rows} covered rows; {expect}.",
        f"Write a labeling function for {names_of(classes)}, or leave the class out.",
    )


def _overlapping_too_little(case: Case) -> Iterator[Finding]:
    """Sources that never vote, that Triplet could not identify, or half of all pairs apart."""
    voting = np.asarray(case.own.cast.any(axis=0))
    never = tuple(name for name, votes in zip(case.sources, voting) if not votes)
    if never:
        yield Finding(
            "never-votes",
            never,
            "note",
            f"{len(never)} of {len(voting)} sources never vote on {case.own.n_rows} train rows: "
            f"{names_of(never)}.",
            "Check their conditions, or remove them.",
        )
    model = case.label_model
    if not isinstance(model, Triplet) or model.compat is not None:
        return
    lost = tuple(np.asarray(case.sources)[voting & ~model.identified_].tolist())
    both, _ = _together(moments(thinned(case.extended_train)))
    first, second = np.triu_indices(int(voting.sum()), 1)
    apart = (both[np.ix_(voting, voting)][first, second] == 0).mean() if len(first) else 0.0
    if not lost and apart < 0.5:
        return
    fact = f"{apart:.0%} of all pairs of sources share no row, even after extension"
    if lost:
        fact += (
            f", and {len(lost)} of {len(voting)} sources meet too few others for any triplet, "
            f"so their votes carry no weight: {names_of(lost)}"
        )
    yield Finding(
        "few-overlaps",
        lost,
        "warning" if lost else "note",
        fact + ".",
        "Widen their radii, add a labeling function that votes where they do, or use Fusion or "
        "MajorityVote.",
    )


def _balance_against_truth(case: Case) -> Iterator[Finding]:
    """A class's share as used lies outside Wilson's limits of the true labels, odds ×1.5 off.

    Fewer than 20 labels of rows drawn at random are not asked.
    """
    counts, used = case.counts, case.balance
    total = int(counts.sum())
    if used is None or total < _FEWEST_LABELS:
        return
    low, high = limits(counts, total, 2 * len(counts))
    off = (used < low) | (used > high)
    off &= _odds_apart(used, (counts + 0.5) / (total + 1)) > np.log(_ODDS)
    if not off.any():
        return
    at = int(np.where(off, np.abs(used - counts / total), -1).argmax())
    yield Finding(
        "class-balance",
        (),
        "warning",
        f"The class balance in use says {used[at]:.0%} {case.own.classes[at]!r}, the true labels say "
        f"{counts[at] / total:.0%} ({counts[at]} of {total}, {low[at]:.0%} to {high[at]:.0%}).",
        "Give the label model class_balance=dev, or the shares you know."
        if case.label_model is not None
        else f"Tell {case.model} the shares if you know them: class_balance=…, or balance under [model].",
    )


def _odds_apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    logit = [
        np.log(p) - np.log1p(-p) for p in (np.clip(q, 1e-9, 1 - 1e-9) for q in (first, second))
    ]
    return np.asarray(np.abs(logit[0] - logit[1]))
