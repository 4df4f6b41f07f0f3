"""The rows of a project: read, cut into train and dev, named, and embedded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from .. import mapped
from ..errors import AlignmentError, EpoxyError, StoreError, UnknownName, few
from ..session.labels import Place
from ..votes import RANDOM
from .settings import Project
from .tables import (
    check_ids,
    checked_labels,
    ids_in,
    ids_of,
    joined_by_id,
    label_of,
    numbers,
    read_rows,
    votes_in,
)


def labels_in(table: Any, project: Project, file: Path) -> np.ndarray:
    """The class of each row by name, None where it is not known."""
    names = table.column_names
    if project.label is None or project.label not in names:
        return np.full(table.num_rows, None, dtype=object)
    ids = table.column(project.id) if project.id in names else None
    return checked_labels(table.column(project.label), project.classes, file, ids=ids)


def ready_made(project: Project, rows: ProjectRows) -> dict[str, tuple[np.ndarray, ...]]:
    """Votes that came in a file, for the rows of each split: a column a source; new rows bring their own."""
    assert project.votes is not None
    table = read_rows(project.votes, "check file under [votes]", naming=project.naming)
    places = ids_in(table, project, project.votes)
    first = len(rows.files)
    at = [joined_by_id(places, ids, project.votes) for ids in rows.ids[:first]]
    found = {}
    sources = [name for name in table.column_names if name != project.id]
    if not sources:
        raise StoreError(f"{project.votes} has no column of votes; write one for each source")
    for name in sources:
        votes = votes_in(table.column(name), name, project.classes)
        found[name] = tuple(np.ascontiguousarray(votes[each]) for each in at)
        for new in rows.tables[first:]:
            if name not in new.column_names:
                raise UnknownName.of("column of votes in the new rows", name, new.column_names)
            found[name] += (votes_in(new.column(name), name, project.classes),)
        mapped.let_go()
    return found


KEYED = 1 << 16
"""Rows of a table that are fingerprinted at a time."""
ROWS_FILE, DEV_FILE = "rows", "dev"
"""What files are called in the log, wherever they lie: the rows file, and a dev file of its own."""
OWN_IDS = "give every row an id of its own, or take id out of [rows] to name rows by position"
"""What to do where ids do not name the rows."""


@dataclass(frozen=True, eq=False)
class ProjectRows:
    """The rows of a project, cut into train and dev, with ids and hand labels."""

    files: tuple[str, ...]  # the file each split came from
    tables: tuple[Any, ...]  # pyarrow tables, train first
    ids: tuple[np.ndarray, ...]
    y: tuple[np.ndarray | None, ...]  # names, None where unknown
    chosen: tuple[np.ndarray | None, ...]
    by: tuple[np.ndarray | None, ...]  # who gave each label, None for somebody who is believed
    sequences: tuple[np.ndarray | None, ...]
    positions: tuple[np.ndarray, ...]  # where each row stands in its file
    keys: tuple[str, ...]  # fingerprints of the tables
    given: frozenset[str] = frozenset()  # columns that hold labels, and so are no content
    _contents: dict[str, list[Place]] = field(default_factory=dict, repr=False)

    def content(self, at: int, row: int) -> str:
        """A fingerprint of what a row says, whoever labelled it and wherever it stands."""
        return self._fingerprint(self.tables[at].slice(row, 1).to_pylist()[0])

    def _fingerprint(self, cells: dict[str, Any]) -> str:
        told = {name: value for name, value in cells.items() if name not in self.given}
        text = json.dumps(told, sort_keys=True, default=str, ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def follow(
        self, content: str, file: str, place: Place | None, taken: Container[Place] = ()
    ) -> Place | None:
        """Where the row of a file with this content is now: at its old place, or where it was moved to.

        Of rows that say the same, the first that is not `taken`.
        """
        if place is not None and self.content(*place) == content:
            return place
        if not self._contents:
            for at, (name, table) in enumerate(zip(self.files, self.tables)):
                every = (cells for batch in table.to_batches(10_000) for cells in batch.to_pylist())
                for row, cells in enumerate(every):
                    key = f"{name} {self._fingerprint(cells)}"
                    self._contents.setdefault(key, []).append((at, row))
        found = self._contents.get(f"{file} {content}", [])
        free = [each for each in found if each not in taken]
        return next(iter(free or found), None)


def read_project(project: Project) -> ProjectRows:
    """Read the rows; those with a true label are dev rows, unless dev is a file of its own.

    Rows in sequences stay where they are, labelled or not.
    """
    table = read_rows(project.rows, "check the path under [rows]", naming=project.naming)
    apart = (
        None
        if project.dev is None
        else read_rows(project.dev, "check dev under [rows]", naming=project.naming)
    )
    check_columns(project, table, apart)
    labels = labels_in(table, project, project.rows)
    if apart is not None:
        tables: tuple[Any, ...] = (table, apart)
        positions: tuple[np.ndarray, ...] = (
            np.arange(table.num_rows),
            np.arange(apart.num_rows),
        )
        truth: tuple[Any, ...] = (None, labels_in(apart, project, project.dev or project.rows))
        files: tuple[str, ...] = (ROWS_FILE, DEV_FILE)
    elif project.sequence is not None:
        tables, positions, files = (table,), (np.arange(table.num_rows),), (ROWS_FILE,)
        truth = (labels,)
    else:
        is_dev = np.array([label is not None for label in labels], dtype=bool)
        positions = (np.flatnonzero(~is_dev), np.flatnonzero(is_dev))
        if not len(positions[0]):
            raise EpoxyError(
                f"every row of {project.rows} has a true label, so there is nothing to label; "
                "give rows without one, or name a dev file"
            )
        used = 2 if is_dev.any() else 1
        positions, files = positions[:used], (ROWS_FILE, ROWS_FILE)[:used]
        tables = tuple(_taken(table, each) for each in positions)
        truth = (None, labels[is_dev])[:used]
    ids = tuple(_ids(each, project, at) for each, at in zip(tables, positions))
    _check_ids(project, files, ids, positions)
    return ProjectRows(
        files,
        tables,
        ids,
        truth,
        tuple(_chosen(each, project.chosen) for each in tables),
        tuple(_words(each, project.by) for each in tables),
        tuple(_sequences(each, project, at) for each, at in zip(tables, positions)),
        positions,
        tuple(_table_key(each) for each in tables),
        frozenset(each for each in (project.label, project.chosen, project.by) if each),
    )


def with_new_rows(project: Project, rows: ProjectRows, file: Path) -> ProjectRows:
    """The rows of a project, and as one split more those of another file, of which no label is known."""
    table = read_rows(file, "check --new", naming=project.naming)
    check_columns(as_new(project, file), table, None)
    at = np.arange(table.num_rows)
    ids = _ids(table, project, at)
    if project.id is not None:
        check_ids(ids, project.id, file, OWN_IDS)
    more = table, ids, None, None, None, _sequences(table, project, at), at, _table_key(table)
    names = ("tables", "ids", "y", "chosen", "by", "sequences", "positions", "keys")
    grown: dict[str, Any] = {name: (*getattr(rows, name), e) for name, e in zip(names, more)}
    return replace(rows, **grown)


def as_new(project: Project, file: Path) -> Project:
    """The project, if these were all its rows."""
    nothing = dict.fromkeys(("dev", "dev_vectors", "votes", "label", "chosen", "by"))
    return structs.replace(project, rows=file, **nothing)


def _taken(table: Any, rows: np.ndarray) -> Any:
    """Some rows of a table, by their ascending numbers."""

    def batches() -> Iterator[Any]:
        for at in range(0, len(rows), mapped.BLOCK):
            some = rows[at : at + mapped.BLOCK]
            near = table.slice(some[0], some[-1] - some[0] + 1)
            yield from near.take(numbers(some - some[0])).combine_chunks().to_batches()

    return (
        table.take(numbers(rows))
        if mapped.limit() is None
        else mapped.table(table.schema, batches())
    )


def check_columns(project: Project, table: Any, apart: Any) -> None:
    """Every column that epoxy.toml names is there; labels are where they are read from.

    A table is anything with `column_names`.
    """
    needed = (
        *(project.id, project.column, project.sequence, project.position),
        *(project.vector_column, *project.mentions),
    )
    chosen = None if project.chosen == RANDOM else project.chosen
    labelled = (project.label, chosen, project.by)
    places: list[tuple[Any, Path | None, tuple[str | None, ...]]]
    places = [(table, project.rows, (*needed, *(labelled if apart is None else ())))]
    if apart is not None:
        places.append((apart, project.dev, (*needed, *labelled)))
    for where, file, names in places:
        for name in names:
            if name is not None and name not in where.column_names:
                raise UnknownName.of(f"column of {file}", name, where.column_names)
    if apart is not None and project.label is None:
        raise StoreError(
            f"{project.dev} is a dev file, and epoxy.toml names no label column; "
            'add label = "…" under [rows]'
        )


def _check_ids(
    project: Project,
    files: tuple[str, ...],
    ids: tuple[np.ndarray, ...],
    positions: tuple[np.ndarray, ...],
) -> None:
    """Ids name rows, so every row has one, and no two rows of a file share one."""
    for file in dict.fromkeys(files) if project.id is not None else ():
        path = project.rows if file == ROWS_FILE else project.dev
        mine = [at for at, name in enumerate(files) if name == file]
        every = np.concatenate([ids[at] for at in mine])
        rows = np.concatenate([positions[at] for at in mine])
        check_ids(every, project.id, path, OWN_IDS, rows)


def twice(project: Project, rows: ProjectRows) -> list[str]:
    """Rows that a rows file and a dev file of its own have in common, by id or by text, in words."""
    if project.dev is None:
        return []
    known, asked = (set(each.astype(str).tolist()) for each in rows.ids[:2])
    both = [] if project.id is None else sorted(known & asked)
    same: list[str] = []
    if project.column is not None:
        texts = set(rows.tables[0].column(project.column).to_pylist()) - {None, ""}
        said = rows.tables[1].column(project.column).to_pylist()
        same = [name for name, text in zip(rows.ids[1].astype(str).tolist(), said) if text in texts]
    found = []
    if both:
        found.append(
            f"{len(both)} ids are in the rows file and in the dev file ({few(both)}); they name two "
            "rows each, and a label of one is not the other's: take them out of one file if they are "
            "the same"
        )
    if same:
        found.append(
            f"{len(same)} dev rows say what a row of the rows file says ({few(same)}); a model trained "
            "on the labels has seen them, and its scores on dev flatter it"
        )
    return found


def _chosen(table: Any, how: str | None) -> np.ndarray | None:
    """How each row was chosen: by the column of that name, or all at random."""
    if how == RANDOM and how not in table.column_names:
        return np.full(table.num_rows, RANDOM, dtype=object)
    return _words(table, how)


def _words(table: Any, column: str | None) -> np.ndarray | None:
    if column is None or column not in table.column_names:
        return None
    words = np.empty(table.num_rows, dtype=object)
    words[:] = [label_of(value) for value in table.column(column).to_pylist()]
    return words


def _sequences(table: Any, project: Project, at: np.ndarray) -> np.ndarray | None:
    """The sequence of each row by name, checked; where positions are missing another part begins."""
    if project.sequence is None or not table.num_rows:
        return None
    from ..sequences import sequence_ids

    given = [label_of(value) for value in table.column(project.sequence).to_pylist()]
    if None in given:
        raise AlignmentError(
            f"row {given.index(None)} has no sequence in the column {project.sequence!r}; "
            "name the sequence of every row"
        )
    names, places = np.array(given), at
    if project.position is not None:
        places = np.array(table.column(project.position).to_pylist())
    number = sequence_ids(names, places, gaps="split")
    first = np.unique(names, return_index=True, return_inverse=True)
    part = (number - number[first[1]][first[2]]).tolist()
    named = [name if not each else f"{name} (part {each + 1})" for name, each in zip(names, part)]
    return np.array(named)


def _ids(table: Any, project: Project, positions: np.ndarray) -> np.ndarray:
    if project.id is None or project.id not in table.column_names:
        return positions
    return ids_of(table.column(project.id))


def _table_key(table: Any) -> str:
    """A fingerprint of the rows' content, whatever file they came from and however it is cut."""
    import pyarrow as pa

    digest = hashlib.blake2b(str(table.schema.remove_metadata()).encode(), digest_size=16)
    for start in range(0, table.num_rows, KEYED):
        for batch in table.slice(start, KEYED).combine_chunks().to_batches():
            for column in batch.columns:
                # through IPC: slices and dictionaries are written out as they are read
                sink = pa.BufferOutputStream()
                one = pa.record_batch([column], names=["column"])
                with pa.ipc.new_stream(sink, one.schema) as writer:
                    writer.write_batch(one)
                digest.update(sink.getvalue())
    return digest.hexdigest()
