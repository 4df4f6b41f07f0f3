"""From the hand labels of a workspace to the corrected model: who labelled what, how far it is believed.

Labels of people who may err are believed as far as a model taught by trusted labels alone finds them likely,
with a rate for each class (`labellers`). Vectors that tell nothing of votes are heard by labels only where
they surely foretell labels held out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..numerics import softmax
from ..workspace import HandLabels, Workspace
from .around import Vectors
from .constants import LIKEST, LIKEST_WEIGHT, LOUD_FEATURES, LOUD_VOTES
from .correction import Correction, Lesson, believed, correct, slips
from .fitted import Corrected, Fitted, SeenRows
from .labellers import confused, evenly, ridges
from .likest import Likest, asked_of, units_of
from .sequence import whole_sequences
from .unlabelled import Said, tells

FEWEST = 10
"""Labels from which they may find vectors telling that votes do not."""


@dataclass(frozen=True, eq=False)
class Taught:
    """The labelled rows: who is like them, which depends on vectors and on which rows these are."""

    vectors: Vectors
    labels: HandLabels
    features: np.ndarray  # (m, n_features) float32
    units: np.ndarray
    asked: np.ndarray  # numbers of those that are asked
    likest: tuple[Likest, ...]  # of every split
    themselves: Likest  # of the labelled rows, nobody of their own group
    groups: np.ndarray  # (m,) rows held out together: of one sequence, or with equal vectors

    @classmethod
    def of(cls, workspace: Workspace, vectors: Vectors, known: Taught | None) -> Taught:
        """Of the rows that are labelled; lists of before are joined by new ones where none was taken away."""
        labels = workspace.labels
        if known is not None and known.vectors is vectors and _same_rows(labels, known.labels):
            return known
        features = np.asarray(labels.gather(vectors.features), np.float32)
        units, asked = units_of(features), asked_of(places_of(labels))
        same = [hash(each.tobytes()) for each in labels.gather(vectors.given)]
        twins = np.unique(same, return_inverse=True)[1]
        groups = whole_sequences(twins, workspace.label_groups)
        themselves = Likest.of(features, units, asked, (groups, groups))
        before = None
        if known is not None and known.vectors is vectors:
            now = {place: number for number, place in enumerate(places_of(labels))}
            moved = np.array([now.get(place, -1) for place in places_of(known.labels)], np.intp)
            kept = moved[known.asked]
            if np.isin(kept, asked).all() and (kept >= 0).all():
                before = (moved, np.setdiff1d(asked, kept))
        found = []
        for at, each in enumerate(vectors.features):
            if before is None or known is None:
                found.append(Likest.of(each, units, asked))
            else:
                more = Likest.of(each, units, before[1])
                found.append(known.likest[at].joined_by(more, before[0]))
        return cls(vectors, labels, features, units, asked, tuple(found), themselves, groups)


def places_of(labels: HandLabels) -> list[tuple[int, int]]:
    """The number of the split among those listed, and the row, of each labelled row."""
    return [(at, int(row)) for at, split in enumerate(labels.order) for row in labels.rows[split]]


def taught_by(
    base: Fitted,
    workspace: Workspace,
    rows: list[SeenRows],
    said: list[Said],
    known: Taught | None,
    noise: float,
) -> tuple[Fitted, np.ndarray]:
    """The model as the labels correct it, and held-out probabilities of the labelled rows."""
    labels, n_classes = workspace.labels, len(base.prior)
    mine, y = _gathered(labels, rows), labels.labels
    say = {name: labels.gather([each[name] for each in said]) for name in said[0]}
    before = np.asarray(base.start(mine, say) + sum(say.values()))
    sides = {"votes": say["votes"]}
    if "vectors" in say:  # what is read off vectors is moved together
        sides["vectors"] = say["vectors"] + say["neighbours"]
    lesson = Lesson(before, sides, None, base.spread(mine), workspace.label_groups)
    ways = [lesson]
    if known is not None:
        if len(y) >= LIKEST:
            sides = sides | {"likest": known.themselves.evidence(y, base.prior)}
        sighted = replace(lesson, sides=sides, features=known.features, groups=known.groups)
        ways = [sighted] if tells(base) else [lesson, sighted]
        if len(y) < FEWEST:
            ways = ways[:1]
    wrong = slips(np.maximum(labels.noise, noise), n_classes)
    made = [_taught(base, each, y, wrong, labels.noise > 0) for each in ways]
    features, found, scale = ways[0].features, made[0], base.scale(mine)[:, None]
    if len(made) > 1 and _surely_better(
        labels, *(softmax(scale * each.held_out) for each in made[::-1])
    ):
        features, found = ways[1].features, made[1]
    of_features = None
    if features is not None:
        of_features = LOUD_FEATURES * (features.T @ found.dual.astype(np.float32))
    of_votes = LOUD_VOTES * (lesson.votes.T @ found.dual)
    shown = (y, tuple(places_of(labels)), lesson.votes, features)
    corrected = Corrected(*shown, found.dual, found.moved, found.bias, of_features, of_votes)
    return replace(base, corrected=corrected), softmax(scale * found.held_out)


def _taught(
    base: Fitted, lesson: Lesson, y: np.ndarray, wrong: np.ndarray, doubted: np.ndarray
) -> Correction:
    """The correction; without the likest labelled rows where these speak against labels."""
    likelihood, first = evenly(y, wrong, len(base.prior)), lesson.offset
    if doubted.any():
        logits, ridge = _by_trusted(base, lesson.without("likest"), likelihood, doubted)
        likelihood[doubted], bias = confused(logits, y[doubted], wrong[doubted], ridge)
        first = first.copy()
        first[doubted] = logits + bias
    q = believed(first, likelihood)
    found = correct(lesson, q)
    if LIKEST_WEIGHT + found.moved.get("likest", 0.0) < 0:
        # a row's likest lack its own label, so where labels are noise they speak against it
        found = correct(lesson.without("likest"), q)
    return found


def _by_trusted(
    base: Fitted, lesson: Lesson, likelihood: np.ndarray, doubted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of the rows whose label may be wrong, by the model that trusted labels alone taught.

    And how strongly a bias of them is drawn to zero: trusted labels tell the balance too.
    """
    ask, teach = lesson.only(doubted), lesson.only(~doubted)
    ridge = ridges(base.balance.low, base.balance.high)
    if not len(teach.before):
        return ask.offset, ridge
    found = correct(teach, believed(teach.offset, likelihood[~doubted]))
    logits = ask.offset + ask.psi @ (teach.psi.T @ found.dual)
    for name, each in ask.sides.items():
        logits = logits + found.moved[name] * each
    held = softmax(found.held_out)
    return logits, ridge + (held * (1 - held)).sum(axis=0)


def _gathered(labels: HandLabels, rows: list[SeenRows]) -> SeenRows:
    """The labelled rows of all splits, without what is read off vectors."""
    own = labels.gather([each.own.T for each in rows]).T
    return SeenRows(own, labels.gather([each.votes.T for each in rows]).T)


def _surely_better(labels: HandLabels, first: np.ndarray, second: np.ndarray) -> bool:
    """Whether labels held out are foretold better, by log loss and three standard errors.

    Judged by the rows drawn at random as far as is known, or else by all.
    """
    rows = labels.representative if labels.representative.any() else np.ones(labels.count, bool)
    at = np.arange(labels.count), labels.labels
    said = [np.log(np.maximum(each[at][rows], 1e-15)) for each in (first, second)]
    gain = said[0] - said[1]
    return bool(gain.mean() > 3 * gain.std() / np.sqrt(len(gain)))


def _same_rows(labels: HandLabels, other: HandLabels) -> bool:
    return labels is other or (
        len(labels.y) == len(other.y) and all(map(np.array_equal, labels.rows, other.rows))
    )
