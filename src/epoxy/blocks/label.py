"""Label a project past memory: open it in blocks, let the model learn, write the labels as they come."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..engines import Outcome, PaperEngine, scores_of
from ..errors import NotIdentifiable, ParameterError
from ..progress import Progress, silent
from ..project.settings import Project
from ..session.export import Labelled, format_of, label_columns, notes_of, write_table, written_ids
from ..votes import ABSTAIN
from ..workspace import DEV, TRAIN
from . import new_rows, pipeline, voters
from .budget import MEMORY, bytes_of
from .opened import Opened, alone, open_project
from .pipeline import Answer, Concluded
from .source import Room
from .table import Blocks, Run

PLACE = "place of the row"
NO_NEW_ROWS = "vectors given to label are those of new rows; name their file too: --new FILE"


def label(
    folder: str | Path,
    *,
    memory: str | int | None = None,
    model: Any = None,
    run: Run = map,
    progress: Callable[[str], Progress] = lambda what: silent,
    rows_per_block: int | Callable[[int], int] | None = None,
    new: str | Path | None = None,
    vectors: str | Path | None = None,
    to: str | Path | None = None,
) -> Labelled:
    """Label every row of a project folder within so much memory; the labels are those of `epoxy label`.

    Parameters
    ----------
    folder
        A project; rows, votes and vectors are read past memory from Parquet, CSV or JSON lines.
    memory
        What a process may take, such as `"4GB"`; blocks are cut so that it is kept.
    model
        Another model than the project's own: `Fusion(...)` or `Epoxy(...)`.
    run
        Who works on the blocks: the builtin `map`, or that of a cluster.
    progress
        Makes a callback from what is being done.
    rows_per_block
        How many rows a block has at most, where memory would allow more; or that by the number of rows.
    new
        A file of other rows, which are labelled instead, by the model that the project's rows made.
    vectors
        A .npy file with their vectors, where neither their file nor the project's encoder has them.
    to
        Where the labels are written; labels/labels.parquet of the project, and labels/NAME.parquet
        for a file NAME of new rows.
    """
    project = Project.read(Path(folder).resolve())
    target = _target(project, new, vectors, None if to is None else Path(to))
    most = rows_per_block if callable(rows_per_block) else lambda n_rows: rows_per_block
    room = Room(bytes_of(MEMORY if memory is None else memory), most, run, progress)
    with alone(project.cache), ExitStack() as finally_:
        finally_.callback(voters.close)
        other = None
        if new is not None:
            given = None if vectors is None else Path(vectors)
            home = project.cache / "new-rows"
            finally_.callback(shutil.rmtree, home, ignore_errors=True)
            other = new_rows.take_new(project, Path(new).resolve(), given, home, room)
        made = open_project(project, project.make_model() if model is None else model, room)
        found = conclude(made)
        if other is None:
            return _labelled(made, found, target)
        new_rows.answered(made, other)
        found.arrays_in(made, other.train)
        nobody = Few(*(np.empty(0, np.intp) for _ in range(3)))
        tables = _tables(made, found, other.train, nobody, None, np.zeros(2))
        write_table(tables, target, format_of(target))
        return replace(_told(made, found, target), rows=other.train.n_rows)


def _target(
    project: Project, new: str | Path | None, vectors: str | Path | None, to: Path | None
) -> Path:
    """Where labels are written; what is known to fail is refused before any work."""
    if new is not None:
        return new_rows.place_for(project, Path(new), to)
    if vectors is not None:
        raise ParameterError(NO_NEW_ROWS)
    if to is not None:
        format_of(to)
    return project.labels / "labels.parquet" if to is None else to


def conclude(made: Opened) -> Concluded:
    """Let the project's model make what it makes of all rows."""
    if not made.few.active:
        raise NotIdentifiable("no source is switched on; add a labeling function")
    if isinstance(made.engine, PaperEngine):
        return pipeline.conclude(made)
    raise ParameterError(
        f"{made.engine.name} needs all rows at once; label with fusion or epoxy, or in memory"
    )


def _labelled(made: Opened, found: Concluded, target: Path) -> Labelled:
    covered = np.zeros(2)
    few = Few.of(found.outcome, TRAIN, made.hand)
    tables = _tables(made, found, made.taken.train, few, _dev_table(made, found), covered)
    write_table(tables, target, format_of(target))
    return replace(_told(made, found, target), covered=tuple(covered / made.taken.train.n_rows))


