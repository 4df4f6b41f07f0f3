"""From hand labels to a correction: what is learned from them, and what is kept while votes change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..numerics import softmax
from ..workspace import TRAIN, HandLabels, Workspace
from .calibration import VOICES, VOICES_WITHOUT_VECTORS, fit_scales, kinds_of
from .correction import Correction, Memory, Problem, believed, correct
from .fallible import confused, evenly, ridges
from .features import View
from .fitted import FEATURE_SCALE, WEIGHTS, Corrected, Fitted, Rows, read
from .groups import Spacing
from .labelled import Labelled, Nearby, Place
from .sequence import whole_sequences

RIDGES = dict.fromkeys(WEIGHTS, 12.0) | {"neighbours": 6.0}
SLIPS = (0.01, 0.05)
"""About one of all labels is taken to be a slip: of many at least this share, of few at most that."""
FEWEST_NEAR = 5
"""Labelled rows from which the likest of them are asked."""
FEWEST_JUDGES = 20
"""Trusted labels from which they alone say how sure a model without vectors may be."""

Said = list[dict[str, np.ndarray]]
"""For each split, what each expert says of its rows."""


@dataclass(frozen=True, eq=False)
class _TakenUp:
    """Labelled rows, how near they lie, and groups of them that are left out together."""

    labels: HandLabels
    rows: Labelled
    spacing: Spacing
    groups: np.ndarray  # (m,)


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What the correction learns from; labelled rows in the order in which they are kept."""

    labelled: Labelled | None
    order: np.ndarray  # (m,) the labelled rows by their places
    y: np.ndarray  # (m,)
    heard: dict[str, np.ndarray]  # what each expert says of them, (m, n_classes)
    votes: np.ndarray  # (m, n_classes · n_sources) of φ, scaled
    kinds: np.ndarray  # (m,) which scale is a row's
    wrong: np.ndarray  # (m,) how often such a label is told to be wrong
    fallible: np.ndarray  # (m,) bool: labels of people who may err
    groups: np.ndarray  # (m,) left out together

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        base: Fitted,
        rows: list[Rows],
        said: Said,
        told: float,
        known: _TakenUp | None,
    ) -> _Lesson:
        """From votes, vectors and hand labels of all splits."""
        labels, n_classes = workspace.labels, len(base.prior)
        labelled = None if known is None else known.rows
        order = np.arange(labels.count) if labelled is None else labelled.order
        back = np.argsort(order, kind="stable")  # from the order of places to the order kept

        def gathered(per_split: Sequence[np.ndarray]) -> np.ndarray:
            return np.asarray(labels.gather(per_split)[back])

        names = [name for name in base.experts if name in said[TRAIN]]
        heard = {name: gathered([each[name] for each in said]) for name in names}
        if base.echo is not None and labelled is not None:
            heard["echo"] = base.echo.evidence(read(labelled.features, base.echo.weights)[0])
        votes = gathered([each.votes.T for each in rows]).T
        cast = gathered([each.cast.T for each in rows]).T
        doubted = gathered(labels.wrong)
        wrong = np.maximum(doubted, told)
        groups = np.arange(labels.count) if known is None else known.groups
        return cls(
            labelled,
            order,
            gathered(labels.y),
            heard,
            base.spread(cast),
            kinds_of(votes, heard.get("pupil")),
            np.minimum(wrong, 0.95 * (n_classes - 1) / n_classes),
            doubted > 0,
            whole_sequences(groups, workspace.label_groups[back]),
        )

    @property
    def floor(self) -> np.ndarray:
        """How often labels are taken to be wrong; (m,).

        One slip among few would bend all that a sure model says. Among many the others outvote it, and
        where many contradict a sure model it is the model that errs.
        """
        return np.asarray(np.maximum(self.wrong, np.clip(1 / len(self.y), *SLIPS)))

    @property
    def hears_vectors(self) -> bool:
        """Whether what vectors say without labels is heard, so that the scales are those of vectors."""
        return "pupil" in self.heard

    @property
    def judges(self) -> np.ndarray:
        """The rows that say how sure the model may be: trusted ones.

        A label that may be wrong is believed by what the model says of its row, and agrees with it too
        well. Without vectors, where so little else is known of the scales, it is heard nevertheless while
        few are trusted.
        """
        trusted = ~self.fallible
        if self.hears_vectors or trusted.sum() >= FEWEST_JUDGES:
            return trusted
        return np.ones(len(self.y), bool)

    def only(self, rows: np.ndarray) -> _Lesson:
        """The same of some of the labelled rows."""
        return replace(
            self,
            labelled=None if self.labelled is None else self.labelled.only(rows),
            order=np.arange(int(rows.sum())),
            y=self.y[rows],
            heard={name: each[rows] for name, each in self.heard.items()},
            votes=self.votes[rows],
            kinds=self.kinds[rows],
            wrong=self.wrong[rows],
            fallible=self.fallible[rows],
            groups=self.groups[rows],
        )


