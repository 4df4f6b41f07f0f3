"""From a project folder to what a model needs of it: merged counts, and the few rows that people labelled.

The driver holds what a session holds of its labelled rows, and nothing of the others: a `Workspace`
whose train split is the train rows with a hand label. So the log, labellers, radii and switches mean
here what they mean in a session, by the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import column_of, resolve
from ..engines import Engine, engine_of
from ..errors import AlignmentError, ParameterError
from ..inputs import as_float32
from ..loans import Loans
from ..neighbors.graph import Recall
from ..progress import Progress, silent
from ..project.project import Folder
from ..project.read import ProjectRows, check_columns, read_vectors
from ..project.settings import Project
from ..project.tables import list_column, read_rows, vote_columns
from ..running import Limits, Loaded
from ..running import Runner as FunctionRunner
from ..session.log import Log
from ..workspace import Workspace
from . import budget, scanning, vectors, voting
from .copying import copied_parts
from .examples import Likes, find_examples
from .joining import index
from .labelled_rows import decided, few_rows, labelled_in, workspace_of
from .lending import Answers
from .listing import Listed
from .parts import Parts, parts_of
from .run import Run
from .runner import Runner
from .scanning import Scanned
from .shard import Shard
from .vectors import Encoding, JoinedVectors, ShardVectors, VectorColumn, VectorFile

Read = Callable[[Path, str], Parts]
"""Opens a table, and says with the second what to do where there is none."""
LEARNED = 100_000
"""Train rows from which an encoder that learns (LSA) learns at most, evenly apart."""


@dataclass
class World:
    """A project in shards, voted on, with its labelled rows at hand."""

    project: Project
    model: str  # its name
    engine: Engine
    run: Run
    scanned: Scanned
    voted: voting.Voted
    vectors: ShardVectors | None
    few: Workspace  # the labelled rows: those of train, and dev
    raw: tuple[np.ndarray | None, ...]  # their vectors
    given: Any  # what vectors were made of
    functions: Any  # what votes were made of
    likes: Likes  # those of example rows
    fits: int  # rows that fit into memory at a time
    memory: int  # bytes
    notes: tuple[str, ...] = ()  # of the log, the labels and the files
    recall: Recall | None = None  # of neighbours that are approximate
    lists: tuple[Listed | None] | None = (
        None  # once it is known: approximate lists, or None for exact ones
    )

    @property
    def n_train(self) -> int:
        """Rows to label."""
        return self.scanned.n_train

    @property
    def columns(self) -> np.ndarray:
        """Where the active sources stand in the kept votes."""
        every = list(self.voted.every)
        return np.array([every.index(name) for name in self.few.names], dtype=np.intp)

    def with_loans(self, answers: tuple[Answers, ...], at: np.ndarray) -> None:
        """Take up who lends to the labelled rows, for the active sources numbered `at`."""
        made = list(self.few.sources)
        for number, active in enumerate(at.tolist()):
            source = self.few.active[active]
            loans = tuple(_loans(each, found, number) for each, found in zip(source.loans, answers))
            made[made.index(source)] = replace(source, loans=loans)
        self.few = replace(self.few, sources=tuple(made))


def _loans(old: Loans, found: Any, number: int) -> Loans:
    return Loans(old.own, found.lender[number], found.distance[number], found.vote[number])


def open_world(
    project: Project,
    *,
    memory: str | int | None,
    model: Any,
    runner: Runner,
    most: int | None,
    report: Callable[[str], Progress] = lambda what: silent,
    whole: bool = False,
) -> World:
    """Read, vote and embed in shards that fit into memory, and take up what was decided.

    `whole`: tables that are not Parquet are read whole and copied, where they would be refused.
    """
    read: Read = partial(copied_parts, project) if whole else parts_of
    model = project.make_model() if model is None else model
    engine = engine_of(model)
    _check(project)
    parts = read(project.rows, "check the path under [rows]")
    apart = (
        None
        if project.dev is None
        else read_rows(project.dev, "check dev under [rows]", naming=project.naming)
    )
    check_columns(project, _Columns(parts.schema.names), apart)
    asked = FunctionRunner(project.folder, Limits(project.seconds, project.memory))
    loaded = _loaded(project, asked)
    sources, table = _sources(project, loaded, read)
    given, dimension = _vectors(project, parts, read)
    each = budget.row_bytes(parts.row_bytes(), dimension, len(sources), len(project.classes))
    within = budget.bytes_of(runner.memory(memory))
    fits = budget.rows_within(within, each, str(project.folder))
    run = Run(project.cache / "shards", runner, _cut(parts, fits, most, runner), parts.key, report)
    longest = len(run.shards[0])
    run.spare = max(0, int(within - budget.FIXED - each * longest))
    store = Log(project.cache / "state.sqlite")
    scanned = scanning.scan(run, project, labelled_in(store))
    run = replace(run, shards=scanned.shards)
    functions: Any = voting.Functions.of(project, loaded, asked.limits)
    if table is not None:
        functions = index(run, table, "votes", str(project.id), longest)
    where, given = _where(run, project, given, scanned, longest)
    rows = few_rows(project, scanned, apart, parts.schema)
    raw = _raw(run, project, scanned, where, rows, given)
    likes = _likes(run, project, scanned, loaded, where, rows, raw, engine.metric)
    voted = voting.vote(run, scanned.kept, functions, project.classes, sources, likes)
    liked = _liked_dev(project, likes, rows, raw)
    few = workspace_of(project, run, scanned, voted, rows, functions, liked, engine)
    voting.close()  # the functions' process is memory that shards need now
    home = Folder(project, rows, asked, store, loaded, voted.failures, store.notes)
    home.notes.extend(scanning.twice(run, project, rows))
    state = decided(project, run, scanned, home, few, rows, engine)
    made = (project, type(model).__name__, engine, run, scanned, voted, where, state.workspace)
    return World(*made, raw, given, functions, likes, fits, within, tuple(home.notes))


def _cut(parts: Parts, fits: int, most: int | None, runner: Runner) -> tuple[Shard, ...]:
    """Shards that fit into memory, of as many rows as were asked for, or as suits who works on them."""
    wanted = runner.rows_per_shard(parts.n_rows) if most is None else most
    return parts.cut(fits if wanted is None else min(wanted, fits))


def _loaded(project: Project, runner: FunctionRunner) -> Loaded:
    """The functions of a project that votes with some."""
    if project.votes is not None:
        return Loaded((), {})
    loaded = runner.load()
    runner.close()
    return loaded


def _likes(
    run: Run,
    project: Project,
    scanned: Scanned,
    loaded: Loaded,
    where: ShardVectors | None,
    rows: ProjectRows,
    raw: tuple[np.ndarray | None, ...],
    metric: str,
) -> Likes:
    """Functions of example rows, which may be rows of a dev file too."""
    dev = raw[1] if project.dev is not None else None
    apart = None if dev is None else (rows.ids[1].tolist(), dev)
    about = project.id, metric, project.classes
    return find_examples(run, scanned, loaded.likes, where, apart, about)


def _liked_dev(
    project: Project, likes: Likes, rows: ProjectRows, raw: tuple[np.ndarray | None, ...]
) -> dict[str, np.ndarray]:
    """Votes of functions of example rows on dev rows."""
    if len(rows.tables) == 1:
        return {}
    places, ids = rows.positions[1], list[str]()
    if project.dev is not None:
        places, ids = np.empty(0, int), [str(each) for each in rows.ids[1].tolist()]
    return likes.on_rows(raw[1], places, ids, voting.vote_dtype(project.classes))


class _Columns:
    """What is asked of a table whose rows are not read: its columns."""

    def __init__(self, names: list[str]) -> None:
        self.column_names = names


def _check(project: Project) -> None:
    if project.sequence is not None:
        raise ParameterError(
            "rows in sequences are labelled in their order, and a shard could cut one in two; "
            "label this project without --memory, or take sequence out of [rows]"
        )


def _sources(project: Project, loaded: Loaded, read: Read) -> tuple[tuple[str, ...], Parts | None]:
    if project.votes is None:
        return loaded.names, None
    table = read(project.votes, "check file under [votes]")
    return vote_columns(table.schema.names, project, project.votes), table


def _vectors(project: Project, parts: Parts, read: Read) -> tuple[Any, int]:
    """Where vectors come from, as far as that is known before rows are looked at, and their dimension."""
    if not project.embeds:
        return None, 0
    if project.vector_ids is not None:
        names = read(project.vector_ids, "check ids under [vectors]")
        file = VectorFile.of(Path(project.encoder), names.n_rows, project.vector_ids)
        return (names, file), file.dimension
    if project.encoder.endswith(".npy"):
        file = VectorFile.of(Path(project.encoder), parts.n_rows)
        return file, file.dimension
    if project.vector_column is not None:
        size = _list_size(parts, project.vector_column)
        return VectorColumn(project.vector_column, size), size
    if project.encoder.endswith(".parquet"):
        other = parts_of(Path(project.encoder), "check encoder under [vectors]")
        size = _list_size(other, list_column(other.schema, other.path))
        return other, size
    return project.encoder, 768


def _list_size(parts: Parts, column: str) -> int:
    import pyarrow as pa

    kind = parts.schema.field(column).type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    raise ParameterError(
        f"column {column!r} of {parts.path} holds {kind}; write vectors as fixed-size lists, "
        "whose length is known before they are read"
    )


def _where(
    run: Run, project: Project, given: Any, scanned: Scanned, most: int
) -> tuple[ShardVectors | None, Any]:
    """Vectors shard by shard, and what they were made of."""
    if given is None:
        return None, None
    if isinstance(given, tuple):
        names, file = given
        other = index(run, names, "vectors", str(project.id), most)
        given = JoinedVectors(other, "", file.dimension, file)
    elif isinstance(given, Parts):
        other = index(run, given, "vectors", str(project.id), most)
        column = list_column(given.schema, given.path)
        given = JoinedVectors(other, column, _list_size(given, column))
    elif isinstance(given, str):
        given = _fitted(run, project, scanned)
    return vectors.take_up(run, given, scanned.kept, project.id), given


def _fitted(run: Run, project: Project, scanned: Scanned) -> Encoding:
    """An encoder that has learned what it learns; from all train rows, or so many of them."""
    encoder = resolve(project.encoder)
    if encoder.slow:
        return Encoding(encoder, project.encoded, encoder.identity or project.encoder)
    rows = np.unique(np.linspace(0, scanned.n_train - 1, min(LEARNED, scanned.n_train)).astype(int))
    names = [project.encoded] if isinstance(project.encoded, str) else project.encoded
    stage = run.stage("learned-from", scanning.take_shard, scanned.kept, names, rows)
    table = scanning.joined_tables([each["rows"] for each in stage])
    encoder.fit(encoder.prepare(column_of(table, project.encoded)))
    return Encoding(encoder, project.encoded, encoder.identity or project.encoder)


def _raw(
    run: Run,
    project: Project,
    scanned: Scanned,
    where: ShardVectors | None,
    rows: ProjectRows,
    given: Any,
) -> tuple[np.ndarray | None, ...]:
    """Vectors of the labelled rows."""
    if where is None:
        return (None,) * len(rows.tables)
    hand = vectors.pick_vectors(run, where, scanned.hand, "hand-vectors")
    if len(rows.tables) == 1:
        return (hand,)
    if project.dev is None:
        return hand, vectors.pick_vectors(run, where, scanned.dev, "dev-vectors")
    return hand, _dev_vectors(project, rows, given)


def _dev_vectors(project: Project, rows: ProjectRows, given: Any) -> np.ndarray:
    """Vectors of the rows of a dev file."""
    table, ids = rows.tables[1], rows.ids[1].tolist()
    if isinstance(given, Encoding):
        return given.of(table)
    if isinstance(given, JoinedVectors):
        return as_float32(given.of(ids), name=ids.__getitem__)
    if isinstance(given, VectorFile):
        if project.dev_vectors is None:
            raise AlignmentError(
                f"{project.folder} has a dev file and vectors for the rows only; "
                'name the dev vectors too: dev = "….npy" under [vectors]'
            )
        found = VectorFile.of(project.dev_vectors, table.num_rows).rows(0, table.num_rows)
        return as_float32(found, name=ids.__getitem__)
    alone = {name: getattr(rows, name)[1:] for name in ("files", "ids", "positions")}
    dev = replace(rows, tables=(table,), **alone)
    read = read_vectors(project, dev, silent)[0]
    assert read is not None
    return read
