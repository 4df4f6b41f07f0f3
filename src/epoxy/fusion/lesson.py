"""What the correction learns from: labelled rows as experts, votes and labellers leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..workspace import TRAIN, HandLabels, Workspace
from .calibration import kinds_of
from .correction import Problem
from .fitted import WEIGHTS, Fitted, Rows, read
from .groups import Spacing
from .labelled import Labelled
from .sequence import whole_sequences

RIDGES = dict.fromkeys(WEIGHTS, 12.0) | {"neighbours": 6.0}
SLIPS = (0.01, 0.05)
"""About one of all labels is taken to be a slip: of many at least this share, of few at most that."""
FEWEST_JUDGES = 20
"""Trusted labels from which they alone say how sure a model without vectors may be."""

Said = list[dict[str, np.ndarray]]
"""For each split, what each expert says of its rows."""


@dataclass(frozen=True, eq=False)
class TakenUp:
    """Labelled rows, how near they lie, and groups of them that are left out together."""

    labels: HandLabels
    rows: Labelled
    spacing: Spacing
    groups: np.ndarray  # (m,)


@dataclass(frozen=True, eq=False)
class Lesson:
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
        known: TakenUp | None,
    ) -> Lesson:
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

    def only(self, rows: np.ndarray) -> Lesson:
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
class Belief:
    """How far labels are believed."""

    floored: np.ndarray  # (m, K) Pr(label_i | k), never surer than any label is taken to be
    told: np.ndarray  # (m, K) the same as far as it was told
    doubted: np.ndarray | None  # logits of doubted rows by a model that trusted labels taught


def logits_before(base: Fitted, lesson: Lesson) -> np.ndarray:
    """Logits before labels move anything; (m, K)."""
    found = base.start + sum(WEIGHTS[name] * each for name, each in lesson.heard.items())
    return found if base.lean is None else found + (lesson.kinds > 0)[:, None] * base.lean


def problem_of(
    base: Fitted, lesson: Lesson, belief: Belief, loudness: np.ndarray | None
) -> Problem:
    """What is to be solved where features are so loud, (n_features,); None without vectors."""
    labelled, features, products = lesson.labelled, None, None
    if labelled is not None and loudness is not None:
        heard = loudness > 0
        features = loudness[heard] * labelled.features[:, heard].astype(np.float64)
        few = len(labelled) < features.shape[1] + lesson.votes.shape[1]
        products = labelled.products(loudness) if few else None
    offset = logits_before(base, lesson)
    first = offset
    if belief.doubted is not None:
        first = offset.copy()
        first[lesson.fallible] = belief.doubted
    return Problem(
        offset,
        np.stack(list(lesson.heard.values())),
        features,
        products,
        lesson.votes,
        lesson.y,
        belief.floored,
        first,
        len(np.unique(lesson.groups)) / len(lesson.y),
        np.array([RIDGES[name] for name in lesson.heard]),
    )
