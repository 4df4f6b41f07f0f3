"""Commands on a project folder; all they know is the session."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from ..errors import ParameterError
from .output import say, write_json

__all__ = [
    "explain",
    "explain_arguments",
    "export",
    "export_arguments",
    "folder_argument",
    "label",
    "label_arguments",
    "need_dev",
    "new",
    "new_arguments",
    "open_project",
    "report",
    "report_arguments",
]

_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def folder_argument(parser: argparse.ArgumentParser) -> None:
    """The project folder every command but `new` and `demo` starts from."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a project folder (see epoxy new)")


def new_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy new`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="where to make the project")
    parser.add_argument(
        "--rows", type=Path, required=True, metavar="FILE", help="the rows to label"
    )
    parser.add_argument(
        "--classes", metavar="A,B,…", help="class names; else those of the label column"
    )
    parser.add_argument("--text", metavar="COLUMN", help="the column to embed (default: text)")
    parser.add_argument("--id", metavar="COLUMN", help="the column that names rows (default: id)")
    parser.add_argument(
        "--label", metavar="COLUMN", help="true labels where known (default: label)"
    )
    parser.add_argument("--dev", metavar="FILE", help="a separate file of rows with true labels")
    parser.add_argument("--sequence", metavar="COLUMN", help="sequence ids, for rows in order")
    parser.add_argument("--position", metavar="COLUMN", help="places of rows in their sequence")
    parser.add_argument(
        "--encoder", help="lsa (default), text, text:MODEL, image:MODEL, or a .npy file"
    )
    parser.add_argument("--positive", metavar="CLASS", help="the class F1 is of (two classes)")


def new(options: argparse.Namespace) -> None:
    """Make a project folder."""
    from ..session.project import new_project

    classes = None if options.classes is None else [c.strip() for c in options.classes.split(",")]
    made = new_project(
        options.folder,
        options.rows,
        classes=classes,
        options={
            "id": options.id,
            "label": options.label,
            "dev": options.dev,
            "column": options.text,
            "sequence": options.sequence,
            "position": options.position,
            "encoder": options.encoder,
            "positive": options.positive,
        },
    )
    say(f"made {made.folder}: write labeling functions in {made.folder / 'lfs.py'}, then")
    say(f"  epoxy label {made.folder}")
    write_json({"folder": str(made.folder), "classes": list(made.classes)}, options.json)


def label_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy label`."""
    folder_argument(parser)
    parser.add_argument("--model", choices=("fusion", "epoxy"), help="default: as epoxy.toml says")


def label(options: argparse.Namespace) -> None:
    """Label every row of a project."""
    from ..session.labels import fit_model, label_table, write_table

    session = open_project(options)
    start = time.perf_counter()
    model = fit_model(session, options.model)
    split = session.split("train")
    table = label_table(model, split, session.votes)
    path = write_table(table, session.project.labels / "labels.parquet", "parquet")
    seconds = time.perf_counter() - start
    data = {
        "rows": split.n_rows,
        "file": str(path),
        "model": type(model).__name__,
        "covered_before": float(split.votes.covered.mean()),
        "covered_after": float(session.votes.covered.mean()),
        "scores": dev_scores(session, model),
        "seconds": seconds,
    }
    say(f"labelled {split.n_rows} rows with {type(model).__name__} in {seconds:.2f} s: {path}")
    say(
        f"  rows with a vote: {data['covered_before']:.1%}, {data['covered_after']:.1%} after extension"
    )
    if len(session.names) > 1 and not data["scores"]:
        few = int(session.split("dev").labelled.sum())
        say(f"  {few} dev rows are too few to hold some out and score the rest; label 10 or more")
    _say_scores(data["scores"])
    _say_failures(session)
    write_json(data, options.json)


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy report`."""
    folder_argument(parser)
    parser.add_argument("--split", choices=("train", "dev"), default="dev", help="default: dev")
    parser.add_argument("--html", metavar="FILE", help="also write the report as a page")


