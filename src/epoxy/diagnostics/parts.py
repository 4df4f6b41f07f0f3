"""Tables about sums of parts: what each part is worth, and whether probabilities are calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..votes import ABSTAIN
from .per_source import interval
from .report import Column, Table

_PART = (
    Column("part", "part"),
    Column("weight", "weight", "number"),
    Column("loudness", "moves log-odds by", "number"),
    Column("speaks", "speaks on", "share"),
    Column("right", "right alone", "interval"),
)
_RELIABILITY = (
    Column("sure", "as sure as", "share"),
    Column("right", "right", "interval"),
)


def part_table(
    weights: Mapping[str, float],
    said: Mapping[str, np.ndarray],
    *,
    prior: np.ndarray,
    y: np.ndarray | None = None,
) -> Table:
    """One line per part: its weight, how loud it is, where it speaks, how often it is right alone.

    Parameters
    ----------
    weights
        By part, in their order.
    said
        What each adds to the log-odds, weighted; (n_rows, n_classes).
    prior
        Class shares, to which a part alone is added; (n_classes,).
    y
        True labels, −1 where unknown; (n_rows,).
    """
    rows = [_part(name, weight, said[name], prior, y) for name, weight in weights.items()]
    return Table("Parts", _PART, tuple(rows))


def _part(
    name: str, weight: float, said: np.ndarray, prior: np.ndarray, y: np.ndarray | None
) -> dict[str, Any]:
    speaks = np.ptp(said, axis=1) > 1e-9
    loudness = float(np.ptp(said[speaks], axis=1).mean()) if speaks.any() else 0.0
    right = None
    if y is not None:
        judged = speaks & (y != ABSTAIN)
        alone = (np.log(prior) + said[judged]).argmax(axis=1)
        right = interval(int((alone == y[judged]).sum()), int(judged.sum()))
    share = float(speaks.mean()) if len(speaks) else 0.0
    return {"part": name, "weight": weight, "loudness": loudness, "speaks": share, "right": right}


def reliability_table(proba: np.ndarray, truth: np.ndarray, *, bins: int = 10) -> Table:
    """How sure the probabilities are of the most probable class and how often it is right, bin by bin."""
    sure = proba.max(axis=1)
    right = proba.argmax(axis=1) == truth
    at = np.minimum((sure * bins).astype(int), bins - 1)
    rows = [
        {
            "sure": float(sure[at == each].mean()),
            "right": interval(int(right[at == each].sum()), int((at == each).sum())),
        }
        for each in np.unique(at)
    ]
    return Table("Reliability", _RELIABILITY, tuple(rows))


def confusion_table(truth: np.ndarray, said: np.ndarray, classes: Sequence[str]) -> Table:
    """How many rows of each hand label a model that did not learn from them calls what."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (truth.astype(np.intp), said.astype(np.intp)), 1)
    columns = (Column("label", "hand label"), *(Column(name, name, "count") for name in classes))
    rows = [
        {"label": name, **dict(zip(classes, line, strict=True))}
        for name, line in zip(classes, counts.tolist(), strict=True)
    ]
    return Table("Confusion", columns, tuple(rows))
