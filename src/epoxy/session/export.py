"""The end of the line: every row with its label, as a table to train on or to hand over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import not_heard
from ..engines import Outcome, Scores
from ..errors import MissingExtra, NotIdentifiable, ParameterError, StoreError, UnknownName
from ..model import Epoxy
from ..neighbors import Recall
from ..progress import silent
from ..sequences.element_model import ElementModel
from ..sequences.layout import layout_of
from ..storage import write_whole
from ..votes import ABSTAIN
from ..workspace import TRAIN

if TYPE_CHECKING:
    from .session import Session

WRITTEN = 1 << 16
"""Rows that are written at a time."""
FORMATS = ("parquet", "csv", "jsonl", "huggingface")
_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def export(
    session: Session,
    path: str | Path,
    kind: str | None = None,
    *,
    columns: Sequence[str] = (),
    raw: bool = False,
) -> Path:
    """Write every row of the session's rows file, labelled by a refit of its state from scratch.

    `columns` are columns of the rows file to write as well; `raw` leaves CSV cells as they are that a
    spreadsheet would run.
    """
    chosen = format_of(Path(path), kind)
    return write_table(label_tables(session, columns), path, chosen, raw=raw)


def format_of(target: Path, kind: str | None = None) -> str:
    """The format asked for, or that of the file's ending."""
    if kind is not None and kind not in FORMATS:
        raise UnknownName.of("format", kind, FORMATS)
    chosen = kind or _ENDINGS.get(target.suffix)
    if chosen is None:
        raise ParameterError(
            f"the format of {target} is not clear from its ending; "
            "use .parquet, .csv, .jsonl, or name the format"
        )
    return chosen


def export_labels(session: Session, path: Path, *, new: bool = False) -> Labelled:
    """Write the labels of a session's rows, or of the new rows it was opened with, and tell of them."""
    if not new:
        return Labelled.of(session, export(session, path))
    at = len(session.state.workspace.splits) - 1
    write_table(label_tables(session, at=at), path, format_of(path))
    found = replace(Labelled.of(session, path), covered=None)
    return replace(found, rows=session.state.workspace.splits[at].n_rows)


def label_tables(
    session: Session, more: Sequence[str] = (), *, at: int | None = None
) -> Iterator[Any]:
    """One line per row: id, label, its probability, all probabilities, the votes it rests on, its truth.

    Some rows after the other, as they stand in their file. `more` names columns of the rows file that come
    after these, `at` another split than those of the rows file. A hand label that is trusted is the truth and
    the label; the probabilities stay the model's.
    """
    import pyarrow as pa

    outcome = session.refit()
    if outcome.problem:
        raise NotIdentifiable(outcome.problem)
    workspace = outcome.workspace
    every: Sequence[int] = (TRAIN,) if at is None else (at,)
    if at is None and session.rows_of_one_file:
        every = range(len(session.names))
    sizes = [workspace.splits[each].n_rows for each in every]
    order = np.argsort(session.file_order[: sum(sizes)], kind="stable")
    if at is not None:
        order = np.arange(sizes[0])
    starts, labels = np.cumsum([0, *sizes]), workspace.labels
    report = silent if session.folder is None else session.folder.report("writing labels")
    report(0, max(1, len(order)))
    for begin in range(0, max(1, len(order)), WRITTEN):
        some = order[begin : begin + WRITTEN]
        mine = [some[(some >= low) & (some < high)] - low for low, high in pairwise(starts)]
        place = np.argsort(np.argsort(some, kind="stable"), kind="stable")
        in_turn = [np.sort(each) for each in mine]  # split after split, and each in its order

        def gathered(
            of: Callable[[int, np.ndarray], np.ndarray], rows: Any = in_turn, place: Any = place
        ) -> np.ndarray:
            return np.asarray(np.concatenate([of(*each) for each in zip(every, rows)])[place])

        proba = gathered(lambda split, rows: outcome.proba[split][rows])
        label = gathered(lambda split, rows: outcome.decided[split][rows])
        own = gathered(lambda split, rows: _cast([e.own[split] for e in workspace.active], rows))
        both = gathered(lambda split, rows: _cast(outcome.extended[split].columns, rows))
        given = gathered(lambda split, rows: labels.y[split][rows])
        wrong = gathered(lambda split, rows: labels.wrong[split][rows])
        ids = gathered(lambda split, rows: np.asarray(workspace.splits[split].ids)[rows])
        truth, counts = np.where(wrong == 0, given, ABSTAIN), (own, both - own)
        columns = label_columns(session.classes, ids, proba, label, counts, given, truth)
        for name in more:
            if name in columns:
                raise ParameterError(
                    f"the labels have a column {name!r} of their own; rename that of the rows to write both"
                )
            columns[name] = _given(session, name, every, some)
        yield pa.table(columns)
        report(min(begin + WRITTEN, len(order)), max(1, len(order)))


