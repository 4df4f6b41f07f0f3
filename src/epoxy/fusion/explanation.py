"""Why one row got its label: every expert's part, and the votes, rows and hand labels behind it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import Explanation, Voice, vote_shares
from ..engines.base import Outcome
from ..votes import ABSTAIN, Split
from . import evidence as ev
from .fitted import Rows, neighbour_shares
from .loudness import ways

if TYPE_CHECKING:
    from .model import Fusion

_REST = {
    "agreement": "what the silence of sources that name one class says",
    "pupil": "what sources call rows with such vectors",
    "regions": "what votes and vectors together say of its surroundings",
    "echo": "what votes and vectors together say of rows like it",
    "hand labels": "all the other hand-labelled rows",
}
_PARTS = {
    "pupil": "vectors",
    "regions": "neighbours",
    "echo": "neighbours",
    "neighbours": "labels",
    "hand labels": "labels",
}
_TOGETHER = "what these say together, beyond each alone"
_EVERYWHERE = "what they add to every row, whatever it says"
_KEPT = "so that all rows together have it, where sources lean to one class"
SILENT = ("copy", "contradicted")
"""Origins of votes that no expert hears."""
SHOWN = 5
"""Rows named behind what was learned from many."""


@dataclass(frozen=True)
class FusionExplanation(Explanation):
    """As `Explanation`, with the sum of each expert's voices in `experts`.

    `start` and the weights of all voices add up to `log_odds`; so do `start` and the experts. All are
    scaled as the logit of the row is.
    """

    experts: dict[str, float] = field(default_factory=dict)
    known: bool = True
    """Whether any expert says anything about the row."""

    __repr__ = Explanation.__repr__

    def __str__(self) -> str:
        lines = super().__str__().splitlines()
        parts = ", ".join(f"{name} {weight:+.2f}" for name, weight in self.experts.items())
        if not self.known:
            silent = any(voice.origin in SILENT for voice in self.voices)
            but = " but votes of sources that do not count" if silent else ""
            lines.insert(1, f"  nothing is known about this row{but}: it has the prior")
        likeliest = max(self.probabilities, key=lambda name: self.probabilities[name])
        if likeliest != self.label and self.truth != self.label:
            rule = f"  {likeliest!r} is more probable; the rule that serves scoring says {self.label!r}"
            lines.insert(1, rule)
        return "\n".join([*lines, f"  by expert: {parts}"])


def explain_row(outcome: Outcome, rows: Rows, at: int, row: int) -> FusionExplanation:
    """Take one row's log-odds apart; the probabilities are those of the outcome."""
    split = outcome.workspace.split(at)
    label = int(outcome.decided[at][row])
    return explain_one(outcome.model, split, row, rows, outcome.proba[at][row], label)


def explain_one(
    model: Fusion,
    split: Split,
    at: int,
    rows: Rows,
    proba: np.ndarray,
    decided: int | None = None,
) -> FusionExplanation:
    """Put one row's voices together: what is not named one by one is the rest of its expert."""
    fitted, row = model.fitted_, rows.take(np.array([at]))
    label = int(fitted.rule(proba[None])[0]) if decided is None else decided
    other = int(np.argsort(np.where(np.arange(len(proba)) == label, -np.inf, proba))[-1])
    said = {name: each[0] for name, each in fitted.evidence(row).items()}
    scale = float(fitted.scale(row, {name: each[None] for name, each in said.items()})[0])
    parts, voices = _by_experts(model, row, said, scale, (label, other))
    if fitted.lean is not None:
        known = bool(fitted.known(row, {name: each[None] for name, each in said.items()})[0])
        part = known * scale * float(fitted.lean[label] - fitted.lean[other])
        parts["class balance"] = part
        voices.append(Voice("class balance", None, "rest", weight=part, detail=_KEPT))
    voices += _silenced(model, split, at)
    if fitted.corrected is not None:
        parts["hand labels"], taught = _by_hand_labels(model, row, scale, (label, other))
        voices += taught
    floor = np.log(np.maximum(proba, 1e-300))
    log_odds = float(floor[label] - floor[other])
    names, truth = split.classes, int(split.truth[at])
    return FusionExplanation(
        row=split.id_of(at),
        label=names[label],
        against=names[other],
        probabilities=dict(zip(names, proba.tolist(), strict=True)),
        majority=vote_shares(split.votes.matrix[at], names),
        # log π0, and rounding of about 1e-7: products of one row and of many differ in the last bits
        start=log_odds - sum(parts.values()),
        log_odds=log_odds,
        voices=tuple(sorted(map(_placed, voices), key=lambda voice: -abs(voice.weight))),
        truth=None if truth == ABSTAIN else names[truth],
        experts=parts,
        known=any(bool((np.abs(each) > 1e-9).any()) for each in said.values()),
    )


def _placed(voice: Voice) -> Voice:
    """With its part of the model, and the row behind it."""
    behind = () if voice.lender is None else (voice.lender,)
    return replace(voice, part=_PARTS.get(voice.source, "votes"), rows=behind)


