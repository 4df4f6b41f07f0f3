"""What a session says, as the replies that pages, scripts and agents are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..diagnostics import interval
from ..engines import Scores
from ..engines.scores import TUNED
from ..errors import CodeError, NotIdentifiable
from ..suggest.search import UNSURE
from ..votes import ABSTAIN
from ..workspace import TRAIN
from . import images, marks, notes, replies

if TYPE_CHECKING:
    from ..session import Change, Session
    from ..session.state import Trial
    from .room import Room

TITLES = {"majority": "majority vote", "epoxy": "the paper's pipeline", "fusion": "Fusion"}
SHORT = 400
"""Characters of a text shown in a line."""
OFF = ("worse-than-random", "reversed", "not-heard", "never-votes", "near-duplicates")
LESS = ("lent-votes", "extension-hurts", "broad-source")
UNNAMED = ("unnamed-class", "one-sided-set")
"""Findings by what cures them: the source is switched off, lends nothing, or a function is written."""


def state(room: Room) -> replies.State:
    """Everything about the session but its rows and sources."""
    session, outcome = room.session, room.session.outcome
    splits = [split.n_rows for split in session.state.workspace.splits]
    compared, scores = session.comparison(), session.scores
    voted = marks.voted(outcome, TRAIN)
    unsure = int((outcome.proba[TRAIN].max(axis=1) < UNSURE).sum()) if outcome.proba else 0
    return replies.State(
        project=_project(session),
        classes=list(session.classes),
        meanings=notes.read(session),
        positive=session.positive,
        rows={"total": sum(splits), "train": splits[0], "dev": sum(splits[1:])},
        version=session.version,
        number=session.last_edit,
        comparison=comparison(session),
        scoring=replies.Scoring(scores.basis, compared.why, int(scores.get("rows", 0))),
        covered={"own": float((voted == 2).mean()), "after": float((voted > 0).mean())},
        uncertain=unsure,
        labelled=session.state.workspace.labels.by_choice,
        sources=len(session.sources),
        problem=session.problem,
        notes=list(session.notes),
        failures=failures(session),
        findings=room.findings[1],
        examined=room.examined,
        code={"error": room.code_error},
        undo=session.undoable,
        redo=session.redoable,
        seconds=room.seconds,
        picture=picture(room),
    )


def _project(session: Session) -> replies.Project:
    home, texts = session.folder, session.texts
    column = None if texts is None else texts.column
    image = images.column_of(session) is not None
    return replies.Project(
        name="session" if home is None else home.project.folder.resolve().name,
        model=session.engine.name,
        kind="image" if image else ("text" if column is not None else "plain"),
        columns=text_columns(session),
        text=column,
        sequences=session.state.workspace.splits[TRAIN].votes.sequences is not None,
    )


def text_columns(session: Session) -> list[str]:
    """Columns that words and patterns can be looked for in; ids and labels come last."""
    home, texts = session.folder, session.texts
    if home is None or texts is None:
        return [] if texts is None else list(texts.columns)
    schema, last = home.rows.tables[TRAIN].schema, (home.project.id, home.project.label)
    found = [each for each in texts.columns if "string" in str(schema.field(each).type)]
    return sorted(found or texts.columns, key=lambda each: each in last)


def picture(room: Room) -> replies.Picture:
    """Which picture of the rows there is."""
    return replies.Picture() if room.pictures is None else room.pictures.told


def comparison(session: Session, trial: Trial | None = None) -> list[replies.Score]:
    """Majority vote, the paper's pipeline and the model, each with an interval."""
    name = session.engine.name
    compared = session.comparison() if trial is None else session.comparison(trial)
    return [
        replies.Score(
            name=each,
            title=TITLES.get(each, each),
            in_use=each == name,
            tuned=TUNED in scored.why,
            accuracy=_accuracy(scored),
            f1=scored.get("f1"),
        )
        for each, scored in compared.items()
    ]


def _accuracy(scored: Scores) -> replies.Interval | None:
    if not scored:
        return None
    return share(interval(round(scored["accuracy"] * scored["rows"]), int(scored["rows"])))


def share(told: dict[str, Any] | None) -> replies.Interval | None:
    """A share with its interval; None where nothing is known."""
    return None if told is None else replies.Interval(**told)


def failures(session: Session) -> list[replies.Failure]:
    """Functions that could not vote, with the line of lfs.py that failed."""
    found = []
    for each in () if session.folder is None else session.folder.failures:
        found.append(replies.Failure(str(each), each.line_of("lfs.py"), each.name))
    return found


def code_error(error: Exception) -> replies.CodeError:
    """Why a file of functions could not be run, and its line."""
    return replies.CodeError(str(error), error.line if isinstance(error, CodeError) else None)


def findings(session: Session) -> list[replies.Finding]:
    """What the doctor has to say, each with what a button can do about it."""
    try:
        found = session.report().findings
    except NotIdentifiable:
        return []
    told = []
    for each in found:
        kind, about = getattr(each, "kind", "note"), getattr(each, "sources", ())
        about = [name for name in about if name in session.sources]
        source = about[0] if about else None
        told.append(replies.Finding(str(each), source, kind, _cures(kind, about)))
    return told


