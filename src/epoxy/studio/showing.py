"""What a session says, as the plain values that pages are sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import interval
from ..engines import Comparison, Scores
from ..errors import CodeError, NotIdentifiable
from ..votes import ABSTAIN, RANDOM
from ..workspace import TRAIN
from . import images

if TYPE_CHECKING:
    from ..diagnostics import Explanation
    from ..engines import Outcome
    from ..session import Change, Session
    from ..session.trials import Trial
    from .room import Room

TITLES = {"majority": "majority vote", "epoxy": "Epoxy (the paper)", "fusion": "Fusion"}
UNSURE, SHORT = 0.8, 400
"""A row is uncertain below this probability; characters of a text shown in a line."""


def state(room: Room) -> dict[str, Any]:
    """Everything about the session but its rows and sources."""
    session, outcome = room.session, room.session.outcome
    splits = [split.n_rows for split in session.state.workspace.splits]
    compared = session.comparison()
    return {
        "project": project(session),
        "classes": list(session.classes),
        "positive": session.positive,
        "rows": {"total": sum(splits), "train": splits[0], "dev": sum(splits[1:])},
        "version": session.version,
        "number": session.last_edit,
        "comparison": _side_by_side(session, compared),
        "scoring": _scoring(session.scores, compared.why),
        "covered": covered(outcome),
        "lends": session.engine.lends,
        "uncertain": _uncertain(outcome),
        "labelled": _labelled(outcome),
        "balance": balance(session),
        "sources": len(session.sources),
        "problem": session.problem,
        "notes": list(session.notes),
        "failures": failures(session),
        "findings": room.findings[1],
        "examined": room.examined,
        "code": {"error": room.code_error},
        "undo": session.undoable,
        "redo": session.redoable,
        "seconds": room.seconds,
        "picture": picture(room),
    }


def project(session: Session) -> dict[str, Any]:
    """What is labelled, and by what."""
    home, texts = session.folder, session.texts
    column = None if texts is None else texts.column
    image = images.column_of(session) is not None
    return {
        "name": "session" if home is None else home.project.folder.resolve().name,
        "folder": "" if home is None else str(home.project.folder),
        "model": session.engine.name,
        "kind": "image" if image else ("text" if column is not None else "plain"),
        "columns": _text_columns(session),
        "text": column,
        "sequences": session.state.workspace.splits[TRAIN].votes.sequences is not None,
    }


def _text_columns(session: Session) -> list[str]:
    """Columns that words and patterns can be looked for in; ids and labels come last."""
    home, texts = session.folder, session.texts
    if home is None or texts is None:
        return [] if texts is None else list(texts.columns)
    schema, last = home.rows.tables[TRAIN].schema, (home.project.id, home.project.label)
    found = [each for each in texts.columns if "string" in str(schema.field(each).type)]
    return sorted(found or texts.columns, key=lambda each: each in last)


def picture(room: Room) -> dict[str, Any]:
    """Which picture of the rows there is."""
    if room.pictures is None:
        return {"kind": "none", "state": "off", "note": "", "of": "", "regions": []}
    return room.pictures.told


def comparison(session: Session, trial: Trial | None = None) -> list[dict[str, Any]]:
    """Majority vote, the paper's pipeline and the model, each with an interval."""
    return _side_by_side(session, session.comparison(trial))


def _side_by_side(session: Session, compared: Comparison) -> list[dict[str, Any]]:
    name = session.engine.name
    return [
        {
            "name": each,
            "title": TITLES.get(each, each),
            "inUse": each == name,
            "accuracy": _accuracy(scored),
            "f1": scored.get("f1"),
        }
        for each, scored in compared.items()
    ]


def _accuracy(scored: Scores) -> dict[str, Any] | None:
    if not scored:
        return None
    return interval(round(scored["accuracy"] * scored["rows"]), int(scored["rows"]))