def report(options: argparse.Namespace) -> None:
    """Print the per-source table."""
    session = open_project(options)
    found = session.report(options.split)
    say(found)
    _say_failures(session)
    if options.html is not None:
        Path(options.html).write_text(_page(found), "utf-8")
    write_json(found.to_dict(), options.json)


def explain_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy explain`."""
    folder_argument(parser)
    parser.add_argument("row", metavar="ROW", help="the id of a row, or its position")
    parser.add_argument("--split", choices=("train", "dev"), help="default: where the row is found")


def explain(options: argparse.Namespace) -> None:
    """Explain one row."""
    session = open_project(options)
    name = options.split or _split_of(session, options.row)
    row: Any = options.row
    ids = set(session.split(name).ids.astype(str).tolist())
    if row not in ids and row.isdigit():
        row = int(row)
    found = session.explain(row, name)
    say(found)
    write_json(found.to_dict(), options.json)


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy export`."""
    from ..session.labels import FORMATS

    folder_argument(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="where to write")
    parser.add_argument("--format", choices=FORMATS, help="default: by the ending of FILE")
    parser.add_argument("--model", choices=("fusion", "epoxy"), help="default: as epoxy.toml says")


def export(options: argparse.Namespace) -> None:
    """Write labels in another format."""
    from ..session.labels import fit_model, label_table, write_table

    kind = options.format or _ENDINGS.get(options.to.suffix)
    if kind is None:
        raise ParameterError(
            f"the format of {options.to} is not clear from its ending; "
            "use .parquet, .csv, .jsonl, or --format"
        )
    session = open_project(options)
    model = fit_model(session, options.model)
    path = write_table(label_table(model, session.split("train"), session.votes), options.to, kind)
    say(f"wrote {session.split('train').n_rows} rows to {path}")
    write_json({"file": str(path), "format": kind}, options.json)


def dev_scores(session: Any, model: Any) -> dict[str, float]:
    """How good the labels are on dev, if that can be said.

    A model that learned from dev rows is scored by what it said before it saw their labels; with too
    few of them to hold some out, nothing is said.
    """
    from ..diagnostics import scores

    if len(session.names) < 2:
        return {}
    dev = session.split("dev")
    proba = model.held_out(dev) if hasattr(model, "held_out") else model.predict_proba(dev)
    if proba is None:
        return {}
    decided = model.decide(proba) if hasattr(model, "decide") else None
    return scores(proba, dev.y, dev.classes, positive=session.positive, decided=decided)


def open_project(options: argparse.Namespace) -> Any:
    """A session over the project, without the neighbours only edits need."""
    from ..session import Session

    return Session.open(options.folder, graph=False)  # read once: no edits to come


def need_dev(session: Any, who: str) -> None:
    """Refuse a project without rows of known truth."""
    if len(session.names) < 2:
        raise ParameterError(
            f"{who} needs rows with a true label, and {session.project.folder} has none; "
            "fill the label column of some rows, or name a dev file in epoxy.toml"
        )


def _split_of(session: Any, row: str) -> str:
    for name in session.names:
        if row in set(session.split(name).ids.astype(str).tolist()):
            return str(name)
    return "train"


def _say_scores(found: dict[str, float]) -> None:
    if found:
        shown = ", ".join(f"{k} {found[k]:.3f}" for k in ("accuracy", "f1", "calibration_error"))
        say(f"  on {found['rows']:.0f} dev rows: {shown}")


def _say_failures(session: Any) -> None:
    for failure in session.failures:
        say(f"! {failure}")
    if session.problem:
        say(f"! {session.problem}")


def _page(found: Any) -> str:
    style = (
        "body{font:15px/1.5 system-ui;margin:2rem auto;max-width:70rem;color-scheme:light dark}"
        "table{border-collapse:collapse}td,th{padding:.2rem .7rem;text-align:left;"
        "border-bottom:1px solid #8884}dt{font-weight:600}dd{margin:0 0 .4rem}"
    )
    body = found._repr_html_()
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{found.title}</title>"
        f"<style>{style}</style>{body}</html>"
    )
