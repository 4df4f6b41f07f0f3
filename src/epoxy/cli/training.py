"""`epoxy train`: an end model on the project's labels, saved, and used on new rows."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ParameterError, UnknownName
from .output import say, write_json
from .project import folder_argument, open_project

__all__ = ["arguments", "run"]

KINDS = ("linear", "knn", "fine-tuned")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy train`."""
    folder_argument(parser)
    parser.add_argument(
        "--model",
        default="linear",
        metavar="KIND",
        help="linear (default), knn, fine-tuned, or fine-tuned:NETWORK",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to save (default: DIR/model)"
    )
    parser.add_argument("--labels", choices=("fusion", "epoxy"), help="default: as epoxy.toml says")
    parser.add_argument("--predict", type=Path, metavar="FILE", help="rows to label with it")
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="where to write them (.parquet, .csv)"
    )


def run(options: argparse.Namespace) -> None:
    """Fit an end model on soft labels, save it, and label new rows if asked."""
    from ..session.labels import fit_model

    kind, _, network = options.model.partition(":")
    if kind not in KINDS:
        raise UnknownName.of("end model", kind, KINDS)
    if options.predict is not None and options.to is None:
        raise ParameterError("--predict needs a file to write to; add --to labels.parquet")
    session = open_project(options)
    train = session.split("train")
    soft = fit_model(session, options.labels).predict_proba(train)
    start = time.perf_counter()
    head = _head(kind, network or None, session)
    rows = _inputs(kind, session, train)
    dev = session.split("dev") if "dev" in session.names else None
    if kind == "fine-tuned" and dev is not None:
        known = np.flatnonzero(dev.labelled)
        texts = [
            session.rows.tables[1].column(session.project.column)[int(at)].as_py() for at in known
        ]
        head.fit(rows, soft, dev=(texts, np.asarray(dev.classes)[dev.y[known]]))
    else:
        head.fit(rows, soft)
    seconds = time.perf_counter() - start
    folder = options.out or session.project.folder / "model"
    head.save(folder)
    data: dict[str, Any] = {"model": options.model, "folder": str(folder), "seconds": seconds}
    say(f"trained {options.model} on {train.n_rows} labelled rows in {seconds:.1f} s: {folder}")
    if dev is not None and kind != "fine-tuned":
        data["scores"] = _dev_scores(head, dev)
        say(f"  on dev: accuracy {data['scores']['accuracy']:.3f}")
    if options.predict is not None:
        data["file"] = str(_predict(head, kind, session, options))
        say(f"  labels of {options.predict}: {data['file']}")
    write_json(data, options.json)


def _head(kind: str, network: str | None, session: Any) -> Any:
    from .. import heads

    if kind == "linear":
        return heads.LinearHead(classes=session.classes)
    if kind == "knn":
        return heads.NearestNeighbors(classes=session.classes)
    return heads.FineTuned(network, classes=session.classes)


def _inputs(kind: str, session: Any, split: Any) -> Any:
    if kind == "fine-tuned":
        if session.project.column is None:
            raise ParameterError(
                "fine-tuning needs a text column; name it under [vectors] in epoxy.toml"
            )
        return session.rows.tables[0].column(session.project.column).to_pylist()
    if split.vectors is None:
        raise ParameterError("this end model needs vectors; choose an encoder in epoxy.toml")
    return split.vectors


def _dev_scores(head: Any, dev: Any) -> dict[str, float]:
    from ..diagnostics import scores

    return scores(head.predict_proba(dev.vectors), dev.y, dev.classes)


def _predict(head: Any, kind: str, session: Any, options: argparse.Namespace) -> Path:
    """Label new rows, embedded as the project's rows were."""
    import pyarrow as pa

    from ..encoders import embed
    from ..session.labels import write_table
    from ..session.project import read_rows

    project = session.project
    table = read_rows(options.predict)
    if kind == "fine-tuned":
        rows: Any = table.column(project.column).to_pylist()
    else:
        if project.encoder.endswith(".npy"):
            raise ParameterError(
                f"{project.folder} has vectors from a file, so new rows cannot be embedded; "
                "use an encoder by name"
            )
        cache = project.cache / "vectors"
        vectors = embed(
            project.encoder, session.rows.tables[0], table, column=project.column, cache=cache
        )
        rows = vectors[1]
    proba = head.predict_proba(rows)
    best = proba.argmax(axis=1)
    ids = (
        table.column(project.id) if project.id in table.column_names else np.arange(table.num_rows)
    )
    columns: dict[str, Any] = {"id": ids, "label": np.asarray(session.classes)[best]}
    columns |= {f"p_{name}": proba[:, at] for at, name in enumerate(session.classes)}
    return write_table(
        pa.table(columns), options.to, "csv" if options.to.suffix == ".csv" else "parquet"
    )