def _scoring(scored: Scores, why: str) -> dict[str, Any]:
    """What the scores rest on, and what is to be said of any of those compared."""
    return {"basis": scored.basis, "why": why, "rows": int(scored.get("rows", 0))}


def covered(outcome: Outcome) -> dict[str, float]:
    """Shares of train rows with a vote, before and after extension."""
    n_rows = outcome.extended[TRAIN].n_rows
    own, after = np.zeros((2, n_rows), dtype=bool)
    for source, column in zip(outcome.workspace.active, outcome.extended[TRAIN].columns):
        own |= source.loans[TRAIN].own != ABSTAIN
        after |= column != ABSTAIN
    return {"own": float(own.mean()), "after": float(after.mean())}


def _uncertain(outcome: Outcome) -> int:
    return int((outcome.proba[TRAIN].max(axis=1) < UNSURE).sum()) if outcome.proba else 0


def _labelled(outcome: Outcome) -> dict[str, int]:
    words = outcome.workspace.labels.words.tolist()
    random, unknown = words.count(RANDOM), words.count(None)
    told = len(words) - random - unknown
    return {"total": len(words), "random": random, "chosen": told, "unknown": unknown}


def balance(session: Session) -> dict[str, float] | None:
    """Class shares among the labels."""
    if session.problem:
        return None
    counts = np.bincount(session.labels, minlength=len(session.classes))
    return dict(zip(session.classes, (counts / max(1, counts.sum())).tolist()))


def failures(session: Session) -> list[dict[str, Any]]:
    """Functions that could not vote."""
    found = () if session.folder is None else session.folder.failures
    return [{"name": each.name, "message": str(each), "line": _line_of(each)} for each in found]


def _line_of(failure: Any) -> int | None:
    lines = re.findall(r'lfs\.py", line (\d+)', failure.traceback)
    return int(lines[-1]) if lines else None


def code_error(error: Exception) -> dict[str, Any]:
    """Why a file of functions could not be run, and its line."""
    line = error.line if isinstance(error, CodeError) else None
    return {"message": str(error), "line": line}


def findings(session: Session) -> list[dict[str, Any]]:
    """What the doctor has to say."""
    try:
        found = session.report().findings
    except NotIdentifiable:
        return []
    told = []
    for each in found:
        sources = getattr(each, "sources", ())
        kind = getattr(each, "kind", "note")
        told.append({"text": str(each), "source": sources[0] if sources else None, "kind": kind})
    return told


def change(made: Change, by: str) -> dict[str, Any]:
    """What an edit made different."""
    return {
        "version": made.version,
        "what": made.what,
        "source": made.source,
        "flipped": len(made.flipped),
        "before": dict(made.before),
        "after": dict(made.after),
        "coverage": None if made.coverage is None else list(made.coverage),
        "seconds": made.seconds,
        "problem": made.problem,
        "unheard": list(made.unheard),
        "heard": list(made.heard),
        "by": by,
    }


def followed(session: Session) -> dict[str, Any]:
    """What others decided, of which only the result is known."""
    return {
        "version": session.version,
        "what": "edits by another process",
        "source": None,
        "flipped": 0,
        "before": {},
        "after": dict(session.scores),
        "coverage": None,
        "seconds": 0.0,
        "problem": session.problem,
        "unheard": [],
        "heard": [],
        "by": "another process",
    }


def row_line(session: Session, number: int, *, whole: bool = False) -> dict[str, Any]:
    """A row in the table."""
    at, row = session.place(number)
    outcome, workspace = session.outcome, session.state.workspace
    labels, classes = workspace.labels, session.classes
    given = int(labels.y[at][row])
    label = int(outcome.decided[at][row]) if outcome.labels else None
    text = _text(session, number)
    return {
        "row": number,
        "id": session.state.names.name((at, row))[1],
        "split": session.names[at],
        "text": text if whole or len(text) <= SHORT else f"{text[:SHORT]}…",
        "label": None if label is None else classes[label],
        "p": None if label is None else float(outcome.proba[at][row, label]),
        "hand": None if given == ABSTAIN else classes[given],
        "chosen": labels.chosen[at][row],
        "votes": [
            {"source": source.name, "vote": classes[vote], "own": own}
            for source, vote, own in _votes_on(outcome, at, row)
        ],
        "image": images.column_of(session) is not None,
    }


