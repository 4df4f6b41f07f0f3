"""Putting an explanation together from a label model, the votes, and who lent them."""

from __future__ import annotations

import numpy as np

from ..extension import Extended
from ..label_models import LabelModel
from ..label_models.label_model import AdditiveModel
from ..votes import ABSTAIN, Split, Votes
from .explanation import Explanation, Voice, vote_shares


def explain_row(
    label_model: LabelModel,
    train: Split,
    split: Split,
    at: int,
    traced: Extended,
    proba: np.ndarray,
    decided: int | None = None,
) -> Explanation:
    """Put the voices of row `at` together; label models that do not add up evidence are probed instead.

    `train` holds the rows that lend votes, `proba` the row's probabilities; (n_classes,). `decided` is
    the label it has, where that is not the most probable one.
    """
    classes = split.classes
    order = np.argsort(-proba, kind="stable").tolist()
    label = order[0] if decided is None else decided
    other = next(each for each in order if each != label)
    floor = np.maximum(proba, 1e-300)
    log_odds = float(np.log(floor[label]) - np.log(floor[other]))
    starts = Explanation.starts
    if isinstance(label_model, AdditiveModel):
        starts = label_model.starts_with
        evidence, before = label_model.row_evidence(traced.votes, at)
        weights = evidence[:, label] - evidence[:, other]
        start = float(before[label] - before[other])
        log_odds = start + float(weights.sum())
    else:
        weights = _weights_by_silence(label_model, traced.votes, at, label, other, log_odds)
        start = 0.0
    return Explanation(
        row=split.id_of(at),
        label=classes[label],
        against=classes[other],
        probabilities={name: float(p) for name, p in zip(classes, proba)},
        majority=vote_shares(split.votes.matrix[at], classes),
        start=start,
        log_odds=log_odds,
        voices=tuple(_voices(train, split, at, traced, weights)),
        truth=None if split.y is None or split.y[at] == ABSTAIN else classes[split.y[at]],
        additive=isinstance(label_model, AdditiveModel),
        starts=starts,
    )


def _voices(
    train: Split, split: Split, at: int, traced: Extended, weights: np.ndarray
) -> list[Voice]:
    found = []
    for index, source in enumerate(split.votes.sources):
        vote = int(traced.votes.matrix[at, index])
        if vote == ABSTAIN:
            found.append(Voice(source, None, "abstains", weight=float(weights[index])))
            continue
        own = split.votes.matrix[at, index] != ABSTAIN
        lender = None if own else train.id_of(int(traced.lender[at, index]))
        distance = None if own else float(traced.distance[at, index])
        origin = "own" if own else "lent"
        name = split.classes[vote]
        behind = () if own else (lender,)
        weight = float(weights[index])
        found.append(Voice(source, name, origin, lender, distance, weight, rows=behind))
    return sorted(found, key=lambda voice: (voice.vote is None, -abs(voice.weight)))


def _weights_by_silence(
    model: LabelModel, votes: Votes, at: int, label: int, other: int, log_odds: float
) -> np.ndarray:
    """How much the log-odds fall when each source alone abstains on this row."""
    weights = np.zeros(votes.n_sources)
    for index in np.flatnonzero(votes.matrix[at] != ABSTAIN):
        matrix = votes.matrix.copy()
        matrix[at, index] = ABSTAIN
        proba = np.maximum(model.predict_proba(votes.with_matrix(matrix))[at], 1e-300)
        weights[index] = log_odds - float(np.log(proba[label]) - np.log(proba[other]))
    return weights
