"""How a prediction is scored: accuracy, or F1 of one class at a threshold chosen on dev."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ..errors import ParameterError, UnknownName
from ..scoring import Score, positive_index, precision_recall_f1, ratios


@dataclass(frozen=True)
class TaskScoring:
    """What a folder is scored by: `accuracy`, or `f1` of one class."""

    name: str
    positive: int | None  # the class of precision, recall and F1; None for their mean
    n_classes: int

    @classmethod
    def named(cls, name: str, positive: str | None, classes: Sequence[str]) -> Self:
        """The score a folder names; see `scoring.positive_index`."""
        if name not in ("accuracy", "f1"):
            raise UnknownName.of("scoring", name, ["accuracy", "f1"])
        return cls(name, positive_index(positive, classes), len(classes))

    @property
    def thresholded(self) -> bool:
        """Whether labels depend on a decision threshold: F1 of one of two classes."""
        return self.name == "f1" and self.n_classes == 2

    def threshold(self, probabilities: np.ndarray | None, truth: np.ndarray | None) -> float | None:
        """The threshold of the best F1 on these rows; rows of NaN are left out, 0.5 without rows."""
        if not self.thresholded or self.positive is None:
            return None
        if probabilities is None or truth is None:
            return 0.5
        known = np.isfinite(probabilities).all(axis=1)
        if not (truth[known] == self.positive).any():
            return 0.5
        return _best_threshold(probabilities[known, self.positive], truth[known] == self.positive)

    def value(self, probabilities: np.ndarray, truth: np.ndarray) -> float:
        """The score on dev, in points, at the best threshold there; what choices are made by."""
        known = np.isfinite(probabilities).all(axis=1)
        cut = self.threshold(probabilities, truth)
        return self.scores(self.labels(probabilities[known], cut), truth[known])["score"]

    def scores(self, guess: np.ndarray, truth: np.ndarray) -> dict[str, float]:
        """Accuracy, precision, recall, F1 and the score of the folder's scoring, in points."""
        parts = precision_recall_f1(guess, truth, self.positive, self.n_classes)
        precision, recall, f1 = (100 * each for each in parts)
        accuracy = float(100 * (guess == truth).mean()) if len(truth) else 0.0
        found = {"accuracy": accuracy, "precision": precision, "recall": recall, "f1": f1}
        return {"score": found[self.name], **found}

    def resampling(self, truth: np.ndarray, resamples: int) -> Score:
        """The score on rows drawn with replacement, the same for whatever is scored."""
        which = tuple(range(self.n_classes)) if self.positive is None else (self.positive,)
        return Score(self.name, truth, which, resamples=resamples)

    def labels(self, probabilities: np.ndarray, threshold: float | None) -> np.ndarray:
        """The class of each row: the most probable, or the positive one from the threshold on."""
        if probabilities.ndim != 2 or probabilities.shape[1] != self.n_classes:
            raise ParameterError(
                f"expected probabilities of {self.n_classes} classes, got shape "
                f"{probabilities.shape}"
            )
        if self.positive is None or not self.thresholded or threshold is None:
            return np.asarray(probabilities.argmax(axis=1))
        positive = probabilities[:, self.positive] >= threshold
        return np.where(positive, self.positive, 1 - self.positive)


def _best_threshold(score: np.ndarray, truth: np.ndarray) -> float:
    """Half-way between two neighbouring scores; on a tie the one nearest to 0.5.

    The counts of F1 are cumulative in the sorted scores.
    """
    order = np.argsort(-score, kind="stable")
    ranked, right = score[order], truth[order].cumsum()
    said = np.arange(1, len(ranked) + 1)
    last = np.r_[ranked[1:] != ranked[:-1], True]  # equal scores cannot be separated
    f1 = ratios(right, said, truth.sum())[2][last]
    cut = ranked[last]
    middle = (cut + np.r_[cut[1:], min(cut[-1], 0.0)]) / 2
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(middle[best[np.abs(middle[best] - 0.5).argmin()]])
