"""Why one row got its label: who spoke, from where, and how much it weighed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..votes import ABSTAIN


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
            *(f"  {each}" for each in self.said),
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