def _cures(kind: str, about: Sequence[str]) -> list[replies.Cure]:
    if kind == "suspect-labels":
        return [replies.Cure("Check these labels", tab="label")]
    if kind in UNNAMED:
        return [replies.Cure("Write a function", tab="draft")]
    if kind in OFF:
        return [replies.Cure(f"Switch off {each}", "switch", each, False) for each in about[-1:]]
    if kind in LESS:
        return [replies.Cure(f"Let {each} lend nothing", "radius", each, None) for each in about]
    return [replies.Cure(f"Show {each}", source=each, tab="source") for each in about[:3]]


def change(made: Change, failed: Sequence[str] = ()) -> replies.Change:
    """What an edit made different."""
    return replies.of(replies.Change, made, flipped=len(made.flipped), failures=failed)


def row(session: Session, number: int, *, whole: bool = False) -> dict[str, Any]:
    """The fields of a row in a list; `whole` leaves its text as long as it is."""
    at, place = session.place(number)
    outcome, labels, classes = session.outcome, session.state.workspace.labels, session.classes
    given = int(labels.y[at][place])
    label = int(outcome.decided[at][place]) if outcome.labels else None
    text = _text(session, number)
    return {
        "row": number,
        "id": session.state.names.name((at, place))[1],
        "split": session.names[at],
        "text": text if whole or len(text) <= SHORT else f"{text[:SHORT]}…",
        "label": None if label is None else classes[label],
        "p": None if label is None else float(outcome.proba[at][place, label]),
        "hand": None if given == ABSTAIN else classes[given],
        "chosen": labels.chosen[at][place],
        "votes": _votes_on(session, at, place),
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


def _votes_on(session: Session, at: int, place: int) -> list[replies.Vote]:
    outcome, classes, found = session.outcome, session.classes, []
    for source, column in zip(outcome.workspace.active, outcome.extended[at].columns):
        if column[place] != ABSTAIN:
            own = bool(source.loans[at].own[place] != ABSTAIN)
            found.append(replies.Vote(source.name, classes[column[place]], own))
    return sorted(found, key=lambda each: not each.own)


def words(session: Session, number: int) -> str:
    """A row in a line of a list: its text, or its name where it has none or is a picture without one."""
    texts = session.texts
    told = texts is not None and (texts.column is not None or images.column_of(session) is None)
    text = session.text(number)[:SHORT] if told else ""
    return text or f"row {session.state.names.name(session.place(number))[1]}"


def mention(session: Session, number: int, **more: Any) -> replies.Mention:
    """A row in a few words."""
    return replies.Mention(number, words(session, number), **more)


def cells(session: Session, number: int) -> dict[str, str]:
    """The cells of a row by their columns."""
    return {} if session.texts is None else dict(session.cells(number))


def why(session: Session, number: int, limit: int | None) -> replies.Why:
    """Every voice behind a row's label, the loudest first, and what the other models call it."""
    at, place = session.place(number)
    found = session.explain(session.state.names.name((at, place))[1], session.names[at])
    parts = {"prior": found.start, **found.parts} if found.additive else {}
    voices = sorted(found.voices, key=lambda each: -abs(each.weight))
    return replies.of(
        replies.Why,
        found,
        row=number,
        id=str(found.row),
        answers=_answers(session, found, at, place),
        voices=[_voice(session, each) for each in voices[:limit]],
        voices_total=len(voices),
        parts=[replies.Part(name, weight) for name, weight in parts.items()],
        cells=cells(session, number),
        text=str(found),
    )


def _voice(session: Session, voice: Any) -> replies.Voice:
    names = session.state.names
    place = None if voice.lender is None else names.find(names.files[TRAIN], str(voice.lender))
    lender = None if place is None else session.number(place)
    text = None if lender is None else words(session, lender)
    return replies.of(replies.Voice, voice, lender=lender, lender_text=text)


def _answers(session: Session, found: Any, at: int, place: int) -> list[replies.Answer]:
    """What majority vote, the paper's pipeline and the model call a row."""
    crowd = max(found.majority, key=lambda name: found.majority[name])
    voted = found.majority[crowd] if any(found.majority.values()) else None
    told = [_answer("majority", None if voted is None else crowd, voted)]
    if session.engine.name != "epoxy":
        beside = session.baseline()
        proba = beside.proba[at][place] if beside.proba else None
        best = None if proba is None else session.classes[int(proba.argmax())]
        told.append(_answer("epoxy", best, None if proba is None else float(proba.max())))
    mine = session.classes[int(session.outcome.labels[at][place])]  # whatever a person says
    own = _answer(session.engine.name, mine, found.probabilities[mine])
    own.in_use = True
    return [*told, own]


def _answer(name: str, label: str | None, p: float | None) -> replies.Answer:
    return replies.Answer(TITLES.get(name, name), label, p)
