"""From hand labels to a correction: what is learned from them, and what is kept while votes change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..numerics import softmax
from ..workspace import TRAIN, HandLabels, Workspace
from .calibration import fit_scales, kinds_of
from .correction import Correction, Problem, believed, correct
from .fitted import FEATURE_SCALE, VOTE_SCALE, WEIGHTS, Corrected, Fitted, Rows, read
from .labelled import Labelled, Nearby, Place, likest, sample_of
from .sequence import whole_sequences
from .vectors import Vectors

RIDGES = {"majority": 12.0, "reach": 12.0, "pupil": 12.0, "echo": 12.0, "neighbours": 6.0}
NOISE = 0.05
"""Hand labels are taken to be wrong at least this often."""
FEWEST_NEAR = 5
"""Labelled rows from which the likest of them are asked."""

Said = list[dict[str, np.ndarray]]
"""For each split, what each expert says of its rows."""


class Teaching:
    """What depends on the labelled rows and the vectors, and not on votes."""

    def __init__(self, vectors: Vectors | None) -> None:
        self.vectors = vectors
        self._sample = None if vectors is None else sample_of(vectors.features)
        self._seen: HandLabels | None = None
        self._labelled: Labelled | None = None
        self._nearby: list[Nearby | None] = []
        self._others: Nearby | None = None
        self._grouped: np.ndarray | None = None
        self._scaled: tuple[Labelled, np.ndarray] | None = None
        self._memory: dict[int, Any] = {}  # of the last fit, by the number of experts

    def correct(
        self, workspace: Workspace, base: Fitted, rows: list[Rows], said: Said, told: float
    ) -> tuple[Fitted, np.ndarray]:
        """The model as the labels correct it, and held-out probabilities of the labelled rows.

        `told` is how often labels are wrong at least.
        """
        labels = workspace.labels
        labelled = None if base.view is None else self._taken_up(labels)
        order = np.arange(labels.count) if labelled is None else labelled.order
        back = np.argsort(order, kind="stable")  # from the order of places to the order kept

        def gathered(per_split: Sequence[np.ndarray]) -> np.ndarray:
            return np.asarray(labels.gather(per_split)[back])

        y, n_classes = gathered(labels.y), len(base.prior)
        heard = {
            name: gathered([each[name] for each in said])
            for name in base.experts
            if name in said[TRAIN]
        }
        if base.echo is not None and labelled is not None:
            heard["echo"] = base.echo.evidence(read(labelled.features, base.echo.weights)[0])
        groups = np.arange(len(y)) if labelled is None else labelled.groups
        groups = whole_sequences(groups, workspace.label_groups[back])
        votes = gathered([each.votes.T for each in rows]).T
        spread = VOTE_SCALE * (one_hot(votes, n_classes) - base.vote_mean)
        least = 0.95 * (n_classes - 1) / n_classes
        wrong = np.minimum(np.maximum(gathered(labels.wrong), told), least)

        def solved(heard: Mapping[str, np.ndarray]) -> Correction:
            start = base.start + sum(WEIGHTS[name] * each for name, each in heard.items())
            problem = Problem(
                start,
                np.stack(list(heard.values())),
                *self._material(labelled, spread.shape[1]),
                spread,
                y,
                np.maximum(wrong, min(NOISE, least)),
                len(np.unique(groups)) / len(y),
                np.array([RIDGES[name] for name in heard]),
            )
            found = correct(problem, groups, self._memory.get(len(heard)))
            self._memory[len(heard)] = found.memory
            return found

        found = None
        if labelled is not None and len(y) >= FEWEST_NEAR:
            near = self._of_other_groups(base, labelled, y, groups)
            found = solved({**heard, "neighbours": near})
            if WEIGHTS["neighbours"] + found.off[-1] < 0:
                # a row's neighbours lack its own label, so where labels are noise they speak against it
                found = None
        asked = found is not None
        if found is None:
            found = solved(heard)
        names = (*heard, "neighbours") if asked else tuple(heard)
        corrected = Corrected(
            labelled,
            y,
            found.dual,
            np.array([WEIGHTS[name] for name in names]) + found.off,
            found.bias,
            None if labelled is None else _of_features(labelled, found.dual),
            spread.T @ found.dual,
            asked,
        )
        kinds, held = kinds_of(votes, heard.get("pupil")), found.held_out
        scales = fit_scales(base.scales, held, believed(softmax(held), y, wrong), kinds)
        made = replace(base, corrected=corrected, scales=scales)
        return made, softmax(held * scales[kinds][:, None])[order]

    def _taken_up(self, labels: HandLabels) -> Labelled:
        """The labelled rows' features; what stays labelled is kept."""
        if self._labelled is not None and _same_rows(labels, self._seen):
            self._seen = labels
            return self._labelled
        vectors = self.vectors
        assert vectors is not None
        assert self._sample is not None
        places: list[Place] = [
            (number, int(row)) for number, at in enumerate(labels.order) for row in labels.rows[at]
        ]
        raw: Any = vectors.given
        given = (places, labels.gather(vectors.matrices), labels.gather(raw), self._sample)
        known = self._labelled
        self._labelled = Labelled.of(*given) if known is None else known.changed(*given)
        self._seen = labels
        return self._labelled

    def _material(
        self, labelled: Labelled | None, n_votes: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Features of the labelled rows as φ has them, and where these are many their inner products."""
        if labelled is None:
            return None, None
        if self._scaled is None or self._scaled[0] is not labelled:
            self._scaled = (labelled, FEATURE_SCALE * labelled.features.astype(np.float64))
        few = len(labelled) < labelled.features.shape[1] + n_votes
        return self._scaled[1], FEATURE_SCALE**2 * labelled.products if few else None

    def _of_other_groups(
        self, base: Fitted, labelled: Labelled, y: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """What the likest labelled rows say of each labelled row, its own group not asked."""
        known = self._grouped is not None and np.array_equal(self._grouped, groups)
        if self._others is None or self._others.labelled is not labelled or not known:
            kept = labelled.kept
            like = np.where(groups[:, None] == groups[kept], -np.inf, labelled.likeness[:, kept])
            self._others, self._grouped = likest(labelled, like), groups
        nothing = np.zeros((0, len(base.prior)))
        only = Corrected(labelled, y, nothing, nothing, nothing, None, nothing, True)
        return replace(base, corrected=only).of_neighbours(self._others)

    def with_neighbours(self, rows: list[Rows]) -> list[Rows]:
        """Every row's likest labelled rows; lists are kept while the labelled rows stay."""
        labelled, vectors = self._labelled, self.vectors
        assert labelled is not None
        assert vectors is not None
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


def _same_rows(labels: HandLabels, other: HandLabels | None) -> bool:
    """Whether the same rows are labelled, whatever their labels are."""
    if labels is other:
        return True
    if other is None or len(labels.y) != len(other.y):
        return False
    return all(map(np.array_equal, labels.rows, other.rows))


def one_hot(votes: np.ndarray, n_classes: int) -> np.ndarray:
    """(n_sources, n_rows) votes as (n_rows, n_classes · n_sources) of zeros and ones, class by class."""
    return np.hstack([(label == votes.T) for label in range(n_classes)]).astype(np.float64)


def vote_mean(votes: np.ndarray, n_classes: int) -> np.ndarray:
    """How often each source names each class; (n_classes · n_sources,)."""
    counts = [np.count_nonzero(votes == label, axis=1) for label in range(n_classes)]
    return np.asarray(np.concatenate(counts) / max(1, votes.shape[1]))


def _of_features(labelled: Labelled, dual: np.ndarray) -> np.ndarray:
    small = np.ascontiguousarray(dual.T, dtype=np.float32)
    weights = np.stack([each @ labelled.features for each in small], axis=1)
    return np.asarray(np.float32(FEATURE_SCALE**2) * weights)
