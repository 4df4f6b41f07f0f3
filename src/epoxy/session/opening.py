"""From a project folder to a running session: vote, embed, and take up what was decided before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..engines import engine_of
from ..errors import EpoxyError
from ..files import private
from ..functions.apply import Failure
from ..loans import Neighbourhood
from ..progress import Progress, bar
from ..running import Limits, Loaded, Runner
from ..votes import Split, Votes
from .by_id import ready_made
from .folder import Folder
from .project import Project
from .reading import ProjectRows, read_project, read_vectors, twice
from .store import Store
from .voting import vote, voting

if TYPE_CHECKING:
    from .session import Session

S = TypeVar("S", bound="Session")
PATIENCE = 2.0
"""Seconds of work after which a line tells of it where there is no terminal to draw on."""


def open_session(
    kind: type[S],
    folder: str | Path,
    *,
    model: Any = None,
    graph: bool = True,
    empty: bool = False,
    progress: Callable[[str], Progress] | None = None,
) -> S:
    """Open a project folder as a session; `progress` makes a callback from what is being done."""
    project = Project.read(folder)
    model = project.make_model(model) if model is None or isinstance(model, str) else model
    rows = read_project(project)
    n_rows = sum(table.num_rows for table in rows.tables)
    report = partial(bar, rows=n_rows, line=PATIENCE) if progress is None else progress
    private(project.cache)
    store = Store(project.cache / "state.sqlite")
    runner = Runner(project.folder, Limits(project.seconds, project.memory))
    loaded = runner.load(empty=empty) if project.votes is None else Loaded((), {})
    read = cache(lambda: read_vectors(project, rows, report("embedding")))
    near = cache(lambda: _near(engine_of(model).metric, rows, read()))
    told = report(voting(runner, rows))
    failures: list[Failure] = []
    if project.votes is not None:
        columns = ready_made(project, rows.ids)
    else:
        columns, failures = vote(project, rows, runner, loaded, loaded.names, near, told)
    if not columns and not empty:
        shown = "; ".join(map(str, failures[:3]))
        raise EpoxyError(f"no labeling function of {project.folder} could vote: {shown}")
    vectors = read()
    splits = [_split(project, rows, columns, at, vectors[at]) for at in range(len(rows.tables))]
    home = Folder(project, rows, runner, store, loaded, tuple(failures), store.notes, report)
    home.notes.extend(twice(project, rows))
    if loaded.undecorated:
        home.notes.append(
            f"lfs.py: {', '.join(loaded.undecorated)} without @epoxy.labeling_function do not vote; "
            "decorate them, or take them out"
        )
    return kind(
        splits[0],
        splits[1] if len(splits) > 1 else None,
        model,
        positive=project.positive,
        rows=rows.tables,
        graph=graph,
        cache=project.cache / "neighbours",
        neighbours=project.neighbours,
        progress=report("finding neighbours"),
        folder=home,
        labels=splits[0] if project.sequence is not None else None,
    )


def _near(metric: str, rows: ProjectRows, vectors: list[np.ndarray | None]) -> Neighbourhood:
    """What functions of example rows vote by."""
    return Neighbourhood.of_vectors(tuple(map(len, rows.ids)), vectors, metric, apart=True)


def _split(
    project: Project,
    rows: ProjectRows,
    columns: dict[str, tuple[np.ndarray, ...]],
    at: int,
    vectors: np.ndarray | None,
) -> Split:
    nobody = np.empty((rows.tables[at].num_rows, 0), dtype=np.int8)
    matrix = np.column_stack([nobody, *(each[at] for each in columns.values())])
    votes = Votes(matrix, list(columns), project.classes, sequences=rows.sequences[at])
    return Split(votes, vectors, rows.y[at], rows.ids[at], rows.chosen[at])
