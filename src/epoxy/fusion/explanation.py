"""Why one row got its label: every expert's part, and the votes, rows and hand labels behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import Explanation, Voice
from ..votes import ABSTAIN, Split
from .experts import Reason
from .rows import Rows

if TYPE_CHECKING:
    from .model import Fusion

__all__ = ["FusionExplanation", "explain_row"]


@dataclass(frozen=True)
class FusionExplanation(Explanation):
    """As `Explanation`, with the sum of each expert's voices in `experts`.

    `start` and the weights of all voices add up to `log_odds`; so do `start` and the experts.
    """

    experts: dict[str, float] = field(default_factory=dict)
    known: bool = True
    """Whether any expert says anything about the row."""

    __repr__ = Explanation.__repr__

    def __str__(self) -> str:
        lines = super().__str__().splitlines()
        parts = ", ".join(f"{name} {weight:+.2f}" for name, weight in self.experts.items())
        if not self.known:
            lines.insert(1, "  nothing is known about this row: it has the prior")
        return "\n".join([*lines, f"  by expert: {parts}"])


def explain_row(model: Fusion, split: Split, at: int, rows: Rows) -> FusionExplanation:
    """Take one row's log-odds apart, exactly."""
    row = rows.take([at])
    pool = model.pool_
    evidence = model.evidence_of(row)
    logits = pool.logits(evidence)[0]
    proba = pool.probabilities(evidence)[0]
    label = int(model.decide(proba[None])[0])
    other = int(np.argsort(np.where(np.arange(len(logits)) == label, -np.inf, logits))[-1])
    parts = pool.weights * (evidence[:, 0, label] - evidence[:, 0, other])
    material = _Material(None if model.geometry_ is None else model.geometry_.smoother)
    voices: list[Voice] = []
    for (name, speaker), weight, total in zip(
        model.speakers_.items(), pool.weights, parts, strict=True
    ):
        found = speaker.reasons(row, material)
        said = [float(weight * (each.weights[label] - each.weights[other])) for each in found]
        voices += [_voice(model, name, each, part) for each, part in zip(found, said, strict=True)]
        if abs(rest := float(total) - sum(said)) > 1e-9:
            voices.append(
                Voice(name, None, "rest", weight=rest, detail="all the rest it has learned")
            )
    names = split.classes
    counts = np.bincount(row.votes[0][row.votes[0] != ABSTAIN], minlength=len(names))
    truth = None if split.y is None or split.y[at] == ABSTAIN else names[split.y[at]]
    return FusionExplanation(
        row=_plain(split.ids, at),
        label=names[label],
        against=names[other],
        probabilities=dict(zip(names, proba.tolist(), strict=True)),
        majority={name: float(n / max(1, counts.sum())) for name, n in zip(names, counts)},
        start=float(pool.start[label] - pool.start[other]),
        log_odds=float(logits[label] - logits[other]),
        voices=tuple(sorted(voices, key=lambda voice: -abs(voice.weight))),
        truth=truth,
        experts=dict(zip(model.speakers_, parts.tolist(), strict=True)),
        known=bool((np.abs(evidence) > 1e-9).any()),
    )


@dataclass(frozen=True, eq=False)
class _Material:
    smoother: Any


def _voice(model: Fusion, expert: str, reason: Reason, weight: float) -> Voice:
    """Put a reason into the words all explanations share."""
    train = model.train_
    if reason.hand is not None:
        dev = model.dev_
        assert dev is not None  # hand labels come from dev rows
        assert dev.y is not None
        at = int(np.flatnonzero(dev.labelled)[reason.hand])
        name, row = dev.classes[dev.y[at]], _plain(dev.ids, at)
        far = "" if reason.distance is None else f", at distance {reason.distance:.3f}"
        detail = f"hand-labelled row {row} is {name!r}{far}"
        return Voice(expert, name, "hand", row, reason.distance, weight, detail)
    if reason.row is not None:
        row = _plain(train.ids, reason.row)
        return Voice(expert, None, "row", row, weight=weight, detail=f"train row {row} is like it")
    assert reason.source is not None  # all other reasons are votes
    assert reason.vote is not None
    source, name = train.votes.sources[reason.source], train.classes[reason.vote]
    if reason.lender is None:
        detail = f"votes {name!r} ({expert})"
        return Voice(source, name, "own", weight=weight, detail=detail)
    row = _plain(train.ids, reason.lender)
    detail = f"votes {name!r}, lent by row {row} at distance {reason.distance:.3f} ({expert})"
    return Voice(source, name, "lent", row, reason.distance, weight, detail)


def _plain(ids: np.ndarray | None, at: int) -> Any:
    value = at if ids is None else ids[at]
    return value.item() if isinstance(value, np.generic) else value
