"""Why one row got its label: who spoke, from where, and how much it weighed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..extension import Extended
from ..label_models import LabelModel
from ..label_models.label_model import AdditiveModel
from ..votes import ABSTAIN, Split, Votes


@dataclass(frozen=True)
class Voice:
    """One source's part in a row's label."""

    source: str
    vote: str | None
    """The class it names for this row, after extension; None for abstain."""
    origin: str
    """`own`, `lent` or `abstains`; Fusion has `hand`, `sequence`, `rest` too, and `copy` and
    `contradicted` for votes that are not heard."""
    lender: Any = None
    """Id of the train row that lent the vote."""
    distance: float | None = None
    """How far away that row is."""
    weight: float = 0.0
    """What it adds to the log-odds of the label against the runner-up."""
    detail: str = ""
    part: str = "votes"
    """The part of the model it belongs to: `votes`, `vectors`, `neighbours` or `labels`; other models
    may have others."""
    rows: tuple[Any, ...] = ()
    """Ids of the rows behind it, the weightiest first: who lent the vote, or was near, or was labelled."""


@dataclass(frozen=True)
class Explanation:
    """Every voice behind one row's probabilities.

    Where the model lets sources speak independently (`additive`), the start and the weights add up
    to `log_odds`; otherwise a weight is what changes when that source alone falls silent.
    """

    row: Any
    label: str
    against: str
    """The most probable other class, which log-odds compare with."""
    probabilities: dict[str, float]
    majority: dict[str, float]
    """Shares of the sources' own votes, which majority vote goes by; all 0 where nobody votes."""
    start: float
    """Log-odds of the label before any source speaks."""
    log_odds: float
    voices: tuple[Voice, ...] = field(default=())
    truth: str | None = None
    """The label of somebody who is believed."""
    additive: bool = True
    said: tuple[str, ...] = ()
    """Labels by labellers who may err, in words."""
    starts: str = "class balance"
    """What `start` holds, in words."""
    notes: tuple[str, ...] = ()
    """What else is to be known of the row, in sentences."""

    @property
    def parts(self) -> dict[str, float]:
        """What each part of the model adds to the log-odds, the weightiest first."""
        found: dict[str, float] = {}
        for voice in self.voices:
            found[voice.part] = found.get(voice.part, 0.0) + voice.weight
        return dict(sorted(found.items(), key=lambda each: -abs(each[1])))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        return asdict(self)

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {p:.1%}" for name, p in self.probabilities.items())
        crowd = ", ".join(f"{name} {p:.0%}" for name, p in self.majority.items())
        truth = "" if self.truth is None else f"  (truth: {self.truth})"
        lines = [
            f"row {self.row}: {self.label}{truth}",
            f"  probabilities: {shares}",
            f"  majority vote: {crowd if any(self.majority.values()) else 'nobody votes'}",
            *(f"  {each}" for each in (*self.said, *self.notes)),
            f"  {self.start:+.2f}  {f'{self.starts}, ' if self.additive else ''}before any source speaks",
        ]
        others = [v for v in self.voices if v.vote is None and abs(v.weight) < 0.005]
        heard = [v for v in self.voices if v.vote is not None or abs(v.weight) >= 0.005]
        lines += [f"  {voice.weight:+.2f}  {_sentence(voice)}" for voice in heard]
        if others:
            parts = "smaller part" + "s" * (len(others) > 1)
            word = parts if any(v.origin == "rest" for v in others) else "more abstain"
            lines.append(f"  {sum(v.weight for v in others):+.2f}  {len(others)} {word}")
        lines.append(f"  {self.log_odds:+.2f}  log-odds of {self.label!r} against {self.against!r}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><td>{voice.weight:+.2f}</td><td>{html.escape(_sentence(voice))}</td></tr>"
            for voice in self.voices
        )
        head = html.escape(str(self).splitlines()[0])
        return f"<section class='epoxy-explanation'><h3>{head}</h3><table>{body}</table></section>"


def vote_shares(own: np.ndarray, classes: Sequence[str]) -> dict[str, float]:
    """Each class's share of one row's own votes; all 0 where nobody votes."""
    counts = np.bincount(own[own != ABSTAIN], minlength=len(classes))
    return {name: float(n / max(1, counts.sum())) for name, n in zip(classes, counts, strict=True)}


def _sentence(voice: Voice) -> str:
    if voice.detail:
        return f"{voice.source}: {voice.detail}"
    if voice.origin == "own":
        return f"{voice.source} votes {voice.vote!r}"
    if voice.origin == "lent":
        return (
            f"{voice.source} votes {voice.vote!r}, lent by row {voice.lender} "
            f"at distance {voice.distance:.3f}"
        )
    return f"{voice.source} abstains"


def explain_row(
    label_model: Any,
    train: Split,
    split: Split,
    at: int,
    traced: Extended,
    proba: np.ndarray,
    decided: int | None = None,
) -> Explanation:
    """Put the voices of row `at` together; label models that do not add up evidence are probed instead.

    Without one (None) it is not known what a vote weighs.

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
        start, weights = 0.0, np.zeros(traced.votes.n_sources)
        if label_model is not None:
            weights = _weights_by_silence(label_model, traced.votes, at, label, other, log_odds)
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
