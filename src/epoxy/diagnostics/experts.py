"""Tables about probabilities pooled from experts: what each is worth, and whether the sum is calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..votes import ABSTAIN
from .per_source import interval
from .report import Column, Table

_EXPERT = (
    Column("expert", "expert"),
    Column("weight", "weight", "number"),
    Column("loudness", "moves log-odds by", "number"),
    Column("speaks", "speaks on", "share"),
    Column("right", "right alone", "interval"),
)
_RELIABILITY = (
    Column("sure", "as sure as", "share"),
    Column("right", "right", "interval"),
)


def expert_table(
    weights: Mapping[str, float],
    evidence: np.ndarray,
    *,
    prior: np.ndarray,
    y: np.ndarray | None = None,
) -> Table:
    """One line per expert: its weight, how loud it is, where it speaks, how often it is right alone.

    Parameters
    ----------
    weights
        By expert, in the order of `evidence`.
    evidence
        What each adds to the log-odds before weighting; (n_experts, n_rows, n_classes).
    prior
        Class shares, to which an expert alone is added; (n_classes,).
    y
        True labels, −1 where unknown; (n_rows,).
    """
    rows = [
        _expert(name, weight, said, prior, y)
        for (name, weight), said in zip(weights.items(), evidence, strict=True)
    ]
    return Table("Experts", _EXPERT, tuple(rows))


def _expert(
    name: str, weight: float, evidence: np.ndarray, prior: np.ndarray, y: np.ndarray | None
) -> dict[str, Any]:
    speaks = (np.abs(evidence) > 1e-9).any(axis=1)
    loudness = float(weight * np.ptp(evidence[speaks], axis=1).mean()) if speaks.any() else 0.0
    right = None
    if y is not None:
        judged = speaks & (y != ABSTAIN)
        alone = (np.log(prior) + evidence[judged]).argmax(axis=1)
        right = interval(int((alone == y[judged]).sum()), int(judged.sum()))
    share = float(speaks.mean()) if len(speaks) else 0.0
    return {"expert": name, "weight": weight, "loudness": loudness, "speaks": share, "right": right}


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
