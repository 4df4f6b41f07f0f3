"""`epoxy train`: an end model on the project's labels, saved, and used on new rows.

Beside the model stands `vectors.json`, what decided the vectors it was trained on: a linear layer on
vectors of another encoder, or of lsa fitted on other rows, would answer and be wrong.
"""

from __future__ import annotations

import json as to_json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from ..errors import ParameterError, StoreError, UnknownName
from .options import Home, Json, app, folder_of, open_project
from .screen import say, write_json

if TYPE_CHECKING:
    import numpy as np

    from ..session import Session

KINDS = ("linear", "knn", "fine-tuned")
_RECORD = "vectors.json"


@app.command()
def train(
    folder: Home,
    model: Annotated[
        str, Option(metavar="KIND", help="linear, knn, fine-tuned, or fine-tuned:NETWORK")
    ] = "linear",
    out: Annotated[
        Path | None, Option(metavar="DIR", help="where to save (default: DIR/model)")
    ] = None,
    labels: Annotated[
        Literal["fusion", "epoxy"] | None, Option(help="default: as epoxy.toml says")
    ] = None,
    predict: Annotated[Path | None, Option(metavar="FILE", help="rows to label with it")] = None,
    to: Annotated[
        Path | None, Option(metavar="FILE", help="where to write them (.parquet, .csv, .jsonl)")
    ] = None,
    saved: Annotated[
        bool, Option("--saved", help="label with the model saved before; train nothing")
    ] = False,
    json: Json = None,
) -> None:
    """Fit an end model on the labels, save it, and label new rows with it.

    A linear layer or nearest neighbours on the vectors, or a pre-trained network fine-tuned on the
    probabilities (needs the torch extra). Saved without pickle.

    \b
      epoxy train spam/ --model linear --predict tomorrow.csv --to labels.csv
    """
    _check(model, out, predict, to, saved)
    session = open_project(folder, labels)
    place = out or folder_of(session).project.folder / "model"
    rows = None if predict is None else _new_rows(session, predict)
    data: dict[str, Any] = {"folder": str(place)}
    head = _saved(session, place) if saved else _trained(model, session, place, data)
    if rows is not None and to is not None:
        data["file"] = str(_predict(head, session, rows, to))
        say(f"  labels of {predict}: {data['file']}")
    write_json(data, json)


def _check(
    model: str, out: Path | None, predict: Path | None, to: Path | None, saved: bool
) -> None:
    """Everything that can be wrong before minutes of training."""
    from ..session.export import format_of

    kind, _, network = model.partition(":")
    if kind not in KINDS:
        raise UnknownName.of("end model", kind, KINDS)
    if network and kind != "fine-tuned":
        raise ParameterError(f"--model {model}: only fine-tuned:NETWORK names a network")
    if predict is not None and to is None:
        raise ParameterError("--predict needs a file to write to; add --to labels.parquet")
    if predict is None and (to is not None or saved):
        raise ParameterError("--to and --saved are about new rows; add --predict FILE")
    if to is not None:
        format_of(to)
    if out is not None and out.is_file():
        raise StoreError(f"--out {out} is a file; name a folder for the model")
    if predict is not None and not predict.is_file():
        raise StoreError(f"--predict {predict}: there is no such file; check the path")


def _trained(model: str, session: Session, folder: Path, data: dict[str, Any]) -> Any:
    """Fit and save; what was done goes into `data`."""
    train = session.split("train")
    targets, taught = _targets(session)
    start = time.perf_counter()
    head = _head(model, session)
    dev = session.split("dev") if "dev" in session.names else None
    if _reads_text(head):
        texts = _texts(session, folder_of(session).rows.tables[0])
        head.fit([texts[row] for row in taught], targets, dev=_dev_texts(session, dev))
    else:
        if train.vectors is None:
            raise ParameterError("this end model needs vectors; choose an encoder in epoxy.toml")
        head.fit(train.vectors[taught], targets)
    seconds = time.perf_counter() - start
    head.save(folder)
    if not _reads_text(head):
        (folder / _RECORD).write_text(to_json.dumps(_origin(session), indent=1) + "\n", "utf-8")
    say(f"trained {model} on {len(taught)} labelled rows in {seconds:.1f} s: {folder}")
    data |= {"model": model, "rows": len(taught), "seconds": seconds}
    if dev is not None and not _reads_text(head):
        from ..scoring import scores

        data["scores"] = scores(head.predict_proba(dev.vectors), dev.y, dev.classes)
        say(
            f"  on dev: accuracy {data['scores']['accuracy']:.3f}; dev rows helped to make its labels, so "
            "on new rows expect less"
        )
    return head


