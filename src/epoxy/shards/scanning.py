"""The first look at every row: which are labelled, what they are called, and that no two share a name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import AlignmentError, EpoxyError
from ..project.read import OWN_IDS, ROWS_FILE, ProjectRows, in_both_files
from ..project.settings import Project
from ..project.tables import check_named, checked_labels, nameless
from ..session.labels import random_digest
from .parts import read_shard, table_of
from .run import Run
from .runner import Summary
from .shard import Kept, Shard

SHOWN = 5


@dataclass(frozen=True)
class Named:
    """How rows are named and labelled in their file."""

    id: str | None
    label: str | None  # None where labelled rows come in a file of their own
    classes: tuple[str, ...]
    file: str

    @classmethod
    def of(cls, project: Project) -> Named:
        """As the project says."""
        label = project.label if project.dev is None else None
        return cls(project.id, label, project.classes, str(project.rows))

    @property
    def columns(self) -> list[str]:
        """The columns that are read for it."""
        return [each for each in (self.id, self.label) if each is not None]


@dataclass(frozen=True, eq=False)
class Scanned:
    """What the driver knows of the rows: shards with their place in train, and the few labelled rows."""

    kept: Kept
    shards: tuple[Shard, ...]
    n_train: int
    dev: np.ndarray  # places of dev rows among all rows
    hand: np.ndarray  # places of train rows that the log labels
    tables: tuple[Any, Any]  # those rows, train first; None for none


def scan(run: Run, project: Project, wanted: Sequence[str]) -> Scanned:
    """Look at every row; `wanted` are names of rows that somebody labelled."""
    named = Named.of(project)
    stage = run.stage("rows", scan_shard, named)
    at, shards, found = 0, [], []
    for shard, each in zip(run.shards, stage):
        n_train = int(each["n_train"])
        shards.append(replace(shard, train=at, n_train=n_train))
        at += n_train
        found.append(each)
    lost = np.concatenate([each["nameless"] for each in found])
    check_named(lost, named.id, named.file, OWN_IDS)
    if not at:
        raise EpoxyError(
            f"every row of {project.rows} has a true label, so there is nothing to label; "
            "give rows without one, or name a dev file"
        )
    check_unique(run, stage.kept, named, "names")
    # apart from the first look: a label more must not make all that follows anew
    names = np.array(sorted(wanted), dtype=str)
    hand = list(run.stage("hand-rows", find_shard, stage.kept, named, names))
    return Scanned(
        stage.kept,
        tuple(shards),
        at,
        np.concatenate([each["dev"] for each in found]),
        np.concatenate([each["hand"] for each in hand]),
        (
            joined_tables([each["rows"] for each in hand]),
            joined_tables([each["rows"] for each in found]),
        ),
    )


def scan_shard(shard: Shard, kept: Kept, named: Named) -> Summary:
    """Which rows of a shard are train rows, and those that are dev rows, whole."""
    import pyarrow as pa

    labelled, hashes, lost = [], [], [np.empty(0, dtype=np.intp)]
    at = shard.start
    for batch in read_shard(shard, named.columns) if named.columns else ():
        labelled.append(_labelled(batch, named, at))
        if named.id is not None:
            hashes.append(hashes_of(batch.column(named.id).cast(pa.string())))
            lost.append(at + nameless(batch.column(named.id).to_pylist()))
        at += len(batch)
    dev = np.concatenate(labelled) if labelled else np.zeros(len(shard), dtype=bool)
    if named.id is not None:
        ids = np.concatenate(hashes)
        kept.save(shard, ids=ids, hashes=np.sort(ids))
    kept.save(shard, train=~dev)
    return {
        "n_train": np.array(np.count_nonzero(~dev)),
        "dev": shard.start + np.flatnonzero(dev),
        "rows": _packed(shard, dev),
        "nameless": np.concatenate(lost),
    }


def find_shard(shard: Shard, kept: Kept, rows: Kept, named: Named, wanted: np.ndarray) -> Summary:
    """Train rows of a shard by their names, whole."""
    import pyarrow as pa

    if named.id is None:
        places = np.array([int(each) for each in wanted if str(each).isdigit()], dtype=np.int64)
        hit = np.isin(np.arange(shard.start, shard.stop), places)
    else:
        hit = np.isin(rows.load(shard, "ids"), hashes_of(pa.array(wanted.tolist(), pa.string())))
    hit &= rows.load(shard, "train")
    return {"hand": shard.start + np.flatnonzero(hit), "rows": _packed(shard, hit)}


def _labelled(batch: Any, named: Named, at: int) -> np.ndarray:
    if named.label is None:
        return np.zeros(len(batch), dtype=bool)
    ids = None if named.id is None else batch.column(named.id)
    column = batch.column(named.label)
    found = checked_labels(column, named.classes, named.file, start=at, ids=ids)
    return np.array([value is not None for value in found.tolist()], dtype=bool)


def twice(run: Run, project: Project, rows: ProjectRows) -> list[str]:
    """Rows that the rows file and a dev file of its own have in common, as a session says it."""
    if project.dev is None:
        return []
    ids, texts = rows.ids[1].astype(str), np.empty(0, dtype=str)
    if project.column is not None:
        said = rows.tables[1].column(project.column).to_pylist()
        texts = np.array(["" if each is None else str(each) for each in said])
    stage = run.stage("twice", twice_shard, (project.id, project.column), (ids, texts))
    named, same = stage.total("named", "same")
    return in_both_files(sorted(ids[named].tolist()), ids[same].tolist())


def twice_shard(
    shard: Shard, kept: Kept, columns: tuple[str | None, ...], wanted: tuple[np.ndarray, ...]
) -> Summary:
    """Which of some ids and texts the rows of a shard hold in their columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = [np.zeros(len(wanted[0]), dtype=bool) for _ in wanted]
    for at, (name, values) in enumerate(zip(columns, wanted)):
        if name is not None:
            cells = table_of(shard, [name]).column(0).cast(pa.string())
            hits = pc.is_in(pa.array(values.tolist(), pa.string()), value_set=cells)
            found[at] = hits.to_numpy(zero_copy_only=False) & (values != "")
    return {"named": found[0], "same": found[1]}