@dataclass(frozen=True, eq=False)
class _Belief:
    """How far labels are believed."""

    floored: np.ndarray  # (m, K) Pr(label_i | k), never surer than any label is taken to be
    told: np.ndarray  # (m, K) the same as far as it was told
    doubted: np.ndarray | None  # logits of doubted rows by a model that trusted labels taught


class Seen(Protocol):
    """Vectors and features as teaching sees them: of the splits that hold labelled rows."""

    given: tuple[np.ndarray | None, ...]
    matrices: tuple[np.ndarray, ...]
    view: View

    n_known: int
    """Train rows, from the first on, that are as the vectors before saw them."""

    def spacing(self) -> Spacing:
        """How near train rows lie to labelled rows, before any is labelled."""

    def lengths(self, at: int) -> np.ndarray:
        """Lengths of a split's features; (n_rows,)."""

    @property
    def gram(self) -> np.ndarray:
        """ΦᵀΦ of the train rows."""


class Teaching:
    """What depends on the labelled rows and the vectors, and not on votes."""

    def __init__(self, vectors: Seen | None) -> None:
        self.vectors = vectors
        self._known: _TakenUp | None = None
        self._nearby: list[Nearby | None] = []
        self._others: Nearby | None = None
        self._grouped: np.ndarray | None = None
        self._memory: dict[int, Memory] = {}  # of the last fit, by number of experts; 0: trusted

    def over(self, vectors: Seen | None) -> Teaching:
        """The same over other vectors; what rows that these see alike have taught is kept."""
        found, known = Teaching(vectors), self._known
        if vectors is None or known is None:
            return found
        if not all(row < vectors.n_known for row in [0, *known.labels.rows[TRAIN]]):
            return found
        found._take_up(known.labels, known.rows, vectors.spacing(), np.empty(0, dtype=np.intp))
        found._others, found._grouped, found._memory = self._others, self._grouped, self._memory
        found._nearby = [
            None if each is None else each.resized(vectors.matrices[at], vectors.lengths(at))
            for at, each in enumerate(self._nearby)
        ]
        return found

    def correct(
        self, workspace: Workspace, base: Fitted, rows: list[Rows], said: Said, told: float
    ) -> tuple[Fitted, np.ndarray]:
        """The model as the labels correct it, and held-out probabilities of the labelled rows.

        `told` is how often labels are wrong at least.
        """
        known = None if base.view is None else self._taken_up(workspace.labels)
        lesson = _Lesson.of(workspace, base, rows, said, told, known)
        belief = self._belief(base, lesson)
        labelled, found, names = lesson.labelled, None, [*lesson.heard, "neighbours"]
        if labelled is not None and len(lesson.y) >= FEWEST_NEAR:
            near = self._of_other_groups(base, labelled, lesson.y, lesson.groups)
            heard = {**lesson.heard, "neighbours": near}
            found = self._solved(base, replace(lesson, heard=heard), belief)
            if WEIGHTS["neighbours"] + found.off[-1] < 0:
                # a row's neighbours lack its own label, so where labels are noise they speak against it
                found = None
        asked = found is not None
        if found is None:
            found, names = self._solved(base, lesson, belief), names[:-1]
        corrected = Corrected(
            labelled,
            lesson.y,
            found.dual,
            np.array([WEIGHTS[name] for name in names]) + found.off,
            found.bias,
            None if labelled is None else _of_features(labelled, found.dual),
            lesson.votes.T @ found.dual,
            asked,
        )
        kinds, held = lesson.kinds, found.held_out
        labels = believed(softmax(held), belief.told)
        some = lesson.judges
        voices = VOICES if lesson.hears_vectors else VOICES_WITHOUT_VECTORS
        scales = fit_scales(base.scales, held[some], labels[some], kinds[some], voices)
        made = replace(base, corrected=corrected, scales=scales)
        return made, softmax(held * scales[kinds][:, None])[lesson.order]

    def _belief(self, base: Fitted, lesson: _Lesson) -> _Belief:
        """How often labels are right: evenly, and for labels of people who may err by class."""
        n_classes, rows = len(base.prior), lesson.fallible
        floor = lesson.floor
        floored, told = (evenly(lesson.y, each, n_classes) for each in (floor, lesson.wrong))
        if not rows.any():
            return _Belief(floored, told, None)
        logits, ridge = self._by_trusted(base, lesson)
        floored[rows], bias = confused(logits, lesson.y[rows], floor[rows], ridge)
        told[rows] = floored[rows]
        return _Belief(floored, told, logits + bias)

    def _by_trusted(self, base: Fitted, lesson: _Lesson) -> tuple[np.ndarray, np.ndarray]:
        """Logits of the rows whose label may be wrong, by the model that trusted labels alone taught.

        And how strongly a bias of them is drawn to zero: trusted labels tell the balance too.
        """
        asked, taught = lesson.only(lesson.fallible), lesson.only(~lesson.fallible)
        logits, ridge = _offset(base, asked), ridges(base.balance.low, base.balance.high)
        if not len(taught.y):
            return logits, ridge
        even = evenly(taught.y, taught.floor, len(base.prior))
        found = self._solved(base, taught, _Belief(even, even, None), key=0)
        logits = logits + found.bias + asked.votes @ (taught.votes.T @ found.dual)
        for off, each in zip(found.off, asked.heard.values()):
            logits = logits + off * each
        if asked.labelled is not None and taught.labelled is not None:
            weights = FEATURE_SCALE**2 * taught.labelled.features.astype(np.float64).T @ found.dual
            logits = logits + asked.labelled.features.astype(np.float64) @ weights
        held = softmax(found.held_out)
        return np.asarray(logits), ridge + (held * (1 - held)).sum(axis=0)

    def _solved(
        self, base: Fitted, lesson: _Lesson, belief: _Belief, key: int | None = None
    ) -> Correction:
        """The correction of what some experts say; `key` names where the next fit like it may start."""
        heard, labelled, products = lesson.heard, lesson.labelled, None
        if labelled is not None:
            few = len(labelled) < labelled.features.shape[1] + lesson.votes.shape[1]
            products = FEATURE_SCALE**2 * labelled.products if few else None
        offset = _offset(base, lesson)
        first = offset
        if belief.doubted is not None:
            first = offset.copy()
            first[lesson.fallible] = belief.doubted
        problem = Problem(
            offset,
            np.stack(list(heard.values())),
            None if labelled is None else FEATURE_SCALE * labelled.features.astype(np.float64),
            products,
            lesson.votes,
            lesson.y,
            belief.floored,
            first,
            len(np.unique(lesson.groups)) / len(lesson.y),
            np.array([RIDGES[name] for name in heard]),
        )
        key = len(heard) if key is None else key
        found = correct(problem, lesson.groups, self._memory.get(key))
        self._memory[key] = found.memory
        return found

    def _taken_up(self, labels: HandLabels) -> _TakenUp:
        """The labelled rows; what stays labelled is kept."""
        known, vectors = self._known, self.vectors
        if known is not None and _same_rows(labels, known.labels):
            return known
        assert vectors is not None
        places: list[Place] = [
            (number, int(row)) for number, at in enumerate(labels.order) for row in labels.rows[at]
        ]
        raw: Any = vectors.given
        given = (places, labels.gather(vectors.matrices), labels.gather(raw))
        if known is None:
            rows, moved = Labelled.of(*given), np.empty(0, dtype=np.intp)
            spacing = vectors.spacing()
        else:
            (rows, moved), spacing = known.rows.changed(*given), known.spacing
        return self._take_up(labels, rows, spacing, moved)

    def _take_up(
        self, labels: HandLabels, rows: Labelled, spacing: Spacing, moved: np.ndarray
    ) -> _TakenUp:
        units, order = rows.units, rows.order
        spacing = spacing.changed(units, moved)
        groups = spacing.groups(units[order], rows.twins[order])[rows.rank]
        self._known = _TakenUp(labels, rows, spacing, groups)
        return self._known

    def _of_other_groups(
        self, base: Fitted, labelled: Labelled, y: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """What the likest labelled rows say of each labelled row, its own group not asked."""
        known = self._grouped is not None and np.array_equal(self._grouped, groups)
        if self._others is None or self._others.labelled is not labelled or not known:
            self._others = Nearby.of(labelled.features, labelled.lengths, labelled, groups)
            self._grouped = groups
        nothing = np.zeros((0, len(base.prior)))
        only = Corrected(labelled, y, nothing, nothing, nothing, None, nothing, True)
        return replace(base, corrected=only).of_neighbours(self._others)

    def with_neighbours(self, rows: list[Rows]) -> list[Rows]:
        """Every row's likest labelled rows; lists are kept while the labelled rows stay."""
        known, vectors = self._known, self.vectors
        assert known is not None
        assert vectors is not None
        labelled = known.rows
        if len(self._nearby) != len(rows):
            self._nearby = [None] * len(rows)
        made = []
        for at, each in enumerate(rows):
            near = self._nearby[at]
            if near is None or near.labelled is not labelled:
                given = (vectors.matrices[at], vectors.lengths(at), labelled)
                near = Nearby.of(*given) if near is None else near.changed(*given)
                self._nearby[at] = near
            made.append(replace(each, nearby=near))
        return made


def _offset(base: Fitted, lesson: _Lesson) -> np.ndarray:
    """Logits before labels move anything; (m, K)."""
    found = base.start + sum(WEIGHTS[name] * each for name, each in lesson.heard.items())
    return found if base.lean is None else found + (lesson.kinds > 0)[:, None] * base.lean


def surely_better(workspace: Workspace, first: np.ndarray, second: np.ndarray) -> bool:
    """Whether labels held out are foretold better, by log loss and three standard errors.

    Judged by the rows drawn at random as far as is known, or else by all.
    """
    labels = workspace.labels
    rows = labels.representative if labels.representative.any() else np.ones(labels.count, bool)
    at = np.arange(labels.count), labels.labels
    said = [np.log(np.maximum(each[at][rows], 1e-15)) for each in (first, second)]
    gain = said[0] - said[1]
    return bool(gain.mean() > 3 * gain.std() / np.sqrt(len(gain)))


def _same_rows(labels: HandLabels, other: HandLabels) -> bool:
    """Whether the same rows are labelled, whatever their labels are."""
    if labels is other:
        return True
    return len(labels.y) == len(other.y) and all(map(np.array_equal, labels.rows, other.rows))


def vote_mean(votes: np.ndarray, n_classes: int) -> np.ndarray:
    """How often each source names each class; (n_classes · n_sources,)."""
    counts = [np.count_nonzero(votes == label, axis=1) for label in range(n_classes)]
    return np.asarray(np.concatenate(counts) / max(1, votes.shape[1]))


def _of_features(labelled: Labelled, dual: np.ndarray) -> np.ndarray:
    small = np.ascontiguousarray(dual.T, dtype=np.float32)
    weights = np.stack([each @ labelled.features for each in small], axis=1)
    return np.asarray(np.float32(FEATURE_SCALE**2) * weights)
