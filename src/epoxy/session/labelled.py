"""What a run of `label` wrote, in memory or in shards: the same facts, in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..diagnostics import not_heard
from ..engines import Outcome, Scores
from ..model import Epoxy
from ..neighbors import Recall
from ..sequences.element_model import ElementModel
from ..sequences.layout import layout_of

if TYPE_CHECKING:
    from .session import Session


@dataclass(frozen=True)
class Labelled:
    """What a run wrote, by which model, and how good it is."""

    path: Path
    rows: int
    model: str
    covered: tuple[float, float] | None  # train rows with a vote: before extension, and after
    scores: Scores
    notes: tuple[str, ...] = ()  # what a person should know
    failed: tuple[str, ...] = ()  # functions without a vote
    lends: str = ""  # what a lent vote counts, in words
    recall: Recall | None = None  # of approximate neighbours; None where they are exact
    sequences: int = 0  # that rows are read in; 0 where each is read on its own
    shards: int = 1

    @classmethod
    def of(cls, session: Session, path: Path) -> Labelled:
        """What a session exported to `path`."""
        train = session.split("train")
        written = session.names if session.rows_of_one_file else session.names[:1]
        return cls(
            path,
            sum(session.split(name).n_rows for name in written),
            type(session.model_template).__name__,
            (float(train.votes.covered.mean()), float(session.votes.covered.mean())),
            session.scores,
            session.notes,
            session.failed,
            session.engine.lends,
            session.state.workspace.near.recall,
            _sequences(session),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        before, after = (None, None) if self.covered is None else self.covered
        return {
            "rows": self.rows,
            "file": str(self.path),
            "model": self.model,
            "covered_before": before,
            "covered_after": after,
            "lent_votes": self.lends,
            "sequences": self.sequences,
            "scores": dict(self.scores),
            "recall": None if self.recall is None else self.recall.value,
            "shards": self.shards,
            "notes": list(self.notes),
            "failed": list(self.failed),
        }

    def lines(self) -> list[str]:
        """Coverage, scores and notes, a line each."""
        told = []
        if self.covered is not None:
            before, after = self.covered
            counts = f" ({self.lends})" if self.lends else ""
            told.append(f"  rows with a vote: {before:.1%}, {after:.1%} after extension{counts}")
        if self.sequences:
            told.append(f"  rows are read in order, in {self.sequences} sequences")
        scored = self.scores
        if not scored:
            told.append(f"  no scores: {scored.why}")
        else:
            names = ("accuracy", "f1", "calibration_error")
            told.append(f"  on {scored['rows']:.0f} labelled rows, held out: {scored.line(names)}")
            told += [f"  ({scored.why})"] if scored.why else []
        return told + [f"! {note}" for note in self.notes]


def notes_of(off: Sequence[str], outcome: Outcome, recall: Recall | None) -> list[str]:
    """What is said of sources that are switched off or not heard, and of neighbours that may be missing."""
    notes = [f"switched off, and so without a say: {', '.join(off)}"] if off else []
    notes += map(str, not_heard(outcome.unheard, outcome.defended))
    return notes if recall is None else [*notes, f"neighbours are approximate: {recall}"]


def _sequences(session: Session) -> int:
    """How many sequences the model reads rows in; 0 where it reads each on its own."""
    votes, model = session.split("train").votes, session.model_template
    chained = isinstance(model, Epoxy) and isinstance(model.label_model, ElementModel)
    in_order = chained or session.engine.name == "fusion"
    return len(layout_of(votes, None).starts) if in_order and votes.sequences is not None else 0