def hashes_of(names: Any) -> np.ndarray:
    """64 bits of each name: enough to tell any number of rows that fits on a disk."""
    whole = b"".join(
        hashlib.blake2b(str(each).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for each in names.to_pylist()
    )
    return np.frombuffer(whole, dtype=np.uint64)


def take_shard(
    shard: Shard, kept: Kept, rows: Kept, columns: list[str] | None, places: np.ndarray
) -> Summary:
    """Some columns of some train rows, by their places among train rows."""
    train = np.flatnonzero(rows.load(shard, "train"))
    mine = places[(places >= shard.train) & (places < shard.train + shard.n_train)] - shard.train
    chosen = np.zeros(len(shard), dtype=bool)
    chosen[train[mine]] = True
    return {"rows": _packed(shard, chosen, columns)}


def _packed(shard: Shard, chosen: np.ndarray, columns: list[str] | None = None) -> np.ndarray:
    """Some rows of a shard as the bytes of an Arrow stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    writer, at = None, 0
    for batch in read_shard(shard, columns) if chosen.any() else ():
        part = chosen[at : at + len(batch)]
        at += len(batch)
        if writer is None:
            writer = pa.ipc.new_stream(sink, batch.schema)
        if part.any():
            writer.write_batch(batch.filter(pa.array(part)))
    if writer is not None:
        writer.close()
    return np.frombuffer(sink.getvalue().to_pybytes(), dtype=np.uint8)


def joined_tables(parts: Sequence[np.ndarray]) -> Any:
    """The rows that were packed, as one table; None for none."""
    import pyarrow as pa

    tables = [pa.ipc.open_stream(each.tobytes()).read_all() for each in parts if len(each)]
    return pa.concat_tables(tables) if tables else None


def check_unique(run: Run, kept: Kept, named: Named, stage: str) -> None:
    """Ids name rows, so no two rows may share one; looked for a stretch of hashes at a time."""
    if named.id is None:
        return
    twice = run.stage(stage, check_names, kept, run.shards)
    both = np.concatenate([each["twice"] for each in twice])
    if len(both):
        found = _named_by(run.shards, kept, both[:SHOWN], named.id)
        raise AlignmentError(
            f"{named.file} names {len(both)} rows twice in its column {named.id!r}: {found}; {OWN_IDS}"
        )


def check_names(shard: Shard, kept: Kept, names: Kept, shards: tuple[Shard, ...]) -> Summary:
    """Hashes that occur twice, among all shards' hashes in this shard's share of their range."""
    share = (1 << 64) // len(shards)
    low, high = shard.number * share, (shard.number + 1) * share - 1
    last = shard.number == len(shards) - 1
    parts = []
    for each in shards:
        every = names.mapped(each, "hashes")
        first = np.searchsorted(every, np.uint64(low))
        end = len(every) if last else np.searchsorted(every, np.uint64(high), "right")
        parts.append(np.array(every[first:end]))
    mine = np.sort(np.concatenate(parts))
    return {"twice": np.unique(mine[1:][mine[1:] == mine[:-1]])}


def _named_by(shards: Sequence[Shard], kept: Kept, hashes: np.ndarray, column: str) -> list[Any]:
    """The ids with these hashes."""
    found: dict[int, Any] = {}
    for shard in shards:
        for row in np.flatnonzero(np.isin(kept.load(shard, "ids"), hashes)).tolist():
            ids = table_of(shard, [column]).column(column)
            found.setdefault(row, ids[row].as_py())
        if len(found) >= len(hashes):
            break
    return list(dict.fromkeys(found.values()))[:SHOWN]


# rows drawn at random


def first_unlabelled(run: Run, kept: Kept, project: Project, labelled: np.ndarray) -> int:
    """The first row in the order of the draw that is not among those labelled, as its digest."""
    stage = run.stage("drawn", draw_shard, kept, project.id, labelled)
    return min((int(each["first"]) for each in stage), default=1 << 64)


def draw_shard(
    shard: Shard, kept: Kept, rows: Kept, column: str | None, labelled: np.ndarray
) -> Summary:
    """The least digest of rows of a shard that are not labelled."""
    least, at = (1 << 64) - 1, shard.start
    known = set(labelled.tolist())
    for names in _names(shard, column):
        for name in names:
            if at not in known:
                least = min(least, random_digest(ROWS_FILE, name))
            at += 1
    return {"first": np.array(least, dtype=np.uint64)}


def _names(shard: Shard, column: str | None) -> Iterator[Sequence[Any]]:
    if column is None:
        yield range(shard.start, shard.stop)
        return
    for batch in read_shard(shard, [column]):
        yield batch.column(column).to_pylist()