def _text(session: Session, number: int) -> str:
    """The text of a row; of one without a text column the cells, but for those that make its picture."""
    if session.texts is None:
        return ""
    pictured = images.column_of(session)
    if session.texts.column is not None or pictured is None:
        return session.text(number)
    cells = session.cells(number).items()
    return ", ".join(f"{name} {value}" for name, value in cells if value and name != pictured)


def _votes_on(outcome: Outcome, at: int, row: int) -> list[tuple[Any, int, bool]]:
    found = []
    for source, column in zip(outcome.workspace.active, outcome.extended[at].columns):
        if column[row] != ABSTAIN:
            found.append((source, int(column[row]), bool(source.loans[at].own[row] != ABSTAIN)))
    return sorted(found, key=lambda each: not each[2])  # own votes first


def why(session: Session, number: int) -> dict[str, Any]:
    """Every voice behind a row's label, and what the other models call it."""
    at, row = session.place(number)
    found = session.explain(session.state.names.name((at, row))[1], session.names[at])
    experts = getattr(found, "experts", {})
    parts = {"prior": found.start, **experts} if experts else {}
    return {
        "row": number,
        "id": str(found.row),
        "label": found.label,
        "against": found.against,
        "probabilities": found.probabilities,
        "truth": found.truth,
        "said": list(found.said),
        "answers": _answers(session, found, at, row),
        "start": found.start,
        "log_odds": found.log_odds,
        "additive": found.additive,
        "voices": [_voice(session, each) for each in found.voices],
        "experts": [{"name": name, "weight": weight} for name, weight in parts.items()],
        "text": str(found),
    }


def _voice(session: Session, voice: Any) -> dict[str, Any]:
    names = session.state.names
    place = None if voice.lender is None else names.find(names.files[TRAIN], str(voice.lender))
    lender = None if place is None else session.number(place)
    return {
        "source": voice.source,
        "vote": voice.vote,
        "origin": voice.origin,
        "lender": lender,
        "lenderText": None if lender is None else words(session, lender),
        "distance": voice.distance,
        "weight": voice.weight,
        "detail": voice.detail,
    }


def words(session: Session, number: int) -> str:
    """A row in a line of a list: its text, or its name where it has none or is a picture without one."""
    texts = session.texts
    told = texts is not None and (texts.column is not None or images.column_of(session) is None)
    text = session.text(number)[:SHORT] if told else ""
    return text or f"row {session.state.names.name(session.place(number))[1]}"


def _answers(session: Session, found: Explanation, at: int, row: int) -> list[dict[str, Any]]:
    """What majority vote, the paper's pipeline and the model call a row."""
    crowd = max(found.majority, key=lambda name: found.majority[name])
    voted = any(found.majority.values())
    told = [_answer("majority", crowd if voted else None, found.majority[crowd] if voted else None)]
    beside = session.beside()
    if session.engine.name != "epoxy":
        proba = beside.proba[at][row] if beside.proba else None
        best = None if proba is None else int(proba.argmax())
        name = None if best is None else session.classes[best]
        told.append(_answer("epoxy", name, None if proba is None else float(proba.max())))
    mine = session.classes[int(session.outcome.labels[at][row])]  # whatever a person says
    own = _answer(session.engine.name, mine, found.probabilities[mine])
    return [*told, own | {"inUse": True}]


def _answer(name: str, label: str | None, p: float | None) -> dict[str, Any]:
    return {"name": TITLES.get(name, name), "label": label, "p": p, "inUse": False}
