"""What a session's model leaves open, chosen on its hand labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from ..engines import PaperEngine
from ..errors import LabelError
from ..extension import Reach
from ..model import Epoxy
from ..progress import Progress, silent
from ..tuning import Search, tune
from ..workspace import TRAIN
from .edits import Balance, Edit, Radii, several
from .state import Change

if TYPE_CHECKING:
    from .session import Session


@dataclass(frozen=True, eq=False)
class Tuned:
    """What tuning chose, and what it changed; nothing where the model leaves nothing open."""

    text: str
    search: Search | None = None
    change: Change | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Tuned({self.text})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.text)}</p>" if self.search is None else self.search._repr_html_()


def tune_session(
    session: Session, scoring: str | None = None, *, progress: Progress = silent, **options: Any
) -> Tuned:
    """Choose class balance and radii of the paper's pipeline.

    `options` are those of `epoxy.tune`. Fusion chooses while it is fitted, so that nothing is left.
    """
    engine = session.engine
    chosen = scoring or ("f1" if session.positive else "accuracy")
    if not isinstance(engine, PaperEngine):
        name = type(session.model_template).__name__
        return Tuned(
            _by_itself(session, name), facts={"model": name, "scores": dict(session.scores)}
        )
    search = _searched(session, engine, chosen, progress=progress, **options)
    radii = {
        name: None if radius != radius else float(radius)
        for name, radius in zip(session.state.workspace.names, search.best.radii.tolist())
    }
    edits: list[Edit] = [Radii(radii, "tune", tuned=True)]
    if search.best.balance is not None:
        edits.append(Balance(search.best.balance))
    change = session.apply(several(edits, "tune"))
    facts = {
        "model": "Epoxy",
        "scoring": search.scoring,
        "score": search.best.score,
        "expected": search.expected,
        "spread": search.spread,
        "without_extension": search.without,
        "settings": len(search.trials),
        "radii": session.radii,
        "class_balance": search.best.balance,
    }
    return Tuned(f"{search}{_whose(session)}", search, change, facts)


def _by_itself(session: Session, name: str) -> str:
    """That a model chooses while it is fitted, and on what."""
    begin = f"nothing is left to choose: {name}"
    if session.engine.name != "fusion":
        return f"{begin} chooses by itself while it is fitted"
    if session.state.workspace.labels.count:
        return f"{begin} weighs its parts on the hand labels by itself"
    return (
        f"{begin} gives its parts their typical weights, since no row is labelled; label some rows, "
        "and it weighs them by itself"
    )


def _searched(session: Session, engine: PaperEngine, scoring: str, **options: Any) -> Search:
    """What `epoxy.tune` tries on the session's rows, over loans that are certain at any radius."""
    workspace = session.state.workspace
    dev = workspace.hand_labelled()
    if dev is None:
        raise LabelError("tuning needs hand labels, and there are none; label some rows first")
    reaches = (
        engine.reach(workspace, TRAIN),
        Reach(dev.votes, workspace.hand_loans(), False, engine.weighting, None, None),
    )
    model: Epoxy = tune(
        workspace.split(TRAIN),
        dev,
        scoring,
        engine.label_model,
        positive=session.positive,
        metric=engine.metric,
        weighting=engine.weighting,
        reaches=reaches,
        **options,
    )
    found: Search = model.search_
    return found


def _whose(session: Session) -> str:
    """For a project that labels with another model: that it does not read what was chosen."""
    folder = session.folder
    if folder is None or folder.project.model == "epoxy":
        return ""
    model = type(folder.project.make_model()).__name__
    return (
        f"; kept for the paper's pipeline, which labels with --model epoxy, or when epoxy.toml says "
        f'kind = "epoxy"; {model}, the project\'s model, does not read it'
    )
