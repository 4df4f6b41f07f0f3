"""From a project folder to what a model needs of it: votes, vectors and loans in blocks, labels at hand.

The driver holds what a session holds of its labelled rows, and nothing of the others: a `Workspace` whose
train split is the train rows with a hand label. So the log, labellers, radii and switches mean here what
they mean in a session, by the same code.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import column_of, resolve
from ..engines import Engine, engine_of
from ..errors import EpoxyError, ParameterError, StoreError
from ..functions.apply import Failure
from ..inputs import as_float32
from ..loans import Neighbourhood
from ..project.project import Folder
from ..project.read import DEV_FILE, ROWS_FILE, ProjectRows, labels_in, named_rows
from ..project.settings import Project
from ..running import Limits, Loaded, Runner
from ..session.edits import Label, edit_from_json, simple_edits
from ..session.labels import Records, random_digest
from ..session.log import Log
from ..session.state import RowNames, State
from ..votes import ABSTAIN, Split, Votes
from ..workspace import Workspace
from . import voters
from .files import cannot_write
from .lenders import lend, loans_of
from .source import Room, Taken, array_of, take
from .table import Blocks
from .voters import Examples, Functions

try:
    import fcntl
except ImportError:  # pragma: no cover — Windows has no such locks: there nobody is kept out
    fcntl = None  # type: ignore[assignment]

LEARNED = 100_000
"""Train rows from which an encoder that learns (LSA) learns at most, evenly apart."""


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """Be the only run of a project; the lock is the system's, so it ends with the process."""
    place = cache / "blocks.lock"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.open("a+", encoding="utf-8")
    except OSError as error:
        raise cannot_write(place, error) from error
    with file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise StoreError(
                    f"another run labels {cache.parent} now ({file.read().strip()}); wait until it is "
                    "done, or end it and run again: what it kept is not done again"
                ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {time.strftime('%H:%M')}\n")
        file.flush()
        yield


@dataclass(eq=False)
class Opened:
    """A project in blocks, voted on, with its labelled rows at hand."""

    project: Project
    model: str  # its name
    engine: Engine
    room: Room
    taken: Taken
    functions: Functions | None
    encoder: Any = None
    vectors: str | None = None  # what vectors are called in the tables
    likes: list[Examples] = field(default_factory=list)
    votes: dict[str, str] = field(default_factory=dict)  # what sources' votes are called there
    failures: list[Failure] = field(default_factory=list)
    every: tuple[str, ...] = ()  # all sources that were asked
    hand: np.ndarray = field(default_factory=lambda: np.empty(0, np.intp))
    few: Any = None  # the labelled rows: those of train, and dev
    notes: tuple[str, ...] = ()

    @property
    def tables(self) -> list[Blocks]:
        """The train rows, and the dev rows where there are some."""
        return [each for each in (self.taken.train, self.taken.dev) if each is not None]

    def vote(self, table: Blocks, names: Sequence[str]) -> list[Failure]:
        """Have the votes of functions on the rows of a table."""
        functions, classes = self.functions, self.project.classes
        if functions is None:
            return []
        near = {each.name: each for each in self.likes}
        asked = [each for each in names if each not in near]
        report = self.room.progress("voting")
        failures = voters.ask(table, functions, asked, classes, report) if asked else []
        for like in near.values():
            if like.name in names and self.vectors is not None:
                given: dict[str, Any] = {"like": like, "column": self.project.id}
                arrays = "rows", "place", self.vectors
                table.each(voters.near_block, *arrays, into=like.array, again=False, **given)
        return failures

    def array_of(self, source: str) -> str:
        """What the votes of a source are called in the tables."""
        near = {each.name: each.array for each in self.likes}
        if source in near:
            return near[source]
        functions = self.functions
        return (
            array_of(source)
            if functions is None
            else functions.array_of(source, self.project.classes)
        )

    def embed(self, table: Blocks, *, again: bool = False) -> None:
        """Have the vectors of the rows of a table."""
        if self.encoder is not None and self.vectors is not None:
            given = {"encoder": self.encoder, "column": self.project.encoded}
            report = self.room.progress("embedding")
            table.each(
                encode_block, "rows", into=self.vectors, again=again, progress=report, **given
            )

    def lend(self, table: Blocks, sources: Sequence[str]) -> dict[str, str]:
        """Have who lends to the rows of a table, of the sources that have something to lend."""
        if self.vectors is None:
            return {}
        lending = [each for each in sources if 0 < self.cast[each] < self.taken.train.n_rows]
        arrays = [self.votes[each] for each in lending]
        report = self.room.progress("finding neighbours")
        given: dict[str, Any] = {"metric": self.engine.metric, "progress": report}
        found = lend(table, self.taken.train, arrays, self.vectors, **given) if lending else []
        return dict(zip(lending, found))

    @cached_property
    def cast(self) -> dict[str, int]:
        """How many train rows each source votes on."""
        names = list(self.votes)
        total = self.taken.train.sum(count_block, *(self.votes[each] for each in names))
        return dict(zip(names, total.tolist()))


def open_project(project: Project, model: Any, room: Room) -> Opened:
    """Read, embed and vote in blocks that fit into memory, and take up what was decided."""
    if project.sequence is not None:
        raise ParameterError(
            "rows in sequences are labelled in their order, and a block could cut one in two; "
            "label this project without --memory, or take sequence out of [rows]"
        )
    runner = Runner(project.folder, Limits(project.seconds, project.memory))
    loaded = Loaded((), {})
    if project.votes is None:
        loaded = runner.load()
        runner.close()
    engine = engine_of(model)
    store = Log(project.cache / "state.sqlite")
    taken = take(project, project.cache / "blocks", room, len(loaded.names))
    functions = None if project.votes else Functions.of(project, loaded, runner.limits)
    made = Opened(project, type(model).__name__, engine, room, taken, functions)
    _embedded(made)
    about = project.id, engine.metric, project.classes
    made.likes, made.failures = voters.examples_of(made.tables, loaded.likes, made.vectors, about)
    _voted(made, loaded.names or taken.sources)
    voters.close()  # the functions' process is memory that blocks need now
    made.hand = np.concatenate(
        taken.train.list(
            voters.find_block,
            "rows",
            "place",
            start=True,
            names=labelled_in(store),
            column=project.id,
        )
    )
    rows = _few_rows(made)
    home = Folder(project, rows, runner, store, loaded, tuple(made.failures), store.notes)
    home.notes.extend(taken.notes)
    few = _workspace(made, rows)
    records = Records.of_files(few, rows.by, project.labellers)
    state = State.of(few, records, _Names(rows.files, rows.ids, made))
    made.few = home.decided(state)[0].apply(state)[0].workspace
    made.notes = tuple(home.notes)
    return made


def _embedded(made: Opened) -> None:
    """Vectors of all rows: those that files hold, or made by the project's encoder."""
    project, train = made.project, made.taken.train
    if made.taken.dimension:
        made.vectors = "vectors"
    if made.vectors is not None or not project.embeds:
        return
    encoder = resolve(project.encoder)
    if not encoder.slow:
        rows = np.unique(np.linspace(0, train.n_rows - 1, min(LEARNED, train.n_rows)).astype(int))
        table = train.rows("rows", rows)
        encoder.fit(encoder.prepare(column_of(table, project.encoded)))
    identity = f"{encoder.identity or project.encoder} {project.encoded}"
    made.encoder, made.vectors = encoder, f"vectors-{array_of(identity)[6:]}"
    for table in made.tables:
        made.embed(table)


def encode_block(rows: Any, *, encoder: Any, column: Any) -> np.ndarray:
    """Vectors of the rows of a block."""
    return as_float32(np.asarray(encoder.encode(encoder.prepare(column_of(rows, column)))))


def _voted(made: Opened, names: tuple[str, ...]) -> None:
    """Votes of all sources on all rows; those without votes on train are left out."""
    made.every = names
    lost = {each.name for each in made.failures}
    asked = [each for each in names if each not in lost]
    made.failures += made.vote(made.taken.train, asked)
    lost = {each.name for each in made.failures if each.kind != "raised"}
    made.votes = {each: made.array_of(each) for each in names if each not in lost}
    if not made.votes:
        shown = "; ".join(map(str, made.failures[:3]))
        raise EpoxyError(f"no labeling function of {made.project.folder} could vote: {shown}")
    if made.taken.dev is not None:
        for each in made.vote(made.taken.dev, list(made.votes)):
            made.failures.append(each)
            if each.kind != "raised":
                made.votes.pop(each.name, None)


def count_block(*votes: np.ndarray) -> np.ndarray:
    """How many rows of a block each source votes on."""
    return np.array([np.count_nonzero(each != ABSTAIN) for each in votes])


def labelled_in(store: Log) -> list[str]:
    """Names of rows that the log labels, in the rows file or in one that was not named."""
    found: dict[str, None] = {}
    for record in store.records():
        for edit in simple_edits(edit_from_json(record.edit)):
            if isinstance(edit, Label) and edit.file != DEV_FILE:
                found[edit.row] = None
    return list(found)


def _few_rows(made: Opened) -> ProjectRows:
    """The labelled rows with their names: of train those the log labels, and dev."""
    project, dev = made.project, made.taken.dev
    files = [ROWS_FILE]
    tables = [made.taken.train.rows("rows", made.hand)]
    places, truth = [made.taken.train.rows("place", made.hand)], list[Any]([None])
    if dev is not None:
        files.append(ROWS_FILE if project.dev is None else DEV_FILE)
        tables.append(dev.joined("rows"))
        places.append(dev.joined("place"))
        truth.append(labels_in(tables[1], project, project.dev or project.rows))
    return named_rows(project, *map(tuple, (files, tables, places, truth)))


def _workspace(made: Opened, rows: ProjectRows) -> Workspace:
    """The labelled rows and their votes, before anything was decided."""
    sources = tuple(made.votes)
    splits = []
    for at in range(len(rows.tables)):
        votes = Votes(few_of(made, at, list(made.votes.values())), sources, made.project.classes)
        splits.append(Split(votes, None, rows.y[at], rows.ids[at], rows.chosen[at]))
    near = Neighbourhood(tuple(each.n_rows for each in splits), made.engine.metric)
    dev = splits[1] if len(splits) > 1 else None
    return Workspace.over(splits[0], dev, near, made.engine.settings(sources))


def few_of(made: Opened, at: int, arrays: Sequence[str]) -> np.ndarray:
    """Arrays of the labelled rows of train (0) or dev (1), side by side."""
    table = made.tables[at]
    if at:
        return np.stack([table.joined(each) for each in arrays], axis=1)
    return np.stack([table.rows(each, made.hand) for each in arrays], axis=1)


def with_loans(made: Opened, lent: dict[str, str], lent_dev: dict[str, str]) -> None:
    """Take up who lends to the labelled rows."""
    found = []
    for source in made.few.sources:
        loans = []
        for at, arrays in enumerate((lent, lent_dev)[: len(made.few.splits)]):
            name = arrays.get(source.name)
            loans.append(
                loans_of(source.own[at], None if name is None else few_of(made, at, [name])[:, 0])
            )
        found.append(replace(source, loans=tuple(loans)))
    made.few = replace(made.few, sources=tuple(found))


class _Names(RowNames):
    """Names of the labelled rows; the draw ends where it comes to a row that is not among them."""

    def __init__(self, files: Any, ids: Any, made: Opened) -> None:
        super().__init__(files, ids)
        self._made = made

    @cached_property
    def order(self) -> Any:
        """The labelled rows that come before the first row that is not labelled."""
        made = self._made
        given: dict[str, Any] = {"column": made.project.id, "labelled": made.hand}
        end = min(made.taken.train.list(first_drawn, "rows", "place", start=True, **given))
        places = [(at, row) for at, ids in enumerate(self._ids) for row in range(len(ids))]
        digests = {place: random_digest(*self.name(place)) for place in places}
        return sorted((each for each in places if digests[each] < end), key=digests.__getitem__)


def first_drawn(
    rows: Any, place: np.ndarray, *, column: str | None, labelled: np.ndarray, start: int
) -> int:
    """The first row of a block in the order of the draw that is not labelled, as its digest."""
    names = voters.names_of(rows, place, column).to_pylist()
    known = set((labelled - start).tolist())
    digests = (random_digest(ROWS_FILE, name) for at, name in enumerate(names) if at not in known)
    return min(digests, default=1 << 64)
