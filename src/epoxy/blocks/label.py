"""Label a project as a session does: within so much memory, with others' help, or rows that came later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from .. import mapped
from ..errors import ParameterError
from ..progress import Progress
from ..project.project import open_session
from ..project.settings import Project
from ..session import Session
from ..session.export import Labelled, export_labels, format_of
from .budget import MEMORY, bytes_of, rows_within

NO_NEW_ROWS = "vectors given to label are those of new rows; name their file too: --new FILE"

KEPT = ("votes", "vectors", "neighbours")
"""Folders of what takes long, which the next run goes on from."""


def label(folder: str | Path, **options: Any) -> Labelled:
    """Label every row of a project folder; the labels do not depend on memory or on who works.

    Parameters
    ----------
    folder
        A project.
    memory
        What the process may take, such as `"4GB"`; what does not fit lies on the disk. None: no limit.
    model
        Another model than the project's own: its name, `Fusion(...)` or `Epoxy(...)`.
    run
        Who votes, embeds and finds neighbours: `epoxy.cluster.Dask(client)`, or any other map.
    progress
        Makes a callback from what is being done.
    rows_at_once
        How many rows are worked on at a time, where memory would allow more.
    new
        A file of other rows, which are labelled instead, by the model that the project's rows made.
    vectors
        A .npy file with their vectors, where neither their file nor the project's encoder has them.
    to
        Where the labels are written; labels/labels.parquet of the project, and labels/NAME.parquet
        for a file NAME of new rows.
    """
    with opened(folder, **options) as (_, write):
        return write()


@contextmanager
def opened(
    folder: str | Path,
    *,
    memory: str | int | None = None,
    model: Any = None,
    run: mapped.Run | None = None,
    progress: Callable[[str], Progress] | None = None,
    rows_at_once: int | None = None,
    new: str | Path | None = None,
    vectors: str | Path | None = None,
    to: str | Path | None = None,
) -> Iterator[tuple[Session, Callable[[], Labelled]]]:
    """The session that labels, as long as its arrays are there, and what writes the labels."""
    project = Project.read(Path(folder))
    target = _target(project, new, vectors, None if to is None else Path(to))
    given = None
    if new is not None:
        given = Path(new).resolve(), None if vectors is None else Path(vectors)
    with ExitStack() as until:
        place, killed = until.enter_context(mapped.scratch(project.cache.resolve() / "scratch"))
        kept = [what for what in KEPT if killed and any((project.cache / what).glob("*"))]
        if memory is not None or run is not None or rows_at_once is not None:
            told = getattr(run, "memory", None)  # what a worker of a cluster may take
            size = bytes_of(told(memory) if told else memory or MEMORY)
            rows = min(rows_within(size), rows_at_once or 1 << 62)
            until.enter_context(mapped.within(size, rows, place, run))
        session = open_session(Session, project.folder, model=model, progress=progress, new=given)
        if kept and session.folder is not None:
            told = (
                f"the last run was killed; this one went on from the {' and '.join(kept)} it kept"
            )
            session.folder.notes.append(told)
        yield session, partial(export_labels, session, target, new=new is not None)


def _target(
    project: Project, new: str | Path | None, vectors: str | Path | None, to: Path | None
) -> Path:
    """Where labels are written; what is known to fail is refused before any work."""
    if new is None and vectors is not None:
        raise ParameterError(NO_NEW_ROWS)
    whole = project.labels / "labels.parquet"
    target = to or (whole if new is None else project.labels / f"{Path(new).stem}.parquet")
    if new is not None and to is None and target == whole:
        raise ParameterError(
            f"labels of {new} would be written over those of the project's rows, {target}; "
            "name another file: --to FILE"
        )
    format_of(target)
    return target
