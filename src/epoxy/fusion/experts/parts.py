"""From many small parts of a regression's answer to the few that a person should see."""

from __future__ import annotations

import numpy as np

from .. import evidence as ev
from .base import Reason

__all__ = ["strongest"]

SHOWN = 5


def strongest(parts: np.ndarray, evidence: np.ndarray, kind: str) -> list[Reason]:
    """The rows that moved the answer most, scaled from shares (n_rows, n_classes) to evidence."""
    parts = ev.centre(parts.astype(np.float64))
    spread = float(np.ptp(parts.sum(axis=0)))
    scale = float(np.ptp(evidence)) / spread if spread > 1e-12 else 0.0
    order = np.argsort(-np.ptp(parts, axis=1), kind="stable")[:SHOWN]
    return [Reason(parts[at] * scale, **{kind: int(at)}) for at in order]
