"""The report of a fused model: what each expert is worth, and whether probabilities mean what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import Column, Report, interval, scores
from ..votes import ABSTAIN, Split

if TYPE_CHECKING:
    from .model import Fusion

__all__ = ["EXPERT_COLUMNS", "reliability", "write_report"]

EXPERT_COLUMNS = (
    Column("expert", "expert"),
    Column("weight", "weight", "number"),
    Column("loudness", "moves log-odds by", "number"),
    Column("speaks", "speaks on", "share"),
    Column("right", "right alone", "interval"),
)


def write_report(model: Fusion, split: Split, positive: str | None) -> Report:
    """Headline numbers, the reliability curve, and one line per expert."""
    evidence = model.evidence(split)
    held = model.held_out(split)
    proba = model.pool_.probabilities(evidence) if held is None else held
    found = scores(proba, split.y, split.classes, positive=positive)
    informed = (np.abs(evidence) > 1e-9).any(axis=(0, 2))
    dev = model.dev_
    summary: dict[str, Any] = {
        "rows": split.n_rows,
        "hand labels": 0 if dev is None else int(dev.labelled.sum()),
        "covered by votes": float(split.votes.covered.mean()) if split.n_rows else 0.0,
        "known": float(informed.mean()) if split.n_rows else 0.0,
        "class balance": dict(zip(split.classes, model.pool_.prior.tolist(), strict=True)),
    }
    if found and split.y is not None:
        known = split.y != ABSTAIN
        guess = model.decide(proba[known])
        right = interval(int((guess == split.y[known]).sum()), int(known.sum()))
        assert right is not None  # found is not empty, so there are rows
        summary["accuracy interval"] = {"low": right["low"], "high": right["high"]}
        summary["scores"] = found
        if model.threshold_ is not None:
            decided = scores(
                proba[known], split.y[known], split.classes, positive=positive, decided=guess
            )
            shown = {key: decided[key] for key in ("precision", "recall", "f1")}
            summary["at threshold"] = {"threshold": model.threshold_, **shown}
        summary["reliability"] = reliability(proba[known], split.y[known])
    rows = [
        _expert_row(model, split, evidence[at], name) for at, name in enumerate(model.speakers_)
    ]
    findings = _findings(model, informed)
    if held is not None:
        findings.append(
            "scores and reliability of these dev rows come from models that did not see their "
            "labels; what an expert gets right alone does not"
        )
    return Report("Fusion", summary, EXPERT_COLUMNS, tuple(rows), tuple(findings))


def reliability(proba: np.ndarray, truth: np.ndarray, bins: int = 10) -> list[dict[str, float]]:
    """The reliability curve: how sure, how often right, and on how many rows, bin by bin."""
    sure = proba.max(axis=1)
    right = proba.argmax(axis=1) == truth
    at = np.minimum((sure * bins).astype(int), bins - 1)
    return [
        {
            "sure": float(sure[at == each].mean()),
            "right": float(right[at == each].mean()),
            "rows": int((at == each).sum()),
        }
        for each in np.unique(at)
    ]


def _expert_row(model: Fusion, split: Split, evidence: np.ndarray, name: str) -> dict[str, Any]:
    weight = model.weights_[name]
    speaks = (np.abs(evidence) > 1e-9).any(axis=1)
    loudness = float(weight * np.ptp(evidence[speaks], axis=1).mean()) if speaks.any() else 0.0
    row = {"expert": name, "weight": weight, "loudness": loudness}
    row["speaks"] = float(speaks.mean()) if len(speaks) else 0.0
    row["right"] = None
    if split.y is not None:
        judged = speaks & (split.y != ABSTAIN)
        alone = (np.log(model.pool_.prior) + evidence[judged]).argmax(axis=1)
        row["right"] = interval(int((alone == split.y[judged]).sum()), int(judged.sum()))
    return row


def _findings(model: Fusion, informed: np.ndarray) -> list[str]:
    found = []
    if model.dev_ is None:
        found.append(
            "no hand labels: the experts have typical weights and the class balance is guessed from "
            "the votes; 50 labelled dev rows would calibrate both"
        )
    elif model.dev_.y is not None:
        present = np.unique(model.dev_.y[model.dev_.labelled])
        missing = [name for at, name in enumerate(model.train_.classes) if at not in present]
        if missing:
            found.append(f"no dev row is labelled {missing}; label a few to find these classes")
    if model.geometry_ is None:
        found.append("no vectors: only the votes speak; embed the rows to use near and like rows")
    if not informed.all():
        found.append(f"nothing is known about {int((~informed).sum())} rows; they have the prior")
    return found
