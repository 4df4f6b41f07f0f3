"""From a project folder to a running session: vote, embed, and take up what was decided before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..applying import Failure, apply_report
from ..encoders import embed
from ..errors import AlignmentError, EpoxyError, LabelError, UnknownName
from ..fingerprints import fingerprint
from ..lfs import as_labeling_function
from ..neighbors import store as arrays
from ..progress import Progress, bar, silent
from ..votes import Split, Votes
from .project import Project, label_of, read_rows
from .store import Store

__all__ = ["ProjectRows", "open_session", "read_project", "vote"]


@dataclass(frozen=True, eq=False)
class ProjectRows:
    """The rows of a project, cut into train and dev, with ids and true labels."""

    tables: tuple[Any, ...]  # pyarrow tables, train first
    ids: tuple[np.ndarray, ...]
    y: tuple[np.ndarray | None, ...]  # names, None where unknown
    sequences: tuple[np.ndarray | None, ...]
    positions: tuple[np.ndarray, ...]  # where each row stands in its file
    keys: tuple[str, ...]  # fingerprints of the tables


def open_session(
    kind: type,
    folder: str | Path,
    *,
    progress: Callable[[str], Progress] | None = None,
    **options: Any,
) -> Any:
    """Open a project folder as a session; `progress` makes a callback from what is being done."""
    project = Project.read(folder)
    report = bar if progress is None else progress
    rows = read_project(project)
    lfs = project.load_lfs()
    votes, failures = vote(project, rows, lfs, report("voting"))
    vectors = _vectors(project, rows, report("embedding"))
    splits = [
        Split(each, vector, y, ids)
        for each, vector, y, ids in zip(votes, vectors, rows.y, rows.ids)
    ]
    kept = Store(project.cache / "state.sqlite")
    settings: dict[str, Any] = {"metric": project.metric, "positive": project.positive}
    settings |= _model_options(project, splits) | options
    settings.setdefault("cache", project.cache / "neighbours")
    session = kind(*splits, progress=report("finding neighbours"), **settings)
    session.project, session.failures, session.rows = project, failures, rows
    session.meanings = {as_labeling_function(lf).name: fingerprint(lf) for lf in lfs}
    _take_up(session, kept)
    session.store = kept
    return session


def read_project(project: Project) -> ProjectRows:
    """Read the rows; those with a true label are dev rows, unless dev is a file of its own."""
    table = read_rows(project.rows)
    named = (project.id, project.label, project.column, project.sequence, project.position)
    for name in (*named, *project.mentions):
        if name is not None and name not in table.column_names:
            raise UnknownName.of(f"column of {project.rows}", name, table.column_names)
    tables: tuple[Any, ...]
    positions: tuple[np.ndarray, ...]
    truth: tuple[np.ndarray | None, ...]
    if project.dev is not None:
        dev = read_rows(project.dev)
        tables = (table, dev)
        positions = (np.arange(table.num_rows), np.arange(dev.num_rows))
        truth = (None, _labels(dev, project, project.dev))
    else:
        labels = _labels(table, project, project.rows)
        is_dev = np.array([label is not None for label in labels])
        positions = (np.flatnonzero(~is_dev), np.flatnonzero(is_dev))
        if not len(positions[0]):
            raise EpoxyError(
                f"every row of {project.rows} has a true label, so there is nothing to label; "
                "give rows without one, or name a dev file"
            )
        tables = tuple(table.take(each) for each in positions)
        truth = (None, labels[is_dev])
    ids = tuple(_ids(each, project, at) for each, at in zip(tables, positions))
    sequences = tuple(_sequences(each, project, at) for each, at in zip(tables, positions))
    keys = tuple(_table_key(each) for each in tables)
    n = 2 if tables[1].num_rows else 1
    return ProjectRows(tables[:n], ids[:n], truth[:n], sequences[:n], positions[:n], keys[:n])


def vote(
    project: Project, rows: ProjectRows, lfs: Sequence[Any], progress: Progress = silent
) -> tuple[list[Votes], tuple[Failure, ...]]:
    """Votes of every function on every split; columns whose function is unchanged are read back."""
    functions = [as_labeling_function(each) for each in lfs]
    names = [each.name for each in functions]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise AlignmentError(
            f"labeling functions must have different names, got {sorted(twice)} twice"
        )
    results: list[Votes] = []
    failures: list[Failure] = []
    for table, key, sequences in zip(rows.tables, rows.keys, rows.sequences):
        places = [_place(project, each, key) for each in functions]
        columns = [_kept(place, table.num_rows) for place in places]
        missing = [at for at, column in enumerate(columns) if column is None]
        if missing:
            done = apply_report(
                [functions[at] for at in missing], table, classes=project.classes, progress=progress
            )
            failed = {failure.name for failure in done.failures}
            failures += [f for f in done.failures if f.name not in {g.name for g in failures}]
            for at, column in zip(missing, done.votes.matrix.T):
                columns[at] = column
                place = places[at]
                if place is not None and names[at] not in failed:
                    arrays.save(place, {"votes": column})
        matrix = np.stack([column for column in columns if column is not None], axis=1)
        results.append(Votes(matrix, names, project.classes, sequences=sequences))
    return results, tuple(failures)


def _vectors(project: Project, rows: ProjectRows, progress: Progress) -> list[np.ndarray | None]:
    if project.encoder in ("", "none"):
        return [None] * len(rows.tables)
    if project.encoder.endswith(".npy"):
        return _vectors_from_files(project, rows)
    found: list[np.ndarray | None] = list(
        embed(
            project.encoder,
            *rows.tables,
            column=project.encoded,
            cache=project.cache / "vectors",
            progress=progress,
        )
    )
    return found


def _vectors_from_files(project: Project, rows: ProjectRows) -> list[np.ndarray | None]:
    """Row-aligned .npy files: one for the rows file, and one for the dev file if there is one."""
    files = [Path(project.encoder)]
    if project.dev is not None and len(rows.tables) > 1:
        if project.dev_vectors is None:
            raise AlignmentError(
                f"{project.folder} has a dev file and vectors for the rows only; "
                'name the dev vectors too: dev = "….npy" under [vectors]'
            )
        files.append(project.dev_vectors)
    loaded = [np.load(each, allow_pickle=False) for each in files]
    if project.dev is not None:
        expected = [len(each) for each in rows.positions]
    else:
        expected = [sum(len(each) for each in rows.positions)]
    for file, each, count in zip(files, loaded, expected):
        if len(each) != count:
            raise AlignmentError(f"{file} has {len(each)} vectors for {count} rows")
    if project.dev is not None:
        return list(loaded)
    return [loaded[0][each] for each in rows.positions]


def _model_options(project: Project, splits: Sequence[Split]) -> dict[str, Any]:
    from ..label_models import DawidSkene, MajorityVote, Triplet, balance_of

    options = project.options
    kinds = {"triplet": Triplet, "majority": MajorityVote, "dawid-skene": DawidSkene}
    name = options.get("label_model", "triplet")
    if name == "chain":
        from ..sequences import Chain

        length = options.get("length")
        return {"label_model": Chain() if length is None else Chain(length=length)}
    if name not in kinds:
        raise UnknownName.of("label model", name, [*kinds, "chain"])
    dev = splits[1] if len(splits) > 1 else None
    balance: Any = options.get("balance")
    if balance is None and dev is not None and dev.labelled.any():
        balance = balance_of(dev).tolist()
    extra = {"solve": options["solve"]} if "solve" in options and name == "triplet" else {}
    found: dict[str, Any] = {"label_model": kinds[name](balance, **extra)}
    if "radius" in options:
        found["radius"] = options["radius"]
    return found


def _take_up(session: Any, kept: Store) -> None:
    """Radii, switches and true labels of earlier sessions, for what is still there."""
    radii = {name: radius for name, radius in kept.radii().items() if name in session.sources}
    if radii:
        session.set_radii(radii, "radii of the last session")
    for name in kept.switched_off() & set(session.sources):
        session.switch(name, False)
    places = {
        str(row): name
        for name, ids in zip(("train", "dev"), session.rows.ids)
        for row in ids.tolist()
    }
    for row, label in kept.labels().items():
        if row in places and label in session.classes:
            session.label(row, label, places[row])
    session.forget_past()


def _labels(table: Any, project: Project, file: Path) -> np.ndarray:
    if project.label is None or project.label not in table.column_names:
        return np.full(table.num_rows, None, dtype=object)
    values = [label_of(value) for value in table.column(project.label).to_pylist()]
    known = set(project.classes)
    for at, value in enumerate(values):
        if value is not None and value not in known:
            raise LabelError(
                f"{file} has the label {value!r} on row {at}; "
                f"expected one of {list(project.classes)} or nothing; see [classes] in epoxy.toml"
            )
    return np.array(values, dtype=object)


def _sequences(table: Any, project: Project, at: np.ndarray) -> np.ndarray | None:
    """Sequence ids, checked; rows left out in between (dev rows) end a sequence."""
    if project.sequence is None or not table.num_rows:
        return None
    from ..sequences import sequence_ids

    names = np.array(table.column(project.sequence).to_pylist()).astype(str)
    if project.position is not None:
        places = np.array(table.column(project.position).to_pylist())
        return sequence_ids(names, places, gaps="split")
    return sequence_ids(names, at, gaps="split")


def _ids(table: Any, project: Project, positions: np.ndarray) -> np.ndarray:
    if project.id is None or project.id not in table.column_names:
        return positions
    return np.array(table.column(project.id).to_pylist())


def _table_key(table: Any) -> str:
    """A fingerprint of the rows' content, whatever file they came from."""
    digest = hashlib.blake2b(str(table.schema.remove_metadata()).encode(), digest_size=16)
    for batch in table.combine_chunks().to_batches():
        for column in batch.columns:
            for value in _buffers(column):
                digest.update(value)
    return digest.hexdigest()


def _buffers(column: Any) -> list[bytes]:
    import pyarrow as pa

    # through IPC: slices and dictionaries are written out as they are read
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([column], names=["column"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return [sink.getvalue().to_pybytes()]


def _place(project: Project, lf: Any, key: str) -> Path | None:
    """Where a column is kept; None for a function whose meaning cannot be hashed."""
    meaning = fingerprint(lf)
    if meaning is None:
        return None
    name = hashlib.blake2b(
        "\n".join([meaning, key, *project.classes]).encode(), digest_size=16
    ).hexdigest()
    return project.cache / "votes" / f"{name}.npz"


def _kept(place: Path | None, n_rows: int) -> np.ndarray | None:
    found = None if place is None else arrays.load(place, ("votes",))
    if found is None or found["votes"].shape != (n_rows,):
        return None
    return found["votes"]
