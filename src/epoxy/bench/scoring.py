"""How a prediction is scored: accuracy, or F1 of one class at a threshold chosen on dev."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..errors import ParameterError, UnknownName

__all__ = ["Metric"]


@dataclass(frozen=True)
class Metric:
    """What a folder is scored by: `accuracy`, or `f1` of one class."""

    name: str
    positive: int  # the class of precision, recall and F1
    n_classes: int

    @classmethod
    def named(cls, name: str, positive: Any, classes: Sequence[str]) -> Self:
        """The metric a folder names; the positive class is the last one unless it says otherwise."""
        if name not in ("accuracy", "f1"):
            raise UnknownName.of("metric", name, ["accuracy", "f1"])
        if positive is not None and str(positive) not in classes:
            raise UnknownName.of("class", positive, classes)
        index = len(classes) - 1 if positive is None else list(classes).index(str(positive))
        return cls(name, index, len(classes))

    @property
    def thresholded(self) -> bool:
        """Whether labels depend on a decision threshold: F1 of one of two classes."""
        return self.name == "f1" and self.n_classes == 2

    def threshold(self, probabilities: np.ndarray | None, truth: np.ndarray | None) -> float | None:
        """The threshold of the best F1 on these rows; rows of NaN are left out, 0.5 without rows."""
        if not self.thresholded:
            return None
        if probabilities is None or truth is None:
            return 0.5
        known = np.isfinite(probabilities).all(axis=1)
        if not (truth[known] == self.positive).any():
            return 0.5
        return _best_threshold(probabilities[known, self.positive], truth[known] == self.positive)

    def value(self, probabilities: np.ndarray, truth: np.ndarray) -> float:
        """The score on dev, in points, at the best threshold there; what choices are made by."""
        return self.scores(probabilities, truth, self.threshold(probabilities, truth))["score"]

    def scores(
        self, probabilities: np.ndarray, truth: np.ndarray, threshold: float | None
    ) -> dict[str, float]:
        """Accuracy, precision, recall, F1 and the score of the folder's metric, in points."""
        if probabilities.shape != (len(truth), self.n_classes):
            raise ParameterError(
                f"expected probabilities of shape {(len(truth), self.n_classes)}, "
                f"got {probabilities.shape}"
            )
        known = np.isfinite(probabilities).all(axis=1)
        probabilities, truth = probabilities[known], truth[known]
        guess = self._labels(probabilities, threshold)
        one = self.n_classes == 2 or self.name == "f1"
        which = [self.positive] if one else range(self.n_classes)
        parts = np.array([_precision_recall_f1(guess == k, truth == k) for k in which])
        precision, recall, f1 = (100 * parts.mean(axis=0)).tolist()
        accuracy = float(100 * (guess == truth).mean()) if len(truth) else 0.0
        found = {"accuracy": accuracy, "precision": precision, "recall": recall, "f1": f1}
        return {"score": found[self.name], **found}

    def _labels(self, probabilities: np.ndarray, threshold: float | None) -> np.ndarray:
        if not self.thresholded or threshold is None:
            return np.asarray(probabilities.argmax(axis=1))
        positive = probabilities[:, self.positive] >= threshold
        return np.where(positive, self.positive, 1 - self.positive)


def _best_threshold(score: np.ndarray, truth: np.ndarray) -> float:
    """Half-way between two neighbouring scores; on a tie the one nearest to 0.5.

    At cut t, F1 = 2·tp / (said + positives); both counts are cumulative in the sorted scores.
    """
    order = np.argsort(-score, kind="stable")
    ranked, right = score[order], truth[order].cumsum()
    said = np.arange(1, len(ranked) + 1)
    last = np.r_[ranked[1:] != ranked[:-1], True]  # equal scores cannot be separated
    f1 = (2 * right / (said + truth.sum()))[last]
    cut = ranked[last]
    middle = (cut + np.r_[cut[1:], min(cut[-1], 0.0)]) / 2
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(middle[best[np.abs(middle[best] - 0.5).argmin()]])


def _precision_recall_f1(guess: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    both, said, is_so = int((guess & truth).sum()), int(guess.sum()), int(truth.sum())
    return (
        both / said if said else 0.0,
        both / is_so if is_so else 0.0,
        2 * both / (said + is_so) if said + is_so else 0.0,
    )
