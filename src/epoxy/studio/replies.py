"""What verbs answer, as structs: the page's types and the document of the doors are made of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from ..functions.kinds import Form
from ..session import RadiusCurve
from ..suggest import FunctionSuggestion

Setting = float | Literal["auto"] | None
"""A radius; None lends nothing, "auto" leaves it to the model."""


S = TypeVar("S", bound=Struct)


def of(kind: type[S], value: Any, **more: Any) -> S:
    """A reply with what a value has under the names of its fields, and more."""
    names = [each for each in kind.__struct_fields__ if each not in more]
    return kind(**{name: getattr(value, name) for name in names}, **more)


class Interval(Struct):
    """A share with its 95 % interval, and of how many."""

    value: float
    low: float
    high: float
    n: int


class Score(Struct):
    """One of the models that are compared."""

    name: str
    title: str
    in_use: bool = field(name="inUse")
    tuned: bool  # its settings were chosen on the rows it is scored on
    accuracy: Interval | None
    f1: float | None


class Scoring(Struct):
    """What scores rest on, in words."""

    basis: str
    why: str
    rows: int


class Project(Struct):
    """What is labelled, and by what."""

    name: str
    model: str
    kind: Literal["text", "image", "plain"]
    columns: list[str]
    text: str | None
    sequences: bool


class CodeError(Struct):
    """Why a file or a draft cannot be run, and its line."""

    message: str
    line: int | None


class Failure(CodeError):
    """A function that could not vote."""

    name: str


class Cure(Struct):
    """What a button beside a finding does: a verb with its body, or a tab to look at."""

    words: str
    verb: Literal["switch", "radius"] | None = None
    source: str | None = None
    value: bool | Setting = None
    tab: Literal["source", "label", "draft"] | None = None


class Finding(Struct):
    """What looks wrong, and what to do about it."""

    text: str
    source: str | None
    kind: str
    cures: list[Cure]


class Findings(Struct):
    """All that looks wrong."""

    findings: list[Finding]


class Region(Struct):
    """A part of the map and the words that set it apart."""

    x: float
    y: float
    words: str
    rows: int


class Picture(Struct):
    """Which picture of the rows there is, and how a better one is coming along."""

    kind: Literal["pca", "umap", "none"] = "none"
    state: Literal["ready", "working", "failed", "off"] = "off"
    note: str = ""
    regions: list[Region] = []


class State(Struct):
    """Everything about the session but its rows and sources."""

    project: Project
    classes: list[str]
    meanings: dict[str, str]
    positive: str | None
    rows: dict[Literal["total", "train", "dev"], int]
    version: int
    number: int
    comparison: list[Score]
    scoring: Scoring
    covered: dict[Literal["own", "after"], float]
    uncertain: int
    labelled: dict[Literal["total", "random", "chosen", "unknown"], int]
    sources: int
    problem: str
    notes: list[str]
    failures: list[Failure]
    findings: list[Finding]
    examined: bool
    code: dict[Literal["error"], CodeError | None]
    undo: str | None
    redo: str | None
    seconds: float
    picture: Picture


class SourceLine(Struct):
    """A line of the table of sources; shares are of train rows, rates of rows labelled by hand."""

    name: str
    classes: list[str]
    on: bool
    heard: bool
    radius: Setting
    reach: float | None
    coverage: float
    extended: float
    own: Interval | None
    lent: Interval | None
    conflicts: int
    weight: float | None
    kind: Literal["keywords", "regex", "like", "python", "other"] = "other"
    line: int | None = None
    finding: str | None = None
    failure: str | None = None


class Sources(Struct):
    """Some lines of the table, of how many."""

    total: int
    sources: list[SourceLine]


class Source(SourceLine):
    """All about one source."""

    definition: Form | None = None
    code: str | None = None
    adds: float | None = None
    curve: RadiusCurve | None = None


class Functions(Struct):
    """All about some sources, of how many."""

    total: int
    functions: list[Source]


class Vote(Struct):
    """One source's vote on a row; one that is not its own is lent."""

    source: str
    vote: str
    own: bool


class Row(Struct):
    """A row in a list."""

    row: int
    id: str
    split: Literal["train", "dev"]
    text: str
    label: str | None
    p: float | None
    hand: str | None
    chosen: str | None
    votes: list[Vote]
    image: bool


