"""How sure a lead is: paired bootstrap intervals of our column's margin over every other.

Test rows are drawn with replacement, the same for both columns; where dev rows were drawn at random,
those draws are drawn again too, so that an interval covers both sources of chance. Five draws are few,
and intervals over so few are a little too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .columns import OURS
from .task import RESAMPLES, Judge


def add_margins(
    entries: Sequence[dict[str, Any]], guesses: Mapping[str, Sequence[np.ndarray]], judge: Judge
) -> None:
    """Write into each entry by how much our column leads it, with a 95 % interval; None without."""
    means = {each["method"]: each["mean"] for each in entries}
    ours = np.array([judge.resampled(each) for each in guesses.get(OURS, ())])
    for entry in entries:
        entry["margin"] = None
        if len(ours) and entry["method"] != OURS:
            theirs = np.array([judge.resampled(each) for each in guesses[entry["method"]]])
            lead = _redrawn(ours) - _redrawn(theirs)  # the same seed: equal draws stay paired
            low, high = np.quantile(lead, (0.025, 0.975))
            found = (means[OURS] - entry["mean"], low, high, lead.std())
            entry["margin"] = [round(float(each), 3) for each in found]


def _redrawn(scores: np.ndarray) -> np.ndarray:
    """The mean over draws of dev, themselves drawn with replacement; (draws, B) to (B,)."""
    count = len(scores)
    drawn = np.random.default_rng(0).integers(count, size=(count, RESAMPLES))
    return np.asarray(np.take_along_axis(scores, drawn, axis=0).mean(axis=0))
