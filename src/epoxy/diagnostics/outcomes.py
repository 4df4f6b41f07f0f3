"""The doctor's checks of what comes out: labels, lent votes, and vectors that fit their rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import NotIdentifiable, few
from ..estimators import clone
from ..label_models import LabelModel, MajorityVote
from ..label_models.label_model import TableModel
from ..votes import ABSTAIN, Split, Votes
from .examination import (
    Case,
    Likeness,
    certainty,
    likeness,
    limits,
)
from .report import Finding

_BROAD, _TIMES = 0.3, 3.0  # coverage, and how many times the others', from which a source is broad
_DROP = 0.1  # lent votes are a little worse than own ones everywhere; this much is worth a word
_FEWEST = 10  # votes with truth below which a share says nothing


def tally(
    case: Case, votes: Votes, where: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right votes, all votes, and the share that would be right at random, per source.

    At random means naming the same classes as often, on rows drawn blindly: for a source that only
    ever says "spam" it is the share of spam.
    """
    cast = votes.cast if where is None else where
    right = ((votes.matrix == case.y[:, None]) & cast).sum(axis=0)
    total = cast.sum(axis=0)
    named = np.stack([((votes.matrix == k) & cast).sum(axis=0) for k in range(votes.n_classes)])
    return right, total, case.share @ named / np.maximum(total, 1)


def drowning(case: Case) -> Iterator[Finding]:
    """A broad source (30 % of rows or more, three times the median of the others) that misleads.

    On labelled rows where others vote, labels without it are better, paired.
    """
    coverage = case.extended_train.coverage
    if len(coverage) < 3:
        return
    median = np.array([np.median(np.delete(coverage, at)) for at in range(len(coverage))])
    broad = np.flatnonzero((coverage >= _BROAD) & (coverage >= _TIMES * median))
    for at in broad.tolist() if len(case.y) else ():
        found = _misleads(case, at, len(broad))
        if found is None:
            continue
        name = case.sources[at]
        yield Finding(
            "broad-source",
            (name,),
            "warning",
            f"{name!r} votes on {coverage[at]:.0%} of rows after extension (median of the others "
            f"{median[at]:.0%}) and drowns them: {found}.",
            "Narrow its condition or its radius, or remove it.",
        )


def _misleads(case: Case, at: int, questions: int) -> str | None:
    if case.label_model is None:
        return None
    # where it alone speaks there is nobody to drown
    shared = case.judged & np.delete(case.after.cast, at, axis=1).any(axis=1)
    found = case.against(_labels_without(case, case.label_model, case.after, at), shared)
    if not found.second_wins(questions):
        return None
    right, total, _ = tally(case, case.after)
    return (
        f"its votes are right on {right[at]} of {total[at]} labelled rows, and without it "
        f"{found.scoring} on the {int(shared.sum())} where others vote would be {found.second:.1%}, "
        f"not {found.first:.1%} (p = {found.p_value:.1g})"
    )


def _labels_without(case: Case, model: LabelModel, votes: Votes, at: int) -> np.ndarray:
    """The labels if one source had nothing to say; nothing is fitted again."""
    if not isinstance(model, TableModel):
        matrix = votes.matrix.copy()
        matrix[:, at] = ABSTAIN
        return case.labels_of(model, votes.with_matrix(matrix))
    # a detector's silence is evidence too, so its term is taken out instead of its vote
    term = model.log_likelihood_[at][votes.matrix[:, at].astype(np.intp) + 1]
    score = np.log(np.maximum(model.predict_proba(votes), 1e-300)) - term
    return np.asarray(score.argmax(axis=1))


def lent_votes(case: Case) -> Iterator[Finding]:
    """Lent votes are right less often than own ones: two shares, pooled z, at least 10 points.

    A warning where Wilson's lower limit does not lift them above chance either, a note otherwise.
    """
    own_right, own, _ = tally(case, case.before)
    right, total, chance = tally(case, case.after, case.after.cast & ~case.before.cast)
    with np.errstate(invalid="ignore", divide="ignore"):
        drop = own_right / own - right / total
        pooled = (own_right + right) / (own + total)
        z = drop / np.sqrt(pooled * (1 - pooled) * (1 / own + 1 / total))
    worse = (own >= _FEWEST) & (total >= _FEWEST) & (drop >= _DROP) & (z > certainty(len(total)))
    useless = limits(right, total, len(total))[0] <= chance
    for which, guess in ((worse & useless, " and no better than chance"), (worse & ~useless, "")):
        at = np.flatnonzero(which)[np.argsort(-drop[which], kind="stable")].tolist()
        if not at:
            continue
        told = [
            f"{case.sources[i]!r} on {right[i]} of {total[i]} labelled rows ({right[i] / total[i]:.0%}; "
            f"own votes {own_right[i]} of {own[i]}, {own_right[i] / own[i]:.0%})"
            for i in at
        ]
        floor = limits(own_right, own)[0]
        names = tuple(case.sources[i] for i in at)
        cure = "Set smaller radii for them, or None for no extension."
        if case.distance is not None:
            far = case.distance[case.known]
            better = {n: _nearer_radius(case, far, i, float(floor[i])) for n, i in zip(names, at)}
            cure = f"Set their radii to what held up here, None for no extension: {better}."
        yield Finding(
            "lent-votes",
            names,
            "warning" if guess else "note",
            f"Lent votes are clearly less accurate than own ones{guess}: {few(told)}.",
            cure,
        )


