"""How good probabilities are where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..scoring import positive_index, precision_recall_f1
from ..votes import ABSTAIN


def scores(
    proba: np.ndarray,
    y: np.ndarray | None,
    classes: Sequence[str],
    *,
    positive: str | None = None,
    decided: np.ndarray | None = None,
) -> dict[str, float]:
    """Accuracy, precision, recall, F1, log loss and calibration error on the rows with truth.

    Precision, recall and F1 are those of `positive` (for two classes the second one unless told
    otherwise), and the mean over classes when there are more; NaN where no row that counts is of that
    class, since nobody can say how many would have been found. `decided` are class indices where a
    model does not name the most probable one. Empty where nothing is known.
    """
    if y is None:
        return {}
    known = y != ABSTAIN
    if not known.any():
        return {}
    one = positive_index(positive, classes)
    if not known.all():
        y, proba = y[known], proba[known]
        decided = None if decided is None else decided[known]
    truth = y
    # many times as fast as argmax over pairs, and the same: the first of equals
    guess = (proba[:, 1] > proba[:, 0]) * 1 if len(classes) == 2 else proba.argmax(axis=1)
    rows = np.arange(len(truth))
    sure = proba[rows, guess], guess == truth  # of the most probable class
    guess = guess if decided is None else decided
    precision, recall, f1 = precision_recall_f1(guess, truth, one, len(classes))
    if one is not None and not np.count_nonzero(truth == one):
        recall = f1 = math.nan
        precision = precision if np.count_nonzero(guess == one) else math.nan
    right = guess == truth
    said = np.maximum(proba[rows, truth], 1e-15)
    return {
        "rows": len(truth),
        "accuracy": np.count_nonzero(right) / len(truth),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "log_loss": -float(np.log(said).sum()) / len(truth),
        "calibration_error": _gap(*sure),
    }


def calibration_error(proba: np.ndarray, truth: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error of the most probable class, over equally wide bins."""
    return _gap(proba.max(axis=1), proba.argmax(axis=1) == truth, bins)


def _gap(sure: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """Mean distance between how sure and how right, bin by bin, weighted by rows."""
    at = np.minimum((sure * bins).astype(np.intp), bins - 1)
    gap = np.abs(np.bincount(at, right - sure, bins))
    return float(gap.sum() / len(sure))