def _told(made: Opened, found: Concluded, path: Path) -> Labelled:
    off = [each.name for each in made.few.sources if not each.is_on]
    notes = notes_of(off, found.outcome, found.recall)
    voted = {name for name, count in made.cast.items() if count}
    raised = {each.name for each in made.failures}
    dev = made.taken.dev if made.project.dev is None else None
    return Labelled(
        path,
        made.taken.train.n_rows + (0 if dev is None else dev.n_rows),
        made.model,
        None,
        scores_of(found.outcome, made.project.positive),
        (*made.notes, *notes, *map(str, made.failures)),
        tuple(
            each
            for each in made.every
            if each not in made.votes or (each in raised and each not in voted)
        ),
        made.engine.lends,
        found.recall,
        shards=len(made.taken.train.sizes),
    )


@dataclass(frozen=True, eq=False)
class Few:
    """What is written of labelled rows, by their numbers in their table."""

    rows: np.ndarray
    given: np.ndarray  # class index
    truth: np.ndarray  # the same where it is trusted, else −1

    @classmethod
    def of(cls, outcome: Outcome, at: int, rows: np.ndarray) -> Few:
        """Rows of one split of the labelled rows."""
        labels = outcome.workspace.labels
        y = labels.y[at]
        return cls(rows, y, np.where(labels.wrong[at] == 0, y, ABSTAIN))


def _tables(
    made: Opened, found: Concluded, table: Blocks, few: Few, dev: Any, covered: np.ndarray
) -> Iterator[Any]:
    """The labels of a table's rows, and of dev rows among them, in the order of their file."""
    given = {
        "answer": found.answer,
        "few": few,
        "column": made.project.id,
        "embedded": made.vectors is not None,
    }
    vectors = [] if made.vectors is None else [made.vectors]
    report = made.room.progress("writing labels")
    arrays = ["rows", "place", *vectors, *found.arrays]
    for part, counts in table.stream(label_block, *arrays, start=True, progress=report, **given):
        covered += counts
        before = 0
        if dev is not None and len(part):
            before = int(np.searchsorted(dev[PLACE].to_numpy(), part[PLACE][-1].as_py()))
        yield _in_order([part] if dev is None else [part, dev[:before]])
        dev = None if dev is None else dev[before:]
    if dev is not None:
        yield _in_order([dev])


def _in_order(tables: list[Any]) -> Any:
    import pyarrow as pa

    return pa.concat_tables(tables).sort_by(PLACE).drop_columns([PLACE])


def label_block(
    rows: Any,
    place: np.ndarray,
    *arrays: np.ndarray,
    answer: Answer,
    few: Few,
    column: str | None,
    embedded: bool,
    start: int,
) -> tuple[Any, np.ndarray]:
    """A table of labels for the rows of a block, and on how many somebody votes, before and after."""
    loans = answer.loans(arrays[embedded:])
    proba = answer.proba(loans, arrays[0] if embedded else None)
    given: np.ndarray = np.full(len(place), ABSTAIN)
    truth = given.copy()
    first, last = np.searchsorted(few.rows, [start, start + len(place)])
    at = few.rows[first:last] - start
    given[at], truth[at] = few.given[first:last], few.truth[first:last]
    label = np.where(truth == ABSTAIN, answer.labels(proba), truth)
    own = np.sum([each.own != ABSTAIN for each in loans], axis=0)
    lent = np.sum([each.lent(far) for each, far in zip(loans, answer.radii)], axis=0)
    counts = np.array([np.count_nonzero(own), np.count_nonzero(own + lent)])
    made = table_of(
        answer.classes, ids_of(rows, place, column), (proba, label, own, lent, given, truth)
    )
    return made.append_column(PLACE, [place]), counts


def _dev_table(made: Opened, found: Concluded) -> Any:
    """Labels of those rows of the rows file that came with one; None where there are none."""
    dev, outcome = made.taken.dev, found.outcome
    if dev is None or made.project.dev is not None:
        return None
    place = dev.joined("place")
    few = Few.of(outcome, DEV, np.arange(len(place)))
    own = outcome.workspace.own(DEV).cast.sum(axis=1)
    lent = outcome.votes(DEV).cast.sum(axis=1) - own
    told = outcome.proba[DEV], outcome.decided[DEV], own, lent, few.given, few.truth
    ids = ids_of(dev.joined("rows"), place, made.project.id)
    return table_of(found.answer.classes, ids, told).append_column(PLACE, [place])


def ids_of(rows: Any, place: np.ndarray, column: str | None) -> Any:
    """What rows are called in labels."""
    return place if column is None else written_ids(rows.column(column))


def table_of(classes: tuple[str, ...], ids: Any, told: tuple[np.ndarray, ...]) -> Any:
    """Probabilities, labels, own votes, lent ones, labels given and true ones as a table."""
    import pyarrow as pa

    proba, label, own, lent, given, truth = told
    return pa.table(label_columns(classes, ids, proba, label, (own, lent), given, truth))