class Rows(Struct):
    """Some of the rows that match, and how many each filter would find."""

    total: int
    rows: list[Row]
    counts: dict[str, int]


class WholeRow(Row):
    """A row with all its text and cells."""

    columns: dict[str, str]


class Queued(Row):
    """A row to look at, and why."""

    reason: str
    purpose: str


class Queue(Struct):
    """Rows to look at, in this order."""

    rows: list[Queued]


class Answer(Struct):
    """What one model calls a row."""

    name: str
    label: str | None
    p: float | None
    in_use: bool = field(name="inUse", default=False)


class Voice(Struct):
    """One source's part in a row's label."""

    source: str
    vote: str | None
    origin: str
    lender: int | None
    lender_text: str | None = field(name="lenderText")
    distance: float | None
    weight: float
    detail: str


class Part(Struct):
    """What one part of the model adds to the log-odds."""

    name: str
    weight: float


class Why(Struct):
    """Why a row has its label."""

    row: int
    id: str
    label: str
    against: str
    probabilities: dict[str, float]
    truth: str | None
    said: Sequence[str]
    answers: list[Answer]
    start: float
    log_odds: float
    additive: bool
    voices: list[Voice]
    voices_total: int
    parts: list[Part]
    cells: dict[str, str]
    text: str


class Mention(Struct):
    """A row in a few words: with its hand label, how far it is, or the label it had and would have."""

    row: int
    text: str
    hand: str | None = None
    distance: float | None = None
    before: str | None = field(name="from", default=None)
    after: str | None = field(name="to", default=None)


class Change(Struct):
    """What an edit made different."""

    version: int
    what: str
    source: str | None
    flipped: int
    before: dict[str, float]
    after: dict[str, float]
    coverage: Sequence[float] | None
    seconds: float
    problem: str
    unheard: Sequence[str]
    heard: Sequence[str]
    failures: Sequence[str] = ()


class Trial(Struct):
    """What a radius would change; of its source what is now and what would be."""

    request: int
    what: str
    seconds: float
    flipped: int
    comparison: list[Score]
    extended: list[float]
    lent: list[Interval | None]
    lent_rows: list[int] = field(name="lentRows")
    lost: list[Mention]


class Draft(Struct):
    """What a function would do."""

    ok: bool
    error: CodeError | None
    label: str | None
    name: str
    code: str
    rows: int
    coverage: float
    extended: float
    right: Interval | None
    conflicts: int
    overlaps: int
    unheard: bool
    flipped: int
    flips: list[Mention]
    examples: list[Mention]
    comparison: list[Score]
    before: list[Score]
    seconds: float


class Saved(Struct):
    """What a function changed that was written."""

    name: str
    change: Change | None


class Suggestions(Struct):
    """Functions that could be added."""

    suggestions: list[FunctionSuggestion]


class InFile(Struct):
    """Where a function stands in lfs.py."""

    name: str
    line: int
    kind: str


class File(Struct):
    """lfs.py as it is on disk."""

    text: str
    hash: str
    error: CodeError | None
    functions: list[InFile]


class SavedFile(Struct):
    """lfs.py after it was written."""

    hash: str
    error: CodeError | None
    change: Change | None


class Edit(Struct):
    """A decision in the log."""

    number: int
    at: str
    who: str
    what: str
    mine: bool
    undone: bool
    scores: dict[str, float] | None
    flipped: int | None


class History(Struct):
    """The decisions, newest first."""

    total: int
    undo: str | None
    edits: list[Edit]


class Report(Struct):
    """Numbers on the whole."""

    title: str
    summary: dict[str, Any]
    tables: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    sources_total: int
    classes: list[str]
    rows: dict[str, int]
    comparison: list[Score]
    scored_on: str
    why: str
    notes: list[str]
    may_write: bool


class Radius(Struct):
    """A radius for rows like these."""

    radius: float
    rows: int


class Head(Struct):
    """What the bytes of an answer are of."""

    total: int
    kind: str = ""
    source: str | None = None
    version: int = 0
    by: str = ""


class PNG(Struct):
    """What the bytes of a picture are."""


class Notes(Struct):
    """What belongs in each class."""

    meanings: dict[str, str]


class Job(Struct):
    """Long work that was begun, by its number."""

    job: int


class Exported(Struct):
    """Where labels were written, and where they can be fetched."""

    path: str
    url: str


class Done(Struct):
    """It is done, and there is nothing to say."""
