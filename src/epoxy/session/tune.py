"""What a session's model leaves open, chosen on its hand labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engines import Outcome, PaperEngine
from ..errors import LabelError
from ..extension import AUTO, Reach, Setting
from ..loans import Loans
from ..model import Epoxy
from ..progress import Progress, silent
from ..tuning import Search, tune
from ..votes import ABSTAIN
from ..workspace import TRAIN
from .edits import Edit, Radii, SetBalance, several
from .state import Change

if TYPE_CHECKING:
    from .session import Session

FEWEST, SURELY = 20, 2.0
"""Trusted labels from which radii of Fusion are chosen, and standard errors by which one must gain."""


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
    """Choose on hand labels what the model leaves open; `options` are those of `epoxy.tune`.

    Of the paper's pipeline class balance and radii. Of Fusion a radius for each source, where labels held
    out are surely foretold better by it than by the model's own rule.
    """
    engine = session.engine
    chosen = scoring or ("f1" if session.positive else "accuracy")
    if engine.name == "fusion":
        return _radii_of_fusion(session, progress)
    if not isinstance(engine, PaperEngine):
        name = type(session.model_template).__name__
        return Tuned(
            f"nothing is left to choose: {name} chooses by itself while it is fitted",
            facts={"model": name, "scores": dict(session.scores)},
        )
    search = _searched(session, engine, chosen, progress=progress, **options)
    radii = {
        name: None if radius != radius else float(radius)
        for name, radius in zip(session.state.workspace.names, search.best.radii.tolist())
    }
    edits: list[Edit] = [Radii(radii, "tune", tuned=True)]
    if search.best.balance is not None:
        edits.append(SetBalance(search.best.balance))
    change = session.apply(several(edits, "tune"))
    facts: dict[str, Any] = {
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


def _radii_of_fusion(session: Session, progress: Progress) -> Tuned:
    """Each source with no lending and with wider lending, kept where the gain is two standard errors."""
    state = session.state
    judged = state.workspace.labels.noise == 0
    n_judged, kept = int(judged.sum()), "every radius stays as it is"
    facts: dict[str, Any] = {
        "model": "Fusion",
        "scores": dict(session.scores),
        "radii": session.radii,
    }
    if n_judged < FEWEST:
        few = f"{n_judged} trusted hand labels are too few to choose by"
        return Tuned(f"{kept}: {few}; label {FEWEST} rows or more", facts=facts)
    losses = {"now": _losses(session.outcome, judged)}
    radii: dict[str, Setting] = {}
    active = state.workspace.active
    for number, source in enumerate(active):
        progress(number, len(active))
        tried: list[tuple[float, Setting, np.ndarray]] = []
        for radius in _to_try(source.loans[TRAIN], source.radius):
            trial = session.trial(Radii({**radii, source.name: radius}, "tune"))
            loss = _losses(trial.outcome, judged)
            gain = losses["now"] - loss
            error = float(gain.std() / np.sqrt(len(gain)))
            if gain.mean() > SURELY * error and gain.mean() > 0:
                tried.append((float(gain.mean()), radius, loss))
        if tried:
            _, radii[source.name], losses["now"] = max(tried, key=lambda each: each[0])
    progress(len(active), len(active))
    if not radii:
        why = f"on {n_judged} hand labels no other foretells labels surely better"
        return Tuned(f"{kept}: {why}", facts=facts)
    first = _losses(session.outcome, judged).mean()
    change = session.apply(Radii(radii, "tune"))
    gained = float(first - losses["now"].mean())
    facts |= {"radii": session.radii, "log_loss_gained": gained}
    names = ", ".join(f"{name} {_words(radius)}" for name, radius in radii.items())
    text = f"{names}: log loss of {n_judged} hand labels held out falls by {gained:.3f}"
    return Tuned(
        f"{text}, which flatters a little, since these labels chose it", change=change, facts=facts
    )


def _losses(outcome: Outcome, judged: np.ndarray) -> np.ndarray:
    """Log loss of each trusted hand label, by models that did not learn from it."""
    held, y = outcome.held_out, outcome.workspace.labels.labels
    assert held is not None  # Fusion holds every labelled row out
    return np.asarray(-np.log(np.maximum(held[np.arange(len(y)), y], 1e-15))[judged])


def _to_try(loans: Loans, now: Setting) -> list[Setting]:
    """The model's rule, no lending, and lending to as many rows as it votes on, or to four times so many."""
    far = np.sort(loans.distance[(loans.own == ABSTAIN) & np.isfinite(loans.distance)])
    own = int((loans.own != ABSTAIN).sum())
    wide: list[Setting] = [
        float(far[min(times * own, len(far)) - 1]) for times in (1, 4) if own and len(far)
    ]
    return [each for each in [AUTO, None, *dict.fromkeys(wide)] if each != now]


def _words(radius: Setting) -> str:
    return (
        "lends nothing"
        if radius is None
        else f"{radius:.4g}"
        if isinstance(radius, float)
        else radius
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