def _cast(columns: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """How many sources vote on some rows."""
    return np.sum([each[rows] != ABSTAIN for each in columns], axis=0, dtype=np.int64) + np.zeros(
        len(rows), np.int64
    )


def label_columns(
    classes: Sequence[str],
    ids: Any,
    proba: np.ndarray,
    label: np.ndarray,
    votes: tuple[np.ndarray, np.ndarray],
    given: np.ndarray,
    truth: np.ndarray,
) -> dict[str, Any]:
    """The columns of an export: `votes` counts own votes and lent ones, −1 is no label given, no truth."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        "id": ids,
        "label": np.asarray(classes)[label],
        "probability": proba[np.arange(len(label)), label],
    }
    columns |= {f"p_{name}": proba[:, at] for at, name in enumerate(classes)}
    columns |= {"votes": votes[0], "lent_votes": votes[1], "hand_labelled": given != ABSTAIN}
    names = [None if each == ABSTAIN else classes[each] for each in truth.tolist()]
    columns["truth"] = pa.array(names, pa.string())
    return columns


def _given(session: Session, name: str, every: Sequence[int], order: np.ndarray) -> Any:
    """A column of the rows file, null for rows appended since."""
    import pyarrow as pa

    if session.folder is None:
        raise ParameterError(
            "columns are those of a project's rows file, and this session has none; "
            "open a folder: Session.open(DIR)"
        )
    tables = session.folder.rows.tables
    if name not in tables[TRAIN].column_names:
        raise UnknownName.of("column of the rows", name, tables[TRAIN].column_names)
    parts = []
    for at in every:
        found = tables[at].column(name)
        n_more = session.state.workspace.splits[at].n_rows - len(found)
        parts += [*found.chunks, pa.nulls(n_more, found.type)]
    return pa.chunked_array(parts).take(pa.array(order))


def write_table(tables: Any, path: str | Path, kind: str, *, raw: bool = False) -> Path:
    """Write a table, or some one after the other, as Parquet, CSV, JSON lines or a Hugging Face dataset.

    A whole file or none.
    """
    import pyarrow as pa

    target = Path(path)
    parts = iter([tables] if isinstance(tables, pa.Table) else tables)
    if kind == "csv" and not raw:
        parts = map(_inert, parts)
    first = next(parts)  # what is wrong with the labels is not said of the file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if kind == "huggingface":
            return _write_dataset(pa.concat_tables([first, *parts]), target)
        write_whole(target, lambda path: _WRITERS[kind](chain([first], parts), first.schema, path))
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{target} cannot be written: {error}; choose another place") from error
    return target


def _inert(table: Any) -> Any:
    """The table with a quote before every text that a spreadsheet would take for a formula."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def quoted(column: Any) -> Any:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return column
        runs = pc.match_substring_regex(column, "^[=+@\t\r-]")
        empty = pa.scalar("", column.type)
        safe = pc.binary_join_element_wise(pa.scalar("'", column.type), column, empty)
        return pc.if_else(runs, safe, column)

    names = [f"'{name}" if name[:1] in "=+@\t\r-" and name else name for name in table.column_names]
    return pa.table([quoted(column) for column in table.columns], names=names)


def _write_parquet(tables: Iterable[Any], schema: Any, path: Path) -> None:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(path, schema) as file:
        for table in tables:
            file.write_table(table)


def _write_csv(tables: Iterable[Any], schema: Any, path: Path) -> None:
    import pyarrow.csv

    with pyarrow.csv.CSVWriter(path, schema) as file:
        for table in tables:
            file.write_table(table)


def _write_jsonl(tables: Iterable[Any], schema: Any, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for table in tables:
            for row in table.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


def _write_dataset(table: Any, path: Path) -> Path:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra.of("the huggingface format", "datasets", "datasets") from error
    datasets.Dataset(table).save_to_disk(str(path))
    return path


_WRITERS = {"parquet": _write_parquet, "csv": _write_csv, "jsonl": _write_jsonl}


@dataclass(frozen=True)
class Labelled:
    """What a run wrote, by which model, and how good it is."""

    path: Path
    rows: int
    model: str
    covered: tuple[float, float] | None  # train rows with a vote: before extension, and after
    scores: Scores
    notes: tuple[str, ...] = ()  # what a person should know
    failed: tuple[str, ...] = ()  # functions without a vote
    recall: Recall | None = None  # of approximate neighbours; None where they are exact
    sequences: int = 0  # that rows are read in; 0 where each is read on its own

    @classmethod
    def of(cls, session: Session, path: Path) -> Labelled:
        """What a session exported to `path`."""
        train = session.split("train")
        written = session.names if session.rows_of_one_file else session.names[:1]
        return cls(
            path,
            sum(session.split(name).n_rows for name in written),
            type(session.model_template).__name__,
            (float(train.votes.covered.mean()), float(session.votes.covered.mean())),
            session.scores,
            session.notes,
            session.failed,
            session.state.workspace.near.recall,
            _sequences(session),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        before, after = (None, None) if self.covered is None else self.covered
        return {
            "rows": self.rows,
            "file": str(self.path),
            "model": self.model,
            "covered_before": before,
            "covered_after": after,
            "sequences": self.sequences,
            "scores": dict(self.scores),
            "recall": None if self.recall is None else self.recall.value,
            "notes": list(self.notes),
            "failed": list(self.failed),
        }

    def lines(self) -> list[str]:
        """Coverage, scores and notes, a line each."""
        told = []
        if self.covered is not None:
            before, after = self.covered
            told.append(f"  rows with a vote: {before:.1%}, {after:.1%} after extension")
        if self.sequences:
            told.append(f"  rows are read in order, in {self.sequences} sequences")
        scored = self.scores
        if not scored:
            told.append(f"  no scores: {scored.why}")
        else:
            told.append(
                f"  on {scored['rows']:.0f} labelled rows, held out: {scored.line('label')}"
            )
            told += [f"  ({scored.why})"] if scored.why else []
        return told + [f"! {note}" for note in self.notes]


def notes_of(off: Sequence[str], outcome: Outcome, recall: Recall | None) -> list[str]:
    """What is said of sources that are switched off or not heard, and of neighbours that may be missing."""
    notes = [f"switched off, and so without a say: {', '.join(off)}"] if off else []
    notes += map(str, not_heard(outcome.unheard, outcome.defended))
    return notes if recall is None else [*notes, f"neighbours are approximate: {recall}"]


def _sequences(session: Session) -> int:
    """How many sequences the model reads rows in; 0 where it reads each on its own."""
    votes, model = session.split("train").votes, session.model_template
    chained = isinstance(model, Epoxy) and isinstance(model.label_model, ElementModel)
    in_order = chained or session.engine.name == "fusion"
    return len(layout_of(votes, None).starts) if in_order and votes.sequences is not None else 0