def _by_experts(
    model: Fusion, row: Rows, said: dict[str, np.ndarray], scale: float, pair: tuple[int, int]
) -> tuple[dict[str, float], list[Voice]]:
    """What each expert adds to the log-odds of a pair of classes, and the voices behind it."""
    fitted, (label, other) = model.fitted_, pair
    named = _named(model, row, said)
    parts: dict[str, float] = {}
    voices: list[Voice] = []
    for name, weight in zip(fitted.experts, scale * fitted.weights):
        parts[name] = float(weight * (said[name][label] - said[name][other]))
        found = [(voice, float(weight * (e[label] - e[other]))) for voice, e in named.get(name, [])]
        voices += [replace(voice, weight=part) for voice, part in found]
        _add_rest(voices, name, parts[name] - sum(part for _, part in found))
    return parts, voices


def _by_hand_labels(
    model: Fusion, row: Rows, scale: float, pair: tuple[int, int]
) -> tuple[float, list[Voice]]:
    """What hand labels add beyond the experts' weights, and the labelled rows behind it."""
    fitted, (label, other) = model.fitted_, pair
    assert fitted.corrected is not None
    learned, bias = fitted.second(row)[1][0], fitted.corrected.bias
    everywhere = scale * float(bias[label] - bias[other])
    part = scale * float(learned[label] - learned[other]) + everywhere
    voices = _behind_correction(model, row, label, other, scale)
    voices.append(Voice("hand labels", None, "rest", weight=everywhere, detail=_EVERYWHERE))
    _add_rest(voices, "hand labels", part - sum(voice.weight for voice in voices))
    return part, voices


def copies(model: Fusion) -> dict[str, str]:
    """Sources that do not count because they vote as another does, and which one each repeats."""
    votes, kept = model.train_.votes, model.fitted_.columns
    total, found = votes.cast.sum(axis=0), {}
    for at in np.setdiff1d(np.arange(votes.n_sources), kept):
        alike = (votes.matrix[:, kept] == votes.matrix[:, [at]]) & votes.cast[:, kept]
        same = alike.sum(axis=0)
        share = same / np.maximum(1, total[at] + total[kept] - same)
        found[votes.sources[at]] = votes.sources[int(kept[share.argmax()])]
    return found


def _silenced(model: Fusion, split: Split, at: int) -> list[Voice]:
    """The votes of sources that no expert hears, and why."""
    why = {name: ("copy", f"silenced as a copy of {of}") for name, of in copies(model).items()}
    by_hand = "" if model.fitted_.corrected is None else " but by hand labels, whose part holds it"
    unlike = f"not heard{by_hand}: rows like those it votes on are otherwise called"
    unheard = model.fitted_.unheard(model.train_.votes.sources)
    why |= dict.fromkeys(unheard, ("contradicted", unlike))
    voices = []
    for name, (origin, reason) in why.items():
        vote = int(split.votes.matrix[at, split.votes.sources.index(name)])
        if vote != ABSTAIN:
            said = split.classes[vote]
            voices.append(Voice(name, said, origin, detail=f"votes {said!r}, and is {reason}"))
    return voices


Named = list[tuple[Voice, np.ndarray]]
"""Voices without their weight yet, and what each adds to the evidence of its expert."""


def _named(model: Fusion, row: Rows, said: dict[str, np.ndarray]) -> dict[str, Named]:
    fitted = model.fitted_
    found = {"majority": _votes(model, row, said["majority"]), "reach": _loans(model, row, said)}
    if fitted.agreement is not None:
        found["agreement"] = _agreement(model, row, said["agreement"])
    if fitted.hears_neighbours and row.nearby is not None:
        found["neighbours"] = _neighbours(model, row, said["neighbours"])
    return found


def _votes(model: Fusion, row: Rows, said: np.ndarray) -> Named:
    """Votes for one class are interchangeable, so they share what the class gained over no vote.

    Not what it has once evidence is centred: a vote would then speak against its own class wherever
    another gained more, and half of what one vote says would seem to come from nobody.
    """
    votes = row.votes[:, 0]
    counts = np.bincount(votes[votes != ABSTAIN], minlength=len(said))
    gained = np.log1p(counts / model.fitted_.prior)
    spread = float(np.ptp(gained))
    scale = float(np.ptp(said)) / spread if spread > 0 else 1.0
    found = []
    for source in np.flatnonzero(votes != ABSTAIN):
        label = int(votes[source])
        part = np.zeros(len(said))
        part[label] = scale * gained[label] / counts[label]
        name = model.train_.classes[label]
        voice = Voice(_source(model, source), name, "own", detail=f"votes {name!r} (majority)")
        found.append((voice, part))
    return found