def _targets(session: Session) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and the train rows they are of.

    Epoxy has nothing but the class balance to say where no function speaks, so such rows teach
    nothing and are left out; Fusion answers for every row.
    """
    import numpy as np

    proba = session.probabilities
    taught = np.arange(len(proba))
    if session.engine.name == "epoxy":
        taught = np.flatnonzero(session.votes.covered)
    return proba[taught], taught


def _head(model: str, session: Session) -> Any:
    from .. import heads
    from ..progress import bar

    kind, _, network = model.partition(":")
    if kind == "linear":
        return heads.LinearHead(classes=session.classes)
    if kind == "knn":
        return heads.NearestNeighbors(classes=session.classes)
    return heads.FineTuned(network or None, classes=session.classes, progress=bar("fine-tuning"))


def _reads_text(head: Any) -> bool:
    from ..heads import FineTuned

    return isinstance(head, FineTuned)


def _texts(session: Session, table: Any) -> list[Any]:
    from ..encoders import column_of

    if folder_of(session).project.column is None:
        raise ParameterError(
            "fine-tuning needs a text column; name it under [vectors] in epoxy.toml"
        )
    return list(column_of(table, folder_of(session).project.column))


def _dev_texts(session: Session, dev: Any) -> tuple[list[Any], np.ndarray] | None:
    """The dev rows early stopping looks at."""
    import numpy as np

    if dev is None or not dev.labelled.any():
        return None
    known = np.flatnonzero(dev.labelled)
    texts = _texts(session, folder_of(session).rows.tables[1])
    return [texts[row] for row in known], np.asarray(dev.classes)[dev.y[known]]


def _new_rows(session: Session, file: Path) -> Any:
    """Rows to label; what they lack is said now, not after training."""
    from ..encoders import column_of
    from ..project.tables import read_rows

    table = read_rows(file)
    if folder_of(session).project.column is not None:
        column_of(table, folder_of(session).project.column)
    return table


def _saved(session: Session, folder: Path) -> Any:
    """The model saved before, if this project's vectors are still those it was trained on."""
    from ..heads import load

    head = load(folder)
    if _reads_text(head):
        return head
    try:
        known = to_json.loads((folder / _RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        known = None
    if known != _origin(session):
        raise StoreError(
            f"the model in {folder} was trained on vectors of another encoder or of other rows; "
            "train it again without --saved"
        )
    return head


def _origin(session: Session) -> dict[str, Any]:
    """What decides a vector of this project; the encoder learns from the train rows where it must."""
    project = folder_of(session).project
    encoder = project.encoder
    if encoder.endswith(".npy"):
        return {"encoder": encoder, "identity": None}
    return {"encoder": encoder, "identity": _encoder(session).identity}


def _encoder(session: Session) -> Any:
    """The project's encoder, as it has learned from the train rows."""
    from ..encoders import resolve
    from ..project.vectors import fitted_encoder

    project = folder_of(session).project
    if project.encoder.endswith(".npy"):
        raise ParameterError(
            f"{project.folder} has vectors from a file, so new rows cannot be embedded; "
            "use an encoder by name"
        )
    return fitted_encoder(project, folder_of(session).rows.tables[0], resolve(project.encoder))


def _predict(head: Any, session: Session, table: Any, target: Path) -> Path:
    """Label new rows, embedded as the project's rows were."""
    import numpy as np
    import pyarrow as pa

    from ..progress import silent
    from ..project.vectors import encoded
    from ..session.export import format_of, write_table

    if _reads_text(head):
        rows: Any = _texts(session, table)
    else:
        rows = encoded(folder_of(session).project, _encoder(session), table, silent)
    proba = head.predict_proba(rows)
    best = proba.argmax(axis=1)
    name = folder_of(session).project.id
    ids = table.column(name) if name in table.column_names else np.arange(table.num_rows)
    columns: dict[str, Any] = {"id": ids, "label": np.asarray(session.classes)[best]}
    columns |= {f"p_{name}": proba[:, at] for at, name in enumerate(session.classes)}
    return write_table(pa.table(columns), target, format_of(target))
