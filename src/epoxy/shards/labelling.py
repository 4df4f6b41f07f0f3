"""Label a project past memory: open it in shards, let the model conclude, write the labels as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..engines import Outcome, PaperEngine, scores_of
from ..errors import NotIdentifiable, ParameterError
from ..fusion.engine import FusionEngine
from ..progress import Progress, silent
from ..project.settings import Project
from ..session.export import Labelled, format_of, label_columns, notes_of, written_ids
from ..storage import write_whole
from ..votes import ABSTAIN
from ..workspace import DEV, TRAIN
from . import fusion, paper, voting
from .new_rows import label_rows, place_for, rows_in
from .opening import World, open_world
from .paper import Concluded, Made, loans_of
from .parts import table_of
from .run import alone
from .runner import Runner, Serial, Summary
from .shard import Kept, Shard, cannot_write

PART = "labels.parquet"
NO_NEW_ROWS = "vectors given to label are those of new rows; name their file too: --new FILE"


def label(
    folder: str | Path,
    *,
    memory: str | int | None = None,
    model: Any = None,
    runner: Runner | None = None,
    progress: Callable[[str], Progress] = lambda what: silent,
    rows_per_shard: int | None = None,
    new: str | Path | None = None,
    vectors: str | Path | None = None,
    to: str | Path | None = None,
) -> Labelled:
    """Label every row of a project folder within so much memory; the labels are those of `epoxy label`.

    Parameters
    ----------
    folder
        A project whose rows are Parquet, one file or a folder of parts; with `new`, and neither
        `memory` nor `runner`, they may be what a session reads, and are read whole.
    memory
        What the process may take, such as `"4GB"`, or each worker of a cluster; shards are cut so that it
        is kept. None: 4 GB, or what the workers have.
    model
        Another model than the project's own: `Fusion(...)` or `Epoxy(...)`.
    runner
        Who works on the shards: this process, one after the other, or `epoxy.cluster`'s.
    progress
        Makes a callback from what is being done.
    rows_per_shard
        How many rows a shard has at most, where memory would allow more.
    new
        A file of other rows, which are labelled instead, by the model that the project's rows made.
    vectors
        A .npy file with their vectors, where neither their file nor the project's encoder has them.
    to
        Where the labels are written; labels/labels.parquet of the project, and labels/NAME.parquet
        for a file NAME of new rows.
    """
    project = Project.read(folder)
    target = _target(project, new, vectors, None if to is None else Path(to))
    with alone(project.cache):
        try:
            world = open_world(
                project,
                memory=memory,
                model=model,
                runner=Serial() if runner is None else runner,
                most=rows_per_shard,
                report=progress,
                whole=new is not None and memory is None and runner is None,
            )
            found = conclude(world)
            if new is None:
                return _labelled(world, found, target)
            given = None if vectors is None else Path(vectors)
            path, rows = label_rows(world, found, Path(new), given, target)
            return replace(_told(world, found, path), rows=rows)
        finally:
            voting.close()


def _target(
    project: Project, new: str | Path | None, vectors: str | Path | None, to: Path | None
) -> Path:
    """Where labels are written; what is known to fail is refused before any work."""
    if new is not None:
        rows_in(project, Path(new))
        return place_for(project, Path(new), to)
    if vectors is not None:
        raise ParameterError(NO_NEW_ROWS)
    if to is not None and format_of(to) != "parquet":
        raise ParameterError(
            f"labels in shards are written as Parquet, and {to} is none; name a file that ends "
            "in .parquet"
        )
    return project.labels / "labels.parquet" if to is None else to


def conclude(world: World) -> Concluded:
    """Let the project's model make what it makes of all rows."""
    if not world.few.active:
        raise NotIdentifiable("no source is switched on; add a labeling function")
    if isinstance(world.engine, FusionEngine):
        return fusion.conclude(world)
    if isinstance(world.engine, PaperEngine):
        return paper.conclude(world)
    raise ParameterError(
        f"{world.engine.name} needs all rows at once; label with fusion or epoxy, or in memory"
    )


def _labelled(world: World, found: Concluded, target: Path) -> Labelled:
    path, covered = write(world, found, target)
    shares = (float(covered[0] / world.n_train), float(covered[1] / world.n_train))
    return replace(_told(world, found, path), covered=shares)


def _told(world: World, found: Concluded, path: Path) -> Labelled:
    off = [each.name for each in world.few.sources if not each.is_on]
    notes = notes_of(off, found.outcome, world.recall)
    return Labelled(
        path,
        sum(map(len, world.run.shards)),
        world.model,
        None,
        scores_of(found.outcome, world.project.positive),
        (*world.notes, *notes, *map(str, world.voted.failures)),
        _without_a_vote(world.voted),
        world.engine.lends,
        world.recall,
        shards=len(world.run.shards),
    )