def _nearer_radius(case: Case, distance: np.ndarray, at: int, floor: float) -> float | None:
    """Where lent votes stop being right as often as `floor`, None if they never are.

    The radius with the largest sum of (right − floor): a rise of the mean alone would let a long
    good stretch pay for the bad one behind it.
    """
    lent = np.flatnonzero(case.after.cast[:, at] & ~case.before.cast[:, at])
    far = distance[lent, at]
    order = np.argsort(far, kind="stable")
    right = np.cumsum((case.after.matrix[lent, at] == case.y[lent])[order])
    count = np.arange(1, len(lent) + 1)
    last = np.r_[np.diff(far[order]) > 0, True]  # a radius takes all rows at its distance
    gain = np.where(last & (count >= _FEWEST), right - floor * count, -1.0)
    best = int(gain.argmax())
    return float(f"{far[order][best]:.3g}") if gain[best] >= 0 else None


def extension(case: Case) -> Iterator[Finding]:
    """The same label model on the votes as they were is better on the true labels, paired."""
    lent = case.after.cast & ~case.before.cast
    if case.label_model is None or not lent.any():
        return
    plain = _fitted(clone(case.label_model), case.own)
    if plain is None:
        return
    found = case.against(case.labels_of(plain, case.before))
    if found.second_wins():
        yield Finding(
            "extension-hurts",
            _names(case, lent.any(axis=0)),
            "warning",
            f"Extension lowers {found.scoring} on {case.judged.sum()} labelled rows from "
            f"{found.second:.1%} to {found.first:.1%} (p = {found.p_value:.1g}).",
            "Choose smaller radii with epoxy.tune, or extend nothing: radius={}.",
        )


def _names(case: Case, which: np.ndarray) -> tuple[str, ...]:
    return tuple(name for name, is_meant in zip(case.sources, which) if is_meant)


def _fitted(model: LabelModel, votes: Votes) -> LabelModel | None:
    try:
        fitted: LabelModel = model.fit(votes)
    except NotIdentifiable:
        return None
    return fitted


def losing_to_majority(case: Case) -> Iterator[Finding]:
    """Majority vote over the same extended votes is better on the true labels, paired."""
    if isinstance(case.label_model, MajorityVote) or not case.judged.any():
        return
    votes = case.extended_train
    majority = _fitted(MajorityVote(case.prior), votes)
    if majority is None:
        return
    found = case.against(case.labels_of(majority, case.after))
    if not found.second_wins():
        return
    use = "Epoxy(MajorityVote())" if case.label_model is None else "label_model=MajorityVote()"
    yield Finding(
        "loses-to-majority",
        (),
        "warning",
        f"{case.model} reaches {found.scoring} {found.first:.1%} on {case.judged.sum()} labelled "
        f"rows, majority vote over the same votes {found.second:.1%} (p = {found.p_value:.1g}).",
        f"Use {use}, or look at the sources it trusts.",
    )


def misaligned(case: Case) -> Iterator[Finding]:
    """Vectors of train or of the split looked at say nothing of its labels."""
    yield from unlike(case.train, case.split, case.metric)


def unlike(train: Split, split: Split, metric: str) -> Iterator[Finding]:
    """Nearest neighbours are no more alike than shuffled ones: kappa and its spread over shuffles.

    It speaks only where enough was seen: kappa within chance, and its upper limit below 0.25. True
    labels are asked where known. Otherwise both who votes what and the majority's label must be
    no more alike than chance: crowds vote on rows handed out at random, rules may abstain anywhere.
    """
    if train.vectors is not None:
        yield from _judge("train", *_likeness_of_votes(train, metric), None)
    if split is not train and split.vectors is not None:
        by_label = None
        known = split.labelled
        if known.any():
            by_label = likeness(split.vectors[known], split.truth[known, None], metric)
        yield from _judge("this split", *_likeness_of_votes(split, metric), by_label)


def _likeness_of_votes(split: Split, metric: str) -> tuple[Likeness | None, Likeness | None]:
    """Of the votes as they are, and of the majority's label where there is one."""
    assert split.vectors is not None  # asked before
    votes, covered = split.votes, split.votes.covered
    if not covered.any():
        return None, None
    counts = np.stack([(votes.matrix == k).sum(axis=1) for k in range(votes.n_classes)], axis=1)
    most = counts[covered].argmax(axis=1)[:, None]
    return (
        likeness(split.vectors, np.asarray(votes.matrix), metric),
        likeness(split.vectors[covered], most, metric),
    )


def _judge(
    where: str,
    by_vote: Likeness | None,
    by_majority: Likeness | None,
    by_label: Likeness | None,
) -> Iterator[Finding]:
    in_place = any(each is not None and each.is_there for each in (by_vote, by_majority))
    if by_label is not None:
        found, what, is_absent = by_label, "true labels", by_label.is_absent
    elif by_vote is not None:
        found, what = (by_vote, "votes") if by_majority is None else (by_majority, "majority votes")
        is_absent = by_vote.is_absent and found.is_absent
    else:
        return
    if not is_absent:
        return
    yield Finding(
        "uninformative-vectors" if in_place else "misaligned",
        (),
        "note" if in_place else "warning",
        f"On {where}, nearest neighbours agree on {found.agree:.0%} of {what} and shuffled ones on "
        f"{found.chance:.0%} ({found.n_rows} rows asked), so nearness says nothing.",
        "Their votes do agree, so the rows are in place: try another encoder for this label."
        if in_place
        else "Check that row i of the vectors is row i of the votes; if it is, try another encoder.",
    )


OUTCOME_CHECKS = (drowning, lent_votes, extension, losing_to_majority, misaligned)
"""In the order they are reported."""
