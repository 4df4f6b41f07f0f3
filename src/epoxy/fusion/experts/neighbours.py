"""The nearest hand-labelled rows, the nearer the louder: a twin of a labelled row says nearly all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import evidence as ev
from ..geometry import unit
from ..rows import Rows
from .base import Lesson, Reason

__all__ = ["Neighbours"]

MOST = 1000
"""Hand-labelled rows kept at most: the cost of asking stays bounded however many dev rows there are."""
PRIOR_VOICES = 2.0
SHARPNESS = 0.02


@dataclass(frozen=True)
class Neighbours:
    """Labels of the nearest dev rows, weighted by s² / (1.02 − s) for likeness s.

    The prior takes part with two voices: far neighbours say little, a twin, worth fifty, almost all.
    """

    name: str = "neighbours"
    k: int = 5
    teaches = False  # comparing all train rows with all dev rows would cost too much in every refit

    def fit(self, lessons: Sequence[Lesson]) -> list[Near | None]:
        """Remember the dev rows."""
        return [self._fit(each) for each in lessons]

    def _fit(self, lesson: Lesson) -> Near | None:
        if lesson.dev is None or lesson.y is None or lesson.dev.features is None:
            return None
        kept = np.arange(len(lesson.y))
        if len(kept) > MOST:
            kept = _spread_by_content(lesson.dev.features)
        features = unit(lesson.dev.features[kept])
        labels = np.eye(lesson.n_classes)[lesson.y[kept]]
        return Near(features, labels, kept, lesson.prior, min(self.k, len(kept)))


@dataclass(frozen=True, eq=False)
class Near:
    """The hand-labelled rows to be compared with."""

    features: np.ndarray  # (n_kept, n_features) unit length
    labels: np.ndarray  # (n_kept, n_classes) one-hot
    kept: np.ndarray  # (n_kept,) which dev rows they are
    prior: np.ndarray  # (n_classes,)
    k: int

    def evidence(self, rows: Rows, read: np.ndarray | None = None) -> np.ndarray:
        """Weighted shares of the labels near each row, against the prior."""
        if rows.features is None:
            return np.zeros((len(rows), len(self.prior)))
        found = np.empty((len(rows), len(self.prior)))
        for start in range(0, len(rows), 4096):
            part = slice(start, start + 4096)
            near, _, weight = self._near(rows.features[part], rows.lengths[part])
            found[part] = np.einsum("nk,nkc->nc", weight, self.labels[near])
            found[part] += PRIOR_VOICES * self.prior
            found[part] /= weight.sum(axis=1, keepdims=True) + PRIOR_VOICES
        return ev.loudness(ev.from_shares(found, self.prior))

    def _near(
        self, features: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        likeness = features @ self.features.T
        near = np.argpartition(-likeness, self.k - 1, axis=1)[:, : self.k]
        like = np.take_along_axis(likeness, near, axis=1) / lengths[:, None].astype(np.float64)
        like = np.clip(like, 0.0, 1.0)
        return near, like, like**2 / (1 + SHARPNESS - like)

    def reasons(self, row: Rows, material: Any) -> list[Reason]:
        """Each neighbour's part, with its distance (1 − likeness of features)."""
        if row.features is None:
            return []
        near, like, weight = (each[0] for each in self._near(row.features, row.lengths))
        parts = ev.centre(weight[:, None] * (self.labels[near] - self.prior))
        evidence = self.evidence(row)[0]
        spread = float(np.ptp(parts.sum(axis=0)))
        scale = float(np.ptp(evidence)) / spread if spread > 1e-12 else 0.0
        return [
            Reason(part * scale, hand=int(self.kept[at]), distance=float(1 - s))
            for part, at, s in zip(parts, near, like, strict=True)
        ]


def _spread_by_content(features: np.ndarray) -> np.ndarray:
    """A thousand rows spread over the data; which ones does not depend on the order of the rows."""
    order = np.argsort(features.astype(np.float64).sum(axis=1), kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, MOST).astype(np.intp)])