def _without_a_vote(voted: voting.Voted) -> tuple[str, ...]:
    """Functions that failed and have no vote, as `session.failed` has them."""
    cast = dict(zip(voted.moments.sources, voted.moments.counts.sum(axis=1).tolist()))
    raised = {each.name for each in voted.failures}
    return tuple(
        name
        for name in voted.every
        if name not in voted.sources or (name in raised and not cast[name])
    )


@dataclass(frozen=True)
class Few:
    """What is written of labelled rows, by their places among all rows."""

    places: np.ndarray
    given: np.ndarray  # class index
    truth: np.ndarray  # the same where it is trusted, else −1
    proba: np.ndarray
    label: np.ndarray
    votes: np.ndarray  # (2, n) own votes, and lent ones

    @classmethod
    def of(cls, outcome: Outcome, at: int, places: np.ndarray) -> Few:
        """Rows of one split of the labelled rows."""
        labels = outcome.workspace.labels
        own = outcome.workspace.own(at).cast.sum(axis=1)
        return cls(
            places,
            labels.y[at],
            np.where(labels.wrong[at] == 0, labels.y[at], ABSTAIN),
            outcome.proba[at],
            outcome.decided[at],
            np.stack([own, outcome.votes(at).cast.sum(axis=1) - own]),
        )

    def of_shard(self, shard: Shard) -> tuple[np.ndarray, np.ndarray]:
        """Which of them are in a shard, and where they stand in it."""
        mine = np.flatnonzero((self.places >= shard.start) & (self.places < shard.stop))
        return mine, self.places[mine] - shard.start


def write(world: World, found: Concluded, target: Path) -> tuple[Path, np.ndarray]:
    """The labels of all rows as one Parquet file, which appears when it is whole."""
    outcome, scanned = found.outcome, world.scanned
    few = [Few.of(outcome, TRAIN, scanned.hand)]
    if world.project.dev is None and len(outcome.proba) > 1:
        few.append(Few.of(outcome, DEV, scanned.dev))
    stage = world.run.stage(
        "labels",
        label_shard,
        scanned.kept,
        found.made,
        few,
        world.project.id,
        world.project.classes,
    )
    (covered,) = stage.total("covered")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, lambda path: _join(path, stage.kept, world.run.shards))
    except OSError as error:
        raise cannot_write(target, error) from error
    return target, covered


def label_shard(
    shard: Shard,
    kept: Kept,
    rows: Kept,
    made: Made,
    few: list[Few],
    column: str | None,
    classes: tuple[str, ...],
) -> Summary:
    """A table of labels for all rows of a shard, as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    train = rows.load(shard, "train")
    proba, label, votes = _spread(shard, train, made, len(classes))
    given: np.ndarray = np.full(len(shard), ABSTAIN)
    truth = given.copy()
    for number, each in enumerate(few):
        mine, at = each.of_shard(shard)
        given[at], truth[at] = each.given[mine], each.truth[mine]
        if number == DEV:
            proba[at], label[at], votes[:, at] = (
                each.proba[mine],
                each.label[mine],
                each.votes[:, mine],
            )
    label = np.where(truth == ABSTAIN, label, truth)
    ids = np.arange(shard.start, shard.stop)
    if column is not None:
        ids = written_ids(table_of(shard, [column]).column(0))
    table = pa.table(label_columns(classes, ids, proba, label, (votes[0], votes[1]), given, truth))
    place = kept.place(shard, PART)
    try:
        write_whole(place, lambda path: pq.write_table(table, path))
    except OSError as error:
        raise cannot_write(place, error) from error
    own, both = votes[0][train] > 0, votes.sum(axis=0)[train] > 0
    return {"covered": np.array([np.count_nonzero(own), np.count_nonzero(both)])}


def _spread(
    shard: Shard, train: np.ndarray, made: Made, n_classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels and numbers of votes of a shard's train rows, among all its rows."""
    proba = np.zeros((len(shard), n_classes))
    label = np.zeros(len(shard), dtype=np.int64)
    votes = np.zeros((2, len(shard)), dtype=np.int64)
    proba[train] = made.proba.load(shard, "proba")
    label[train] = made.rule(proba[train])
    for loans, far in zip(
        loans_of(shard, made.votes, made.loans, made.columns, made.lending), made.radii
    ):
        own = loans.own != ABSTAIN
        votes[0, train] += own
        votes[1, train] += (loans.extend(far) != ABSTAIN) & ~own
    return proba, label, votes


def _join(path: Path, kept: Kept, shards: tuple[Shard, ...]) -> None:
    """The parts one after the other in one file, a part in memory at a time."""
    import pyarrow.parquet as pq

    writer = None
    try:
        for shard in shards:
            table = pq.read_table(kept.place(shard, PART))
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
