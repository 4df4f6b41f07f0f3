"""The end of the line: every row with its label, as a table to train on or to hand over."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingExtra, StoreError, UnknownName
from ..votes import Split, Votes

__all__ = ["FORMATS", "fit_model", "label_table", "write_table"]

FORMATS = ("parquet", "csv", "jsonl", "huggingface")


def fit_model(session: Any, kind: str | None = None) -> Any:
    """The model that labels the rows: `fusion` (votes, vectors, true labels) or `epoxy` (the paper)."""
    chosen = kind or (session.project.model if session.project is not None else "epoxy")
    if chosen == "epoxy":
        return session.model()
    if chosen != "fusion":
        raise UnknownName.of("model", chosen, ["fusion", "epoxy"])
    from ..fusion import Fusion

    dev = None if len(session.names) < 2 else session.split("dev")
    metric = "f1" if session.positive else "accuracy"
    model = Fusion(metric=metric, positive=session.positive)
    return model.fit(session.split("train"), dev)


def label_table(model: Any, split: Split, votes: Votes | None = None) -> Any:
    """One line per row: id, label, its probability, all probabilities, and how many votes it rests on."""
    import pyarrow as pa

    proba = model.predict_proba(split)
    best = model.decide(proba) if hasattr(model, "decide") else proba.argmax(axis=1)
    extended = split.votes if votes is None else votes
    own = split.votes.cast.sum(axis=1)
    columns: dict[str, Any] = {
        "id": np.asarray(split.ids),
        "label": np.asarray(split.classes)[best],
        "probability": proba[np.arange(len(best)), best],
    }
    columns |= {f"p_{name}": proba[:, at] for at, name in enumerate(split.classes)}
    columns |= {"votes": own, "lent_votes": extended.cast.sum(axis=1) - own}
    if split.labelled.any():
        known = split.y if split.y is not None else np.empty(0, int)
        names = [None if each < 0 else split.classes[each] for each in known]
        columns["truth"] = pa.array(names, pa.string())
    return pa.table(columns)


def write_table(table: Any, path: str | Path, kind: str) -> Path:
    """Write as Parquet, CSV, JSON lines or a Hugging Face dataset; a whole file or none."""
    if kind not in FORMATS:
        raise UnknownName.of("format", kind, FORMATS)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind == "huggingface":
        return _write_dataset(table, target)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _WRITERS[kind](table, beside)
        beside.replace(target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error}") from error
    finally:
        beside.unlink(missing_ok=True)
    return target


def _write_parquet(table: Any, path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path)


def _write_csv(table: Any, path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table, path)


def _write_jsonl(table: Any, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in table.to_pylist():
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_dataset(table: Any, path: Path) -> Path:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra.of("the huggingface format", "datasets", "datasets") from error
    datasets.Dataset(table).save_to_disk(str(path))
    return path


_WRITERS = {"parquet": _write_parquet, "csv": _write_csv, "jsonl": _write_jsonl}