def _agreement(model: Fusion, row: Rows, said: np.ndarray) -> Named:
    """Each vote as likely as the triplet model finds it under each class."""
    tables, found = model.fitted_.agreement, []
    assert tables is not None
    votes = row.votes[:, 0].astype(np.intp)
    raw = tables[np.arange(len(votes)), 1 + votes]
    spread = float(np.ptp(raw.sum(axis=0)))
    scale = float(np.ptp(said)) / spread if spread > 0 else 0.0
    for source in np.flatnonzero(row.votes[:, 0] != ABSTAIN):
        name = model.train_.classes[int(row.votes[source, 0])]
        detail = f"votes {name!r} (agreement)"
        voice = Voice(_source(model, source), name, "own", detail=detail)
        found.append((voice, scale * raw[source]))
    return found


def _loans(model: Fusion, row: Rows, said: dict[str, np.ndarray]) -> Named:
    """Each vote's lift, own or lent."""
    fitted, train = model.fitted_, model.train_
    votes, lent, far = row.votes[:, 0], row.lent[:, 0], row.distance[:, 0]
    grade = np.searchsorted(fitted.edges, far)
    borrows = (votes == ABSTAIN) & np.isfinite(far) & (far <= fitted.radii)
    n_classes = len(fitted.prior)
    parts: Named = []
    for source, label in enumerate(votes.tolist()):
        part = np.zeros(n_classes)
        if label != ABSTAIN:
            part[label] = ev.LIFT
            name = train.classes[label]
            voice = Voice(_source(model, source), name, "own", detail=f"votes {name!r} (reach)")
        elif borrows[source]:
            label = int(lent[source])
            alike = int((borrows & (grade == grade[source]) & (lent == label)).sum())
            lift = ev.GRADES[grade[source]]
            if not lift:
                continue
            part[label] = lift / np.sqrt(alike)
            name, distance = train.classes[label], float(far[source])
            lender = train.id_of(int(row.lender[source, 0]))
            detail = f"votes {name!r}, lent by row {lender} at distance {distance:.3f} (reach)"
            voice = Voice(_source(model, source), name, "lent", lender, distance, detail=detail)
        else:
            continue
        parts.append((voice, part))
    raw = sum((part for _, part in parts), np.zeros(n_classes))
    spread = float(np.ptp(raw))
    scale = float(np.ptp(said["reach"])) / spread if spread > 0 else 0.0
    return [(voice, part * scale) for voice, part in parts]


def _neighbours(model: Fusion, row: Rows, said: np.ndarray) -> Named:
    """Each labelled row's part, with its distance (1 − likeness of features)."""
    fitted = model.fitted_
    assert fitted.corrected is not None
    assert row.nearby is not None
    taught = fitted.corrected
    _, weight = neighbour_shares(row.nearby, taught.y, fitted.prior)
    parts, voices = [], []
    for number, heavy, like in zip(row.nearby.number[0], weight[0], row.nearby.likeness[0]):
        if number < 0:
            continue
        label = int(taught.y[number])
        part = heavy * (np.eye(len(fitted.prior))[label] - fitted.prior)
        parts.append(part - part.mean())
        voices.append(_hand_voice(model, "neighbours", int(number), 1 - float(like)))
    total = np.sum(parts, axis=0) if parts else np.zeros(len(said))
    spread = float(np.ptp(total))
    scale = float(np.ptp(said)) / spread if spread > 1e-12 else 0.0
    return [(voice, part * scale) for voice, part in zip(voices, parts)]


def _behind_correction(
    model: Fusion, row: Rows, label: int, other: int, scale: float
) -> list[Voice]:
    """The hand-labelled rows that moved the answer most: φ(x)·φ_i times what row i taught."""
    fitted = model.fitted_
    taught = fitted.corrected
    assert taught is not None
    likeness = np.zeros(len(taught.y))
    if taught.labelled is not None and row.features is not None:
        assert fitted.view is not None
        loud = ways(fitted.view)[taught.way] ** 2
        rows = taught.labelled.features.astype(np.float64)
        likeness += rows @ (loud * row.features[0].astype(np.float64))
    likeness += fitted.spread(model.hand_votes) @ fitted.spread(row.cast)[0]
    pulls = scale * likeness * (taught.dual[:, label] - taught.dual[:, other])
    strongest = np.argsort(-np.abs(pulls), kind="stable")[:SHOWN]
    return [
        replace(_hand_voice(model, "hand labels", int(at)), weight=float(pulls[at]))
        for at in strongest
    ]


def _hand_voice(model: Fusion, expert: str, number: int, distance: float | None = None) -> Voice:
    hand = model.hand_
    assert hand is not None
    at = model.hand_position(number)
    name, row = hand.classes[int(hand.truth[at])], hand.id_of(at)
    far = "" if distance is None else f", at distance {distance:.3f}"
    return Voice(
        expert, name, "hand", row, distance, detail=f"hand-labelled row {row} is {name!r}{far}"
    )


def _add_rest(voices: list[Voice], expert: str, rest: float) -> None:
    if abs(rest) > 1e-9:
        voices.append(Voice(expert, None, "rest", weight=rest, detail=_REST.get(expert, _TOGETHER)))


def _source(model: Fusion, column: Any) -> str:
    return model.train_.votes.sources[int(model.fitted_.columns[column])]
