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
from .fitted import Corrected, Fitted, Rows
from .labellers import confused, evenly, ridges
from .labels import Correction, Problem, believed, correct, slips
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


@dataclass(frozen=True, eq=False)
class Lesson:
    """Labelled rows as the correction reads them."""

    y: np.ndarray
    rows: Rows
    said: Said  # before labels
    offset: np.ndarray  # logits before
    features: np.ndarray | None
    likest: np.ndarray | None  # what the likest others say
    groups: np.ndarray

    def only(self, some: np.ndarray) -> Lesson:
        """The same of some of them."""
        return Lesson(
            self.y[some],
            self.rows.take(np.flatnonzero(some)),
            {name: each[some] for name, each in self.said.items()},
            self.offset[some],
            None if self.features is None else self.features[some],
            None if self.likest is None else self.likest[some],
            self.groups[some],
        )


def taught_by(
    base: Fitted,
    workspace: Workspace,
    rows: list[Rows],
    said: list[Said],
    known: Taught | None,
    noise: float,
) -> tuple[Fitted, np.ndarray]:
    """The model as the labels correct it, and held-out probabilities of the labelled rows."""
    labels, n_classes = workspace.labels, len(base.prior)
    mine = _gathered(labels, rows)
    say = {name: labels.gather([each[name] for each in said]) for name in said[0]}
    y = labels.labels
    lesson = Lesson(y, mine, say, _offset(base, mine, say), None, None, workspace.label_groups)
    doubted = labels.noise > 0
    wrong = slips(np.maximum(labels.noise, noise), n_classes)
    ways = [lesson]
    if known is not None:
        asked = known.themselves.evidence(y, base.prior) if len(y) >= LIKEST else None
        sighted = replace(lesson, features=known.features, likest=asked, groups=known.groups)
        ways = [sighted] if tells(base) else [lesson, sighted]
        if len(y) < FEWEST:
            ways = ways[:1]
    made = [_taught(base, each, y, wrong, doubted) for each in ways]
    best, found = ways[0], made[0]
    scale = base.scale(mine)[:, None]
    if len(made) > 1 and _surely_better(
        labels, *(softmax(scale * each.held_out) for each in made[::-1])
    ):
        best, found = ways[1], made[1]
    features, of_features, votes = best.features, None, base.spread(mine)
    if features is not None:
        of_features = LOUD_FEATURES * (features.T @ found.dual.astype(np.float32))
    of_votes = LOUD_VOTES * (votes.T @ found.dual)
    shown = (y, tuple(places_of(labels)), votes, features)
    corrected = Corrected(*shown, found.dual, found.moved, found.bias, of_features, of_votes)
    return replace(base, corrected=corrected), softmax(scale * found.held_out)


def _taught(
    base: Fitted, lesson: Lesson, y: np.ndarray, wrong: np.ndarray, doubted: np.ndarray
) -> Correction:
    """The correction; without the likest labelled rows where these speak against labels."""
    likelihood, first = evenly(y, wrong, len(base.prior)), _with_likest(lesson)
    if doubted.any():
        logits, ridge = _by_trusted(base, lesson, likelihood, doubted)
        likelihood[doubted], bias = confused(logits, y[doubted], wrong[doubted], ridge)
        first = first.copy()
        first[doubted] = logits + bias
    q = believed(first, likelihood)
    found = correct(_problem(base, lesson, q))
    if lesson.likest is not None and LIKEST_WEIGHT + found.moved["likest"] < 0:
        # a row's likest lack its own label, so where labels are noise they speak against it
        found = correct(_problem(base, replace(lesson, likest=None), q))
    return found


def _by_trusted(
    base: Fitted, lesson: Lesson, likelihood: np.ndarray, doubted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of the rows whose label may be wrong, by the model that trusted labels alone taught.

    And how strongly a bias of them is drawn to zero: trusted labels tell the balance too.
    """
    ask, teach = (
        replace(lesson, likest=None).only(doubted),
        replace(lesson, likest=None).only(~doubted),
    )
    logits, ridge = ask.offset, ridges(base.balance.low, base.balance.high)
    if not len(teach.y):
        return logits, ridge
    q = believed(teach.offset, likelihood[~doubted])
    problem = _problem(base, teach, q)
    found = correct(problem)
    kernel = LOUD_VOTES**2 * base.spread(ask.rows) @ base.spread(teach.rows).T
    if ask.features is not None and teach.features is not None:
        kernel = kernel + LOUD_FEATURES**2 * (ask.features @ teach.features.T)
    logits = logits + found.bias + kernel @ found.dual
    for name, each in _sides(ask).items():
        logits = logits + found.moved[name] * each
    held = softmax(found.held_out)
    return logits, ridge + (held * (1 - held)).sum(axis=0)


def _problem(base: Fitted, lesson: Lesson, q: np.ndarray) -> Problem:
    offset, sides = _with_likest(lesson), _sides(lesson)
    return Problem(offset, sides, lesson.features, base.spread(lesson.rows), q, lesson.groups)


def _with_likest(lesson: Lesson) -> np.ndarray:
    if lesson.likest is None:
        return lesson.offset
    return np.asarray(lesson.offset + LIKEST_WEIGHT * lesson.likest)


def _sides(lesson: Lesson) -> dict[str, np.ndarray]:
    """Parts whose weights labels may move: what is read off vectors is moved together."""
    found = {"votes": lesson.said["votes"]}
    if "vectors" in lesson.said:
        found["vectors"] = lesson.said["vectors"] + lesson.said["neighbours"]
    if lesson.likest is not None:
        found["likest"] = lesson.likest
    return found


def _offset(base: Fitted, rows: Rows, said: Said) -> np.ndarray:
    return np.asarray(base.start(rows, said) + sum(said.values()))


def _gathered(labels: HandLabels, rows: list[Rows]) -> Rows:
    """The labelled rows of all splits, without what is read off vectors."""
    own = labels.gather([each.own.T for each in rows]).T
    return Rows(own, labels.gather([each.lent.T for each in rows]).T)


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
